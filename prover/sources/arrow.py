# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of Arrow's batches, of which one value that Python has no form for spoils its own row alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragseal.kernel.errors import EncodingError


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A row with a value that cannot be read: nanoseconds, a year after 9999, bytes that are not UTF-8."""

    column: str
    said: str
    rest: Mapping[str, Any]  #: what of the row can be

    def error(self, where: str) -> EncodingError:
        return EncodingError(f"{where}: the value of column {self.column!r} cannot be read: {self.said[:200]}")


def rows_of(batch: Any) -> Iterator[dict[str, Any] | Unreadable]:
    """The rows of a record batch."""
    try:
        yield from batch.to_pylist()
    except Exception:  # what it raises is of one value, and names none
        for at in range(batch.num_rows):
            yield _row(batch, at)


def require_once(names: Sequence[str], where: str) -> None:
    """Raises EncodingError: two columns have one name, of which a row would keep the last."""
    for name in names:
        if names.count(name) > 1:
            raise EncodingError(f"{where} has two columns {name!r}: rename or drop one of them")


def _row(batch: Any, at: int) -> dict[str, Any] | Unreadable:
    row: dict[str, Any] = {}
    wrong: tuple[str, str] | None = None
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            row[name] = column[at].as_py()
        except Exception as error:
            wrong = wrong or (name, f"{type(error).__name__}: {error}")
    return row if wrong is None else Unreadable(*wrong, row)

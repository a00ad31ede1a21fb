# SPDX-License-Identifier: GPL-3.0-or-later
"""From a row as a driver gives it to an :class:`Item`, refused where it cannot be a document.

Drivers convert freely and databases hold anything: a row's types are looked at here, once, for every engine.  An error
names the row, so that its owner finds it; nothing is skipped, cut or guessed.  Columns that are not read are noted.
"""

from __future__ import annotations

import datetime
import math
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import numpy as np

from ragseal.kernel.errors import AuditError, EncodingError, TransportError
from ragseal.prover.commitment.corpora import check_document
from ragseal.prover.commitment.corpus_files import Limits
from ragseal.prover.commitment.corpus_notes import Notes
from ragseal.prover.sources.interface import Item, Refused, Vector
from ragseal.prover.sources.spec import Columns
from ragseal.runtime.metadata import Plain

MAX_DIMENSION = 65535
MAX_ID_BITS = 1024  #: of an id that is a number
SECRET_NAMES = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL")  #: parts of environment variables' names
SHORTEST_SECRET = 6  #: characters; masking what is shorter would garble words

_MISSING = object()
_EXACT = 1 << 53  #: integers below it are doubles


def read_row(
    row: Mapping[str, Any],
    columns: Columns,
    where: str,
    *,
    vector: Any = None,
    metadata: Mapping[str, Any] | None = None,
) -> Item:
    """The item of one row.

    Args:
        row: by column; a name with dots leads into nested mappings.
        where: what an error calls it; the row's id is added.
        vector, metadata: where they do not stand in the row.

    Raises:
        EncodingError: id, text, title, metadata or vector of the wrong type, missing, or over a limit.
    """
    identifier = _identifier(pick(row, columns.id), columns.id, where)
    where = f"{where} (id {identifier[:80]!r})"
    text = _text(pick(row, columns.text), columns.text, where)
    title = None if columns.title is None else pick(row, columns.title)
    if title is not None and title is not _MISSING:  # a driver's array is compared with nothing
        title = _text(title, columns.title or "", where)
        text = "\n".join(part for part in (title, text) if part.strip())
    pairs = {}
    for name in columns.metadata:
        value = pick(row, name) if metadata is None else metadata.get(name)
        if value is not _MISSING and value is not None:
            pairs[name] = _value(value, name, where)
    if columns.vector is None:
        return Item(identifier, text, pairs, None, where)
    found = pick(row, columns.vector) if vector is None else vector
    taken = _vector(None if found is _MISSING else found, columns.vector, where)
    return Item(identifier, text, pairs, taken, where)


def take_row(
    row: Mapping[str, Any],
    columns: Columns,
    where: str,
    notes: Notes,
    *,
    vector: Any = None,
    also: Iterable[str] = (),
) -> Item | Refused:
    """The item of one row, or that it is none; what of the row is not kept is noted.

    Args:
        also: columns that are not read and not in ``row``.
    """
    try:
        item = read_row(row, columns, where, vector=vector)
    except EncodingError as error:
        return refused(row, columns, error)
    notes.unread([*unread(row, columns), *also])
    notes.carried(item.metadata)
    return item


def refused(row: Mapping[str, Any], columns: Columns, error: EncodingError) -> Refused:
    """A row that is no document, with its id where it has one."""
    try:
        return Refused(_identifier(pick(row, columns.id), columns.id, ""), error)
    except EncodingError:
        return Refused(None, error)


def unread(row: Mapping[str, Any], columns: Columns) -> list[str]:
    """Names of what a row has and nobody reads; of a nested mapping that is read in part, the rest of it."""
    names = set(columns.names())

    def rest(part: Mapping[str, Any], path: str) -> Iterator[str]:
        for key, value in part.items():
            name = f"{path}{key}"
            if name in names:
                continue
            if isinstance(value, Mapping) and any(one.startswith(f"{name}.") for one in names):
                yield from rest(value, f"{name}.")
            else:
                yield name

    return list(rest(row, ""))


def pick(row: Mapping[str, Any], name: str) -> Any:
    """A row's value under a name, or under its parts in nested mappings; ``_MISSING`` if there is none."""
    if name in row:
        return row[name]
    head, dot, rest = name.partition(".")
    inner = row.get(head) if dot else None
    return pick(inner, rest) if isinstance(inner, Mapping) else _MISSING


def checked(items: Iterator[Item | Refused], limits: Limits) -> Iterator[Item | Refused]:
    """A snapshot's items, each of a document that can be one, each id once; other rows are refused.

    Raises:
        EncodingError: more rows than a source may have.
    """
    seen: set[str] = set()
    for item in items:
        if isinstance(item, Refused):
            yield item
            continue
        try:
            check_document(item.where, item.document(), limits)
            if item.id in seen:
                raise EncodingError(f"{item.where}: this id occurs twice in the source")
        except EncodingError as error:
            yield Refused(item.id, error)
            continue
        if len(seen) >= limits.documents:
            raise EncodingError(f"{item.where}: more than {limits.documents} rows; split the source into tenants")
        seen.add(item.id)
        yield item


@contextmanager
def driver_errors(what: str) -> Iterator[None]:
    """Whatever a driver raises, as one line that says whose it is: drivers have error trees of their own.

    A server may quote what it was sent, so values of environment variables that are secret by their names are masked.
    """
    try:
        yield
    except AuditError:
        raise
    except (UnicodeError, OverflowError, ArithmeticError) as error:  # of values: the next try ends the same
        raise EncodingError(f"{what}: a value cannot be read: {_masked(str(error))[:200]}") from None
    except Exception as error:
        said = _masked(str(error)).strip().split("\n")[0][:300]
        raise TransportError(f"{what}: {type(error).__name__}: {said}") from None


def _masked(text: str) -> str:
    for name, value in os.environ.items():
        if len(value) >= SHORTEST_SECRET and any(word in name.upper() for word in SECRET_NAMES):
            text = text.replace(value, f"(the value of {name})")
    return text


def _identifier(value: Any, name: str, where: str) -> str:
    if value is _MISSING or value is None:
        raise EncodingError(f"{where}: it has no {name!r}, and a document needs an id")
    if isinstance(value, np.integer):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, str | int | uuid.UUID):
        raise EncodingError(f"{where}: the id {name!r} is a {type(value).__name__}, not text, integer or UUID")
    if isinstance(value, int) and value.bit_length() > MAX_ID_BITS:
        raise EncodingError(f"{where}: the id {name!r} is a number of {value.bit_length()} bits, at most {MAX_ID_BITS}")
    return str(value)


def _text(value: Any, name: str, where: str) -> str:
    if value is _MISSING or value is None:
        raise EncodingError(f"{where}: it has no {name!r}")
    if not isinstance(value, str):
        raise EncodingError(f"{where}: {name!r} is a {type(value).__name__}, not text")
    return value


def _value(value: Any, name: str, where: str) -> Plain:
    """A value as metadata has it; what is too long is found where the document is made."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, uuid.UUID):
        value = str(value)
    if isinstance(value, Decimal):
        value = _number(value, name, where)
    if getattr(value, "nanosecond", 0):  # a time of pandas, where that is installed; elsewhere it cannot be read
        raise EncodingError(f"{where}: metadata {name!r} is a time in nanoseconds: round it to microseconds")
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        try:
            value = value.astimezone(datetime.UTC)  # the same moment is the same text, whatever the session's zone
        except OverflowError:
            raise EncodingError(
                f"{where}: metadata {name!r} is {value.isoformat()}, which in UTC is not a time of the years 1 to 9999"
            ) from None
    if isinstance(value, datetime.date | datetime.time):  # a datetime is a date, too
        value = value.isoformat()
    if not isinstance(value, str | bool | int | float):
        raise EncodingError(f"{where}: metadata {name!r} is a {type(value).__name__}, not text, number or boolean")
    if isinstance(value, float) and not math.isfinite(value):
        raise EncodingError(f"{where}: metadata {name!r} is {value}")
    return value


def _number(value: Decimal, name: str, where: str) -> int | float:
    """A decimal as the number that reads as it again.  EncodingError: it has too many digits for one."""
    if not value.is_finite():
        raise EncodingError(f"{where}: metadata {name!r} is {value}")
    if value == value.to_integral_value() and abs(value) < _EXACT:
        return int(value)
    found = float(value)
    if not math.isfinite(found) or Decimal(repr(found)) != value:
        far = not math.isfinite(found) or found == 0
        said = f"is {value:.2E}" if far else f"has {len(value.as_tuple().digits)} digits"
        raise EncodingError(
            f"{where}: metadata {name!r} {said}, which no number keeps: read it as text, from a view that casts it"
        )
    return found


def _vector(value: Any, name: str, where: str) -> Vector:
    if value is None:
        raise EncodingError(f"{where}: it has no vector {name!r}; embed texts anew (--vectors embed)")
    try:
        vector = np.asarray(value, dtype=np.float32)
    except (TypeError, ValueError, OverflowError):
        raise EncodingError(f"{where}: {name!r} is not a vector of numbers") from None
    if vector.ndim != 1 or not 1 <= len(vector) <= MAX_DIMENSION:
        raise EncodingError(f"{where}: {name!r} has shape {vector.shape}, not that of one vector")
    return vector

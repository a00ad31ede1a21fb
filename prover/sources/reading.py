# SPDX-License-Identifier: GPL-3.0-or-later
"""From a row as a driver gives it to an :class:`Item`, refused where it cannot be a document.

Drivers convert freely and databases hold anything: a row's types are looked at here, once, for every engine.  An error
names the row, so that its owner finds it; nothing is skipped, cut or guessed.
"""

from __future__ import annotations

import datetime
import math
import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from ragseal.kernel.errors import AuditError, EncodingError, TransportError
from ragseal.prover.commitment.corpora import check_document
from ragseal.prover.commitment.corpus_files import Limits
from ragseal.prover.sources.interface import Item, Vector
from ragseal.prover.sources.spec import Columns
from ragseal.runtime.metadata import Plain

MAX_DIMENSION = 65535
SECRET_NAMES = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL")  #: parts of environment variables' names
SHORTEST_SECRET = 6  #: characters; masking what is shorter would garble words

_MISSING = object()


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
    if columns.title is not None and pick(row, columns.title) not in (_MISSING, None, ""):
        title = _text(pick(row, columns.title), columns.title, where)
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


def pick(row: Mapping[str, Any], name: str) -> Any:
    """A row's value under a name, or under its parts in nested mappings; ``_MISSING`` if there is none."""
    if name in row:
        return row[name]
    head, dot, rest = name.partition(".")
    inner = row.get(head) if dot else None
    return pick(inner, rest) if isinstance(inner, Mapping) else _MISSING


def checked(items: Iterator[Item], limits: Limits) -> Iterator[Item]:
    """A snapshot's items, each of a document that can be one, each id once.

    Raises:
        EncodingError: what is refused; names the row.
    """
    seen: set[str] = set()
    for item in items:
        check_document(item.where, item.document(), limits)
        if item.id in seen:
            raise EncodingError(f"{item.where}: this id occurs twice in the source")
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
    if isinstance(value, datetime.date | datetime.time):  # a datetime is a date, too
        value = value.isoformat()
    if not isinstance(value, str | bool | int | float):
        raise EncodingError(f"{where}: metadata {name!r} is a {type(value).__name__}, not text, number or boolean")
    if isinstance(value, float) and not math.isfinite(value):
        raise EncodingError(f"{where}: metadata {name!r} is {value}")
    return value


def _vector(value: Any, name: str, where: str) -> Vector:
    if value is None:
        raise EncodingError(f"{where}: it has no vector {name!r}; embed texts anew (--vectors embed)")
    try:
        vector = np.asarray(value, dtype=np.float32)
    except (TypeError, ValueError, OverflowError):
        raise EncodingError(f"{where}: {name!r} is no vector of numbers") from None
    if vector.ndim != 1 or not 1 <= len(vector) <= MAX_DIMENSION:
        raise EncodingError(f"{where}: {name!r} has shape {vector.shape}, not that of one vector")
    return vector

# SPDX-License-Identifier: GPL-3.0-or-later
"""Choosing among documents that came back: filters on their metadata, as OpenAI's vector stores write them.

They are applied to an answer that is already here, so they cost no privacy and find nothing that the answer has not:
a filter in front of the noise would change what the provider proves.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ragseal.kernel.errors import EncodingError
from ragseal.runtime.metadata import Plain

Filter = Callable[[Mapping[str, Plain]], bool]

MAX_DEPTH = 8
MAX_PARTS = 64  #: conditions of a filter
MAX_VALUES = 256  #: of one list
_NUMBER = (int, float)

log = logging.getLogger("ragseal.filters")
_noted: ContextVar[Counter[str] | None] = ContextVar("noted", default=None)


@contextmanager
def noting() -> Iterator[Counter[str]]:
    """What filters find while the block runs that cannot be compared, by how many documents have it.

    A filter on a number finds nothing in documents that have text there, and nobody is told by an empty result.
    Outside of such a block it is logged.
    """
    found: Counter[str] = Counter()
    before = _noted.set(found)
    try:
        yield found
    finally:
        _noted.reset(before)


def parse_filter(given: object) -> Filter:
    """A filter from its JSON.

    ``{"type": "eq" | "ne" | "gt" | "gte" | "lt" | "lte" | "in" | "nin", "key": ..., "value": ...}`` or ``{"type":
    "and" | "or", "filters": [...]}``.  A document without the key meets "ne" and "nin" only, and so does one with a
    value of another kind: text, numbers and booleans are not compared with each other, which :func:`noting` says.

    Raises:
        EncodingError: anything else, nested deeper than MAX_DEPTH, or of more than MAX_PARTS conditions
            or of a list longer than MAX_VALUES.
    """
    left = [MAX_PARTS]
    return _parse(given, 0, left)


def _parse(given: object, depth: int, left: list[int]) -> Filter:
    if not isinstance(given, dict) or depth > MAX_DEPTH:
        raise EncodingError(f'filters: expected {{"type": ..., ...}}, nested at most {MAX_DEPTH} deep')
    left[0] -= 1
    if left[0] < 0:
        raise EncodingError(f"filters: at most {MAX_PARTS} conditions")
    kind = given.get("type")
    if kind in ("and", "or"):
        parts = given.get("filters")
        if not isinstance(parts, list) or not parts or set(given) != {"type", "filters"}:
            raise EncodingError(f'filters: "{kind}" needs a list "filters" and nothing else')
        inner = [_parse(part, depth + 1, left) for part in parts]
        both = all if kind == "and" else any
        return lambda metadata: both(part(metadata) for part in inner)
    if set(given) != {"type", "key", "value"} or not isinstance(given["key"], str):
        raise EncodingError('filters: a comparison has "type", "key" (text) and "value"')
    return _comparison(kind, given["key"], given["value"])


def _comparison(kind: object, key: str, value: Any) -> Filter:
    if kind in ("in", "nin"):
        if not isinstance(value, list) or len(value) > MAX_VALUES or not all(_plain(one) for one in value):
            raise EncodingError(f'filters: "{kind}" needs a list of at most {MAX_VALUES} texts, numbers or booleans')
        return lambda metadata: (
            _told(metadata, key, value) and any(_same(metadata.get(key), one) for one in value) == (kind == "in")
        )
    if not _plain(value):
        raise EncodingError("filters: a value is a text, a number or a boolean")
    if kind in ("eq", "ne"):
        return lambda metadata: _told(metadata, key, [value]) and _same(metadata.get(key), value) == (kind == "eq")
    if isinstance(kind, str) and kind in _ORDERS:
        order = _ORDERS[kind]
        return lambda metadata: (
            _told(metadata, key, [value])
            and key in metadata
            and _comparable(metadata[key], value)
            and order(metadata[key], value)
        )
    raise EncodingError(f"filters: {str(kind)[:20]!r} is none of eq, ne, gt, gte, lt, lte, in, nin, and, or")


_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "gt": lambda a, b: a > b,
    "gte": lambda a, b: a >= b,
    "lt": lambda a, b: a < b,
    "lte": lambda a, b: a <= b,
}


def _told(metadata: Mapping[str, Plain], key: str, values: list[Plain]) -> bool:
    """True; says where a document's value is of another kind than all that it is compared with."""
    if key in metadata and values and (own := _kind(metadata[key])) not in (kinds := list(map(_kind, values))):
        said = f"{key[:80]!r} is {own} in documents, and the filter compares it with {kinds[0]}: they never agree"
        if (noted := _noted.get()) is None:
            log.warning("%s", said)
        else:
            noted[said] += 1
    return True


def _kind(value: object) -> str:
    return "true or false" if isinstance(value, bool) else "text" if isinstance(value, str) else "a number"


def _plain(value: object) -> bool:
    return isinstance(value, str | bool | int | float)


def _same(one: object, other: object) -> bool:
    """Equal, and of one kind: true is not 1."""
    return isinstance(one, bool) == isinstance(other, bool) and one == other


def _comparable(one: object, other: object) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return False
    return (isinstance(one, str) and isinstance(other, str)) or (
        isinstance(one, _NUMBER) and isinstance(other, _NUMBER)
    )

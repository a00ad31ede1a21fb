# SPDX-License-Identifier: GPL-3.0-or-later
"""Choosing among documents that came back: filters on their metadata, as OpenAI's vector stores write them.

They are applied to an answer that is already here, so they cost no privacy and find nothing that the answer has not:
a filter in front of the noise would change what the provider proves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ragseal.kernel.errors import EncodingError
from ragseal.runtime.metadata import Plain

Filter = Callable[[Mapping[str, Plain]], bool]

MAX_DEPTH = 8
MAX_PARTS = 64  #: conditions of a filter
MAX_VALUES = 256  #: of one list
_NUMBER = (int, float)


def parse_filter(given: object) -> Filter:
    """A filter from its JSON.

    ``{"type": "eq" | "ne" | "gt" | "gte" | "lt" | "lte" | "in" | "nin", "key": ..., "value": ...}`` or ``{"type":
    "and" | "or", "filters": [...]}``.  A document without the key meets "ne" and "nin" only; text and numbers are not
    compared with each other.

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
        return lambda metadata: any(_same(metadata.get(key), one) for one in value) == (kind == "in")
    if not _plain(value):
        raise EncodingError("filters: a value is a text, a number or a boolean")
    if kind in ("eq", "ne"):
        return lambda metadata: _same(metadata.get(key), value) == (kind == "eq")
    if isinstance(kind, str) and kind in _ORDERS:
        order = _ORDERS[kind]
        return lambda metadata: key in metadata and _comparable(metadata[key], value) and order(metadata[key], value)
    raise EncodingError(f"filters: {str(kind)[:20]!r} is none of eq, ne, gt, gte, lt, lte, in, nin, and, or")


_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "gt": lambda a, b: a > b,
    "gte": lambda a, b: a >= b,
    "lt": lambda a, b: a < b,
    "lte": lambda a, b: a <= b,
}


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

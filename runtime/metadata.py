# SPDX-License-Identifier: GPL-3.0-or-later
"""Metadata as Python and JSON have it, and as a slot's leaf commits to it (SPEC A.4)."""

from __future__ import annotations

import struct
from collections.abc import Mapping

from ragseal.kernel.errors import EncodingError
from ragseal.kernel.slot_text import Metadata, MetadataPair, Number, Value

Plain = str | bool | int | float
_EXACT = 1 << 53  #: integers below it are doubles, and JSON readers of every language agree about them


def committed(mapping: Mapping[str, Plain]) -> Metadata:
    """A mapping as it is committed to, in whatever order it comes.

    Raises:
        EncodingError: too many or too long keys or values, a value of another type, a number that is not finite, or an
            integer from 2^53 on, which no double holds exactly.
    """
    for key in mapping:
        if not isinstance(key, str):
            raise EncodingError(f"a key of metadata is text, not {type(key).__name__}")
    pairs = []
    for key in sorted(mapping):
        try:
            pairs.append(MetadataPair(key, _value(mapping[key])))
            pairs[-1].encode()
        except EncodingError as error:
            raise EncodingError(f"metadata {key[:40]!r}: {error}") from None
    made = Metadata(tuple(pairs))
    made.encode()
    return made


def mapping_of(metadata: Metadata) -> dict[str, Plain]:
    """The pairs as a dictionary; a number without a fraction below 2^53 is an integer, every other one a float."""
    return {pair.key: plain_value(pair.value) for pair in metadata.pairs}


def plain_value(value: Value) -> Plain:
    """One value of :func:`mapping_of`."""
    if not isinstance(value, Number):
        return value
    (number,) = struct.unpack(">d", value.bits)
    return int(number) if number.is_integer() and abs(number) < _EXACT else float(number)


def _value(value: object) -> Value:
    if isinstance(value, str | bool):
        return value
    if isinstance(value, int) and abs(value) >= _EXACT:
        raise EncodingError("an integer of 2^53 or more loses digits as a number: write it as text")
    if isinstance(value, int | float):
        return Number(struct.pack(">d", value + 0.0))  # -0.0 + 0.0 is 0.0, the zero that there is
    raise EncodingError(f"a value is text, a boolean or a number, not {type(value).__name__}")

# SPDX-License-Identifier: GPL-3.0-or-later
"""When to come again, in a status's details as every gRPC library reads them: google.rpc.Status with a RetryInfo.

The five fields are written and read here: their published package is needed for nothing else, and classes made in a
pool of their own come and go with the garbage collection of the protobuf library.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

KEY = "grpc-status-details-bin"  #: trailing metadata that holds a google.rpc.Status
TYPE = "type.googleapis.com/google.rpc.RetryInfo"
MAX_BYTES = 4096  #: of details that are read
MAX_SECONDS = 10**6  #: a longer wait is no advice

_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5  #: wire types


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3 | _VARINT) + _varint(value) if value else b""


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | _BYTES) + _varint(len(value)) + value


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Field numbers and values of a message.  ValueError: it is none."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            if at >= len(data) or shift > 63:
                raise ValueError("a number that does not end")
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7

    while at < len(data):
        field, kind = divmod(varint(), 8)
        if kind == _VARINT:
            yield field, varint()
            continue
        length = {_EIGHT: 8, _FOUR: 4}.get(kind)
        if kind == _BYTES:
            length = varint()
        if length is None or length > len(data) - at:
            raise ValueError("an unknown or cut field")
        at += length
        yield field, data[at - length : at]


def _last(data: bytes, field: int) -> int | bytes | None:
    return next((value for number, value in reversed(list(_fields(data))) if number == field), None)


def details(code: int, text: str, seconds: float) -> tuple[str, bytes]:
    """The trailing metadata of a status that says after how many seconds to come again, rounded up to milliseconds."""
    thousandths = math.ceil(seconds * 1000)
    delay = _number(1, thousandths // 1000) + _number(2, thousandths % 1000 * 10**6)
    said = _bytes(2, text.encode()) if text else b""
    info = _bytes(1, TYPE.encode()) + _bytes(2, _bytes(1, delay))
    return KEY, _number(1, code) + said + _bytes(3, info)


def seconds_of(metadata: bytes) -> float | None:
    """What :func:`details` says; None where it says nothing of the kind.  It may come from an enemy."""
    if len(metadata) > MAX_BYTES:
        return None
    try:
        for field, one in _fields(metadata):
            if field == 3 and isinstance(one, bytes) and _last(one, 1) == TYPE.encode():
                return _delay(_last(one, 2))
    except ValueError:
        pass
    return None


def _delay(info: int | bytes | None) -> float | None:
    delay = _last(info, 1) if isinstance(info, bytes) else None
    if not isinstance(delay, bytes):
        return None
    whole, nanos = (_last(delay, field) or 0 for field in (1, 2))
    if isinstance(whole, bytes) or isinstance(nanos, bytes):
        return None
    seconds = whole + nanos / 1e9  # negative numbers are above 2^63 as they are written: no advice
    return seconds if 0 <= seconds <= MAX_SECONDS else None

# SPDX-License-Identifier: GPL-3.0-or-later
"""google.rpc.Status with a RetryInfo: the published bytes, and nothing that an enemy sends does harm."""

from __future__ import annotations

import random

import pytest

from ragseal.runtime.retry_info import MAX_BYTES, TYPE, details, seconds_of


def test_the_bytes_are_those_of_the_published_messages() -> None:
    """By hand: fields and wire types of google/rpc/status.proto, error_details.proto and protobuf's own."""
    delay = bytes([0x08, 2, 0x10]) + bytes([0x80, 0xCA, 0xB5, 0xEE, 0x01])  # seconds 2, nanos 500_000_000
    info = bytes([0x0A, len(delay)]) + delay
    packed = bytes([0x0A, len(TYPE)]) + TYPE.encode() + bytes([0x12, len(info)]) + info
    status = bytes([0x08, 8, 0x12, 5]) + b"later" + bytes([0x1A, len(packed)]) + packed
    assert details(8, "later", 2.5) == ("grpc-status-details-bin", status)
    assert seconds_of(status) == 2.5


def test_the_published_package_reads_them() -> None:
    error_details_pb2 = pytest.importorskip("google.rpc.error_details_pb2")
    from google.rpc import status_pb2

    status = status_pb2.Status.FromString(details(8, "later", 0.0301)[1])
    info = error_details_pb2.RetryInfo()
    assert status.details[0].Unpack(info)
    assert (info.retry_delay.seconds, info.retry_delay.nanos) == (0, 31_000_000)  # never too early


def test_what_is_no_such_wait_is_none() -> None:
    def of(value: bytes, kind: str = TYPE) -> bytes:
        packed = bytes([0x0A, len(kind)]) + kind.encode() + bytes([0x12, len(value)]) + value
        return bytes([0x08, 8, 0x1A, len(packed)]) + packed

    def wait(delay: bytes) -> bytes:
        return bytes([0x0A, len(delay)]) + delay

    less = b"\xff" * 9 + b"\x01"  # -1
    assert seconds_of(of(wait(b"\x08\x03"))) == 3
    assert seconds_of(of(wait(b"\x08\x03\x7d1234"))) == 3, "fields of a newer version"
    for bad in (b"", b"\xff" * 40, of(b"\xff\xff"), of(wait(b"\x08\x03"), "type.googleapis.com/google.rpc.Help"),
                of(wait(b"\x08" + less)), of(wait(b"\x10" + less)), of(wait(b"\x08" + b"\xff" * 8 + b"\x3f")),
                of(wait(b"\x0a\x01x")), of(wait(b"\x08\x03")) + b"\x00" * MAX_BYTES,
                of(wait(b"\x08\x03"))[:-1]):  # fmt: skip
        assert seconds_of(bad) is None
    draw = random.Random(1)
    for _ in range(300):
        seconds_of(draw.randbytes(draw.randrange(60)))

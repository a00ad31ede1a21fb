# SPDX-License-Identifier: GPL-3.0-or-later
"""The longest answer that is sealed is one that gRPC carries: no limit lies between the two.  SPEC B.4.9."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from typing import Any

import pytest

from ragseal.kernel.attestation import (
    MAX_OPENINGS_BYTES,
    Openings,
    Record,
    SealedAnswer,
    SlotOpening,
    TextOpening,
    open_answer,
    seal_openings,
    sealed_digest,
)
from ragseal.kernel.errors import AttestationError
from ragseal.kernel.params import MAX_SHARDS
from ragseal.kernel.sealing import public_of
from ragseal.kernel.slot_text import MAX_TEXT_BYTES, NO_METADATA, SlotText
from ragseal.ledger.merkle import HASH_SIZE
from ragseal.runtime.rpc import MAX_MESSAGE_BYTES, answers, bind, call, new_server, open_channel
from ragseal.v1 import provider_pb2, provider_pb2_grpc
from tests.fuzz.samples import sample

pytestmark = pytest.mark.slow
SECRET = b"s" * 32


def openings_of(length: int) -> Openings:
    """Openings of exactly so many bytes, of as few texts as hold them."""

    def made(lengths: list[int]) -> Openings:
        slots = [
            SlotOpening(i, True, (TextOpening(SlotText("d", "x" * size, NO_METADATA), bytes(32), ()),))
            for i, size in enumerate(lengths)
        ]
        return Openings(1, tuple(slots))

    count = -(-length // MAX_TEXT_BYTES)
    over = len(made([MAX_TEXT_BYTES] * count).encode()) - length
    while over > MAX_TEXT_BYTES:
        count -= 1
        over = len(made([MAX_TEXT_BYTES] * count).encode()) - length
    found = made([MAX_TEXT_BYTES] * (count - 1) + [MAX_TEXT_BYTES - over])
    assert len(found.encode()) == length
    return found


def answer_of(openings: Openings) -> SealedAnswer:
    """Around these openings all that may stand there is as long as it can be."""
    given = sample(SealedAnswer, random.Random(1))
    assert isinstance(given, SealedAnswer)
    signed = given.record.signed
    request = replace(signed.request, seal_key=public_of(SECRET))
    point = given.record.c_y[:64]
    record = replace(given.record, signed=replace(signed, request=request), c_y=point * MAX_SHARDS)
    assert isinstance(record, Record)
    sealed = seal_openings(record, openings, bytes(32))
    body = replace(given.receipt.body, sealed_digest=sealed_digest(sealed), checkpoint=bytes(1 << 16))
    path = tuple([bytes(HASH_SIZE)] * 64)
    return SealedAnswer(record, sealed, replace(given.receipt, body=body, path=path))


def test_the_longest_answer_arrives_whole() -> None:
    openings = openings_of(MAX_OPENINGS_BYTES)
    answer = answer_of(openings)
    path = [bytes(HASH_SIZE)] * 64

    class Service(provider_pb2_grpc.ProviderServiceServicer):
        @answers
        async def Retrieve(self, request: Any, context: Any) -> Any:
            return provider_pb2.RetrieveResponse(canonical=answer.encode(), consistency=path)

    async def carried() -> bytes:
        server = new_server()
        provider_pb2_grpc.add_ProviderServiceServicer_to_server(Service(), server)  # type: ignore[no-untyped-call]
        address = f"127.0.0.1:{bind(server, '127.0.0.1:0')}"
        await server.start()
        try:
            async with open_channel(address) as channel:
                stub = provider_pb2_grpc.ProviderServiceStub(channel)  # type: ignore[no-untyped-call]
                found = await call(stub.Retrieve, provider_pb2.RetrieveRequest(), address, 120.0)
                assert found.ByteSize() <= MAX_MESSAGE_BYTES
                return bytes(found.canonical)
        finally:
            await server.stop(None)

    assert open_answer(SealedAnswer.decode(asyncio.run(carried())), SECRET).openings == openings


def test_one_byte_more_is_not_sealed() -> None:
    with pytest.raises(AttestationError, match=f"an answer of {MAX_OPENINGS_BYTES + 1} bytes cannot be sent"):
        answer_of(openings_of(MAX_OPENINGS_BYTES + 1))

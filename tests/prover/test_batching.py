# SPDX-License-Identifier: GPL-3.0-or-later
"""Group commit shares, bounds and fails batches as a whole; the native hashes are the kernel's."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Sequence

import numpy as np
import pytest

from ragseal.backends import poseidon
from ragseal.backends.group import default_group
from ragseal.circuits.circuit import load_classes
from ragseal.embedder import quantise
from ragseal.kernel import mechanism, statement
from ragseal.kernel.attestation import Prepare
from ragseal.kernel.errors import ConfigurationError, EncodingError
from ragseal.kernel.params import R
from ragseal.kernel.statements import stated_of
from ragseal.prover.attestation.prepared_embedding import EmbeddingCommitter, PrepareJob
from ragseal.runtime.group_commit import Batches
from tests.classes import DECOYS, SMALL, TINY


def test_calls_that_wait_share_the_next_batch() -> None:
    seen: list[list[int]] = []
    hold = threading.Event()

    def work(items: list[int]) -> list[int]:
        seen.append(items)
        hold.wait(5)
        return [10 * item for item in items]

    async def run() -> None:
        batches: Batches[int, int] = Batches(work, 3)
        first = asyncio.create_task(batches.submit(0))
        while not seen:
            await asyncio.sleep(0.001)
        others = [asyncio.create_task(batches.submit(i)) for i in range(1, 6)]
        await asyncio.sleep(0)
        others[1].cancel()
        await asyncio.sleep(0)
        hold.set()
        assert await first == 0
        got = await asyncio.gather(*others, return_exceptions=True)
        assert [x for x in got if isinstance(x, int)] == [10, 30, 40, 50]
        assert isinstance(got[1], asyncio.CancelledError)

    asyncio.run(run())
    assert seen == [[0], [1, 3], [4, 5]]  # at most three at a time, the withdrawn one not at all


def test_a_failing_batch_fails_each_of_its_calls_and_no_other() -> None:
    def work(items: list[int]) -> list[int]:
        if 7 in items:
            raise ConfigurationError("the disk is full")
        return items

    async def run() -> None:
        batches: Batches[int, int] = Batches(work, 10)
        got = await asyncio.gather(*(batches.submit(i) for i in (6, 7)), return_exceptions=True)
        assert all(isinstance(error, ConfigurationError) for error in got)
        assert await batches.submit(8) == 8

    asyncio.run(run())


def test_an_outcome_that_is_an_exception_fails_its_call_alone() -> None:
    async def run() -> None:
        batches: Batches[int, int] = Batches(lambda items: [i if i else ConfigurationError("zero") for i in items], 10)
        got = await asyncio.gather(*(batches.submit(i) for i in (1, 0, 2)), return_exceptions=True)
        assert got[::2] == [1, 2]
        assert isinstance(got[1], ConfigurationError)

    asyncio.run(run())


def test_a_wrong_number_of_outcomes_leaves_nobody_waiting() -> None:
    async def run() -> None:
        batches: Batches[int, int] = Batches(lambda items: [], 10)
        with pytest.raises(ValueError, match="zip"):
            await asyncio.wait_for(batches.submit(1), 5)

    asyncio.run(run())


def test_native_commitments_are_the_kernels() -> None:
    dice = random.Random(3)
    seed, beacon, ctx = (dice.getrandbits(128), dice.getrandbits(128)), dice.randrange(R), dice.getrandbits(248)
    assert poseidon.noise_key(seed, beacon, ctx) == mechanism.noise_key(seed, beacon, ctx)
    assert poseidon.seed_commitment(seed) == statement.seed_commitment(seed)
    for cls in (TINY, SMALL, DECOYS, load_classes()["noise-large-one-50"]):
        slots = sorted(dice.sample(range(cls.N), cls.most_ids(1)))
        returned = [statement.Returned(slot, dice.random() < 0.5) for slot in slots]
        salt = dice.randrange(R)
        assert poseidon.commit_lists(cls, salt, returned, 1) == stated_of(cls).lists(salt, returned, 1)


class Picky:
    """Refuses one text, and gives another no direction."""

    def embed(self, texts: Sequence[str], *, role: str) -> np.ndarray:
        if "refused" in texts:
            raise EncodingError("what is this?")
        return np.array([[0.0, 0.0] if text == "nothing" else [0.8, 0.6] for text in texts], dtype=np.float32)


def test_a_query_that_cannot_be_embedded_fails_no_neighbour() -> None:
    """Queries of many accounts share a run of the embedder: one that it refuses was the refusal of all."""

    def offer(text: str) -> PrepareJob:
        e = quantise(np.array([[0.8, 0.6]], dtype=np.float32))[0].tobytes()
        message = Prepare(bytes(32), "0" * 16, bytes(16), bytes(32), text, e)
        return PrepareJob(message, message.encode(), bytes(32), 2)

    fixer = EmbeddingCommitter(default_group(), Picky())  # type: ignore[arg-type]
    found = fixer.together([offer(text) for text in ("fine", "refused", "also fine", "nothing")])
    assert [isinstance(one, EncodingError) for one in found] == [False, True, False, True]
    assert found[0][2] != found[2][2]  # type: ignore[index]
    with pytest.raises(EncodingError, match="what is this"):
        fixer.alone(offer("refused"))

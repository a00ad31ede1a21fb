# SPDX-License-Identifier: GPL-3.0-or-later
"""Group commit shares, bounds and fails batches as a whole; the native hashes are the kernel's."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

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
from ragseal.kernel.versions import nameable
from ragseal.prover.attestation.prepared_embedding import EmbeddingCommitter, PrepareJob
from ragseal.prover.attestation.under_way import UnderWay
from ragseal.prover.storage.window import Window
from ragseal.prover.workers.turns import Turns
from ragseal.runtime.group_commit import Batches
from tests.classes import DECOYS, SMALL, TINY
from tests.simulator.answered import answers_policy
from tests.simulator.provider import make_policy


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
    for cls in (TINY, SMALL, DECOYS, load_classes()["noise-large-gaussian-50"]):
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


# A lock that is handed on in the order in which it was asked for.


SOON, LATE = 0.2, 10.0


class Scene:
    """Threads that take their turns, and what they did in which order."""

    def __init__(self) -> None:
        self.turns, self.order = Turns(), list[str]()

    def begin(self, name: str, inside: Callable[[], object] = lambda: None) -> threading.Thread:
        """A thread that waits for its turn, where somebody has it."""
        waiting = len(self.turns._waiting)

        def take() -> None:
            with self.turns:
                inside()
                self.order.append(name)

        thread = threading.Thread(target=take, daemon=True)
        thread.start()
        end = time.monotonic() + LATE
        while len(self.turns._waiting) == waiting and time.monotonic() < end:
            time.sleep(0.001)
        assert len(self.turns._waiting) == waiting + 1
        return thread


def test_whoever_asked_first_is_next() -> None:
    scene = Scene()
    with scene.turns:
        threads = [scene.begin(name) for name in "abcd"]
        assert scene.order == []
    for thread in threads:
        thread.join(LATE)
    assert scene.order == list("abcd")
    with scene.turns:
        scene.order.append("e")  # it is free again
    assert scene.order[-1] == "e"


def test_whoever_comes_back_at_once_waits_for_those_who_wait() -> None:
    scene = Scene()
    with scene.turns:
        thread = scene.begin("a", lambda: time.sleep(SOON))
    with scene.turns:
        scene.order.append("again")
    thread.join(LATE)
    assert scene.order == ["a", "again"]


def test_a_turn_that_is_handed_on_comes_back() -> None:
    scene = Scene()
    with scene.turns:
        first = scene.begin("a")
        with scene.turns.handed_on():
            first.join(LATE)
            assert scene.order == ["a"]
        second = scene.begin("b")
        second.join(SOON)
        assert scene.order == ["a"], "the caller has its turn again"
    second.join(LATE)
    assert scene.order == ["a", "b"]


# What waits for requests that were admitted: a window's end, and versions behind which they could not be recorded.


def window_of(policy: Any, name: bytes = b"w") -> Window:
    signed: Any = SimpleNamespace(manifest=SimpleNamespace(policy=policy))
    return Window(signed, name * 32, 0)


@pytest.mark.parametrize("policy", [answers_policy(), make_policy()], ids=["answers", "documents"])
def test_the_oldest_version_that_somebody_waits_over_decides(policy: Any) -> None:
    found, window, other = UnderWay(), window_of(policy), window_of(policy, b"o")
    first = 1 + nameable(policy)  # the version behind which a record may not name the first any more
    assert not found.keeps_out(window, first)
    with found.admitted(window, 2), found.admitted(window, 1):
        assert found.keeps_out(window, first)
        assert not found.keeps_out(window, first - 1)
        assert not found.keeps_out(other, first)
        with found.admitted(window, 1):
            pass
        assert found.keeps_out(window, first)  # one of the two is still there
    with found.admitted(window, 2):
        assert not found.keeps_out(window, first)
        assert found.keeps_out(window, first + 1)
    assert not found.keeps_out(window, first + 1)


def test_a_window_that_could_not_be_closed_takes_requests_again() -> None:
    """Closing may fail: the disk is full, say."""

    async def run() -> None:
        found, window = UnderWay(), window_of(make_policy())

        async def fails() -> None:
            async with found.ended(window):
                assert found.closing(window)
                assert not found.closing(window_of(make_policy(), b"o"))
                raise OSError("full")

        with pytest.raises(OSError, match="full"):
            await fails()
        assert not found.closing(window)
        async with found.ended(window):
            async with found.ended(window):  # two ask for the end at once
                pass
            assert found.closing(window)
        assert not found.closing(window)

    asyncio.run(run())


def test_the_end_waits_for_the_last_request_and_for_those_that_fail() -> None:
    async def run() -> None:
        found, window, order, release = UnderWay(), window_of(make_policy()), list[str](), asyncio.Event()

        async def request(name: str, version: int, fails: bool) -> None:
            with found.admitted(window, version):
                await release.wait()
                order.append(name)
                if fails:
                    raise ValueError

        async def end() -> None:
            async with found.ended(window):
                order.append("end")

        asked = [asyncio.create_task(request(f"{at}", at % 2, fails=at > 0)) for at in range(3)]
        ending = asyncio.create_task(end())
        await asyncio.sleep(0.01)  # it waits by now
        release.set()
        await asyncio.gather(*asked, return_exceptions=True)
        await asyncio.wait_for(ending, 10)
        assert order == ["0", "1", "2", "end"]

    asyncio.run(run())

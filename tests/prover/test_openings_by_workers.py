# SPDX-License-Identifier: GPL-3.0-or-later
"""Thinnings, updates and blocks of the estimate whose Groth16 proofs workers make, honest or not.  SPEC B.12."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ragseal.kernel import signature
from ragseal.kernel.certificate import MAX_BLOCKS, BlockBatch
from ragseal.kernel.errors import ProofError
from ragseal.kernel.estimate_class import CLASSES
from ragseal.prover.estimate.estimate import Estimates
from ragseal.prover.provider.provider import Provider
from ragseal.prover.serving.serving import Serving
from ragseal.prover.storage.stopped_keys import stop_key, stopped
from ragseal.prover.storage.window import Stage
from ragseal.prover.workers.interface import StoppingError, UnreachedError, Work, WorkResult
from ragseal.prover.workers.making import ProvingKeys
from tests.simulator.keys import THINNING, keys_of
from tests.simulator.provider import Asker, make_policy, newest, open_provider, open_window, serving_on
from tests.simulator.ticking import ticking
from tests.workers.scene import Scripted

pytestmark = pytest.mark.slow

SIZE = CLASSES["estimate-6"]


def honest(provider: Provider) -> Callable[[Work], WorkResult]:
    keys, mutex = ProvingKeys(provider.state.keys_directory), threading.Lock()

    def gives(work: Work) -> WorkResult:
        with mutex:
            return keys.prove(work, "honest")

    return gives


def test_workers_prove_a_thinning_and_an_update_while_others_have_the_turn(tmp_path: Path) -> None:
    with ticking(tmp_path, coins=True, opened=False) as live:
        gives, seen = honest(live.provider), list[str]()

        def notes(work: Work) -> WorkResult:
            seen.append(work.circuit)
            with live.provider.turns:  # proofs of records go on meanwhile
                return gives(work)

        workers = Scripted(notes)
        live.provider.prove_with(workers)
        ring = live.provider.coins.keys()
        ring._backends.clear()  # it was started without workers
        live.open()
        assert seen == [THINNING.name] * 4  # two tenants, thinned, and their first version
        live.put(("new", "a new report"))
        live.tick()
        assert len(seen) == 6
        assert live.window.stage is Stage.OPEN
        assert not workers.dropped
        assert not ring._backends, "the provider loaded a proving key that it need not"
        live.end_window()


def test_a_worker_that_lies_over_a_thinning_stops_no_key_and_no_window(tmp_path: Path) -> None:
    with ticking(tmp_path, coins=True, opened=False) as live:
        gives, first = honest(live.provider), list[WorkResult]()

        def replays(work: Work) -> WorkResult:
            first[:] = first or [gives(work)]
            return first[0]

        workers = Scripted(replays)
        live.provider.prove_with(workers)
        live.open()  # only the first tenant's thinning holds
        live.tick()
        assert live.window.stage is Stage.OPEN
        assert [name for name, _ in workers.dropped] == ["honest"] * 5
        assert stopped(live.provider.state, live.window.manifest.coin.key_digest) is None


def test_a_thinning_that_no_worker_proves_the_provider_does(tmp_path: Path) -> None:
    def nobody(_: Work) -> WorkResult:
        raise UnreachedError("nobody is there")

    with ticking(tmp_path, coins=True, opened=False) as live:
        live.provider.prove_with(Scripted(nobody))
        live.open()
        assert live.window.stage is Stage.OPEN


@asynccontextmanager
async def closed(directory: Path) -> AsyncIterator[Serving]:
    """A window with four queries of tenant acme, closed."""
    provider = open_provider(directory, estimate=True)
    provider.commit(make_policy(theta="9/10"), "w1")
    async with serving_on(provider) as serving:
        await open_window(serving)
        alice = Asker("alice", serving)
        for number in range(4):
            await alice.ask(f"report number {number} about topic 3")
        digest = newest(serving).digest
        await serving.close_window(digest, signature.sign(provider.state.key, "close", digest))
        yield serving


def by(serving: Serving, gives: Callable[[Work], WorkResult], places: int = 3) -> tuple[Estimates, Scripted]:
    workers = Scripted(gives, places=places)
    serving.provider.prove_with(workers)
    return serving.provider.new_estimates(), workers


WANTED = [[0, 1, 2, 3], [0, 1], [1, 2, 3]]


def test_workers_prove_blocks_at_once_and_a_liar_stops_no_key(tmp_path: Path) -> None:
    async def run() -> None:
        async with closed(tmp_path / "p") as serving:
            key, gives, together = keys_of(SIZE).digest, honest(serving.provider), threading.Barrier(3)

            def meets(work: Work) -> WorkResult:
                assert (work.circuit, work.key) == (SIZE.name, key)
                together.wait(20)  # three are under way at once, or this breaks
                return gives(work)

            estimates, workers = by(serving, meets)
            window = newest(serving).digest
            made = BlockBatch.decode(await asyncio.to_thread(estimates.blocks, window, key, "acme", WANTED))
            assert len(made.blocks) == 3  # each checked in its place before it left
            assert not workers.dropped

            first: list[WorkResult] = []

            def replays(work: Work) -> WorkResult:
                first[:] = first or [gives(work)]
                return first[0]

            estimates, liars = by(serving, replays, places=1)
            await asyncio.to_thread(estimates.blocks, window, key, "acme", WANTED)
            assert [name for name, _ in liars.dropped] == ["honest"] * 2
            assert stopped(serving.provider.state, key) is None

    asyncio.run(run())


def test_blocks_under_way_when_their_key_stops_are_not_given(tmp_path: Path) -> None:
    async def run() -> None:
        async with closed(tmp_path / "p") as serving:
            key, gives = keys_of(SIZE).digest, honest(serving.provider)

            def meanwhile(work: Work) -> WorkResult:
                stop_key(serving.provider.state, key, "another block failed")
                return gives(work)

            estimates, _ = by(serving, meanwhile)
            with pytest.raises(ProofError, match="another block failed"):
                await asyncio.to_thread(estimates.blocks, newest(serving).digest, key, "acme", WANTED)

    asyncio.run(run())


def test_whoever_waits_no_more_begins_no_block(tmp_path: Path) -> None:
    async def run() -> None:
        async with closed(tmp_path / "p") as serving:
            key, gives, begun, gone = keys_of(SIZE).digest, honest(serving.provider), list[Work](), threading.Event()

            def slow(work: Work) -> WorkResult:
                begun.append(work)
                gone.set()
                time.sleep(0.2)
                return gives(work)

            def wanted_still() -> None:
                if gone.is_set():
                    raise StoppingError

            estimates, _ = by(serving, slow, places=2)
            wanted = [[0, 1]] * min(8, MAX_BLOCKS)
            with pytest.raises(StoppingError):
                await asyncio.to_thread(estimates.blocks, newest(serving).digest, key, "acme", wanted, wanted_still)
            await asyncio.sleep(0.5)
            assert len(begun) <= 2
            assert not serving.provider.turns._taken

    asyncio.run(run())

# SPDX-License-Identifier: GPL-3.0-or-later
"""A worker of the provider's gives the proof of another record: an honest window keeps its verdict.  SPEC B.12."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ragseal.kernel.errors import ProofError
from ragseal.kernel.proofs import ProofEntry
from ragseal.prover.storage.stopped_keys import stop_key, stopped
from ragseal.prover.workers.interface import Work, WorkResult
from ragseal.prover.workers.making import ProvingKeys
from tests.attacks.checks import STOPPED_MEANWHILE, WORKER_OPENING, WORKER_PROOF, without
from tests.classes import TINY
from tests.simulator.keys import keys_of
from tests.simulator.provider import Asker, newest, window_on
from tests.simulator.ticking import ticking
from tests.workers.scene import Scripted

pytestmark = pytest.mark.slow


def test_a_worker_that_gives_one_proof_for_two_records(tmp_path: Path) -> None:
    async def run() -> tuple[ProofEntry, ProofEntry, ProofEntry]:
        async with window_on(tmp_path / "p") as serving:
            alice, provider, key = Asker("alice", serving), serving.provider, keys_of(TINY).digest
            for number in range(3):
                await alice.ask(f"topic {number}")
            digest, keys = newest(serving).digest, ProvingKeys(provider.state.keys_directory)
            first: list[WorkResult] = []

            def replays(work: Work) -> WorkResult:
                first[:] = first or [keys.prove(work, "liar")]
                return first[0]

            liar = Scripted(replays)
            proofs = provider.new_proofs(liar)
            honest, refused = proofs.prove(digest, 0), proofs.prove(digest, 1)
            assert [name for name, _ in liar.dropped] == ["liar"]
            assert stopped(provider.state, key) is None, "a worker can stop its provider's key"
            with without(WORKER_PROOF):
                accepted = proofs.prove(digest, 2)
            return honest, refused, accepted

    honest, refused, accepted = asyncio.run(run())
    assert refused.proof != honest.proof
    assert accepted.proof == honest.proof, "what no audit of the window would take"


def test_a_worker_that_gives_one_proof_for_two_thinnings(tmp_path: Path) -> None:
    """Else it stops the key of its provider's thinnings, and the window."""
    with ticking(tmp_path, coins=True, opened=False) as live:
        state, keys = live.provider.state, ProvingKeys(live.provider.state.keys_directory)
        first: list[WorkResult] = []

        def replays(work: Work) -> WorkResult:
            first[:] = first or [keys.prove(work, "liar")]
            return first[0]

        liar = Scripted(replays)
        live.provider.prove_with(liar)
        live.open()
        coin = live.window.manifest.coin.key_digest
        assert {name for name, _ in liar.dropped} == {"liar"}
        assert stopped(state, coin) is None, "a worker can stop its provider's key"
        with without(WORKER_OPENING), pytest.raises(ProofError, match="does not hold"):
            live.provider.update(live.window, int(live.clock.now) + 60)
        assert stopped(state, coin) is not None


def test_a_proof_that_was_under_way_when_its_key_stopped(tmp_path: Path) -> None:
    async def run() -> None:
        async with window_on(tmp_path / "p") as serving:
            provider, key = serving.provider, keys_of(TINY).digest
            await Asker("alice", serving).ask("topic 1")
            digest, keys = newest(serving).digest, ProvingKeys(provider.state.keys_directory)

            def meanwhile(work: Work) -> WorkResult:
                stop_key(provider.state, key, "another record failed")
                return keys.prove(work, "honest")

            proofs = provider.new_proofs(Scripted(meanwhile))
            with pytest.raises(ProofError, match="another record failed"):
                proofs.prove(digest, 0)
            assert proofs.stored(digest, 0) is None
            with without(STOPPED_MEANWHILE):
                proofs.prove(digest, 0)
            assert proofs.stored(digest, 0) is not None

    asyncio.run(run())

# SPDX-License-Identifier: GPL-3.0-or-later
"""A record of shards that is cut off by kill -9 is proven from where it was, and by nothing that is not its own."""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ragseal.kernel.errors import ProofError
from ragseal.kernel.proofs import PROOF_BYTES, ProofEntry
from ragseal.prover.attestation import shard_proofs, statements
from ragseal.prover.attestation.batch_openings import shard_blinders
from ragseal.prover.attestation.statements import ShardProving
from ragseal.prover.fsck import fsck
from ragseal.prover.provider.provider import Provider
from ragseal.prover.storage import retirement
from ragseal.prover.storage.stopped_keys import stop_key, stopped
from ragseal.prover.workers.interface import UnreachedError, Work, WorkResult
from tests.attacks.checks import without
from tests.attacks.removal import Check
from tests.crash.shards_window import KIND, SHARDS, engine_of, make, window_of
from tests.simulator import provider as scene
from tests.simulator.keys import ROOT
from tests.workers.scene import Scripted

pytestmark = pytest.mark.slow

CHECKED = Check(ShardProving, "check")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base") / "provider"
    asyncio.run(make(folder))
    return folder


@pytest.fixture
def folder(base: Path, tmp_path: Path) -> Path:
    shutil.copytree(base, tmp_path / "provider", symlinks=True)
    return tmp_path / "provider"


@contextmanager
def opened(folder: Path) -> Iterator[Provider]:
    provider = scene.open_provider(folder, kind=KIND)
    try:
        yield provider
    finally:
        provider.close()


def kept(provider: Provider) -> list[tuple[int, int, bytes]]:
    rows = provider.state.rows("SELECT seq, shard, proof FROM shard_proofs ORDER BY seq, shard")
    return [(seq, shard, bytes(proof)) for seq, shard, proof in rows]


def proven(provider: Provider, engine: Scripted | None = None) -> tuple[ProofEntry, int]:
    """The record's proof, and how many were made for it."""
    workers = engine or engine_of(provider)
    entry = provider.new_proofs(workers).prove(window_of(provider), 0)
    return entry, next(workers.asked)


def cut_off(provider: Provider, after: int = 2) -> None:
    """As a kill leaves it: so many shards are proven."""
    gives = engine_of(provider).gives

    def some(work: Work) -> WorkResult:
        if next(count) == after:
            raise UnreachedError("it went away")
        return gives(work)

    workers = Scripted(some, places=1)
    count = iter(range(99))
    with pytest.raises(UnreachedError):
        provider.new_proofs(workers).prove(window_of(provider), 0, asked=False)
    assert [row[:2] for row in kept(provider)] == [(0, shard) for shard in range(after)]


@pytest.mark.parametrize("engine", ["here", "workers"])
@pytest.mark.parametrize("after", [1, 2])
def test_a_killed_provider_makes_only_what_is_missing(folder: Path, engine: str, after: int) -> None:
    child = [sys.executable, "-m", "tests.crash.shards_window", str(folder), engine, str(after)]
    done = subprocess.run(child, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    with opened(folder) as provider:
        before = kept(provider)
        assert [row[:2] for row in before] == [(0, shard) for shard in range(after)]
        assert not fsck.examine(provider, True).findings
        entry, made = proven(provider)
        assert made == SHARDS - after
        assert b"".join(proof for *_, proof in before) == entry.proof[: PROOF_BYTES * after], "nothing else was kept"
        assert kept(provider) == [], "its entry has all of them"
        assert proven(provider) == (entry, 0)
        assert not fsck.examine(provider, True).findings, "each of its proofs holds"


def test_no_more_records_are_half_proven_than_keep_the_workers_busy(folder: Path) -> None:
    with opened(folder) as provider:
        assert provider.new_proofs(None)._records_at_once() == 1
        for places, records in ((1, 2), (2, 2), (16, 7)):
            workers = Scripted(engine_of(provider).gives, places=places)
            assert provider.new_proofs(workers)._records_at_once() == records


def test_a_statement_is_the_same_after_a_restart(folder: Path) -> None:
    """C_h and C_v come of derived blinders, else no proof of before would hold."""

    def commitments(provider: Provider) -> list[tuple[bytes, bytes, bytes]]:
        stated = provider.new_proofs(None)._statements
        found = provider.windows.of(window_of(provider))
        made = stated.proving(found, stated.case(found, 0))
        shards = [made.shard(at) for at in range(made.shards)]
        return [(one.committed, one.c_v, one.assignment.packed()) for one in shards]

    found = []
    for _ in range(2):
        with opened(folder) as provider:
            found.append(commitments(provider))
    assert found[0] == found[1]
    assert len({committed for committed, *_ in found[0]}) == SHARDS
    assert len({c_v for _, c_v, _ in found[0]}) == 1


def changed(provider: Provider, change: str) -> None:
    with provider.state.transaction() as db:
        assert db.execute(f"UPDATE shard_proofs SET {change}").rowcount


CHANGES = {
    "another shard's": "proof = (SELECT proof FROM shard_proofs WHERE shard = 1) WHERE shard = 0",
    "damaged": "proof = zeroblob(256) WHERE shard = 0",
    "cut short": "proof = x'00' WHERE shard = 0",
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_not_a_proof_of_this_statement_is_made_anew(folder: Path, change: str) -> None:
    """It is nobody's failure: the key goes on, and so does whoever proves."""
    with opened(folder) as provider:
        cut_off(provider)
        changed(provider, CHANGES[change])
        workers = engine_of(provider)
        entry, made = proven(provider, workers)
        assert made == SHARDS - 1
        assert workers.dropped == []
        assert stopped(provider.state, provider.journal.history.window(window_of(provider)).manifest.key_digest) is None
        assert not fsck.examine(provider, True).findings
        assert entry.proof[:PROOF_BYTES] != entry.proof[PROOF_BYTES : 2 * PROOF_BYTES]


def test_hints_of_another_make_have_other_commitments_and_take_nothing_up(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Software that fills in other blinders than the one that was killed: its statement is another one."""
    with opened(folder) as provider:
        cut_off(provider)
        monkeypatch.setattr(statements, "shard_blinders", lambda secret, *rest: shard_blinders(secret + 1, *rest))
        assert proven(provider)[1] == SHARDS


def test_without_the_check_a_wrong_proof_would_be_in_the_entry(folder: Path) -> None:
    with opened(folder) as provider:
        cut_off(provider)
        changed(provider, CHANGES["another shard's"])
        with without(CHECKED):
            assert proven(provider)[1] == SHARDS - 2
        assert fsck.examine(provider, True).findings


def test_a_key_that_stops_keeps_no_shard_that_was_under_way(folder: Path) -> None:
    """SPEC B.12.3."""
    with opened(folder) as provider:
        window = provider.journal.history.window(window_of(provider))
        gives = engine_of(provider).gives

        def stops(work: Work) -> WorkResult:
            made = gives(work)
            if stopped(provider.state, window.manifest.key_digest) is None:
                stop_key(provider.state, window.manifest.key_digest, "another record failed")
            return made

        with pytest.raises(ProofError, match="another record failed"):
            proven(provider, Scripted(stops, places=1))
        assert kept(provider) == []


def test_what_comes_too_late_is_not_kept(folder: Path) -> None:
    """A shard of an attempt that failed, done after another attempt has proven the record."""
    with opened(folder) as provider:
        entry, _ = proven(provider)
        with provider.state.transaction() as db:
            shard_proofs.ShardProofs.keep(db, window_of(provider), 0, 1, entry.proof[:PROOF_BYTES])
        assert kept(provider) == []


def test_a_window_that_is_retired_takes_them_with_it(folder: Path) -> None:
    with opened(folder) as provider:
        cut_off(provider)
        manifest = window_of(provider)
        retirement.begin(provider.state, manifest, 0)
        retirement.purge_rows(provider.state, manifest, keep_coin=False)
        assert kept(provider) == []
        with provider.state.transaction() as db:
            shard_proofs.ShardProofs.keep(db, manifest, 0, 0, bytes(PROOF_BYTES))
        assert kept(provider) == [], "what was under way when it began"


def test_fsck_names_one_of_a_record_that_the_ledger_lacks(folder: Path) -> None:
    with opened(folder) as provider:
        with provider.state.transaction() as db:
            shard_proofs.ShardProofs.keep(db, window_of(provider), 7, 0, bytes(PROOF_BYTES))
        (finding,) = fsck.examine(provider, False).findings
        assert "a proof of record 7" in str(finding)

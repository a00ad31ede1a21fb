# SPDX-License-Identifier: GPL-3.0-or-later
"""Proofs as the auditor checks them, batches, and what a failing back end or missing secrets lead to."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from ragseal.backends.group import default_group
from ragseal.groth16.assignments import Assignment
from ragseal.groth16.keys import KeyPaths, KeyView, load_key
from ragseal.groth16.provers import AttestationBackend
from ragseal.kernel import proofs
from ragseal.kernel.attestation import Record
from ragseal.kernel.commitment import Manifest, generators
from ragseal.kernel.errors import AttestationError, ProofError
from ragseal.kernel.noise_class import NoiseClass
from ragseal.kernel.proofs import BatchItem, ProofBatch, ProofEntry, statement_of
from ragseal.kernel.record_proofs import proof_equations
from ragseal.prover.attestation.answers import Answers
from ragseal.prover.attestation.batch_openings import shard_blinders, shared_blinder
from ragseal.prover.attestation.proofs import Proofs
from ragseal.prover.serving.serving import Serving
from ragseal.prover.storage.stopped_keys import release
from ragseal.prover.storage.window import Window
from tests.simulator.provider import (
    DIMENSION,
    Asker,
    batch,
    newest,
    open_provider,
    pseudonym_of,
    serving_on,
    window_on,
)

pytestmark = pytest.mark.slow


@asynccontextmanager
async def asked(tmp_path: Path, eager: bool = False) -> AsyncIterator[Serving]:
    """A provider with three records of two tenants."""
    async with window_on(tmp_path / "p", eager=eager) as serving:
        alice, carol = Asker("alice", serving), Asker("carol", serving)
        await alice.ask("report about topic 5")
        await carol.ask("globex")
        await alice.ask("something else")
        yield serving


def audit(key: KeyView, serving: Serving, batch: ProofBatch) -> None:
    """What an auditor does with a batch, from its own copy of the ledger."""
    window, group = newest(serving), default_group()
    manifest, beacon = window.manifest, window.beacon
    assert beacon is not None
    accounts = serving.provider.window_secrets(window.digest).registry
    items = [
        item(key, manifest, beacon, serving, window, accounts[a].tenant, e) for e, a in with_accounts(serving, batch)
    ]
    for i in items:
        for one in proof_equations(key.cls, key.digest, key.committed, i):
            key.verify(one.clear, one.c_w, one.committed, one.proof)
    context = proofs.batch_context(key.digest, window.digest, items)
    proofs.verify_committed(group, key.committed, context, items, batch.openings)
    assert [link.tenant for link in batch.links] == sorted({i.tenant for i in items})
    for link in batch.links:
        index = manifest.index_of(link.tenant)
        columns = serving.provider.window_secrets(window.digest).versions[link.tenant].public.columns
        own = [i for i in items if i.tenant == link.tenant]
        here = proofs.link_context(context, link.tenant, index.digest())
        bases = generators(group, DIMENSION)
        proofs.verify_link(group, bases, columns, key.scores.b, here, own, link.opening)


def with_accounts(serving: Serving, batch: ProofBatch) -> list[tuple[ProofEntry, str]]:
    records = [record_of(serving, entry.seq) for entry in batch.entries]
    return [(e, r.signed.request.account) for e, r in zip(batch.entries, records, strict=True)]


def record_of(serving: Serving, seq: int) -> Record:
    return Record.decode(serving.journal.data(newest(serving).records[seq]))


def item(
    key: KeyView, manifest: Manifest, beacon: int, serving: Serving, window: Window, tenant: str, entry: ProofEntry
) -> BatchItem:
    record, policy = record_of(serving, entry.seq), manifest.policy
    assert entry.record_digest == record.digest()
    ctx = record.signed.request.ctx()
    statement = statement_of(policy, key.cls, manifest.c_seed, beacon, ctx, record.t_commits)
    (c_w,) = proofs.shifted_scores(default_group(), [record.c_y], key.sum_y, policy, key.cls)
    return BatchItem(record, record.digest(), tenant, statement, c_w, entry)


def test_batches_hold_and_are_bound_to_their_records(tmp_path: Path, tiny: NoiseClass, keys: KeyPaths) -> None:
    key = load_key(keys.directory, tiny)

    async def run() -> None:
        async with asked(tmp_path) as serving:
            digest = newest(serving).digest
            assert serving.proofs.count(digest) == 0
            whole = ProofBatch.decode(await batch(serving, digest, []))
            assert [e.seq for e in whole.entries] == [0, 1, 2]
            audit(key, serving, whole)
            assert serving.proofs.count(digest) == 3
            part = ProofBatch.decode(await batch(serving, digest, [1]))
            audit(key, serving, part)
            assert part.entries[0] == whole.entries[1]  # proofs are kept, openings are fresh
            assert part.openings[0].announcements != whole.openings[0].announcements
            assert await batch(serving, digest, []) == whole.encode()
            # a proof moved to another record, and openings of another batch
            entries = list(whole.entries)
            moved = replace(entries[2], seq=0, record_digest=entries[0].record_digest)
            with pytest.raises(ProofError):
                audit(key, serving, replace(whole, entries=(moved, *entries[1:])))
            with pytest.raises(ProofError):
                audit(key, serving, replace(part, openings=whole.openings))

    asyncio.run(run())


def test_what_is_no_set_of_records_is_refused(tmp_path: Path) -> None:
    async def run() -> None:
        async with asked(tmp_path) as serving:
            digest = newest(serving).digest
            for seqs in ([3], [1, 0], [0, 0], [0, 1 << 40]):
                with pytest.raises(AttestationError):
                    await batch(serving, digest, seqs)

    asyncio.run(run())


def test_the_worker_proves_what_a_restart_left(tmp_path: Path, tiny: NoiseClass, keys: KeyPaths) -> None:
    async def run() -> None:
        async with asked(tmp_path) as serving:
            digest = newest(serving).digest
            serving.proofs.prove(digest, 1)
        async with serving_on(open_provider(tmp_path / "p"), eager=True) as serving:
            await proven(serving, digest, 3)
            alice = Asker("alice", serving, ctr=2)
            alice.last_receipt = await last_receipt(serving)
            await alice.ask("after the restart")
            await proven(serving, digest, 4)
            audit(load_key(keys.directory, tiny), serving, ProofBatch.decode(await batch(serving, digest, [])))

    asyncio.run(run())


async def proven(serving: Serving, manifest: bytes, count: int) -> None:
    end = time.monotonic() + 60
    while serving.proofs.count(manifest) < count:
        assert time.monotonic() < end, "the worker does not prove"
        await asyncio.sleep(0.05)


async def last_receipt(serving: Serving) -> bytes:
    window, provider = newest(serving), serving.provider
    answers = Answers(provider.state)
    secrets = provider.window_secrets(window.digest)
    seq = window.seq_of[pseudonym_of(provider.state, window.digest, "alice"), 2]
    again = answers.again(secrets, secrets.versions["acme"], serving.journal.entry(window.records[seq]))
    return again.receipt.digest()


class Forger:
    """A back end that hands out what is no proof of the statement."""

    def __init__(self, honest: AttestationBackend, change: str) -> None:
        self.key = honest.key
        self._honest = honest
        self._change = change
        self.calls = 0

    def prove(self, assignment: Assignment) -> bytes:
        self.calls += 1
        if self._change == "fails":
            raise ProofError("the witness does not satisfy the circuit")
        proof = self._honest.prove(assignment)
        return proof[192:] + proof[64:192] + proof[:64]


class Forging:
    """Keys under which only a forger proves."""

    def __init__(self, forger: Forger) -> None:
        self._forger = forger

    def view(self, digest: bytes) -> KeyView:
        return self._forger.key

    def backend(self, digest: bytes) -> Forger:
        return self._forger


@pytest.mark.parametrize("change", ["fails", "wrong"])
def test_a_proof_that_does_not_hold_stops_the_key(tmp_path: Path, keys: KeyPaths, change: str) -> None:
    async def run() -> None:
        async with asked(tmp_path) as serving:
            provider, digest = serving.provider, newest(serving).digest
            forger = Forger(provider.backends.keys.backend(keys.digest), change)
            backends = provider.backends
            proofs = Proofs(
                provider.state,
                serving.journal,
                backends.group,
                backends.engine,
                replace(provider.windows, keys=Forging(forger)),
                provider.environment.draw,
            )
            with pytest.raises(ProofError):
                proofs.prove(digest, 0)
            assert proofs.count(digest) == 0
            with pytest.raises(ProofError, match="stopped"):
                proofs.prove(digest, 1)
            assert forger.calls == 1
            with pytest.raises(ProofError, match="stopped"):
                serving.proofs.prove(digest, 1)  # as after a restart: another object, an honest back end
            release(provider.state, keys.digest)
            assert serving.proofs.prove(digest, 1).seq == 1

    asyncio.run(run())


def test_secrets_of_another_record_are_refused(tmp_path: Path) -> None:
    async def run() -> None:
        async with asked(tmp_path) as serving:
            digest, state = newest(serving).digest, serving.provider.state
            carol = pseudonym_of(state, digest, "carol")
            statements: Sequence[str] = (
                f"UPDATE queries SET secrets = (SELECT secrets FROM queries WHERE account = '{carol}' LIMIT 1)",
                "DELETE FROM queries",
            )
            for statement in statements:
                with state.transaction() as db:
                    db.execute(statement)
                with pytest.raises(ProofError, match=r"secrets of record 0|stored secrets of record 0"):
                    serving.proofs.prove(digest, 0)

    asyncio.run(run())


def test_other_hints_get_another_blinder(tiny: NoiseClass, keys: KeyPaths) -> None:
    """Two commitments to different hints of one record differ by more than the hints (SPEC B.8)."""
    bases = load_key(keys.directory, tiny).committed
    assert shard_blinders(5, bases, [bytes(64)], 0) == shard_blinders(5, bases, [bytes(64)], 0)
    settings = [(s, h, at) for s in (5, 6) for h in (bytes(64), bytes(63) + b"\x01") for at in (0, 1)]
    every = {x for s, h, at in settings for own in shard_blinders(s, bases, [h], at) for x in own}
    assert len(every) == 16
    assert len({shared_blinder(s, shared) for s in (5, 6) for shared in ((3, 4), (4, 3))} | every) == 20

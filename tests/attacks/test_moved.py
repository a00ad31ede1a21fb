# SPDX-License-Identifier: GPL-3.0-or-later
"""Proofs that are right, of another record, window, key or class.  SPEC B.5, B.7, G.10."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from py_ecc.optimized_bn128 import FQ, FQ2, curve_order, multiply, normalize

from ragseal.backends.native import native
from ragseal.groth16.keys import KeyView
from ragseal.kernel import field, proofs
from ragseal.kernel.attestation import Record
from ragseal.kernel.errors import ProofError
from ragseal.kernel.law import Asked
from ragseal.kernel.proofs import BatchItem, ProofBatch, ProofEntry
from ragseal.kernel.statement import seed_commitment
from ragseal.prover.storage.stopped_keys import stop_key, stopped
from ragseal.prover.workers.interface import Work, WorkResult
from ragseal.prover.workers.making import ProvingKeys
from ragseal.verifier.evidence.evidence import ConfiguredKey
from tests.attacks.checks import EXACT, HINTS, LINK, PAIRING, STOPPED_MEANWHILE, WORKER_OPENING, WORKER_PROOF, without
from tests.attacks.machine import Machine, machine, make_tenant
from tests.attacks.removal import Check
from tests.attacks.world import KEYS, AttackWorld, Cheat, accepted, queried, refused, undecided
from tests.classes import GAUSSIAN, TINY
from tests.simulator.keys import keys_of
from tests.simulator.provider import Asker, newest, window_on
from tests.simulator.ticking import ticking
from tests.workers.scene import Scripted

pytestmark = pytest.mark.slow


def _deliver(world: AttackWorld, seq: int, entry: ProofEntry) -> None:
    record = world.records()[seq]
    world.kept[world.digest, seq].entry = replace(entry, seq=seq, record_digest=record.digest())


def test_proof_moved_to_another_record() -> None:
    """Record 0's proof and hints for record 1; the openings are made for what is delivered."""
    world = queried()
    first, second = (world.kept[world.digest, seq] for seq in (0, 1))
    _deliver(world, 1, world.entry(world.records()[0]))
    second.hidden, second.rho_hint = first.hidden, first.rho_hint
    second.shared, second.rho_v = first.shared, first.rho_v
    refused(world, 8, "the proof of record 1 does not hold")
    with without(PAIRING):
        accepted(world)


def test_proof_replayed_with_another_hint_commitment() -> None:
    """The same hints under another blinder: the proof was for the C_h that alpha and beta hash."""
    world = queried()
    entry = world.entry(world.records()[1])
    query = world.kept[world.digest, 1]
    query.rho_hint += 5
    _deliver(world, 1, replace(entry, committed=world.committed(query)))
    refused(world, 8, "the proof of record 1 does not hold")
    with without(PAIRING):
        accepted(world)


def test_record_changed_after_its_proof() -> None:
    """Nothing of the clear inputs changes with a record's time, only the record's digest in alpha and beta."""

    def made() -> AttackWorld:
        world = queried()
        record = world.records()[2]
        entry = world.entry(record)
        world.messages[world.messages.index(record)] = replace(record, time=record.time + 60)
        _deliver(world, 2, entry)
        return world

    refused(made(), 8, "the proof of record 2 does not hold")
    real = proofs.challenges
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(proofs, "challenges", lambda key, record, *rest: real(key, bytes(32), *rest))
        accepted(made())


@pytest.mark.parametrize("name", ["beacon", "ctx", "c_seed", "hmax"])
def test_proof_for_another_clear_input(name: str) -> None:
    """The proof of the same query under another beacon (another window), seed or clipping range."""
    seed = (7, 8) if name == "c_seed" else None
    value = seed_commitment((7, 8)) if name == "c_seed" else 1600
    changed: dict[str, Any] = {"asked": Asked((value,))} if name == "hmax" else {name: value}
    world = queried(Cheat(proven=lambda s, e: replace(s, **changed), seed=seed))
    refused(world, 8, "the proof of record 1 does not hold")
    with without(PAIRING):
        accepted(world)


def test_batch_of_another_window() -> None:
    """A whole honest batch of a window with the same seed and queries, as it is and relabelled."""
    other = AttackWorld()
    other.commit("w2")
    for account in ("alice", "carol", "bob"):
        other.ask(account)
    batch = other.batch(other.digest, [0, 1, 2])
    world = queried()
    digests = [record.digest() for record in world.records()]
    world.tamper_batch = lambda _: batch
    refused(world, 8, "belongs to another window")
    world.tamper_batch = lambda _: replace(batch, manifest=world.digest)
    refused(world, 8, "does not hold exactly the records that were asked for")
    relabelled = tuple(replace(e, record_digest=d) for e, d in zip(batch.entries, digests, strict=True))
    world.tamper_batch = lambda _: replace(batch, manifest=world.digest, entries=relabelled)
    refused(world, 8, "the proof of record 0 does not hold")


def test_proof_under_another_key() -> None:
    """The provider has its own key of the same class; one record is proven under it."""
    other = machine(TINY.name, KEYS / "attacks")
    assert other.key.digest != machine().key.digest
    world = queried(Cheat(prover=lambda _, assignment: other.prove(assignment)))
    refused(world, 8, "the proof of record 1 does not hold")
    with without(PAIRING):
        accepted(world)


def test_window_under_the_providers_key() -> None:
    """Who makes keys can forge: neither an unknown key nor one that is known to be the provider's gives a verdict."""
    world = _all_under(machine(TINY.name, KEYS / "attacks"))
    stranger = replace(world.auditor(), keys={})
    undecided(world, 3, "not in this auditor's configuration", auditor=stranger)
    world.made_by = "provider"
    undecided(world, 3, "unsafe: the keys are made by provider")
    world.made_by = "auditor"
    accepted(world)


def _all_under(tools: Machine, **changes: Any) -> AttackWorld:
    tenants = {name: make_tenant(name, on=tools) for name in ("north", "south")}
    return queried(tools=tools, tenants=tenants, **changes)


def test_window_under_a_key_of_another_class() -> None:
    """A class of the Gaussian law draws other noise over as many slots; its key must not pass for one of another.

    The configuration says which class a key was made for.  Were that wrong as well, the number of public inputs
    differs; with both checks gone every proof holds and epsilon is computed for a noise that was never drawn.
    """
    other, tiny = machine(GAUSSIAN.name), machine()
    world = _all_under(replace(other, cls=tiny.cls, digest=tiny.digest, engine=other.engine))

    def configured(name: str, digest: bytes, load: Callable[[], Any]) -> Any:
        key = ConfiguredKey(other.key.digest, name, digest, "auditor", load)
        return replace(world.auditor(), keys={other.key.digest: key})

    undecided(
        world,
        3,
        "made for another circuit class",
        auditor=configured(GAUSSIAN.name, other.digest, lambda: other.key),
    )
    as_tiny = configured(TINY.name, tiny.digest, lambda: KeyView(TINY, other.key.vk))
    undecided(world, 3, "keys never cross circuit classes", auditor=as_tiny)
    with pytest.raises(ProofError, match="keys never cross circuit classes"):
        KeyView(tiny.cls, other.key.vk)
    accepted(world, auditor=configured(TINY.name, tiny.digest, lambda: other.key))


def test_a_request_logged_twice() -> None:
    """The same signed request in a second record, hence the same noise for two sets: ctr has no such gap."""
    world = queried()
    again = replace(world.records()[1], seq=3)
    assert isinstance(again, Record)
    world.messages.insert(-1, again)
    refused(world, 6, "jumps to request 1, expected 2")


# Batched openings used for another batch than the one they were made for. SPEC B.7, G.10. Every record here is honest
# and would be proven; what fails is the binding of an opening to its batch.


#: another batch of the same window, made honestly
OTHERS: dict[str, Callable[[AttackWorld], ProofBatch]] = {
    "another_batch": lambda world: world.batch(world.digest, [0]),
    "a_record_left_out": lambda world: world.batch(world.digest, [0, 1]),
    "records_reordered": lambda world: world.batch(world.digest, [2, 1, 0]),
    "an_entry_replaced": lambda world: _with_fresh_hints(world, 1),
}


def _with_fresh_hints(world: AttackWorld, seq: int) -> ProofBatch:
    """The whole batch with another, honest proof of one record: other blinder, other C_h, other challenges."""
    query = world.kept[world.digest, seq]
    kept = query.entry
    query.rho_hint, query.entry = query.rho_hint + 1, None
    made = world.batch(world.digest, [0, 1, 2])
    query.rho_hint, query.entry = query.rho_hint - 1, kept
    return made


@pytest.mark.parametrize("case", OTHERS)
@pytest.mark.parametrize(("part", "check"), [("hints", HINTS), ("link", LINK)], ids=["hints", "link"])
def test_opening_reused_for_another_batch(case: str, part: str, check: Check) -> None:
    world = queried()
    world.batch(world.digest, [0, 1, 2])
    other = OTHERS[case](world)

    def swap(batch: ProofBatch) -> ProofBatch:
        if part == "hints":
            return replace(batch, openings=(other.openings[0], *batch.openings[1:]))
        links = {link.tenant: link for link in (*batch.links, *other.links)}
        return replace(batch, links=tuple(links[tenant] for tenant in sorted(links)))

    world.tamper_batch = swap
    refused(world, 8, f"the {part} opening does not hold")
    with without(check):
        accepted(world)


@pytest.mark.parametrize("seqs", [[0, 2], [2, 1, 0]], ids=["left_out", "reordered"])
def test_valid_batch_of_other_records_than_asked(seqs: list[int]) -> None:
    """A record that cannot be proven is simply not delivered, or the batch comes in another order."""
    world = queried()
    honest = world.batch
    world.batch = lambda manifest, _: honest(manifest, seqs)  # type: ignore[method-assign,assignment]
    refused(world, 8, "does not hold exactly the records that were asked for")
    with without(EXACT):
        accepted(world)


# --- Groth16 proofs are malleable ------------------------------------------------------------------------------------


def rerandomised(proof: bytes, factor: int) -> bytes:
    """(factor A, B / factor, C): another proof of the same statement, by anyone."""
    a = native.g1_msm(proof[:64], field.pack([factor]))
    x1, x0, y1, y0 = (int.from_bytes(proof[64 + i : 96 + i], "big") for i in range(0, 128, 32))
    inverse = pow(factor, -1, curve_order)
    x, y = normalize(multiply((FQ2([x0, x1]), FQ2([y0, y1]), FQ2.one()), inverse))
    b = b"".join(int(FQ(n)).to_bytes(32, "big") for n in (x.coeffs[1], x.coeffs[0], y.coeffs[1], y.coeffs[0]))
    return bytes(a) + b + proof[192:]


def test_rerandomised_proof_is_no_identity_but_bound_to_its_batch() -> None:
    """It is accepted where it was proven, so a proof's digest names nothing; in a delivered batch it is refused."""
    world = queried()
    entry = world.entry(world.records()[1])
    other = rerandomised(entry.proof, 1234567)
    assert other != entry.proof
    delivered = world.batch(world.digest, [0, 1, 2])
    world.kept[world.digest, 1].entry = replace(entry, proof=other)
    accepted(world)
    # the same proof put into a batch whose openings are made
    entries = (delivered.entries[0], replace(entry, proof=other), delivered.entries[2])
    world.tamper_batch = lambda _: replace(delivered, entries=entries)
    refused(world, 8, "the hints opening does not hold")

    real = proofs.batch_context

    def without_proofs(key: bytes, manifest: bytes, items: list[BatchItem]) -> bytes:
        return real(key, manifest, [replace(i, entry=replace(i.entry, proof=bytes(256))) for i in items])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(proofs, "batch_context", without_proofs)
        fresh = world.batch(world.digest, [0, 1, 2])
        first = replace(fresh.entries[1], proof=rerandomised(entry.proof, 99))
        world.tamper_batch = lambda _: replace(fresh, entries=(fresh.entries[0], first, fresh.entries[2]))
        accepted(world)


# A worker of the provider's gives the proof of another record: an honest window keeps its verdict. SPEC B.12.


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

# SPDX-License-Identifier: GPL-3.0-or-later
"""Proofs that are right, of another record, window, key or class.  SPEC B.5, B.7, G.10."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ragseal.groth16.keys import KeyView
from ragseal.kernel import proofs
from ragseal.kernel.attestation import Record
from ragseal.kernel.errors import ProofError
from ragseal.kernel.law import Asked
from ragseal.kernel.proofs import ProofEntry
from ragseal.kernel.statement import seed_commitment
from ragseal.verifier.evidence.evidence import ConfiguredKey
from tests.attacks.checks import PAIRING, without
from tests.attacks.machine import Machine, machine, make_tenant
from tests.attacks.world import KEYS, AttackWorld, Cheat, accepted, queried, refused, undecided
from tests.classes import ONE_SIDED, TINY

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
    """A class of the one-sided law draws other noise over as many slots; its key must not pass for one of another.

    The configuration says which class a key was made for.  Were that wrong as well, the number of public inputs
    differs; with both checks gone every proof holds and epsilon is computed for a noise that was never drawn.
    """
    other, tiny = machine(ONE_SIDED.name), machine()
    world = _all_under(replace(other, cls=tiny.cls, digest=tiny.digest, engine=other.engine))

    def configured(name: str, digest: bytes, load: Callable[[], Any]) -> Any:
        key = ConfiguredKey(other.key.digest, name, digest, "auditor", load)
        return replace(world.auditor(), keys={other.key.digest: key})

    undecided(
        world,
        3,
        "made for another circuit class",
        auditor=configured(ONE_SIDED.name, other.digest, lambda: other.key),
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

# SPDX-License-Identifier: GPL-3.0-or-later
"""Windows of a noise class: what stands against a provider that lies in the commitments to bounds and the threshold.

Rows of the circuit are attacked one by one in tests/circuits/test_noise_*; here are whole windows with real proofs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from ragseal.kernel import field, proofs
from ragseal.kernel.attestation import Record
from ragseal.kernel.bn254 import POINT_BYTES
from ragseal.kernel.errors import EncodingError
from ragseal.kernel.params import R
from tests.attacks.checks import HINTS, THRESHOLDS, without
from tests.attacks.machine import GROUP, machine, make_tenant, policy
from tests.attacks.world import AttackWorld, Cheat, Query, accepted, refused
from tests.circuits.noise_drafts import NoiseDraft
from tests.circuits.noise_forgeries import without as left_out
from tests.classes import GAUSSIAN, TINY

pytestmark = pytest.mark.slow

NAMES = (TINY.name, GAUSSIAN.name)


def window(cheat: Cheat | None = None, name: str = NAMES[0], **changes: Any) -> AttackWorld:
    """As :func:`tests.attacks.world.queried`, of a noise class."""
    tools = machine(name)
    world = AttackWorld(tools, {tenant: make_tenant(tenant, on=tools) for tenant in ("north", "south")})
    world.commit(policy_=policy(tools, **changes))
    for account, its in (("alice", None), ("carol", cheat), ("bob", None)):
        world.ask(account, its)
    world.close()
    return world


@pytest.mark.parametrize("name", NAMES)
def test_an_honest_window_is_proven(name: str) -> None:
    world = window(name=name)
    verdict = accepted(world, receipts=world.receipts())
    assert "epsilon_audit=" in verdict.line()


def hidden_winner(d: NoiseDraft) -> bool:
    """A winner is left out; its bound among the hints is so low that it need not be a place.  C_1 has the true one."""
    honest = d.returned()
    fit = [p for p in d.places if p.win and p.u < d.theta and p.k >= 0]
    if not fit or not left_out(d, fit[0]):
        return False
    d.b[fit[0].slot] = d.entry - 1 - min(fit[0].k, d.steps)
    d.settle_distances()
    return d.returned() != honest


def test_bounds_among_the_hints_that_are_not_those_of_c_1() -> None:
    """The circuit accepts it and the pairing holds: only the opening of both commitments together stands against it."""
    world = window(Cheat(forge=hidden_winner, true_bounds=True), gain=150, epsilon_account="100")
    assert world.kept[world.digest, 1].bounds
    refused(world, 8, "the hints opening does not hold")
    with without(HINTS):
        accepted(world)


@pytest.mark.parametrize("name", ["ctx", "scores"])
def test_components_of_c_v_along_other_inputs(name: str) -> None:
    """C_v makes up for a clear input, or for a score, that is not what is proven: its opening stands against it."""
    lies = {
        "ctx": {"proven": lambda s, e: replace(s, ctx=12345)},
        "scores": {"scores": lambda w: [w[0] + (30 << TINY.c), *w[1:]]},
    }
    world = window(Cheat(compensate=True, into_c_v=True, **lies[name]))
    assert world.kept[world.digest, 1].v_extra
    refused(world, 8, "the thresholds opening does not hold")
    with without(THRESHOLDS):
        accepted(world)


def test_c_v_of_another_record() -> None:
    """Equal C_v of two records: the proof is for its own threshold."""
    world = window()
    first, second = (world.entry(world.records()[seq]) for seq in (0, 1))
    world.tamper_batch = lambda batch: replace(
        batch, entries=(batch.entries[0], replace(second, c_v=first.c_v), *batch.entries[2:])
    )
    refused(world, 8, "the proof of record 1 does not hold")


@pytest.mark.parametrize("c_v", [0, 2])
def test_another_number_of_commitments_to_the_threshold(c_v: int) -> None:
    """No message has none, or two."""
    world = window()
    entry = world.entry(world.records()[1])
    with pytest.raises(EncodingError):
        replace(entry, c_v=entry.c_v * c_v).encode()


def test_c_1_fixed_after_beta() -> None:
    """beta times a component of C_1 makes up for a false clear input, if beta is known before C_1.  It hashes C_1."""
    real = proofs.challenges

    def of_c_h_alone(key: bytes, record: bytes, stated: Sequence[int], c_w: bytes, committed: bytes) -> list[int]:
        return real(key, record, stated, c_w, committed[:POINT_BYTES])

    def early(world: AttackWorld, record: Record, query: Query) -> Sequence[int]:
        made, stated = world.committed(query), world.of_shard(query.statement)
        return of_c_h_alone(world.key.digest, record.digest(), stated, world.c_w(record), made)

    cheat = Cheat(proven=lambda s, e: replace(s, ctx=12345), chosen=early)
    world = window(cheat)
    record, query = world.records()[1], world.kept[world.digest, 1]
    mine, stated = 12345, query.statement.ctx
    beta = early(world, record, query)[1]
    base, scalar = world.tools.base("ctx"), (mine - stated) * pow(beta, -1, R) % R
    honest = world.committed(query)
    moved = honest[:POINT_BYTES] + GROUP.msm(honest[POINT_BYTES:] + base, field.pack([1, scalar]))
    query.chosen = tuple(early(world, record, query))
    query.entry = replace(world.entry(record), committed=moved)
    refused(world, 8, "the proof of record 1 does not hold")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(proofs, "challenges", of_c_h_alone)
        for one in world.kept.values():
            if one is not query:
                one.entry = None
        refused(world, 8, "the hints opening does not hold")
        with without(HINTS):
            accepted(world)


@pytest.mark.parametrize("more", [False, True])
def test_another_number_of_commitments(more: bool) -> None:
    """The pairing adds up whatever it is given: C_h + beta C_1 in one point would hold, and C_h in two parts."""
    world = window()
    entry = world.entry(world.records()[1])
    parts = entry.committed[:POINT_BYTES]
    if more:
        base = world.key.scores.b
        parts = GROUP.msm(parts + base, field.pack([1, R - 5])) + GROUP.msm(base, field.pack([5]))
        parts += entry.committed[POINT_BYTES:]
    world.tamper_batch = lambda batch: replace(
        batch, entries=(batch.entries[0], replace(entry, committed=parts), *batch.entries[2:])
    )
    refused(world, 8, "a record over 1 shards has 1 proofs and 2 commitments each")

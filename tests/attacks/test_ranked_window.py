# SPDX-License-Identifier: GPL-3.0-or-later
"""Windows of a ranked class: what stands against a provider that lies about bounds in the second commitment.

Rows of the circuit are attacked one by one in tests/circuits/test_ranked_*; here are whole windows with real proofs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from ragseal.accounting.pld import ONE_SIDED_REASON
from ragseal.kernel import field, proofs
from ragseal.kernel.attestation import Record
from ragseal.kernel.bn254 import POINT_BYTES
from ragseal.kernel.params import R
from tests.attacks.checks import HINTS, without
from tests.attacks.machine import GROUP, machine, make_tenant, policy
from tests.attacks.world import AttackWorld, Cheat, Query, accepted, refused
from tests.circuits.ranked_drafts import RankedDraft
from tests.circuits.ranked_forgeries import without as left_out

pytestmark = pytest.mark.slow

NAMES = ("ranked-tiny-two", "ranked-tiny-one", "ranked-tiny-gaussian")


def window(cheat: Cheat | None = None, name: str = NAMES[0], **changes: Any) -> AttackWorld:
    """As :func:`tests.attacks.world.queried`, of a ranked class."""
    tools = machine(name)
    world = AttackWorld(tools, {tenant: make_tenant(tenant, on=tools) for tenant in ("north", "south")})
    world.commit(policy_=policy(tools, **changes))
    for account, its in (("alice", None), ("carol", cheat), ("bob", None)):
        world.ask(account, its)
    world.close()
    return world


@pytest.mark.parametrize("name", NAMES)
def test_an_honest_window_is_proven(name: str) -> None:
    """Of the one-sided law nothing follows for every list (its window is refused for that, not for its proofs)."""
    world = window(name=name)
    if name != NAMES[1]:
        verdict = accepted(world, receipts=world.receipts())
        assert "epsilon_audit=" in verdict.line()
    else:
        refused(world, 11, ONE_SIDED_REASON)


def hidden_winner(d: RankedDraft) -> bool:
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


def test_c_1_fixed_after_beta() -> None:
    """beta times a component of C_1 makes up for a false clear input, if beta is known before C_1.  It hashes C_1."""
    real = proofs.challenges

    def of_c_h_alone(key: bytes, record: bytes, stated: proofs.Statement, c_w: bytes, c_h: bytes) -> list[int]:
        return real(key, record, stated, c_w, c_h[:POINT_BYTES])

    def early(world: AttackWorld, record: Record, query: Query) -> Sequence[int]:
        c_h = world.hint_commitment(query)
        return of_c_h_alone(world.key.digest, record.digest(), query.statement, world.c_w(record), c_h)

    cheat = Cheat(proven=lambda s, e: replace(s, ctx=12345), chosen=early)
    world = window(cheat)
    record, query = world.records()[1], world.kept[world.digest, 1]
    mine, stated = 12345, query.statement.ctx
    beta = early(world, record, query)[1]
    base, scalar = world.tools.base("ctx"), (mine - stated) * pow(beta, -1, R) % R
    honest = world.hint_commitment(query)
    moved = honest[:POINT_BYTES] + GROUP.msm(honest[POINT_BYTES:] + base, field.pack([1, scalar]))
    query.chosen = tuple(early(world, record, query))
    query.entry = replace(world.entry(record), c_h=moved)
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
    parts = entry.c_h[:POINT_BYTES]
    if more:
        base = world.key.scores.b
        parts = GROUP.msm(parts + base, field.pack([1, R - 5])) + GROUP.msm(base, field.pack([5]))
        parts += entry.c_h[POINT_BYTES:]
    world.tamper_batch = lambda batch: replace(
        batch, entries=(batch.entries[0], replace(entry, c_h=parts), *batch.entries[2:])
    )
    refused(world, 8, f"a record over 1 shards has 1 proofs, {len(entry.c_h) // POINT_BYTES} commitments to hints each")

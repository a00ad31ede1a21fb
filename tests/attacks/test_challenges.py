# SPDX-License-Identifier: GPL-3.0-or-later
"""Alpha and beta known before C_h is fixed: every look-up can then be forged, and the proof is a real one.

A look-up says sum 1/(alpha - x) = sum mult_j/(alpha - j).  At a known alpha one multiplicity makes up for any x that
is in no table.  So each forgery below satisfies every row of the compiled circuit and has a valid Groth16 proof, for
an alpha and a beta that the verifier does not take from anyone: it hashes C_h.  SPEC B.5.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from ragseal.kernel import field, proofs
from ragseal.kernel.attestation import Record
from ragseal.kernel.params import R
from tests.attacks.forgeries import left_out, loser_returned, winner_with_chosen_noise
from tests.attacks.machine import machine
from tests.attacks.world import AttackWorld, Cheat, Query, accepted, queried, refused
from tests.circuits.noise_drafts import NoiseDraft

pytestmark = pytest.mark.slow


def _packed(draft: NoiseDraft, h: Sequence[int]) -> bytes:
    return field.pack(x % R for x in draft.inputs(h).values())


def absorbed(draft: NoiseDraft, hints: list[int]) -> list[int]:
    """Hints in which the tables' first multiplicities make up for everything that is looked up and not in a table."""
    tools, h = machine(), list(hints)
    spare = {name: tools.key.layout.by_name[name].offset for name in ("coarseCount", "rangeCount", "noiseCount")}

    def residue(row: int, at: int, by: int) -> int:
        witness = tools.r1cs.solve(_packed(draft, [*h[:at], h[at] + by, *h[at + 1 :]]))
        a, b, c = (
            sum(k * int.from_bytes(witness.get(wire), "big") for wire, k in side) for side in tools.r1cs.constraint(row)
        )
        return (a * b - c) % R

    while (row := tools.r1cs.check(tools.r1cs.solve(_packed(draft, h)))) is not None:
        for name, at in spare.items():
            zero, one = residue(row, at, 0), residue(row, at, 1)
            if zero != one:
                h[at] -= zero * pow(one - zero, -1, R)
                del spare[name]
                break
        else:
            raise AssertionError("a rule stands against it that no multiplicity can satisfy")
    assert len(spare) < 3, "the forgery needs no forging"
    return h


FORGERIES = {
    "noise_through_a_row_that_is_in_no_table": winner_with_chosen_noise,
    "winner_not_opened_under_a_moved_threshold": left_out,
    "win_bit_moved": loser_returned,
}


def picked(world: AttackWorld, record: Record, query: Query) -> Sequence[int]:
    """Alpha and beta as the provider likes them."""
    return (123456789, 987654321)


def of_earlier_hints(world: AttackWorld, record: Record, query: Query) -> Sequence[int]:
    """Alpha and beta that C_h gave before its hints were moved."""
    return world.challenges(record, query)


@pytest.mark.parametrize("chosen", [picked, of_earlier_hints])
@pytest.mark.parametrize("forgery", FORGERIES)
def test_challenge_after_the_fact(forgery: str, chosen: Callable[..., Sequence[int]]) -> None:
    def gaining(draft: NoiseDraft) -> bool:
        honest = list(draft.ids)
        return FORGERIES[forgery](draft) and draft.ids != honest

    world = queried(Cheat(forge=gaining, h_of=absorbed, chosen=chosen))
    refused(world, 8, "the proof of record 1 does not hold")
    forged, query = world.records()[1], world.kept[world.digest, 1]
    real = proofs.challenges

    def believed(key: bytes, record: bytes, stated: Sequence[int], c_w: bytes, committed: bytes) -> list[int]:
        if record == forged.digest():
            return list(query.chosen)
        return real(key, record, stated, c_w, committed)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(proofs, "challenges", believed)
        accepted(world)


def test_what_the_verifier_hashes() -> None:
    """Changing anything that a proof is about changes both challenges."""
    world = queried()
    record = world.records()[0]
    query = world.kept[world.digest, 0]
    stated = world.of_shard(query.statement)
    parts = [world.key.digest, record.digest(), stated, world.c_w(record), world.added(query)]
    base = proofs.challenges(*parts)  # type: ignore[arg-type]
    assert base[0] != base[1]
    seen = {tuple(base)}
    others: list[tuple[int, object]] = [(at, bytes(32)) for at in (0, 1)] + [(at, world.key.scores.b) for at in (3, 4)]
    for at in range(len(stated)):
        others.append((2, [x + (i == at) for i, x in enumerate(stated)]))
    for at, value in others:
        changed: list[object] = list(parts)
        changed[at] = value
        a, b = proofs.challenges(*changed)  # type: ignore[arg-type]
        assert a != base[0]
        assert b != base[1]
        seen.add((a, b))
    assert len(seen) == 12

# SPDX-License-Identifier: GPL-3.0-or-later
"""Batched openings used for another batch than the one they were made for.  SPEC B.7, G.10.

Every record here is honest and would be proven; what fails is the binding of an opening to its batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from py_ecc.optimized_bn128 import FQ, FQ2, curve_order, multiply, normalize

from ragseal.backends.native import native
from ragseal.kernel import field, proofs
from ragseal.kernel.proofs import BatchItem, ProofBatch
from tests.attacks.checks import EXACT, HINTS, LINK, without
from tests.attacks.removal import Check
from tests.attacks.world import AttackWorld, accepted, queried, refused

pytestmark = pytest.mark.slow

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

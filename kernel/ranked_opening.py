# SPDX-License-Identifier: GPL-3.0-or-later
"""What the batched opening of ranked proofs proves: C_h and C_1 open, each over its own bases, to the same bounds.

C_1 holds b_i where the circuit's wire is beta b_i: a verifier multiplies the commitment by beta.  The bounds are hints
as well, and nothing in the circuit ties the two; one witness for both relations does.  A slot's four hints stand
together in it, so that bounds are spread over its whole first part: were they all in one half, a round of folding would
have the identity to send, which is refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragseal.kernel.bn254 import POINT_BYTES
from ragseal.kernel.errors import ProofError
from ragseal.kernel.opening import Relation
from ragseal.kernel.ranked_statement import BOUND, SLOT_HINTS, RankedLayout


def opening_size(layout: RankedLayout) -> int:
    """Entries of the witness: the hints, the blinder of C_h, the blinder of C_1."""
    return layout.size + 2


def ranked_relations(
    layout: RankedLayout, hints: bytes, scaled: bytes, blinder: bytes, c_h: Sequence[bytes], c_1: Sequence[bytes]
) -> tuple[Relation, Relation]:
    """C_h over {W_j, B}, C_1 over {G^b_i, B}, the bounds in common.

    Args:
        hints: W_0, W_1, ..., 64 bytes each.
        scaled: G^b_0 .. G^b_(N-1).
        blinder: B.
        c_h, c_1: of each proof of the batch, in the same order.

    Raises:
        ProofError: another number of bases than the layout has, or of commitments of the two kinds.
    """
    size, n = layout.size, layout.cls.N
    if (len(hints), len(scaled), len(blinder)) != (size * POINT_BYTES, n * POINT_BYTES, POINT_BYTES):
        raise ProofError("ranked opening: another number of bases than the class has")
    if len(c_h) != len(c_1):
        raise ProofError("ranked opening: a commitment to bounds for each commitment to hints")
    bounds = [SLOT_HINTS * i + BOUND for i in range(n)]
    return (
        Relation(hints + blinder, ((0, size + 1),), tuple(c_h)),
        Relation(scaled + blinder, (*((at, at + 1) for at in bounds), (size + 1, size + 2)), tuple(c_1)),
    )

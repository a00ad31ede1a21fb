# SPDX-License-Identifier: GPL-3.0-or-later
"""Integer scores and the score window.  SPEC M.1 to M.3."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import mul, sub

from ragseal.kernel.errors import AttestationError
from ragseal.kernel.params import SCORE_UNIT

NORM_SLACK = 500  #: of squared norms; see norm_bounds


def score(row: Sequence[int], e: Sequence[int]) -> int:
    """y_i = <E_i, e>, an exact integer; 127^2 is cosine 1."""
    return sum(a * b for a, b in zip(row, e, strict=True))


def clip(w: int, hmax: int) -> int:
    """gain * c_i = clip(w_i, 0, H), w_i = gain * (y_i - lo)."""
    return min(max(w, 0), hmax)


def score_limit(dimension: int) -> int:
    """Largest |y|: a document vector's norm is at most 127 + sqrt(d)/2 by rounding, a query's 127 + 3 sqrt(d)/2, since
    a client's entries may differ by 1 from the provider's own (SPEC B.1)."""
    root = math.isqrt(dimension) + 1
    return (2 * SCORE_UNIT + root) * (2 * SCORE_UNIT + 3 * root) // 4 + 1


def norm_bounds(dimension: int) -> tuple[int, int]:
    """The squared norms, both included, that a query embedding may have.

    Rounding gives 127^2 + d/12 with a standard deviation of 2 * 127 / sqrt(12) = 73, whatever d: NORM_SLACK refuses
    fewer than one vector in 10^10.  It cannot be wider: two accounts that ask the same text could use the client's
    slack to shorten their vectors until they no longer link (:func:`least_repeat`; SPEC C.2).  In few dimensions what
    rounding can do at worst, (127 - sqrt(d)/2)^2, is the narrower bound.
    """
    centre = 4 * SCORE_UNIT * SCORE_UNIT + dimension
    reach = math.isqrt(16 * SCORE_UNIT * SCORE_UNIT * dimension)
    square = SCORE_UNIT * SCORE_UNIT
    low = max(0, -((reach - centre) // 4), square - NORM_SLACK)
    return low, min((centre + reach) // 4, square + dimension // 12 + NORM_SLACK)


def check_embedding(e: Sequence[int], dimension: int) -> None:
    """A quantised query embedding: ``dimension`` entries in [-127, 127], norm as :func:`norm_bounds` says.

    A client may differ by 1 an entry from the provider, whose own vector may round differently; it is still a rounded
    unit vector, and the certificate of the coalition estimate proves as much of every record.

    Raises:
        AttestationError: wrong length, entry out of range, or a norm that rounding does not explain.
    """
    if len(e) != dimension:
        raise AttestationError(f"the embedding has {len(e)} entries, the index {dimension}")
    if not -SCORE_UNIT <= min(e, default=0) <= max(e, default=0) <= SCORE_UNIT:
        raise AttestationError("an embedding entry is outside [-127, 127]")
    low, high = norm_bounds(dimension)
    if not low <= sum(map(mul, e, e)) <= high:
        raise AttestationError("the embedding's norm is not that of a quantised unit vector")


def slack(dimension: int) -> int:
    """How many entries of a client's e may differ from the provider's own: an eighth.

    Two machines' floats differ in about one of 10^5; half precision stays below one of ten.  All entries would be a
    way out of the estimate: two accounts could turn one query's vector apart by more than 25 degrees.
    """
    return -(-dimension // 8)


def within_slack(e: Sequence[int], reference: Sequence[int]) -> bool:
    """Whether e differs by at most 1 from the reference, in at most :func:`slack` entries (SPEC B.1)."""
    if len(e) != len(reference):
        return False
    apart = list(map(abs, map(sub, e, reference)))
    return max(apart, default=0) <= 1 and sum(apart) <= slack(len(e))


def least_repeat(dimension: int) -> int:
    """The least product of two accepted embeddings of one query: theta may lie no higher (SPEC C.2).

    2 <a, b> = |a|^2 + |b|^2 - |a - b|^2, the norms are at least the lower of :func:`norm_bounds`, and where both use
    their slack in the same entries in opposite directions, |a - b|^2 = 4 slack.
    """
    low, _ = norm_bounds(dimension)
    return max(0, low - 2 * slack(dimension))

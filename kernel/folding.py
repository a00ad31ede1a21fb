# SPDX-License-Identifier: GPL-3.0-or-later
"""A vector known under commitments, shown in logarithmic size: a folding argument.  SPEC B.7.

Attema and Cramer's compression of a sigma protocol's last message (CRYPTO 2020).  Shown is knowledge of one z with
<z, G_k> = Q_k for every relation k, the bases differing from relation to relation.  Each round halves z: the prover
sends

    L_k = <z_left, G_k,right>     R_k = <z_right, G_k,left>,

u hashes all that came before, and both sides go on with z' = z_left + u z_right, G_k' = u G_k,left + G_k,right and
Q_k' = L_k + u Q_k + u^2 R_k.  The left half of an odd vector is the longer one; what the right half lacks are an
entry 0 and the identity as its base, so nothing can be claimed of it.  The lengths follow from the size alone.  In
the end z is sent.

Sound: from answers z'_1, z'_2, z'_3 to three challenges u_1, u_2, u_3 of one round and a_1, a_2, a_3 with sum a_i =
0, sum a_i u_i = 1, sum a_i u_i^2 = 0 follows z = (sum a_i u_i z'_i, sum a_i z'_i) with <z, G_k> = Q_k.  The same z
for all k, and no assumption on the bases.  So every round is 3-special-sound, over 2^248 - 1 challenges.  This
argument hides nothing: its z must be masked, as the response of a sigma protocol is.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragseal.kernel import field
from ragseal.kernel.bn254 import IDENTITY, POINT_BYTES, Group
from ragseal.kernel.errors import ProofError
from ragseal.kernel.params import R
from ragseal.kernel.transcript import nonzero_element, tagged_hash

SHORTEST = 8  #: entries a relation: from here a round's two points weigh as much as what they save
MAX_RELATIONS = 4
MAX_SIZE = 1 << 24


def lengths(size: int, relations: int) -> list[int]:
    """Lengths of z, from the whole to what is sent."""
    out = [size]
    while out[-1] > SHORTEST * relations:
        out.append((out[-1] + 1) // 2)
    return out


def advance(use: str, transcript: bytes, points: Sequence[bytes]) -> tuple[bytes, int]:
    """The transcript with a round's L and R in it, and the round's u of 31 bytes.

    Raises:
        ProofError: u is zero (2^-248; the proof must then be made anew).
    """
    transcript = tagged_hash(f"opening/{use}/fold", transcript, b"".join(points))
    return transcript, nonzero_element(f"opening/{use}/u", transcript)


def fold(group: Group, use: str, transcript: bytes, bases: Sequence[bytes], z: bytes) -> tuple[list[bytes], bytes]:
    """Shorten z; ``bases`` holds as many points as z has entries for every relation, the identity where it has none.

    A relation whose bases all lie in one half has the identity for an L or R, which is refused: none here is like that.

    Returns:
        L_1 .. L_k, R_1 .. R_k of every round, and the short z.
    """
    points: list[bytes] = []
    bases = list(bases)
    for length in lengths(len(z) // field.FIELD_BYTES, len(bases))[1:]:
        cut, at = length * field.FIELD_BYTES, length * POINT_BYTES
        left, right = z[:cut], z[cut:]
        sent = [group.msm(g[at:], left[: len(right)]) for g in bases]
        sent += [group.msm(g[: len(g) - at], right) for g in bases]
        transcript, u = advance(use, transcript, sent)
        points += sent
        z = group.combine([left, right.ljust(cut, b"\0")], [1, u])
        bases = [group.fold(g, u) for g in bases]
    return points, z


def unfold(
    group: Group, use: str, transcript: bytes, size: int, relations: int, points: Sequence[bytes], final: bytes
) -> tuple[bytes, list[int]]:
    """The verifier's equation over the bases that it began with.

    With coefficients s and weights w_0, w_1, ... what is to be checked of relation k is
    <s, G_k> = w_0 Q_k + sum_i (w_(2i+1) L_k,i + w_(2i+2) R_k,i), i = 0, 1, ... over the rounds.

    Raises:
        ProofError: another number of points or entries than ``size`` demands, or a challenge is zero.
    """
    steps = lengths(size, relations)
    rounds = len(steps) - 1
    if len(points) != 2 * relations * rounds:
        raise ProofError(f"{use} opening: {rounds} rounds of folding expected, with {2 * relations} points each")
    if len(final) != field.FIELD_BYTES * steps[-1]:
        raise ProofError(f"{use} opening: {steps[-1]} responses expected, {len(final) // field.FIELD_BYTES} given")
    challenges = []
    for i in range(0, len(points), 2 * relations):
        transcript, u = advance(use, transcript, points[i : i + 2 * relations])
        challenges.append(u)
    coefficients = final
    for length, u in zip(reversed(steps[:-1]), reversed(challenges), strict=True):
        folded = coefficients
        coefficients = group.combine([folded], [u])
        coefficients += folded[: field.FIELD_BYTES * length - len(folded)]
    weights: list[int] = []
    after = 1
    for u in reversed(challenges):
        weights = [after, after * u * u % R, *weights]
        after = after * u % R
    return coefficients, [after, *weights]


def spread(bases: bytes, slots: Sequence[tuple[int, int]], size: int) -> bytes:
    """One point for every entry of a vector: the bases in their slots, the identity elsewhere."""
    out, at = [IDENTITY] * size, 0
    for start, stop in slots:
        for slot in range(start, stop):
            out[slot] = bases[at : at + POINT_BYTES]
            at += POINT_BYTES
    return b"".join(out)

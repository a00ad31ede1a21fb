# SPDX-License-Identifier: GPL-3.0-or-later
"""Which records a sampled audit asks proofs for, and what a clean sample says about the others.  SPEC D.8.

The sample follows from the window's final root and a nonce that the auditor draws after it has that root, so the
provider cannot know, when it commits to its records, which of them it will have to prove.  An auditor draws one nonce a
window and keeps it: a provider that breaks off an audit is asked for the same records again, however its log has grown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from ragseal.kernel.errors import ConfigurationError
from ragseal.kernel.transcript import tagged_hash
from ragseal.verifier.steps.records import LoggedRecord

CONFIDENCE = Fraction(99, 100)


@dataclass(frozen=True, slots=True)
class Sample:
    """A request for a sampled audit."""

    size: int  #: records in all; every tenant gets at least one
    confidence: Fraction = CONFIDENCE

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ConfigurationError("a sample has at least one record; leave --sample out to check every record")
        if not 0 < self.confidence < 1:
            raise ConfigurationError("a confidence lies strictly between 0 and 1")


def shares(sizes: Mapping[str, int], size: int) -> dict[str, int]:
    """How many records of each tenant a sample of ``size`` takes: in proportion, at least one, at most all.

    The total may exceed ``size`` when there are more tenants with records than that.
    """
    total = sum(sizes.values())
    size = min(size, total)
    taken = {tenant: min(n, max(1, size * n // total)) for tenant, n in sizes.items() if n}
    # What rounding down left over goes where the share is furthest below its due.
    while sum(taken.values()) < size:
        open_ = [t for t in taken if taken[t] < sizes[t]]
        neediest = max(open_, key=lambda t: (size * sizes[t] - taken[t] * total, t))
        taken[neediest] += 1
    return taken


def draw(
    records: Sequence[LoggedRecord], size: int, nonce: bytes, root: bytes, manifest: bytes
) -> tuple[LoggedRecord, ...]:
    """The sampled records, stratified by tenant, in seq order.

    ``nonce``: 32 random bytes, drawn after ``root``, that of the log up to the window's end, was seen.  Inside a tenant
    the records with the smallest hashes of (nonce, root, manifest, seq) are drawn.
    """
    seed = tagged_hash("audit-sample", nonce, root, manifest)
    strata: dict[str, list[LoggedRecord]] = {}
    for one in records:
        strata.setdefault(one.tenant, []).append(one)
    drawn: list[LoggedRecord] = []
    for tenant, count in shares({t: len(rs) for t, rs in strata.items()}, size).items():
        ranked = sorted(
            strata[tenant], key=lambda one: tagged_hash("audit-draw", seed, one.record.seq.to_bytes(8, "big"))
        )
        drawn += ranked[:count]
    return tuple(sorted(drawn, key=lambda one: one.record.seq))


def largest_undetected(strata: Sequence[tuple[int, int]], confidence: Fraction = CONFIDENCE) -> int:
    """The most bad records that a clean sample leaves possible at this confidence.

    ``strata``: (records, sampled) of each tenant.  The smallest B such that B bad records, spread over the tenants as
    is worst for the auditor, are missed with probability at most 1 - confidence; the answer is B - 1.  Exact: the
    sample is without replacement (hypergeometric), and since the log of the probability to miss b records is concave
    in b within a tenant, giving every next bad record to the tenant where it is most easily missed is the worst spread.
    """
    rest = [[n, s] for n, s in strata if n]
    missed, bad = Fraction(1), 0
    limit = 1 - confidence
    while missed > limit:
        # One more bad record of n unproven-or-not ones is missed with probability (n - s) / n; the best tenant for it.
        best = max((r for r in rest if r[0] > 0), key=lambda r: Fraction(r[0] - r[1], r[0]), default=None)
        if best is None or best[0] == best[1]:
            return bad  # the next bad record cannot be missed
        missed *= Fraction(best[0] - best[1], best[0])
        best[0] -= 1
        bad += 1
        if missed.denominator.bit_length() > 4096:  # keep it short; rounding up only weakens the claim
            missed = Fraction(-((-missed.numerator << 1024) // missed.denominator), 1 << 1024)
    return bad - 1


def share_bound(strata: Sequence[tuple[int, int]], confidence: Fraction = CONFIDENCE) -> float:
    """beta: the largest share of bad records that a clean sample leaves possible at this confidence."""
    total = sum(n for n, _ in strata)
    bound = Fraction(largest_undetected(strata, confidence), total) if total else Fraction(0)
    return math.nextafter(float(bound), math.inf) if bound else 0.0

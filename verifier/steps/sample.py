# SPDX-License-Identifier: GPL-3.0-or-later
"""Which records a sampled audit asks proofs for, and what a clean sample says about the others.  SPEC D.8.

The sample follows from the window's final root and a nonce that the auditor draws after it has that root, so the
provider cannot know, when it commits to its records, which of them it will have to prove.  An auditor draws one nonce a
window and keeps it: a provider that breaks off an audit is asked for the same records again, however its log has grown.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from ragseal.kernel.errors import ConfigurationError
from ragseal.kernel.transcript import tagged_hash
from ragseal.verifier.steps.records import LoggedRecord

CONFIDENCE = Fraction(99, 100)


_LEAST_DOUBT = Fraction(1, 1 << 256)  #: what is left of the surest confidence that can be asked
_DECIMAL = re.compile(r"0\.[0-9]{1,90}")
_POWER = re.compile(r"1-(2|10)\^-([1-9][0-9]{0,2})")
_SCIENTIFIC = re.compile(r"1-([1-9](?:\.[0-9]{1,9})?e-[1-9][0-9]{0,2})")
_SHARE = re.compile(r"[0-9]{0,3}(?:\.[0-9]{1,80})?(?:e-[1-9][0-9]{0,2})?")


def confidence_of(text: str) -> Fraction:
    """A confidence as it is written, exactly: ``0.99``, ``1-2^-20``, ``1-10^-6``, ``1-1e-6``.

    Raises:
        ConfigurationError: something else, or none that a sample can give: 0, 1, or nearer to 1 than 2^-256.
    """
    if _DECIMAL.fullmatch(text):
        found = Fraction(text)
    elif match := _POWER.fullmatch(text):
        found = 1 - Fraction(1, int(match[1]) ** int(match[2]))
    elif match := _SCIENTIFIC.fullmatch(text):
        found = 1 - Fraction(match[1])
    else:
        found = Fraction(0)
    if not 0 < found <= 1 - _LEAST_DOUBT:
        raise ConfigurationError(
            f"{text[:40]!r} is not a confidence that a sample can have: write it as 0.99, 1-2^-20 or 1-1e-6; "
            "for certainty audit every record, without --sample and --detect"
        )
    return found


def confidence_text(confidence: Fraction) -> str:
    """As verdicts write it; nothing is rounded, and :func:`confidence_of` reads all that it made of a text."""
    doubt = 1 - confidence
    for base, exponent in ((2, doubt.denominator.bit_length() - 1), (10, len(str(doubt.denominator)) - 1)):
        if exponent > 6 and doubt == Fraction(1, base**exponent):
            return f"1-{base}^-{exponent}"
    for digits in range(1, 90):
        if (scaled := confidence * 10**digits).denominator == 1:
            return f"0.{scaled.numerator:0{digits}}"
    return str(confidence)


def share_of(text: str) -> Fraction:
    """The share of bad records that a sample shall catch, exactly: ``0.01``, ``1e-3``.

    Raises:
        ConfigurationError: something else, or not above 0 and at most 1.
    """
    found = Fraction(text) if _SHARE.fullmatch(text) and text[:1].isdigit() else Fraction(0)
    if not 0 < found <= 1:
        raise ConfigurationError(
            f"{text[:40]!r} is not a share of records: --detect takes a number above 0 and at most 1, such as 0.01"
        )
    return found


@dataclass(frozen=True, slots=True)
class Sample:
    """A request for a sampled audit: so many records, or as many as catch a share of bad ones."""

    size: int | None = None  #: records in all; every tenant gets at least one
    confidence: Fraction = CONFIDENCE
    detect: Fraction | None = None  #: instead of a size: this share of bad records is caught at the confidence

    def __post_init__(self) -> None:
        if (self.size is None) == (self.detect is None):
            raise ConfigurationError(
                "a sample is said by its size (--sample) or by the share of bad records that it catches (--detect): "
                "give one of the two"
            )
        if self.size is not None and self.size < 1:
            raise ConfigurationError("a sample has at least one record; leave --sample out to check every record")
        if self.detect is not None and not 0 < self.detect <= 1:
            raise ConfigurationError("a share to detect is above 0 and at most 1")
        if not 0 < self.confidence < 1:
            raise ConfigurationError("a confidence lies strictly between 0 and 1")

    def of(self, sizes: Mapping[str, int]) -> int:
        """How many records it has in a window with so many records of each tenant."""
        return (
            self.size if self.size is not None else size_to_detect(sizes, self.detect or Fraction(1), self.confidence)
        )

    def by_claim(self, sizes: Sequence[Mapping[str, int]]) -> list[int]:
        """How many records it has of each claim, whose tenants have so many records each.

        A share is caught among the records of each claim by themselves: many records of one claim must not hide that
        all those of another are bad.
        """
        if self.size is None:
            return [self.of(one) for one in sizes]
        taken = shares({str(i): sum(one.values()) for i, one in enumerate(sizes)}, self.size)
        return [taken.get(str(i), 0) for i in range(len(sizes))]


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


def _missed(strata: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Numerator and denominator of the probability that a sample misses 1, 2, 3, ... bad records, worst spread.

    Since the log of the probability to miss b records is concave in b within a tenant, giving every next bad record to
    the tenant where it is most easily missed is the worst spread.  Ends where the next bad record cannot be missed.
    """
    rest = [[n, s] for n, s in strata if n]
    above, below = 1, 1
    while True:
        # One more bad record of n unproven-or-not ones is missed with probability (n - s) / n; the best tenant for it.
        best = max((r for r in rest if r[0] > 0), key=lambda r: Fraction(r[0] - r[1], r[0]), default=None)
        if best is None or best[0] == best[1]:
            return
        above, below = above * (best[0] - best[1]), below * best[0]
        best[0] -= 1
        if below.bit_length() > 4096:  # keep it short; rounding up only weakens the claim
            above, below = -((-above << 1024) // below), 1 << 1024
        yield above, below


def largest_undetected(strata: Sequence[tuple[int, int]], confidence: Fraction = CONFIDENCE) -> int:
    """The most bad records that a clean sample leaves possible at this confidence.

    ``strata``: (records, sampled) of each tenant.  The smallest B such that B bad records, spread over the tenants as
    is worst for the auditor, are missed with probability at most 1 - confidence; the answer is B - 1.  Exact: the
    sample is without replacement (hypergeometric).
    """
    limit, bad = 1 - confidence, 0
    for above, below in _missed(strata):
        if above * limit.denominator <= limit.numerator * below:
            break
        bad += 1
    return bad


def share_bound(strata: Sequence[tuple[int, int]], confidence: Fraction = CONFIDENCE) -> float:
    """beta: the largest share of bad records that a clean sample leaves possible at this confidence."""
    total = sum(n for n, _ in strata)
    bound = Fraction(largest_undetected(strata, confidence), total) if total else Fraction(0)
    return math.nextafter(float(bound), math.inf) if bound else 0.0


def size_to_detect(sizes: Mapping[str, int], detect: Fraction, confidence: Fraction = CONFIDENCE) -> int:
    """How many records catch a provider that forged the share ``detect`` of them or more, at this confidence.

    ``sizes``: records of each tenant.  With a sample of the answer's size fewer than detect times all records can be
    bad and missed, spread as is worst.  Exact, where the paper's ln(1 / eta) / beta (its section 5.7) is for drawing
    with replacement; of one tenant it is the smallest such size.
    """
    total = sum(sizes.values())
    bad = math.ceil(detect * total)  # so many have to be caught
    limit = 1 - confidence

    def catches(size: int) -> bool:
        taken = shares(sizes, size)
        for count, (above, below) in enumerate(_missed([(sizes[t], s) for t, s in taken.items()]), 1):
            if above * limit.denominator <= limit.numerator * below:
                return True
            if count == bad:
                return False
        return True  # one of them cannot be missed

    low, high = 0, 1
    while high < total and not catches(high):
        low, high = high, high * 2
    high = max(1, min(high, total))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if catches(middle) else (middle, high)
    return high


def attainable(records: int, proven: int, beta: float, confidence: Fraction) -> bool:
    """Whether a clean sample of ``proven`` of ``records`` can rule out a share above ``beta`` at this confidence.

    By tenant a sample rules out no more than one over all records does: bad records that are spread at random are
    missed as often by either, and the worst spread is missed at least as often.
    """
    bad = math.floor(Fraction(beta) * records) + 1
    if bad > records:
        return True  # nothing is ruled out
    # C(records - bad, proven) / C(records, proven), which is the same with bad and proven exchanged
    few, many = sorted((bad, proven))
    limit, above, below = 1 - confidence, 1, 1
    for i in range(few):
        above, below = above * max(records - many - i, 0), below * (records - i)
        if above * limit.denominator <= limit.numerator * below:
            return True
        if below.bit_length() > 4096:  # rounded down: a reader refuses only what is certainly too much
            above, below = (above << 1024) // below, 1 << 1024
    return False

# SPDX-License-Identifier: GPL-3.0-or-later
"""Which blocks of records an auditor asks the certificate of an estimate for, and what clean blocks say.  SPEC C.7.

Full: groups of neighbours, four of them a block, until every two groups that hold compared records have met.  Sampled:
each block is a uniform set of n records of a stretch; stretches overlap, so that each pair that is compared is in one.
It is drawn with the auditor's own nonce after it has the signed links.  A set, and not a run of neighbours: whoever
hides links can choose when its accounts ask, and would put all hidden links into a few runs.

What a clean sample says.  Let h unlisted links exist, no record in more than D of them, and X be how many lie in one
drawn set of k of w records.  E X = h p2 and E X^2 <= h p2 + 2 h (D - 1) p3 + h^2 p4, where p_i is the probability that
i given records are drawn; P(X > 0) >= (E X)^2 / E X^2 (Cauchy and Schwarz), which is concave in h, so spreading links
over stretches only helps to find them.  For a group of z records that are all linked to each other P(X > 0) is exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from ragseal.kernel.errors import ConfigurationError
from ragseal.kernel.estimate import FULL_BLOCKS, Reach
from ragseal.kernel.transcript import tagged_hash
from ragseal.verifier.steps.sample import CONFIDENCE

SAMPLE_BLOCKS = 200  #: of a tenant with more records
DEGREES = (1, 10, 100)  #: for how many unlisted links at one record the guarantee is stated

Ranks = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Effort:
    """How much certificate an audit asks for."""

    full: int = FULL_BLOCKS  #: most blocks of a full certificate
    sampled: int = SAMPLE_BLOCKS  #: blocks of a sampled one
    confidence: Fraction = CONFIDENCE

    def __post_init__(self) -> None:
        if self.full < 0 or self.sampled < 1:
            raise ConfigurationError("a sampled certificate has at least one block")


# --- sampled ---------------------------------------------------------------------------------------------------------


def stretches(records: int, tau: int, n: int) -> list[range]:
    """Runs of records, overlapping by half, such that every pair of ranks within tau lies in one of them."""
    segments = max(1, records // max(tau, n))
    bounds = [i * records // segments for i in range(segments + 1)]
    if segments == 1:
        return [range(records)]
    return [range(a, c) for a, c in zip(bounds, bounds[2:], strict=False)]


def _uniform(seed: bytes, counter: list[int], below: int) -> int:
    """A number in [0, below) from a hash; the bias is below 2^-200."""
    counter[0] += 1
    return int.from_bytes(tagged_hash("estimate-draw", seed, counter[0].to_bytes(8, "big")), "big") % below


def _subset(run: range, size: int, draw: Callable[[int], int]) -> Ranks:
    """A uniform subset of ``size`` elements (Floyd)."""
    chosen: set[int] = set()
    for last in range(len(run) - size, len(run)):
        at = draw(last + 1)
        chosen.add(last if at in chosen else at)
    return tuple(sorted(run[at] for at in chosen))


def sampled_blocks(records: int, tau: int, n: int, count: int, seed: bytes) -> list[Ranks]:
    """``count`` independent uniform sets of n records, each from a uniform stretch.

    ``seed``: hash of a nonce that nobody knew when the links were signed.
    """
    runs = stretches(records, tau, n)
    counter = [0]
    blocks = []
    for _ in range(count):
        run = runs[_uniform(seed, counter, len(runs))]
        blocks.append(_subset(run, min(n, len(run)), lambda below: _uniform(seed, counter, below)))
    return blocks


# --- what a clean sample says ----------------------------------------------------------------------------------------


def _together(size: int, width: int, records: int) -> Fraction:
    """The probability that ``records`` given ones of ``width`` are all in a uniform set of ``size``."""
    out = Fraction(1)
    for i in range(records):
        out *= Fraction(max(0, size - i), width - i)
    return out


def _hit(size: int, width: int, links: int, degree: int) -> Fraction:
    """A lower bound on the probability that a set holds one of ``links`` hidden links in its stretch."""
    p2, p3, p4 = (_together(size, width, i) if width >= i else Fraction(0) for i in (2, 3, 4))
    return links * p2 * p2 / (p2 + 2 * (degree - 1) * p3 + links * p4)


def group_hit(size: int, width: int, group: int) -> Fraction:
    """The probability that a uniform set of ``size`` of ``width`` records holds two of ``group`` given ones, exact."""
    if group > width:
        return Fraction(1)
    every = math.comb(width, size)
    none, one = math.comb(width - group, size), group * math.comb(width - group, size - 1)
    return 1 - Fraction(none + one, every)


def _smallest(holds: Callable[[int], bool], most: int) -> int | None:
    """The smallest number in 1..most for which a monotone condition holds, None if there is none."""
    low, high = 1, most + 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low if low <= most else None


def _missed(hit: Fraction, runs: int, count: int) -> float:
    """The probability that none of ``count`` sets hits, rounded up."""
    return math.nextafter(math.exp(count * math.log1p(-min(float(hit) / runs, 1 - 1e-16))), math.inf) * (1 + 1e-9)


@dataclass(frozen=True, slots=True)
class Caught:
    """What a clean certificate of a tenant rules out at its confidence.

    ``links[D]``: so many unlisted links, no record in more than D of them, would have been noticed; ``share``: those of
    D = 10 as a share of all pairs that are compared; ``group``: so would so many records that are all linked to each
    other.  None, and a share of 1: the blocks were too few to promise anything.
    """

    confidence: Fraction
    links: dict[int, int | None]
    group: int | None
    share: float

    @classmethod
    def everything(cls) -> Caught:
        """Of a full certificate: not a single unlisted link."""
        return cls(Fraction(1), dict.fromkeys(DEGREES, 1), 2, 0.0)


def caught(reach: Reach, n: int, count: int, confidence: Fraction = CONFIDENCE) -> Caught:
    """What ``count`` clean sampled blocks of n records say."""
    runs = stretches(len(reach.last), reach.widest, n)
    widths = sorted({len(run) for run in runs})
    pairs, limit = reach.pairs, float(1 - confidence)

    def noticed(hit: Callable[[int], Fraction]) -> bool:
        return _missed(min(hit(width) for width in widths), len(runs), count) <= limit

    def links(degree: int) -> int | None:
        return _smallest(lambda h: noticed(lambda width: _hit(min(n, width), width, h, degree)), pairs)

    def group() -> int | None:
        return _smallest(lambda z: noticed(lambda width: group_hit(min(n, width), width, z)), widths[0])

    found = {degree: links(degree) for degree in DEGREES}
    most = found[10]
    share = 1.0 if most is None else math.nextafter(most / pairs, math.inf)
    return Caught(confidence, found, group(), share if pairs else 0.0)


def seed_of(parts: Sequence[bytes]) -> bytes:
    """The seed of a tenant's sampled blocks: hashes nonce, root, window, links and tenant."""
    return tagged_hash("estimate-sample", *parts)

# SPDX-License-Identifier: GPL-3.0-or-later
"""Is this query too near to one document?  Mirabel, and where this product may use it.  SPEC M.10.

Scores of an unrelated query look normal, so their largest obeys a Gumbel law; a largest score beyond that law's
critical value means that the query was made from that very document.  :func:`detect` is the paper's algorithm 1 over
all scores of an index, :func:`hide` what it does with the finding: the document leaves the candidates, ranks 2 to k + 1
go out.

A window's guard may not look at all scores.  The list T is fixed by the mechanism and proven; what the guard adds has
to be a function of what the list hands over, or every answer would depend on slots that it does not show
(``docs/proofs/guard.md``).  So :func:`withheld` sees the scores of the flagged slots of T and no others, takes the
moments of all scores from that upper part of them, and names the one text that is not opened.  One is withheld of every
answer, the nearest if it is too near, else the farthest: an answer does not say whether the guard found anything.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist

from ragseal.kernel.errors import PolicyError
from ragseal.kernel.policy import FORMULAS, PRECISE, Policy

LEAST = 5  #: scores below which nothing is found: the precise location is no number yet, and four say nothing of a tail
_FLAT = 1e-9  #: a deviation below this share of the largest score is rounding


@dataclass(frozen=True, slots=True)
class Rule:
    """When a best score is too near."""

    rho: float  #: significance: how often the best score of an unrelated query is taken for too near
    formula: str = PRECISE  #: PRECISE: the Gumbel law's location as extreme value theory has it; PAPER: algorithm 1's

    def __post_init__(self) -> None:
        if not 0 < self.rho < 1:
            raise PolicyError(f"rho must lie strictly between 0 and 1, such as 0.05, not {self.rho}")
        if self.formula not in FORMULAS:
            raise PolicyError(f"the guard's formula is one of {', '.join(FORMULAS)}, not {self.formula!r}")


@dataclass(frozen=True, slots=True)
class Detection:
    """What was found of one query."""

    found: bool
    target: int  #: position of the largest score, the first of equal ones; -1 where there is none
    top: float  #: the largest score
    threshold: float  #: what it was held against; infinite where nothing could be said


def guard_of(policy: Policy) -> Rule | None:
    """The rule of a window's guard, None where it has none."""
    return Rule(float(Fraction(policy.guard_rho)), policy.guard_formula) if policy.guarded else None


def critical(rho: float) -> float:
    """c = -ln(-ln(1 - rho)), beyond which the standard Gumbel law has mass rho."""
    return -math.log(-math.log1p(-rho))


def threshold(mean: float, deviation: float, n: int, rule: Rule) -> float:
    """tau of algorithm 1, for the largest of ``n`` normal scores; infinite for fewer than LEAST."""
    if n < LEAST:
        return math.inf
    twice = 2 * math.log(n)
    location = twice if rule.formula != PRECISE else twice - math.log(math.log(n)) - math.log(4 * math.pi)
    return mean + deviation * (math.sqrt(location) + critical(rule.rho) / math.sqrt(twice))


def moments(scores: Sequence[float]) -> tuple[float, float]:
    """(mean, deviation) of at least one score; the deviation of equal scores is exactly 0, however they round."""
    mean = math.fsum(scores) / len(scores)
    deviation = math.sqrt(math.fsum((x - mean) ** 2 for x in scores) / len(scores))
    return mean, 0.0 if deviation <= _FLAT * max(map(abs, scores)) else deviation


def detect(scores: Sequence[float], rule: Rule) -> Detection:
    """Algorithm 1: the largest score against the moments of all others.

    Nothing is found among fewer than LEAST scores, nor where all others are equal: a scale that is not there says
    nothing about how far is far (a query that scores 0 everywhere is one of these).
    """
    if not scores:
        return Detection(False, -1, -math.inf, math.inf)
    target = max(range(len(scores)), key=lambda i: scores[i])
    others = [x for i, x in enumerate(scores) if i != target]
    mean, deviation = moments(others) if others else (0.0, 0.0)
    tau = threshold(mean, deviation, len(scores), rule) if deviation else math.inf
    return Detection(scores[target] > tau, target, scores[target], tau)


def hide(scores: Sequence[float], k: int, rule: Rule) -> list[int]:
    """Detect-and-hide: positions of the k largest scores, best first; without the target, where there is one."""
    found = detect(scores, rule)
    order = sorted(range(len(scores)), key=lambda i: (-scores[i], i))
    return [i for i in order if not (found.found and i == found.target)][:k]


def upper_moments(scores: Sequence[float], n: int) -> tuple[float, float]:
    """(mean, deviation) of n normal scores of which these are the largest: moments of a truncated normal law.

    Of all n scores the share p = len(scores) / n lies above alpha deviations.  There the mean is lambda deviations
    above that of all, lambda = density(alpha) / p, and the variance is 1 + alpha lambda - lambda^2 times theirs.
    """
    mean, deviation = moments(scores)
    share = len(scores) / n
    if share >= 1:
        return mean, deviation
    law = NormalDist()
    alpha = law.inv_cdf(1 - share)
    shift = law.pdf(alpha) / share
    whole = deviation / math.sqrt(max(1 + alpha * shift - shift * shift, _FLAT))
    return mean - whole * shift, whole


def detect_in_list(scores: Sequence[float], n: int, rule: Rule) -> Detection:
    """As :func:`detect`, of an index with ``n`` slots of which only the best scores are known."""
    whole = detect(scores, rule)
    others = [x for i, x in enumerate(scores) if i != whole.target]
    if len(scores) < LEAST or not moments(others)[1]:
        return Detection(False, whole.target, whole.top, math.inf)
    mean, deviation = upper_moments(others, max(n - 1, len(others)))
    tau = threshold(mean, deviation, max(n, len(scores)), rule)
    return Detection(whole.top > tau, whole.target, whole.top, tau)


def withheld(near: Mapping[int, int], n: int, rule: Rule | None) -> tuple[int, ...]:
    """The slot whose text a window's guard withholds; none without a guard, or where there is no text.

    Args:
        near: clean scores of the flagged slots of T, by slot.  All that the guard knows of the index.
        n: the index's capacity, which is public.
    """
    if rule is None or not near:
        return ()
    slots = sorted(near)
    scores = [float(near[slot]) for slot in slots]
    found = detect_in_list(scores, n, rule)
    if found.found:
        return (slots[found.target],)
    return (max(slots, key=lambda slot: (-near[slot], slot)),)

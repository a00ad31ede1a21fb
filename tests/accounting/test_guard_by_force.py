# SPDX-License-Identifier: GPL-3.0-or-later
"""What a guard may look at, by brute force: all noise, or decoys, of four slots.  docs/proofs/guard.md.

A placement says what a guard decides from, and the answer shows its decision, which is more than a withheld slot shows.
Only the placement that sees no more than the scores of flagged slots of T tells nothing beyond the lists; noised scores
of slots that are not returned tell more, clean ones far more.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import pytest

from tests.accounting.test_topk import EPSILONS, tiny

N, K, SHIFT, SLOT = 4, 2, 2, 0
TABLE = tiny((10, 4, 1))
ETA = Fraction(1, 4)
OTHERS = ((0, 1, 1), (1, 2, 0), (2, 1, 1), (2, 2, 1), (2, 2, 2))

Law = dict[Hashable, Fraction]


@dataclass(frozen=True)
class Placement:
    """What a guard decides from, and the margin that it takes for too near."""

    seen: Callable[[Sequence[int], Sequence[int], Sequence[int]], Sequence[int]]  #: (clean, noised, flagged slots of T)
    margin: Fraction

    def found(self, clean: Sequence[int], noised: Sequence[int], flagged: Sequence[int]) -> bool:
        """Whether the largest lies further than the margin above the mean of the others."""
        scores = sorted(self.seen(clean, noised, flagged))
        return len(scores) > 1 and scores[-1] - Fraction(sum(scores[:-1]), len(scores) - 1) > self.margin


PLACEMENTS = {
    "returned": Placement(lambda clean, noised, flagged: [clean[i] for i in flagged], Fraction(1, 2)),
    "noised": Placement(lambda clean, noised, flagged: noised, Fraction(3, 2)),
    "clean": Placement(lambda clean, noised, flagged: clean, Fraction(1, 2)),
}


@cache
def view(clean: tuple[int, ...], name: str | None) -> Law:
    """Exact law of one answer: T with flags, and what the guard found; of a list that has SLOT only T.

    Args:
        name: of the placement; None for a window without a guard.
    """
    law: Law = defaultdict(Fraction)
    noise = [(z, TABLE.mass(z)) for z in range(-TABLE.cut, TABLE.cut + 1)]
    for drawn in itertools.product(noise, repeat=N):
        noised = [x + z for x, (z, _) in zip(clean, drawn, strict=True)]
        ids = sorted(sorted(range(N), key=lambda i: (-noised[i], i))[:K])
        out: tuple[Hashable, ...] = (tuple(ids),)
        if SLOT not in ids:
            flagged = [i for i in ids if clean[i] > 0]
            out += (tuple(flagged),)
            if name is not None:
                out += (PLACEMENTS[name].found(clean, noised, flagged),)
        law[out] += Fraction(math.prod(mass for _, mass in drawn), TABLE.total**N)
    return law


def curve(p: Law, q: Law, epsilon: float) -> float:
    return sum(max(0.0, float(mass) - math.exp(epsilon) * float(q.get(out, 0))) for out, mass in p.items())


def curves(name: str | None, others: tuple[int, ...]) -> list[float]:
    """Hockey-stick curves of two indices that differ in SLOT alone, in all pairs and orders, at EPSILONS."""
    laws = [view((score, *others), name) for score in range(SHIFT + 1)]
    return [curve(p, q, epsilon) for p, q in itertools.permutations(laws, 2) for epsilon in EPSILONS]


def beyond_the_lists(name: str) -> float:
    """By how much a placement exceeds what the lists alone tell, at worst."""
    return max(a - b for one in OTHERS for a, b in zip(curves(name, one), curves(None, one), strict=True))


def test_of_every_list_the_guard_on_what_is_returned_adds_nothing() -> None:
    assert any(view((0, *one), "returned").keys() != view((0, *one), None).keys() for one in OTHERS)
    assert abs(beyond_the_lists("returned")) < 1e-12


@pytest.mark.parametrize(("name", "least"), [("noised", 0.05), ("clean", 0.2)])
def test_of_every_list_another_placement_tells_more_than_the_lists(name: str, least: float) -> None:
    assert beyond_the_lists(name) > least


def test_the_full_vector_would_cover_a_guard_on_noised_scores() -> None:
    """SPEC D.14.1 charges all noised scores, so it bounds whatever is made of them; nothing bounds clean ones."""
    support = range(-TABLE.cut, TABLE.cut + SHIFT + 1)
    full = [
        sum(max(0.0, TABLE.mass(z - SHIFT) - math.exp(epsilon) * TABLE.mass(z)) for z in support) / TABLE.total
        for epsilon in EPSILONS
    ]
    for name, covered in (("noised", True), ("clean", False)):
        within = [
            value <= full[i % len(EPSILONS)] + 1e-12 for one in OTHERS for i, value in enumerate(curves(name, one))
        ]
        assert all(within) == covered, name


DRAWN = Fraction(1, 4)  #: p0 of decoys


@cache
def exact_view(scores: tuple[int, ...], name: str) -> Law:
    """The same with decoys, of every list: the drawn set, and the best of all others that match."""
    law: Law = defaultdict(Fraction)
    for taken in itertools.product((False, True), repeat=N):
        others = sorted((-scores[i], i) for i in range(N) if not taken[i] and scores[i] > 0)
        best = [i for _, i in others[: max(0, K - sum(taken))]]
        ids = sorted([*(i for i in range(N) if taken[i]), *best])
        flagged = [i for i in ids if scores[i] > 0]
        chance = math.prod((DRAWN if one else 1 - DRAWN for one in taken), start=Fraction(1))
        law[tuple(ids), tuple(flagged), PLACEMENTS[name].found(scores, scores, flagged)] += chance
    return law


def evidence(name: str) -> Fraction:
    """Until-delivered, the largest P_D(o, not handed) - P_D0(o): above 0 something speaks for presence."""
    found = Fraction(-1)
    for others, score in itertools.product(OTHERS, (1, 2)):
        empty, there = exact_view((0, *others), name), exact_view((score, *others), name)
        for out in there.keys() | empty.keys():
            assert isinstance(out, tuple)
            missed = Fraction(0) if SLOT in out[1] else (1 - ETA) * there.get(out, Fraction(0))
            absent = empty.get(out, Fraction(0))
            found = max(found, missed + ETA * absent - absent)
    return found


def test_until_delivered_the_guard_on_what_is_returned_is_no_evidence() -> None:
    assert evidence("returned") <= 0


def test_until_delivered_a_guard_on_all_scores_is_evidence_of_presence() -> None:
    assert evidence("clean") > Fraction(1, 1000)


@pytest.mark.parametrize("name", ["returned", "clean"])
def test_unseen_holds_wherever_the_guard_stands(name: str) -> None:
    """A hidden slot is empty for the guard, too: with probability eta the document's world is the empty one."""
    for others in OTHERS:
        empty, there = exact_view((0, *others), name), exact_view((2, *others), name)
        for out, mass in empty.items():
            assert mass <= (ETA * mass + (1 - ETA) * there.get(out, Fraction(0))) / ETA

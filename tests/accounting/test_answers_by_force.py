# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole transcripts of answers, by enumeration of all noise: many answers, filters, documents of several parts.

Written by a reviewer who started from SPEC A.14 alone.  The mechanism here is a few lines of its own: counts, integer
noise, the K largest, ties to the lower slot.  What is taken from the accounting is only what is on trial.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cache

import pytest

from ragseal.accounting.answers import (
    PURE,
    OneAnswer,
    answers_period,
    composed,
    filtered_bound,
    one_answer,
)
from ragseal.accounting.spent import Spent
from ragseal.circuits.circuit import load_classes
from ragseal.kernel.noise import build_table
from ragseal.kernel.noise_class import with_noise
from tests.accounting.test_answers import policy

N, STEP = 3, 1  #: keywords, and steps that one document adds to a count
SCALE = 2  #: noise falls by e^(-1/2) a step
LAST = 21  #: its largest value
REACH = 20  #: x0: tails are compared up to here

Counts = tuple[int, ...]
Seen = tuple[tuple[int, ...], ...]  #: what accounts have: one set of keywords an answer
Law = dict[Seen, float]


@cache
def noise() -> tuple[float, ...]:
    weights = [math.exp(-x / SCALE) for x in range(LAST + 1)]
    return tuple(w / math.fsum(weights) for w in weights)


def tail(x: int) -> float:
    """P(z >= x)."""
    return math.fsum(noise()[max(x, 0) :])


def lost(shift: int) -> float:
    """That some noise is larger than where tails are compared."""
    return N * tail(REACH - shift + 1)


@cache
def selected(counts: Counts, k: int) -> Mapping[tuple[int, ...], float]:
    """The law of one answer's keywords."""
    law: dict[tuple[int, ...], float] = {}
    for drawn in itertools.product(range(LAST + 1), repeat=N):
        noisy = [1 + STEP * c + z for c, z in zip(counts, drawn, strict=True)]
        best = tuple(sorted(sorted(range(N), key=lambda i: (-noisy[i], i))[:k]))
        law[best] = law.get(best, 0.0) + math.prod(noise()[z] for z in drawn)
    return law


#: Asked after ``seen``: what the other documents count, and the words that each part of the one document would give.
Asking = Callable[[Seen], tuple[Counts, Sequence[Counts]]]


def transcripts(ask: Asking, answers: int, k: int, present: bool, often: int) -> Law:
    """The law of all that is seen, where each part takes part in at most ``often`` answers, as soon as it is asked."""
    law: dict[tuple[Seen, tuple[int, ...]], float] = {((), ()): 1.0}
    for _ in range(answers):
        after: dict[tuple[Seen, tuple[int, ...]], float] = {}
        for (seen, used), chance in law.items():
            counts, parts = ask(seen)
            spent = used or (0,) * len(parts)
            joins = [any(words) and had < often for words, had in zip(parts, spent, strict=True)]
            total = list(counts)
            for words, joined in zip(parts, joins, strict=True):
                if present and joined:
                    total = [a + b for a, b in zip(total, words, strict=True)]
            now = tuple(had + joined for had, joined in zip(spent, joins, strict=True))
            for keywords, p in selected(tuple(total), k).items():
                place = ((*seen, keywords), now)
                after[place] = after.get(place, 0.0) + chance * p
        law = after
    found: Law = {}
    for (seen, _), chance in law.items():
        found[seen] = found.get(seen, 0.0) + chance
    return found


def excess(p: Law, q: Law, epsilon: float) -> float:
    """The hockey stick at epsilon: what the worst event keeps."""
    return math.fsum(max(0.0, mass - math.exp(epsilon) * q.get(seen, 0.0)) for seen, mass in p.items())


def worst(ask: Asking, answers: int, k: int, epsilon: float, often: int) -> float:
    """Over both orders."""
    with_it, without = (transcripts(ask, answers, k, present, often) for present in (True, False))
    return max(excess(with_it, without, epsilon), excess(without, with_it, epsilon))


def bound_of(k: int, words: int, parts: int = 1) -> OneAnswer:
    """Proposition 1 of this noise, from its tails."""
    shift = STEP * parts
    each = math.log(tail(REACH - shift) / tail(REACH))
    part = math.log(tail(REACH - STEP) / tail(REACH))
    up = min(words * parts, k) * each
    return OneAnswer(up, k * each, (up, k * each), Fraction(0), k * part)


def stubborn(seen: Seen) -> tuple[Counts, Sequence[Counts]]:
    """The same question again and again."""
    return (0, 3, 1), ((1, 0, 0),)


def adaptive(seen: Seen) -> tuple[Counts, Sequence[Counts]]:
    """Another question after each answer; one of them does not reach the document."""
    if seen and 0 in seen[-1]:
        return (4, 0, 0), ((0, 1, 0),)
    return ((1, 1, 1), ((0, 0, 0),)) if len(seen) == 1 else ((0, 6, 0), ((1, 0, 0),))


@pytest.mark.parametrize("ask", [stubborn, adaptive])
@pytest.mark.parametrize(("k", "answers"), [(1, 3), (2, 2)])
def test_the_composed_epsilon_holds_of_whole_transcripts(ask: Asking, k: int, answers: int) -> None:
    one = bound_of(k, words=1)
    for delta in (Fraction(1, 5), Fraction(1, 50)):
        epsilon = composed(one, answers, delta)
        assert epsilon <= answers * one.pure * (1 + 1e-12)
        assert worst(ask, answers, k, epsilon, often=answers) <= float(delta) + answers * lost(STEP)


@pytest.mark.parametrize("often", [1, 2])
def test_the_filter_bounds_any_number_of_answers(often: int) -> None:
    one = bound_of(1, words=1)
    epsilon = filtered_bound(one, often, 1, Fraction(1, 100)).epsilon
    assert worst(stubborn, 4, 1, epsilon, often=often) <= 0.01 + 4 * lost(STEP)


def test_without_the_filter_its_epsilon_does_not_hold() -> None:
    """So the test above is about the filter, and not about noise that hides everything."""
    one = bound_of(1, words=1)
    epsilon = filtered_bound(one, 1, 1, Fraction(1, 100)).epsilon
    strong = worst(lambda seen: ((0, 2, 0), ((1, 0, 0),)), 6, 1, epsilon, often=6)
    assert strong > 2 * (0.01 + 6 * lost(STEP))


# --- a document of several parts -------------------------------------------------------------------------------------


def together(seen: Seen) -> tuple[Counts, Sequence[Counts]]:
    """Both parts of the document say the word that decides the set."""
    return (1, 0, 0), ((1, 0, 0), (1, 0, 0))


def apart(seen: Seen) -> tuple[Counts, Sequence[Counts]]:
    """One part answers the first question, the other one the second."""
    return ((6, 0, 0), ((1, 0, 0), (0, 0, 0))) if not seen else ((0, 6, 0), ((0, 0, 0), (0, 1, 0)))


@pytest.mark.parametrize("ask", [together, apart])
@pytest.mark.parametrize("k", [1, 2])
def test_a_document_of_two_parts_is_bounded_whole(ask: Asking, k: int) -> None:
    one = bound_of(k, words=1, parts=2)
    assert worst(ask, 1, k, one.pure, often=1) <= lost(2 * STEP)
    found = filtered_bound(one, 1, 2, Fraction(1, 100))
    assert (found.accountant, found.answers) == (PURE, 2)
    assert worst(ask, 2, k, found.epsilon, often=1) <= 2 * lost(2 * STEP)


def test_counted_as_one_part_it_is_not() -> None:
    """What the accounting said of such a document before it counted parts."""
    k = 2
    single = k * STEP / SCALE  # of the ideal law, without this one's tail
    assert worst(together, 1, k, single, often=1) > 20 * lost(2 * STEP)
    assert worst(together, 1, k, 2 * single, often=1) <= lost(2 * STEP)


def test_the_period_counts_parts() -> None:
    cls = load_classes()["noise-tiny-two"]
    table = build_table(cls.law)
    whole, part = one_answer(cls, table, 4, 2, parts=3), one_answer(cls, table, 12, 6)
    assert (whole.present, whole.absent, whole.lost) == (part.present, part.absent, part.lost)
    assert whole.agree
    assert whole.part == pytest.approx(with_noise(cls).K * 4 / 16)
    assert 3 * whole.part >= whole.absent
    delta = Fraction(1, 10**6)
    one, three = (
        answers_period([Spent(f"w{n}", policy(chunks_max=n), cls, 60, answered=12) for n in (1, parts)], delta)
        for parts in (1, 3)
    )
    assert (one.parts, three.parts) == (1, 3)
    assert three.plain.pure == pytest.approx(3 * one.plain.pure)
    assert three.filtered.pure == pytest.approx(3 * one.filtered.pure)
    assert three.filtered.epsilon >= 3 * one.filtered.pure
    assert three.filtered.answers == 3 * one.filtered.answers


def test_a_filter_that_lets_more_through_than_was_asked_adds_nothing() -> None:
    cls = load_classes()["noise-tiny-two"]
    found = answers_period([Spent("w1", policy(participations=100), cls, 60, answered=2)], Fraction(1, 10**6))
    assert found.filtered == found.plain

# SPDX-License-Identifier: GPL-3.0-or-later
"""What accounting charges the lottery with, against the law of every view of a few questions.

A view is a sequence of questions and lists; the next question is a function of the view, so the ratio of a view's
probabilities in D and D0 is that of its lists, under one coin, whoever asks and however the questions are chosen.
Refusals are no view here: delta is for them.  The document fills two slots, of which a question matches one, the other,
both or none.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import pytest

from ragseal.accounting.delivered import certified_unseen
from ragseal.accounting.delivered_lottery import certified_return
from tests.kernel import lottery_brute as brute

OWN = (1, 2)  #: the document's slots, behind one that has an exact score
QUESTIONS = ((2, 5, 0), (0, 0, 5), (2, 5, 5), (5, 0, 0), (0, 1, 0))  #: scores of all slots with the document
ETA = brute.ETA
Shown = tuple[tuple[int, ...], tuple[int, ...]]  #: T, and of the document's slots in it those with a flag


@dataclass(frozen=True)
class Scene:
    """The mechanism, and what may be wrong with it."""

    K: int
    R: int
    prizes: int
    throws: int = 1  #: coin periods; questions are dealt to them in turn
    each: bool = False  #: wrong: a coin for every question
    goes_on: bool = False  #: wrong: a view that goes on after the return is charged as one that stops


@cache
def law(scene: Scene, question: Sequence[int], there: bool) -> dict[Shown, Fraction]:
    """P(list with its flags); refusals are left out."""
    scores = tuple(x if there or i not in OWN else 0 for i, x in enumerate(question))
    found = brute.law(scores, scene.K, scene.R, scene.prizes)
    return {(T, tuple(i for i in T if i in OWN and scores[i])): p for T, p in found.items() if isinstance(T, tuple)}


def views(scene: Scene, n: int, stops: bool) -> Iterator[tuple[Fraction, Fraction]]:
    """(P_D, P_D0) of every view of up to n questions that has nothing of probability 0 in D0.

    Args:
        stops: the view ends with the first list that has a slot which matches, and of that list it has the ids.
    """
    coins = n if scene.each else scene.throws
    hidden = [*itertools.product((True, False), repeat=coins)]
    start = [math.prod((ETA if h else 1 - ETA for h in one), start=Fraction(1)) for one in hidden]

    def go(number: int, chances: list[Fraction], empty: Fraction) -> Iterator[tuple[Fraction, Fraction]]:
        yield sum(chances, Fraction(0)), empty
        if number == n:
            return
        for question in QUESTIONS:
            of_empty, there = law(scene, question, False), law(scene, question, True)
            for T in {T for T, _ in [*of_empty, *there]}:
                returned = stops and any(question[i] and i in OWN for i in T)
                flags = {f for t, f in there if t == T} | {()}
                for shown in [None] if returned else flags:  # None: whatever the flags are
                    kept = [(T, f) for f in flags] if shown is None else [(T, shown)]
                    p, q = (sum((one.get(k, Fraction(0)) for k in kept), Fraction(0)) for one in (there, of_empty))
                    rest = [
                        chance * (q if one[number % coins] else p) for chance, one in zip(chances, hidden, strict=True)
                    ]
                    if returned and not scene.goes_on:
                        yield sum(rest, Fraction(0)), empty * q
                    elif any(rest) or q:
                        yield from go(number + 1, rest, empty * q)

    yield from go(0, start, Fraction(1))


def likelier(scene: Scene, n: int) -> Fraction | float:
    """The largest P_D / P_D0 of a view that stops at the return."""
    return max(p / q if q else math.inf for p, q in views(scene, n, True) if p)


def rarer(scene: Scene, n: int) -> Fraction:
    """The least P_D / P_D0 of a whole view, flags and all."""
    return min(p / q for p, q in views(scene, n, False) if q)


def charged(scene: Scene, prizes: int = 0, chunks: int = len(OWN)) -> float:
    """R of two slots under one coin, as a period has it."""
    return certified_return(brute.M, prizes or scene.prizes, brute.HIDDEN, chunks)


def allowed(scene: Scene) -> float:
    """U of a document under one coin, as often as coins are thrown."""
    return certified_unseen(brute.HIDDEN, 1, scene.throws)


SCENES = [Scene(1, 2, 1), Scene(1, 3, 2), Scene(2, 3, 1), Scene(2, 3, 2)]


@pytest.mark.parametrize("scene", SCENES)
def test_no_view_that_stops_at_the_return_is_likelier_than_what_is_charged(scene: Scene) -> None:
    found = likelier(scene, 3)
    assert float(found) <= math.exp(charged(scene)) * (1 + 1e-12)
    if (scene.K, scene.prizes) == (2, 1):
        assert float(found) >= math.exp(charged(scene)) * (1 - 1e-12)  # both slots in one list: tight


@pytest.mark.parametrize("scene", [*SCENES, Scene(1, 2, 1, throws=2)])
def test_no_whole_view_is_rarer_than_what_is_charged(scene: Scene) -> None:
    found = rarer(scene, 3)
    assert ETA**scene.throws <= found
    assert math.exp(-allowed(scene)) <= float(found) * (1 + 1e-12)
    assert float(found) < 1.5 * math.exp(-allowed(scene))  # a list without a flag where the document always comes


def test_what_would_be_charged_too_little_is_exceeded() -> None:
    """A prize more than is drawn, one return for two slots, n R, a view that goes on, a coin a question, one throw."""
    scene, twice = Scene(2, 3, 1), Scene(2, 3, 1, throws=2)
    found = math.log(likelier(scene, 1))
    assert found > charged(scene, prizes=2)
    assert found > charged(scene, chunks=1)
    assert found > 2 * charged(scene, chunks=1)
    assert math.log(likelier(Scene(2, 3, 1, goes_on=True), 2)) > charged(scene) + 0.5
    assert -math.log(rarer(Scene(1, 2, 1, each=True), 3)) > allowed(scene) + 0.5
    assert -math.log(rarer(twice, 2)) > allowed(scene) + 0.5

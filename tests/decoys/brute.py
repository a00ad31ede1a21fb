# SPDX-License-Identifier: GPL-3.0-or-later
"""The law of decoys by enumeration: every number of draws and every sequence of ids of a few slots.

Independent of the kernel's formulas and of its selection, which tests hold against it.  Wrong variants are here, too.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache

from ragseal.kernel.decoys.table import DrawTable

HIDDEN = 32  #: out of 256: eta = 1/8
ETA = Fraction(HIDDEN, 256)

Slots = frozenset[int]
Scores = tuple[int, ...]
List = Slots | str  #: T, or the name of a refusal
Rule = Callable[[Slots, Scores, int], List]


def answer(drawn: Slots, scores: Scores, K: int) -> List:
    """T: a slot that is not drawn is in it iff fewer than K are drawn or better than it."""
    better = {
        i: sum(j not in drawn and (scores[j], -j) > (scores[i], -i) for j in range(len(scores)))
        for i in range(len(scores))
    }
    return drawn | {i for i, y in enumerate(scores) if y > 0 and i not in drawn and len(drawn) + better[i] < K}


@dataclass(frozen=True)
class Setting:
    """An index of a few slots, and the law of what is drawn."""

    N: int
    K: int
    masses: tuple[int, ...]  #: of the number of draws, out of 2^bits
    L: int = 2
    bits: int = 4
    own: tuple[int, ...] = (0,)  #: the document's slots
    rule: Rule = field(default=answer)
    redrawn: bool = False  #: wrong: void and repeated ids are drawn again
    shards: int = 1  #: of N slots each; each draws on its own

    @property
    def slots(self) -> int:
        return self.shards * self.N

    @property
    def table(self) -> DrawTable:
        return DrawTable(self.L, self.bits, self.masses)


@cache
def drawn_law(setting: Setting) -> dict[Slots, Fraction]:
    """P(the drawn set), of all shards."""
    whole = {frozenset[int](): Fraction(1)}
    for first in range(0, setting.slots, setting.N):
        own = {frozenset(first + i for i in one): p for one, p in _shard_law(setting).items()}
        whole = {a | b: p * q for a, p in whole.items() for b, q in own.items()}
    return whole


@cache
def _shard_law(setting: Setting) -> dict[Slots, Fraction]:
    found: Counter[Slots] = Counter()
    for number, mass in enumerate(setting.masses):
        weight = Fraction(mass, 1 << setting.bits)
        if setting.redrawn:
            sets = [frozenset(one) for one in itertools.combinations(range(setting.N), min(number, setting.N))]
        else:
            ids = itertools.product(range(1 << setting.L), repeat=number)
            sets = [frozenset(i for i in one if i < setting.N) for one in ids]
        for one, count in Counter(sets).items():
            found[one] += weight * Fraction(count, len(sets))  # type: ignore[assignment]
    return dict(found)  # type: ignore[arg-type]


@cache
def law(setting: Setting, scores: Scores) -> dict[List, Fraction]:
    """P(T)."""
    found: dict[List, Fraction] = {}
    for drawn, p in drawn_law(setting).items():
        T = setting.rule(drawn, scores, setting.K)
        found[T] = found.get(T, Fraction(0)) + p
    return found


def worlds(setting: Setting, values: Sequence[int] = (0, 1, 2)) -> Iterator[tuple[Scores, Scores]]:
    """(scores with the document, without it), the document matching with one slot at least."""
    for scores in itertools.product(values, repeat=setting.slots):
        if any(scores[i] for i in setting.own):
            yield scores, tuple(0 if i in setting.own else y for i, y in enumerate(scores))


def matching(setting: Setting, T: List, scores: Scores) -> Slots:
    """The document's slots in a list that match."""
    return frozenset() if isinstance(T, str) else frozenset(i for i in T if i in setting.own and scores[i])


def worst_return(setting: Setting, values: Sequence[int] = (0, 1, 2)) -> Fraction | float:
    """The largest P_D(T) / P_D0(T) of a list with a slot of the visible document."""
    largest: Fraction | float = Fraction(0)
    for there, empty in worlds(setting, values):
        before = law(setting, empty)
        for T, p in law(setting, there).items():
            if matching(setting, T, there) and p:
                largest = max(largest, p / before[T] if before.get(T) else math.inf)
    return largest


def lost_mass(setting: Setting, values: Sequence[int] = (0, 1, 2)) -> Fraction:
    """The largest P_D of lists with a slot of the document that the empty index never gives."""
    largest = Fraction(0)
    for there, empty in worlds(setting, values):
        before = law(setting, empty)
        lists = ((T, p) for T, p in law(setting, there).items() if matching(setting, T, there))
        largest = max(largest, sum((p for T, p in lists if not before.get(T)), Fraction(0)))
    return largest


def worst_excess(setting: Setting, A: Fraction, values: Sequence[int] = (0, 1, 2)) -> Fraction:
    """The largest sum over such lists of (P_D - A P_D0)_+."""
    largest = Fraction(0)
    for there, empty in worlds(setting, values):
        before = law(setting, empty)
        lists = ((T, p) for T, p in law(setting, there).items() if matching(setting, T, there))
        largest = max(largest, sum((max(Fraction(0), p - A * before.get(T, 0)) for T, p in lists), Fraction(0)))
    return largest


def worst_without(setting: Setting, values: Sequence[int] = (0, 1, 2)) -> Fraction | float:
    """The largest P_D(T) / P_D0(T) of a list, or a refusal, without a slot of the document that matches."""
    largest: Fraction | float = Fraction(0)
    for there, empty in worlds(setting, values):
        before = law(setting, empty)
        for T, p in law(setting, there).items():
            if not matching(setting, T, there) and p:
                largest = max(largest, p / before[T] if before.get(T) else math.inf)
    return largest


# --- wrong variants ---------------------------------------------------------------------------------------------------


def _best(drawn: Slots, scores: Scores, count: int) -> Slots:
    others = sorted((-y, i) for i, y in enumerate(scores) if y > 0 and i not in drawn)
    return frozenset(i for _, i in others[: max(0, count)])


def with_reserve(drawn: Slots, scores: Scores, K: int) -> List:
    """Wrong: one result at least, however many are drawn."""
    return drawn | _best(drawn, scores, max(1, K - len(drawn)))


def capped(drawn: Slots, scores: Scores, K: int) -> List:
    """Wrong: of more than K drawn slots, the first K."""
    kept = frozenset(sorted(drawn)[:K])
    return kept | _best(kept, scores, K - len(kept))


def filled(drawn: Slots, scores: Scores, K: int) -> List:
    """Wrong: a list that would be short is filled up with the first slots that do not match."""
    T = drawn | _best(drawn, scores, K - len(drawn))
    rest = [i for i in range(len(scores)) if i not in T]
    return T | frozenset(rest[: max(0, K - len(T))])


def exact_on_top(drawn: Slots, scores: Scores, K: int) -> List:
    """Wrong: drawn slots stand on top of an exact list instead of taking places of it."""
    return drawn | _best(frozenset(), scores, K)


def refused_over(most: int) -> Rule:
    """Wrong: a query is refused that draws more than ``most`` slots, fewer than a list may have."""

    def rule(drawn: Slots, scores: Scores, K: int) -> List:
        return "refused" if len(drawn) > most else answer(drawn, scores, K)

    return rule


def refused_list(least: int) -> Rule:
    """Wrong: a query is refused whose list is shorter than ``least``."""

    def rule(drawn: Slots, scores: Scores, K: int) -> List:
        T = answer(drawn, scores, K)
        return T if isinstance(T, str) or len(T) >= least else "refused"

    return rule


def guarded(own: int) -> Rule:
    """Wrong: a guard takes a slot out of the list, and nothing takes its place."""

    def rule(drawn: Slots, scores: Scores, K: int) -> List:
        T = answer(drawn, scores, K)
        return T if isinstance(T, str) else T - {own}

    return rule


def matching_drawn_only(drawn: Slots, scores: Scores, K: int) -> List:
    """Wrong: a drawn slot without a score is left out."""
    T = answer(drawn, scores, K)
    return T if isinstance(T, str) else frozenset(i for i in T if scores[i] > 0)


def filled_by_score(drawn: Slots, scores: Scores, K: int) -> List:
    """Wrong: a list that would be short is filled up with the best of the slots that do not match."""
    others = sorted((-y, i) for i, y in enumerate(scores) if i not in drawn)
    return drawn | frozenset(i for _, i in others[: max(0, K - len(drawn))])


def capped_by_score(drawn: Slots, scores: Scores, K: int) -> List:
    """Wrong: of more than K drawn slots, those with the best scores."""
    kept = frozenset(sorted(drawn, key=lambda i: (-scores[i], i))[:K])
    return kept | _best(kept, scores, K - len(kept))


# --- several questions ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scene:
    """Questions under one coin, or what may be wrong with them."""

    setting: Setting
    questions: tuple[Scores, ...]
    throws: int = 1  #: coin periods; questions are dealt to them in turn
    each: bool = False  #: wrong: a coin for every question
    goes_on: bool = False  #: wrong: a view that goes on after the return is charged as one that stops


def views(scene: Scene, n: int, stops: bool) -> Iterator[tuple[Fraction, Fraction]]:
    """(P_D, P_D0) of every view of up to n questions.

    Args:
        stops: the view ends with the first list that has a slot which matches, and of that list it has the ids; else it
            has all lists with all flags.
    """
    own, coins = scene.setting.own, n if scene.each else scene.throws
    hidden = [*itertools.product((True, False), repeat=coins)]
    start = [math.prod((ETA if h else 1 - ETA for h in one), start=Fraction(1)) for one in hidden]

    def go(number: int, chances: list[Fraction], empty: Fraction) -> Iterator[tuple[Fraction, Fraction]]:
        yield sum(chances, Fraction(0)), empty
        if number == n:
            return
        for question in scene.questions:
            without = tuple(0 if i in own else y for i, y in enumerate(question))
            there, before = law(scene.setting, question), law(scene.setting, without)
            for T in {**there, **before}:
                found = matching(scene.setting, T, question)
                p, q = there.get(T, Fraction(0)), before.get(T, Fraction(0))
                # What is shown beside ids: the document's flags, unless the view stops here.
                shown = [(p, q)] if stops or not found else [(p, Fraction(0)), (Fraction(0), q)]
                for visible, gone in shown:
                    rest = [
                        chance * (gone if one[number % coins] else visible)
                        for chance, one in zip(chances, hidden, strict=True)
                    ]
                    if stops and found and not scene.goes_on:
                        yield sum(rest, Fraction(0)), empty * gone
                    elif any(rest) or gone:
                        yield from go(number + 1, rest, empty * gone)

    yield from go(0, start, Fraction(1))


def likelier(scene: Scene, n: int) -> Fraction | float:
    """The largest P_D / P_D0 of a view that stops at the return."""
    return max(p / q if q else math.inf for p, q in views(scene, n, True) if p)


def rarer(scene: Scene, n: int) -> Fraction:
    """The least P_D / P_D0 of a whole view, flags and all."""
    return min(p / q for p, q in views(scene, n, False) if q)

# SPDX-License-Identifier: GPL-3.0-or-later
"""The lottery's law by enumeration: P(list) over all tie-breaks of a few slots, refusals as an outcome of their own.

Independent of the formulas that tests hold against it.  Wrong variants of the law are here as well.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction

from ragseal.kernel.lottery_mechanism import lottery_value, rank

M = 2  #: coarse bits
HIDDEN = 32  #: out of 256: eta = 1/8
ETA = Fraction(HIDDEN, 256)
H = 5

Value = Callable[[int, int, int, int, int], int]
Refused = str
List = tuple[int, ...] | Refused


def added(w: int, u: int, width: int, m: int, prizes: int) -> int:
    """Wrong: a prize is one more unit of score."""
    return min(max(w, 0), width) + (u >= (1 << m) - prizes) + u


def law(
    scores: Sequence[int],
    K: int,
    R: int,
    prizes: int,
    *,
    grid: int = 4,
    value: Value = lottery_value,
    top: bool = False,
) -> dict[List, Fraction]:
    """P(T), or of a refusal.  ``top``, wrong: prizes stand on top of an exact top K instead of taking places of it."""
    seen: Counter[List] = Counter()
    for ties in itertools.product(range(1 << M), repeat=len(scores)):
        values = [value(w, u, H, M, prizes) for w, u in zip(scores, ties, strict=True)]
        won = rank(values, K)
        if top:
            exact = rank([min(max(w, 0), H) for w in scores], K)
            seen[tuple(sorted({*exact, *(i for i, u in enumerate(ties) if u >= (1 << M) - prizes)}))] += 1
            continue
        entry = min(values[won[-1]], H + (1 << M))
        if sum(v >= entry for v in values) > R:
            seen["overflow"] += 1
        elif min(entry, (1 << M) - prizes) < (1 << M) - grid + 1:
            seen["grid"] += 1
        else:
            seen[tuple(sorted(won))] += 1
    return {T: Fraction(n, (1 << M) ** len(scores)) for T, n in seen.items()}


def worst_return(
    slots: int, own: Sequence[int], K: int, R: int, prizes: int, *, apart: bool = False, **how: object
) -> Fraction | float:
    """The largest P_D(T) / P_D0(T) of a list that returns one of the document's slots ``own``, over all scores.

    The document's slots share one coin; ``apart``: each has a coin of its own.
    """
    largest: Fraction | float = Fraction(0)
    others = [i for i in range(slots) if i not in own]
    for rest in itertools.product((0, 2, 5), repeat=len(others)):

        def world(mine: Sequence[int], rest: Sequence[int] = rest) -> dict[List, Fraction]:
            scores = [0] * slots
            for i, x in [*zip(own, mine, strict=True), *zip(others, rest, strict=True)]:
                scores[i] = x
            return law(scores, K, R, prizes, **how)  # type: ignore[arg-type]

        empty = world([0] * len(own))
        for mine in itertools.product((1, 5), repeat=len(own)):
            there: Counter[List] = Counter()
            coins = itertools.product((0, 1), repeat=len(own)) if apart else [(0,) * len(own), (1,) * len(own)]
            for coin in coins:
                tossed = coin if apart else coin[:1]
                weight = Fraction(1)
                for c in tossed:
                    weight *= 1 - ETA if c else ETA
                for T, p in world([x * c for x, c in zip(mine, coin, strict=True)]).items():
                    there[T] += weight * p  # type: ignore[assignment]
            for T, p in there.items():
                if isinstance(T, tuple) and set(T) & set(own):
                    ratio = p / empty[T] if empty.get(T) else float("inf")
                    largest = max(largest, ratio)
    return largest

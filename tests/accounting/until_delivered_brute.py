# SPDX-License-Identifier: GPL-3.0-or-later
"""Claim "until-delivered" by brute force: every adaptive strategy of few queries on three or four slots.

Nothing here uses a formula of the proof.  The law of a released set comes from all sets that decoys may draw.  Coins
stay in force over queries, so a transcript's probability is a mean over all coins of products; a *scene* says which
coin hides which slot at which query, and what a list shows.  Wrong mechanisms are other scenes.

Index 0 of an array's world axis is D, where the document is there; index 1 is D0, where its slots are empty.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

D, D0 = 0, 1


@dataclass(frozen=True)
class Query:
    """What each slot's document scores above lo, 0: it does not match; who asks which tenant, and when."""

    scores: tuple[int, ...]
    account: int = 0
    tenant: int = 0
    before: bool = False  #: the slot still holds the document's predecessor, in both worlds


@dataclass(frozen=True)
class Scene:
    """A mechanism, a document in it, and what its lists show."""

    drawn: Fraction  #: p0: each slot is drawn with this probability, by itself
    K: int
    document: tuple[int, ...]  #: its slots
    steps: tuple[tuple[Query, ...], ...]  #: the queries that a strategy may choose from, query by query
    eta: Fraction
    bits: int  #: coins
    coin: Callable[[int, Query, int], int | None]  #: (number of the query, query, slot) -> its coin; None: never hidden
    stopped: bool = False  #: transcripts end with the first list that returns the document; its flags are dropped
    drop_flags: bool = False  #: lists show ids alone
    flag_presence: bool = False  #: WRONG: the flag says that there is a document, whatever it scores
    withhold: bool = False  #: WRONG: a document that was selected and may be read is taken out of the list

    def there(self, query: Query, slot: int, world: int) -> bool:
        """Whether the slot holds a document."""
        return world == D or slot not in self.document or query.tenant > 0 or query.before


@lru_cache(maxsize=4096)
def released(drawn: Fraction, scores: tuple[int, ...], K: int) -> dict[tuple[int, ...], float]:
    """P(T) from all drawn sets: these, and the best of all others that match, as many as are missing to K."""
    found: dict[tuple[int, ...], float] = {}
    slots = range(len(scores))
    for taken in itertools.product((False, True), repeat=len(scores)):
        chance = math.prod((drawn if one else 1 - drawn for one in taken), start=Fraction(1))
        others = sorted((-scores[i], i) for i in slots if not taken[i] and scores[i] > 0)
        best = [i for _, i in others[: max(0, K - sum(taken))]]
        T = tuple(sorted([*(i for i in slots if taken[i]), *best]))
        found[T] = found.get(T, 0.0) + float(chance)
    return found


@dataclass
class Step:
    """All outcomes of all queries of one step: P(outcome | coins), and what it does."""

    chance: Array  #: (outcomes, 2 worlds, 2^bits coins)
    starts: npt.NDArray[np.int64]  #: first outcome of each query
    stops: npt.NDArray[np.bool_]
    handed: npt.NDArray[np.bool_]  #: the document with flag 1


def outcomes(scene: Scene, number: int, query: Query) -> list[tuple[Array, bool, bool]]:
    """(P(outcome | world, coins), stops, handed) of each thing that a list may show."""
    found: dict[Hashable, Any] = {}
    slots = range(len(query.scores))
    for coins in range(1 << scene.bits):
        for world in (D, D0):
            shown = []  # slots that are neither empty nor hidden
            for slot in slots:
                coin = scene.coin(number, query, slot)
                hidden = coin is not None and coins >> coin & 1 == 1
                shown.append(scene.there(query, slot, world) and not hidden)
            scores = tuple(score if here else 0 for score, here in zip(query.scores, shown, strict=True))
            for T, chance in released(scene.drawn, scores, scene.K).items():
                flags = {i: shown[i] and (scores[i] > 0 or scene.flag_presence) for i in T}
                about = query.tenant == 0 and not query.before  # the document's own index, in its own time
                if scene.withhold:
                    T = tuple(i for i in T if not (i in scene.document and flags[i]))
                own = [i for i in T if i in scene.document] if about else []
                stops = scene.stopped and any(query.scores[i] > 0 for i in own)
                kept = [] if scene.drop_flags else [i for i in T if not (stops and i in own)]
                key = T, tuple((i, flags[i]) for i in kept), stops
                handed = any(flags[i] for i in own)
                if key not in found:
                    found[key] = [np.zeros((2, 1 << scene.bits)), stops, False]
                found[key][0][world, coins] += chance
                found[key][2] |= handed and world == D
    return [(chance, stops, handed) for chance, stops, handed in found.values()]


def build(scene: Scene) -> list[Step]:
    steps = []
    for number, queries in enumerate(scene.steps):
        found = [outcomes(scene, number, query) for query in queries]
        starts = np.cumsum([0, *(len(one) for one in found[:-1])])
        flat = [outcome for one in found for outcome in one]
        steps.append(
            Step(
                np.stack([chance for chance, _, _ in flat]),
                starts,
                np.array([stops for _, stops, _ in flat]),
                np.array([handed for _, _, handed in flat]),
            )
        )
    return steps


def coin_weights(scene: Scene) -> Array:
    eta = float(scene.eta)
    return np.array(
        [math.prod(eta if c >> b & 1 else 1 - eta for b in range(scene.bits)) for c in range(1 << scene.bits)]
    )


def transcripts(scene: Scene, *, without: str = "") -> Array:
    """(P_D, P_D0) of every transcript that some strategy can bring about, shorter ones included; (transcripts, 2).

    Given the coins, a transcript's probability is a product over its lists, so the maximum over adaptive strategies of
    a ratio is that over all sequences of queries with outcomes.

    Args:
        without: "handed" leaves out the transcripts in which the document is handed over.
    """
    weights = coin_weights(scene)
    running = np.ones((1, 2, weights.size))
    ended = []
    for step in build(scene):
        child = (running[:, None] * step.chance[None]).reshape(-1, 2, weights.size)
        keep = np.tile(~step.handed if without == "handed" else np.ones_like(step.handed), running.shape[0])
        stops = np.tile(step.stops, running.shape[0])
        ended.append(child[keep & stops] @ weights)
        running = _distinct(child[keep & ~stops])
        ended.append(running @ weights)
    return np.concatenate(ended)


def _distinct(states: Array) -> Array:
    """Without repetitions: the order of queries does not matter where all steps are alike."""
    flat = states.reshape(states.shape[0], -1)
    _, first = np.unique(np.round(flat, 13), axis=0, return_index=True)
    return states[first]


def log_ratio(found: Array, over: int, under: int) -> float:
    """The largest ln(P_over / P_under) of a transcript."""
    possible = found[:, over] > 1e-14
    top, bottom = found[possible, over], found[possible, under]
    return math.inf if (bottom < 1e-14).any() else float(np.log(top / bottom).max())


def excess(scene: Scene, ratio: float) -> float:
    """max over adaptive strategies of sum over transcripts of (P_D - ratio P_D0)_+, by dynamic programming."""
    weights = coin_weights(scene)
    steps = build(scene)

    def now(states: Array) -> Array:
        found = states @ weights
        gain: Array = np.maximum(found[:, D] - ratio * found[:, D0], 0.0)
        return gain

    def best(states: Array, at: int) -> Array:
        here = now(states)
        if at == len(steps):
            return here
        step = steps[at]
        out = np.empty(states.shape[0])
        width = max(1, 40_000 // step.chance.shape[0])
        for start in range(0, states.shape[0], width):
            part = states[start : start + width]
            child = (part[:, None] * step.chance[None]).reshape(-1, 2, weights.size)
            stops = np.tile(step.stops, part.shape[0])
            value = now(child)
            value[~stops] = best(child[~stops], at + 1)
            by_query = np.add.reduceat(value.reshape(part.shape[0], -1), step.starts, axis=1)
            out[start : start + width] = by_query.max(axis=1)
        return np.maximum(here, out)

    return float(best(np.ones((1, 2, weights.size)), 0)[0])


# --- scenes ----------------------------------------------------------------------------------------------------------


def every_query(N: int, scores: Sequence[int], **rest: Any) -> tuple[Query, ...]:
    """Every vector of these scores."""
    return tuple(Query(vector, **rest) for vector in itertools.product(scores, repeat=N))


def own_queries(N: int, high: int, document: tuple[int, ...], **rest: Any) -> tuple[Query, ...]:
    """The document scores high; the others all score 0, all high, or all but one high."""
    others = [0] * N, [high] * N, [high] * (N - 1) + [0]
    return tuple(Query(tuple(high if i in document else base[i] for i in range(N)), **rest) for base in others)


def coin_a_slot(number: int, query: Query, slot: int) -> int | None:
    """The mechanism: each slot has one coin, for every query and every account."""
    return slot


def per(kind: str, document: tuple[int, ...]) -> Callable[[int, Query, int], int | None]:
    """Coins of the document's slots alone, by what decides which coin counts; all other slots are visible."""

    def coin(number: int, query: Query, slot: int) -> int | None:
        if slot not in document:
            return None
        return {
            "slot": document.index(slot),
            "none": None,
            "query": number,
            "account": query.account,
            "content": 1 if query.before else 0,
            "tenant": query.tenant,
            "window": number // 2,
        }[kind]

    return coin

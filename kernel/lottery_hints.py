# SPDX-License-Identifier: GPL-3.0-or-later
"""A reference prover's values of the lottery's committed inputs, in :class:`LotteryLayout` order.

What the native engine computes is compared with this.  A proof opens R slots, always: those that reach the entry, and
of the others the first ones, which it opens as truly as those.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence

from ragseal.kernel.chunks import Chunks
from ragseal.kernel.errors import AttestationError
from ragseal.kernel.lottery_class import DISTANCE_CHUNKS, LotteryClass
from ragseal.kernel.lottery_mechanism import LotteryPlace, LotterySelection, open_place
from ragseal.kernel.lottery_statement import LotteryLayout
from ragseal.kernel.statement import canonical_limit


def lottery_bound(u: int, width: int, m: int, prizes: int) -> int:
    """b: u, or u + H + 2^m of a prize."""
    return u + (width + (1 << m) if u >= (1 << m) - prizes else 0)


def lottery_multiplier(w: int, bound: int, threshold: int, width: int, distance: int) -> int:
    """e = (Y + w)(Y + H), Y = X + b - v* + 1: 0 of a slot that w or H keeps below the threshold."""
    y = distance + bound - threshold + 1
    return (y + w) * (y + width)


def opened_distance(w: int, bound: int, threshold: int, width: int) -> int:
    """X of a slot that is opened: the smallest for which e is not 0.  Each factor is 0 for one X at most."""
    return next(x for x in range(3) if lottery_multiplier(w, bound, threshold, width, x))


def kept_distance(cls: LotteryClass, w: int, bound: int, threshold: int, width: int) -> int:
    """X of a slot that is not opened: e is 0 by its score where that fits, else by the whole window.

    Raises:
        AttestationError: neither fits: the policy overflows its class.
    """
    for ahead in (w, width):
        if 0 <= threshold - 1 - bound - ahead < cls.room:
            return threshold - 1 - bound - ahead
    raise AttestationError("a slot's distance to the threshold is out of range: the policy overflows its circuit class")


def opened_places(
    cls: LotteryClass, selection: LotterySelection, w: Sequence[int], width: int, prizes: int
) -> list[LotteryPlace]:
    """R slots, increasing: those that reach the entry and the first others."""
    reaching = {place.slot: place for place in selection.places}
    others = itertools.islice((i for i in range(cls.N) if i not in reaching), cls.R - len(reaching))
    more = [open_place(i, w[i], selection.coarse[i], width, cls.m, prizes) for i in others]
    return sorted([*selection.places, *more], key=lambda place: place.slot)


def lottery_hints(
    cls: LotteryClass, selection: LotterySelection, w: Sequence[int], width: int, prizes: int
) -> list[int]:
    """The hint vector h (signed integers, in :class:`LotteryLayout` order) of an honest prover.

    Args:
        w: N scores, not clipped.
        width: H; ``prizes``: j.

    Raises:
        AttestationError: a value leaves its range, that is the policy overflows the class.
    """
    ch = Chunks(cls.c)
    h: dict[str, list[int]] = {group.name: [] for group in LotteryLayout(cls).groups}

    def put(name: str, values: Sequence[int]) -> None:
        if values:  # arrays of size 0 are left out
            h[name] += values

    places = opened_places(cls, selection, w, width, prizes)
    opened = {place.slot for place in places}
    bounds = [lottery_bound(u, width, cls.m, prizes) for u in selection.coarse]
    for i, (u, bound) in enumerate(zip(selection.coarse, bounds, strict=True)):
        if i in opened:
            distance = opened_distance(w[i], bound, selection.threshold, width)
        else:
            distance = kept_distance(cls, w[i], bound, selection.threshold, width)
        low, high = ch.split(distance, DISTANCE_CHUNKS)
        put("slot", [low, u, bound, high])
    used = cls.q * cls.m
    for element in selection.coarse_elements:
        rest = [element >> (used + cls.c * j) for j in range(cls.coarse_filler)]
        put("coarseFiller", [ch.look(x % (1 << cls.c)) for x in rest])
        top = element >> cls.coarse_top_position
        put("coarseTop", ch.low(top, cls.coarse_top))
        put("coarseRoom", ch.low(canonical_limit(cls.coarse_top_position) - 1 - top, cls.coarse_top))
    previous = -1
    for place in places:
        _put_place(h, ch, cls, selection, place, width)
        distance = opened_distance(place.w, bounds[place.slot], selection.threshold, width)
        put("placeBound", [bounds[place.slot]])
        put("placeDistance", [ch.look(distance)])
        put("placeGap", ch.low(place.slot - previous - 1, cls.id_chunks))
        previous = place.slot
    put("placeGap", ch.low(cls.N - previous - 1, cls.id_chunks))
    first = (1 << cls.m) - cls.grid + 1
    put("threshold", [selection.threshold])
    put("thresholdLow", ch.low(selection.threshold - selection.theta, DISTANCE_CHUNKS))
    put("thresholdSlot", [selection.threshold_slot])
    put("thresholdSlotLow", ch.exact(selection.threshold_slot, cls.L)[:-1])
    put("thetaChoice", [int(first + g == selection.theta) for g in range(cls.grid - 1)])
    ch.look((1 << cls.m) - prizes - selection.theta)
    put("prizeChoice", [int(j == prizes) for j in range(1, cls.prizes + 1)])
    put("returned", [one.packed for one in selection.returned])
    for a, b in itertools.pairwise(h["returned"]):
        put("returnedGap", ch.low(b - a - 1, cls.returned_chunks))
    seen = Counter(selection.coarse) + Counter(place.coarse for place in places)
    h["coarseCount"] = [seen[k] for k in range(1 << cls.m)]
    h["rangeCount"] = [ch.seen[j] for j in range(1 << cls.c)]
    return [x for values in h.values() for x in values]


def _put_place(
    h: dict[str, list[int]],
    ch: Chunks,
    cls: LotteryClass,
    selection: LotterySelection,
    place: LotteryPlace,
    width: int,
) -> None:
    """One place's hints but for its bound, its distance and its gap."""
    w = place.w
    positive, capped = int(w >= 1), int(w > width)
    counted = int(place.coarse >= selection.theta)
    ch.look(place.coarse - selection.theta if counted else selection.theta - 1 - place.coarse)
    win = int(place.slot in selection.ids)
    margin = ((place.score - selection.threshold) << cls.L) - place.slot + selection.threshold_slot
    for name, values in {
        "placeSlot": [place.slot],
        "placeScore": [w],
        "placeCoarse": [place.coarse],
        "placePositive": [positive],
        "placeCapped": [capped],
        "placePrize": [int(place.prize)],
        "placeCounted": [counted],
        "placeFloor": ch.low(w - 1 if positive else -w, DISTANCE_CHUNKS),
        "placeCeiling": ch.low(w - width - 1 if capped else width - w, DISTANCE_CHUNKS),
        "placeWins": [win],
        "placeMargin": ch.low(margin if win else -1 - margin, cls.compare_chunks),
    }.items():
        h[name] += values

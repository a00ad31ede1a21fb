# SPDX-License-Identifier: GPL-3.0-or-later
"""The lottery in plain integers: exact scores, ties broken by coarse bits, prizes before every score, the top K.

docs/proofs/lottery.md proves what one list and one return tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragseal.kernel.errors import AttestationError, PolicyError, UnprovableError
from ragseal.kernel.lottery_class import LotteryClass
from ragseal.kernel.noise_mechanism import wide_elements
from ragseal.kernel.params import TAG_COARSE
from ragseal.kernel.statement import Returned, canonical_limit


def lottery_value(w: int, u: int, width: int, m: int, prizes: int) -> int:
    """v: H + 2^m + u of a prize, whatever the score; else clip(w, 0, H) + u, which is less.

    Args:
        w: gain * (y - lo), not clipped; below 0 of an empty or hidden slot.
        u: coarse bits, in [0, 2^m).
        width: H, the score window's width in units of w.
        prizes: j; u wins a prize from 2^m - j on.
    """
    if u >= (1 << m) - prizes:
        return width + (1 << m) + u
    return min(max(w, 0), width) + u


@dataclass(frozen=True, slots=True)
class LotteryPlace:
    """One slot that a proof opens."""

    slot: int
    w: int  #: not clipped
    coarse: int  #: u
    prize: bool
    score: int  #: v


@dataclass(frozen=True, slots=True)
class LotterySelection:
    """What the mechanism computes for one query: the set T and all that a proof would open."""

    coarse_elements: tuple[int, ...]
    coarse: tuple[int, ...]  #: u_i of every slot
    places: tuple[LotteryPlace, ...]  #: every slot that reaches the entry, by slot; at most R
    entry: int  #: min(v*, H + 2^m): a prize always reaches it
    threshold: int  #: v*, the K-th largest value
    threshold_slot: int  #: i*
    theta: int  #: every slot with u >= theta is a place, so every prize
    returned: tuple[Returned, ...]  #: T, by slot

    @property
    def ids(self) -> tuple[int, ...]:
        """The slots of T, increasing."""
        return tuple(one.slot for one in self.returned)


def open_place(slot: int, w: int, u: int, width: int, m: int, prizes: int) -> LotteryPlace:
    """What a slot has, as :func:`lottery_value` takes it."""
    return LotteryPlace(slot, w, u, u >= (1 << m) - prizes, lottery_value(w, u, width, m, prizes))


def rank(values: Sequence[int], K: int) -> list[int]:
    """The slots of the K largest (v, -slot), largest first."""
    return sorted(range(len(values)), key=lambda i: (-values[i], i))[:K]


def select_lottery(cls: LotteryClass, key: int, w: Sequence[int], width: int, prizes: int) -> LotterySelection:
    """The exact top K by (v_i, -i), where at most R slots reach the entry.

    Args:
        key: of the request's noise (:func:`ragseal.kernel.mechanism.noise_key`).
        w: N integers gain * (y_i - lo), not clipped.
        width: H, at least 1.
        prizes: j, the policy's.

    Raises:
        AttestationError: another number of scores than the capacity, or a width below 1.
        PolicyError: more prizes than the class has places for, or none.
        UnprovableError: one of the named completeness failures (canonical form, overflow, the grid).
    """
    if len(w) != cls.N:
        raise AttestationError(f"{len(w)} scores for a capacity of {cls.N}")
    if width < 1:
        raise AttestationError("a score window has a width of 1 at least")
    if not 1 <= prizes <= cls.prizes:
        raise PolicyError(
            f"{prizes} prizes in {1 << cls.m}: class {cls.name!r} takes 1 to {cls.prizes}; "
            f"choose from them, or a class with more places"
        )
    elements = wide_elements(key, TAG_COARSE, cls.elements, 0)
    limit = canonical_limit(cls.coarse_top_position)
    if any(element >> cls.coarse_top_position >= limit for element in elements):
        raise UnprovableError("an element is outside the canonical decomposition; the record cannot be proven")
    mask = (1 << cls.m) - 1
    coarse = [(element >> (cls.m * k)) & mask for element in elements for k in range(cls.q)]
    values = [lottery_value(x, u, width, cls.m, prizes) for x, u in zip(w, coarse, strict=True)]
    won = rank(values, cls.K)
    threshold = values[won[-1]]
    entry = min(threshold, width + (1 << cls.m))
    first_prize = (1 << cls.m) - prizes
    places = tuple(open_place(i, w[i], coarse[i], width, cls.m, prizes) for i, v in enumerate(values) if v >= entry)
    if len(places) > cls.R:
        raise UnprovableError(
            f"{len(places)} slots reach the entry, more than the {cls.R} places; "
            f"the record cannot be proven (2^-64 a query)"
        )
    theta = min(entry, first_prize)
    if theta < (1 << cls.m) - cls.grid + 1:
        raise UnprovableError("the entry lies below the grid of theta; the record cannot be proven (2^-80 a query)")
    return LotterySelection(
        coarse_elements=tuple(elements),
        coarse=tuple(coarse),
        places=places,
        entry=entry,
        threshold=threshold,
        threshold_slot=won[-1],
        theta=theta,
        returned=tuple(sorted(Returned(i, w[i] >= 1) for i in won)),
    )

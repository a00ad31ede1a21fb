# SPDX-License-Identifier: GPL-3.0-or-later
"""The mechanism with noise in plain integers: digits of scores, unique places of every shard, noise by rank, the top K.

All shards have one threshold.  What the native engine computes is compared with this.  docs/proofs/noise.md proves that
its law is that of noise drawn for every slot of the whole index on its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragseal.kernel.errors import AttestationError, UnprovableError
from ragseal.kernel.noise_class import PLACES_PER_ELEMENT, NoiseClass
from ragseal.kernel.params import ELEMENTS_PER_BLOCK, TAG_COARSE, TAG_FINE
from ragseal.kernel.poseidon import permute
from ragseal.kernel.statement import Returned, canonical_limit


def wide_elements(key: int, tag: int, count: int, shard: int) -> list[int]:
    """The first ``count`` outputs of the wide permutations of one tag and shard, 16 of each block."""
    out: list[int] = []
    for block in range(-(-count // ELEMENTS_PER_BLOCK)):
        state = permute([0, key, block + (tag << 32), shard] + [0] * 13)
        out += state[1 : 1 + ELEMENTS_PER_BLOCK]
    return out[:count]


def digit(cls: NoiseClass, w: int) -> int:
    """k = floor(w / 2^c): the score above the window's lower end in whole steps."""
    return w >> cls.c


def clipped(k: int, steps: int) -> int:
    """s = clip(k, 0, H), steps."""
    return min(max(k, 0), steps)


@dataclass(frozen=True, slots=True)
class NoisePlace:
    """One place: a slot whose noise is opened exactly."""

    slot: int
    digit: int  #: k
    coarse: int  #: u
    fine: int  #: the fine bits of this place's rank
    noise: int  #: z, steps
    score: int  #: v = s + z, steps
    full: bool  #: it can reach the entry; else it reaches one step less


@dataclass(frozen=True, slots=True)
class ShardSelection:
    """What the proof of one shard opens; slots count from the shard's first one."""

    coarse_elements: tuple[int, ...]
    fine_elements: tuple[int, ...]
    coarse: tuple[int, ...]  #: u_i of every slot
    places: tuple[NoisePlace, ...]  #: R of them: full ones by slot, then the others by slot
    entry: int  #: the least number of steps that at most R - 1 slots can reach
    threshold: int  #: v*, the K-th largest score
    threshold_slot: int  #: i* as this shard counts slots
    theta: int
    returned: tuple[Returned, ...]  #: the winners in this shard, by slot

    @property
    def ids(self) -> tuple[int, ...]:
        """The winners' slots, increasing."""
        return tuple(one.slot for one in self.returned)


@dataclass(frozen=True, slots=True)
class NoiseSelection:
    """One query over all shards: the set T, by ids of the whole index, and what every shard's proof opens."""

    shards: tuple[ShardSelection, ...]
    threshold: int  #: v*, the K-th largest score of all
    threshold_slot: int  #: i*, an id of the whole index
    returned: tuple[Returned, ...]  #: T, by id

    @property
    def ids(self) -> tuple[int, ...]:
        """The slots of T, increasing."""
        return tuple(one.slot for one in self.returned)


def entry_of(reach: Sequence[int], R: int) -> int:
    """The least integer that at most R - 1 of the reaches are at or above: one more than the R-th largest."""
    return sorted(reach, reverse=True)[R - 1] + 1


def rank_places(reach: Sequence[int], entry: int, R: int) -> list[tuple[int, bool]]:
    """(slot, full) of R places in the order of their ranks: those that reach the entry, then as many as are missing of
    those that reach one step less, each by slot."""
    full = [i for i, x in enumerate(reach) if x >= entry]
    edge = [i for i, x in enumerate(reach) if x == entry - 1]
    return [*((i, True) for i in full), *((i, False) for i in edge[: R - len(full)])]


def fine_bits(cls: NoiseClass, elements: Sequence[int], rank: int) -> int:
    """The fine bits of a rank: the lower or the upper half of its element's used bits."""
    element, half = divmod(rank, PLACES_PER_ELEMENT)
    return (elements[element] >> (half * cls.fine_bits)) & ((1 << cls.fine_bits) - 1)


def _refuse_without_canonical_form(elements: Sequence[int], position: int) -> None:
    limit = canonical_limit(position)
    if any(element >> position >= limit for element in elements):
        raise UnprovableError("an element is outside the canonical decomposition; the record cannot be proven")


@dataclass(frozen=True, slots=True)
class OpenedShard:
    """What noise and scores of a shard's N slots give before any of them wins: all but the threshold."""

    coarse_elements: tuple[int, ...]
    fine_elements: tuple[int, ...]
    coarse: tuple[int, ...]
    places: tuple[NoisePlace, ...]
    entry: int


def open_places(cls: NoiseClass, key: int, w: Sequence[int], steps: int, shard: int) -> OpenedShard:
    """Noise over every slot of a shard, and its exactly R places.

    Raises:
        AttestationError: another number of scores than the capacity.
        UnprovableError: an element has no canonical form.
    """
    if len(w) != cls.N:
        raise AttestationError(f"{len(w)} scores for a capacity of {cls.N}")
    coarse_elements = wide_elements(key, TAG_COARSE, cls.elements, shard)
    fine_elements = wide_elements(key, TAG_FINE, cls.fine_elements, shard)
    _refuse_without_canonical_form(coarse_elements, cls.coarse_top_position)
    _refuse_without_canonical_form(fine_elements, cls.fine_top_position)
    mask = (1 << cls.m) - 1
    coarse = [(element >> (cls.m * j)) & mask for element in coarse_elements for j in range(cls.q)]
    digits = [digit(cls, x) for x in w]
    reach = [clipped(k, steps) + cls.bounds[u] for k, u in zip(digits, coarse, strict=True)]
    entry = entry_of(reach, cls.R)
    places = []
    for rank, (slot, full) in enumerate(rank_places(reach, entry, cls.R)):
        fine = fine_bits(cls, fine_elements, rank)
        z = cls.table.inverse((coarse[slot] << cls.fine_bits) | fine)
        score = clipped(digits[slot], steps) + z
        places.append(NoisePlace(slot, digits[slot], coarse[slot], fine, z, score, full))
    return OpenedShard(tuple(coarse_elements), tuple(fine_elements), tuple(coarse), tuple(places), entry)


def select_noise(cls: NoiseClass, key: int, w: Sequence[Sequence[int]], steps: int) -> NoiseSelection:
    """Noise over every slot of every shard and the exact top K by (v, -id), with exactly R places a shard.

    Args:
        key: of the request's noise (:func:`ragseal.kernel.mechanism.noise_key`), one for all shards.
        w: N integers gain * (y_i - lo) of every shard, not clipped.
        steps: H, the window's width in steps.

    Raises:
        AttestationError: no shards or more than S, or another number of scores than the capacity.
        UnprovableError: one shard has one of the named completeness failures (more slots than places could win, the
            grid, canonical form).
    """
    if not 1 <= len(w) <= cls.S:
        raise AttestationError(f"{len(w)} shards, class {cls.name!r} has 1 to {cls.S}")
    opened = [open_places(cls, key, scores, steps, shard) for shard, scores in enumerate(w)]
    values = ((-p.score, shard * cls.N + p.slot) for shard, one in enumerate(opened) for p in one.places)
    least, slot = sorted(values)[cls.K - 1]
    shards = [at_threshold(cls, one, -least, slot - shard * cls.N) for shard, one in enumerate(opened)]
    return NoiseSelection(
        shards=tuple(shards),
        threshold=-least,
        threshold_slot=slot,
        returned=tuple(
            Returned(shard * cls.N + one.slot, one.flag) for shard, own in enumerate(shards) for one in own.returned
        ),
    )


def at_threshold(cls: NoiseClass, opened: OpenedShard, threshold: int, slot: int) -> ShardSelection:
    """The winners among a shard's places, the slots with (v_i, -i) >= (threshold, -slot).

    Raises:
        UnprovableError: R slots or more could win, or no theta of the grid.
    """
    entry = opened.entry
    if threshold < entry:
        raise UnprovableError(f"R = {cls.R} slots or more could win; the record cannot be proven (2^-64 a query)")
    first = (1 << cls.m) - cls.grid + 1
    theta = next((t for t in range(1 << cls.m, first - 1, -1) if cls.bounds[t - 1] < entry), None)
    if theta is None:
        raise UnprovableError("the entry lies below the grid of theta; the record cannot be proven (2^-80 a query)")
    won = [p for p in opened.places if (p.score, -p.slot) >= (threshold, -slot)]
    return ShardSelection(
        coarse_elements=opened.coarse_elements,
        fine_elements=opened.fine_elements,
        coarse=opened.coarse,
        places=opened.places,
        entry=entry,
        threshold=threshold,
        threshold_slot=slot,
        theta=theta,
        returned=tuple(sorted(Returned(p.slot, p.digit >= 1) for p in won)),
    )

# SPDX-License-Identifier: GPL-3.0-or-later
"""A reference prover's values of one shard's committed hints, in :class:`NoiseLayout` order.

What the native engine computes is compared with this.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence

from ragseal.kernel import noise
from ragseal.kernel.chunks import Chunks
from ragseal.kernel.errors import AttestationError
from ragseal.kernel.noise_class import PLACES_PER_ELEMENT, NoiseClass
from ragseal.kernel.noise_mechanism import NoisePlace, NoiseSelection, ShardSelection, digit
from ragseal.kernel.noise_statement import NoiseLayout
from ragseal.kernel.params import MODULUS_BITS
from ragseal.kernel.statement import canonical_limit


def multiplier(k: int, bound: int, entry: int, steps: int, distance: int) -> int:
    """e = (Y + k)(Y + H), Y = X + b - entry + 1: 0 of a slot that k or H keeps below the entry."""
    y = distance + bound - entry + 1
    return (y + k) * (y + steps)


def place_distance(place: NoisePlace, bound: int, entry: int, steps: int) -> int:
    """X of a place: the smaller of 0, 1 (full) or 2, 3 (not full) with e not 0."""
    first = 0 if place.full else 2
    return next(x for x in (first, first + 1) if multiplier(place.digit, bound, entry, steps, x))


def outside_distance(cls: NoiseClass, k: int, bound: int, entry: int, steps: int) -> int:
    """X of a slot that is no place: e is 0 by its digit where that fits a chunk, else by the whole window.

    Raises:
        AttestationError: neither fits: the policy overflows its class.
    """
    for ahead in (k, steps):
        if 0 <= entry - 1 - bound - ahead < 1 << cls.c:
            return entry - 1 - bound - ahead
    raise AttestationError("a slot's distance to the entry is out of range: the policy overflows its circuit class")


def noise_hints(cls: NoiseClass, selection: NoiseSelection, shard: int, w: Sequence[int], steps: int) -> list[int]:
    """The hint vector h (signed integers) of an honest prover of one shard; ``w``: its own N scores.

    Raises:
        AttestationError: a value leaves its range, that is the policy overflows the class.
    """
    made = _PartialHints(cls)
    made.put_slots(selection.shards[shard], w, steps)
    made.put_thresholds(selection.shards[shard], selection.threshold_slot)
    packed = [one.packed for one in selection.returned]
    made.put("returned", packed)
    chunks, ch = cls.returned_chunks, made.ch
    for a, b in itertools.pairwise([-1, *packed, 2 * len(selection.shards) * cls.N]):
        made.put("returnedGap", ch.low(b - a - 1, chunks))
    first = 2 * shard * cls.N
    for one in packed:
        below, beyond = one < first, one >= first + 2 * cls.N
        low, high = one - first, first + 2 * cls.N - 1 - one
        made.put("insideBelow", [int(below)])
        made.put("insideBeyond", [int(beyond)])
        made.put("insideLow", ch.low(-1 - low if below else low, chunks))
        made.put("insideHigh", ch.low(-1 - high if beyond else high, chunks))
    return made.complete()


class _PartialHints:
    """A hint vector in the making: its arrays, and how often each row of each table is looked up."""

    def __init__(self, cls: NoiseClass) -> None:
        self.cls = cls
        self.ch = Chunks(cls.c)
        self.h: dict[str, list[int]] = {g.name: [] for g in NoiseLayout(cls).groups}
        self._coarse_seen, self._noise_seen = Counter[int](), Counter[int]()

    def put(self, name: str, values: Sequence[int]) -> None:
        """Behind what an array has; arrays of size 0 are left out."""
        if values:
            self.h[name] += values

    def complete(self) -> list[int]:
        """The vector, once every look-up was made."""
        self.h["coarseCount"] = [self._coarse_seen[k] for k in range(1 << self.cls.m)]
        self.h["rangeCount"] = [self.ch.seen[j] for j in range(1 << self.cls.c)]
        self.h["noiseCount"] = [self._noise_seen[x] for x in range(self.cls.table.cut + 1)]
        return [v for values in self.h.values() for v in values]

    def put_thresholds(self, selection: ShardSelection, slot: int) -> None:
        """The entry, theta, and i* = ``slot``'s chunks."""
        cls, ch = self.cls, self.ch
        self.put("entry", [selection.entry])
        ch.look(selection.threshold - selection.entry)
        self.put("thresholdSlotLow", ch.exact(slot, cls.L)[:-1])
        first = (1 << cls.m) - cls.grid + 1
        self.put("thetaChoice", [int(first + g == selection.theta) for g in range(cls.grid)])
        ch.look(selection.entry - 1 - cls.bounds[selection.theta - 1])

    def put_slots(self, selection: ShardSelection, w: Sequence[int], steps: int) -> None:
        """Slots, elements and places; ``selection``'s threshold and slots as this shard counts them."""
        cls, ch = self.cls, self.ch
        distance_of = {
            p.slot: place_distance(p, cls.bounds[p.coarse], selection.entry, steps) for p in selection.places
        }
        for i, u in enumerate(selection.coarse):
            bound, k = cls.bounds[u], digit(cls, w[i])
            distance = distance_of.get(i)
            if distance is None:
                distance = outside_distance(cls, k, bound, selection.entry, steps)
            self.put("slot", [ch.look(w[i] - (k << cls.c)), u, bound, ch.look(distance)])
        self._coarse_seen.update(selection.coarse)
        coarse = ("coarse", selection.coarse_elements, cls.coarse_filler, cls.coarse_top)
        fine = ("fine", selection.fine_elements, cls.fine_filler, cls.fine_top)
        for name, elements, filler, top_chunks in (coarse, fine):
            used = cls.q * cls.m if name == "coarse" else PLACES_PER_ELEMENT * cls.fine_bits
            for element in elements:
                rest = [element >> (used + cls.c * j) for j in range(filler)]
                self.put(f"{name}Filler", [ch.look(x % (1 << cls.c)) for x in rest])
                position = used + cls.c * filler
                top = element >> position
                self.put(f"{name}Top", ch.low(top, top_chunks))
                self.put(f"{name}Room", ch.low(canonical_limit(position) - 1 - top, top_chunks))
                assert position + cls.c * top_chunks >= MODULUS_BITS
        previous = -1 - (1 << cls.L)
        for place in selection.places:
            self._coarse_seen[place.coarse] += 1
            magnitude = _put_place(self.h, ch, cls, selection, place, steps, distance_of[place.slot])
            self._noise_seen[magnitude] += 1
            position = place.slot - (place.full << cls.L)
            self.put("placeGap", ch.low(position - previous - 1, cls.returned_chunks))
            previous = position
        self.put("placeGap", ch.low(cls.N - 1 - previous, cls.returned_chunks))


def _put_place(
    h: dict[str, list[int]],
    ch: Chunks,
    cls: NoiseClass,
    selection: ShardSelection,
    place: NoisePlace,
    steps: int,
    distance: int,
) -> int:
    """One place's hints but for its gap; the magnitude of its noise."""
    k, bound = place.digit, cls.bounds[place.coarse]
    positive, capped = int(k >= 1), int(k > steps)
    ch.look(k - 1 if positive else -k)
    ch.look(k - steps - 1 if capped else steps - k)
    reach = min(max(k, 0), steps) + bound
    ch.look(reach - selection.entry + 1 - place.full)
    counted = int(place.coarse >= selection.theta)
    ch.look(place.coarse - selection.theta if counted else selection.theta - 1 - place.coarse)
    sign, folded = noise.reflect(cls.table, (place.coarse << cls.fine_bits) | place.fine)
    magnitude = abs(place.noise)
    before, upto = cls.table.cdf(magnitude - 1), cls.table.cdf(magnitude)
    win = int(place.slot in selection.ids)
    margin = ((place.score - selection.threshold) << cls.L) - place.slot + selection.threshold_slot
    values: dict[str, list[int]] = {
        "placeSlot": [place.slot],
        "placeDigit": [k],
        "placeCoarse": [place.coarse],
        "placeBound": [bound],
        "placeShift": [distance & 1],
        "placePositive": [positive],
        "placeCapped": [capped],
        "placeFull": [int(place.full)],
        "placeCounted": [counted],
        "placeFine": ch.exact(place.fine, cls.fine_bits),
        "placeSign": [sign],
        "placeMagnitude": [magnitude],
        "placeBefore": [before],
        "placeUpto": [upto],
        "placeBelow": ch.low(folded - before, cls.uniform_chunks),
        "placeAbove": ch.low(upto - 1 - folded, cls.uniform_chunks),
        "placeWins": [win],
        "placeMargin": ch.low(margin if win else -1 - margin, cls.compare_chunks),
    }
    for name, part in values.items():
        if part:
            h[name] += part
    return magnitude

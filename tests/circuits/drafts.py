# SPDX-License-Identifier: GPL-3.0-or-later
"""A prover that may lie: statements of the attestation circuit, honest or edited, as complete sets of inputs.

A :class:`Draft` starts honest.  Tests edit what a cheat would edit; :meth:`Draft.inputs` then recomputes everything
that follows (chunks, multiplicities, commitments) without refusing anything, so that only the attacked rule is left
violated.  It is written from SPEC M and B.6 and shares no hint code with kernel/hints.py; tests compare the two.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from ragseal.kernel import mechanism, noise, statement
from ragseal.kernel.errors import UnprovableError
from ragseal.kernel.params import CircuitClass
from tests.circuits.r1cs import P, R1cs


@dataclass
class DraftPlace:
    """One place as the prover presents it."""

    slot: int
    w: int
    u: int
    b: int
    x: int
    element: int
    sign: int
    z: int  #: folded, the table's row
    before: int
    upto: int
    low: int  #: bit: w at most 0; a winner's flag is 1 - low
    high: int  #: bit: w above H
    win: int = 0
    counted: int = 0

    def score(self, cls: CircuitClass, hmax: int) -> int:
        """v as the circuit computes it from this place's own wires."""
        clipped = self.w * (1 - self.low - self.high) + self.high * hmax
        dither = (self.element >> cls.fine_bits) & ((1 << cls.s) - 1)
        return clipped + (1 - 2 * self.sign) * (self.z << cls.s) + dither


def multiplier(w: int, b: int, x: int, threshold: int, hmax: int) -> int:
    y = x + b - threshold + 1
    return (y + w) * (y + hmax)


@dataclass
class Draft:
    """A statement with its openings.  All integers are exact; they are reduced when they become inputs."""

    cls: CircuitClass
    seed: tuple[int, int]
    beacon: int
    ctx: int
    hmax: int
    salt: int
    alpha: int
    beta: int
    blind: int
    w: list[int]
    elements: list[int]
    u: list[int] = field(default_factory=list)
    b: list[int] = field(default_factory=list)
    x: list[int] = field(default_factory=list)
    places: list[DraftPlace] = field(default_factory=list)
    threshold: int = 0
    threshold_slot: int = 0
    theta: int = 0
    ids: list[int] = field(default_factory=list)
    stated: list[statement.Returned] | None = None  #: what T's commitment holds instead of ``ids`` and their flags
    mc_edit: dict[int, int] = field(default_factory=dict)  #: added to multiplicities of the coarse table

    @property
    def table(self) -> noise.NoiseTable:
        return noise.build_table(self.cls.law)

    @property
    def bounds(self) -> tuple[int, ...]:
        return noise.coarse_bounds(self.table, self.cls.m, self.cls.s)

    @property
    def key(self) -> int:
        return mechanism.noise_key(self.seed, self.beacon, self.ctx)

    def read_coarse(self) -> None:
        """u and b of every slot from the elements, taken as integers (an element may be given above the modulus)."""
        m, q = self.cls.m, self.cls.q
        self.u = [(e >> (m * j)) & ((1 << m) - 1) for e in self.elements for j in range(q)]
        self.b = [self.bounds[u] for u in self.u]

    def open(self, slot: int) -> DraftPlace:
        """The honest place of a slot (its X is chosen by :meth:`settle`)."""
        element = mechanism.fine_element(self.key, slot)
        return self.with_noise(DraftPlace(slot, self.w[slot], self.u[slot], self.b[slot], 0, element, 0, 0, 0, 0, 0, 0))

    def with_noise(self, place: DraftPlace) -> DraftPlace:
        """Recompute sign, row and clip cases of a place from its u, element and w."""
        uniform = (place.u << self.cls.fine_bits) | (place.element & ((1 << self.cls.fine_bits) - 1))
        place.sign, folded = noise.reflect(self.table, uniform)
        place.z = noise.inverse_cdf(self.table, folded)
        place.before, place.upto = self.table.cdf(place.z - 1), self.table.cdf(place.z)
        place.low, place.high = int(place.w <= 0), int(place.w > self.hmax)
        return place

    def score(self, place: DraftPlace) -> int:
        return place.score(self.cls, self.hmax)

    def place(self, slot: int) -> DraftPlace:
        return next(p for p in self.places if p.slot == slot)

    def returned(self) -> list[statement.Returned]:
        """T as it is stated: the ids with the flags of their places, unless ``stated`` says otherwise."""
        of_place = {p.slot: statement.unpacked(2 * p.slot + 1 - p.low) for p in self.places}
        return self.stated or [of_place.get(slot, statement.Returned(slot, False)) for slot in self.ids]

    def settle(self) -> None:
        """Threshold, winners and every X that follow from scores, bounds and the chosen places."""
        ranked = sorted(self.places, key=lambda p: (-self.score(p), p.slot))
        last = ranked[self.cls.K - 1]
        self.threshold, self.threshold_slot = self.score(last), last.slot
        self.settle_bits()
        self.ids = sorted(p.slot for p in self.places if p.win)
        self.settle_slots()

    def settle_bits(self) -> None:
        """Win bits, theta and count bits for a given threshold."""
        for p in self.places:
            p.win = int((self.score(p), -p.slot) >= (self.threshold, -self.threshold_slot))
        first = (1 << self.cls.m) - self.grid + 1
        self.theta = max(t for t in range(first, (1 << self.cls.m) + 1) if self.bounds[t - 1] < self.threshold)
        for p in self.places:
            p.counted = int(p.u >= self.theta)

    def settle_slots(self) -> None:
        """X of every slot: failing outside of places, by w where it can, else by H; not 0 inside."""
        opened = {p.slot: p for p in self.places}
        self.x = []
        for i, (w, b) in enumerate(zip(self.w, self.b, strict=True)):
            if i in opened:
                x = next(x for x in range(3) if multiplier(w, b, x, self.threshold, self.hmax))
                opened[i].x = x
            else:
                x = self.threshold - 1 - b - w
                if not 0 <= x < 1 << (2 * self.cls.c):
                    x = self.threshold - 1 - b - self.hmax
            self.x.append(x)

    @property
    def grid(self) -> int:
        return statement.Layout(self.cls).grid

    def hints(self) -> list[int]:
        """The hint vector: chunks and multiplicities of whatever the draft says."""
        cls, c = self.cls, self.cls.c
        seen: Counter[int] = Counter()

        def look(x: int) -> int:
            seen[x % P] += 1
            return x

        def low(value: int, count: int) -> list[int]:
            """All chunks but the highest, which is whatever remains and is looked up as it is."""
            value = value % P if value % P < P // 2 else value % P - P
            chunks = [look((value >> (c * j)) & ((1 << c) - 1)) for j in range(count - 1)]
            look(value >> (c * (count - 1)))
            return chunks

        def exact(value: int, bits: int) -> list[int]:
            count = -(-bits // c)
            chunks = low(value, count)
            last = bits - c * (count - 1)
            if last < c:
                look((value >> (c * (count - 1))) << (c - last))
            return [*chunks, value >> (c * (count - 1))]

        def canonical(element: int, position: int, count: int) -> tuple[list[int], list[int]]:
            top = element >> position
            return low(top, count), low((P >> position) - 1 - top, count)

        h: dict[str, list[int]] = {g.name: [] for g in statement.Layout(cls).groups}

        def put(name: str, values: Sequence[int]) -> None:
            if values:
                h[name] += values

        put("u", self.u)
        put("b", self.b)
        for x in self.x:
            chunks = low(x, 2)
            put("x0", chunks)
            put("x1", [(x - chunks[0]) >> c])
        for element in self.elements:
            for j in range(cls.coarse_filler):
                put("cf", [look((element >> (cls.q * cls.m + c * j)) & ((1 << c) - 1))])
            top, gap = canonical(element, cls.coarse_top_position, cls.coarse_top)
            put("ct", top)
            put("cd", gap)
        coarse = Counter(self.u)
        rows: Counter[int] = Counter()
        previous = -1
        for p in self.places:
            coarse[p.u] += 1
            rows[p.z] += 1
            x_low = low(p.x, 2)
            fine = p.element & ((1 << cls.fine_bits) - 1)
            uniform = (p.u << cls.fine_bits) | fine
            folded = uniform + p.sign * ((1 << 128) - 1 - 2 * uniform)
            put("pi", [p.slot])
            put("pw", [p.w])
            put("pu", [p.u])
            put("pb", [p.b])
            put("px0", x_low)
            put("px1", [(p.x - x_low[0]) >> c])
            put("pcl", [p.low])
            put("pch", [p.high])
            put("pa1", low(p.w - 1 + p.low - 2 * p.low * p.w, 2))
            put("pa2", low(self.hmax - p.w - p.high + 2 * p.high * (p.w - self.hmax), 2))
            put("pf", exact(fine, cls.fine_bits))
            put("pd", exact((p.element >> cls.fine_bits) & ((1 << cls.s) - 1), cls.s))
            for j in range(cls.place_filler):
                put("pff", [look((p.element >> (cls.fine_bits + cls.s + c * j)) & ((1 << c) - 1))])
            top, gap = canonical(p.element, cls.place_top_position, cls.place_top)
            put("pft", top)
            put("pfd", gap)
            put("psg", [p.sign])
            put("pz", [p.z])
            put("plo", [p.before])
            put("phi", [p.upto])
            put("pd1", low(folded - p.before, cls.uniform_chunks))
            put("pd2", low(p.upto - 1 - folded, cls.uniform_chunks))
            d = ((self.score(p) - self.threshold) << cls.L) - p.slot + self.threshold_slot
            put("pwin", [p.win])
            put("pcm", low(p.win * (2 * d + 1) - 1 - d, cls.compare_chunks))
            n = p.u - self.theta
            put("pcnt", [p.counted])
            put("pth", low(p.counted * (2 * n + 1) - 1 - n, cls.count_chunks))
            put("pid", low(p.slot - previous - 1, cls.id_chunks))
            previous = p.slot
        put("pid", low(cls.N - 1 - previous, cls.id_chunks))
        put("vs", [self.threshold])
        put("is", [self.threshold_slot])
        put("isc", exact(self.threshold_slot, cls.L)[:-1])
        first = (1 << cls.m) - self.grid + 1
        put("sel", [int(first + g == self.theta) for g in range(self.grid)])
        put("vt", low(self.threshold - 1 - self.bounds[self.theta - 1], 2))
        t = [one.packed for one in self.returned()]
        put("t", t)
        for one, two in itertools.pairwise(t):
            put("tdc", low(two - one - 1, cls.returned_chunks))
        h["mc"] = [coarse[k] + self.mc_edit.get(k, 0) for k in range(1 << cls.m)]
        h["mr"] = [seen[j] for j in range(1 << c)]
        h["mz"] = [rows[z] for z in range(self.table.cut + 1)]
        return [x for g in statement.Layout(cls).groups for x in h[g.name]]

    def public(self, h: Sequence[int] | None = None) -> list[int]:
        t = statement.places_commitment(self.cls, self.salt, self.returned())
        clear = [statement.seed_commitment(self.seed), self.beacon, self.ctx, self.hmax, t, self.alpha, self.beta]
        return [*clear, self.blind, *self.w, *(self.hints() if h is None else h)]

    def inputs(self) -> dict[int, int]:
        """Values of the circuit's input wires: public, then s_hi, s_lo, t_salt."""
        return dict(enumerate([*self.public(), *self.seed, self.salt], 1))


@dataclass(frozen=True)
class Setting:
    """A class and its compiled circuit."""

    cls: CircuitClass
    r1cs: R1cs

    def draft(self, number: int, scores: Sequence[int] | None = None, hmax: int = 4000) -> Draft:
        """An unsettled honest draft: noise of request ``number``, given or random scores, no places yet."""
        rng = random.Random(number)
        w = list(scores) if scores is not None else [rng.randrange(-6000, 9000) for _ in range(self.cls.N)]
        d = Draft(
            cls=self.cls,
            seed=(rng.getrandbits(128), rng.getrandbits(128)),
            beacon=rng.getrandbits(248),
            ctx=rng.getrandbits(248),
            hmax=hmax,
            salt=rng.getrandbits(248),
            alpha=rng.getrandbits(248),
            beta=rng.getrandbits(248),
            blind=rng.getrandbits(248),
            w=w,
            elements=[],
        )
        d.elements = mechanism.coarse_elements(self.cls, d.key)
        d.read_coarse()
        return d

    def honest(self, number: int, scores: Sequence[int] | None = None, hmax: int = 4000) -> Draft:
        """A complete honest draft: the R slots with the largest bounds are open."""
        d = self.draft(number, scores, hmax)
        self.choose(d)
        d.settle()
        return d

    def choose(self, d: Draft) -> None:
        """Open the R slots with the largest bounds."""
        reach = [min(max(w, 0), d.hmax) + b for w, b in zip(d.w, d.b, strict=True)]
        order = sorted(range(self.cls.N), key=lambda i: (-reach[i], i))
        d.places = [d.open(i) for i in sorted(order[: self.cls.R])]
        best = sorted((d.score(p) for p in d.places), reverse=True)[self.cls.K - 1]
        if max(reach[i] for i in order[self.cls.R :]) >= best:
            raise UnprovableError("too many slots could win; take another request")

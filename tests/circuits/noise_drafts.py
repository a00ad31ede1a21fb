# SPDX-License-Identifier: GPL-3.0-or-later
"""A prover that may lie about a shard's statement with noise: honest or edited, as complete sets of inputs.

A :class:`NoiseDraft` starts honest.  Tests edit what a cheat would edit; :meth:`NoiseDraft.inputs` then recomputes
all that follows (chunks, multiplicities, commitments) without refusing anything, so that only the attacked rule is left
violated.  All winners lie in the draft's shard, and its slots count from the shard's first one.  It is written from
docs/proofs/noise.md and shares no hint code with the kernel; tests compare the two.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ragseal.kernel import mechanism, noise, statement
from ragseal.kernel.errors import UnprovableError
from ragseal.kernel.noise_class import NoiseClass
from ragseal.kernel.noise_mechanism import wide_elements
from ragseal.kernel.noise_statement import NoiseLayout
from ragseal.kernel.params import TAG_COARSE, TAG_FINE
from ragseal.kernel.statements import stated_of
from tests.circuits.r1cs import P, R1cs


@dataclass
class DraftPlace:
    """One place as the prover presents it."""

    slot: int
    k: int
    u: int
    b: int
    full: int
    shift: int = 0  #: low bit of X
    fine: int = 0
    sign: int = 0
    z: int = 0  #: folded, the table's row
    before: int = 0
    upto: int = 0
    positive: int = 0
    capped: int = 0
    win: int = 0
    counted: int = 0

    @property
    def x(self) -> int:
        return 2 * (1 - self.full) + self.shift

    def clipped(self, steps: int) -> int:
        """s as the circuit computes it from this place's own wires."""
        return self.positive * self.k - self.capped * (self.k - steps)


def multiplier(k: int, b: int, x: int, entry: int, steps: int) -> int:
    y = x + b - entry + 1
    return (y + k) * (y + steps)


def centred(value: int) -> int:
    """The representative of a residue that is nearest to 0."""
    return value % P if value % P <= P // 2 else value % P - P


class Lookups:
    """What a draft looks up in the table of chunks of ``c`` bits."""

    def __init__(self, c: int) -> None:
        self.c, self.seen = c, Counter[int]()

    def look(self, x: int) -> int:
        self.seen[x % P] += 1
        return x

    def low(self, value: int, count: int) -> list[int]:
        """All chunks but the highest, which is whatever remains and is looked up as it is."""
        value, c = centred(value), self.c
        chunks = [self.look((value >> (c * j)) & ((1 << c) - 1)) for j in range(count - 1)]
        self.look(value >> (c * (count - 1)))
        return chunks

    def counts(self) -> list[int]:
        """How often each chunk was looked up."""
        return [self.seen[j] for j in range(1 << self.c)]


@dataclass
class NoiseDraft:
    """A statement with its openings.  All integers are exact; they are reduced when they become inputs."""

    cls: NoiseClass
    seed: tuple[int, int]
    beacon: int
    ctx: int
    steps: int
    salt: int
    alpha: int
    beta: int
    blind: int
    w: list[int]
    shard: int = 0
    shards: int = 1
    coarse_elements: list[int] = field(default_factory=list)
    fine_elements: list[int] = field(default_factory=list)
    remainder: list[int] = field(default_factory=list)
    u: list[int] = field(default_factory=list)
    b: list[int] = field(default_factory=list)
    x: list[int] = field(default_factory=list)
    places: list[DraftPlace] = field(default_factory=list)
    entry: int = 0
    threshold: int = 0
    threshold_slot: int = 0
    theta: int = 0
    ids: list[int] = field(default_factory=list)
    stated: list[statement.Returned] | None = None  #: what T's commitment holds instead of ``ids`` and their flags
    scaled: list[int] | None = None  #: what stands beside the coarse bits instead of beta b
    count_edit: dict[int, int] = field(default_factory=dict)  #: added to multiplicities of the coarse table

    @property
    def key(self) -> int:
        return mechanism.noise_key(self.seed, self.beacon, self.ctx)

    def read_elements(self) -> None:
        """u and b of every slot from the elements as they are (one may be given above the modulus)."""
        m, q = self.cls.m, self.cls.q
        self.u = [(e >> (m * j)) & ((1 << m) - 1) for e in self.coarse_elements for j in range(q)]
        self.b = [self.cls.bounds[u] for u in self.u]

    def digit(self, i: int) -> int:
        """k of slot i as the circuit has it: whatever w less the remainder, divided by 2^c, is in the field."""
        return centred((self.w[i] - self.remainder[i]) * pow(1 << self.cls.c, -1, P))

    def reach(self, i: int) -> int:
        return min(max(self.digit(i), 0), self.steps) + self.b[i]

    def open(self, slot: int, full: int) -> DraftPlace:
        """The honest place of a slot, without its rank's noise."""
        return self.clip(DraftPlace(slot, self.digit(slot), self.u[slot], self.b[slot], full))

    def clip(self, place: DraftPlace) -> DraftPlace:
        place.positive, place.capped = int(place.k >= 1), int(place.k > self.steps)
        return place

    def choose(self) -> None:
        """The unique places, by rank."""
        R, reach = self.cls.R, [self.reach(i) for i in range(self.cls.N)]
        self.entry = sorted(reach)[-R] + 1
        full = [self.open(i, 1) for i, x in enumerate(reach) if x >= self.entry]
        edge = [self.open(i, 0) for i, x in enumerate(reach) if x == self.entry - 1]
        self.places = (full + edge)[:R]

    def draw(self) -> None:
        """Noise by rank."""
        bits = self.cls.fine_bits
        for rank, place in enumerate(self.places):
            place.fine = self.fine_elements[rank // 2] >> (bits * (rank % 2)) & ((1 << bits) - 1)
            self.noise(place)

    def noise(self, place: DraftPlace) -> None:
        """The row of a place's uniform."""
        table = self.cls.table
        place.sign, folded = noise.reflect(table, (place.u << self.cls.fine_bits) + place.fine)
        place.z = noise.inverse_cdf(table, folded)
        place.before, place.upto = table.cdf(place.z - 1), table.cdf(place.z)

    def score(self, place: DraftPlace) -> int:
        return place.clipped(self.steps) + (1 - 2 * place.sign) * place.z

    def place(self, slot: int) -> DraftPlace:
        return next(p for p in self.places if p.slot == slot)

    @property
    def base(self) -> int:
        """The id of the shard's first slot."""
        return self.shard * self.cls.N

    def returned(self) -> list[statement.Returned]:
        """T as it is stated, by slots of this shard."""
        flag = {p.slot: bool(p.positive) for p in self.places}
        return self.stated or [statement.Returned(slot, flag.get(slot, False)) for slot in self.ids]

    def t(self) -> list[statement.Returned]:
        """T as it is stated, by ids of the whole index."""
        return [statement.Returned(self.base + one.slot, one.flag) for one in self.returned()]

    def settle(self) -> None:
        """Threshold, winners and every X that follow from the places as they are."""
        last = sorted(self.places, key=lambda p: (-self.score(p), p.slot))[self.cls.K - 1]
        self.threshold, self.threshold_slot = self.score(last), last.slot
        self.settle_bits()
        self.ids = sorted(p.slot for p in self.places if p.win)
        self.settle_distances()

    def settle_bits(self) -> None:
        """Win bits, theta and count bits for a given threshold and entry."""
        for p in self.places:
            p.win = int((self.score(p), -p.slot) >= (self.threshold, -self.threshold_slot))
        m, bounds = self.cls.m, self.cls.bounds
        first = (1 << m) - self.cls.grid + 1
        self.theta = max((t for t in range(first, (1 << m) + 1) if bounds[t - 1] < self.entry), default=first)
        for p in self.places:
            p.counted = int(p.u >= self.theta)

    def settle_distances(self) -> None:
        """X of every slot: failing outside of places, by k where it can, else by H; not 0 inside."""
        opened = {p.slot: p for p in self.places}
        self.x = []
        for i, b in enumerate(self.b):
            k = self.digit(i)
            if i in opened:
                p = opened[i]
                p.shift = next(s for s in range(2) if multiplier(k, b, 2 * (1 - p.full) + s, self.entry, self.steps))
                self.x.append(p.x)
                continue
            x = self.entry - 1 - b - k
            if not 0 <= x < 1 << self.cls.c:
                x = self.entry - 1 - b - self.steps
            self.x.append(x)

    def hints(self) -> list[int]:
        """The hint vector: chunks and multiplicities of whatever the draft says."""
        cls, c = self.cls, self.cls.c
        lookups = Lookups(c)
        look, low = lookups.look, lookups.low

        def exact(value: int, bits: int) -> list[int]:
            count = -(-bits // c)
            chunks = low(value, count)
            if bits % c:
                look((value >> (c * (count - 1))) << (c * count - bits))
            return [*chunks, value >> (c * (count - 1))]

        h: dict[str, list[int]] = {g.name: [] for g in NoiseLayout(cls).groups}

        def put(name: str, values: Sequence[int]) -> None:
            if values:
                h[name] += values

        for i in range(cls.N):
            put("slot", [look(self.remainder[i]), self.u[i], self.b[i], look(self.x[i])])
        for name, elements, used, filler, top in (
            ("coarse", self.coarse_elements, cls.q * cls.m, cls.coarse_filler, cls.coarse_top),
            ("fine", self.fine_elements, 2 * cls.fine_bits, cls.fine_filler, cls.fine_top),
        ):
            for e in elements:
                put(name + "Filler", [look((e >> (used + c * j)) & ((1 << c) - 1)) for j in range(filler)])
                position = used + c * filler
                put(name + "Top", low(e >> position, top))
                put(name + "Room", low((P >> position) - 1 - (e >> position), top))
        coarse, rows = Counter(self.u), Counter[int]()
        previous = -1 - (1 << cls.L)
        for p in self.places:
            coarse[p.u] += 1
            rows[p.z] += 1
            uniform = (p.u << cls.fine_bits) + p.fine
            folded = uniform + p.sign * (cls.table.total - 1 - 2 * uniform)
            ahead = ((self.score(p) - self.threshold) << cls.L) - p.slot + self.threshold_slot
            beyond = p.u - self.theta
            look(2 * p.positive * p.k - p.k - p.positive)
            look(self.steps - p.k - p.capped + 2 * p.capped * (p.k - self.steps))
            look(p.clipped(self.steps) + p.b - self.entry + 1 - p.full)
            look(p.counted * (2 * beyond + 1) - 1 - beyond)
            place = self.position(p)
            for name, values in {
                "Slot": [p.slot], "Digit": [p.k], "Coarse": [p.u], "Bound": [p.b], "Shift": [p.shift],
                "Positive": [p.positive], "Capped": [p.capped], "Full": [p.full], "Counted": [p.counted],
                "Fine": exact(p.fine, cls.fine_bits), "Sign": [p.sign], "Magnitude": [p.z],
                "Before": [p.before], "Upto": [p.upto],
                "Below": low(folded - p.before, cls.uniform_chunks),
                "Above": low(p.upto - 1 - folded, cls.uniform_chunks),
                "Wins": [p.win], "Margin": low(p.win * (2 * ahead + 1) - 1 - ahead, cls.compare_chunks),
                "Gap": low(place - previous - 1, cls.returned_chunks),
            }.items():  # fmt: skip
                put("place" + name, values)
            previous = place
        put("placeGap", low(cls.N - 1 - previous, cls.returned_chunks))
        put("entry", [self.entry])
        look(self.threshold - self.entry)
        put("thresholdSlotLow", exact(self.base + self.threshold_slot, cls.L)[:-1])
        first = (1 << cls.m) - cls.grid + 1
        put("thetaChoice", [int(first + g == self.theta) for g in range(cls.grid)])
        look(self.entry - 1 - cls.bounds[self.theta - 1])
        t = [one.packed for one in self.t()]
        put("returned", t)
        for one, two in itertools.pairwise([-1, *t, 2 * self.shards * cls.N]):
            put("returnedGap", low(two - one - 1, cls.returned_chunks))
        for one in t:
            distance = one - 2 * self.base
            below, beyond = int(distance < 0), int(distance >= 2 * cls.N)
            rest = 2 * cls.N - 1 - distance
            put("insideBelow", [below])
            put("insideBeyond", [beyond])
            put("insideLow", low(-1 - distance if below else distance, cls.returned_chunks))
            put("insideHigh", low(-1 - rest if beyond else rest, cls.returned_chunks))
        h["coarseCount"] = [coarse[k] + self.count_edit.get(k, 0) for k in range(1 << cls.m)]
        h["rangeCount"] = lookups.counts()
        h["noiseCount"] = [rows[z] for z in range(cls.table.cut + 1)]
        return [x for g in NoiseLayout(cls).groups for x in h[g.name]]

    def position(self, place: DraftPlace) -> int:
        """Where a place stands in the order: full ones first."""
        return place.slot - (place.full << self.cls.L)

    def inputs(self, h: Sequence[int] | None = None) -> dict[int, int]:
        """Values of the circuit's input wires: public, then s_hi, s_lo, t_salt; ``h`` instead of the draft's hints."""
        (t,) = stated_of(self.cls).lists(self.salt, self.t(), self.shards)
        clear = [statement.seed_commitment(self.seed), self.beacon, self.ctx, self.steps, t, self.shard, self.shards]
        clear += [self.alpha, self.beta]
        threshold = [self.threshold, self.base + self.threshold_slot]
        scaled = [self.beta * b for b in self.b] if self.scaled is None else self.scaled
        public = [*clear, self.blind, *self.w, *(self.hints() if h is None else h), *scaled, *threshold]
        return dict(enumerate([*public, *self.seed, self.salt], 1))


@dataclass(frozen=True)
class NoiseSetting:
    """A noise class, its compiled circuit, and which shard of how many statements are about."""

    cls: NoiseClass
    r1cs: R1cs
    shard: int = 0
    shards: int = 1

    def draft(self, number: int, digits: Sequence[int] | None = None, steps: int = 128) -> NoiseDraft:
        """An honest draft without places: noise of request ``number``, given or random digits, random remainders."""
        cls, rng = self.cls, random.Random(number)
        ks = list(digits) if digits is not None else [rng.randrange(-600, 300) for _ in range(cls.N)]
        remainder = [rng.randrange(1 << cls.c) for _ in ks]
        d = NoiseDraft(
            cls=cls,
            seed=(rng.getrandbits(128), rng.getrandbits(128)),
            beacon=rng.getrandbits(248),
            ctx=rng.getrandbits(248),
            steps=steps,
            salt=rng.getrandbits(248),
            alpha=rng.getrandbits(248),
            beta=rng.getrandbits(248),
            blind=rng.getrandbits(248),
            w=[(k << cls.c) + r for k, r in zip(ks, remainder, strict=True)],
            remainder=remainder,
            shard=self.shard,
            shards=self.shards,
        )
        d.coarse_elements = wide_elements(d.key, TAG_COARSE, cls.elements, self.shard)
        d.fine_elements = wide_elements(d.key, TAG_FINE, cls.fine_elements, self.shard)
        d.read_elements()
        return d

    def honest(self, number: int, digits: Sequence[int] | None = None, steps: int = 128) -> NoiseDraft:
        """A complete honest draft.

        Raises:
            UnprovableError: the query is one of those that cannot be proven.
        """
        d = self.draft(number, digits, steps)
        finish(d)
        if d.threshold < d.entry:
            raise UnprovableError("too many slots could win; take another request")
        return d


PLACES = ((0, 1), (1, 2))  #: shards that forgeries are tried in: the only one, and the last of two


def finish(d: NoiseDraft) -> None:
    """Places, noise, winners and distances by the rules."""
    d.choose()
    d.draw()
    d.settle()


def copied(place: DraftPlace) -> DraftPlace:
    return replace(place)

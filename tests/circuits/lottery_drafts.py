# SPDX-License-Identifier: GPL-3.0-or-later
"""A prover that may lie about the lottery's statement: honest or edited, as complete sets of inputs.

As tests/circuits/noise_drafts.py: a :class:`LotteryDraft` starts honest, tests edit what a cheat would edit, and
:meth:`LotteryDraft.inputs` recomputes all that follows without refusing anything, so that only the attacked rule is
left violated.  It is written from docs/proofs/lottery.md and shares no hint code with the kernel; tests compare both.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from ragseal.circuits.circuit import load_classes
from ragseal.kernel import mechanism, statement
from ragseal.kernel.lottery_class import LotteryClass
from ragseal.kernel.lottery_statement import LotteryLayout
from ragseal.kernel.noise_mechanism import wide_elements
from ragseal.kernel.params import TAG_COARSE
from tests.circuits.noise_drafts import centred
from tests.circuits.r1cs import P, R1cs
from tests.circuits.rules import assert_only_rule, fractions
from tests.circuits.scene import compiled

WIDTH = 1 << 14  #: H, unless a test says otherwise


def lottery_tiny() -> LotteryClass:
    """The lottery's class that is for tests."""
    cls = load_classes()["lottery-tiny"]
    assert isinstance(cls, LotteryClass)
    return cls


@dataclass
class DraftPlace:
    """One place as the prover presents it."""

    slot: int
    w: int
    u: int
    b: int
    x: int = 0
    positive: int = 0
    capped: int = 0
    prize: int = 0
    counted: int = 0
    win: int = 0

    def clipped(self, width: int) -> int:
        """s as the circuit computes it from this place's own wires."""
        return self.positive * self.w - self.capped * (self.w - width)

    def value(self, width: int) -> int:
        """v, likewise."""
        return self.b + self.clipped(width) - self.prize * self.clipped(width)


@dataclass
class LotteryDraft:
    """One statement and its witness."""

    cls: LotteryClass
    seed: tuple[int, int]
    beacon: int
    ctx: int
    width: int
    prizes: int
    salt: int
    alpha: int
    beta: int
    blind: int
    w: list[int]
    coarse_elements: list[int] = field(default_factory=list)
    u: list[int] = field(default_factory=list)
    b: list[int] = field(default_factory=list)
    x: list[int] = field(default_factory=list)
    places: list[DraftPlace] = field(default_factory=list)
    threshold: int = 0
    threshold_slot: int = 0
    theta: int = 0
    choice: list[int] = field(default_factory=list)  #: of the number of prizes
    ids: list[int] = field(default_factory=list)
    stated: list[statement.Returned] | None = None  #: T, where it is not what the places say
    scaled: list[int] | None = None  #: beside u, where it is not beta b
    drawn: int = 0  #: prizes that are really drawn, where it is not what the policy says

    @property
    def key(self) -> int:
        return mechanism.noise_key(self.seed, self.beacon, self.ctx)

    @property
    def first_prize(self) -> int:
        return (1 << self.cls.m) - (self.drawn or self.prizes)

    def read_elements(self) -> None:
        """u and b of every slot from the elements."""
        m, q = self.cls.m, self.cls.q
        self.u = [(e >> (m * j)) & ((1 << m) - 1) for e in self.coarse_elements for j in range(q)]
        self.b = [self.bound(u) for u in self.u]

    def bound(self, u: int) -> int:
        return u + (self.width + (1 << self.cls.m)) * (u >= self.first_prize)

    def open(self, slot: int) -> DraftPlace:
        """The honest place of a slot."""
        w, u = self.w[slot], self.u[slot]
        prize = int(u >= self.first_prize)
        return DraftPlace(slot, w, u, self.b[slot], 0, int(w >= 1), int(w > self.width), prize)

    def value(self, slot: int) -> int:
        return self.open(slot).value(self.width)

    def ranked(self) -> list[int]:
        """All slots, best first."""
        return sorted(range(self.cls.N), key=lambda i: (-self.value(i), i))

    def choose(self) -> None:
        """The threshold, and R places: what must be one, and the first others."""
        last = self.ranked()[self.cls.K - 1]
        self.threshold, self.threshold_slot = self.value(last), last
        self.fill({i for i in range(self.cls.N) if self.u[i] >= self.first_prize or self.value(i) >= self.threshold})

    def fill(self, must: set[int], never: Sequence[int] = ()) -> None:
        """Places of these slots and of the first others."""
        assert len(must) <= self.cls.R, "take another request"
        others = [i for i in range(self.cls.N) if i not in must and i not in never]
        self.places = [self.open(i) for i in sorted([*must, *others[: self.cls.R - len(must)]])]

    def settle(self) -> None:
        """All that follows from places and threshold as they are."""
        self.theta = min(self.threshold, self.first_prize)
        self.settle_bits()
        self.settle_distances()

    def settle_bits(self) -> None:
        for p in self.places:
            p.counted = int(p.u >= self.theta)
            p.win = int((p.value(self.width), -p.slot) >= (self.threshold, -self.threshold_slot))
        self.ids = sorted(p.slot for p in self.places if p.win)

    def multiplier(self, w: int, b: int, x: int) -> int:
        y = x + b - self.threshold + 1
        return (y + w) * (y + self.width)

    def settle_distances(self) -> None:
        """X of every slot: failing outside of places, by w where it can, else by H; not 0 inside."""
        opened = {p.slot: p for p in self.places}
        self.x = []
        for i, b in enumerate(self.b):
            if i in opened:
                opened[i].x = next(x for x in range(3) if self.multiplier(self.w[i], b, x))
                self.x.append(opened[i].x)
                continue
            x = self.threshold - 1 - b - self.w[i]
            self.x.append(x if 0 <= x < 1 << (2 * self.cls.c) else self.threshold - 1 - b - self.width)

    def place(self, slot: int) -> DraftPlace:
        return next(p for p in self.places if p.slot == slot)

    def returned(self) -> list[statement.Returned]:
        """T as it is stated."""
        flag = {p.slot: bool(p.positive) for p in self.places}
        return self.stated or [statement.Returned(slot, flag.get(slot, False)) for slot in self.ids]

    def hints(self) -> list[int]:
        """The hint vector: chunks and multiplicities of whatever the draft says."""
        cls, c = self.cls, self.cls.c
        seen: Counter[int] = Counter()
        h: dict[str, list[int]] = {g.name: [] for g in LotteryLayout(cls).groups}

        def look(x: int) -> int:
            seen[x % P] += 1
            return x

        def split(value: int, count: int) -> list[int]:
            """Chunks; the highest is whatever remains."""
            value = centred(value)
            return [look((value >> (c * j)) & ((1 << c) - 1)) for j in range(count - 1)] + [
                look(value >> (c * (count - 1)))
            ]

        def put(name: str, values: Sequence[int]) -> None:
            if values:
                h[name] += values

        for i in range(cls.N):
            low, high = split(self.x[i], 2)
            put("slot", [low, self.u[i], self.b[i], high])
        used = cls.q * cls.m
        for e in self.coarse_elements:
            put("coarseFiller", [look((e >> (used + c * j)) & ((1 << c) - 1)) for j in range(cls.coarse_filler)])
            position = used + c * cls.coarse_filler
            put("coarseTop", split(e >> position, cls.coarse_top)[:-1])
            put("coarseRoom", split((P >> position) - 1 - (e >> position), cls.coarse_top)[:-1])
        previous = -1
        for p in self.places:
            ahead = ((p.value(self.width) - self.threshold) << cls.L) - p.slot + self.threshold_slot
            beyond = p.u - self.theta
            look(p.x)
            look(p.counted * (2 * beyond + 1) - 1 - beyond)
            for name, values in {
                "Slot": [p.slot], "Score": [p.w], "Coarse": [p.u], "Bound": [p.b], "Distance": [p.x],
                "Positive": [p.positive], "Capped": [p.capped], "Prize": [p.prize], "Counted": [p.counted],
                "Floor": split(2 * p.positive * p.w - p.w - p.positive, 2)[:1],
                "Ceiling": split(self.width - p.w - p.capped + 2 * p.capped * (p.w - self.width), 2)[:1],
                "Wins": [p.win], "Margin": split(p.win * (2 * ahead + 1) - 1 - ahead, cls.compare_chunks)[:-1],
                "Gap": split(p.slot - previous - 1, cls.id_chunks)[:-1],
            }.items():  # fmt: skip
                put("place" + name, values)
            previous = p.slot
        put("placeGap", split(cls.N - 1 - previous, cls.id_chunks)[:-1])
        put("threshold", [self.threshold])
        put("thresholdLow", split(self.threshold - self.theta, 2)[:1])
        put("thresholdSlot", [self.threshold_slot])
        put("thresholdSlotLow", split(self.threshold_slot, cls.id_chunks)[:-1])
        if cls.L % c:
            look((self.threshold_slot >> (c * (cls.id_chunks - 1))) << (c * cls.id_chunks - cls.L))
        first = (1 << cls.m) - cls.grid + 1
        put("thetaChoice", [int(first + g == self.theta) for g in range(cls.grid - 1)])
        look((1 << cls.m) - self.prizes - self.theta)
        put("prizeChoice", self.choice)
        t = [one.packed for one in self.returned()]
        put("returned", t)
        for one, two in itertools.pairwise(t):
            put("returnedGap", split(two - one - 1, cls.returned_chunks)[:-1])
        coarse = Counter(self.u) + Counter(p.u for p in self.places)
        h["coarseCount"] = [coarse[k] for k in range(1 << cls.m)]
        h["rangeCount"] = [seen[j] for j in range(1 << c)]
        return [x for g in LotteryLayout(cls).groups for x in h[g.name]]

    def inputs(self) -> dict[int, int]:
        """Values of the circuit's input wires: public, then s_hi, s_lo, t_salt."""
        t = statement.places_commitment(self.cls, self.salt, self.returned())
        clear = [statement.seed_commitment(self.seed), self.beacon, self.ctx, self.width, t, self.prizes]
        scaled = [self.beta * b for b in self.b] if self.scaled is None else self.scaled
        public = [*clear, self.alpha, self.beta, self.blind, *self.w, *self.hints(), *scaled]
        return dict(enumerate([*public, *self.seed, self.salt], 1))


@dataclass(frozen=True)
class LotterySetting:
    """A class of the lottery and its compiled circuit."""

    cls: LotteryClass
    r1cs: R1cs

    @staticmethod
    def of(cls: LotteryClass) -> LotterySetting:
        return LotterySetting(cls, compiled(cls))

    def draft(self, number: int, w: Sequence[int] | None = None, width: int = WIDTH, prizes: int = 3) -> LotteryDraft:
        """A draft without places: coarse bits of request ``number``, given or random scores."""
        cls, rng = self.cls, random.Random(number)
        d = LotteryDraft(
            cls=cls,
            seed=(rng.getrandbits(128), rng.getrandbits(128)),
            beacon=rng.getrandbits(248),
            ctx=rng.getrandbits(248),
            width=width,
            prizes=prizes,
            salt=rng.getrandbits(248),
            alpha=rng.getrandbits(248),
            beta=rng.getrandbits(248),
            blind=rng.getrandbits(248),
            w=list(w) if w is not None else [rng.randrange(-4 * width, 2 * width) for _ in range(cls.N)],
            choice=[int(j == prizes) for j in range(1, cls.prizes + 1)],
        )
        d.coarse_elements = wide_elements(d.key, TAG_COARSE, cls.elements, 0)
        d.read_elements()
        return d

    def honest(self, number: int, w: Sequence[int] | None = None, width: int = WIDTH, prizes: int = 3) -> LotteryDraft:
        """A complete honest draft."""
        d = self.draft(number, w, width, prizes)
        d.choose()
        d.settle()
        return d


Forge = Callable[[LotteryDraft], list[str] | None]


def requests(setting: LotterySetting, low: int = -4 * WIDTH, high: int = 2 * WIDTH) -> Iterator[LotteryDraft]:
    """Honest statements of many requests, scores in [low, high)."""
    for number in range(1000, 1200):
        rng = random.Random(number)
        yield setting.honest(number, [rng.randrange(low, high) for _ in range(setting.cls.N)])


def first(setting: LotterySetting, forge: Forge, same: bool = False, **scores: int) -> tuple[LotteryDraft, list[str]]:
    """The first request for which a forgery is possible and changes T (or need not), and the attacked fractions."""
    for d in requests(setting, **scores):
        honest = d.returned()
        patterns = forge(d)
        if patterns is not None and (same or d.returned() != honest):
            return d, patterns
    raise AssertionError("no request offers this attack")


def check(setting: LotterySetting, forge: Forge, same: bool = False, **scores: int) -> None:
    d, patterns = first(setting, forge, same, **scores)
    assert_only_rule(setting, d.inputs(), *fractions(setting.r1cs, "|".join(patterns)))


def of_place(d: LotteryDraft, name: str, *places: DraftPlace) -> list[str]:
    return [rf"place\[{d.places.index(p)}\]\.{name}" for p in places]

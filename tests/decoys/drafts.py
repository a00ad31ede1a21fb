# SPDX-License-Identifier: GPL-3.0-or-later
"""A prover that may lie about a list of decoys: honest or edited, as complete sets of a circuit's inputs.

A :class:`Draft` starts honest, tests edit what a cheat would edit, and :meth:`Draft.inputs` recomputes all that follows
without refusing anything, so that only the attacked rule is left violated.  It is written from docs/proofs/decoys.md
and shares no hint code with the kernel; tests compare both.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache

from ragseal.circuits.build import compiled_circuit
from ragseal.circuits.circuit import circuit_of
from ragseal.kernel import mechanism, statement
from ragseal.kernel.classes import Asked
from ragseal.kernel.decoys.decoys_class import DecoysClass
from ragseal.kernel.decoys.law import elements_of
from ragseal.kernel.decoys.statement import DecoysLayout, list_commitment, slot_wires
from ragseal.kernel.decoys.table import DrawTable, build_table
from ragseal.kernel.params import TAG_LIST
from ragseal.kernel.poseidon import poseidon
from ragseal.kernel.proofs import Statement
from ragseal.kernel.statement import Returned
from tests.circuits.noise_drafts import Lookups, centred
from tests.circuits.r1cs import P, R1cs, read
from tests.circuits.rules import assert_only_rule
from tests.circuits.scene import CACHE

LO = 100
#: Ids of one chunk, void ones, distances of two chunks, up to three shards.
TINY = DecoysClass("decoys-tiny", N=60, draws=14, room=12, c=8, chunks=2, S=3)
#: No void id, distances of one chunk, wider than an id.
FULL = DecoysClass("decoys-full", N=64, draws=14, room=12, c=10, chunks=1)
#: Ids, numbers of ids and the index of several chunks, two blocks of draws.
WIDE = DecoysClass("decoys-wide", N=300, draws=400, room=40, c=6, chunks=2, S=2)
HALF = pow(2, -1, P)


@dataclass
class Element:
    """One element of a list as the prover presents it."""

    slot: int
    x: int  #: the slot's distance
    used: int = 1
    after: int = 0  #: b behind it
    hits: int = 0
    drawn: int = 0
    flag: int = 0
    inverse: int | None = None  #: of hits, where it is another number


@dataclass
class Shard:
    """One shard's part."""

    y: list[int]
    outputs: list[int]  #: of the permutation
    values: list[int]  #: ids
    act: list[int]
    void: list[int]
    elements: list[Element] = field(default_factory=list)
    members: list[int] = field(default_factory=list)
    b: list[int] = field(default_factory=list)  #: b_0 .. b_N
    high: list[int] = field(default_factory=list)
    past: int = 0
    seconds: list[int] | None = None  #: i m_i, where it is not what m says
    stated: list[Returned] | None = None  #: the list, where it is not what elements say
    packed: list[int] | None = None  #: what is hashed, where it is no list
    length: int | None = None  #: likewise


@dataclass
class Draft:
    """One record: statement and witness of all its shards."""

    cls: DecoysClass
    table: DrawTable
    seed: tuple[int, int]
    beacon: int
    ctx: int
    lo: int
    K: int
    salt: int
    alpha: int
    beta: int
    blind: int
    shards: list[Shard]
    threshold: int = 0
    last: int = 0  #: i*
    short: int = 0
    over: int = 0
    total: int = 0
    rows: tuple[int, ...] = ()

    # --- honest -----------------------------------------------------------------------------------------------------

    @property
    def ids(self) -> list[list[int]]:
        """The draws of every shard that count."""
        u = self.cls.uniform_ids
        return [[v for v, act in zip(one.values[u:], one.act, strict=False) if act == 1] for one in self.shards]

    @property
    def drawn(self) -> set[int]:
        """P, ids of the whole index."""
        return {h * self.cls.N + i for h, own in enumerate(self.ids) for i in own if i < self.cls.N}

    def score(self, one: int) -> int:
        return self.shards[one // self.cls.N].y[one % self.cls.N]

    @property
    def everything(self) -> range:
        return range(len(self.shards) * self.cls.N)

    def ranked(self) -> list[int]:
        """Ids that match and are not drawn, best first."""
        found = [i for i in self.everything if self.score(i) > self.lo and i not in self.drawn]
        return sorted(found, key=lambda i: (-self.score(i), i))

    def choose(self) -> None:
        """T and what shows it, honestly."""
        results = self.ranked()[: max(0, self.K - len(self.drawn))]
        T = self.drawn | set(results)
        self.total = len(T)
        self.short, self.over = int(len(T) < self.K), int(len(T) > self.K)
        self.last = len(self.everything) - 1
        if self.short:
            self.threshold = self.lo + 1
        elif results:
            self.threshold, self.last = self.score(results[-1]), results[-1]
        else:
            self.threshold = max(self.lo + 1, *(self.score(i) + 1 for i in self.everything if i not in T))
        self.settle(T, jump=bool(results) and not self.short)

    def settle(self, T: set[int], jump: bool = True) -> None:
        """All that follows from a list and a threshold.  ``jump``: at i*, where it is an element."""
        N, u = self.cls.N, self.cls.uniform_ids
        self.total = len(T)
        for h, one in enumerate(self.shards):
            own = sorted(i - h * N for i in T if i // N == h)
            one.past = int(self.last < h * N)
            behind = self.last - h * N
            one.b = [int(jump and behind in own and i > behind) for i in range(N + 1)]
            hits = Counter(self.ids[h])
            one.members = [int(i in own) for i in range(N)]
            one.elements = [
                Element(i, self.x(h, i), 1, one.b[i + 1], hits[i], int(hits[i] > 0), int(one.y[i] > self.lo))
                for i in own
            ]
            self.pad(h)
            one.high = [
                0 if m or self.cls.chunks == 1 else centred(self.x(h, i)) >> self.cls.c
                for i, m in enumerate(one.members)
            ]
            one.void = [int(v >= N) for v in one.values[u : u + self.cls.draws]]

    def x(self, h: int, i: int) -> int:
        """X of a slot."""
        one = self.shards[h]
        return self.threshold + one.past - 1 + one.b[i] - one.y[i]

    def pad(self, h: int) -> None:
        """Elements that are not used behind those that are."""
        one = self.shards[h]
        one.elements = [e for e in one.elements if e.used]
        b = one.elements[-1].after if one.elements else 0
        slot = max([e.slot for e in one.elements], default=-1)
        while len(one.elements) < self.cls.room:
            slot += 1
            one.elements.append(Element(slot, self.threshold + one.past - 1 + b - self.lo, 0, b))

    def element(self, one: int) -> Element:
        h, i = divmod(one, self.cls.N)
        return next(e for e in self.shards[h].elements if e.slot == i and e.used)

    def inverse(self, e: Element) -> int:
        if e.inverse is not None:
            return e.inverse
        return pow(e.hits, -1, P) if e.hits % P else 0

    def returned(self, h: int) -> list[Returned]:
        one = self.shards[h]
        return one.stated or [Returned(e.slot, bool(e.flag)) for e in one.elements if e.used]

    # --- inputs -----------------------------------------------------------------------------------------------------

    def hints(self, h: int) -> list[int]:
        """The hint vector of a shard: chunks and multiplicities of whatever the draft says."""
        cls, c, one = self.cls, self.cls.c, self.shards[h]
        layout = DecoysLayout(cls)
        lookups = Lookups(c)
        look, low = lookups.look, lookups.low
        made: dict[str, list[int]] = {g.name: [] for g in layout.groups}

        def put(name: str, values: Sequence[int]) -> None:
            if values:
                made[name] += values

        put("high", one.high if cls.chunks == 2 else [])
        for i, m in enumerate(one.members):
            if not m:
                look(self.x(h, i) - (one.high[i] << c))
                if cls.chunks == 2:
                    look(one.high[i])
        narrow = c * cls.id_chunks - cls.L
        for v in one.values:
            put("value", [v])
            put("valueLow", low(v, cls.id_chunks))
            if narrow:
                look((v >> (c * (cls.id_chunks - 1))) << narrow)
        used, position = cls.per_element * cls.L, cls.top_position
        for output in one.outputs:
            put("rest", [look((output >> (used + c * j)) & ((1 << c) - 1)) for j in range(cls.filler)])
            put("rest", low(output >> position, cls.top))
            put("rest", low((P >> position) - 1 - (output >> position), cls.top))
        number = sum(one.act)
        uniform = sum(v << (cls.L * j) for j, v in enumerate(one.values[: cls.uniform_ids]))
        steps = [a - b for a, b in itertools.pairwise([1, *one.act, 0])]
        first = sum(s * f for s, f in zip(steps[1:], self.rows, strict=False)) if number else 0
        beyond = sum(s * f for s, f in zip(steps, self.rows, strict=True))
        put("act", one.act)
        put("uniformLow", low(uniform - first, cls.uniform_chunks))
        put("uniformHigh", low(beyond - 1 - uniform, cls.uniform_chunks))
        if not cls.full:
            put("void", one.void)
            for bit, v in zip(one.void, one.values[cls.uniform_ids :], strict=False):
                put("voidLow", low(bit * (v - cls.N), cls.id_chunks))
        before, entry = 0, self.threshold + one.past
        for e in one.elements:
            y = entry - 1 - e.x + before
            for name, value in {
                "used": e.used, "id": e.slot, "distance": e.x, "behind": e.after, "hits": e.hits,
                "inverse": self.inverse(e), "drawn": e.drawn,
                "flag": e.flag,
            }.items():  # fmt: skip
                put(name, [value])
            put("winLow", low((e.used - e.drawn) * (-1 - e.x), cls.chunks))
            put("flagLow", low(e.flag * (2 * (y - self.lo) - 1) - y + self.lo, cls.chunks))
            before = e.after
        for a, b in itertools.pairwise(one.elements):
            put("idLow", low(b.slot - a.slot - 1, cls.id_chunks))
        ahead = self.last - h * cls.N
        put("past", [one.past])
        put("pastLow", low(ahead - one.past * (2 * ahead + 1), cls.whole_chunks))
        put("thresholdLow", low(self.threshold - self.lo - 1, cls.chunks))
        put("totalLow", low((self.over - self.short) * (self.total - self.K), cls.total_chunks))
        made["rangeCount"] = lookups.counts()
        return [x for g in layout.groups for x in made[g.name]]

    def wires(self, h: int) -> tuple[list[int], list[int]]:
        """x and z of a shard, from whatever its commitments open to."""
        one = self.shards[h]
        x, z = slot_wires(self.cls, one.y, (one.members, one.b[1:], one.high), self.beta)
        seconds = one.seconds or [i * m for i, m in enumerate(one.members)]
        x = [a + self.beta**2 * (s - i * m) for i, (a, s, m) in enumerate(zip(x, seconds, one.members, strict=True))]
        x[0] += one.b[0] - self.beta**3 * one.b[0]  # b_0, for which no base is
        return [v % P for v in x], z if self.cls.chunks == 2 else []

    def clear(self, h: int) -> list[int]:
        """The clear inputs of a shard's proof, challenges left out."""
        one = self.shards[h]
        made = list_commitment(self.cls, self.salt, self.returned(h), h)
        if one.packed is not None or one.length is not None:
            packed = one.packed or [x.packed for x in self.returned(h)]
            made = self.hashed(packed, sum(e.used for e in one.elements) if one.length is None else one.length)
        c_seed = statement.seed_commitment(self.seed)
        common = Statement(c_seed, self.beacon, self.ctx, Asked((self.lo, self.K), self.rows), ())
        return common.clear(made, (h,))

    def hashed(self, packed: Sequence[int], length: int) -> int:
        """A commitment to what is no list; of classes whose lists are one hash."""
        per, width = self.cls.ids_per_element, self.cls.L + 1
        padded = [*packed, *[0] * (self.cls.room - len(packed))]
        parts = [padded[at : at + per] for at in range(0, self.cls.room, per)]
        return poseidon(TAG_LIST, self.salt, length, *(sum(x << (width * j) for j, x in enumerate(p)) for p in parts))

    def inputs(self, h: int = 0) -> dict[int, int]:
        """Values of the circuit's input wires: public, then s_hi, s_lo, t_salt."""
        layout, (x, z) = DecoysLayout(self.cls), self.wires(h)
        hints = self.hints(h)
        assert layout.size == len(hints)
        one = self.shards[h]
        count = sum(e.used for e in one.elements) if one.length is None else one.length
        shared = [self.threshold, self.last, self.short, self.over, self.total]
        challenges = [self.alpha, self.beta]
        public = [*self.clear(h), *challenges, self.blind, *x, *z, *hints[len(z) :], count, *shared]
        return {wire: value % P for wire, value in enumerate([*public, *self.seed, self.salt], 1)}


@cache
def compiled(cls: DecoysClass) -> R1cs:
    path = compiled_circuit(circuit_of(cls), CACHE)
    return read(path, path.with_suffix(".sym"))


@cache
def table_of(cls: DecoysClass, rate: int) -> DrawTable:
    return build_table(cls.L, rate, cls.draws)


@dataclass(frozen=True)
class Setting:
    """A class and its compiled circuit."""

    cls: DecoysClass

    @property
    def r1cs(self) -> R1cs:
        return compiled(self.cls)

    def honest(self, number: int, y: Sequence[Sequence[int]], K: int = 5, rate: int = 2 << 16, lo: int = LO) -> Draft:
        """An honest draft of request ``number`` over the shards of ``y``."""
        cls, rng = self.cls, random.Random(number)
        seed = rng.getrandbits(128), rng.getrandbits(128)
        beacon, ctx = rng.getrandbits(240), rng.getrandbits(240)
        key, table = mechanism.noise_key(seed, beacon, ctx), table_of(cls, rate)
        shards = []
        for h, own in enumerate(y):
            outputs = list(elements_of(cls, key, h))
            values = [(e >> (cls.L * j)) & ((1 << cls.L) - 1) for e in outputs for j in range(cls.per_element)]
            uniform = sum(v << (cls.L * j) for j, v in enumerate(values[: cls.uniform_ids]))
            number_ = next(j for j, f in enumerate(table.rows(cls.draws)) if uniform < f)
            shards.append(Shard(list(own), outputs, values, [int(j < number_) for j in range(cls.draws)], []))
        d = Draft(
            cls=cls, table=table, seed=seed, beacon=beacon, ctx=ctx, lo=lo, K=K, salt=rng.getrandbits(248),
            alpha=rng.getrandbits(253), beta=rng.getrandbits(253), blind=rng.getrandbits(253), shards=shards,
            rows=table.rows(cls.draws),
        )  # fmt: skip
        d.choose()
        return d

    def accepts(self, d: Draft, h: int = 0) -> bool:
        r1cs = self.r1cs
        return not r1cs.violations(r1cs.solve(d.inputs(h)))


def scores(rng: random.Random, cls: DecoysClass, shards: int = 1, share: float = 0.3) -> list[list[int]]:
    """Few different values, so that there are ties."""
    values = (0, 50, LO - 1, LO, LO + 1, LO + 2, LO + 2, 150, 300)
    return [[rng.choice(values) if rng.random() < share else 0 for _ in range(cls.N)] for _ in range(shards)]


Marks = Sequence[dict[int, int]]  #: of every shard, scores of slots; all others have 0


def scenes(setting: Setting, marks: Marks, results: int, rate: int = 2 << 16, least: int = 1) -> Iterator[Draft]:
    """Honest drafts: no marked slot is drawn, ``least`` others in each shard are, and K leaves room for results."""
    N = setting.cls.N
    y = [[own.get(i, 0) for i in range(N)] for own in marks]
    marked = {h * N + i for h, own in enumerate(marks) for i in own}
    for number in range(2000):
        d = setting.honest(number, y, 1, rate)
        if d.drawn & marked or any(len({i for i in own if i < N}) < least for own in d.ids):
            continue
        d.K = len(d.drawn) + results
        if any(len(set(own)) + results > setting.cls.room for own in d.ids):
            continue
        d.choose()
        yield d


def scene(setting: Setting, marks: Marks, results: int, rate: int = 2 << 16, least: int = 1) -> Draft:
    """The first of them, whose proofs are accepted."""
    d = next(scenes(setting, marks, results, rate, least))
    assert all(setting.accepts(d, h) for h in range(len(d.shards)))
    return d


Rule = tuple[set[int], set[int]]  #: rows, and wires that are 0 without them


def refused(setting: Setting, d: Draft, rule: Rule, h: int = 0) -> None:
    """One shard's proof is refused, by one rule; those of all others are accepted."""
    for other in range(len(d.shards)):
        assert other == h or setting.accepts(d, other), "another shard's proof is refused, too"
    assert_only_rule(setting, d.inputs(h), *rule)


def row_over(r1cs: R1cs, *names: str) -> Rule:
    """The row in which exactly these wires are, beside the constant."""
    wires = {r1cs.wire_of[name] for name in names}
    near = set.intersection(*(set(r1cs.rows_of[w]) for w in wires))
    rows = {i for i in near if {w for form in r1cs.rows[i] for w, _ in form} - {0} == wires}
    assert len(rows) == 1, (names, rows)
    return rows, set()


def both(*rules: Rule) -> Rule:
    """Rows of one rule in several places."""
    return set().union(*(rows for rows, _ in rules)), set().union(*(zero for _, zero in rules))

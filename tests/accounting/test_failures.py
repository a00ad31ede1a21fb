# SPDX-License-Identifier: GPL-3.0-or-later
"""What refusals take from delta: brute force where they are frequent, and the classes that there are."""

from __future__ import annotations

import itertools
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import pytest

from ragseal.accounting import audit, failures
from ragseal.accounting.audit import ScorePolicy
from ragseal.circuits.circuit import load_classes
from ragseal.kernel import noise, overflow
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.noise_class import NoiseClass, whole_index
from tests.cases import first_is_fast

CLASSES: dict[str, NoiseClass] = {name: cls for name, cls in load_classes().items() if isinstance(cls, NoiseClass)}

Uniforms = tuple[int, ...]
Law = dict[Uniforms, Counter[Uniforms]]  #: by the uniforms of the slots in common, how often which list is shown
REFUSED: Uniforms = ()


# --- by force --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Toy:
    """The mechanism with all of a slot's noise its own, on equally likely uniforms, two of each coarse value."""

    N: int
    K: int
    R: int
    grid: int  #: G
    common: int  #: slots that both worlds have in common, the first ones
    shift: int = 2
    values: Uniforms = (-3, -1, -1, 0, 0, 1, 1, 3)  #: noise by uniform

    @property
    def lowest(self) -> int:
        """Q(2^m - G), the largest noise of the lowest coarse bits of the grid."""
        return self.values[len(self.values) - 2 * self.grid + 1]

    def reach(self, scores: Sequence[int], draw: Uniforms) -> list[int]:
        """Of every slot the most that its coarse bits allow."""
        return [s + self.values[u | 1] for s, u in zip(scores, draw, strict=True)]

    def order(self, scores: Sequence[int], draw: Uniforms) -> list[int]:
        return sorted(range(len(draw)), key=lambda i: (-scores[i] - self.values[draw[i]], i))

    def threshold(self, scores: Sequence[int], draw: Uniforms) -> int:
        """v*, or v0 of the slots in common."""
        last = self.order(scores, draw)[self.K - 1]
        return scores[last] + self.values[draw[last]]

    def flagged(self, scores: Sequence[int], draw: Uniforms) -> int:
        threshold = self.threshold(scores, draw)
        return sum(x >= threshold for x in self.reach(scores, draw))

    def shown(self, scores: Sequence[int], draw: Uniforms) -> Uniforms:
        """T, or that the query was refused: by the rules of ``kernel/noise_mechanism.py``."""
        entry = sorted(self.reach(scores, draw))[-self.R] + 1
        refused = self.threshold(scores, draw) < entry or self.lowest >= entry
        return REFUSED if refused else tuple(sorted(self.order(scores, draw)[: self.K]))

    def poor(self, scores: Sequence[int], draw: Uniforms) -> bool:
        """By docs/proofs/refusals.md: whether it may depend on the other slots if a query is refused."""
        in_grid = sum(u >> 1 >= len(self.values) // 2 - self.grid for u in draw)
        return in_grid < self.R or self.flagged(scores, draw) > self.R - 1 - (self.N - self.common)

    def draws(self, slots: int) -> Iterator[Uniforms]:
        return itertools.product(range(len(self.values)), repeat=slots)

    def law(self, scores: Sequence[int], refusals: bool) -> Law:
        out: Law = defaultdict(Counter)
        for draw in self.draws(self.N):
            found = self.shown(scores, draw) if refusals else tuple(sorted(self.order(scores, draw)[: self.K]))
            out[draw[: self.common]][found] += 1
        return out


FOUR = (-1, 0, 0, 1)
TOYS = [
    Toy(4, 1, 3, 4, 3), Toy(4, 1, 3, 3, 3),
    Toy(5, 2, 4, 2, 4, 1, FOUR), Toy(6, 1, 4, 2, 4, 1, FOUR),
]  # fmt: skip
FACTORS = (1, 2, 20)


def curve(p: Law, q: Law, g: int, kept: set[Uniforms]) -> int:
    """H_g in draws, the noise in common revealed, that of ``kept`` alone."""
    return sum(max(0, count - g * q[omega][found]) for omega in kept for found, count in p[omega].items())


def merged(law: Law) -> Law:
    """The same with nothing revealed."""
    return {REFUSED: sum(law.values(), Counter())}


@pytest.mark.parametrize("toy", first_is_fast(TOYS), ids=str)
def test_lists_with_refusals_cost_the_poor_noise_and_no_more(toy: Toy) -> None:
    own = toy.N - toy.common
    everything, each = set(toy.draws(toy.common)), len(toy.values) ** own
    exceeded = False
    for others in itertools.product((0, toy.shift), repeat=toy.common):
        poor = {omega for omega in everything if toy.poor(others, omega)}
        contents = list(itertools.product((0, toy.shift), repeat=own))
        real = {c: toy.law((*others, *c), True) for c in contents}
        ideal = {c: toy.law((*others, *c), False) for c in contents}
        for a, b in itertools.permutations(contents, 2):
            for omega in everything - poor:  # refused in both worlds or in neither
                assert real[a][omega] in (ideal[a][omega], Counter({REFUSED: each}))
                assert (real[a][omega] == ideal[a][omega]) == (real[b][omega] == ideal[b][omega])
            for g in FACTORS:
                limit = curve(ideal[a], ideal[b], g, everything)
                assert curve(real[a], real[b], g, everything) <= limit + len(poor) * each
                exceeded |= curve(merged(real[a]), merged(real[b]), g, {REFUSED}) > limit
    assert exceeded  # refusals do tell something: the charge is not for nothing


# --- the classes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CLASSES)
def test_overflow_covers_what_the_other_slots_leave_open(name: str) -> None:
    """The bound of docs/proofs/overflow.md for the slots in common, so many places less, and no charge is wasted."""
    cls = CLASSES[name]
    table = noise.build_table(cls.law)
    for chunks in (1, 2):
        places = cls.R - 1 - chunks
        bound = overflow.overflow_bound(cls.N - chunks, cls.K, places, cls.m, cls.a, cls.b, table)
        if isinstance(cls, NoiseClass):
            bound *= cls.S**2  # each of S shards may overflow, and the last winner is any of S N slots
        charged = failures.every_list(cls, chunks, 1).overflow
        # Two places more or less are a factor of a thousand in a tiny class.
        assert bound <= charged < 2048 * bound


@pytest.mark.parametrize("name", CLASSES)
def test_each_shard_may_find_no_theta(name: str) -> None:
    """That all slots of an index together hold enough of the grid says nothing: a shard is refused by its own."""
    cls = CLASSES[name]
    assert isinstance(cls, NoiseClass)
    for shards in (2, cls.S):
        whole = whole_index(cls, shards)
        assert (whole.N, whole.L, whole.grid) == (shards * cls.N, cls.L, cls.grid)
        for chunks in (1, 3):
            one = at_most(cls.N - chunks, Fraction(cls.grid, 1 << cls.m), cls.R - 1)
            charged = failures.every_list(whole, chunks, 5).grid
            assert 5 * shards * one <= charged < 5 * shards * one * Fraction(10**6)
        assert failures.every_list(whole, cls.N, 1).grid == 1


def at_most(n: int, p: Fraction, most: int) -> Fraction:
    """P(Bin(n, p) <= most), exactly: in whole multiples of (1 / p.denominator)^n, each from the one before."""
    yes, no = p.numerator, p.denominator - p.numerator
    term = found = no**n
    for j in range(1, most + 1):
        term = term * (n - j + 1) * yes // (j * no)
        found += term
    return Fraction(found, p.denominator**n)


@pytest.mark.parametrize("name", ["noise-tiny-two", "noise-tiny-gaussian"])
@pytest.mark.parametrize("chunks", [1, 3])
def test_the_grid_by_definition(name: str, chunks: int) -> None:
    cls = CLASSES[name]
    exact = at_most(cls.N - chunks, Fraction(cls.grid, 1 << cls.m), cls.R - 1)
    found = failures.every_list(cls, chunks, 5).grid
    assert 5 * exact <= found <= 5 * exact + Fraction(1, 1 << 290)
    assert exact > Fraction(1, cls.S << 80)  # of fewer slots: above what the class's grid was chosen for


def test_a_document_of_more_slots_than_there_are_is_never_safe() -> None:
    assert failures.every_list(CLASSES["noise-tiny-two"], 126, 1).grid == 1


@pytest.mark.parametrize("chunks", [300, 1000, 10**6, 2**32 - 1])
@pytest.mark.parametrize("name", ["noise-small-gaussian-50", "noise-small-two-50"])
def test_documents_of_absurdly_many_slots_end_in_words(name: str, chunks: int) -> None:
    """chunks_max is what a provider writes into its policy: an auditor that crashes on it gives no verdict."""
    cls = CLASSES[name]
    found = failures.every_list(cls, chunks, 10)
    assert found.overflow <= 10
    assert found.grid <= 10
    assert found.total >= 1
    table, began = noise.build_table(cls.law), time.monotonic()
    with pytest.raises(PolicyError, match=rf"fewer slots than {chunks}|beyond what is accounted"):
        audit.epsilon_audit(
            cls,
            table,
            scores=ScorePolicy(gain=100, lo=0, hi=100),
            k_max=1,
            n_max=1,
            delta=Fraction(1, 10**6),
            chunks=chunks,
        )
    assert time.monotonic() - began < 5

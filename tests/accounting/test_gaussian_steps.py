# SPDX-License-Identifier: GPL-3.0-or-later
"""Epsilons of law gaussian-512 a second way: sums of noise instead of losses, no transform, nothing of the accountants.

The law is made in decimals.  A query's loss is a multiple of its noise, so n queries tell what the sum of their noise
does; and lists of tiny indices are enumerated, equal scores to the smaller slot, in both orders.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from ragseal.accounting.audit import (
    FULL,
    ORDERED,
    SET_LOSSES,
    ScorePolicy,
    _attacks,
    epsilon_audit,
    full_bound,
    topk_bounds,
)
from ragseal.accounting.period import account_period, bound_so_far
from ragseal.accounting.pld import Vector, infinite_loss_mass
from ragseal.accounting.spent import Spent
from ragseal.accounting.topk import SetRenyi, curve_atoms, ordered_atoms, set_curve
from ragseal.circuits.circuit import load_classes
from ragseal.kernel.noise import NoiseTable, build_table
from ragseal.kernel.params import GAUSSIAN
from tests.simulator import policy as a_policy

pytestmark = pytest.mark.slow

SIGMA, CUT, BITS = 512, 5376, 112
TABLE = build_table(GAUSSIAN)
CLASSES = load_classes()
N, K = 126, 3  # of noise-tiny-gaussian


@cache
def law() -> tuple[int, ...]:
    """Masses of 0..5376 out of 2^112, each to the nearest; 0 has what is missing."""
    with localcontext() as context:
        context.prec = 80
        weights = [(Decimal(-x * x) / (2 * SIGMA**2)).exp() for x in range(CUT + 1)]
        norm = weights[0] + 2 * sum(weights[1:])
        half = [int(w * (1 << BITS) / norm + Decimal("0.5")) for w in weights]
    return ((1 << BITS) - 2 * sum(half[1:]), *half[1:])


@cache
def noise() -> Vector:
    """The same of -5376..5376 as probabilities."""
    return np.array([law()[abs(x)] / (1 << BITS) for x in range(-CUT, CUT + 1)])


@cache
def summed(n: int) -> Vector:
    """Law of the sum of n draws: every term is positive, so that no digits are lost."""
    if n == 1:
        return noise()
    half = summed(n // 2)
    whole = np.convolve(half, half)
    return np.convolve(whole, noise()) if n % 2 else whole


def least(delta_at: Callable[[float], float], delta: float) -> float:
    """The epsilon whose delta is ``delta``, from below."""
    low, high = 0.0, 1.0
    while delta_at(high) > delta:
        high *= 2
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_at(middle) > delta else (low, middle)
    return low


def test_the_table_is_the_law() -> None:
    assert law() == TABLE.half


@pytest.mark.parametrize(
    ("shift", "n", "delta"),
    [(1, 1, 1e-4), (1, 16, 1e-6), (29, 3, 1e-6), (128, 8, 1e-9), (512, 4, 1e-6), (1200, 4, 1e-6), (2400, 2, 1e-5)],
)
def test_all_scores_by_the_sum_of_their_noise(shift: int, n: int, delta: float) -> None:
    """In both orders, and no more than what the table's last masses cost above it."""
    left, right = np.zeros(n * shift), summed(n)
    raised, plain = np.concatenate([left, right]), np.concatenate([right, left])
    found = full_bound(TABLE, shift, n, delta).certified
    for p, q in ((raised, plain), (plain, raised)):
        exact = least(lambda e, p=p, q=q: float(np.maximum(p - math.exp(e) * q, 0).sum()), delta)  # type: ignore[misc]
        assert exact * (1 - 1e-10) <= found <= exact * (1 + 1e-4)


@pytest.mark.parametrize(("shift", "n"), [(1, 1), (1, 3), (29, 3), (127, 1), (128, 1), (1023, 1), (513, 5), (2800, 1)])
def test_no_attack_has_a_larger_advantage_or_area(shift: int, n: int) -> None:
    """On the lattice of steps an odd shift is told from none a little better than the Gaussian curve says."""
    left, right = np.zeros(n * shift), summed(n)
    raised, plain = np.concatenate([left, right]), np.concatenate([right, left])
    advantage = float(np.maximum(raised - plain, 0).sum())
    area = float((raised * (np.cumsum(plain) - plain / 2)).sum())
    mu, most_area, most = _attacks(TABLE, shift, n)
    assert mu == shift * math.sqrt(n) / SIGMA
    assert advantage <= most <= advantage + 1 / (16 * n * SIGMA**2)
    assert area <= most_area + 1e-14
    assert most_area <= area + 1 / (16 * n * SIGMA**2)


@cache
def no_later() -> tuple[Decimal, ...]:
    """P(tau <= x), x = -5377..5376: the K-th largest of N - 1 draws."""
    out, above = [], 1 << BITS
    with localcontext() as context:
        context.prec = 40
        for x in range(-CUT - 1, CUT + 1):
            above -= law()[abs(x)] if abs(x) <= CUT else 0
            a = Decimal(above) / (1 << BITS)
            terms = (math.comb(N - 1, j) * a**j * (1 - a) ** (N - 1 - j) for j in range(K) if j or a < 1)
            out.append(sum(terms, Decimal(0)) if a else Decimal(1))
    return tuple(out)


@pytest.mark.parametrize(("shift", "n", "delta"), [(1, 6, 1e-6), (129, 4, 1e-6), (512, 1, 1e-9), (2048, 2, 1e-5)])
def test_released_scores_by_the_lattice_of_their_losses(shift: int, n: int, delta: float) -> None:
    """Theorem A: losses are shift / (2 sigma^2) times an integer, 2 x - shift, of its parity."""
    size, parity = (2 * CUT - shift) // (2 - shift % 2), 2 - shift % 2
    span = shift * parity / (2 * SIGMA**2)
    one = np.zeros(2 * size + 1)
    for x in range(shift // 2 + 1, CUT + 1):
        at = (2 * x - shift) // parity
        mass = float(no_later()[x + CUT + 1]) * law()[abs(x - shift)] / (1 << BITS)
        one[size + at], one[size - at] = mass, mass * math.exp(-span * at)
    one[size] = 1 - one.sum()
    whole = one
    for _ in range(n - 1):
        whole = np.convolve(whole, one)
    loss = span * np.arange(-n * size, n * size + 1)
    beyond = n * sum(law()[abs(x)] for x in range(CUT - shift + 1, CUT + 1)) / (1 << BITS)
    exact = least(lambda e: float((whole * np.maximum(-np.expm1(e - loss), 0)).sum()) + beyond, delta)
    found = next(b for b in topk_bounds(TABLE, N, K, shift, n, delta) if b.accountant == ORDERED).certified
    assert exact * (1 - 1e-9) <= found <= exact * (1 + 1e-4)


@pytest.mark.parametrize(("shift", "delta"), [(1, 1e-6), (129, 1e-6), (512, 1e-4), (2048, 1e-6)])
def test_a_released_set_by_all_thresholds(shift: int, delta: float) -> None:
    """Theorem B of one query: every threshold of both intervals."""
    above = np.cumsum(noise()[::-1])[::-1]
    pad = 2 * CUT + 2 * shift
    at_least = np.concatenate([np.full(pad, 1.0), above, np.zeros(pad)])  # P(z >= y) at y + CUT + pad
    values = np.arange(-CUT - shift - 2, CUT + shift + 3)
    raised, plain = at_least[values - shift + CUT + pad], at_least[values + CUT + pad]
    law_of_tau = [float(b - a) for a, b in itertools.pairwise(no_later())]
    likely = [(x, p) for x, p in zip(range(-CUT, CUT + 1), law_of_tau, strict=True) if p > 1e-25]

    def worst(epsilon: float) -> float:
        gain, total = np.maximum(raised - math.exp(epsilon) * plain, 0), 0.0
        for tau, p in likely:
            spans = ((tau, tau + shift + 1), (-tau, shift + 1 - tau))
            total += p * max(
                float(gain[max(0, a - values[0]) : b - values[0] + 1].max(initial=0.0))
                for a, b in spans
                if b >= values[0]
            )
        return total

    exact = least(worst, delta)
    found = next(b for b in topk_bounds(TABLE, N, K, shift, 1, delta) if b.accountant == SET_LOSSES).certified
    assert exact * (1 - 1e-8) <= found <= exact * (1 + 1e-3)


# --- lists by enumeration --------------------------------------------------------------------------------------------


def lists(masses: dict[int, Fraction], scores: tuple[int, ...], best: int, shown: bool) -> dict[object, Fraction]:
    """Law of the ids of one list, with their noisy scores where they are shown; of equal scores the smaller slot's."""
    out: dict[object, Fraction] = defaultdict(Fraction)
    for drawn in itertools.product(masses.items(), repeat=len(scores)):
        noisy = [s + z for s, (z, _) in zip(scores, drawn, strict=True)]
        ids = sorted(sorted(range(len(scores)), key=lambda i: (-noisy[i], i))[:best])
        out[tuple((i, noisy[i]) for i in ids) if shown else tuple(ids)] += math.prod(
            (p for _, p in drawn), start=Fraction(1)
        )
    return out


@pytest.mark.parametrize(("slots", "best", "shift"), [(3, 1, 1), (3, 2, 2), (4, 1, 1), (4, 3, 1)])
def test_no_list_of_a_tiny_index_tells_more_than_the_bounds(slots: int, best: int, shift: int) -> None:
    """Every two indices that differ in one slot, in both orders; two queries of the worst ones, too."""
    unit = (1 << BITS) // 17
    table = NoiseTable(GAUSSIAN, ((1 << BITS) - 10 * unit, 4 * unit, unit))
    masses = {x: Fraction(table.mass(x), 1 << BITS) for x in range(-2, 3)}
    once = infinite_loss_mass(table, shift, 1)
    sets, endless = curve_atoms(*set_curve(table, shift, slots, best))
    moments = SetRenyi(table, shift, slots, best)
    for shown, atoms, lost in ((True, ordered_atoms(table, shift, slots, best), once), (False, sets, endless)):
        laws = {s: lists(masses, s, best, shown) for s in itertools.product((0, shift), repeat=slots)}
        worst: dict[float, float] = defaultdict(float)
        for a, b in itertools.permutations(laws, 2):
            if sum(x != y for x, y in zip(a, b, strict=True)) != 1:
                continue
            for epsilon in (0.0, 0.1, 0.4, 0.9, 1.5):
                gain = sum(
                    max(0.0, float(p) - math.exp(epsilon) * float(laws[b].get(o, 0))) for o, p in laws[a].items()
                )
                worst[epsilon] = max(worst[epsilon], gain)
        for epsilon, gain in worst.items():
            bound = lost + float((atoms.mass * np.maximum(-np.expm1(epsilon - atoms.loss), 0)).sum())
            assert gain <= bound + 1e-13
            if not shown:
                for order in (1.2, 3.0, 9.0):
                    tail = moments.log_moment(order) - (order - 1) * epsilon
                    assert gain <= once + math.exp(tail) * (1 - 1 / order) ** (order - 1) / order + 1e-13


# --- policies at their edges -----------------------------------------------------------------------------------------


def audited(name: str, shift: int, n: int, **changes: int | Fraction) -> float:
    cls = CLASSES[name]
    values: dict[str, int | Fraction] = {"k_max": 1, "delta": Fraction(1, 10**6), "chunks": 1}
    values |= changes
    scores = ScorePolicy(gain=1 << cls.step_bits, lo=0, hi=max(shift, 1))
    if not shift:
        scores = ScorePolicy(gain=1, lo=0, hi=1)
    return epsilon_audit(cls, TABLE, scores=scores, n_max=n, **values).epsilon  # type: ignore[arg-type]


def test_no_edge_of_a_policy_has_a_smaller_epsilon_than_its_neighbour() -> None:
    name = "noise-tiny-gaussian"
    assert audited(name, 0, 5) == audited(name, 1, 5) > 0  # less than a step counts as one
    by_shift = [audited(name, shift, 5) for shift in (1, 2, 3, 60, 600, 900, 1400, 2816, 2817, 5000)]
    assert by_shift == sorted(by_shift)
    assert by_shift[-3:] == [math.inf] * 3
    by_queries = [audited(name, 40, n) for n in (1, 2, 3, 10, 1000)]
    assert by_queries == sorted(by_queries)
    by_accounts = [audited(name, 40, 3, k_max=k) for k in (1, 2, 7, 5000)]
    assert by_accounts == sorted(by_accounts)
    assert audited(name, 40, 3, k_max=7) == audited(name, 40, 21)  # accounts and queries count alike
    by_delta = [audited(name, 40, 3, delta=Fraction(1, d)) for d in (10**2, 10**6, 10**15)]
    assert by_delta == sorted(by_delta)
    by_slots = [audited(name, 40, 3, chunks=c) for c in (1, 2, 5)]
    assert by_slots == sorted(by_slots)
    assert by_slots[1] >= full_bound(TABLE, 40, 6, 1e-6).certified  # of two slots: twice the queries, all scores


def test_windows_of_a_period_add_up_at_their_worst() -> None:
    """Two classes, three windows: the largest shift, coalition and document, all queries, delta in two."""
    tiny, mini = CLASSES["noise-tiny-gaussian"], CLASSES["noise-small-gaussian-50"]
    delta = Fraction(1, 10**6)

    def window(number: int, name: str, shift: int, queries: int, **changes: int) -> Spent:
        cls = CLASSES[name]
        rules = a_policy(class_name=name, lo=0, hi=shift, gain=1 << cls.step_bits, n_max=queries, **changes)
        return Spent(f"w{number}", rules, cls, queries)

    windows = [
        window(0, tiny.name, 40, 2, k_max=3, chunks_max=2),
        window(1, mini.name, 20, 4, k_max=5, chunks_max=1),
        window(2, tiny.name, 30, 6, k_max=1, chunks_max=1),
    ]
    found = account_period(windows, delta)
    assert (found.k_max, found.chunks, found.queries) == (5, 2, 60)
    parts = {tiny.name: (40, 8), mini.name: (20, 4)}
    for name, (shift, queries) in parts.items():
        report = found.reports[name]
        assert (report.shift, report.n, report.compositions) == (shift, 5 * queries, 10 * queries)
        assert report.delta.policy == float(delta / 2)
        assert report.bound(FULL) == full_bound(TABLE, shift, 10 * queries, report.delta.table)
    assert found.epsilon == math.fsum(one.epsilon for one in found.reports.values())
    epsilon, _, queries = bound_so_far(windows[:1], windows, delta)
    assert queries == 5 * 2
    assert epsilon == audited(tiny.name, 40, 10, chunks=2)
    assert bound_so_far(windows, windows, delta)[0] == found.epsilon

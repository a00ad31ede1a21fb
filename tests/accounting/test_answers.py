# SPDX-License-Identifier: GPL-3.0-or-later
"""The claim answers' accounting, against brute force over small histograms.  docs/proofs/answers.md, SPEC D.22."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache

import pytest

from ragseal.accounting import answers
from ragseal.accounting.answers import (
    COMPOSED,
    MOST_COMPOSED,
    PURE,
    OneAnswer,
    answers_period,
    composed,
    one_answer,
    tail_ratio,
)
from ragseal.accounting.claims import named
from ragseal.accounting.period import account_period
from ragseal.accounting.spent import Spent
from ragseal.circuits.circuit import class_digest, load_classes
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.noise import NoiseTable, build_table
from ragseal.kernel.noise_class import NoiseClass
from ragseal.kernel.policy import ANSWERS, EVERY_LIST, NO_VOCABULARY, Policy
from tests.simulator import policy as a_policy

_found = load_classes()["noise-tiny-two"]
assert isinstance(_found, NoiseClass)
CLS: NoiseClass = _found
DELTA = Fraction(1, 10**6)


def small_table(cut: int = 4, half: int = 2) -> NoiseTable:
    """A geometric law that halves every ``half``-th step or so, of few values."""
    weights = [round(1000 * 2 ** (-x / half)) for x in range(cut + 1)]
    whole = weights[0] + 2 * sum(weights[1:])
    masses = [(1 << 112) * w // whole for w in weights]
    masses[0] = (1 << 112) - 2 * sum(masses[1:])
    return NoiseTable("geometric-16", tuple(masses))


SMALL, LONG = small_table(), small_table(cut=9, half=3)


@cache
def sets(scores: tuple[int, ...], K: int, table: NoiseTable = SMALL) -> dict[tuple[int, ...], Fraction]:
    """P(T = S) of every S, by enumeration of all noise."""
    law = [(x, Fraction(table.mass(x), table.total)) for x in range(-table.cut, table.cut + 1)]
    found: dict[tuple[int, ...], Fraction] = {}
    for drawn in itertools.product(law, repeat=len(scores)):
        chance = math.prod((p for _, p in drawn), start=Fraction(1))
        best = sorted(range(len(scores)), key=lambda i: (-(scores[i] + drawn[i][0]), i))[:K]
        place = tuple(sorted(best))
        found[place] = found.get(place, Fraction(0)) + chance
    return found


def worlds(N: int, m: int, g: int, most: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Scores without and with one document of at most m words."""
    for counts in itertools.product(range(most + 1), repeat=N):
        for added in itertools.product((0, 1), repeat=N):
            if 0 < sum(added) <= m:
                yield (
                    tuple(1 + g * n for n in counts),
                    tuple(1 + g * (n + d) for n, d in zip(counts, added, strict=True)),
                )


def worst(N: int, K: int, m: int, g: int) -> tuple[Fraction, Fraction]:
    """How far the two inequalities of proposition 1 are from holding, with t as it is; at most 0 if they hold."""
    table = SMALL
    x0 = table.cut - 1  # nearly all of the support: t is large, and enters exactly
    r = Fraction(table.tail(x0 - 1 - g), table.tail(x0 - 1))
    t = Fraction(N * table.tail(x0 - g), table.total)
    present, absent = Fraction(-1), Fraction(-1)
    for without, with_it in worlds(N, m, g, 2):
        p, q = sets(without, K), sets(with_it, K)
        places = {*p, *q}
        present = max(present, _excess(q, p, r ** min(m, K), places) - t)
        absent = max(absent, _excess(p, q, r**K, places) - t)
    return present, absent


def _excess(
    p: dict[tuple[int, ...], Fraction],
    q: dict[tuple[int, ...], Fraction],
    factor: Fraction,
    places: set[tuple[int, ...]],
) -> Fraction:
    """The hockey stick: of the worst event."""
    zero = Fraction(0)
    return sum((max(zero, p.get(s, zero) - factor * q.get(s, zero)) for s in places), zero)


@pytest.mark.parametrize(("K", "m"), [(1, 1), (2, 1), (2, 3)])
def test_every_event_of_small_histograms(K: int, m: int) -> None:
    assert all(excess <= 0 for excess in worst(3, K, m, g=1))


def ratio(K: int, m: int, g: int, far: int) -> tuple[float, float]:
    """ln of the largest ratio of one set, up and down, where one slot stands ``far`` above K others; wide ideal "
    "noise."""
    b = 3.0

    def tail(x: int) -> float:
        return math.exp(-max(x, 0) / b)

    def chance(top: int, members: Sequence[int]) -> float:
        """That all members beat the slot at ``top``: over its noise."""
        p = 1 - math.exp(-1 / b)
        return sum(p * math.exp(-z / b) * math.prod(tail(top + z + 1 - s) for s in members) for z in range(600))

    members = [1] * K
    raised = [1 + g] * min(m, K) + [1] * (K - min(m, K))
    up = math.log(chance(far, raised) / chance(far, members))
    down = math.log(chance(far, members) / chance(far + g, members))
    return up * b / g, down * b / g


@pytest.mark.parametrize(("K", "m"), [(1, 1), (3, 1), (3, 2), (3, 5)])
def test_the_exponents_are_tight(K: int, m: int) -> None:
    """No smaller constant holds: min(m, K) speaks for presence, K for absence, whatever m is."""
    up, down = ratio(K, m, g=2, far=40)
    assert up == pytest.approx(min(m, K))
    assert down == pytest.approx(K)


def test_a_smaller_constant_is_refuted_by_force() -> None:
    """With K - 1 for K an event of a small histogram breaks the bound, tail and all."""
    table = LONG
    g, K = 1, 2
    r = Fraction(table.tail(table.cut - 2 - g), table.tail(table.cut - 2))
    p, q = sets((7, 1, 1), K, table), sets((8, 1, 1), K, table)
    tail = Fraction(3 * table.tail(table.cut - 1 - g), table.total)
    assert p[1, 2] <= r**K * q[1, 2] + tail
    nearly = Fraction(table.tail(5 - g), table.tail(5))  # what the law's ratio is where the set is decided
    assert p[1, 2] > nearly ** (K - 1) * q[1, 2]


def test_table_and_ideal_law_agree() -> None:
    cls = CLS
    for g in (1, 4, 12):
        one = one_answer(cls, build_table(cls.law), g, 2)
        assert one.agree
        assert one.absent >= 3 * g / 16
        assert one.present >= 2 * g / 16
        assert one.lost < Fraction(1, 10**15)
    assert not replace(one, present=one.present * 1.001).agree


def test_the_ratio_grows_with_x() -> None:
    table = build_table("geometric-16")
    ratios = [Fraction(table.tail(x - 5), table.tail(x - 1)) for x in range(1, 780, 50)]
    assert ratios == sorted(ratios)
    assert tail_ratio(table, 4, CLS.N) >= ratios[-1]


def test_the_composed_loss_of_one_answer_is_the_randomised_response() -> None:
    """n = 1 in closed form: delta(eps) = chance (1 - e^(eps - loss)) of the point that counts."""
    one = OneAnswer(0.5, 1.5, (0.5, 1.5), Fraction(0))
    for delta in (Fraction(1, 10), Fraction(1, 1000)):
        spread = math.exp(0.5) - math.exp(-1.5)
        up = (1 - math.exp(-1.5)) / spread * math.exp(0.5)
        down = 1 - (1 - math.exp(-1.5)) / spread
        expected = max(
            0.5 + math.log(max(1e-300, 1 - float(delta) / up)),
            1.5 + math.log(max(1e-300, 1 - float(delta) / down)),
            0.0,
        )
        assert composed(one, 1, delta) == pytest.approx(expected, rel=1e-9)


def test_composition_by_enumeration() -> None:
    """Four answers: all sixteen outcomes, in exact arithmetic but for the exponentials."""
    one, n, delta = OneAnswer(0.25, 0.75, (0.25, 0.75), Fraction(0)), 4, 0.01
    q = (1 - math.exp(-0.75)) / (math.exp(0.25) - math.exp(-0.75))
    p = q * math.exp(0.25)
    epsilon = composed(one, n, Fraction(1, 100))

    def curve(at: float, first: float, second: float) -> float:
        total = 0.0
        for outcome in itertools.product((0, 1), repeat=n):
            a = math.prod(first if x else 1 - first for x in outcome)
            b = math.prod(second if x else 1 - second for x in outcome)
            total += max(0.0, a - math.exp(at) * b)
        return total

    assert max(curve(epsilon, p, q), curve(epsilon, q, p)) <= delta * (1 + 1e-9)
    assert max(curve(epsilon - 1e-4, p, q), curve(epsilon - 1e-4, q, p)) > delta


def test_composed_is_never_above_pure_and_pure_alone_counts_beyond_its_reach() -> None:
    one = one_answer(CLS, build_table(CLS.law), 2, 1)
    for n in (1, 3, 40):
        assert composed(one, n, DELTA) <= n * one.pure * (1 + 1e-12)
    assert composed(one, 0, DELTA) == 0
    assert composed(one, MOST_COMPOSED + 1, DELTA) == math.inf
    assert answers.bound(one, 10, MOST_COMPOSED + 1, DELTA).accountant == PURE
    assert answers.bound(one, 300, 300, DELTA).accountant == COMPOSED


def policy(**changes: object) -> Policy:
    base = a_policy(
        class_name=CLS.name, class_digest=class_digest(CLS), table_digest=build_table(CLS.law).digest(), dimension=24,
        claim=ANSWERS, lo=0, hi=20, gain=4, n_max=10, epsilon_account="9", tau=10, gate=False, period_start=0, opens=0,
        closes=60, vocabulary=b"v" * 32, words_max=2, participations=5, similarity=1, answered_by=30,
    )  # fmt: skip
    return replace(base, **changes)  # type: ignore[arg-type]


def test_a_period_counts_every_answer_and_the_filter_only_those_of_one_document() -> None:
    windows = [Spent("w1", policy(), CLS, 60, answered=12), Spent("w2", policy(participations=7), CLS, 60, answered=30)]
    found = answers_period(windows, DELTA)
    one = one_answer(CLS, build_table(CLS.law), 4, 2)
    assert found.plain.answers == 42
    assert found.plain.pure == pytest.approx(42 * one.absent)
    assert found.filtered.answers == found.participations == 7
    assert found.filtered.pure == pytest.approx(7 * one.absent)
    assert found.plain.epsilon <= found.plain.pure
    more = answers_period([*windows, Spent("w3", policy(gain=8), CLS, 60, answered=0)], DELTA)
    assert more.plain.pure > found.plain.pure  # every answer is charged as the worst window's
    rows = named(ANSWERS).odometer(windows, DELTA)
    assert [row["answered"] for row in rows] == [12, 42]
    assert rows[0]["epsilon"] < rows[1]["epsilon"]


def test_filters_of_several_periods_add_up() -> None:
    """An auditor that looks further back than the policies do meets filters that began to count anew."""
    windows = [
        Spent("w1", policy(participations=3), CLS, 60, answered=1),
        Spent("w2", policy(participations=2, period_start=60, opens=60, closes=120), CLS, 60, answered=1),
        Spent("w3", policy(participations=4, period_start=60, opens=60, closes=120), CLS, 60, answered=1),
    ]
    assert answers_period(windows, DELTA).participations == 3 + 4
    assert answers_period(windows[1:], DELTA).participations == 4


def test_windows_of_answers_have_no_epsilon_of_lists() -> None:
    """Their one document moves every score, so a period of lists with such a window in it has no epsilon."""
    lists = replace(policy(), claim=EVERY_LIST, hi=5600, vocabulary=NO_VOCABULARY, words_max=0, participations=0)
    with pytest.raises(PolicyError, match="no epsilon of every list"):
        account_period([Spent("w1", policy(), CLS, 4), Spent("w2", lists, CLS, 4)], DELTA)


def test_what_is_no_period_of_answers() -> None:
    with pytest.raises(PolicyError, match="at least one window"):
        answers_period([], DELTA)
    lists = replace(policy(), claim=EVERY_LIST, hi=5600, vocabulary=NO_VOCABULARY, words_max=0, participations=0)
    with pytest.raises(PolicyError, match=r"make a claim other than answers, .*: w2; begin a new period"):
        answers_period([Spent("w1", policy(), CLS, 4), Spent("w2", lists, CLS, 4)], DELTA)
    with pytest.raises(PolicyError, match="have probability"):
        answers_period([Spent("w1", policy(), CLS, 60, answered=12)], Fraction(1, 1 << 80))
    with pytest.raises(PolicyError, match="smaller gain"):
        one_answer(CLS, build_table(CLS.law), 5000, 2)
    with pytest.raises(PolicyError, match="at least 1"):
        one_answer(CLS, build_table(CLS.law), 0, 2)
    with pytest.raises(PolicyError, match="words_max must be at least 1"):
        one_answer(CLS, build_table(CLS.law), 4, 0)
    with pytest.raises(PolicyError, match="whole steps"):
        one_answer(CLS, build_table("gaussian-512"), 4, 2)
    with pytest.raises(PolicyError, match="geometric noise"):
        one_answer(CLS, build_table("gaussian-512"), 4, 2)


def test_the_order_of_windows_changes_no_number() -> None:
    """Of windows that share a filter the largest counts, and of documents the one of the most parts."""
    windows = [
        Spent("w1", policy(participations=4, chunks_max=2), CLS, 60, answered=1),
        Spent("w2", policy(participations=2), CLS, 60, answered=1),
    ]
    one, other = (answers_period(order, DELTA) for order in (windows, windows[::-1]))
    assert one == other
    assert (one.participations, one.parts) == (4, 2)


def test_delta_is_spent_on_what_may_be_asked_and_what_was_answered() -> None:
    """Where the log shows more answers than accounts may ask for, all of them can be refused or end in a tail."""
    few, many = (answers_period([Spent("w1", policy(), CLS, 60, answered=n)], DELTA) for n in (60, 600))
    assert many.items["refusals and tails"] == pytest.approx(10 * few.items["refusals and tails"])
    for found, most in ((few, 60), (many, 600)):
        left = DELTA - most * found.alone.lost
        assert found.plain.composed == composed(found.alone, most, left)
        assert found.items["composed loss"] == float(left)
    with pytest.raises(PolicyError, match="refusals and tails of 60 answers have probability"):
        answers_period([Spent("w1", policy(), CLS, 60, answered=60)], 60 * few.alone.lost)


def test_nobody_takes_part_in_more_answers_than_there_are() -> None:
    found = answers_period([Spent("w1", policy(participations=50), CLS, 60, answered=3)], DELTA)
    assert found.participations == 50
    assert found.filtered == found.plain

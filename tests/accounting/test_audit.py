# SPDX-License-Identifier: GPL-3.0-or-later
"""The epsilon audit: published tables, a second implementation, infinite epsilon, itemised delta."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from ragseal.accounting import audit as accounting
from ragseal.accounting import pld, topk
from ragseal.accounting.audit import (
    FULL,
    ORDERED,
    SET_LOSSES,
    SET_RENYI,
    Bound,
    EpsilonReport,
    ScorePolicy,
    epsilon_audit,
    worst_shift,
)
from ragseal.circuits.circuit import load_classes
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.noise import NoiseTable, build_table
from ragseal.kernel.params import CircuitClass

pytestmark = pytest.mark.slow

DELTA = Fraction(1, 10**6)
GAUSSIAN = CircuitClass("g", "gaussian", 8352, 10, 49, 11, 18, 10, 4, Fraction(9), Fraction(9, 10))
GEOMETRIC = replace(GAUSSIAN, name="l", law="geometric", R=50)
STEPPED = load_classes()["noise-tiny-two"]
RANKED_ONE = load_classes()["noise-tiny-one"]
STEPS = load_classes()["noise-small-gaussian-50"]  # Gaussian noise in whole steps


def audit(
    shift: int,
    n: int,
    *,
    cls: AttestationClass = GAUSSIAN,
    delta: Fraction = DELTA,
    k_max: int = 1,
    chunks: int = 1,
    table: NoiseTable | None = None,
) -> EpsilonReport:
    table = table or build_table(cls.law)
    return epsilon_audit(
        cls,
        table,
        scores=ScorePolicy(gain=1 << cls.step_bits, lo=0, hi=shift),
        k_max=k_max,
        n_max=n // k_max,
        delta=delta,
        chunks=chunks,
    )


def full(*args: int, **terms: Any) -> Bound:
    """The full vector's bound."""
    return audit(*args, **terms).bound(FULL)


# Columns n = 1, 10, 100, 1e3, 1e4, delta = 1e-6, Gaussian table.
PUBLISHED = {
    13: ("0.19", "0.66", "2.29", "8.46", "36.3"),
    128: ("2.25", "8.31", "35.6", "199", "1487"),
    256: ("4.89", "19.4", "96.7", "649", "5474"),
    512: ("11.0", "49.3", "294", "2300", "20950"),
    1024: ("26.4", "139", "989", "8600", "81900"),
    1280: ("35.6", "199", "1487", "13251", "127383"),
    1536: ("45.8", "269.5", "2091", "inf", "inf"),
    1792: ("inf", "inf", "inf", "inf", "inf"),
    2048: ("inf", "inf", "inf", "inf", "inf"),
}


@pytest.mark.parametrize("shift", PUBLISHED)
def test_published_table(shift: int) -> None:
    for n, text in zip((1, 10, 100, 1000, 10000), PUBLISHED[shift], strict=True):
        found = accounting.full_bound(build_table("gaussian"), shift, n, float(DELTA))
        expected = float(text)
        assert found.agree
        if math.isinf(expected):
            assert found.certified == found.second == math.inf
        else:
            half_digit = 0.5 * 10.0 ** -(len(text.split(".")[1]) if "." in text else 0)
            assert found.epsilon == pytest.approx(expected, abs=1.2 * half_digit + 1e-5 * expected)
            assert found.epsilon == max(found.certified, found.second)


@pytest.mark.parametrize(("shift", "n"), [(128, 100), (1536, 100), (1536, 1000)])
def test_the_smallest_bound_is_reported_by_name(shift: int, n: int) -> None:
    report = audit(shift, n)
    whole = report.bound(FULL)
    assert report.agree
    if n > report.n_max_finite:
        assert report.epsilon == report.epsilon_account == math.inf
        assert all(bound.certified == bound.second == math.inf for bound in report.bounds)
    else:
        assert report.epsilon == min(bound.epsilon for bound in report.bounds if bound.agree)
        assert report.epsilon == report.bound(report.accountant).epsilon < whole.epsilon


def test_a_million_queries() -> None:
    # As 5 * 10^5 documents of two slots: the full vector alone, for the theorems take long.
    report = audit(128, 5 * 10**5, chunks=2)
    assert report.agree
    assert report.accountant == FULL
    assert report.epsilon == pytest.approx(127376, rel=2e-5)


@pytest.mark.parametrize("exponent", [4, 9, 20])
@pytest.mark.parametrize(("shift", "n"), [(1, 100), (16, 1000), (256, 100), (700, 3)])
@pytest.mark.parametrize("cls", [GAUSSIAN, STEPS, GEOMETRIC, replace(STEPPED, N=7488, K=10)], ids=lambda cls: cls.law)
def test_routes_agree(cls: AttestationClass, shift: int, n: int, exponent: int) -> None:
    table, delta = build_table(cls.law), 10.0**-exponent
    # Straight at the routes: the named failures of n queries may exceed the smallest of these deltas.
    found = (
        accounting.full_bound(table, shift, n, delta),
        *accounting.topk_bounds(table, cls.N, cls.K, shift, n, delta),
    )
    if pld.infinite_loss_mass(table, shift, n) < delta / 1000:
        for bound in found:
            if bound.accountant != FULL and (exponent == 20 or (n < 10 and bound.accountant == SET_RENYI)):
                continue  # tiny deltas or high orders: there the table's last entries differ from the ideal law
            assert bound.agree, bound
            assert bound.certified == pytest.approx(bound.second, rel=1e-3)
            assert bound.certified >= bound.second * (1 - 1e-4)


def test_routes_may_part_near_the_end_of_the_table() -> None:
    report = audit(1536, 100)
    assert report.delta_inf > float(DELTA) / 1000
    assert report.bound(FULL).certified > 1.003 * report.bound(FULL).second
    assert report.agree
    # The same difference is a disagreement where infinite loss does not explain it.
    assert not audit(256, 100, table=wider_table()).agree


def wider_table() -> NoiseTable:
    """A table that satisfies T1 to T4 but is not the Gaussian of sigma 256: mass moved from 0 to 1."""
    half = list(build_table("gaussian").half)
    weights = [math.exp(-x * x / (2 * 250.0**2)) for x in range(2000)]
    total = weights[0] + 2 * sum(weights[1:])
    half = [max(1, round(Fraction(w / total) * (1 << 128))) for w in weights]
    for x in range(1, len(half) - 1):
        half[x + 1] = min(half[x + 1], half[x] * half[x] // half[x - 1])
    half[0] = (1 << 128) - 2 * sum(half[1:])
    return NoiseTable("gaussian", tuple(half))


@pytest.mark.parametrize(("shift", "n"), [(13, 100), (128, 10), (256, 100), (512, 1000)])
def test_second_implementation(shift: int, n: int) -> None:
    module = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    # Without connect_dots its default grid is far too coarse.
    other = module.from_discrete_gaussian_mechanism(
        256, sensitivity=shift, value_discretization_interval=1e-3 if shift > 100 else 1e-4, use_connect_dots=True
    ).self_compose(n)
    assert full(shift, n).epsilon == pytest.approx(other.get_epsilon_for_delta(1e-6), rel=1e-3)


@pytest.mark.parametrize("shift", [8, 64])
@pytest.mark.parametrize(("cls", "scale"), [(GEOMETRIC, 32), (STEPPED, 16)], ids=["32", "16"])
def test_second_implementation_geometric(cls: AttestationClass, scale: int, shift: int) -> None:
    module = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    other = module.from_discrete_laplace_mechanism(
        1 / scale, sensitivity=shift, value_discretization_interval=1e-3, use_connect_dots=True
    ).self_compose(100)
    assert full(shift, 100, cls=cls).certified == pytest.approx(other.get_epsilon_for_delta(1e-6), rel=1e-3)


@pytest.mark.parametrize(("shift", "n"), [(16, 100), (64, 10), (256, 30)])
def test_second_implementation_of_the_gaussian_in_whole_steps(shift: int, n: int) -> None:
    module = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    other = module.from_discrete_gaussian_mechanism(
        128, sensitivity=shift, value_discretization_interval=1e-3 if shift > 100 else 1e-4, use_connect_dots=True
    ).self_compose(n)
    assert full(shift, n, cls=STEPS).epsilon == pytest.approx(other.get_epsilon_for_delta(1e-6), rel=1e-3)


def test_half_the_steps_of_half_the_sigma_cost_the_same() -> None:
    """A shift of mu sigma costs what mu says, whichever table has the sigma; a fraction of a step is free."""
    assert full(32, 100, cls=STEPS).epsilon == pytest.approx(full(64, 100).epsilon, rel=1e-3)
    assert audit(32, 100, cls=STEPS).mu == audit(64, 100).mu == 2.5
    width = (17 << STEPS.step_bits) - 1  # all but one unit of a seventeenth step
    one = accounting.epsilon_audit(
        STEPS, build_table(STEPS.law), scores=ScorePolicy(gain=1, lo=0, hi=width), k_max=1, n_max=30, delta=DELTA
    )
    assert one.shift == 16


def test_shift_is_rounded_up() -> None:
    assert worst_shift(GAUSSIAN, 16, 0, 256) == 256
    assert worst_shift(GAUSSIAN, 16, 100, 356) == 256
    assert worst_shift(GAUSSIAN, 1, 0, 17) == 2
    assert worst_shift(GAUSSIAN, 3, 0, 11) == 3
    for bad in ((0, 0, 5), (1, 5, 5), (1, -1, 5), (1, 6, 5)):
        with pytest.raises(PolicyError):
            worst_shift(GAUSSIAN, *bad)


def test_the_shift_of_a_noise_class_is_its_whole_steps() -> None:
    step = 1 << STEPPED.c
    assert [worst_shift(STEPPED, 1, 0, width) for width in (step, 2 * step - 1, 2 * step)] == [1, 1, 2]
    assert worst_shift(STEPPED, 3, 100, 100 + step) == 3
    assert worst_shift(STEPPED, 1, 0, step - 1) == 1  # nobody may open it, but what stands in a log is accounted


@pytest.mark.parametrize("cls", [GAUSSIAN, STEPPED], ids=lambda cls: cls.law)
def test_the_widest_window_of_a_shift(cls: AttestationClass) -> None:
    for shift in (1, 2, 97):
        assert cls.shift_of(cls.widest(shift)) == shift
        assert cls.shift_of(cls.widest(shift) + 1) == shift + 1


def test_coalition_and_chunks_compose() -> None:
    one, coalition = audit(128, 100), audit(128, 100, k_max=10)
    assert coalition.n == one.n == 100
    assert coalition.epsilon == pytest.approx(one.epsilon, rel=1e-12)
    assert coalition.epsilon_account == pytest.approx(audit(128, 10).epsilon, rel=1e-9)
    published = coalition.published
    assert published.closed_form == pytest.approx(math.sqrt(10) * coalition.epsilon_account)
    second_order = 10 * coalition.epsilon_account**2 / math.log(1e6)
    assert published.closed_form_in_full == pytest.approx(published.closed_form + second_order, rel=1e-4)
    # For all scores the closed form is no bound.
    assert math.sqrt(10) * full(128, 10).epsilon < full(128, 100).epsilon
    assert published.renyi_grid > full(128, 100).epsilon
    chunked = audit(128, 25, chunks=4)
    assert chunked.n == 25
    assert chunked.compositions == 100
    assert chunked.epsilon == pytest.approx(full(128, 100).epsilon, rel=1e-7)  # but for what refusals take of delta
    assert chunked.mu == one.mu


def test_documents_of_several_slots_are_accounted_by_the_full_vector_alone() -> None:
    chunked = audit(128, 25, chunks=4)
    assert chunked.accountant == FULL
    for name in (ORDERED, SET_LOSSES, SET_RENYI):
        bound = chunked.bound(name)
        assert bound.epsilon == math.inf
        assert "may fill 4 slots" in bound.unfit
    assert chunked.delta.others == 0.0
    assert audit(128, 25).accountant != FULL


def test_a_bound_whose_routes_differ_is_not_reported() -> None:
    honest = audit(256, 100)
    assert honest.accountant == SET_LOSSES
    # The table of another law under this name: nothing of it may be reported, and the audit says so.
    other = audit(256, 100, table=wider_table())
    assert not other.agree
    assert not any(bound.agree for bound in other.bounds)
    assert other.accountant == FULL


def test_the_others_bias_is_taken_from_delta(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []
    found = accounting.topk_bounds

    def listen(table: NoiseTable, N: int, K: int, shift: int, n: int, delta: float) -> tuple[Bound, ...]:
        asked.append(delta)
        return found(table, N, K, shift, n, delta)

    monkeypatch.setattr(accounting, "topk_bounds", listen)
    wide = replace(GAUSSIAN, N=16 << 24, m=13, q=16)
    bias = accounting.field_bias(wide) * (wide.N - 1) * 10**4
    report = audit(256, 10**4, cls=wide)
    assert bias > Fraction(1, 10**3)
    assert asked == [pytest.approx(report.delta.table * float(1 - bias), rel=1e-12)]
    monkeypatch.undo()
    many = 1000
    report = audit(256, many)
    eta = float(accounting.field_bias(GAUSSIAN)) * many
    assert report.accountant == SET_RENYI
    assert report.delta.others == pytest.approx(eta * (GAUSSIAN.N - 1) * report.delta.table)
    endless = replace(GAUSSIAN, N=16 << 26, m=13, q=16)
    bound = audit(2, 5 * 10**5, cls=endless).bound(ORDERED)
    assert "bias" in bound.unfit


def test_delta_is_itemised_and_never_exceeds_the_policy() -> None:
    n = 10**5
    report = audit(4, n)
    shares = report.delta
    assert shares.overflow == pytest.approx(n * 9 * 2.0**-64)  # a of this class
    assert 0 < shares.grid < n * 2.0**-79
    assert shares.places == pytest.approx(n * 49 * 2.0**-71)
    assert shares.truncation == report.delta_inf
    spent = Fraction(shares.table) * (1 + Fraction(shares.bias) / Fraction(shares.table))
    spent += Fraction(shares.overflow) + Fraction(shares.grid) + Fraction(shares.places)
    assert spent <= DELTA * (1 + Fraction(1, 10**14))
    assert shares.total == float(DELTA)
    assert shares.table < float(DELTA)
    found = audit(4, n, cls=STEPPED)
    assert (found.field_bias, found.delta.bias, found.delta.others, found.delta.places) == (0, 0, 0, 0)
    spent = Fraction(found.delta.table) + Fraction(found.delta.overflow) + Fraction(found.delta.grid)
    assert spent == pytest.approx(DELTA, rel=1e-14)
    assert found.delta.overflow == pytest.approx(n * float(STEPPED.a) * 2.0**-64)
    # Capacity for 208 coarse bits: 45.59 bits of margin a query, and 2 eta of epsilon.
    full = replace(GAUSSIAN, m=13, q=16)
    assert float(accounting.field_bias(full)) == pytest.approx(2.0**-45.597, rel=1e-3)
    biased = audit(4, n, cls=full)
    assert biased.field_bias == pytest.approx(n * 2.0**-45.597, rel=1e-3)
    assert biased.bound(FULL).certified >= report.bound(FULL).certified + 1.9 * biased.field_bias


def test_delta_smaller_than_named_failures_is_refused() -> None:
    with pytest.raises(PolicyError, match="used up"):
        audit(4, 10**5, delta=Fraction(1, 10**16))


def test_attack_bounds() -> None:
    gaussian = audit(256, 1)
    assert gaussian.mu == 1.0
    assert gaussian.auc == pytest.approx(0.7602, abs=1e-4)
    assert gaussian.advantage == pytest.approx(0.3829, abs=1e-4)
    for shift, cls in ((32, GEOMETRIC), (16, STEPPED)):
        geometric = audit(shift, 1, cls=cls)
        assert geometric.mu is None
        # Exact total variation of one shift by b: tanh-like, 1 - e^(-1/2) for the continuous law.
        assert 1 - math.exp(-0.5) <= geometric.advantage < 0.6
        assert geometric.advantage < geometric.auc < 1


def test_refusals() -> None:
    table = build_table("gaussian")
    with pytest.raises(PolicyError, match="law"):
        audit(16, 1, table=build_table("geometric"))
    broken = NoiseTable("gaussian", (table.half[0] - 2, table.half[1] + 2, *table.half[2:]))
    with pytest.raises(PolicyError, match="T2"):
        audit(16, 1, table=broken)
    for bad in ({"k_max": 0}, {"n_max": 0}, {"delta": Fraction(0)}, {"delta": Fraction(1)}, {"chunks": 0}):
        values: dict[str, int | Fraction] = {"k_max": 1, "n_max": 1, "delta": DELTA}
        with pytest.raises(PolicyError):
            epsilon_audit(GAUSSIAN, table, scores=ScorePolicy(1, 0, 9), **(values | bad))  # type: ignore[arg-type]
    with pytest.raises(PolicyError, match="beyond"):
        audit(16, 10**10)
    # A shift beyond the whole table is infinite, not an error.
    assert audit(7000, 1).epsilon == math.inf


def test_the_set_never_costs_more_than_its_order_or_all_scores() -> None:
    for cls in (GAUSSIAN, GEOMETRIC, replace(STEPPED, N=7488, K=10)):
        for shift, n in ((8, 1), (64, 30)):
            report = audit(shift, n, cls=cls)
            losses, ordered, whole = (report.bound(name).epsilon for name in (SET_LOSSES, ORDERED, FULL))
            assert losses <= ordered * (1 + 1e-3)
            assert ordered <= whole * (1 + 1e-6)
            assert report.epsilon <= losses
    assert audit(128, 100, k_max=10).epsilon < 0.4 * full(128, 100, k_max=10).epsilon


def test_epsilon_grows_with_the_shift() -> None:
    """What lets windows of different gains be accounted at the largest shift among them."""
    for cls in (GAUSSIAN, STEPS, GEOMETRIC, STEPPED):
        reports = [audit(shift, 50, cls=cls) for shift in (32, 33, 129)]
        for name in (FULL, ORDERED, SET_LOSSES, SET_RENYI):
            found = [report.bound(name).epsilon for report in reports]
            assert found == sorted(found)


@pytest.mark.parametrize("cls", [replace(GEOMETRIC, name="o", law="one-sided"), RANKED_ONE], ids=lambda cls: cls.law)
def test_one_sided_noise_has_no_epsilon_about_every_list(cls: AttestationClass) -> None:
    """At any delta below 1: a value below the shift shows for certain which content the slot has."""
    table, step = build_table(cls.law), 1 << cls.step_bits
    for delta in (Fraction(1, 10**6), Fraction(99, 100)):
        report = accounting.epsilon_audit(
            cls, table, scores=ScorePolicy(gain=1, lo=0, hi=step), k_max=1, n_max=1, delta=delta
        )
        assert report.epsilon == report.epsilon_account == math.inf
        assert {bound.epsilon for bound in report.bounds} == {math.inf}
        assert all("every list" in bound.unfit for bound in report.bounds)
        assert (report.delta_inf, report.n_max_finite) == (1.0, 0)
        assert report.published.renyi_grid == math.inf
        bound = accounting.audited_bound(cls, table, 1, 1, 1, delta)
        assert bound.epsilon == math.inf
        assert accounting.full_bound(table, 1, 1, float(delta)).epsilon == math.inf
        assert topk.topk_epsilon(table, N=126, K=3, shift=1, n=1, delta=float(delta)).best == math.inf
        assert all(one.epsilon == math.inf for one in accounting.topk_bounds(table, 126, 3, 1, 1, float(delta)))
    for refused in (
        lambda: pld.loss_atoms(table, 1),
        lambda: pld.compose(table, 1, 1, 0.5),
        lambda: pld.truncated_pure_epsilon(table, 1, 1, 0.5),
        lambda: topk.threshold_law(table, 126, 3),
        lambda: topk.ordered_atoms(table, 1, 126, 3),
        lambda: topk.set_curve(table, 1, 126, 3),
        lambda: topk.SetRenyi(table, 1, 126, 3),
    ):
        with pytest.raises(PolicyError, match="one-sided"):
            refused()

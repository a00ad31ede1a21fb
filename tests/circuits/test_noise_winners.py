# SPDX-License-Identifier: GPL-3.0-or-later
"""Cheats against the statement with noise's clip, flags, threshold and returned set.

Each forged statement is completed as well as it can be, quotients and multiplicities included, so that exactly one rule
stands against it.  The R1CS must reject it, and must accept it once the rows of that rule are dropped: the rule is what
rejects.  (Inputs determine every other wire, so rejecting the completed witness rejects the statement.)
"""

from __future__ import annotations

import dataclasses

import pytest

from ragseal.kernel import noise, statement
from ragseal.kernel.errors import UnprovableError
from ragseal.kernel.noise_statement import NoiseLayout
from ragseal.kernel.statements import stated_of
from tests.circuits.noise_drafts import PLACES, DraftPlace, NoiseDraft, NoiseSetting, centred, finish, multiplier
from tests.circuits.noise_forgeries import (
    check,
    first,
    losers,
    of_place,
    requests,
    without,
)
from tests.circuits.r1cs import P
from tests.circuits.rules import assert_only_rule, boolean_row, fractions, linear_row
from tests.circuits.scene import compiled, noise_tiny
from tests.classes import TINY

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=PLACES, ids=str)
def tiny(request: pytest.FixtureRequest) -> NoiseSetting:
    return NoiseSetting(noise_tiny(), compiled(noise_tiny()), *request.param)


# --- the clip, flags --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [-40, -1, 0, 1, 2, 40])
def test_a_flag_is_set_exactly_from_the_first_step_on(tiny: NoiseSetting, k: int) -> None:
    """All slots at one digit: the honest flag holds; the other one, with whatever it does to v, is refused."""
    tried = 0
    for number in range(1000, 1040):
        try:
            d = tiny.honest(number, [k] * tiny.cls.N)
        except UnprovableError:
            continue
        assert all(one.flag == (k >= 1) for one in d.returned())
        assert not tiny.r1cs.violations(tiny.r1cs.solve(d.inputs()))
        p = max(d.places, key=d.score)
        p.positive = 1 - p.positive
        if p.clipped(d.steps) + p.b < d.entry:
            continue  # with a score of k below 0 or of 0 for k it no longer is a full place
        distances = list(d.x)
        d.settle()
        d.x = distances
        if not p.win:
            continue
        assert statement.Returned(p.slot, k < 1) in d.returned()
        assert_only_rule(tiny, d.inputs(), *fractions(tiny.r1cs, "|".join(of_place(d, r"f\[\d+\]", p))))
        tried += 1
        if tried == 2:
            return
    raise AssertionError("no request offers this attack")


@pytest.mark.parametrize("raised", [True, False])
def test_t_states_another_flag_than_its_place(tiny: NoiseSetting, raised: bool) -> None:
    for d in requests(tiny, -100, 1 if raised else 150):
        returned = d.returned()
        at = next((k for k, one in enumerate(returned) if one.flag != raised), None)
        if at is not None:
            break
    d.stated = [dataclasses.replace(one, flag=raised) if k == at else one for k, one in enumerate(returned)]
    assert_only_rule(tiny, d.inputs(), *fractions(tiny.r1cs, rf"inside\[{at}\]\.fInside"))


def test_one_slot_with_both_flags_in_t(tiny: NoiseSetting) -> None:
    d = tiny.honest(1000)
    i = d.ids[0]
    honest = d.returned()[0]
    d.stated = [statement.Returned(i, False), statement.Returned(i, True), d.returned()[2]]
    wrong = [k for k in range(2) if k == 1 or d.stated[k] != honest]
    assert_only_rule(tiny, d.inputs(), *fractions(tiny.r1cs, "|".join(rf"inside\[{k}\]\.fInside" for k in wrong)))


def test_a_score_above_the_window_is_not_clipped(tiny: NoiseSetting) -> None:
    def forge(d: NoiseDraft) -> list[str] | None:
        p = max((p for p in losers(d) if p.k > d.steps), key=lambda p: p.k, default=None)
        if p is None:
            return None
        p.capped = 0
        d.settle()
        return of_place(d, r"f\[\d+\]", p)

    check(tiny, forge, high=600, steps=60)


def test_a_score_in_the_window_is_taken_for_the_full_one(tiny: NoiseSetting) -> None:
    def forge(d: NoiseDraft) -> list[str] | None:
        p = min((p for p in losers(d) if 1 <= p.k <= d.steps), key=lambda p: p.k, default=None)
        if p is None:
            return None
        p.capped = 1
        d.settle()
        return of_place(d, r"f\[\d+\]", p)

    check(tiny, forge)


# --- the threshold and T ----------------------------------------------------------------------------------------------


def test_a_loser_is_returned_instead_of_a_winner(tiny: NoiseSetting) -> None:
    def forge(d: NoiseDraft) -> list[str]:
        ranked = sorted(d.places, key=lambda p: (-d.score(p), p.slot))
        winner, loser = ranked[d.cls.K - 1], ranked[d.cls.K]
        winner.win, loser.win = 0, 1
        d.ids = sorted(p.slot for p in d.places if p.win)
        return of_place(d, r"f\[\d+\]", winner, loser)

    check(tiny, forge)


def test_the_committed_set_is_not_the_winners(tiny: NoiseSetting) -> None:
    def forge(d: NoiseDraft) -> list[str]:
        d.ids[-1] = max(d.ids) + 1
        return [rf"inside\[{d.cls.K - 1}\]\.fInside"]

    check(tiny, forge)


def test_a_commitment_to_another_set(tiny: NoiseSetting) -> None:
    d = tiny.honest(1000)
    inputs = d.inputs()
    d.ids[-1] = max(d.ids) + 1
    (inputs[tiny.r1cs.wire_of["t_commit"]],) = stated_of(d.cls).lists(d.salt, d.t(), 1)
    assert_only_rule(tiny, inputs, linear_row(tiny.r1cs, "t_commit"))


def test_a_threshold_below_the_entry() -> None:
    """Below the entry a slot outside of the places could win as well."""
    cls = dataclasses.replace(noise_tiny(), name="noise-crowded", K=4, R=6)
    crowded = NoiseSetting(cls, compiled(cls))
    for number in range(3000, 3100):
        d = crowded.draft(number, [0] * cls.N)
        finish(d)
        if d.threshold < d.entry:
            assert_only_rule(crowded, d.inputs(), *fractions(crowded.r1cs, r"limits\.f\[1\]"))
            return
    raise AssertionError("no query overflows")


@pytest.mark.parametrize(
    "group",
    [
        "placeShift",
        "placePositive",
        "placeCapped",
        "placeFull",
        "placeCounted",
        "placeSign",
        "placeWins",
        "thetaChoice",
    ],
)
def test_bits_are_bits(tiny: NoiseSetting, group: str) -> None:
    count = {"thetaChoice": tiny.cls.grid}.get(group, tiny.cls.R)
    for k in range(count):
        boolean_row(tiny.r1cs, f"{group}[{k}]")


# Cheats with what should be a bit or a set and is not, against the statement with noise; as test_noise_winners.


@pytest.fixture(scope="module", params=PLACES, ids=str)
def noise_bits_tiny(request: pytest.FixtureRequest) -> NoiseSetting:
    return NoiseSetting(TINY, compiled(TINY), *request.param)


def test_a_sign_that_is_no_bit(noise_bits_tiny: NoiseSetting) -> None:
    """Sign 2 folds a uniform between a third and a half to another one, and gives the noise -3 z."""

    def forge(d: NoiseDraft) -> list[str] | None:
        total = d.cls.table.total
        for p in (p for p in d.places if p.win):
            uniform = (p.u << d.cls.fine_bits) + p.fine
            folded = uniform + 2 * (total - 1 - 2 * uniform)
            if total // 2 <= folded < total:
                p.sign, p.z = 2, noise.inverse_cdf(d.cls.table, folded)
                p.before, p.upto = d.cls.table.cdf(p.z - 1), d.cls.table.cdf(p.z)
                d.settle()
                return [f"placeSign[{d.places.index(p)}]"] if d.threshold >= d.entry else None
        return None

    d, (name,) = first(noise_bits_tiny, forge)
    assert_only_rule(noise_bits_tiny, d.inputs(), boolean_row(noise_bits_tiny.r1cs, name))


def test_a_clip_case_that_is_no_bit(noise_bits_tiny: NoiseSetting) -> None:
    """2 for "above the window's lower end" counts a score twice, and says so of the next slot's flag in T."""

    def forge(d: NoiseDraft) -> list[str] | None:
        p = max((p for p in losers(d) if 0 < p.k <= d.steps), key=lambda p: p.k, default=None)
        if p is None:
            return None
        p.positive = 2
        d.settle()
        d.stated = sorted(statement.unpacked(2 * q.slot + q.positive) for q in d.places if q.win)
        return [f"placePositive[{d.places.index(p)}]"] if p.win and len(set(d.stated)) == d.cls.K else None

    d, (name,) = first(noise_bits_tiny, forge)
    assert_only_rule(noise_bits_tiny, d.inputs(), boolean_row(noise_bits_tiny.r1cs, name))


def test_a_cap_that_is_no_bit(noise_bits_tiny: NoiseSetting) -> None:
    """2 for "above the window" takes what is above off twice: a winner loses."""

    def forge(d: NoiseDraft) -> list[str] | None:
        for p in (p for p in d.places if p.win and p.k > d.steps):
            p.capped = 2
            if p.clipped(d.steps) + p.b >= d.entry:
                d.settle()
                return [f"placeCapped[{d.places.index(p)}]"] if d.threshold >= d.entry else None
            p.capped = 1
        return None

    d, (name,) = first(noise_bits_tiny, forge, high=600, steps=60)
    assert_only_rule(noise_bits_tiny, d.inputs(), boolean_row(noise_bits_tiny.r1cs, name))


def test_a_theta_of_five_points_hides_noise_that_wins_alone(noise_bits_tiny: NoiseSetting) -> None:
    """Beside "none", c at g1, -c behind it, -c at g2 and c behind it: the same theta, and a bound as low as c makes it.

    Sums up to a point, which multiplicities are weighed with, are 0 but at g1 and g2, coarse bits that no slot has.
    """
    choices: list[dict[int, int]] = []

    def forge(d: NoiseDraft) -> list[str] | None:
        victim = next((p for p in d.places if p.win and p.u >= d.theta and p.k + p.b < d.entry), None)
        if victim is None or not without(d, victim) or not all(0 <= x < 2048 for x in d.x):
            return None
        grid, bounds = d.cls.grid, d.cls.bounds
        least = (1 << d.cls.m) - grid + 1
        step = {g: bounds[least + g] - bounds[least + g - 1] for g in range(grid - 1) if least + g not in d.u}
        high, low = (pick(step, key=lambda g: step[g]) for pick in (max, min))
        if step[high] == step[low] or abs(high - low) == 1:
            return None
        d.theta = 1 << d.cls.m  # "none"
        for p in d.places:
            p.counted = 0
        c = -(-(bounds[-1] - d.entry + 1) // (step[high] - step[low]))
        choice = dict.fromkeys((high, high + 1, low, low + 1, grid - 1), 0)
        for g, value in ((high, c), (high + 1, -c), (low, -c), (low + 1, c), (grid - 1, 1)):
            choice[g] += value
        choices.append(choice)
        return [f"thetaChoice[{g}]" for g in choice]

    d, names = first(noise_bits_tiny, forge, low=-1300, high=-1100)
    choice, groups, h = choices[-1], NoiseLayout(d.cls).by_name, d.hints()
    least = (1 << d.cls.m) - d.cls.grid + 1
    for g, value in choice.items():
        h[groups["thetaChoice"].offset + g] = value
    bound = sum(value * d.cls.bounds[least + g - 1] for g, value in choice.items())
    h[groups["rangeCount"].offset + d.entry - 1 - bound] += 1
    rows = set.union(*(boolean_row(noise_bits_tiny.r1cs, name) for name in names))
    assert_only_rule(noise_bits_tiny, d.inputs(h), rows)


def test_a_winner_twice_in_the_set(noise_bits_tiny: NoiseSetting) -> None:
    """T with a repeated id is no set: increasing order forbids it, the winners' fractions too."""
    d = noise_bits_tiny.honest(1000)
    d.ids[1] = d.ids[0]
    assert_only_rule(
        noise_bits_tiny,
        d.inputs(),
        *fractions(noise_bits_tiny.r1cs, r"inside\[1\]\.fInside", r"increasing\.f\[1\]\[\d+\]"),
    )


# Cheats against the two ends of the order of places, and against the order of T. A place outside of the slots can
# have a slot's key all the same: a slot number further up and coarse bits lower, or the other way round. Its
# numerator is the slot's as well where the slot's score is made for it: scores come from a provider's own columns.
# Only the gaps before the first and after the last place keep such places out.


def made_for(d: NoiseDraft, i: int, fake: DraftPlace) -> None:
    """A score of slot i with which its numerator is that of a place of the same key."""
    wanted = multiplier(fake.k, fake.b, fake.x, d.entry, d.steps)
    y = fake.x + d.b[i] - d.entry + 1
    assert wanted
    assert y + d.steps
    k = centred(wanted * pow(y + d.steps, -1, P) - y)
    d.w[i] = (k << d.cls.c) + d.remainder[i]
    assert (multiplier(d.digit(i), d.b[i], fake.x, d.entry, d.steps) - wanted) % P == 0


def key(d: NoiseDraft, slot: int, u: int, x: int) -> int:
    return slot + (u << (d.cls.L + 1)) + (x << (d.cls.L + 1 + d.cls.m))


def test_an_edge_place_beyond_the_last_slot(tiny: NoiseSetting) -> None:
    """Slot i + 2^(L+1) with coarse bits u - 1 has the key of slot i with u."""

    def forge(d: NoiseDraft) -> list[str] | None:
        inside = {p.slot for p in d.places}
        for i in range(d.cls.N):
            k = d.entry - 1 - d.cls.bounds[d.u[i] - 1]
            if i not in inside and 1 <= d.u[i] < d.theta and 1 <= k <= d.steps:
                break
        else:
            return None
        fake = d.clip(DraftPlace(i + (2 << d.cls.L), k, d.u[i] - 1, d.cls.bounds[d.u[i] - 1], 0))
        assert key(d, fake.slot, fake.u, fake.x) == key(d, i, d.u[i], fake.x)
        made_for(d, i, fake)
        d.places[-1] = fake
        d.draw()
        d.settle()
        d.x[i] = fake.x
        return [rf"order\.f\[{d.cls.R}\]\[\d+\]"]

    check(tiny, forge, same=True)


def test_a_full_place_before_the_first_slot(tiny: NoiseSetting) -> None:
    """Slot i - 2^(L+1) with coarse bits u + 1; it takes the first rank, and all others move: another T."""

    def forge(d: NoiseDraft) -> list[str] | None:
        inside = {p.slot for p in d.places}
        if sum(p.full for p in d.places) == d.cls.R - 1:
            return None  # the last place is not full by a rule of its own
        for i in range(d.cls.N):
            k = d.entry - d.cls.bounds[min(d.u[i] + 1, 255)]
            if i not in inside and d.u[i] + 1 < d.theta and 1 <= k <= d.steps:
                break
        else:
            return None
        fake = d.clip(DraftPlace(i - (2 << d.cls.L), k, d.u[i] + 1, d.cls.bounds[d.u[i] + 1], 1, shift=1))
        assert key(d, fake.slot, fake.u, fake.x) == key(d, i, d.u[i], fake.x)
        made_for(d, i, fake)
        d.places = [fake, *d.places[:-1]]
        d.draw()
        d.settle()
        d.x[i] = fake.x
        return [r"order\.f\[0\]\[\d+\]"] if not fake.win and d.threshold >= d.entry else None

    check(tiny, forge)


def test_t_in_another_order(tiny: NoiseSetting) -> None:
    """The same winners, packed in another order: another commitment to T for one and the same set."""
    d = next(requests(tiny))
    one, two, three = d.returned()
    d.stated = [two, one, three]
    assert_only_rule(tiny, d.inputs(), *fractions(tiny.r1cs, r"increasing\.f\[[12]\]\[\d+\]"))

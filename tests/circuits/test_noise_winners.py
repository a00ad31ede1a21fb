# SPDX-License-Identifier: GPL-3.0-or-later
"""Cheats against the statement with noise's clip, flags, threshold and returned set.

Each forged statement is completed as well as it can be, quotients and multiplicities included, so that exactly one rule
stands against it.  The R1CS must reject it, and must accept it once the rows of that rule are dropped: the rule is what
rejects.  (Inputs determine every other wire, so rejecting the completed witness rejects the statement.)
"""

from __future__ import annotations

import dataclasses

import pytest

from ragseal.kernel import statement
from ragseal.kernel.errors import UnprovableError
from ragseal.kernel.statements import stated_of
from tests.circuits.noise_drafts import PLACES, NoiseDraft, NoiseSetting, finish
from tests.circuits.noise_forgeries import (
    check,
    losers,
    of_place,
    requests,
)
from tests.circuits.rules import assert_only_rule, boolean_row, fractions, linear_row
from tests.circuits.scene import compiled, noise_tiny

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
        boolean_row(tiny.r1cs, f"{group}[{k}]" + ("[0]" if group == "placeSign" else ""))

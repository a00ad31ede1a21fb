# SPDX-License-Identifier: GPL-3.0-or-later
"""Cheats with winners, flags and bits against the statement, at the level of the compiled rows.  SPEC B.

Each forged statement is completed as well as it can be, quotients and multiplicities included, so that exactly one rule
stands against it.  The R1CS must reject it, and must accept it once the rows of that rule are dropped: the rule is
what rejects.  (Inputs determine every other wire, so rejecting the completed witness rejects the statement.)
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator

import pytest

from ragseal.kernel import statement
from ragseal.kernel.errors import UnprovableError
from tests.circuits.drafts import Draft, Setting
from tests.circuits.forgeries import bit_patterns, check, requests, swap, unneeded
from tests.circuits.rules import assert_only_rule, boolean_row, fractions

pytestmark = pytest.mark.slow


# --- the top K --------------------------------------------------------------------------------------------------------


def test_a_loser_is_returned_instead_of_a_winner(tiny: Setting) -> None:
    def forge(d: Draft) -> list[str]:
        ranked = sorted(d.places, key=lambda p: (-d.score(p), p.slot))
        winner, loser = ranked[d.cls.K - 1], ranked[d.cls.K]
        winner.win, loser.win = 0, 1
        d.ids = sorted(p.slot for p in d.places if p.win)
        return bit_patterns(d, r"win\.f\[\d+\]", winner, loser)

    check(tiny, forge)


def test_the_committed_set_is_not_the_winners(tiny: Setting) -> None:
    def forge(d: Draft) -> list[str]:
        d.ids[-1] = max(d.ids) + 1
        return [rf"fSet\[{d.cls.K - 1}\]"]

    check(tiny, forge)


def test_a_winner_twice_in_the_set(tiny: Setting) -> None:
    """T with a repeated id is no set: increasing order forbids it, the winners' fractions too."""
    d = tiny.honest(1000)
    d.ids[1] = d.ids[0]
    assert_only_rule(tiny, d.inputs(), *fractions(tiny.r1cs, r"fSet\[1\]", r"increasing\.f\[0\]\[\d+\]"))


# --- flags ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("w", [-40, -1, 0, 1, 2, 40])
def test_a_flag_is_set_exactly_above_the_lower_end(tiny: Setting, w: int) -> None:
    """All slots at one score: the honest flag holds; the other one, with whatever it does to v, is refused."""
    tried = 0
    for d in requests_at(tiny, w):
        assert all(one.flag == (w > 0) for one in d.returned())
        assert not tiny.r1cs.violations(tiny.r1cs.solve(d.inputs()))
        p = max(d.places, key=d.score)
        p.low = 1 - p.low
        d.settle()
        if not p.win:  # v has moved by w, below the threshold
            continue
        assert statement.Returned(p.slot, w <= 0) in d.returned()
        assert_only_rule(tiny, d.inputs(), *fractions(tiny.r1cs, "|".join(bit_patterns(d, r"clip\.f\[\d+\]", p))))
        tried += 1
        if tried == 2:
            return
    raise AssertionError("no request offers this attack")


def requests_at(setting: Setting, w: int) -> Iterator[Draft]:
    for number in range(1000, 1040):
        with contextlib.suppress(UnprovableError):
            yield setting.honest(number, [w] * setting.cls.N)


@pytest.mark.parametrize("raised", [True, False])
def test_t_states_another_flag_than_its_place(tiny: Setting, raised: bool) -> None:
    for d in requests(tiny):
        returned = d.returned()
        at = next((k for k, one in enumerate(returned) if one.flag != raised), None)
        if at is not None:
            break
    d.stated = [dataclasses.replace(one, flag=raised) if k == at else one for k, one in enumerate(returned)]
    assert_only_rule(tiny, d.inputs(), *fractions(tiny.r1cs, rf"fSet\[{at}\]"))


def test_one_slot_with_both_flags_in_t(tiny: Setting) -> None:
    """(i, 0) and (i, 1) increase strictly; that places differ keeps them from being two winners."""
    d = tiny.honest(1000)
    i = d.ids[0]
    d.stated = [statement.Returned(i, False), statement.Returned(i, True), d.returned()[2]]
    unproven = 1 if d.returned()[0] == d.stated[0] else 0
    patterns = [rf"fSet\[{k}\]" for k in range(2) if k in (unproven, 1)]
    assert_only_rule(tiny, d.inputs(), *fractions(tiny.r1cs, "|".join(patterns)))


def test_the_threshold_slot_reaches_beyond_its_bits(tiny: Setting) -> None:
    """i* in a chunk wider than L bits lowers the threshold for winners but not for what must be opened."""

    def forge(d: Draft) -> list[str] | None:
        cls = d.cls
        assert cls.c > cls.L
        for i in range(cls.N):
            victim = d.open(i)
            exact = d.score(victim) - min(max(victim.w, 0), d.hmax)
            slack = victim.b - exact
            if slack > 4:
                continue
            # A slot whose bound is almost its exact noise gets the score that makes it the last winner.
            d.w[i] = -(10**5)
            tiny.choose(d)
            d.settle()
            last = d.place(d.threshold_slot)
            value, set_without = d.score(last), list(d.ids)
            d.w[i] = value + 1 - exact
            tiny.choose(d)
            d.settle()
            if not 0 <= d.w[i] <= d.hmax or i not in d.ids or d.u[i] >= d.theta:
                return None
            # Leave it out, with the threshold above its bound; i* makes up for the difference.
            swap(d, d.place(i), d.open(unneeded(d)))
            d.threshold = d.w[i] + d.b[i] + 1
            d.threshold_slot = ((d.threshold - value) << cls.L) + last.slot
            assert 1 << cls.L <= d.threshold_slot < 1 << cls.c
            for p in d.places:
                distance = ((d.score(p) - d.threshold) << cls.L) - p.slot + d.threshold_slot
                p.win = int(distance >= 0)
            d.ids = sorted(p.slot for p in d.places if p.win)
            assert d.ids == set_without
            d.settle_slots()
            return [r"thresholdSlot\.f\[1\]"]
        return None

    check(tiny, forge, hmax=30000)


# --- the count of slots above theta -----------------------------------------------------------------------------------


@pytest.mark.parametrize("group", ["pcl", "pch", "psg", "pwin", "pcnt", "sel"])
def test_bits_are_bits(setting: Setting, group: str) -> None:
    if group == "psg" and setting.cls.law == "one-sided":
        return  # 0 and nothing else: test_noise_of_a_one_sided_class_has_no_sign
    count = statement.Layout(setting.cls).by_name[group].count
    for k in range(count):
        boolean_row(setting.r1cs, f"{group}[{k}]")

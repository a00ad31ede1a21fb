# SPDX-License-Identifier: GPL-3.0-or-later
"""Policies that promise what the noise does not give.  Epsilon that is not finite is printed as inf, never a number."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import pytest

from ragseal.accounting import audit
from ragseal.accounting.audit import ScorePolicy
from ragseal.accounting.claims import named
from ragseal.accounting.rounding import upward
from ragseal.kernel.attestation import Answer, Openings
from ragseal.kernel.claims import EVERY_LIST
from ragseal.kernel.noise import build_table
from ragseal.kernel.noise_class import NoiseClass
from ragseal.verifier.evidence.evidence import ReceiptFile
from ragseal.verifier.outcome.outcome import Verdict
from ragseal.verifier.report import document, page
from tests.attacks.checks import ADVERTISED, EPSILON_FINITE, WITHHELD_BY_THE_GUARD, without
from tests.attacks.machine import policy
from tests.attacks.world import AttackWorld, accepted, refused
from tests.classes import GAUSSIAN, TINY
from tests.simulator import resign
from tests.simulator.parties import LOUD

pytestmark = pytest.mark.slow

#: one account is bounded, a coalition of 2,000 is not: the table ends before their 6,000 queries do
BOUNDLESS = {**LOUD, "k_max": 2000, "epsilon_account": "1000000"}


def _world(**changes: Any) -> AttackWorld:
    world = AttackWorld()
    world.commit(policy_=policy(**changes))
    world.ask("alice")
    world.close()
    return world


def _numbers(values: Any, name: str = "") -> list[tuple[str, Any]]:
    """Every leaf of a report whose name speaks of epsilon."""
    if isinstance(values, dict):
        return [leaf for key, value in values.items() if key != "timings" for leaf in _numbers(value, key)]
    if isinstance(values, list):
        return [leaf for value in values for leaf in _numbers(value, name)]
    return [(name, values)] if "epsilon" in name else []


def _nowhere_a_number(verdict: Verdict) -> dict[str, Any]:
    """No epsilon of the coalition is a finite number in line, report.json or page; the report."""
    built = document.build(verdict)
    values: dict[str, Any] = json.loads(document.to_json(built))
    of_coalition = [
        (name, value)
        for name, value in _numbers(values)
        if not re.search("account|advertised|claimed_for|unchecked", name)
    ]
    assert of_coalition
    for name, value in of_coalition:
        assert value in (None, "inf") or not isinstance(value, int | float), f"{name} = {value}"
    assert not re.search(r"epsilon_audit\s*=\s*[0-9]", verdict.line())
    shown = re.findall(r"epsilon_audit(?:=|(?:</\w+>|<[^>]*>|\s|:)+)([^\s<]+)", page.render(built))
    assert all(value == "inf" for value in shown), shown
    return values


def test_coalition_without_a_finite_epsilon() -> None:
    verdict = refused(_world(**BOUNDLESS), 11, "no finite epsilon follows")
    values = _nowhere_a_number(verdict)
    assert values["epsilon_audit"] is None
    evidence = next(step for step in values["steps"] if step["number"] == 11)["evidence"]
    assert evidence["epsilon_audit"] == "inf"
    assert evidence[f"epsilon_by_loss_distribution[{TINY.name}]"] == "inf"
    assert evidence[f"epsilon_by_curve[{TINY.name}]"] == "inf"
    assert isinstance(evidence[f"largest_finite_n[{TINY.name}]"], int), "how many queries would be bounded is said"

    with without(EPSILON_FINITE):
        world = _world(**BOUNDLESS)
        verdict = world.audit()
    assert verdict.verdict == "PASS", verdict.line()
    assert " epsilon_audit=inf " in verdict.line()
    values = _nowhere_a_number(verdict)
    assert values["epsilon_audit"] == values["epsilon"]["epsilon_audit"] == "inf"


def test_one_window_without_a_bound_makes_the_period_boundless() -> None:
    """The windows of a period add up: inf plus any number is inf."""

    def made() -> AttackWorld:
        world = AttackWorld()
        first = {**BOUNDLESS, "k_max": 2}
        world.commit("w0", policy_=policy(**{**first, "n_max": 3000}))
        world.close()
        world.messages[-1] = replace(world.messages[-1], records=0)  # type: ignore[type-var]
        opens = world.messages[-1].time  # type: ignore[attr-defined]
        world.seed = (5, 6)
        world.commit("w1", policy_=policy(epsilon_account="1000000", opens=opens - 3000))
        world.messages[-1] = replace(world.messages[-1], time=opens)  # type: ignore[type-var]
        world.close()
        return world

    verdict = refused(made(), 11, "no finite epsilon follows", window="w1")
    _nowhere_a_number(verdict)


def test_less_is_advertised_than_the_noise_gives() -> None:
    changes = {"epsilon_account": "1/2"}
    refused(_world(**changes), 11, "the policy advertises epsilon 1/2 to one account, the noise gives")
    with without(ADVERTISED):
        assert _world(**changes).audit().verdict == "PASS"


@pytest.mark.parametrize(("cls", "shift"), [(TINY, 850), (GAUSSIAN, 2545)])
def test_infinite_exactly_when_the_mass_of_infinite_loss_reaches_delta(cls: NoiseClass, shift: int) -> None:
    """From the largest n that is called finite on every epsilon is inf; up to it none is."""
    table = build_table(cls.law)

    def at(n: int) -> audit.EpsilonReport:
        hi = shift << cls.step_bits
        return audit.epsilon_audit(
            cls, table, scores=ScorePolicy(gain=1, lo=0, hi=hi), k_max=1, n_max=n, delta=Fraction(1, 10**6)
        )

    most = at(1).n_max_finite
    assert 1 < most < 10**6
    last, beyond = at(most), at(most + 1)
    assert math.isfinite(last.epsilon)
    for value in (beyond.epsilon, *(value for bound in beyond.bounds for value in (bound.certified, bound.second))):
        assert math.isinf(value)
        assert upward(value) == "inf"


@pytest.mark.parametrize("value", [math.inf, math.nan, -math.inf])
def test_printed_as_inf(value: float) -> None:
    assert upward(value) == "inf"
    assert document.plain({"epsilon": value})["epsilon"] in ("inf", "nan", "-inf")
    assert "epsilon" in named(EVERY_LIST).text()


# A guard that takes more than its policy allows, or less, or that no policy names. SPEC M.10, B.4.6.


@cache
def guarded() -> AttackWorld:
    """A closed window whose policy names a guard, all answers as it has them."""
    made = AttackWorld()
    made.commit(
        policy_=policy(lo=0, epsilon_account="100", guard="returned", guard_rho="1/20", guard_formula="precise")
    )
    for name in ("alice", "carol", "bob"):
        made.ask(name)
    made.close()
    return made


def shown(world: AttackWorld, openings: Openings, at: int) -> list[ReceiptFile]:
    """All receipts, one of them signed for other openings."""
    files = world.receipts()
    answer = files[at].answer
    assert answer is not None
    receipt = resign(world, answer.receipt, replace(answer.receipt.body, openings_digest=openings.digest()))
    files[at] = replace(files[at], receipt=receipt, answer=Answer(answer.record, openings, receipt))
    return files


def an_answer(world: AttackWorld) -> tuple[int, Openings]:
    """One with two texts to withhold, or more."""
    for at, file in enumerate(world.receipts()):
        if file.answer is not None and sum(bool(slot.texts) for slot in file.answer.openings.slots) >= 1:
            return at, file.answer.openings
    raise AssertionError("no answer of this window has a text besides the withheld one")


def test_an_honest_window_with_a_guard_passes_and_says_so() -> None:
    verdict = accepted(guarded(), receipts=guarded().receipts())
    assert " guard=returned:precise:1/20 " in verdict.line()


def test_a_guard_that_withholds_more_than_it_may() -> None:
    world = guarded()
    at, openings = an_answer(world)
    everything = replace(openings, slots=tuple(replace(slot, texts=()) for slot in openings.slots))
    files = shown(world, everything, at)
    refused(world, 7, "withholds exactly 1 of", receipts=files)
    with without(WITHHELD_BY_THE_GUARD):
        accepted(world, receipts=files)


def test_a_guard_that_withholds_nothing() -> None:
    """Now and then a text withheld, now and then none: that would say when the guard found something."""
    world = guarded()
    at, openings = an_answer(world)
    donor = next(slot.texts for slot in openings.slots if slot.texts)
    missing = next(i for i, slot in enumerate(openings.slots) if slot.flag and not slot.texts)
    slots = list(openings.slots)
    slots[missing] = replace(slots[missing], texts=donor)
    refused(world, 7, "withholds exactly 1 of", receipts=shown(world, replace(openings, slots=tuple(slots)), at))

# SPDX-License-Identifier: GPL-3.0-or-later
"""Steps 10 and 11 against tables and budgets that give less than was promised."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from ragseal.accounting.audit import FULL, ORDERED, SET_LOSSES, SET_RENYI, ScorePolicy, epsilon_audit
from ragseal.kernel import noise
from ragseal.kernel.commitment import (
    SignedManifest,
    WindowClose,
    WindowOpen,
)
from ragseal.kernel.noise import NoiseTable, build_table
from ragseal.kernel.noise_class import NoiseClass, with_noise
from ragseal.verifier.audit import verification
from ragseal.verifier.steps.dp_accounting_check import second_opinion
from tests.classes import GAUSSIAN, TINY
from tests.simulator import (
    OPENS,
    World,
    policy,
)
from tests.simulator.parties import LOUD
from tests.verifier.attacks import Attacks

ATTACKS = Attacks()
attack = ATTACKS.add
undecided = ATTACKS.open

# --- steps 10 and 11 -------------------------------------------------------------------------------------------------


def test_noise_table_rules_are_checked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another builder behind the same digest check: T1-T4 are the auditor's own business."""
    half = list(noise.build_table(TINY.law).half)
    moved = half[5] // 1000
    half[5], half[7] = half[5] - moved, half[7] + moved
    crooked = NoiseTable(TINY.law, tuple(half))
    verdict = _audit_with_table(monkeypatch, crooked)
    assert verdict.obstacle is not None
    assert (verdict.obstacle.number, "T4" in verdict.line()) == (10, True), verdict.line()


def test_noise_table_digest_is_the_policys(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = _audit_with_table(monkeypatch, noise.build_table(GAUSSIAN.law))
    assert verdict.obstacle is not None
    assert (verdict.obstacle.number, "T5" in verdict.line()) == (10, True), verdict.line()


def test_the_bound_on_overflows_is_evaluated_again() -> None:
    """A class file under which R is a mere assertion: delta counts 2^-64 a query for it."""
    world = World.honest()
    own = world.auditor()
    cls, digest = own.classes[TINY.name]
    edited = replace(own, classes={TINY.name: (replace(with_noise(cls), a=with_noise(cls).a * 2), digest)})
    verdict = world.audit(auditor=edited)
    assert verdict.obstacle is not None
    assert (verdict.obstacle.number, "not proven enough" in verdict.line()) == (10, True), verdict.line()


def _audit_with_table(monkeypatch: pytest.MonkeyPatch, table: Any) -> verification.Verdict:
    world = World.honest()
    real = verification.check_noise

    class OfAnotherBuilder:
        """The class, whose table another builder made."""

        def __init__(self, cls: Any) -> None:
            self._cls = cls

        def tables(self, decoy_rate: int) -> tuple[Any, ...]:
            return (table,)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._cls, name)

    def step(window: Any, *rest: Any) -> Any:
        # step 2 compares the policy's digest with the real table; step 10 looks at the table itself
        return real(replace(window, cls=OfAnotherBuilder(window.cls)), *rest)

    monkeypatch.setattr(verification, "check_noise", step)
    return world.audit()


@attack(11, "advertises epsilon 1/2")
def advertised_too_little() -> Any:
    return World.honest(policy_=policy(epsilon_account="1/2"))


@attack(11, "no finite epsilon|used up")
def no_finite_epsilon() -> Any:
    return World.honest(policy_=policy(delta="1/1000000000000000000000000000000", epsilon_account="1000"))


@attack(11, "no finite epsilon")
def noise_too_small_for_the_shift() -> Any:
    return World.honest(policy_=policy(**LOUD, k_max=50, epsilon_account="1000000"))


@undecided(11, "no circuit class 'gone'")
def earlier_window_of_an_unknown_class() -> Any:
    world = World()
    world.commit("w0", policy_=policy(class_name="gone"))
    world.messages.append(WindowClose(world.digest, 0, OPENS + 60))
    world.commit("w1")
    world.close()
    return world


@undecided(11, "another build of the circuit class")
def earlier_window_of_another_build() -> Any:
    world = World()
    world.commit("w0", policy_=policy(class_digest=bytes(32)))
    world.messages.append(WindowClose(world.digest, 0, OPENS + 60))
    world.commit("w1")
    world.close()
    return world


@attack(11, "an earlier window's manifest")
def earlier_manifest_forged() -> Any:
    world = World()
    world.commit("w0")
    index = world.at(SignedManifest)
    world.messages[index] = SignedManifest(world.manifest, bytes(64))
    world.messages.append(WindowClose(world.digest, 0, OPENS + 60))
    world.commit("w1")
    world.close()
    return world


def test_an_earlier_window_that_broke_its_budget_is_charged_in_full() -> None:
    world = World()
    world.commit("w0", policy_=policy(n_max=1))
    for _ in range(3):
        world.ask("alice")
    world.messages.append(WindowClose(world.digest, 3, OPENS + 60))
    world.messages[world.at(WindowOpen)] = replace(world.messages[world.at(WindowOpen)], time=OPENS)  # type: ignore[type-var]
    world.commit("w1")
    world.close()
    verdict = world.audit()
    assert verdict.budget is not None, verdict.line()
    assert [spent.queries for spent in verdict.budget.windows] == [3, 3]


@pytest.mark.slow
def test_windows_count_by_when_they_opened_not_by_when_their_manifest_was_entered() -> None:
    """w0 is committed to after w1 and runs before it, which only an audit of w1 refuses: that of w2 charges both."""
    world = World()
    world.enter_manifest("w1")
    first = (world.manifest, world.digest, world.provider_nonce)
    world.commit("w0", policy_=policy(n_max=5))
    world.messages[-1] = WindowOpen(world.digest, world.beacon, OPENS)
    world.messages.append(WindowClose(world.digest, 0, OPENS + 60))
    world.manifest, world.digest, world.provider_nonce = first
    world.enter_beacon()
    world.messages.append(WindowClose(world.digest, 0, OPENS + 60))
    world.commit("w2")
    world.close()
    verdict = world.audit(window="w2")
    assert verdict.budget is not None, verdict.line()
    assert {spent.window: spent.queries for spent in verdict.budget.windows} == {"w0": 5, "w1": 3, "w2": 3}


def test_abandoned_windows_are_counted_and_cost_nothing() -> None:
    world = World()
    world.enter_manifest("w0")
    world.commit("w1")
    world.close()
    verdict = world.audit()
    assert verdict.budget is not None, verdict.line()
    assert [spent.window for spent in verdict.budget.windows] == ["w1"]
    assert verdict.steps[1].evidence["abandoned_before"] == 1


@pytest.mark.parametrize("name", ATTACKS.names())
def test_attack_ends_at_its_step(name: str) -> None:
    ATTACKS.run(name)


# dp-accounting beside every accountant, whichever is reported, for both symmetric laws.


@pytest.mark.slow
@pytest.mark.parametrize(("cls", "shift"), [(TINY, 32), (GAUSSIAN, 64)], ids=lambda one: getattr(one, "name", one))
def test_every_accountant_is_confirmed(cls: NoiseClass, shift: int) -> None:
    pytest.importorskip("dp_accounting")
    found = epsilon_audit(
        cls,
        build_table(cls.law),
        scores=ScorePolicy(gain=1, lo=0, hi=shift << cls.step_bits),
        k_max=1,
        n_max=30,
        delta=Fraction(1, 10**6),
    )
    for accountant in (FULL, ORDERED, SET_LOSSES, SET_RENYI):
        report = replace(found, accountant=accountant, epsilon=found.bound(accountant).epsilon)
        opinion = second_opinion(cls, report)
        assert opinion.epsilon == pytest.approx(report.epsilon, rel=5e-3)
        assert opinion.agrees
        assert not second_opinion(cls, replace(report, epsilon=1.02 * report.epsilon)).agrees

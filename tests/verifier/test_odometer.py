# SPDX-License-Identifier: GPL-3.0-or-later
"""Step 11 against providers that try to start a budget period again: what counts, what is left out, what is printed."""

from __future__ import annotations

import importlib
import importlib.metadata
import sys
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from ragseal.accounting import period
from ragseal.accounting.audit import FULL, ScorePolicy, epsilon_audit
from ragseal.accounting.claims import named
from ragseal.accounting.claims.claim import Claim
from ragseal.accounting.ideal_channel import ideal_channel
from ragseal.kernel import noise
from ragseal.kernel.beacon import BeaconCommit
from ragseal.kernel.commitment import (
    SignedManifest,
    WindowClose,
    WindowOpen,
)
from ragseal.kernel.policy import UNTIL_DELIVERED
from ragseal.verifier.evidence.evidence import Auditor
from ragseal.verifier.outcome.outcome import Verdict
from ragseal.verifier.report import document, page
from ragseal.verifier.steps import dp_accounting_check
from ragseal.verifier.steps import period as periods
from ragseal.verifier.steps.log import LogView
from ragseal.verifier.steps.manifest import Entered
from tests.classes import GAUSSIAN, TINY
from tests.simulator import CLS, NOW, OPENS, World, policy
from tests.simulator.coined import CoinedWorld
from tests.simulator.entries import signed_manifest
from tests.simulator.parties import LOUD

pytestmark = pytest.mark.slow

HOUR = 3600


def window(world: World, number: int, **changes: Any) -> None:
    """Window w<number>: an hour after the one before, closed after ten minutes, nothing asked."""
    start = OPENS + number * HOUR
    world.commit(f"w{number}", policy_=policy(opens=start, closes=start + HOUR, **changes))
    world.messages[-1] = replace(world.messages[-1], time=start)  # type: ignore[type-var]
    world.messages.append(WindowClose(world.digest, 0, start + 600))


def audited(world: World, auditor: Auditor | None = None, **options: Any) -> Verdict:
    verdict = world.audit(auditor=auditor or world.auditor(), now=NOW + 100 * HOUR, **options)
    assert verdict.budget is not None, verdict.line()
    return verdict


def refused(world: World, step: int, match: str, auditor: Auditor | None = None) -> None:
    verdict = world.audit(auditor=auditor or world.auditor(), now=NOW + 100 * HOUR)
    assert verdict.failure is not None, verdict.line()
    assert (verdict.failure.number, match in verdict.line()) == (step, True), verdict.line()


def undecided(world: World, step: int, match: str, auditor: Auditor | None = None) -> None:
    verdict = world.audit(auditor=auditor or world.auditor(), now=NOW + 100 * HOUR)
    assert verdict.obstacle is not None, verdict.line()
    assert (verdict.obstacle.number, match in verdict.line()) == (step, True), verdict.line()


def details(verdict: Verdict) -> dict[str, Any]:
    assert verdict.budget is not None
    values: dict[str, Any] = document.build(verdict)["epsilon"]
    return values


def test_the_audited_window_counts_whatever_rounding_does_to_its_times() -> None:
    """The period begins half a minute after a full one; the log says full minutes, so the window seems to lie before.

    It would be left out of its own period, and its epsilon be that of nothing.
    """
    world = World()
    start = OPENS + 30
    world.commit("w0", policy_=policy(opens=start, closes=start + HOUR, period_start=start))
    world.messages[-1] = replace(world.messages[-1], time=OPENS)  # type: ignore[type-var]
    world.messages.append(WindowClose(world.digest, 0, OPENS))
    assert [one.window for one in audited(world).budget.windows] == ["w0"]  # type: ignore[union-attr]


def test_a_window_of_the_minute_in_which_the_period_began_counts() -> None:
    """By full minutes nobody can tell whether it ended before the period began or after."""
    world = World()
    window(world, 0)
    window(world, 1, period_start=OPENS + 630)  # w0 was closed at OPENS + 600, rounded down
    assert [one.window for one in audited(world).budget.windows] == ["w0", "w1"]  # type: ignore[union-attr]
    later = World()
    window(later, 0)
    window(later, 1, period_start=OPENS + 660)
    assert [one.window for one in audited(later).budget.windows] == ["w1"]  # type: ignore[union-attr]


def without_coins() -> World:
    world = World()
    world.commit("w0")
    return world


def with_coins() -> World:
    world = CoinedWorld()
    world.commit("w0")
    return world


def with_carried_coins() -> World:
    world = CoinedWorld()
    world.commit("w0")
    world.commit("w1", carries=world.digest)
    return world


@pytest.mark.parametrize("make", [without_coins, with_coins, with_carried_coins])
@pytest.mark.parametrize("opened", [True, False])
def test_many_windows_take_work_in_proportion(make: Callable[[], World], opened: bool) -> None:
    """What accounts asked, and whose coins a window carries on, is not looked for in the whole log for each window."""
    world = make()
    world.ask("alice")
    work = [lines_of_the_period(world, number, opened) / number for number in (50, 400)]
    assert work[1] < 1.1 * work[0], "a step for every pair of windows makes eight times as many"


def lines_of_the_period(world: World, number: int, opened: bool) -> int:
    """How many lines of ragseal step 11 runs to find what counts, where ``number`` windows like the newest one follow.

    Args:
        opened: whether all of them were opened, or only the audited one, the last.
    """
    messages, record = list(world.messages), world.messages[-1]
    auditor = replace(world.auditor(), released={})
    for i in range(number):
        manifest = replace(world.manifest, window=f"x{i}")
        digest = manifest.digest()
        auditor.released[digest] = b""  # type: ignore[index]
        messages.append(signed_manifest(manifest, world.provider))
        if opened or i == number - 1:
            messages += [
                WindowOpen(digest, 1, OPENS),
                replace(record, manifest=digest),  # type: ignore[type-var]
                WindowClose(digest, 1, OPENS),
            ]
    unused: Any = None
    view = LogView(unused, (b"",) * len(messages), unused, tuple(messages))
    last = Entered(0, SignedManifest(manifest, bytes(64)), digest)
    ours, steps = str(Path(periods.__file__).parents[2]), 0

    def count(frame: Any, event: str, argument: Any) -> Any:
        nonlocal steps
        if not frame.f_code.co_filename.startswith(ours):
            return None
        steps += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        found = periods.period(view, last, auditor)
    finally:
        sys.settrace(before)
    assert len(found.windows) >= (number if opened else 1)
    return steps


def test_an_auditors_own_period_that_has_no_finite_epsilon_is_no_verdict() -> None:
    """The provider's policies are bounded; only the beginning that this auditor chose counts w0 in."""
    world = World()
    window(world, 0, **LOUD, n_max=3000, k_max=2, epsilon_account="1000000")
    window(world, 1, period_start=OPENS + HOUR)
    assert audited(world).verdict == "PASS"
    undecided(world, 11, "no finite epsilon", replace(world.auditor(), since=OPENS))
    honest = World()
    window(honest, 0, **LOUD, n_max=3000, k_max=2, epsilon_account="1000000")
    window(honest, 1)
    refused(honest, 11, "no finite epsilon")


def test_windows_add_up_and_the_odometer_says_how() -> None:
    world = World()
    for number in range(3):
        window(world, number)
    verdict = audited(world)
    values = details(verdict)
    rows = values["odometer"]
    assert [row["window"] for row in rows] == ["w0", "w1", "w2"]
    assert [row["coalition_queries"] for row in rows] == [6, 12, 18]
    spent = [row["epsilon"] for row in rows]
    assert spent == sorted(spent)
    assert len(set(spent)) == 3
    assert spent[-1] == values["epsilon_audit"] == verdict.budget.epsilon  # type: ignore[union-attr]
    p = policy()
    terms = {"scores": ScorePolicy(p.gain, p.lo, p.hi), "k_max": 2, "delta": Fraction(1, 10**6)}
    alone = epsilon_audit(CLS, noise.build_table(CLS.law), n_max=3, **terms)  # type: ignore[arg-type]
    assert spent[0] == alone.epsilon
    text = page.render(document.build(verdict))
    assert "Odometer of the period" in text
    assert "w2" in text
    assert "Theorem B, Renyi" in text
    assert "Poseidon is a pseudorandom function" in text


def test_a_window_that_is_closed_early_or_unused_costs_its_whole_budget() -> None:
    world = World()
    window(world, 0, n_max=50)
    window(world, 1)
    assert [one.queries for one in audited(world).budget.windows] == [50, 3]  # type: ignore[union-attr]


def test_the_largest_coalition_of_the_period_counts() -> None:
    """A provider that names fewer accounts in its last window has not unmade the coalitions of the first."""
    world = World()
    window(world, 0, k_max=5)
    window(world, 1, k_max=2)
    values = details(audited(world))
    assert values["k_max_of_the_period"] == 5
    assert values["coalition_queries"] == 5 * (3 + 3)
    assert [row["coalition_queries"] for row in values["odometer"]] == [15, 30]


def test_the_largest_document_of_the_period_counts() -> None:
    world = World()
    window(world, 0, chunks_max=4, epsilon_account="10")
    window(world, 1)
    values = details(audited(world))
    assert values["slots_of_a_document"] == 4
    assert values["accountant"] == FULL
    assert next(c for c in values["conditions"] if "fills one slot" in c["condition"])["holds"] is False


def window_epsilon(slots: int) -> float:
    """Of a log of one window whose documents fill so many slots."""
    world = World()
    window(world, 0, chunks_max=slots, epsilon_account="10")
    budget = audited(world).budget
    assert budget is not None
    return budget.epsilon


@pytest.mark.parametrize("slots", [1, 2])
def test_a_verdict_is_about_documents_whole(slots: int) -> None:
    """Of a document of two slots the line says so, and its epsilon is that of twice as many queries."""
    world = World()
    window(world, 0, chunks_max=slots, epsilon_account="10")
    verdict = audited(world)
    assert (" document=2-slots" in verdict.line()) == (slots == 2)
    budget = verdict.budget
    assert budget is not None
    assert budget.lists is not None
    assert budget.lists.chunks == slots
    assert (budget.epsilon > window_epsilon(1)) == (slots == 2)
    said = budget.claim.text(budget.slots)
    assert ("each query counts as 2 queries" in said) == (slots == 2)
    assert ("2 times those of one slot" in named(UNTIL_DELIVERED).text(slots)) == (slots == 2)


def test_the_largest_gain_of_the_period_counts() -> None:
    world = World()
    window(world, 0, gain=90, epsilon_account="20")
    window(world, 1)
    both = details(audited(world))
    (name,) = both["accounting"]
    assert both["accounting"][name]["shift"] == policy(gain=90).shift(CLS)
    assert [row["shift"] for row in both["odometer"]] == [policy(gain=90).shift(CLS), policy().shift(CLS)]
    narrow = World()
    window(narrow, 0)
    window(narrow, 1)
    assert both["epsilon_audit"] > details(audited(narrow))["epsilon_audit"]


def test_another_law_in_between_is_added_with_its_share_of_delta() -> None:
    digest = bytes(range(32))
    world = World()
    window(
        world, 0, class_name=GAUSSIAN.name, class_digest=digest, table_digest=noise.build_table(GAUSSIAN.law).digest()
    )
    window(world, 1)
    own = world.auditor()
    auditor = replace(own, classes={**own.classes, GAUSSIAN.name: (GAUSSIAN, digest)})
    found = audited(world, auditor)
    assert found.budget is not None
    assert found.budget.lists is not None
    reports = found.budget.lists.reports
    assert set(reports) == {TINY.name, GAUSSIAN.name}
    assert found.budget.epsilon == pytest.approx(sum(one.epsilon for one in reports.values()), rel=1e-12)
    assert all(one.delta.policy == pytest.approx(5e-7) for one in reports.values())
    undecided(world, 11, "no circuit class")


def test_another_noise_table_in_between_leaves_no_verdict() -> None:
    world = World()
    window(world, 0, table_digest=noise.build_table(GAUSSIAN.law).digest())
    window(world, 1)
    undecided(world, 11, f"not the canonical {CLS.law} table")


def test_places_of_an_earlier_class_have_to_be_proven() -> None:
    world = World()
    window(world, 0, class_name="weak", class_digest=bytes(32))
    window(world, 1)
    own = world.auditor()
    weak = replace(CLS, name="weak", a=CLS.a * 2)
    undecided(world, 11, "not proven enough", replace(own, classes={**own.classes, "weak": (weak, bytes(32))}))


def test_records_of_a_window_that_never_opened_leave_no_epsilon() -> None:
    """Answers first, then no beacon: nobody can audit that noise, so no later window passes."""
    world = World()
    start = OPENS
    world.enter_manifest("w0", policy_=policy(opens=start, closes=start + HOUR))
    world.beacon = 1
    world.ask("alice")
    window(world, 1)
    refused(world, 11, "not opened before them")


def test_answers_before_a_late_opening_leave_no_epsilon() -> None:
    """Attack: answers under w0, then a clean w1, and only then an opening for w0, which would not be counted."""
    world = World()
    world.enter_manifest("w0", policy_=policy(opens=OPENS, closes=OPENS + HOUR, n_max=50))
    world.beacon, early = 1, world.digest
    world.ask("alice")
    window(world, 1)
    world.messages += [WindowOpen(early, 1, OPENS + HOUR + 700), WindowClose(early, 1, OPENS + HOUR + 760)]
    verdict = world.audit(auditor=world.auditor(), window="w1", now=NOW + 100 * HOUR)
    assert verdict.line().startswith("FAIL step=11 "), verdict.line()
    assert "not opened before them" in verdict.line()


def test_a_log_that_is_dated_back_hides_no_window() -> None:
    """Attack: w0 ran an hour ago, and its entries say that it ran long before the period began."""
    world = World()
    window(world, -100, n_max=50, period_start=OPENS - 100 * HOUR)
    window(world, 0, period_start=OPENS - HOUR)
    assert [one["window"] for one in details(audited(world))["windows_left_out"]] == ["w-100"]
    # Ahead of w-100's opening the log has the auditor's commitment to a nonce, which it drew at OPENS.
    commit = next(m for m in world.messages if isinstance(m, BeaconCommit) and m.owner == "auditor")
    world.drawn[commit.manifest] = OPENS
    # Nobody else took part in it: the auditor's own commitment is the anchor.
    strange = [m for m in world.messages if isinstance(m, BeaconCommit) and m.owner != "auditor"]
    world.messages = [m for m in world.messages if m not in strange or m.manifest != commit.manifest]
    assert [one["window"] for one in details(audited(world))["windows_of_the_period"]] == ["w-100", "w0"]


def test_records_of_a_window_without_a_manifest_leave_no_epsilon() -> None:
    """Opened and used, but its manifest was kept back: no budget stands in the log that could be charged."""
    world = World()
    world.commit("w0", policy_=policy(opens=OPENS, closes=OPENS + HOUR))
    world.ask("alice")
    world.messages.append(WindowClose(world.digest, 1, OPENS + 600))
    world.messages = [m for m in world.messages if not isinstance(m, SignedManifest)]
    window(world, 1)
    refused(world, 11, "no manifest")


def test_a_moved_period_start_is_legal_and_shown() -> None:
    world = World()
    window(world, 0, n_max=50)
    start = OPENS + HOUR
    window(world, 1, period_start=start)
    verdict = audited(world)
    values = details(verdict)
    assert [one["window"] for one in values["windows_of_the_period"]] == ["w1"]
    assert [one["window"] for one in values["windows_left_out"]] == ["w0"]
    assert values["epsilon_of_the_whole_log"] > 2 * values["epsilon_audit"]
    assert "w0" in page.render(document.build(verdict))

    # An auditor with a period of its own counts it, whatever the policy says.
    strict = details(audited(world, replace(world.auditor(), since=OPENS)))
    assert [one["window"] for one in strict["windows_of_the_period"]] == ["w0", "w1"]
    assert strict["epsilon_audit"] == values["epsilon_of_the_whole_log"]
    assert strict["epsilon_of_the_whole_log"] is None
    # It can move the beginning to the past only.
    late = details(audited(world, replace(world.auditor(), since=OPENS + 10 * HOUR)))
    assert [one["window"] for one in late["windows_of_the_period"]] == ["w1"]


@pytest.mark.parametrize("second", [False, True])
def test_a_closing_entry_with_an_old_time_hides_nothing(second: bool) -> None:
    """The budget begins again at 1:00 and the first window was used at 1:10, whatever its closing entry claims."""
    world = World()
    world.commit("w0", policy_=policy(opens=OPENS, closes=OPENS + 2 * HOUR, n_max=50))
    world.messages[-1] = replace(world.messages[-1], time=OPENS)  # type: ignore[type-var]
    world.ask("alice", record={"time": OPENS + HOUR + 600})
    if second:
        world.messages.append(WindowClose(world.digest, 1, OPENS + HOUR + 900))
    world.messages.append(WindowClose(world.digest, 1, OPENS + 60))
    window(world, 2, period_start=OPENS + HOUR)
    assert [one.window for one in audited(world).budget.windows] == ["w0", "w2"]  # type: ignore[union-attr]


def test_many_windows_do_not_restart_the_budget_and_the_table_stays_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Claim, "most_rows", 2)
    world = World()
    for number in range(5):
        window(world, number)
    values = details(audited(world))
    assert values["coalition_queries"] == 5 * 6
    rows = values["odometer"]
    assert len(rows) == 3
    assert rows[0]["window"] == "(3 windows)"
    assert rows[0]["coalition_queries"] == 18
    assert rows[-1]["epsilon"] == values["epsilon_audit"]
    assert [row["epsilon"] for row in rows] == sorted(row["epsilon"] for row in rows)


def test_an_unsigned_manifest_that_was_left_out_is_refused_too() -> None:
    world = World()
    window(world, 0)
    index = world.at(SignedManifest)
    world.messages[index] = SignedManifest(world.manifest, bytes(64))
    window(world, 1, period_start=OPENS + HOUR)
    refused(world, 11, "an earlier window's manifest")


# --- a second implementation -----------------------------------------------------------------------------------------


def test_the_second_implementation_confirms() -> None:
    pytest.importorskip("dp_accounting")
    (opinion,) = details(audited(World.honest()))["second_implementation"].values()
    assert opinion["agrees"]
    assert opinion["implementation"].startswith("dp-accounting ")
    assert opinion["epsilon"] == pytest.approx(details(audited(World.honest()))["epsilon_audit"], rel=5e-3)


def test_an_audit_does_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    with_it = details(audited(World.honest()))
    monkeypatch.setattr(importlib.metadata, "version", gone)
    without = details(audited(World.honest()))
    assert without["epsilon_audit"] == with_it["epsilon_audit"]
    (opinion,) = without["second_implementation"].values()
    assert opinion["epsilon"] is None
    assert "not installed" in opinion["remark"]
    assert opinion["remark"].startswith("not asked")
    assert opinion["agrees"] is None, "nobody agreed"


def test_an_implementation_that_disagrees_leaves_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("dp_accounting")
    channel = ideal_channel

    def wider(law: str, N: int, K: int, shift: int) -> Any:
        return channel(law, N, K, shift * 2)

    monkeypatch.setattr("ragseal.verifier.steps.dp_accounting_check.ideal_channel", wider)
    monkeypatch.setattr(
        dp_accounting_check, "one_query_curve", lambda law, N, K, shift: wider(law, N, K, shift).curve()
    )
    monkeypatch.setattr(dp_accounting_check, "scale_of", lambda law: noise.scale_of(law) // 2)
    monkeypatch.setattr(
        dp_accounting_check, "_composed", dp_accounting_check._composed.__wrapped__
    )  # nothing kept from other tests
    undecided(World.honest(), 11, "dp-accounting")


def test_routes_that_disagree_leave_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(period, "epsilon_audit", lambda *a, **k: replace(epsilon_audit(*a, **k), agree=False))
    undecided(World.honest(), 11, "disagree")

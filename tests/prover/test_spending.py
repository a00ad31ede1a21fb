# SPDX-License-Identifier: GPL-3.0-or-later
"""What a provider says of its budget period before it commits: the same number that the auditor will print."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from ragseal.accounting.answers import answers_period
from ragseal.accounting.delivered_period import delivered_period
from ragseal.accounting.spent import Spent
from ragseal.circuits.circuit import load_classes
from ragseal.kernel.beacon import AUDITOR, PROVIDER, BeaconSeal
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.commitment import (
    CoinCommitment,
    SignedManifest,
    WindowClose,
)
from ragseal.kernel.enrolment import places
from ragseal.kernel.errors import ConfigurationError
from ragseal.kernel.policy import UNTIL_DELIVERED, Policy
from ragseal.prover.planning.spending import lines, spending
from ragseal.prover.storage.window import Window
from tests.accounting.test_answers import policy as answers_policy
from tests.classes import DECOYS
from tests.simulator import CLS, NOW, OPENS, World, policy
from tests.simulator.coined import RATE
from tests.simulator.coined import policy as a_coined_policy
from tests.simulator.parties import LOUD

HOUR = 3600


def classes(name: str) -> AttestationClass:
    known = {cls.name: cls for cls in (CLS, DECOYS)}
    if name not in known:
        raise ConfigurationError(f"no class {name}")
    return known[name]


def history(world: World) -> list[Window]:
    """The provider's view of the windows in a simulated log."""
    found: dict[bytes, Window] = {}
    for index, message in enumerate(world.messages):
        if isinstance(message, SignedManifest):
            digest = message.manifest.digest()
            found[digest] = Window(message, digest, index, beacon=1)
        if isinstance(message, WindowClose):
            found[message.manifest].close = message
    return list(found.values())


def window(world: World, number: int, **changes: Any) -> None:
    start = OPENS + number * HOUR
    world.commit(f"w{number}", policy_=policy(opens=start, closes=start + HOUR, **changes))
    world.messages[-1] = replace(world.messages[-1], time=start)  # type: ignore[type-var]
    world.messages.append(WindowClose(world.digest, 0, start + 600))


def test_the_provider_foresees_what_the_auditor_certifies() -> None:
    world = World()
    window(world, 0, k_max=4)
    before = history(world)
    following = policy(opens=OPENS + HOUR, closes=OPENS + 2 * HOUR)
    foreseen = spending(before, classes, following)
    assert [row["window"] for row in foreseen["windows"]] == ["w0"]
    window(world, 1)
    verdict = world.audit(now=NOW + 10 * HOUR)
    assert verdict.budget is not None, verdict.line()
    assert foreseen["epsilon"] == verdict.budget.epsilon
    assert foreseen["coalition_queries"] == verdict.budget.queries == 4 * 6
    text = " ".join(lines(foreseen))
    assert "up to window w0: epsilon" in text
    assert "12 queries that a coalition may ask; 0 were asked" in text
    assert "an auditor will certify epsilon" in text

    now = spending(history(world), classes)
    assert now["windows"][-1]["epsilon"] == verdict.budget.epsilon
    assert "epsilon" not in now


def test_a_new_period_starts_at_nothing_and_nothing_is_said_before_the_first_window() -> None:
    world = World()
    assert spending([], classes) == {}
    assert lines({}) == []
    window(world, 0, n_max=50)
    anew = policy(opens=OPENS + HOUR, closes=OPENS + 2 * HOUR, period_start=OPENS + HOUR)
    values = spending(history(world), classes, anew)
    assert values["windows"] == []
    assert values["coalition_queries"] == 6


@pytest.mark.parametrize("changes", [{**LOUD, "k_max": 50}, {"delta": "1/" + "1" + "0" * 30}])
def test_a_budget_without_an_epsilon_is_said(changes: dict[str, Any]) -> None:
    values = spending([], classes, policy(**changes))
    assert values.get("epsilon") == "inf" or "used up" in values["error"]
    assert lines(values)


def test_an_unknown_class_is_said() -> None:
    world = World()
    window(world, 0, class_name="gone")
    assert "no class gone" in spending(history(world), classes)["error"]


# --- claim until-delivered -------------------------------------------------------------------------------------------

ACCOUNTS = 5


def coined_policy(**changes: Any) -> Policy:
    return a_coined_policy(**{"hidden": 13, **changes})


def coined_window(world: World, number: int, **changes: Any) -> Window:
    """A window of a coined policy, opened."""
    start = OPENS + number * HOUR
    world.commit(f"w{number}", policy_=policy(opens=start, closes=start + HOUR))
    signed = next(m for m in reversed(world.messages) if isinstance(m, SignedManifest))
    rules = coined_policy(opens=start, closes=start + HOUR, **changes)
    signed = replace(
        signed,
        manifest=replace(signed.manifest, policy=rules, accounts=ACCOUNTS, coins=(CoinCommitment(1, bytes(32)),)),
    )
    return Window(signed, bytes([number]) * 32, number, beacon=1, opened_at=start + 60, time=start + 60)


def abandoned(window: Window, *opened: str) -> Window:
    """The same, of which these owners opened their nonces, and which never opened itself."""
    seal = BeaconSeal(window.digest, (PROVIDER, AUDITOR), b"s" * 64)
    return replace(window, beacon=None, opened_at=0, time=0, seal=seal, openings=dict.fromkeys(opened, b"n" * 32))


def test_coins_add_up_over_the_windows_of_a_period_and_the_return_does_not() -> None:
    world = World()
    before = [coined_window(world, 0), coined_window(world, 1, decoy_rate=RATE // 2)]
    following = coined_policy(opens=OPENS + 2 * HOUR, closes=OPENS + 3 * HOUR)
    found = spending(before, classes, following, ACCOUNTS)
    spent = [Spent("", one.manifest.policy, DECOYS, ACCOUNTS * one.manifest.policy.n_max, one.digest) for one in before]
    expected = delivered_period(
        [*spent, Spent("", following, DECOYS, ACCOUNTS * following.n_max, b"")], Fraction(following.delta)
    )
    assert (found["unseen"], found["return"], found["epsilon"]) == (
        expected.unseen, expected.returned, expected.epsilon,
    )  # fmt: skip
    assert found["coin_periods"] == 3
    assert [row["coin_periods"] for row in found["windows"]] == [1, 2]
    assert found["windows"][-1]["return"] == pytest.approx(found["return"], rel=0.03)  # more queries share delta
    text = " ".join(lines(found))
    assert "2 coin periods and unseen" in text
    assert "will certify epsilon" in text
    assert "which is unseen over 3 coin periods; beside it stands return" in text


def test_a_window_that_never_opened_counts_once_its_coins_are_known() -> None:
    world = World()
    first, last = coined_window(world, 0), coined_window(world, 2)
    following = coined_policy(opens=OPENS + 3 * HOUR, closes=OPENS + 4 * HOUR)

    def periods(window: Window, start: int = OPENS) -> int:
        rules = replace(following, period_start=start)
        found = spending([window, last], classes, rules, ACCOUNTS)
        assert found["queries"] == ACCOUNTS * (last.manifest.policy.n_max + rules.n_max) + (
            ACCOUNTS * window.manifest.policy.n_max if window.beacon else 0
        )
        return int(found["coin_periods"])

    assert periods(first) == 3
    assert periods(abandoned(first, PROVIDER, AUDITOR)) == 3
    assert periods(abandoned(first, PROVIDER)) == 2  # without the auditor's nonce nobody knows the coins
    assert periods(abandoned(first, PROVIDER, AUDITOR), OPENS + 3 * HOUR) == 2  # the window after it shows when it was


def test_a_window_that_carries_on_coins_costs_its_queries_alone() -> None:
    first = coined_window(World(), 0)
    following = coined_policy(opens=OPENS + 2 * HOUR, closes=OPENS + 3 * HOUR)
    alone = spending([], classes, following, ACCOUNTS)
    carried = spending([first], classes, following, ACCOUNTS, first.digest)
    assert (carried["coin_periods"], carried["unseen"]) == (1, alone["unseen"])
    assert carried["queries"] == 2 * alone["queries"]
    assert spending([first], classes, following, ACCOUNTS)["coin_periods"] == 2


def test_a_window_without_a_coin_that_never_opened_is_beside_the_point() -> None:
    """It threw nothing and answered nothing: an auditor does not see another claim in it."""
    plain = replace(coined_window(World(), 0), signed=history_of_one())
    following = coined_policy(opens=OPENS + HOUR, closes=OPENS + 2 * HOUR)
    assert spending([abandoned(plain, PROVIDER, AUDITOR)], classes, following, ACCOUNTS)["coin_periods"] == 1


def history_of_one() -> SignedManifest:
    world = World()
    window(world, 0)
    return history(world)[0].signed


def test_more_queries_than_the_policy_allows_count_for_every_account() -> None:
    one = coined_window(World(), 0)
    one.counters["alice"] = one.manifest.policy.n_max + 4
    assert spending([one], classes)["windows"][0]["queries"] == ACCOUNTS * (one.manifest.policy.n_max + 4)


def test_a_period_that_mixes_claims_has_no_epsilon_and_the_way_out_is_said() -> None:
    world = World()
    window(world, 0)
    plain = history(world)
    start = OPENS + HOUR
    values = spending(plain, classes, coined_policy(opens=start, closes=start + HOUR), ACCOUNTS)
    assert "epsilon" not in values
    assert "mixes the claims every-list and until-delivered: begin a new period with period_start" in values["error"]
    assert "begin a new period" in " ".join(lines(values))
    back = spending([coined_window(World(), 0)], classes, policy(opens=start, closes=start + HOUR))
    assert "mixes the claims" in back["error"]
    plain[0].close = WindowClose(plain[0].digest, 0, start - 60)
    anew = coined_policy(opens=start, closes=start + HOUR, period_start=start)
    assert "error" not in spending(plain, classes, anew, ACCOUNTS)


def test_answers_of_a_window_with_ticks_are_those_of_all_its_places() -> None:
    """The auditor counts every place of a live index as an account (SPEC A.13.4), so what is foreseen does, too."""
    cls = load_classes()["noise-tiny-two"]
    world = World()
    own = answers_policy(gain=1, words_max=1, delta="1/1000", opens=OPENS, closes=OPENS + HOUR, version_every=120)
    world.commit("w0", policy_=own)
    world.messages.append(WindowClose(world.digest, 0, OPENS + 600))
    (spent,) = history(world)
    assert places(spent.manifest) > spent.manifest.accounts
    following = replace(own, opens=OPENS + HOUR, closes=OPENS + 2 * HOUR)
    foreseen = spending([spent], lambda name: cls, following, accounts=3)
    windows = [
        Spent("w0", own, cls, places(spent.manifest) * own.n_max, answered=0),
        Spent("w1", following, cls, 3 * own.n_max, answered=3 * own.n_max),
    ]
    assert foreseen["epsilon"] == answers_period(windows, Fraction(1, 1000)).plain.epsilon
    fewer = [replace(windows[0], queries=spent.manifest.accounts * own.n_max), windows[1]]
    assert foreseen["epsilon"] > answers_period(fewer, Fraction(1, 1000)).plain.epsilon


def test_what_a_period_costs_is_said_without_a_program_s_spelling() -> None:
    """Epsilon that does not follow was "inf", and the period began in seconds since 1970."""
    rows = [{"window": "w1", "coin_periods": 1, "queries": 4, "unseen": 2.98022981, "return": "inf", "epsilon": "inf"}]
    values = {
        "period_start": 1_800_000_060, "claim": UNTIL_DELIVERED, "windows": rows, "epsilon": "inf",
        "unseen": 2.98022981, "return": 5.999999966666666, "coin_periods": 1, "queries": 8, "asked": 1,
    }  # fmt: skip
    text = " ".join(lines(values))
    assert "budget period since 2027-01-15 08:01 UTC" in text
    assert "epsilon no bound" in text
    assert "return 6" in text
    assert not re.search(r"\binf\b|\d\.\d{7,}|1800000060", text)

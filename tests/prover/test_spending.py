# SPDX-License-Identifier: GPL-3.0-or-later
"""What a provider says of its budget period before it commits: the same number that the auditor will print."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ragseal.kernel.commitment import SignedManifest, WindowClose
from ragseal.kernel.errors import ConfigurationError
from ragseal.kernel.params import CircuitClass
from ragseal.prover.spending import lines, spending
from ragseal.prover.storage.history import Window
from tests.verifier.simulator import CLS, NOW, OPENS, World, policy

HOUR = 3600


def classes(name: str) -> CircuitClass:
    if name != CLS.name:
        raise ConfigurationError(f"no class {name}")
    return CLS


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
    assert "are spent, up to window w0" in text
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


@pytest.mark.parametrize("changes", [{"gain": 12, "lo": 0, "hi": 4000, "k_max": 50}, {"delta": "1/" + "1" + "0" * 30}])
def test_a_budget_without_an_epsilon_is_said(changes: dict[str, Any]) -> None:
    values = spending([], classes, policy(**changes))
    assert values.get("epsilon") == "inf" or "used up" in values["error"]
    assert lines(values)


def test_an_unknown_class_is_said() -> None:
    world = World()
    window(world, 0, class_name="gone")
    assert "no class gone" in spending(history(world), classes)["error"]

# SPDX-License-Identifier: GPL-3.0-or-later
"""The live index: documents come, change and go while accounts ask, and every answer is from the right version."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulator.ticking import Ticking, ticking

pytestmark = pytest.mark.slow

QUESTION = "acme report about topic 7"


def write_edition(live: Ticking, edition: str) -> None:
    """Every document of the tenant says which edition it is of."""
    live.put(*((f"acme-{i}", f"{edition}: acme report number {i} about topic {i * 7 % 13}") for i in range(40)))


def shown(live: Ticking, client: object) -> set[str]:
    """First words of all texts that an account reads."""
    result = client.ask(QUESTION)  # type: ignore[attr-defined]
    return {one.text.split(":")[0] for one in result.ranked if one.text}


@pytest.mark.parametrize("coins", [False, True])
def test_documents_change_and_go_while_an_account_asks_and_the_window_passes(tmp_path: Path, coins: bool) -> None:
    with ticking(tmp_path, coins=coins, gain=2, n_max=6) as live, live.client() as client:
        assert [one.number for one in live.updates] == [1]
        assert client.ask(QUESTION)
        for edition in ("first", "second"):
            write_edition(live, edition)
            live.tick()
            assert shown(live, client) <= {edition}
            assert shown(live, client) <= {edition}
        live.delete(*(f"acme-{i}" for i in range(40)))
        live.put(("fresh", "fresh: a single document about topic 7"))
        live.tick()
        assert shown(live, client) <= {"fresh"}
        assert [one.number for one in live.updates] == [1, 2, 3, 4]
        live.clock.now += 60
        live.end_window()
        verdict = live.audited()
        assert verdict.verdict == "PASS", verdict.line()
        assert ("late=unproven" in verdict.line()) == coins

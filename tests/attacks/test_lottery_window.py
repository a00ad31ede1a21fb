# SPDX-License-Identifier: GPL-3.0-or-later
"""A window of the lottery, whole: a real provider with real proofs, an account, an auditor; and what is against lies.

Rows of the circuit are attacked one by one in tests/circuits/test_lottery_attacks*.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ragseal.accounting.delivered_lottery import certified_return
from ragseal.accounting.rounding import upward
from ragseal.backends.mechanism import Engine, Scores, ShardHints
from ragseal.kernel.lottery_class import PrizeTable
from ragseal.kernel.policy import EVERY_LIST
from ragseal.kernel.statement import Returned
from ragseal.prover.attestation import statements
from ragseal.verifier.steps import manifest
from tests.attacks.checks import PRIZES, without
from tests.classes import LOTTERY
from tests.simulator import provider as scene
from tests.simulator.live import Live, live

pytestmark = pytest.mark.slow


def asked(made: Live, questions: int = 3) -> None:
    """A window with a few answers, closed."""
    with made.client() as client:
        for number in range(questions):
            client.ask(f"acme report number {number}")
    made.end_window()


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(tmp_path_factory.mktemp("lottery"), coins=True, kind=scene.ONE_LOTTERY, prizes=2) as made:
        asked(made)
        yield made


def test_an_honest_window_passes_with_the_return_of_its_prizes(honest: Live) -> None:
    verdict, policy = honest.audited(), honest.window.manifest.policy
    assert verdict.verdict == "PASS", verdict.line()
    assert policy.prizes(LOTTERY) == 2
    assert f" return={upward(certified_return(LOTTERY.m, 2, policy.hidden, 1))} " in verdict.line()
    assert " claim=until-delivered coalition=any " in verdict.line()


class Fewer:
    """A provider's engine that draws one prize, whatever the policy says."""

    def __init__(self, real: Engine) -> None:
        self._real = real

    def answer(self, key: int, w: Scores, hmax: int, _prizes: int = 0) -> tuple[Returned, ...]:
        return self._real.answer(key, w, hmax, 1)

    def shard_hints(self, key: int, w: Scores, hmax: int, _prizes: int = 0) -> ShardHints:
        return self._real.shard_hints(key, w, hmax, 1)


def test_fewer_prizes_are_drawn_than_the_policy_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty slot then returns less often than the return says.  Its proofs hold, for another number of prizes."""
    with live(tmp_path, coins=True, kind=scene.ONE_LOTTERY, engine=Fewer) as made:
        monkeypatch.setattr(statements, "statement_of", PRIZES.instead)
        asked(made)
        verdict = made.audited()
        assert verdict.failure is not None, verdict.line()
        assert (verdict.verdict, verdict.failure.number) == ("FAIL", 8)
        assert "the proof of record 0 does not hold" in verdict.failure.message
        with without(PRIZES):
            assert made.audited().verdict == "PASS"


@pytest.mark.parametrize(
    ("changes", "verdict", "why"),
    [
        ({"claim": EVERY_LIST, "hidden": 0, "gate": True}, "FAIL", "bounds one return and nothing else"),
        ({"gain": 10**6}, "FAIL", "overflows class 'lottery-tiny'"),
        ({"table_digest": PrizeTable(8, 4).digest()}, "NO VERDICT", "prize table is not the canonical"),
        ({"table_digest": PrizeTable(9, 3).digest()}, "NO VERDICT", "prize table is not the canonical"),
    ],
)
def test_a_policy_that_its_class_cannot_carry_is_entered_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, object], verdict: str, why: str
) -> None:
    """A provider skips its own check: a claim that the law does not keep, a window that does not fit, other prizes."""
    bad = replace(scene.lottery_policy(), **changes)  # type: ignore[arg-type]
    monkeypatch.setattr(scene, "lottery_policy", lambda: bad)
    with live(tmp_path, coins=True, kind=scene.ONE_LOTTERY) as made:
        made.end_window()
        found = made.audited()
        stopped = found.failure or found.obstacle
        assert stopped is not None, found.line()
        assert (found.verdict, stopped.number) == (verdict, 2)
        assert why in stopped.message
        if verdict == "FAIL":
            with monkeypatch.context() as unguarded:
                unguarded.setattr(manifest, "check_policy", lambda *_: None)
                found = made.audited()
                assert found.failure is None or found.failure.number != 2, found.line()

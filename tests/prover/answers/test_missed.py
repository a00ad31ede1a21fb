# SPDX-License-Identifier: GPL-3.0-or-later
"""What an operator is told of calls about documents that were late or failed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from ragseal.prover.administration.status import status
from ragseal.prover.administration.watching import Watching
from ragseal.prover.answers.missed import SECONDS, Missed, lines
from ragseal.prover.serving.health import WHATS, look
from tests.simulator.answered import QUESTION, Counted, answering_on
from tests.simulator.provider import Asker, Clock


@pytest.mark.parametrize(
    ("calls", "late", "failed", "shares"),
    [
        (1000, 0, 0, {}),
        (1000, 9, 0, {"late": "less than 1 in 100"}),
        (1000, 10, 99, {"late": "1 to 10 in 100", "failed": "1 to 10 in 100"}),
        (1000, 100, 1, {"late": "more than 10 in 100", "failed": "less than 1 in 100"}),
        (1, 0, 1, {"failed": "more than 10 in 100"}),
    ],
)
def test_shares_are_told_in_three_words(calls: int, late: int, failed: int, shares: dict[str, str]) -> None:
    missed = Missed(lambda: 0.0)
    outcomes = [*[TimeoutError()] * late, *[ValueError()] * failed, *[frozenset()] * (calls - late - failed)]
    missed.note(outcomes[: calls // 2])
    missed.note(outcomes[calls // 2 :])
    assert missed.shares() == shares
    assert [" failed, " in one for one in lines(shares)] == [what == "failed" for what in shares]


def test_an_hour_is_told_of() -> None:
    now = [0.0]
    missed = Missed(lambda: now[0])
    missed.note([TimeoutError()])
    now[0] = SECONDS - 1
    missed.note([ValueError(), 1, 1])
    assert missed.shares() == {"late": "more than 10 in 100", "failed": "more than 10 in 100"}
    now[0] += 1
    assert missed.shares() == {"failed": "more than 10 in 100"}
    now[0] += SECONDS
    assert missed.shares() == {}


class Failing(Counted):
    """At every document."""

    def answer(self, question: str, contexts: Sequence[str], keywords: Sequence[str] = ()) -> str:
        if contexts:
            raise ValueError("no")
        return super().answer(question, contexts, keywords)


@pytest.mark.slow
def test_status_says_that_a_model_fails_at_documents_and_metrics_do_not(tmp_path: Path) -> None:
    async def run() -> None:
        async with answering_on(tmp_path / "p", Clock(), Failing()) as serving:
            watching = Watching(serving, lambda: None)
            assert "calls about documents" not in status(serving.provider, watching.running()).text
            await Asker("alice", serving).ask(QUESTION)
            told = status(serving.provider, watching.running())
            assert told.values["missed"] == {"failed": "more than 10 in 100"}
            assert "more than 10 in 100 of the last hour's calls about documents failed" in told.text
            before = look(serving.provider).whats()
            assert look(serving.provider, watching.running()).whats() <= before | {"proofs"}
            assert "answers" not in WHATS

    asyncio.run(run())

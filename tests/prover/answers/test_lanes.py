# SPDX-License-Identifier: GPL-3.0-or-later
"""When an answer's steps begin and end, and that no call waits for another.  SPEC A.14.7."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from ragseal.prover.administration.status import status
from ragseal.prover.administration.watching import Watching
from ragseal.prover.answers.lanes import Lanes
from ragseal.prover.answers.missed import SECONDS, Missed, lines
from ragseal.prover.answers.schedule import LANES, schedule_of
from ragseal.prover.serving.health import WHATS, look
from ragseal.runtime.timer import Timer
from tests.simulator.answered import QUESTION, Counted, answering_on, answers_policy
from tests.simulator.provider import Asker, Clock


@pytest.mark.slow
def test_a_schedule_is_policy_and_class_alone() -> None:
    at = schedule_of(answers_policy(answered_by=40), 3 * LANES - 100)
    assert (at.without, at.documents, at.votes, at.text, at.due) == (8, 10, 26, 36, 40)
    assert at.turn == 16 / 3
    assert [at.turn_of(place) for place in (0, LANES - 1, LANES)] == [10, 10, 10 + 16 / 3]
    last = at.turn_of(3 * LANES - 101) + at.turn
    assert last == pytest.approx(at.votes)


@pytest.mark.slow
@pytest.mark.parametrize("slots", [1, 2944, LANES, LANES + 1, 34592])
@pytest.mark.parametrize("by", [1, 30, 300])
def test_every_document_of_an_index_has_a_whole_turn(slots: int, by: int) -> None:
    at = schedule_of(replace(answers_policy(), answered_by=by), slots)
    begins = sorted({at.turn_of(place) for place in range(slots)})
    assert all(later - earlier == pytest.approx(at.turn) for earlier, later in pairwise(begins))
    assert begins[-1] + at.turn == pytest.approx(at.votes), "no part of the time is nobody's"
    assert at.without < at.documents < at.votes < at.text < at.due == by


@pytest.mark.slow
def test_calls_are_made_at_once_and_taken_at_one_instant() -> None:
    """Sixty calls that wait for each other: one lane fewer, and none of them would end."""
    together = threading.Barrier(60)
    release = threading.Event()

    def call(place: int) -> int:
        together.wait(10)
        if place == 7:
            release.wait(10)
        if place == 9:
            raise ValueError("no")
        return place

    async def run() -> tuple[list[int | BaseException], float]:
        began = time.monotonic()
        found = await Lanes(Timer()).ended_by(began + 1.0, [lambda place=place: call(place) for place in range(60)])
        took = time.monotonic() - began
        release.set()
        await asyncio.sleep(0.1)  # what comes now changes nothing
        return found, took

    found, took = asyncio.run(run())
    assert 1.0 <= took < 2.0
    assert isinstance(found[7], TimeoutError)
    assert isinstance(found[9], ValueError)
    assert [one for place, one in enumerate(found) if place not in (7, 9)] == [
        place for place in range(60) if place not in (7, 9)
    ]


@pytest.mark.slow
def test_a_call_that_ends_its_thread_is_as_one_that_failed() -> None:
    """What a generator raises names the question, perhaps: it goes to the caller, and to no terminal."""

    class Ended(BaseException):
        pass

    def ends() -> int:
        raise Ended

    [found] = asyncio.run(Lanes(Timer()).ended_by(time.monotonic() + 0.3, [ends]))
    assert isinstance(found, Ended)


@pytest.mark.slow
def test_a_late_call_keeps_no_process_alive_and_ends_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    release, said = threading.Event(), list[object]()
    lanes: list[threading.Thread] = []

    def call() -> None:
        lanes.append(threading.current_thread())
        release.wait(10)

    monkeypatch.setattr(threading, "excepthook", said.append)
    [found] = asyncio.run(Lanes(Timer()).ended_by(time.monotonic() + 0.3, [call]))
    assert isinstance(found, TimeoutError)
    release.set()  # the event loop is closed by now
    lanes[0].join(10)
    assert lanes[0].daemon
    assert said == []


@pytest.mark.slow
def test_nothing_is_taken_before_its_instant() -> None:
    async def run() -> float:
        began = time.monotonic()
        await Lanes(Timer()).ended_by(began + 0.3, [])
        return time.monotonic() - began

    assert asyncio.run(run()) >= 0.3


@pytest.mark.slow
@pytest.mark.parametrize("left", [0, 1, 2])
def test_a_machine_without_a_thread_left_is_a_generator_that_fails(left: int, monkeypatch: pytest.MonkeyPatch) -> None:
    real, started = threading.Thread.start, 0

    def none(self: threading.Thread) -> None:
        nonlocal started
        if started >= left:
            raise RuntimeError("can't start new thread")
        started += 1
        real(self)

    async def run() -> list[int | BaseException]:
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", none)
            return await Lanes(Timer()).ended_by(time.monotonic() + 0.3, [lambda: 1, lambda: 1])

    found = asyncio.run(run())
    assert [isinstance(one, RuntimeError) for one in found] == [left < 2, True]


# What an operator is told of calls about documents that were late or failed.


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

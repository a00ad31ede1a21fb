# SPDX-License-Identifier: GPL-3.0-or-later
"""When an answer's steps begin and end, and that no call waits for another.  SPEC A.14.7."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import replace
from itertools import pairwise

import pytest

from ragseal.prover.answers.lanes import Lanes
from ragseal.prover.answers.schedule import LANES, schedule_of
from ragseal.runtime.timer import Timer
from tests.simulator.answered import answers_policy

pytestmark = pytest.mark.slow


def test_a_schedule_is_policy_and_class_alone() -> None:
    at = schedule_of(answers_policy(answered_by=40), 3 * LANES - 100)
    assert (at.without, at.documents, at.votes, at.text, at.due) == (8, 10, 26, 36, 40)
    assert at.turn == 16 / 3
    assert [at.turn_of(place) for place in (0, LANES - 1, LANES)] == [10, 10, 10 + 16 / 3]
    last = at.turn_of(3 * LANES - 101) + at.turn
    assert last == pytest.approx(at.votes)


@pytest.mark.parametrize("slots", [1, 2944, LANES, LANES + 1, 34592])
@pytest.mark.parametrize("by", [1, 30, 300])
def test_every_document_of_an_index_has_a_whole_turn(slots: int, by: int) -> None:
    at = schedule_of(replace(answers_policy(), answered_by=by), slots)
    begins = sorted({at.turn_of(place) for place in range(slots)})
    assert all(later - earlier == pytest.approx(at.turn) for earlier, later in pairwise(begins))
    assert begins[-1] + at.turn == pytest.approx(at.votes), "no part of the time is nobody's"
    assert at.without < at.documents < at.votes < at.text < at.due == by


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


def test_a_call_that_ends_its_thread_is_as_one_that_failed() -> None:
    """What a generator raises names the question, perhaps: it goes to the caller, and to no terminal."""

    class Ended(BaseException):
        pass

    def ends() -> int:
        raise Ended

    [found] = asyncio.run(Lanes(Timer()).ended_by(time.monotonic() + 0.3, [ends]))
    assert isinstance(found, Ended)


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


def test_nothing_is_taken_before_its_instant() -> None:
    async def run() -> float:
        began = time.monotonic()
        await Lanes(Timer()).ended_by(began + 0.3, [])
        return time.monotonic() - began

    assert asyncio.run(run()) >= 0.3


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

# SPDX-License-Identifier: GPL-3.0-or-later
"""Threads that follow the number of places while they work, and results in order by them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from ragseal.prover.workers import crew as crew_module
from ragseal.prover.workers import in_order
from ragseal.prover.workers.crew import Crew
from ragseal.prover.workers.in_order import InOrder
from ragseal.prover.workers.interface import FEWEST_PLACES, MOST_PLACES, StoppingError, places_for
from tests.workers.background import InBackground, until


class Room:
    """Places that a test changes, and who is inside."""

    def __init__(self, places: int) -> None:
        self.places, self.inside, self.most = places, 0, 0
        self._mutex, self.go = threading.Lock(), threading.Semaphore(0)

    def work(self, item: int = 0) -> int:
        with self._mutex:
            self.inside += 1
            self.most = max(self.most, self.inside)
        assert self.go.acquire(timeout=30)
        with self._mutex:
            self.inside -= 1
        return item


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> Iterator[Room]:
    monkeypatch.setattr(crew_module, "LOOK", 0.05)
    monkeypatch.setattr(in_order, "LOOK", 0.05)
    made = Room(2)
    yield made
    made.go.release(1000)


def test_how_many_places_there_are() -> None:
    assert [places_for(n) for n in (0, 1, 12, 20, 170, 800, 10**6)] == [16, 16, 16, 25, 212, 1000, 1024]
    assert (FEWEST_PLACES, MOST_PLACES) == (16, 1024)


def crew_in(room: Room, begun: bool = True) -> Crew[Callable[[], object]]:
    return Crew(lambda: room.places, "test", begun)


def test_a_crew_grows_while_all_of_it_is_busy_and_shrinks_as_jobs_end(room: Room) -> None:
    crew = crew_in(room)
    for _ in range(40):
        crew.submit(room.work)
    until(lambda: room.inside == 2)
    room.places = 20
    until(lambda: room.inside == 20)
    room.places = 3
    room.go.release(18)
    until(lambda: len(crew._threads) == 3 and room.inside == 3)
    room.go.release(1)
    time.sleep(0.2)
    assert room.inside == 3
    crew.stop()
    room.go.release(3)
    crew.join(10)
    assert not crew._threads


def test_no_job_is_left_behind_by_threads_that_are_too_many(room: Room) -> None:
    room.places = 8
    crew, done = crew_in(room), list[int]()
    for _ in range(8):
        crew.submit(room.work)
    until(lambda: room.inside == 8)
    room.go.release(8)
    until(lambda: crew._idle == 8)
    room.places = 1
    crew.submit(lambda: done.append(1))  # each of the eight may be woken for it
    until(lambda: done == [1], 10)
    until(lambda: len(crew._threads) == 1)


def test_a_crew_that_has_not_begun_keeps_its_jobs_and_one_that_stops_gives_them_back(room: Room) -> None:
    crew = crew_in(room, begun=False)
    for _ in range(3):
        crew.submit(room.work)
    assert not crew._threads
    crew.begin()
    until(lambda: room.inside == 2)
    assert len(crew.stop()) == 1
    with pytest.raises(StoppingError):
        crew.submit(room.work)
    room.go.release(2)
    crew.join(10)
    assert not crew._threads


def test_threads_without_a_job_end(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew_module, "IDLE", 0.1)
    crew, done = crew_in(room), list[int]()
    for number in range(2):  # the second one needs a new thread
        crew.submit(lambda number=number: done.append(number))
        until(lambda number=number: done[number:] and not crew._threads)
    assert done == [0, 1]


def test_places_of_zero_are_one(room: Room) -> None:
    room.places = 0
    crew = crew_in(room)
    crew.submit(room.work)
    until(lambda: room.inside == 1)


# --- in order --------------------------------------------------------------------------------------------------------


def test_results_follow_the_places_while_the_first_one_is_waited_for(room: Room) -> None:
    pool = InOrder(lambda: room.places, "test")
    asking = InBackground(lambda: list(pool.results(room.work, range(30), lambda: None)))
    until(lambda: room.inside == 2)
    room.places = 12
    until(lambda: room.inside == 12)
    room.places = 1
    room.go.release(12)
    until(lambda: room.inside == 1)
    room.go.release(30)
    assert asking.outcome() == list(range(30))
    assert room.most == 12


def test_two_who_ask_take_turns(room: Room) -> None:
    """Each has as many in line as there are places: what one began first does not all go first."""
    pool, order = InOrder(lambda: room.places, "test"), list[int]()

    def make(item: int) -> int:
        room.work()
        order.append(item)
        return item

    one = InBackground(lambda: list(pool.results(make, range(100, 120), lambda: None)))
    until(lambda: room.inside == 2)
    two = InBackground(lambda: list(pool.results(make, range(200, 206), lambda: None)))
    until(lambda: len(pool._crew._line) == 2)
    for done in range(1, 27):  # as proofs end: slower than whoever asks hands in the next one
        room.go.release()
        until(lambda done=done: len(order) == done)
        time.sleep(0.03)
    assert one.outcome() == list(range(100, 120))
    assert two.outcome() == list(range(200, 206))
    assert order.index(205) < 18, order


def test_who_stops_ends_all_who_ask(room: Room) -> None:
    pool = InOrder(lambda: room.places, "test")
    asking = InBackground(lambda: list(pool.results(room.work, range(9), lambda: None)))
    until(lambda: room.inside == 2)
    pool.stop()
    room.go.release(2)
    assert isinstance(asking.outcome(), StoppingError)
    with pytest.raises(StoppingError):
        list(pool.results(room.work, [1], lambda: None))
    assert room.most == 2


def test_who_stops_ends_those_whose_results_were_not_begun(room: Room) -> None:
    pool = InOrder(lambda: room.places, "test")
    first = InBackground(lambda: list(pool.results(room.work, range(2), lambda: None)))
    until(lambda: room.inside == 2)
    second = InBackground(lambda: list(pool.results(room.work, range(2, 4), lambda: None)))
    until(lambda: len(pool._crew._line) == 2)
    time.sleep(0.1)  # it waits for the first of them, with nothing more to hand in
    pool.stop()
    assert isinstance(second.outcome(5), StoppingError)
    room.go.release(2)
    assert first.outcome() == [0, 1], "what is under way is finished"


def test_what_fails_is_raised_where_its_result_would_be(room: Room) -> None:
    pool, begun = InOrder(lambda: 1, "test"), list[int]()

    def make(item: int) -> int:
        begun.append(item)
        if item == 1:
            raise ZeroDivisionError
        return item

    found = pool.results(make, range(9), lambda: None)
    assert next(found) == 0
    with pytest.raises(ZeroDivisionError):
        next(found)
    time.sleep(0.1)
    assert begun == [0, 1], "something was begun for nobody"


def test_what_two_ask_for_is_made_once_and_keeps_one_place(room: Room) -> None:
    pool, room.places = InOrder(lambda: room.places, "test"), 4
    asking = [InBackground(lambda: list(pool.results(room.work, range(4), lambda: None))) for _ in range(2)]
    until(lambda: [job.askers for job in pool._jobs.values()] == [2] * 4)
    until(lambda: room.inside == 4)  # four different ones, though eight were asked for
    room.go.release(4)
    assert [one.outcome() for one in asking] == [list(range(4))] * 2
    assert not pool._jobs, "what nobody waits for is forgotten"
    assert room.inside == 0
    assert room.go.acquire(blocking=False) is False, "each was made once"


def test_what_one_of_two_asks_for_no_more_is_still_made(room: Room) -> None:
    pool, gone = InOrder(lambda: room.places, "test"), threading.Event()

    def wanted_still() -> None:
        if gone.is_set():
            raise ConnectionError

    leaves = InBackground(lambda: list(pool.results(room.work, range(6), wanted_still)))
    until(lambda: room.inside == 2)
    stays = InBackground(lambda: list(pool.results(room.work, range(1, 4), lambda: None)))
    until(lambda: [job.askers for job in pool._jobs.values()] == [1, 2, 1])
    gone.set()
    room.go.release(1)
    room.go.release(5)
    assert isinstance(leaves.outcome(), ConnectionError)
    assert stays.outcome() == [1, 2, 3]


def test_what_has_failed_is_tried_again_for_who_asks_later(room: Room) -> None:
    pool, tries, go = InOrder(lambda: 3, "test"), list[int](), threading.Event()

    def make(item: int) -> int:
        if item == 0:
            assert go.wait(30)
        elif item == 2:
            tries.append(item)
            if len(tries) == 1:
                raise ZeroDivisionError
        return item

    first = InBackground(lambda: list(pool.results(make, range(3), lambda: None)))
    until(lambda: tries == [2])
    until(lambda: pool._jobs[make, 2].made.done())
    assert list(pool.results(make, [1, 2], lambda: None)) == [1, 2]
    go.set()
    assert isinstance(first.outcome(), ZeroDivisionError)

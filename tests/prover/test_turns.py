# SPDX-License-Identifier: GPL-3.0-or-later
"""A lock that is handed on in the order in which it was asked for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from ragseal.prover.workers.turns import Turns

SOON, LATE = 0.2, 10.0


class Scene:
    """Threads that take their turns, and what they did in which order."""

    def __init__(self) -> None:
        self.turns, self.order = Turns(), list[str]()

    def begin(self, name: str, inside: Callable[[], object] = lambda: None) -> threading.Thread:
        """A thread that waits for its turn, where somebody has it."""
        waiting = len(self.turns._waiting)

        def take() -> None:
            with self.turns:
                inside()
                self.order.append(name)

        thread = threading.Thread(target=take, daemon=True)
        thread.start()
        end = time.monotonic() + LATE
        while len(self.turns._waiting) == waiting and time.monotonic() < end:
            time.sleep(0.001)
        assert len(self.turns._waiting) == waiting + 1
        return thread


def test_whoever_asked_first_is_next() -> None:
    scene = Scene()
    with scene.turns:
        threads = [scene.begin(name) for name in "abcd"]
        assert scene.order == []
    for thread in threads:
        thread.join(LATE)
    assert scene.order == list("abcd")
    with scene.turns:
        scene.order.append("e")  # it is free again
    assert scene.order[-1] == "e"


def test_whoever_comes_back_at_once_waits_for_those_who_wait() -> None:
    scene = Scene()
    with scene.turns:
        thread = scene.begin("a", lambda: time.sleep(SOON))
    with scene.turns:
        scene.order.append("again")
    thread.join(LATE)
    assert scene.order == ["a", "again"]


def test_a_turn_that_is_handed_on_comes_back() -> None:
    scene = Scene()
    with scene.turns:
        first = scene.begin("a")
        with scene.turns.handed_on():
            first.join(LATE)
            assert scene.order == ["a"]
        second = scene.begin("b")
        second.join(SOON)
        assert scene.order == ["a"], "the caller has its turn again"
    second.join(LATE)
    assert scene.order == ["a", "b"]

# SPDX-License-Identifier: GPL-3.0-or-later
"""Which worker has which assignment: in order, by the keys that it holds, whoever comes and goes."""

from __future__ import annotations

import random
import time

from ragseal.prover.workers.matching import Matching, Row


def keys(*names: str) -> frozenset[str]:
    return frozenset(names)


def put(matching: Matching, name: str, folder: str = "a") -> Row:
    row = Row(name.encode(), folder)
    matching.put(row)
    return row


def test_what_waits_longest_goes_first_to_whoever_holds_its_key() -> None:
    matching = Matching()
    one, two, three = put(matching, "1", "a"), put(matching, "2", "b"), put(matching, "3", "a")
    assert matching.holders["a"] == 0
    matching.has("w", "n", keys("b"))
    assert (one.worker, two.worker, three.worker) == ("", "w", "")
    matching.has("v", "n", keys("a", "b"))
    assert one.worker == "v"
    four = put(matching, "4", "b")
    assert matching.answered(b"1") is one
    assert (three.worker, four.worker) == ("v", ""), "what came first goes first, whatever its key"
    assert matching.answered(b"2") is two
    assert four.worker == "w"
    assert all(row.given.is_set() for row in (one, two, three, four))


def test_who_is_free_longest_is_given_the_next_one() -> None:
    matching = Matching()
    for name in ("u", "v"):
        matching.has(name, "n", keys("a"))
    first = put(matching, "1")
    assert first.worker == "u"
    matching.answered(b"1")
    assert [put(matching, str(n)).worker for n in (2, 3, 4)] == ["v", "u", ""]


def test_keys_that_come_and_go() -> None:
    matching = Matching()
    matching.has("w", "n", keys("a"))
    matching.has("w", "n", keys("b"))
    assert put(matching, "1", "a").worker == ""
    assert (matching.holders["a"], matching.holders["b"]) == (0, 1)
    assert put(matching, "2", "b").worker == "w"
    matching.has("w", "n", keys("a"))
    assert put(matching, "3", "b").worker == "", "it is busy, and does not hold the key any more"
    matching.answered(b"2")
    assert [row.worker for row in matching.all() if row.name == b"1"] == ["w"]
    assert dict(matching.holders) == {"a": 1}, "names that a node makes up are kept for as long as it has them"


def test_who_is_lost_is_given_nothing_more() -> None:
    matching = Matching()
    matching.has("w", "n", keys("a"))
    one = put(matching, "1")
    gone = matching.lose("w")
    assert gone is not None
    assert gone.row == b"1"
    two = put(matching, "2")
    assert matching.answered(b"1") is one, "whoever waits for it is told"
    assert two.worker == ""
    assert matching.lose("w") is None
    matching.has("v", "n", keys("a"))
    assert two.worker == "v"
    assert matching.lose_all() == [two]
    three = put(matching, "3")
    assert three.worker == ""
    assert [*matching.all()] == [three]


def test_nobody_waits_for_a_row_and_its_worker_goes_on() -> None:
    matching = Matching()
    matching.has("w", "n", keys("a"))
    one, two, three = (put(matching, name) for name in "123")
    matching.forget(one)
    matching.forget(two)
    matching.refuse(three, "no")
    assert three.given.is_set()
    assert (three.refused, three.worker) == ("no", "")
    assert matching.answered(b"1") is None
    assert put(matching, "4").worker == "w"
    assert matching.lines == {}


def test_a_thousand_of_both_are_matched_at_once() -> None:
    """Each step of a full house looks at its own row and worker only."""
    matching, chance = Matching(), random.Random(1)
    for name in range(1000):
        matching.has(f"w{name}", "n", keys("a", "b"))
    waiting = [put(matching, str(n), chance.choice("ab")) for n in range(2000)]
    assert sum(bool(row.worker) for row in waiting) == 1000
    began = time.process_time()
    for row in waiting[:1000]:
        matching.answered(row.name)
        matching.forget(row)
    assert all(row.worker for row in waiting)
    assert time.process_time() - began < 0.5, "more than half a millisecond for each"

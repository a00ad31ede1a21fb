# SPDX-License-Identifier: GPL-3.0-or-later
"""Which worker has which assignment: in order, by the keys that it holds, whoever comes and goes."""

from __future__ import annotations

import random
import time

import numpy as np
import pytest

from ragseal.backends.mechanism import open_engine
from ragseal.circuits.circuit import layout_of, load_classes
from ragseal.kernel import field
from ragseal.kernel.classes import Asked, AttestationClass
from ragseal.kernel.decoys.decoys_class import DecoysClass
from ragseal.kernel.errors import EncodingError
from ragseal.kernel.noise_class import NoiseClass
from ragseal.kernel.params import R
from ragseal.kernel.statements import stated_of
from ragseal.prover.workers.interface import MAX_INPUTS, Work
from ragseal.prover.workers.matching import Matching, Row
from ragseal.prover.workers.narrow import FULL, NARROW_BYTES, SHORT, lengthen, narrow_runs, shorten
from tests.classes import DECOYS, FAMILIES, TINY


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


# Inputs as they travel: back as they were, and as many bytes whatever they are.


EDGE = 1 << (8 * NARROW_BYTES - 1)  #: narrow are -EDGE < x < EDGE
CLASSES = (*(one.name for one in FAMILIES), "noise-small-two-50")
#: 2^64 - 1 and r - 2^64 + 1 look like -1 and 1 to who reads their lowest limb only.
WIDE = (EDGE, R - EDGE, 1 << 63, (1 << 64) - 1, 1 << 64, 1 << 192, R - (1 << 64) + 1, R - (1 << 64), R // 2, R // 2 + 1)


def inputs_of(circuit: str, chance: random.Random, private: int = 3) -> list[int]:
    """Of a whole assignment: any elements where they are wide, and the ends more often where they are narrow."""
    layout = layout_of(load_classes()[circuit])
    values = [chance.randrange(R) for _ in range(layout.public + private)]
    for run in narrow_runs(circuit):
        for at in range(run.start, run.stop):
            values[at] = chance.choice((0, 1, -1, EDGE - 1, 1 - EDGE, chance.randrange(1 - EDGE, EDGE))) % R
    return values


@pytest.mark.parametrize("circuit", CLASSES)
def test_inputs_come_back_and_lengths_are_the_circuits(circuit: str) -> None:
    chance = random.Random(circuit)
    found = set[int]()
    for _ in range(3):
        inputs = field.pack(inputs_of(circuit, chance))
        short = shorten(circuit, inputs)
        assert short[:1] == SHORT
        assert lengthen(circuit, short) == inputs
        found.add(len(short))
    narrow = sum(run.stop - run.start for run in narrow_runs(circuit))
    assert found == {1 + len(inputs) - (field.FIELD_BYTES - NARROW_BYTES) * narrow}
    assert len(inputs) > 2 * len(short)


def extremes(cls: AttestationClass) -> tuple[Asked, int, int]:
    """What a policy may ask, and the least and the largest w that its scores may have (SPEC A.10)."""
    asked, _, _ = cls.tried()
    if isinstance(cls, DecoysClass):
        return asked, -(cls.reach // 2), cls.reach // 2 - 2
    assert isinstance(cls, NoiseClass)
    chunk, steps = 1 << cls.c, ((1 << cls.c) - cls.reach_span) // 4
    return Asked((steps,)), (steps - chunk + 1) << cls.c, (chunk << cls.c) + chunk - 1


@pytest.mark.parametrize("circuit", sorted(load_classes()))
def test_no_policy_has_a_score_that_is_not_narrow(circuit: str) -> None:
    """Else a length would tell whether a record has one.  Three bytes were too few for chunks of 12 bits and more."""
    cls = load_classes()[circuit]
    asked, least, most = extremes(cls)
    assert max(-least, most) < EDGE
    assert cls.shift_of(1) >= 1
    if isinstance(cls, NoiseClass):
        cls.check_range(asked.inputs[0], 0, least, most)
    else:
        cls.check_range(0, asked.inputs[0], least, most)


@pytest.mark.parametrize("circuit", ["noise-tiny-two", "noise-tiny-gaussian", "noise-small-two-50", "decoys-tiny"])
def test_hints_of_the_widest_scores_are_narrow(circuit: str) -> None:
    """A whole assignment but for clear inputs and secrets, for which any elements stand."""
    cls, chance = load_classes()[circuit], random.Random(circuit)
    asked, least, most = extremes(cls)
    w = np.array([chance.choice((least, most, 0, most // 2, -1)) for _ in range(cls.N)], dtype=np.int64)
    few = cls.tried()[2] // 2
    w[:few], w[few:] = most, np.minimum(w[few:], 0)  # else places would not suffice
    hidden = open_engine(cls).hidden(chance.randrange(R), w, asked)
    layout = layout_of(cls)
    before, after = (field.pack(chance.randrange(R) for _ in range(n)) for n in (layout.scores_at, layout.public + 3))
    inputs = before + stated_of(cls).wires(w.tolist(), hidden[0], chance.randrange(R))
    inputs += after[: len(after) - len(inputs)]
    assert shorten(circuit, inputs)[:1] == SHORT
    assert lengthen(circuit, shorten(circuit, inputs)) == inputs


@pytest.mark.parametrize("empty", [True, False])
def test_a_shard_without_results_is_as_long_as_any(empty: bool) -> None:
    """Inputs of slots are small but for powers of beta, which stand where an id is returned (broken before)."""
    layout, bits = layout_of(DECOYS), [int(not empty)] * DECOYS.N
    packed = [field.pack(one) for one in (bits, bits, [3] * layout.size, [1])]
    wires = stated_of(DECOYS).wires([5] * DECOYS.N, packed, R // 3)
    inputs = field.pack([7] * layout.scores_at) + wires + field.pack([7] * (layout.public + 3))
    inputs = inputs[: field.FIELD_BYTES * (layout.public + 3)]
    assert shorten(DECOYS.name, inputs)[:1] == SHORT


@pytest.mark.parametrize("value", WIDE)
def test_a_wide_value_in_a_narrow_place_is_not_cut(value: int) -> None:
    """No circuit takes it; the worker's answer is to be the provider's own all the same."""
    chance = random.Random(value)
    for run in narrow_runs(TINY.name):
        for at in (run.start, run.stop - 1):
            values = inputs_of(TINY.name, chance)
            values[at] = value
            inputs = field.pack(values)
            assert shorten(TINY.name, inputs) == FULL + inputs
            assert lengthen(TINY.name, FULL + inputs) == inputs


def test_the_modulus_itself_is_not_taken_for_zero() -> None:
    inputs = bytearray(field.pack(inputs_of(TINY.name, random.Random(1))))
    at = field.FIELD_BYTES * narrow_runs(TINY.name)[0].start
    inputs[at : at + field.FIELD_BYTES] = R.to_bytes(32, "big")
    assert shorten(TINY.name, bytes(inputs)) == FULL + inputs


@pytest.mark.parametrize("circuit", ["thinning-126", "estimate-6", "unknown", TINY.name])
def test_what_has_no_narrow_place_stays_as_it_is(circuit: str) -> None:
    inputs = field.pack(range(4))  # of the class they are too few
    assert shorten(circuit, inputs) == FULL + inputs
    assert lengthen(circuit, FULL + inputs) == inputs


def test_hostile_lengths_are_refused() -> None:
    values = inputs_of(TINY.name, random.Random(2))
    short = shorten(TINY.name, field.pack(values))
    fewest = len(short) - field.FIELD_BYTES * (len(values) - narrow_runs(TINY.name)[-1].stop)
    assert lengthen(TINY.name, short[:fewest])  # the native module says what is missing
    for data in (
        b"",
        SHORT,
        FULL,
        b"\x02" + bytes(32),
        FULL + bytes(31),
        short[:-1],
        short[: fewest - 32],
        short + b"x",
    ):
        with pytest.raises(EncodingError, match="not those of its circuit"):
            lengthen(TINY.name, data)
    with pytest.raises(EncodingError, match="not those of its circuit"):
        lengthen("unknown", SHORT + bytes(64))


@pytest.mark.parametrize("size", [0, 33, MAX_INPUTS + 32])
def test_no_circuit_has_such_inputs(size: int) -> None:
    with pytest.raises(EncodingError, match="32 bytes each"):
        Work(TINY.name, bytes(32), bytes(size)).encode()

# SPDX-License-Identifier: GPL-3.0-or-later
"""The native lottery gives what the reference gives, bit for bit."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from ragseal.circuits.search import complete_lottery
from ragseal.kernel.errors import AttestationError, UnprovableError
from ragseal.kernel.lottery_class import LotteryClass
from ragseal.kernel.lottery_mechanism import select_lottery
from ragseal.kernel.mechanism import noise_key
from tests.circuits.lottery_drafts import WIDTH, lottery_tiny

pytest.importorskip("ragseal_native")
from ragseal.backends import mechanism as engines
from ragseal.backends.native import native

TINY = lottery_tiny()
WIDE = complete_lottery("wide", N=2060, K=4, m=9, q=20, c=9, prizes=2)  #: ids and gaps of two chunks
KINDS: dict[str, Callable[[random.Random, LotteryClass], int]] = {
    "zero": lambda rng, cls: 0,
    "equal": lambda rng, cls: 777,
    "full": lambda rng, cls: WIDTH,
    "empty": lambda rng, cls: -5 * WIDTH,
    "edges": lambda rng, cls: rng.choice((0, 1, -1, WIDTH, WIDTH - 1, WIDTH + 1)),
    "extreme": lambda rng, cls: rng.choice((WIDTH + 1 - cls.room, cls.room, 0)),
    "random": lambda rng, cls: rng.randrange(-2 * WIDTH, 2 * WIDTH),
}


@pytest.mark.parametrize("kind", KINDS)
def test_answers_and_hints_equal_the_reference(kind: str) -> None:
    """Of 20 requests with every number of prizes that the class has; between none and more than K prizes come."""
    for cls, count in ((TINY, 20), (WIDE, 2)):
        rng = random.Random(kind)
        for number in range(count):
            prizes = 1 + number % cls.prizes
            w = np.array([KINDS[kind](rng, cls) for _ in range(cls.N)], dtype=np.int64)
            key = noise_key((7, rng.getrandbits(128)), 8, number)
            fast, slow = engines.NativeLotteryEngine(cls), engines.ReferenceLotteryEngine(cls)
            assert fast.answer(key, w, WIDTH, prizes) == slow.answer(key, w, WIDTH, prizes)
            assert fast.hints(key, w, WIDTH, prizes) == slow.hints(key, w, WIDTH, prizes)


def test_its_threshold_is_the_references() -> None:
    """v*, i* and theta, which only hints show otherwise; many slots with one value among them."""
    engine = native.LotteryEngine({n: getattr(TINY, n) for n in ("N", "K", "R", "m", "q", "c", "prizes")}, TINY.grid)
    for number in range(200):
        rng = random.Random(number)
        w = [rng.choice((0, 0, 5, WIDTH)) for _ in range(TINY.N)]
        chosen = select_lottery(TINY, number, w, WIDTH, 3)
        found = engine.answer(number.to_bytes(32, "big"), np.array(w, dtype="<i8").tobytes(), WIDTH, 3)
        assert (found["v"], found["i_star"], found["theta"]) == (
            chosen.threshold,
            chosen.threshold_slot,
            chosen.theta,
        )


def test_a_query_that_no_proof_would_cover_is_refused_by_both() -> None:
    narrow = LotteryClass(**{**TINY.to_mapping(), "R": 4})
    w = np.zeros(TINY.N, dtype=np.int64)
    key = next(k for k in range(100) if len(select_lottery(TINY, k, [0] * TINY.N, WIDTH, 3).places) > 4)
    for engine in (engines.NativeLotteryEngine(narrow), engines.ReferenceLotteryEngine(narrow)):
        with pytest.raises(UnprovableError, match="reach the entry"):
            engine.answer(key, w, WIDTH, 3)
    grid = LotteryClass(**TINY.to_mapping())
    grid.__dict__["grid"] = 4
    key = next(k for k in range(100) if select_lottery(TINY, k, [0] * TINY.N, WIDTH, 3).theta < 253)
    for engine in (engines.NativeLotteryEngine(grid), engines.ReferenceLotteryEngine(grid)):
        with pytest.raises(UnprovableError, match="grid"):
            engine.answer(key, w, WIDTH, 3)


@pytest.mark.parametrize(
    ("count", "width", "prizes", "why"),
    [
        (125, WIDTH, 3, "capacity"),
        (126, 0, 3, "H is out of range"),
        (126, -1, 3, "H is out of range"),
        (126, TINY.room - 511, 3, "H is out of range"),
        (126, (1 << 63) - 1, 3, "H is out of range"),
        (126, WIDTH, 4, "takes 1 to 3"),
    ],
)
def test_what_contradicts_the_class_is_refused(count: int, width: int, prizes: int, why: str) -> None:
    with pytest.raises(AttestationError, match=why):
        engines.NativeLotteryEngine(TINY).answer(1, np.zeros(count, dtype=np.int64), width, prizes)


def test_scores_that_overflow_the_class_have_no_hints() -> None:
    w = np.zeros(TINY.N, dtype=np.int64)
    for score in (TINY.room + 1, -TINY.room):
        w[0] = score
        for engine in (engines.NativeLotteryEngine(TINY), engines.ReferenceLotteryEngine(TINY)):
            with pytest.raises(AttestationError, match="out of range"):
                engine.hints(1, w, WIDTH, 3)


@pytest.mark.parametrize("change", [{"K": 22}, {"R": 127}, {"q": 17}, {"m": 12}, {"prizes": 0}, {"prizes": 103}])
def test_a_shape_that_is_no_class_is_refused(change: dict[str, int]) -> None:
    sizes = {n: getattr(TINY, n) for n in ("N", "K", "R", "m", "q", "c", "prizes")}
    with pytest.raises(native.NativeError, match="impossible"):
        native.LotteryEngine({**sizes, **change}, TINY.grid)

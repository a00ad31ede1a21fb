# SPDX-License-Identifier: GPL-3.0-or-later
"""What engines may be asked, at its bounds: one check stands before both of them, so their agreement shows nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ragseal.backends.asked import SCORE_LIMIT, check_asked, int8_entries
from ragseal.circuits.circuit import load_classes
from ragseal.kernel.errors import AttestationError, AuditError, EncodingError
from ragseal.kernel.params import MAX_SHARDS, R

CLASSES: dict[str, Any] = dict(load_classes())
NOISE, LOTTERY = (CLASSES[name] for name in ("noise-tiny-one", "lottery-tiny"))


def ask(cls: Any, key: int = 1, w: Any = None, hmax: int = 100, prizes: int = 1) -> None:
    check_asked(cls, key, np.zeros(cls.N, dtype=np.int64) if w is None else w, hmax, prizes)


def scores(cls: Any, last: int, shards: int = 1) -> Any:
    found = np.zeros(cls.N * shards, dtype=np.int64)
    found[-1] = last
    return found


def test_the_largest_scores_are_taken_and_none_beyond() -> None:
    for last in (SCORE_LIMIT - 1, 1 - SCORE_LIMIT):
        ask(NOISE, w=scores(NOISE, last))
    for last in (SCORE_LIMIT, -SCORE_LIMIT):
        with pytest.raises(AttestationError, match="a score is out of range"):
            ask(NOISE, w=scores(NOISE, last))


@pytest.mark.parametrize("less", [0, 1])
def test_scores_are_of_whole_shards(less: int) -> None:
    for count in (1, 2, MAX_SHARDS):
        w = scores(NOISE, 5, count)[less:]
        if less:
            with pytest.raises(AttestationError, match="of 1 to 64 shards of"):
                ask(NOISE, w=w)
        else:
            ask(NOISE, w=w)
    for count in (0, MAX_SHARDS + 1):
        with pytest.raises(AttestationError, match="of 1 to 64 shards of"):
            ask(NOISE, w=np.zeros(NOISE.N * count, dtype=np.int64))
    with pytest.raises(AttestationError, match="for a capacity of"):
        ask(LOTTERY, w=scores(LOTTERY, 5, 2))


@pytest.mark.parametrize(
    ("cls", "least", "most"),
    [
        (NOISE, 0, 1 << NOISE.c),
        (LOTTERY, 1, (1 << 2 * LOTTERY.c) - (2 << LOTTERY.m)),
    ],
    ids=["noise", "lottery"],
)
def test_h_is_what_the_class_s_comparisons_hold(cls: Any, least: int, most: int) -> None:
    for hmax in (least, most):
        ask(cls, hmax=hmax)
    for hmax in (least - 1, most + 1):
        with pytest.raises(AttestationError, match=f"H is out of range: {hmax}, where .* holds {least} to {most}"):
            ask(cls, hmax=hmax)


def test_a_lottery_has_a_prize_and_no_more_than_its_class_takes() -> None:
    for prizes in (1, LOTTERY.prizes):
        ask(LOTTERY, prizes=prizes)
    for prizes in (0, LOTTERY.prizes + 1):
        with pytest.raises(AttestationError, match=f"{prizes} prizes in"):
            ask(LOTTERY, prizes=prizes)
    ask(NOISE, prizes=0)  # who has none asks for none


def test_a_key_is_of_the_field_and_scores_are_integers() -> None:
    ask(NOISE, key=R - 1)
    with pytest.raises(EncodingError):
        ask(NOISE, key=R)
    for wrong in (np.zeros(NOISE.N), np.zeros(NOISE.N, dtype=bool)):
        with pytest.raises(AttestationError):
            ask(NOISE, w=wrong)
    with pytest.raises(AttestationError):
        ask(LOTTERY, w=np.zeros((1, LOTTERY.N), dtype=np.int64))


@pytest.mark.parametrize("bad", [[1.0, 1.0], [True, False], [-129, 1], [1, 128], [1], [1, 1, 1], [[1, 1]], ["1", "1"]])
def test_entries_are_small_integers(bad: Any) -> None:
    assert int8_entries([-128, 127], 2).tolist() == [-128, 127]
    with pytest.raises(AuditError):
        int8_entries(bad, 2)

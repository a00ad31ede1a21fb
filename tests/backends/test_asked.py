# SPDX-License-Identifier: GPL-3.0-or-later
"""What engines may be asked, at its bounds: one check stands before both of them, so their agreement shows nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ragseal.backends.asked import SCORE_LIMIT, check_asked, int8_entries
from ragseal.circuits.circuit import load_classes
from ragseal.kernel.classes import Asked
from ragseal.kernel.decoys.table import RATE_BITS
from ragseal.kernel.errors import AttestationError, AuditError, EncodingError
from ragseal.kernel.params import MAX_SHARDS, R

CLASSES: dict[str, Any] = dict(load_classes())
NOISE, DECOYS = (CLASSES[name] for name in ("noise-tiny-one", "decoys-tiny"))
TABLE = DECOYS.table(1 << RATE_BITS).rows(DECOYS.draws)


def ask(cls: Any, key: int = 1, w: Any = None, asked: Asked | None = None) -> None:
    usual = Asked((100,)) if cls is NOISE else Asked((100, 3), TABLE)
    check_asked(cls, key, np.zeros(cls.N, dtype=np.int64) if w is None else w, asked or usual)


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
    ask(DECOYS, w=scores(DECOYS, 5, 3))
    with pytest.raises(AttestationError, match="of 1 to 3 shards of"):
        ask(DECOYS, w=scores(DECOYS, 5, 4))


def test_h_is_what_the_class_s_comparisons_hold() -> None:
    most = 1 << NOISE.c
    for hmax in (0, most):
        ask(NOISE, asked=Asked((hmax,)))
    for hmax in (-1, most + 1):
        with pytest.raises(AttestationError, match=f"H is out of range: {hmax}, where .* holds 0 to {most}"):
            ask(NOISE, asked=Asked((hmax,)))
    with pytest.raises(AttestationError, match="H is out of range"):
        ask(NOISE, asked=Asked((1, 1)))


def test_decoys_are_asked_for_lo_for_k_and_for_their_table() -> None:
    """K of an index of more shards may be larger."""
    for lo, K in ((0, 1), (DECOYS.reach - 1, DECOYS.room)):
        ask(DECOYS, asked=Asked((lo, K), TABLE))
    ask(DECOYS, w=scores(DECOYS, 5, 3), asked=Asked((0, 3 * DECOYS.room), TABLE))
    for lo, K in ((-1, 1), (DECOYS.reach, 1), (0, 0), (0, DECOYS.room + 1)):
        with pytest.raises(AttestationError, match=f"lo = {lo} and K = {K} are out of range"):
            ask(DECOYS, asked=Asked((lo, K), TABLE))
    for wrong in (Asked((1, 1)), Asked((1, 1), TABLE[1:]), Asked((1,), TABLE)):
        with pytest.raises(AttestationError, match="a table of 21 entries"):
            ask(DECOYS, asked=wrong)


def test_a_key_is_of_the_field_and_scores_are_integers() -> None:
    ask(NOISE, key=R - 1)
    with pytest.raises(EncodingError):
        ask(NOISE, key=R)
    for wrong in (np.zeros(NOISE.N), np.zeros(NOISE.N, dtype=bool)):
        with pytest.raises(AttestationError):
            ask(NOISE, w=wrong)
    with pytest.raises(AttestationError):
        ask(DECOYS, w=np.zeros(DECOYS.N - 1, dtype=np.int64))


@pytest.mark.parametrize("bad", [[1.0, 1.0], [True, False], [-129, 1], [1, 128], [1], [1, 1, 1], [[1, 1]], ["1", "1"]])
def test_entries_are_small_integers(bad: Any) -> None:
    assert int8_entries([-128, 127], 2).tolist() == [-128, 127]
    with pytest.raises(AuditError):
        int8_entries(bad, 2)

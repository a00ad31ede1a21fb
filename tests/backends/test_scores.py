# SPDX-License-Identifier: GPL-3.0-or-later
"""Scores: the native product, numpy's and the definition agree, to the extremes of int8."""

from __future__ import annotations

import numpy as np
import pytest

import ragseal_native as native
from ragseal.backends.group import NativeGroup
from ragseal.backends.scores import NativeScores, NumpyScores, commit_scores
from ragseal.kernel.bn254 import PurePythonGroup
from ragseal.kernel.commitment import ScoreBases
from ragseal.kernel.errors import AttestationError, ProofError
from ragseal.kernel.params import R


@pytest.mark.parametrize("d", [1, 15, 16, 17, 384, 4096])
@pytest.mark.parametrize("n", [1, 511, 1030])
def test_both_agree_with_the_definition(n: int, d: int) -> None:
    rng = np.random.default_rng(d)
    matrix = rng.integers(-128, 128, (n, d), dtype=np.int8)
    matrix[0], matrix[n - 1] = -128, 127
    for e in (np.full(d, -128, np.int8), np.full(d, 127, np.int8), rng.integers(-128, 128, d, dtype=np.int8)):
        want = [sum(int(a) * int(b) for a, b in zip(matrix[i], e, strict=True)) for i in (0, n // 2, n - 1)]
        both = [kind(matrix).scores([int(x) for x in e]) for kind in (NativeScores, NumpyScores)]
        assert np.array_equal(*both)
        assert [int(both[0][i]) for i in (0, n // 2, n - 1)] == want


def test_malformed_input_is_refused() -> None:
    with pytest.raises(native.NativeError, match="rows of 3 entries"):
        native.ScoreMatrix(bytes(10), 3)
    with pytest.raises(native.NativeError, match="rows of 0 entries"):
        native.ScoreMatrix(b"", 0)
    with pytest.raises(native.NativeError, match="2 entries of e, 3 expected"):
        native.ScoreMatrix(bytes(9), 3).scores(bytes(2))
    with pytest.raises(native.NativeError, match="nobody writes to"):
        native.ScoreMatrix(memoryview(bytearray(9)), 3)
    with pytest.raises(native.NativeError, match="contiguous"):
        native.ScoreMatrix(memoryview(bytes(18))[::2], 3)


def test_an_index_lies_in_memory_once_and_cannot_change() -> None:
    matrix = np.ones((3, 4), dtype=np.int8)
    made = NativeScores(matrix)
    with pytest.raises(ValueError, match="read-only"):
        matrix[0, 0] = 2
    del matrix
    assert made.scores([1, 2, 3, 4]).tolist() == [10, 10, 10]


def test_commitment_of_scores_agrees_with_the_kernel() -> None:
    points = NativeGroup().hash_to_curve(b"columns", 25)
    columns, bases = points[:-64], ScoreBases(b"", points[-64:])
    for e, rho in (([-128, 127] * 12, R - 1), ([0] * 24, 1), (list(range(-12, 12)), 12345 << 200)):
        both = [commit_scores(group, columns, bases, e, rho) for group in (NativeGroup(), PurePythonGroup())]
        assert both[0] == both[1]
    with pytest.raises(AttestationError, match="23 entries of e, 24 expected"):
        commit_scores(NativeGroup(), columns, bases, [1] * 23, 5)
    with pytest.raises(ProofError, match="identity"):
        commit_scores(NativeGroup(), bytes(64) + columns[64:], bases, [1] * 24, 5)

# SPDX-License-Identifier: GPL-3.0-or-later
"""The native engine computes exactly what the kernel's plain integers do.  SPEC M.5 to M.8."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import ragseal_native as native
from ragseal.backends import mechanism
from ragseal.backends.asked import SCORE_LIMIT, check_asked, int8_entries
from ragseal.backends.group import NativeGroup
from ragseal.backends.mechanism import NativeNoiseEngine, ReferenceNoiseEngine
from ragseal.backends.native import available
from ragseal.backends.response import CommittedIndex, Response, ScoreLine, respond
from ragseal.backends.scores import NativeScores, NumpyScores, commit_scores
from ragseal.circuits.circuit import load_classes
from ragseal.kernel.bn254 import PurePythonGroup
from ragseal.kernel.classes import Asked
from ragseal.kernel.commitment import ScoreBases
from ragseal.kernel.decoys.table import RATE_BITS
from ragseal.kernel.errors import AttestationError, AuditError, EncodingError, ProofError, UnprovableError
from ragseal.kernel.noise_class import NoiseClass
from ragseal.kernel.params import GAUSSIAN as GAUSSIAN_LAW
from ragseal.kernel.params import MAX_SHARDS, NOISE_LAWS, R
from tests.classes import GAUSSIAN

pytestmark = pytest.mark.slow


def noisy(law: str, **changes: int) -> NoiseClass:
    values: dict[str, int] = {
        "N": 120,
        "K": 3,
        "R": 30,
        "m": 8,
        "q": 20,
        "c": 13 if law == GAUSSIAN_LAW else 11,
        "S": 2,
        **changes,
    }
    return NoiseClass(name="toy", law=law, a=Fraction(3), b=Fraction(1, 2), **values)


@pytest.mark.skipif(not available(), reason="the native module is not installed")
@pytest.mark.parametrize("law", NOISE_LAWS)
@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("shape", [{}, {"N": 2300, "q": 23, "m": 9, "R": 62, "K": 10}, {"m": 10, "c": 13, "R": 40}])
def test_a_noise_class_has_the_same_answers_and_hints(law: str, shards: int, shape: dict[str, int]) -> None:
    cls, rng = noisy(law, **shape), random.Random(12)
    native, reference = mechanism.NativeNoiseEngine(cls), mechanism.ReferenceNoiseEngine(cls)
    for trial in range(5):
        steps, slots = rng.randrange(1, 300), shards * cls.N
        w = np.array([rng.randrange(-1000, 600) * 2048 + rng.randrange(2048) for _ in range(slots)], dtype=np.int64)
        if trial == 0:
            w[:] = -3000
        elif trial == 1:
            w = w % (100 << cls.c)
        key, asked = rng.randrange(R), Asked((steps,))
        assert native.answer(key, w, asked) == reference.answer(key, w, asked)
        fast, slow = native.hidden(key, w, asked), reference.hidden(key, w, asked)
        assert len(fast) == shards
        assert (list(fast), fast.shared) == (list(slow), slow.shared)


@pytest.mark.skipif(not available(), reason="the native module is not installed")
def test_refusals_of_a_noise_class() -> None:
    cls = noisy(NOISE_LAWS[0])
    native, w = mechanism.NativeNoiseEngine(cls), np.zeros(cls.N, dtype=np.int64)
    crowded, refused = mechanism.NativeNoiseEngine(noisy(NOISE_LAWS[0], K=4, R=6)), 0
    for key in range(60):
        try:
            crowded.answer(key, w, Asked((1,)))
        except UnprovableError:
            refused += 1
    assert refused
    with pytest.raises(AttestationError, match="of 1 to 2 shards of 120 slots"):
        native.answer(1, w[1:], Asked((1,)))
    with pytest.raises(AttestationError, match="policy overflow"):
        native.hidden(1, w - (5000 << 11), Asked((60,)))[0]
    with pytest.raises(AttestationError, match="out of range"):
        native.answer(1, w + (1 << 41), Asked((60,)))


# What engines may be asked, at its bounds: one check stands before both of them, so their agreement shows nothing.


CLASSES: dict[str, Any] = dict(load_classes())
NOISE, DECOYS = (CLASSES[name] for name in ("noise-tiny-two", "decoys-tiny"))
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


# One call for a query gives what scores, mechanism and commitment give one after the other.


D, ASKED = 16, Asked((90,))
RESPONSE_CLASSES = load_classes()


def _index(slots: int) -> tuple[np.ndarray, bytes, bytes]:
    rng = np.random.default_rng(slots)
    points = NativeGroup().hash_to_curve(b"response", D + 1)
    return rng.integers(-128, 128, (slots, D), dtype=np.int8), points[:-64], points[-64:]


@pytest.mark.parametrize(
    ("name", "shards"),
    [("noise-tiny-two", 1), ("noise-tiny-two", 3), ("noise-tiny-gaussian", 1)],
)
def test_one_native_call_is_the_kernel_step_by_step(name: str, shards: int) -> None:
    cls = RESPONSE_CLASSES[name]
    assert isinstance(cls, NoiseClass)
    parts = [_index(cls.N + at) for at in range(shards)]
    matrix, b = np.concatenate([rows[: cls.N] for rows, *_ in parts]), parts[0][2]
    columns = [own for _, own, _ in parts]
    e = np.random.default_rng(1).integers(-128, 128, D, dtype=np.int8).tobytes()
    line, answered = ScoreLine(1000, 1 << 12, ASKED), []
    rhos = [R - 2 - at for at in range(shards)]
    for key in (1, 7, R - 1):
        both: list[Response] = []
        for group, engine, rows in (
            (NativeGroup(), NativeNoiseEngine(cls), NativeScores(matrix)),
            (PurePythonGroup(), ReferenceNoiseEngine(cls), NumpyScores(matrix)),
        ):
            found = respond(group, engine, CommittedIndex(rows, columns, ScoreBases(b"", b)), line, key, e, rhos)
            both.append(found)
        assert both[0] == both[1]
        assert len(both[0].c_y) == 64 * shards
        answered.append(both[0].returned)
    assert len(set(answered)) > 1, "the key decides"
    assert any(score < 0 for score in both[0].scores) or all(one.flag for one in both[0].returned)


def test_refusals_have_their_names() -> None:
    cls = GAUSSIAN
    matrix, columns, b = _index(cls.N)
    native_parts = NativeGroup(), NativeNoiseEngine(cls)
    index = CommittedIndex(NativeScores(matrix), [columns], ScoreBases(b"", b))
    with pytest.raises(AttestationError, match="15 entries of e, 16 expected"):
        respond(*native_parts, index, ScoreLine(0, 1, ASKED), 5, bytes(15), [1])
    with pytest.raises(AttestationError, match="a score is out of range"):
        respond(*native_parts, index, ScoreLine(-1, 1 << 62, ASKED), 5, bytes([127]) * D, [1])
    short = replace(index, rows=NativeScores(matrix[1:]))
    with pytest.raises(AttestationError, match="are no shards of"):
        respond(*native_parts, short, ScoreLine(0, 1, ASKED), 5, bytes(D), [1])
    with pytest.raises(AttestationError, match="2 blinders for 1 shards"):
        respond(*native_parts, index, ScoreLine(0, 1, ASKED), 5, bytes(D), [1, 2])
    with pytest.raises(native.NativeError):
        native.Committer(columns[1:], b)


# Scores: the native product, numpy's and the definition agree, to the extremes of int8.


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

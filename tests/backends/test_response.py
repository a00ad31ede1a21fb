# SPDX-License-Identifier: GPL-3.0-or-later
"""One call for a query gives what scores, mechanism and commitment give one after the other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import ragseal_native as native
from ragseal.backends.group import NativeGroup
from ragseal.backends.mechanism import NativeNoiseEngine, ReferenceNoiseEngine
from ragseal.backends.response import CommittedIndex, Response, ScoreLine, respond
from ragseal.backends.scores import NativeScores, NumpyScores
from ragseal.circuits.circuit import load_classes
from ragseal.kernel.bn254 import PurePythonGroup
from ragseal.kernel.classes import Asked
from ragseal.kernel.commitment import ScoreBases
from ragseal.kernel.errors import AttestationError
from ragseal.kernel.noise_class import NoiseClass
from ragseal.kernel.params import R
from tests.classes import ONE_SIDED

D, ASKED = 16, Asked((90,))
CLASSES = load_classes()


def _index(slots: int) -> tuple[np.ndarray, bytes, bytes]:
    rng = np.random.default_rng(slots)
    points = NativeGroup().hash_to_curve(b"response", D + 1)
    return rng.integers(-128, 128, (slots, D), dtype=np.int8), points[:-64], points[-64:]


@pytest.mark.parametrize(
    ("name", "shards"),
    [("noise-tiny-one", 1), ("noise-tiny-two", 1), ("noise-tiny-two", 3), ("noise-tiny-gaussian", 1)],
)
def test_one_native_call_is_the_kernel_step_by_step(name: str, shards: int) -> None:
    cls = CLASSES[name]
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
    cls = ONE_SIDED
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

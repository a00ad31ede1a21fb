# SPDX-License-Identifier: GPL-3.0-or-later
"""The two engines of decoys and the two ways to a shard's hidden inputs, native and plain: the same of both."""

from __future__ import annotations

import random

import numpy as np
import pytest

from ragseal.backends import mechanism
from ragseal.backends.asked import ScoreLine
from ragseal.backends.group import NativeGroup, default_group
from ragseal.backends.mechanism import NativeDecoysEngine, ReferenceDecoysEngine, hidden_wires, open_engine
from ragseal.backends.response import CommittedIndex, respond
from ragseal.backends.scores import NumpyScores, score_matrix
from ragseal.kernel.classes import Asked
from ragseal.kernel.commitment import ScoreBases
from ragseal.kernel.decoys.decoys_class import DecoysClass
from ragseal.kernel.errors import AttestationError, UnprovableError
from ragseal.kernel.params import R
from tests.decoys.drafts import FULL, LO, TINY, WIDE, scores, table_of


def asked(cls: DecoysClass, K: int, rate: int = 2 << 16, lo: int = LO) -> Asked:
    return Asked((lo, K), table_of(cls, rate).rows(cls.draws))


@pytest.mark.parametrize("cls", [TINY, FULL, WIDE], ids=lambda cls: cls.name)
def test_engines_answer_and_open_alike(cls: DecoysClass, monkeypatch: pytest.MonkeyPatch) -> None:
    native, plain = NativeDecoysEngine(cls), ReferenceDecoysEngine(cls)
    assert isinstance(open_engine(cls), NativeDecoysEngine)
    for number in range(1, 7 if cls is WIDE else 25):
        rng = random.Random(number)
        y = np.array(scores(rng, cls, 1 + number % cls.S), dtype=np.int64).reshape(-1)
        what = asked(cls, rng.choice((1, 5, cls.room)), rng.choice((1 << 14, 2 << 16)))
        assert native.answer(number, y, what) == plain.answer(number, y, what)
        fast, slow = native.hidden(number, y, what), plain.hidden(number, y, what)
        assert (len(fast), fast.shared) == (len(slow), slow.shared)
        for own, one, other in zip(y.reshape(-1, cls.N).tolist(), fast, slow, strict=True):
            assert one == other
            beta = rng.randrange(1, R)
            with monkeypatch.context() as alone:
                found = hidden_wires(cls, own, one, beta)
                alone.setattr(mechanism, "available", lambda: False)
                assert found == hidden_wires(cls, own, one, beta)


@pytest.mark.parametrize("shards", [1, 2, 3])
def test_one_native_call_is_the_kernel_step_by_step(shards: int) -> None:
    rng, group = np.random.default_rng(shards), default_group()
    assert isinstance(group, NativeGroup)
    rows = rng.integers(-9, 10, (shards * TINY.N, 48), dtype=np.int8)
    rows[rng.random(len(rows)) < 0.5] = 1
    points = group.hash_to_curve(b"columns", 48 * shards + 1)
    columns = tuple(points[48 * 64 * h : 48 * 64 * (h + 1)] for h in range(shards))
    bases = ScoreBases(b"", points[-64:])
    quick = CommittedIndex(score_matrix(rows), columns, bases)
    plain = CommittedIndex(NumpyScores(rows), columns, bases)
    for number in range(1, 11):
        line, e = ScoreLine(0, 1, asked(TINY, 1 + number, lo=20)), rng.integers(-9, 10, 48, dtype=np.int8).tobytes()
        rhos = [number + h for h in range(shards)]
        found = respond(group, NativeDecoysEngine(TINY), quick, line, number, e, rhos)
        assert found == respond(group, ReferenceDecoysEngine(TINY), plain, line, number, e, rhos)


@pytest.mark.parametrize("engine", [NativeDecoysEngine, ReferenceDecoysEngine])
def test_refusals_have_their_names(engine: type[NativeDecoysEngine] | type[ReferenceDecoysEngine]) -> None:
    y, tight = np.full(60, LO + 1), DecoysClass("decoys-tight", N=60, draws=14, room=3, c=8, chunks=2)
    with pytest.raises(UnprovableError, match="cannot be proven"):
        [engine(tight).answer(key, y, asked(tight, 3, 5 << 15)) for key in range(40)]
    for given in (y[:-1], np.zeros(240, dtype=np.int64), np.full(60, 1 << 17), np.full(60, 1 << 39)):
        with pytest.raises(AttestationError):
            engine(TINY).answer(1, given, asked(TINY, 3))
    for what in (asked(TINY, 0), asked(TINY, 13), asked(TINY, 3, lo=-1), asked(TINY, 3, lo=1 << 33), Asked((LO, 3))):
        with pytest.raises(AttestationError):
            engine(TINY).hidden(1, y, what)

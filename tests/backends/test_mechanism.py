# SPDX-License-Identifier: GPL-3.0-or-later
"""The native engine computes exactly what the kernel's plain integers do.  SPEC M.5 to M.8."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest

from ragseal.backends import mechanism
from ragseal.backends.native import available
from ragseal.kernel.errors import AttestationError, UnprovableError
from ragseal.kernel.noise_class import NoiseClass
from ragseal.kernel.params import RANKED_LAWS, CircuitClass, R

pytestmark = pytest.mark.skipif(not available(), reason="the native module is not installed")


def toy(law: str, **changes: int) -> CircuitClass:
    values: dict[str, int] = {"N": 120, "K": 3, "R": 30, "m": 8, "q": 20, "c": 9, "s": 4, **changes}
    return CircuitClass(name="toy", law=law, a=Fraction(3), b=Fraction(1, 2), **values)


CLASSES = [
    toy("gaussian"),
    toy("geometric"),
    toy("gaussian", c=12, s=8),
    toy("geometric", N=119, q=17, m=12, c=11, K=10, R=60, s=6),
    toy("gaussian", R=120),
    toy("one-sided"),
    toy("one-sided", N=119, q=17, m=12, c=11, K=10, R=60, s=6),
]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda c: f"{c.law}-{c.N}-{c.m}-{c.c}")
def test_same_answer_and_same_hints(cls: CircuitClass) -> None:
    rng = random.Random(11)
    native, reference = mechanism.NativeEngine(cls), mechanism.ReferenceEngine(cls)
    scale = 256 << cls.s
    for trial in range(6):
        hmax = rng.randrange(1, 4 * scale)
        w = np.array([rng.randrange(-scale, 5 * scale) for _ in range(cls.N)], dtype=np.int64)
        if trial == 0:
            w[:] = -scale
        key = rng.randrange(R)
        assert native.answer(key, w, hmax) == reference.answer(key, w, hmax)
        assert native.hints(key, w, hmax) == reference.hints(key, w, hmax)


def test_refusals() -> None:
    cls = toy("gaussian")
    native = mechanism.NativeEngine(cls)
    w = np.zeros(cls.N, dtype=np.int64)
    with pytest.raises(UnprovableError, match="more than R"):
        mechanism.NativeEngine(toy("gaussian", R=4, m=2)).answer(1, w, 1)
    with pytest.raises(AttestationError, match="capacity"):
        native.answer(1, w[1:], 1)
    with pytest.raises(AttestationError, match="policy overflow"):
        native.hints(1, w - (1 << 20), 6000)
    with pytest.raises(AttestationError, match="out of range"):
        native.answer(1, w + (1 << 41), 6000)
    with pytest.raises(AttestationError, match="out of range"):
        native.answer(1, w, -1)


def noisy(law: str, **changes: int) -> NoiseClass:
    values: dict[str, int] = {"N": 120, "K": 3, "R": 30, "m": 8, "q": 20, "c": 11, "S": 2, **changes}
    return NoiseClass(name="toy", law=law, a=Fraction(3), b=Fraction(1, 2), **values)


@pytest.mark.parametrize("law", RANKED_LAWS)
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
        key = rng.randrange(R)
        assert native.answer(key, w, steps) == reference.answer(key, w, steps)
        fast, slow = native.shard_hints(key, w, steps), reference.shard_hints(key, w, steps)
        assert len(fast) == shards
        assert (list(fast), fast.threshold) == (list(slow), slow.threshold)


def test_refusals_of_a_noise_class() -> None:
    cls = noisy(RANKED_LAWS[0])
    native, w = mechanism.NativeNoiseEngine(cls), np.zeros(cls.N, dtype=np.int64)
    crowded, refused = mechanism.NativeNoiseEngine(noisy(RANKED_LAWS[0], K=4, R=6)), 0
    for key in range(60):
        try:
            crowded.answer(key, w, 1)
        except UnprovableError:
            refused += 1
    assert refused
    with pytest.raises(AttestationError, match="of 1 to 2 shards of 120 slots"):
        native.answer(1, w[1:], 1)
    with pytest.raises(AttestationError, match="policy overflow"):
        native.shard_hints(1, w - (5000 << 11), 60)[0]
    with pytest.raises(AttestationError, match="out of range"):
        native.answer(1, w + (1 << 41), 60)

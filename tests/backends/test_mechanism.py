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
from ragseal.kernel.params import CircuitClass, R

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

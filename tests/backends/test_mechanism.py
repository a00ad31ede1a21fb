# SPDX-License-Identifier: GPL-3.0-or-later
"""The native engine computes exactly what the kernel's plain integers do.  SPEC M.5 to M.8."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest

from ragseal.backends import mechanism
from ragseal.backends.native import available
from ragseal.kernel.classes import Asked
from ragseal.kernel.errors import AttestationError, UnprovableError
from ragseal.kernel.noise_class import NoiseClass
from ragseal.kernel.params import NOISE_LAWS, R

pytestmark = pytest.mark.skipif(not available(), reason="the native module is not installed")


def noisy(law: str, **changes: int) -> NoiseClass:
    values: dict[str, int] = {"N": 120, "K": 3, "R": 30, "m": 8, "q": 20, "c": 11, "S": 2, **changes}
    return NoiseClass(name="toy", law=law, a=Fraction(3), b=Fraction(1, 2), **values)


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

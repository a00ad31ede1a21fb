# SPDX-License-Identifier: GPL-3.0-or-later
"""Poseidon against circomlib's known value and the kernel's readable permutation, at every width."""

from __future__ import annotations

import random

import pytest

from ragseal.kernel import poseidon as reference
from ragseal.kernel.params import R

native = pytest.importorskip("ragseal_native")


def be(value: int) -> bytes:
    return value.to_bytes(32, "big")


def test_circomlib_value() -> None:
    want = 7853200120776062878684798364095072458815029376092732009249414926327459813530
    assert native.poseidon([be(1), be(2)]) == be(want)


@pytest.mark.parametrize("width", range(2, 18))
def test_every_width(width: int) -> None:
    rng = random.Random(width)
    state = [rng.randrange(R) for _ in range(width)]
    assert native.poseidon_permute([be(x) for x in state]) == [be(x) for x in reference.permute(state)]


@pytest.mark.parametrize("width", [0, 1, 18])
def test_other_widths_are_refused(width: int) -> None:
    with pytest.raises(native.NativeError, match="widths"):
        native.poseidon_permute([be(1)] * width)

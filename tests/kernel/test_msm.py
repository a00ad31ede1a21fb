# SPDX-License-Identifier: GPL-3.0-or-later
"""Multi-scalar multiplication in plain Python against py_ecc: points without a slope, digits that carry."""

from __future__ import annotations

import random

import pytest
from py_ecc import optimized_bn128 as ecc

from ragseal.kernel.msm import Affine, Point, add_pairs, multi_scalar, sum_groups
from ragseal.kernel.params import P, R


def times(k: int) -> Affine:
    """k G by py_ecc."""
    if k % R == 0:
        return None
    x, y = ecc.normalize(ecc.multiply(ecc.G1, k % R))
    return int(x), int(y)


def point(k: int) -> Point:
    found = times(k)
    assert found is not None
    return found


def test_additions_are_complete() -> None:
    left, right = [3, 5, 7, 9, 3], [4, 5, -7, 2, 3]
    sums = add_pairs([point(k) for k in left], [point(k) for k in right])
    assert sums == [times(a + b) for a, b in zip(left, right, strict=True)]
    assert sums[2] is None
    assert add_pairs([], []) == []
    with pytest.raises(ValueError, match="shorter"):
        add_pairs([point(1)], [])


def test_groups() -> None:
    groups = [[], [4], [2, 2], [5, -5], [1, 2, 3, -6], [3, 3, 3, 3, 3], [1, -1, 8], list(range(1, 12))]
    found = sum_groups([[point(k) for k in group] for group in groups])
    assert found == [times(sum(group)) for group in groups]


@pytest.mark.parametrize("bits", [1, 2, 7, 8, 64, 128, 254])
@pytest.mark.parametrize("count", [1, 2, 33])
def test_any_length_of_scalars(bits: int, count: int) -> None:
    rng = random.Random(1000 * bits + count)
    logs = [rng.randrange(1, R) for _ in range(count)]
    scalars = [min(rng.getrandbits(bits), R - 1) * rng.choice((1, -1)) for _ in logs]
    got = multi_scalar([point(k) for k in logs], scalars)
    assert got == times(sum(k * s for k, s in zip(logs, scalars, strict=True)))


@pytest.mark.parametrize("scalar", [0, 1, -1, R, R - 1, R + 5, R // 2, R // 2 + 1, (1 << 253) - 1, 1 << 253, 1 << 128])
def test_edges(scalar: int) -> None:
    assert multi_scalar([point(77)], [scalar]) == times(77 * scalar)
    assert multi_scalar([point(77), point(77), point(-77)], [scalar, scalar, scalar]) == times(77 * scalar)


def test_identities_and_nothing() -> None:
    assert multi_scalar([], []) is None
    assert multi_scalar([None, None], [3, 4]) is None
    assert multi_scalar([None, point(2)], [3, 4]) == times(8)
    assert multi_scalar([point(2), point(3)], [3, -2]) is None
    assert times(1) == (1, 2)
    assert times(-1) == (1, P - 2)
    with pytest.raises(ValueError, match="shorter"):
        multi_scalar([point(1)], [])

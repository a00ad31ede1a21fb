# SPDX-License-Identifier: GPL-3.0-or-later
"""e = round-half-to-even(127 v / |v|), against exact rational arithmetic, and what has no e."""

from __future__ import annotations

from fractions import Fraction
from math import isqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ragseal.embedder import quantise
from ragseal.kernel.errors import EncodingError


def _exact(row: list[float]) -> list[int | None]:
    """Entries by integers alone; None where float64 may fall on either side of a tie."""
    v = [Fraction(x) for x in row]
    square = sum(x * x for x in v)
    out: list[int | None] = []
    for x in v:
        # 254 |x| / |v| = sqrt(254^2 x^2 / |v|^2): its integer part says between which halves the entry lies
        doubled = Fraction(254**2) * x * x / square
        halves = isqrt(doubled.numerator // doubled.denominator)
        near = Fraction(round(float(doubled) ** 0.5)) ** 2
        if abs(doubled - near) < Fraction(1, 10**9) and round(float(doubled) ** 0.5) % 2:
            out.append(None)
        else:
            out.append((halves + 1) // 2 * (1 if x > 0 else -1))
    return out


@given(
    hnp.arrays(
        np.float32,
        st.tuples(st.integers(1, 4), st.integers(1, 9)),
        elements=st.floats(-1e6, 1e6, width=32, allow_subnormal=False),
    )
)
def test_agrees_with_exact_arithmetic(v: np.ndarray) -> None:
    v = v[np.abs(v).max(axis=1) > 0]
    e = quantise(v)
    assert e.dtype == np.int8
    assert e.shape == v.shape
    for row, got in zip(v.tolist(), e.tolist(), strict=True):
        for want, have in zip(_exact(row), got, strict=True):
            assert want is None or want == have


def test_ties_go_to_even() -> None:
    # |v| = 254 exactly, so an entry x becomes x / 2: odd entries are ties
    rest = 254**2 - (1 + 9 + 25 + 49)
    row = [1.0, 3.0, -5.0, 7.0]
    while rest:
        part = isqrt(rest)
        row.append(float(part))
        rest -= part * part
    assert quantise(np.array([row]))[0][:4].tolist() == [0, 2, -2, 4]


def test_scale_does_not_matter_even_where_squares_under_or_overflow() -> None:
    v = np.array([[3.0, -4.0, 0.5]])
    for scale in (1e-300, 1e-30, 1.0, 1e200):
        assert np.array_equal(quantise(v * scale), quantise(v))


def test_axis_and_extremes() -> None:
    assert quantise(np.array([[0.0, -2.0], [5e-324, 0.0]])).tolist() == [[0, -127], [127, 0]]
    assert quantise(np.zeros((0, 5))).shape == (0, 5)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_broken_vectors_are_named(bad: float) -> None:
    with pytest.raises(EncodingError, match=r"vector 1 .*NaN"):
        quantise(np.array([[1.0, 2.0], [bad, 1.0]], dtype=np.float32))


def test_the_zero_vector_has_no_direction() -> None:
    with pytest.raises(EncodingError, match="vector 1 is zero"):
        quantise(np.array([[1.0, 2.0], [0.0, 0.0]]))


@pytest.mark.parametrize("shape", [(3,), (1, 2, 3), (2, 0)])
def test_shapes_other_than_a_matrix_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(EncodingError, match="matrix"):
        quantise(np.ones(shape))


def test_integers_are_refused() -> None:
    with pytest.raises(EncodingError, match="float"):
        quantise(np.ones((2, 2), dtype=np.int64))

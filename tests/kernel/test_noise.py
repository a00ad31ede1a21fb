# SPDX-License-Identifier: GPL-3.0-or-later
"""The noise tables: rules T1-T5, inverse CDF, folding, coarse quantiles."""

from __future__ import annotations

import hashlib
import random
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import pairwise

import pytest

from ragseal.kernel import noise
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.noise import NoiseTable, build_table, check_table
from ragseal.kernel.params import GAUSSIAN, GEOMETRIC, NOISE_LAWS

pytestmark = pytest.mark.slow

SYMMETRIC = (GEOMETRIC, GAUSSIAN)
TOTAL = 1 << 112

# A change of either is a change of protocol: keys and manifests of the other table become invalid.
PINNED = {
    GEOMETRIC: (1115, "2542897c438701efbde4218c15a8630faaceb246d02c8983979c03088638ce41"),
    GAUSSIAN: (5376, "acfd1f55ed7823def78603d668ba6441d6ee80a2516f434192b22a46ffc7e497"),
}


def altered(table: NoiseTable, changes: dict[int, int]) -> NoiseTable:
    half = list(table.half)
    for x, d in changes.items():
        half[x] += d
    return NoiseTable(table.law, tuple(half))


@pytest.mark.parametrize("law", NOISE_LAWS)
def test_rules_hold_and_digest_is_pinned(law: str) -> None:
    table = build_table(law)
    check_table(table)
    assert (table.cut, table.digest().hex()) == PINNED[law]
    assert sum(table.mass(x) for x in range(-table.cut, table.cut + 1)) == table.total == TOTAL
    assert [table.mass(x) for x in (-table.cut - 1, -table.cut, -1)] == [0, table.half[-1], table.half[1]]
    assert build_table(law) is table
    tag = b"ragseal.noise-table"
    data = bytes([len(tag)]) + tag + b"\x00\x01" + bytes([len(law)]) + law.encode() + b"\x00\x70"
    data += table.cut.to_bytes(4, "big") + b"".join(p.to_bytes(14, "big") for p in table.half)
    assert table.digest() == hashlib.sha256(data).digest()


def test_masses_of_the_gaussian_are_its_law_rounded() -> None:
    """Every mass but that of 0, which takes what is left, is the nearest integer to the ideal law's."""
    half = build_table(GAUSSIAN).half
    with localcontext() as context:
        context.prec = 80
        weights = [(Decimal(-x * x) / (2 * 512**2)).exp() for x in range(len(half))]
        whole = weights[0] + 2 * sum(weights[1:])
        for x, weight in enumerate(weights):
            apart = abs(Decimal(half[x]) - Decimal(TOTAL) * weight / whole)
            assert apart <= (Decimal("0.5000001") if x else len(half)), x
    # Rounding moves p(x)^2 - p(x-1) p(x+1) by at most 2 p + 1, and it is p^2 / sigma^2 of the ideal law: so no mass had
    # to be lowered for log-concavity.
    assert half[-1] > 2 * 512**2


def test_masses_of_the_geometric_law_are_close_to_it() -> None:
    table = build_table(GEOMETRIC)
    with localcontext() as context:
        context.prec = 60
        r = (Decimal(-1) / 16).exp()
        for x in range(0, 600):
            ideal = Decimal(TOTAL) * (1 - r) / (1 + r) * r**x
            assert abs(Decimal(table.half[x]) / ideal - 1) < Decimal("1e-12")
    limit = Fraction(noise.exp_of_minus_one_over(16), 1 << 400)
    assert all(Fraction(table.half[x + 1], table.half[x]) >= limit * (1 - Fraction(1, 10**6)) for x in range(750))


@pytest.mark.parametrize("law", NOISE_LAWS)
def test_altered_masses_are_refused(law: str) -> None:
    table = build_table(law)
    with pytest.raises(PolicyError, match="T2"):
        check_table(altered(table, {0: 1}))
    with pytest.raises(PolicyError, match="T2"):
        check_table(altered(table, {5: -1}))
    # One entry in 10^4 off its neighbours' geometric mean, sum kept.
    for d in (table.half[400] // 10**4, -table.half[400] // 10**4):
        with pytest.raises(PolicyError, match="T4"):
            check_table(altered(table, {400: d, 0: -2 * d}))
    d = table.half[0] // 20
    with pytest.raises(PolicyError, match="T4: not log-concave at 0"):
        check_table(altered(table, {0: -2 * d, 1: d}))


def test_holes_lengths_and_laws_are_refused() -> None:
    table = build_table(GEOMETRIC)
    hole = altered(table, {900: -table.half[900], 0: 2 * table.half[900]})
    with pytest.raises(PolicyError, match="T3"):
        check_table(hole)
    longer = NoiseTable(table.law, (*table.half, 0))
    with pytest.raises(PolicyError, match="T3"):
        check_table(longer)
    with pytest.raises(PolicyError, match="entries"):
        check_table(NoiseTable(GAUSSIAN, (TOTAL,)))
    with pytest.raises(PolicyError, match="law"):
        check_table(NoiseTable("uniform", table.half))
    with pytest.raises(PolicyError, match="law"):  # of release 0.3.0, whose classes added a dither
        check_table(NoiseTable("geometric", table.half))
    with pytest.raises(PolicyError, match="law"):  # of the laws before decoys
        check_table(NoiseTable("one-sided-16", table.half))
    with pytest.raises(PolicyError, match="T3"):
        check_table(NoiseTable(GEOMETRIC, (*table.half[:-1], -1, table.half[-1] + 1)))
    unit = TOTAL // 32
    check_table(NoiseTable(GEOMETRIC, (8 * unit, 8 * unit, 4 * unit)))
    with pytest.raises(PolicyError, match="T4: not log-concave at 1"):
        check_table(NoiseTable(GEOMETRIC, (16 * unit, 4 * unit, 4 * unit)))
    with pytest.raises(PolicyError, match="law"):
        build_table("cauchy")


@pytest.mark.parametrize("law", SYMMETRIC)
def test_inverse_cdf_brackets_and_folds(law: str) -> None:
    table = build_table(law)
    rng = random.Random(7)
    uniforms = [0, 1, TOTAL // 2 - 1, TOTAL // 2, TOTAL - 1, *(rng.getrandbits(112) for _ in range(500))]
    for x in (-table.cut, -table.cut + 1, -1, 0, 1, table.cut - 1, table.cut):
        uniforms += [table.cdf(x) - 1, min(table.cdf(x), TOTAL - 1)]
    for u in uniforms:
        z = noise.inverse_cdf(table, u)
        assert table.cdf(z - 1) <= u < table.cdf(z)
        assert noise.inverse_cdf(table, TOTAL - 1 - u) == -z
        sign, folded = noise.reflect(table, u)
        magnitude = noise.inverse_cdf(table, folded)
        assert sign in (0, 1)
        assert magnitude >= 0
        assert (1 - 2 * sign) * magnitude == z
        low, high = noise.folded_rows(table)[magnitude]
        assert low <= folded < high
    for bad in (-1, TOTAL):
        with pytest.raises(PolicyError):
            noise.inverse_cdf(table, bad)
        with pytest.raises(PolicyError):
            noise.reflect(table, bad)


@pytest.mark.parametrize("law", SYMMETRIC)
def test_cdf_ends_and_symmetry(law: str) -> None:
    table = build_table(law)
    assert table.cdf(-table.cut - 1) == 0
    assert table.cdf(-table.cut - 9) == 0
    assert table.cdf(table.cut) == table.cdf(table.cut + 5) == TOTAL
    assert all(table.cdf(-x - 1) == TOTAL - table.cdf(x) == table.tail(x) for x in range(0, table.cut, 97))
    assert noise.folded_rows(table)[-1][1] == TOTAL
    assert len(noise.folded_rows(table)) == table.cut + 1


@pytest.mark.parametrize("law", NOISE_LAWS)
@pytest.mark.parametrize("m", [2, 8, 11])
def test_coarse_quantiles_bound_every_noise(law: str, m: int) -> None:
    table = build_table(law)
    q = noise.coarse_quantiles(table, m)
    assert len(q) == 1 << m
    assert all(x <= y for x, y in pairwise(q))
    assert q[-1] == table.cut
    rng = random.Random(m)
    for _ in range(300):
        u = rng.getrandbits(112)
        assert noise.inverse_cdf(table, u) <= q[u >> (112 - m)]
    # The bound is reached: by the largest uniform of the cell.
    assert q[3] == noise.inverse_cdf(table, (4 << (112 - m)) - 1)
    for bad in (0, 25):
        with pytest.raises(PolicyError):
            noise.coarse_quantiles(table, bad)

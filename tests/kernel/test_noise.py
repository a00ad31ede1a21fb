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
from ragseal.kernel.params import GAUSSIAN, GEOMETRIC, NOISE_LAWS, ONE_SIDED

pytestmark = pytest.mark.slow

SYMMETRIC = (GEOMETRIC, GAUSSIAN)
GEOMETRIC_LAWS = (GEOMETRIC, ONE_SIDED)
TOTAL = 1 << 112

# A change of either is a change of protocol: keys and manifests of the other table become invalid.
PINNED = {
    GEOMETRIC: (1115, "2542897c438701efbde4218c15a8630faaceb246d02c8983979c03088638ce41"),
    ONE_SIDED: (1125, "5bed4a0dba9d1f524341b5404911b07de0234e90e39fd3bc60cbca51bf82ad47"),
    GAUSSIAN: (1408, "f2a4734c7369d96c082ae52b804f229b883153ad644c57542495a6d500ead7d1"),
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
    assert table.one_sided == (law == ONE_SIDED)
    assert (table.least, table.mass(-1) > 0) == ((0, False) if table.one_sided else (-table.cut, True))
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
        weights = [(Decimal(-x * x) / (2 * 128**2)).exp() for x in range(len(half))]
        whole = weights[0] + 2 * sum(weights[1:])
        for x, weight in enumerate(weights):
            apart = abs(Decimal(half[x]) - Decimal(TOTAL) * weight / whole)
            assert apart <= (Decimal("0.5000001") if x else len(half)), x
    # Rounding moves p(x)^2 - p(x-1) p(x+1) by at most 2 p + 1, and it is p^2 / sigma^2 of the ideal law: so no mass had
    # to be lowered for log-concavity.
    assert half[-1] > 2 * 128**2


@pytest.mark.parametrize("law", GEOMETRIC_LAWS)
def test_masses_are_close_to_the_law(law: str) -> None:
    table = build_table(law)
    with localcontext() as context:
        context.prec = 60
        r = (Decimal(-1) / 16).exp()
        for x in range(0, 600):
            ideal = Decimal(TOTAL) * (1 - r) / (1 if table.one_sided else 1 + r) * r**x
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
            check_table(altered(table, {400: d, 0: -d if table.one_sided else -2 * d}))
    d = table.half[0] // 20
    if table.one_sided:  # p(0) may be below p(1): nothing is below 0; but not above what p(1) and p(2) allow
        with pytest.raises(PolicyError, match="T4: not log-concave at 1"):
            check_table(altered(table, {0: d, 1: -d}))
        return
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
    # A table of one law under the name of another has the wrong total: T1 is the name's.
    with pytest.raises(PolicyError, match="T2"):
        check_table(NoiseTable(ONE_SIDED, table.half))
    with pytest.raises(PolicyError, match="T2"):
        check_table(NoiseTable(GEOMETRIC, build_table(ONE_SIDED).half))
    one = build_table(ONE_SIDED)
    with pytest.raises(PolicyError, match="T3"):
        check_table(altered(one, {900: -one.half[900], 0: one.half[900]}))
    with pytest.raises(PolicyError, match="T3"):
        check_table(NoiseTable(ONE_SIDED, (*one.half[:-1], -1, one.half[-1] + 1)))
    unit = TOTAL // 16
    check_table(NoiseTable(ONE_SIDED, (3 * unit, 8 * unit, 5 * unit)))
    with pytest.raises(PolicyError, match="T4: not log-concave at 1"):
        check_table(NoiseTable(ONE_SIDED, (8 * unit, 3 * unit, 5 * unit)))
    with pytest.raises(PolicyError, match="law"):
        build_table("cauchy")


def test_a_one_sided_table_is_not_folded() -> None:
    table = build_table(ONE_SIDED)
    rows = noise.folded_rows(table)
    assert rows[0] == (0, table.half[0])
    assert rows[-1][1] == TOTAL
    rng = random.Random(7)
    edges = [x for row in rows[::100] for x in (row[0], row[1] - 1)]
    for u in (0, TOTAL // 2 - 1, TOTAL // 2, TOTAL - 1, *edges, *(rng.getrandbits(112) for _ in range(300))):
        z = noise.inverse_cdf(table, u)
        assert 0 <= z <= table.cut
        assert noise.reflect(table, u) == (0, u)
        assert rows[z][0] <= u < rows[z][1]
    assert table.cdf(-1) == table.cdf(-5000) == 0
    assert table.tail(-1) == table.cdf(table.cut) == TOTAL
    assert noise.coarse_quantiles(table, 8)[0] == noise.inverse_cdf(table, (1 << 104) - 1)
    for bad in (-1, TOTAL):
        with pytest.raises(PolicyError):
            noise.reflect(table, bad)


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

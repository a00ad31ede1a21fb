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

pytestmark = pytest.mark.slow

SYMMETRIC, ONE_SIDED = ("gaussian", "geometric"), "one-sided"
LAWS = (*SYMMETRIC, ONE_SIDED)
TOTAL = 1 << 128

# A change of either digest is a change of protocol: keys and manifests of the other table become invalid.
DIGESTS = {
    "gaussian": "74bc159e142138efb4925652702291fff2c5e63ee4cb6aecaba1bbf28ee4e8f0",
    "geometric": "492f6fb2a24ed8b60e7ba34bc60b442b5f3e2160ed56a1b1bc0f38533b6d220a",
    "one-sided": "6324ee4130a4787387bf5e4704fe4d820ea18b233f3df0f25b12c7286b78fa60",
}


def altered(table: NoiseTable, changes: dict[int, int]) -> NoiseTable:
    half = list(table.half)
    for x, d in changes.items():
        half[x] += d
    return NoiseTable(table.law, tuple(half))


@pytest.mark.parametrize("law", LAWS)
def test_rules_hold_and_digest_is_pinned(law: str) -> None:
    table = build_table(law)
    check_table(table)
    assert sum(table.mass(x) for x in range(-table.cut, table.cut + 1)) == TOTAL
    assert table.mass(0) % 2 == 0 or law == ONE_SIDED
    assert (table.least, table.mass(-1) > 0) == ((0, False) if law == ONE_SIDED else (-table.cut, True))
    assert table.digest().hex() == DIGESTS[law]
    assert table.cut == {"gaussian": 3008, "geometric": 2519, ONE_SIDED: 2539}[law]
    assert build_table(law) is table


@pytest.mark.parametrize("law", LAWS)
def test_digest_covers_exactly_the_documented_bytes(law: str) -> None:
    table = build_table(law)
    tag = b"ragseal.noise-table"
    data = bytes([len(tag)]) + tag + b"\x00\x01" + bytes([len(law)]) + law.encode() + b"\x00\x80"
    data += table.cut.to_bytes(4, "big") + b"".join(p.to_bytes(16, "big") for p in table.half)
    assert table.digest() == hashlib.sha256(data).digest()


def test_gaussian_masses_are_the_rounded_law() -> None:
    # Independent route: 120-digit decimals, every exponential on its own instead of a recurrence.
    table = build_table("gaussian")
    with localcontext() as context:
        context.prec = 120
        weights = [(-Decimal(x * x) / Decimal(2 * 256 * 256)).exp() for x in range(table.cut + 1)]
        scale = Decimal(TOTAL) / (weights[0] + 2 * sum(weights[1:]))
        exact = [w * scale for w in weights]
        assert all(abs(Decimal(p) - e) <= Decimal("0.5") for p, e in zip(table.half[1:], exact[1:], strict=True))
        # Not one rounding is a close call, so that any careful implementation arrives at the same table.
        assert all(abs((e % 1) - Decimal("0.5")) > Decimal(10) ** -20 for e in exact[1:])
        assert abs(Decimal(table.half[0]) - exact[0]) < 2000


@pytest.mark.parametrize("law", ["geometric", ONE_SIDED])
def test_geometric_masses_are_close_to_the_law(law: str) -> None:
    table = build_table(law)
    with localcontext() as context:
        context.prec = 60
        r = (Decimal(-1) / 32).exp()
        for x in range(0, 1200):
            ideal = Decimal(TOTAL) * (1 - r) / (1 if table.one_sided else 1 + r) * r**x
            assert abs(Decimal(table.half[x]) / ideal - 1) < Decimal("1e-12")
    # The largest single-step ratio of the body is that of the law: at most exp(1/32).
    limit = Fraction(noise.exp_of_minus_one_over(32), 1 << 400)
    assert all(Fraction(table.half[x + 1], table.half[x]) >= limit * (1 - Fraction(1, 10**6)) for x in range(1500))


@pytest.mark.parametrize("law", LAWS)
def test_altered_masses_are_refused(law: str) -> None:
    table = build_table(law)
    with pytest.raises(PolicyError, match="T2"):
        check_table(altered(table, {0: 1}))
    with pytest.raises(PolicyError, match="T2"):
        check_table(altered(table, {5: -1}))
    # One entry in 10^4 off its neighbours' geometric mean, sum kept.
    for d in (table.half[700] // 10**4, -table.half[700] // 10**4):
        with pytest.raises(PolicyError, match="T4"):
            check_table(altered(table, {700: d, 0: -d if table.one_sided else -2 * d}))
    d = table.half[0] // 50
    if table.one_sided:  # p(0) may be below p(1): nothing is below 0; but not above what p(1) and p(2) allow
        with pytest.raises(PolicyError, match="T4: not log-concave at 1"):
            check_table(altered(table, {0: d, 1: -d}))
        return
    with pytest.raises(PolicyError, match="T4: not log-concave at 0"):
        check_table(altered(table, {0: -2 * d, 1: d}))


def test_holes_lengths_and_laws_are_refused() -> None:
    table = build_table("geometric")
    hole = altered(table, {2000: -table.half[2000], 0: 2 * table.half[2000]})
    with pytest.raises(PolicyError, match="T3"):
        check_table(hole)
    longer = NoiseTable(table.law, (*table.half, 0))
    with pytest.raises(PolicyError, match="T3"):
        check_table(longer)
    with pytest.raises(PolicyError, match="entries"):
        check_table(NoiseTable("gaussian", (TOTAL,)))
    with pytest.raises(PolicyError, match="law"):
        check_table(NoiseTable("uniform", table.half))
    # A table of one law under the name of another has the wrong total: T1 is the name's.
    with pytest.raises(PolicyError, match="T2"):
        check_table(NoiseTable(ONE_SIDED, table.half))
    with pytest.raises(PolicyError, match="T2"):
        check_table(NoiseTable("geometric", build_table(ONE_SIDED).half))
    one = build_table(ONE_SIDED)
    with pytest.raises(PolicyError, match="T3"):
        check_table(altered(one, {2000: -one.half[2000], 0: one.half[2000]}))
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
    for u in (0, TOTAL // 2 - 1, TOTAL // 2, TOTAL - 1, *edges, *(rng.getrandbits(128) for _ in range(300))):
        z = noise.inverse_cdf(table, u)
        assert 0 <= z <= table.cut
        assert noise.reflect(table, u) == (0, u)
        assert rows[z][0] <= u < rows[z][1]
    assert table.cdf(-1) == table.cdf(-5000) == 0
    assert table.tail(-1) == table.cdf(table.cut) == TOTAL
    assert noise.coarse_quantiles(table, 8)[0] == noise.inverse_cdf(table, (1 << 120) - 1)
    for bad in (-1, TOTAL):
        with pytest.raises(PolicyError):
            noise.reflect(table, bad)


@pytest.mark.parametrize("law", SYMMETRIC)
def test_inverse_cdf_brackets_and_folds(law: str) -> None:
    table = build_table(law)
    rng = random.Random(7)
    uniforms = [0, 1, TOTAL // 2 - 1, TOTAL // 2, TOTAL - 1, *(rng.getrandbits(128) for _ in range(500))]
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


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("m", [2, 8, 11])
def test_coarse_bounds_bound_every_noise(law: str, m: int) -> None:
    table = build_table(law)
    q, b = noise.coarse_quantiles(table, m), noise.coarse_bounds(table, m, 4)
    assert len(q) == len(b) == 1 << m
    assert all(x <= y for x, y in pairwise(q))
    assert q[-1] == table.cut
    rng = random.Random(m)
    for _ in range(300):
        u = rng.getrandbits(128)
        k = u >> (128 - m)
        assert 16 * noise.inverse_cdf(table, u) + 15 <= b[k]
        assert b[k] == 16 * q[k] + 15
    # The bound is reached: by the largest uniform of the cell.
    assert q[3] == noise.inverse_cdf(table, (4 << (128 - m)) - 1)
    for bad in (0, 25):
        with pytest.raises(PolicyError):
            noise.coarse_quantiles(table, bad)

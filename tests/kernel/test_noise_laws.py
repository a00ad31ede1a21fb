# SPDX-License-Identifier: GPL-3.0-or-later
"""The noise tables of the noise classes: scale 16 of the geometric ones, sigma 128, masses out of 2^112."""

from __future__ import annotations

import hashlib
import random
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest

from ragseal.kernel import noise
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.noise import NoiseTable, build_table, check_table
from ragseal.kernel.params import RANKED_GAUSSIAN, RANKED_GEOMETRIC, RANKED_LAWS, RANKED_ONE_SIDED

TOTAL = 1 << 112
GEOMETRIC = (RANKED_GEOMETRIC, RANKED_ONE_SIDED)

# A change of either is a change of protocol.
PINNED = {
    RANKED_GEOMETRIC: (1115, "2542897c438701efbde4218c15a8630faaceb246d02c8983979c03088638ce41"),
    RANKED_ONE_SIDED: (1125, "5bed4a0dba9d1f524341b5404911b07de0234e90e39fd3bc60cbca51bf82ad47"),
    RANKED_GAUSSIAN: (1408, "f2a4734c7369d96c082ae52b804f229b883153ad644c57542495a6d500ead7d1"),
}


@pytest.mark.parametrize("law", RANKED_LAWS)
def test_rules_hold_and_digest_is_pinned(law: str) -> None:
    table = build_table(law)
    check_table(table)
    assert (table.cut, table.digest().hex()) == PINNED[law]
    assert sum(table.mass(x) for x in range(-table.cut, table.cut + 1)) == table.total == TOTAL
    assert table.one_sided == (law == RANKED_ONE_SIDED)
    tag = b"ragseal.noise-table"
    data = bytes([len(tag)]) + tag + b"\x00\x01" + bytes([len(law)]) + law.encode() + b"\x00\x70"
    data += table.cut.to_bytes(4, "big") + b"".join(p.to_bytes(14, "big") for p in table.half)
    assert table.digest() == hashlib.sha256(data).digest()


def test_masses_of_the_gaussian_are_its_law_rounded() -> None:
    """Every mass but that of 0, which takes what is left, is the nearest integer to the ideal law's."""
    half = build_table(RANKED_GAUSSIAN).half
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


@pytest.mark.parametrize("law", GEOMETRIC)
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


@pytest.mark.parametrize("law", RANKED_LAWS)
def test_altered_masses_are_refused(law: str) -> None:
    table = build_table(law)
    half = list(table.half)
    with pytest.raises(PolicyError, match=r"T2: masses do not sum to 2\^112"):
        check_table(NoiseTable(law, (half[0] + 1, *half[1:])))
    d, sides = half[400] // 10**4, 1 if table.one_sided else 2
    with pytest.raises(PolicyError, match="T4"):
        check_table(NoiseTable(law, (half[0] - sides * d, *half[1:400], half[400] + d, *half[401:])))
    with pytest.raises(PolicyError, match="T3"):
        check_table(NoiseTable(law, (*half, 0)))
    other = RANKED_GEOMETRIC if law == RANKED_ONE_SIDED else RANKED_ONE_SIDED
    with pytest.raises(PolicyError, match="T2"):
        check_table(NoiseTable(other, table.half))
    with pytest.raises(PolicyError, match="T2"):  # a table of 2^112 under the name of a law of 2^128
        check_table(NoiseTable("geometric", table.half))


@pytest.mark.parametrize("law", RANKED_LAWS)
def test_inverse_and_reflection(law: str) -> None:
    table, rng = build_table(law), random.Random(3)
    for u in (0, 1, TOTAL // 2 - 1, TOTAL // 2, TOTAL - 1, *(rng.getrandbits(112) for _ in range(300))):
        z = noise.inverse_cdf(table, u)
        sign, folded = noise.reflect(table, u)
        low, high = noise.folded_rows(table)[abs(z)]
        assert low <= folded < high
        assert (1 - 2 * sign) * abs(z) == z
        assert sign == 0 or not table.one_sided
    quantiles = noise.coarse_quantiles(table, 9)
    assert len(quantiles) == 512
    assert quantiles[-1] == table.cut
    assert quantiles[5] == table.inverse((6 << 103) - 1)
    for bad in (-1, TOTAL):
        with pytest.raises(PolicyError, match=r"2\^112"):
            table.inverse(bad)
        with pytest.raises(PolicyError, match=r"2\^112"):
            noise.reflect(table, bad)

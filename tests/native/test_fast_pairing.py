# SPDX-License-Identifier: GPL-3.0-or-later
"""Pairings and points of G2 by the native module are those of plain Python, refusal for refusal."""

from __future__ import annotations

import random

import pytest

from ragseal.groth16 import fast_pairing, pairing
from ragseal.groth16.pairing import G1_GENERATOR, G2_GENERATOR, G2Point
from ragseal.groth16.snarkjs_random import COFACTOR, challenge_point
from ragseal.kernel.errors import ProofError
from ragseal.kernel.msm import Affine, multi_scalar
from ragseal.kernel.params import P, R

native = pytest.importorskip("ragseal_native")
pytest.importorskip("py_ecc")

RNG = random.Random(19)


def outside() -> G2Point:
    """What a challenge is drawn from before it is multiplied by the cofactor."""
    found: list[G2Point] = []

    def kept(point: G2Point, factor: int) -> G2Point | None:
        assert factor == COFACTOR
        found.append(point)
        return pairing.combination([point], [factor])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fast_pairing, "multiple", kept)
        challenge_point(bytes(range(64)))
    return found[0]


def g1(factor: int) -> Affine:
    return multi_scalar([G1_GENERATOR], [factor % R])


def g2(factor: int) -> G2Point:
    found = pairing.combination([G2_GENERATOR], [factor])
    assert found is not None
    return found


@pytest.mark.parametrize("factor", [0, 1, 2, R - 1, R, R + 5, COFACTOR, 2**256 - 1])
def test_multiples(factor: int) -> None:
    for point in (G2_GENERATOR, outside()):
        assert fast_pairing.multiple(point, factor) == pairing.combination([point], [factor])


def test_the_subgroup() -> None:
    stray = outside()
    cleared = fast_pairing.multiple(stray, COFACTOR)
    assert cleared is not None
    assert [fast_pairing.in_subgroup(one) for one in (G2_GENERATOR, g2(77), cleared, stray)] == [
        True,
        True,
        True,
        False,
    ]
    assert [pairing.in_subgroup(one) for one in (cleared, stray)] == [True, False]
    x0, x1, y0, y1 = G2_GENERATOR
    assert not fast_pairing.in_subgroup((x0, x1, y0, y1 + 1))


@pytest.mark.slow
def test_products_that_cancel() -> None:
    a, b, c = (RNG.randrange(1, R) for _ in range(3))
    holds = [(g1(a), g2(b)), (g1(-a * b * pow(c, -1, R)), g2(c)), (None, g2(3))]
    fails = [*holds[:1], (g1(a * b * pow(c, -1, R)), g2(c))]
    for pairs in (holds, fails):
        assert fast_pairing.cancel(pairs) == pairing.is_one(pairing.miller(pairs)) == (pairs is holds)
    assert fast_pairing.cancel([])


def test_bad_points_are_refused() -> None:
    for pairs in ([(G1_GENERATOR, outside())], [((1, 3), G2_GENERATOR)], [((1, 2 + P), G2_GENERATOR)]):
        with pytest.raises(ProofError, match=r"outside the subgroup|not on the curve|not canonical"):
            fast_pairing.cancel(pairs)
    with pytest.raises(ProofError, match="not on the curve"):
        fast_pairing.multiple((1, 2, 3, 4), 5)


def test_the_module_takes_no_other_bytes() -> None:
    one1, one2 = (1).to_bytes(32, "big") + (2).to_bytes(32, "big"), pairing.encode_g2(G2_GENERATOR)
    for left, right, said in (
        (one1[:-1], one2, "truncated"),
        (one1, one2[:-1], "no points of G2"),
        (one1 * 2, one2, "2 points of G1 but 1"),
        (one1, bytes(128), "identity"),
    ):
        with pytest.raises(native.NativeError, match=said):
            native.pairings_cancel(left, right)
    with pytest.raises(native.NativeError, match="32 bytes"):
        native.g2_multiply(one2, bytes(31))
    with pytest.raises(native.NativeError, match="identity"):
        native.g2_multiply(bytes(128), bytes(32))


def test_without_the_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_pairing, "available", lambda: False)
    assert fast_pairing.in_subgroup(G2_GENERATOR)
    assert fast_pairing.multiple(G2_GENERATOR, 5) == g2(5)
    assert fast_pairing.cancel([(g1(6), G2_GENERATOR), (g1(-3), g2(2))])

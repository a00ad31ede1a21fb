# SPDX-License-Identifier: GPL-3.0-or-later
"""Field, curve and Poseidon against independent implementations (py_ecc, circomlib)."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from py_ecc import optimized_bn128 as ecc

from ragseal.backends.group import default_group
from ragseal.kernel import bn254, field
from ragseal.kernel.errors import ProofError
from ragseal.kernel.msm import Affine, Point, add_pairs, multi_scalar, sum_groups
from ragseal.kernel.params import P, R
from ragseal.kernel.poseidon import constants, permute, poseidon

ROOT = Path(__file__).resolve().parents[2]
G = bn254.encode_point((1, 2))


def foreign(k: int) -> bytes:
    x, y = ecc.normalize(ecc.multiply(ecc.G1, k))
    return int(x).to_bytes(32, "big") + int(y).to_bytes(32, "big")


@pytest.mark.slow
def test_msm_agrees_with_py_ecc() -> None:
    rng = random.Random(1)
    ks = [rng.randrange(R) for _ in range(6)]
    points = b"".join(foreign(k) for k in ks)
    scalars = [0, 1, R - 1, 2**128, rng.randrange(R), 5]
    want = sum(k * s for k, s in zip(ks, scalars, strict=True)) % R
    assert bn254.PurePythonGroup().msm(points, field.pack(scalars)) == foreign(want)


@pytest.mark.slow
def test_sum_to_identity_and_refusals() -> None:
    group = bn254.PurePythonGroup()
    assert group.msm(G + G, field.pack([3, -3])) == bn254.IDENTITY
    with pytest.raises(ProofError, match="identity"):
        group.check(bn254.IDENTITY)
    with pytest.raises(ProofError, match="curve"):
        group.check((1).to_bytes(32, "big") + (3).to_bytes(32, "big"))
    with pytest.raises(ProofError, match="canonical"):
        group.check((1 + P).to_bytes(32, "big") + (2).to_bytes(32, "big"))
    with pytest.raises(ProofError, match="truncated"):
        group.check(G[:-1])
    with pytest.raises(ProofError):
        group.msm(G, R.to_bytes(32, "big"))


@pytest.mark.slow
def test_generators_are_distinct_points() -> None:
    points = bn254.PurePythonGroup().hash_to_curve(b"domain", 20)
    bn254.PurePythonGroup().check(points)
    assert len(set(bn254.split_points(points))) == 20
    assert bn254.PurePythonGroup().hash_to_curve(b"other", 1) != points[:64]


@pytest.mark.slow
def test_poseidon_known_answers() -> None:
    # circomlib's own test vectors (test/poseidoncircuit.js).
    assert poseidon(1, 2) == 7853200120776062878684798364095072458815029376092732009249414926327459813530
    assert poseidon(1, 2, 3, 4) == 18821383157269793795438455681495246036402687001665670618754263018637548127333


def circomlib(name: str) -> str:
    source = ROOT / "circuits" / "node_modules" / "circomlib" / "circuits" / name
    if not source.exists():
        pytest.skip("circomlib is not installed: make setup")
    return source.read_text()


@pytest.mark.slow
def test_round_constants_are_circomlibs() -> None:
    """The unoptimised table lists widths 2 to 9; wider ones are compared through the circuit and the native module."""
    table = circomlib("poseidon_constants_old.circom").split("function POSEIDON_M")[0]
    numbers = [int(n) for n in re.findall(r"\b\d{20,}\b", table)]
    ours = [x for width in range(2, 10) for x in constants(width)[0]]
    assert numbers == ours


@pytest.mark.slow
def test_matrices_are_circomlibs() -> None:
    text = circomlib("poseidon_constants.circom")
    table = text[text.index("function POSEIDON_M") : text.index("function POSEIDON_P")]
    transposed = [x for width in range(2, 18) for row in zip(*constants(width)[1], strict=True) for x in row]
    assert [int(n, 16) for n in re.findall(r"0x[0-9a-f]+", table)] == transposed


@pytest.mark.slow
def test_permutation_uses_its_whole_state() -> None:
    base = permute([0, 5, 7] + [0] * 14)
    for i in range(17):
        changed = [0, 5, 7] + [0] * 14
        changed[i] += 1
        assert all(a != b for a, b in zip(base, permute(changed), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("group", [bn254.PurePythonGroup(), default_group()], ids=["plain", "default"])
def test_vectors_of_different_lengths_are_not_combined(group: bn254.Group) -> None:
    one, two = field.pack([5]), field.pack([5, 6])
    assert group.combine([two, two], [1, 2]) == field.pack([15, 18])
    for vectors, coefficients in (([one, two], [1, 2]), ([two, one], [1, 2]), ([two], [1, 2]), ([two, two], [1])):
        with pytest.raises(ProofError):
            group.combine(vectors, coefficients)


# Multi-scalar multiplication in plain Python against py_ecc: points without a slope, digits that carry.


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

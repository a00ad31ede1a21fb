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
from ragseal.kernel.params import P, R
from ragseal.kernel.poseidon import constants, permute, poseidon

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
G = bn254.encode_point((1, 2))


def foreign(k: int) -> bytes:
    x, y = ecc.normalize(ecc.multiply(ecc.G1, k))
    return int(x).to_bytes(32, "big") + int(y).to_bytes(32, "big")


def test_msm_agrees_with_py_ecc() -> None:
    rng = random.Random(1)
    ks = [rng.randrange(R) for _ in range(6)]
    points = b"".join(foreign(k) for k in ks)
    scalars = [0, 1, R - 1, 2**128, rng.randrange(R), 5]
    want = sum(k * s for k, s in zip(ks, scalars, strict=True)) % R
    assert bn254.PurePythonGroup().msm(points, field.pack(scalars)) == foreign(want)


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


def test_generators_are_distinct_points() -> None:
    points = bn254.PurePythonGroup().hash_to_curve(b"domain", 20)
    bn254.PurePythonGroup().check(points)
    assert len(set(bn254.split_points(points))) == 20
    assert bn254.PurePythonGroup().hash_to_curve(b"other", 1) != points[:64]


def test_poseidon_known_answers() -> None:
    # circomlib's own test vectors (test/poseidoncircuit.js).
    assert poseidon(1, 2) == 7853200120776062878684798364095072458815029376092732009249414926327459813530
    assert poseidon(1, 2, 3, 4) == 18821383157269793795438455681495246036402687001665670618754263018637548127333


def circomlib(name: str) -> str:
    source = ROOT / "circuits" / "node_modules" / "circomlib" / "circuits" / name
    if not source.exists():
        pytest.skip("circomlib is not installed: make setup")
    return source.read_text()


def test_round_constants_are_circomlibs() -> None:
    """The unoptimised table lists widths 2 to 9; wider ones are compared through the circuit and the native module."""
    table = circomlib("poseidon_constants_old.circom").split("function POSEIDON_M")[0]
    numbers = [int(n) for n in re.findall(r"\b\d{20,}\b", table)]
    ours = [x for width in range(2, 10) for x in constants(width)[0]]
    assert numbers == ours


def test_matrices_are_circomlibs() -> None:
    text = circomlib("poseidon_constants.circom")
    table = text[text.index("function POSEIDON_M") : text.index("function POSEIDON_P")]
    transposed = [x for width in range(2, 18) for row in zip(*constants(width)[1], strict=True) for x in row]
    assert [int(n, 16) for n in re.findall(r"0x[0-9a-f]+", table)] == transposed


def test_permutation_uses_its_whole_state() -> None:
    base = permute([0, 5, 7] + [0] * 14)
    for i in range(17):
        changed = [0, 5, 7] + [0] * 14
        changed[i] += 1
        assert all(a != b for a, b in zip(base, permute(changed), strict=True))


@pytest.mark.parametrize("group", [bn254.PurePythonGroup(), default_group()], ids=["plain", "default"])
def test_vectors_of_different_lengths_are_not_combined(group: bn254.Group) -> None:
    one, two = field.pack([5]), field.pack([5, 6])
    assert group.combine([two, two], [1, 2]) == field.pack([15, 18])
    for vectors, coefficients in (([one, two], [1, 2]), ([two, one], [1, 2]), ([two], [1, 2]), ([two, two], [1])):
        with pytest.raises(ProofError):
            group.combine(vectors, coefficients)

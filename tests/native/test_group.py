# SPDX-License-Identifier: GPL-3.0-or-later
"""G1, scalar vectors and column commitments against py_ecc and the kernel's plain Python."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from ragseal.kernel import bn254
from ragseal.kernel import poseidon as reference
from ragseal.kernel.params import P, R

native = pytest.importorskip("ragseal_native")
bn128 = pytest.importorskip("py_ecc.optimized_bn128")


RNG = random.Random(5)
ZERO = bytes(64)


def be(value: int) -> bytes:
    return (value % R).to_bytes(32, "big")


def pack(values: list[int]) -> bytes:
    return b"".join(be(v) for v in values)


def ints(packed: bytes) -> list[int]:
    return [int.from_bytes(packed[i : i + 32], "big") for i in range(0, len(packed), 32)]


def encode(point: object) -> bytes:
    x, y = bn128.normalize(point)
    return int(x).to_bytes(32, "big") + int(y).to_bytes(32, "big")


def test_msm_is_py_ecc_s() -> None:
    keys = [1, 2, R - 1, 5, 5, RNG.randrange(R), RNG.randrange(R)]
    scalars = [0, 1, R - 1, (R - 1) // 2, (R + 1) // 2, RNG.randrange(R), 77]
    points = [bn128.multiply(bn128.G1, k) for k in keys]
    total = sum(k * s for k, s in zip(keys, scalars, strict=True)) % R
    got = native.g1_msm(b"".join(map(encode, points)), pack(scalars))
    assert got == encode(bn128.multiply(bn128.G1, total))


@pytest.mark.parametrize("count", [0, 1, 4, 5, 40, 300])
@pytest.mark.parametrize("bits", [1, 8, 64, 253, 254])
def test_msm_of_all_lengths(count: int, bits: int) -> None:
    """Scalars short and long, positive and negative, with repeated points: one sum over known multiples of G."""
    keys = [RNG.randrange(1, 9) for _ in range(count)]
    multiples = {k: encode(bn128.multiply(bn128.G1, k)) for k in range(1, 9)}
    scalars = [RNG.choice([1, -1]) * min(RNG.getrandbits(bits), R - 1) for _ in range(count)]
    if count > 4:
        scalars[3] = RNG.randrange(R)
    total = sum(k * s for k, s in zip(keys, scalars, strict=True)) % R
    want = encode(bn128.multiply(bn128.G1, total)) if total else ZERO
    points = b"".join(multiples[k] for k in keys)
    assert native.g1_msm(points, pack(scalars)) == want
    small = [s % 2**20 * (-1 if s % 3 else 1) for s in scalars]
    assert native.g1_msm_int(points, small) == native.g1_msm(points, pack(small))


def test_msm_of_many_points() -> None:
    """More points than are gathered at a time, most of them under one digit: linear in the scalars."""
    count = 20000
    points = native.hash_to_curve(b"many", count)
    ones = native.g1_msm(points, be(1) * count)
    assert ones == native.g1_sum(points)
    u, v = native.random_scalars(count), be(3) * (count - 50) + native.random_scalars(50)
    both = native.linear_combination([u, v], be(1) + be(-2))
    parts = native.g1_msm(points, u) + native.g1_msm(points, v)
    assert native.g1_msm(points, both) == native.g1_msm(parts, be(1) + be(-2))
    assert native.g1_msm(points[: 64 * (count - 50)], v[: 32 * (count - 50)]) == native.g1_msm(
        native.g1_sum(points[: 64 * (count - 50)]), be(3)
    )


def test_sums_and_identity() -> None:
    g = encode(bn128.G1)
    minus = encode(bn128.neg(bn128.G1))
    assert native.g1_sum(g + minus) == ZERO
    assert native.g1_sum(g * 3) == encode(bn128.multiply(bn128.G1, 3))
    assert native.g1_msm(ZERO + g, pack([9, 2])) == encode(bn128.multiply(bn128.G1, 2))
    assert native.g1_msm(b"", b"") == ZERO
    assert native.g1_msm_int(g, [-(2**63)]) == encode(bn128.multiply(bn128.G1, R - 2**63))


def test_hash_to_curve_is_the_kernels() -> None:
    points = native.hash_to_curve(b"ragseal test", 20)
    assert points == bn254.PurePythonGroup().hash_to_curve(b"ragseal test", 20)
    native.g1_check(points)


def off_curve() -> bytes:
    return (1).to_bytes(32, "big") + (3).to_bytes(32, "big")


def above_p() -> bytes:
    return (1 + P).to_bytes(32, "big") + (2).to_bytes(32, "big")


@pytest.mark.parametrize(
    ("bad", "why"),
    [(off_curve(), "curve"), (above_p(), "canonical"), (bytes(63), "truncated"), (b"\xff" * 64, "canonical")],
)
def test_bad_points_are_refused(bad: bytes, why: str) -> None:
    with pytest.raises(native.NativeError, match=why):
        native.g1_check(bad)
    with pytest.raises(native.NativeError):
        native.g1_msm(bad, be(1))
    with pytest.raises(native.NativeError, match=why):
        native.g1_sum(bad)


def test_identity_is_refused_where_it_must_be() -> None:
    g = encode(bn128.G1)
    with pytest.raises(native.NativeError, match="identity"):
        native.g1_check(g + ZERO)
    with pytest.raises(native.NativeError, match="identity"):
        native.commit_columns(g, ZERO, b"\1", 1, be(1))
    with pytest.raises(native.NativeError, match="identity"):
        native.commit_columns(ZERO, g, b"\1", 1, be(1))
    with pytest.raises(native.NativeError, match="identity"):
        native.update_columns(ZERO, g, g, [0], b"\1\0", 1, be(1))


def test_bad_scalars_are_refused() -> None:
    g, large = encode(bn128.G1), R.to_bytes(32, "big")
    calls: list[Callable[[], object]] = [
        lambda: native.g1_msm(g, large),
        lambda: native.linear_combination([large], be(1)),
        lambda: native.linear_combination([be(1)], large),
        lambda: native.respond(large, be(1), be(1)),
        lambda: native.respond(be(1), large, be(1)),
        lambda: native.respond(be(1), be(1), large),
        lambda: native.powers(large, 2),
        lambda: native.matrix_combination(b"\1", 1, large),
        lambda: native.poseidon([large]),
        lambda: native.commit_columns(g, g, b"\1", 1, large),
    ]
    for call in calls:
        with pytest.raises(native.NativeError, match="canonical"):
            call()


def test_lengths_are_checked() -> None:
    g = encode(bn128.G1)
    calls: list[Callable[[], object]] = [
        lambda: native.g1_msm(g, be(1) * 2),
        lambda: native.g1_msm(g, be(1)[1:]),
        lambda: native.g1_msm_int(g, [1, 2]),
        lambda: native.commit_columns(g, g, b"\1\2\3", 2, be(1) * 2),
        lambda: native.commit_columns(g, g, b"\1\2", 2, be(1)),
        lambda: native.commit_columns(g, g, b"", 0, b""),
        lambda: native.update_columns(g, g, g, [1], b"\1\0", 1, be(1)),
        lambda: native.update_columns(g, g, g, [0], b"\1", 1, be(1)),
        lambda: native.linear_combination([be(1), be(1) * 2], be(1) * 2),
        lambda: native.linear_combination([be(1)], be(1) * 2),
        lambda: native.respond(be(1), be(1), be(1) * 2),
        lambda: native.matrix_combination(b"\1\2\3", 2, be(1)),
        lambda: native.hash_to_curve(b"x", 1 << 40),
        lambda: native.powers(be(2), 1 << 40),
        lambda: native.random_scalars(1 << 40),
    ]
    for call in calls:
        with pytest.raises(native.NativeError):
            call()


def test_columns_and_updates() -> None:
    rows, d = 37, 5
    rng = np.random.default_rng(1)
    matrix = rng.integers(-128, 128, (rows, d), dtype=np.int8)
    matrix[3] = 0
    matrix[4] = -128
    y, b = native.hash_to_curve(b"Y", rows), native.hash_to_curve(b"B", 1)
    beta = native.random_scalars(d)
    columns = native.commit_columns(y, b, matrix.tobytes(), d, beta)
    changed = matrix.copy()
    changed[7], changed[30] = 127, -128
    slots = [7, 30]
    delta = changed[slots].astype("<i2") - matrix[slots].astype("<i2")
    fresh = native.random_scalars(d)
    updated = native.update_columns(columns, y, b, slots, delta.astype("<i2").tobytes(), d, fresh)
    again = [(s + t) % R for s, t in zip(ints(beta), ints(fresh), strict=True)]
    for j in range(d):
        before = pack([int(x) for x in matrix[:, j]]) + beta[32 * j : 32 * j + 32]
        assert columns[64 * j : 64 * j + 64] == native.g1_msm(y + b, before)
    assert updated == native.commit_columns(y, b, changed.tobytes(), d, pack(again))


def test_scalar_vectors() -> None:
    u, v = [RNG.randrange(R) for _ in range(9)], [RNG.randrange(R) for _ in range(9)]
    c, k = RNG.randrange(R), RNG.randrange(R)
    combined = native.linear_combination([pack(u), pack(v)], pack([c, k]))
    assert ints(combined) == [(c * x + k * y) % R for x, y in zip(u, v, strict=True)]
    assert native.linear_combination([], b"") == b""
    assert ints(native.respond(pack(u), be(c), pack(v))) == [(x + c * y) % R for x, y in zip(u, v, strict=True)]
    assert ints(native.powers(be(c), 5)) == [pow(c, i, R) for i in range(5)]
    matrix = np.random.default_rng(2).integers(-128, 128, (6, 11), dtype=np.int8)
    want = [sum(pow(c, j, R) * int(e) for j, e in enumerate(row)) % R for row in matrix]
    assert ints(native.matrix_combination(matrix.tobytes(), 11, be(c))) == want


def test_random_scalars() -> None:
    drawn = ints(native.random_scalars(500))
    assert len(set(drawn)) == 500
    assert max(drawn) < R
    assert max(drawn) > R - R // 32


# Poseidon against circomlib's known value and the kernel's readable permutation, at every width.


def poseidon_be(value: int) -> bytes:
    return value.to_bytes(32, "big")


def test_circomlib_value() -> None:
    want = 7853200120776062878684798364095072458815029376092732009249414926327459813530
    assert native.poseidon([poseidon_be(1), poseidon_be(2)]) == poseidon_be(want)


@pytest.mark.parametrize("width", range(2, 18))
def test_every_width(width: int) -> None:
    rng = random.Random(width)
    state = [rng.randrange(R) for _ in range(width)]
    assert native.poseidon_permute([poseidon_be(x) for x in state]) == [
        poseidon_be(x) for x in reference.permute(state)
    ]


@pytest.mark.parametrize("width", [0, 1, 18])
def test_other_widths_are_refused(width: int) -> None:
    with pytest.raises(native.NativeError, match="widths"):
        native.poseidon_permute([poseidon_be(1)] * width)

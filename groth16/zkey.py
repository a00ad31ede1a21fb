# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading a snarkjs .zkey without native code: its verifying key, and what protects the secrets of who proves with it.

Checked, as the native module does when it loads a key (SPEC A.9): sizes, both fields, every coordinate
reduced, every point on its curve, G2 points in the subgroup, no identity where proofs would lose their randomness (IC
with B, alpha, beta, gamma, delta), gamma != delta, ``e(beta_1, G2) = e(G1, beta_2)``, the same for delta, and
``e(B1_i, G2) = e(G1, B2_i)`` for every wire; coefficients inside their matrices, reduced and not zero.

Not checked here: that the coefficients are those of a circuit (:mod:`ragseal.groth16.coefficients`), and that the
points of A, B, C and H belong to it, which nobody can see without the powers of tau (:mod:`ragseal.groth16.powers`).
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path

from ragseal.circuits.container import Container, Cursor, read_container
from ragseal.groth16 import g2, pairing
from ragseal.groth16.coefficients import read_coefficients
from ragseal.groth16.pairing import G2_BYTES, G2Point
from ragseal.groth16.verifying_key import VerifyingKey
from ragseal.kernel.bn254 import POINT_BYTES
from ragseal.kernel.errors import ProofError
from ragseal.kernel.msm import Affine, Point, multi_scalar
from ragseal.kernel.params import P, R

MAX_WIRES = 1 << 28
MAX_DOMAIN = 1 << 27
#: Random combinations of a section with weights of so many bits: a point of order 10069, the smallest factor of the
#: cofactor of G2, or one that does not match its counterpart in G1, passes with probability 2^-90.
ROUNDS, WEIGHT_BITS = 9, 10

#: What is compared, its point in G1 and its point in G2.
Pair = tuple[str, Affine, G2Point | None]

_UNSCALE = pow(1 << 256, -1, P)  #: coordinates are stored times 2^256 (Montgomery)


def _coordinates(data: memoryview) -> list[int]:
    numbers = [int.from_bytes(data[i : i + 32], "little") for i in range(0, len(data), 32)]
    if max(numbers) >= P:
        raise ProofError("a point coordinate is not reduced (>= p)")
    return [n * _UNSCALE % P for n in numbers]


def _g1(data: memoryview) -> Affine:
    """On the curve; zeros are the identity."""
    x, y = _coordinates(data)
    if x == 0 and y == 0:
        return None
    if (y * y - x * x * x - 3) % P:
        raise ProofError("a G1 point is not on the curve")
    return x, y


def _g2_on_curve(data: memoryview) -> G2Point | None:
    """On the twist; the caller owes the check of the subgroup."""
    x0, x1, y0, y1 = _coordinates(data)
    point = (x0, x1, y0, y1)
    if not any(point):
        return None
    if not pairing.on_twist(point):
        raise ProofError("a G2 point is not on the curve")
    return point


def _section(file: Container, kind: int, count: int, name: str) -> list[Affine]:
    data = file.array(kind, count, POINT_BYTES)
    try:
        return [_g1(data[i : i + POINT_BYTES]) for i in range(0, len(data), POINT_BYTES)]
    except ProofError as error:
        raise ProofError(f"section {name}: {error}") from None


def _section_g2(file: Container, kind: int, count: int) -> list[G2Point | None]:
    data = file.array(kind, count, G2_BYTES)
    try:
        return [_g2_on_curve(data[i : i + G2_BYTES]) for i in range(0, len(data), G2_BYTES)]
    except ProofError as error:
        raise ProofError(f"section B2: {error}") from None


def _matches(left: Affine, right: G2Point | None) -> bool:
    """e(left, G2) = e(G1, right)."""
    if left is None or right is None:
        return left is None and right is None
    pairs: list[tuple[Affine, G2Point]] = [(left, pairing.G2_GENERATOR), (pairing.negated(pairing.G1_GENERATOR), right)]
    return pairing.is_one(pairing.miller(pairs))


def _b_sums(b1: Sequence[Affine], b2: Sequence[G2Point | None]) -> list[Pair]:
    """Random combinations of B1 and of B2, which must match; those of B2 are in the subgroup."""
    places = [at for at, point in enumerate(b2) if point is not None]
    present = [point for point in b2 if point is not None]
    sums: list[Pair] = []
    for _ in range(ROUNDS):
        bits = secrets.token_bytes(2 * len(b2))
        weights = [int.from_bytes(bits[i : i + 2], "little") >> 16 - WEIGHT_BITS for i in range(0, len(bits), 2)]
        right = g2.combination(present, [weights[at] for at in places], WEIGHT_BITS)
        if right is not None and not pairing.in_subgroup(right):
            raise ProofError("section B2: a G2 point is outside the subgroup")
        sums.append(("sections B1 and B2", multi_scalar(b1, weights), right))
    return sums


def _agree(pairs: Sequence[Pair]) -> None:
    """Every pair is of one value: all at once by a random combination, one by one to name the wrong one."""
    scales = [secrets.randbits(128) | 1 for _ in pairs]
    left = multi_scalar([one for _, one, _ in pairs], scales)
    if not _matches(left, pairing.combination([two for _, _, two in pairs], scales)):
        for name, one, two in pairs:
            if not _matches(one, two):
                raise ProofError(f"{name} disagree")


def _proper(point: Point | None, name: str) -> Point:
    if point is None:
        raise ProofError(f"{name} is the identity")
    return point


def _proper_g2(point: G2Point | None, name: str) -> G2Point:
    if point is None:
        raise ProofError(f"{name} is the identity")
    return point


def _parse(file: Container) -> VerifyingKey:
    if bytes(file.array(1, 1, 4)) != (1).to_bytes(4, "little"):
        raise ProofError("not a Groth16 key")
    header = Cursor(file.section(2))
    try:
        header.modulus(P)
    except ProofError as error:
        raise ProofError(f"base field: {error}") from None
    header.modulus(R)
    wires, public, domain = header.u32(), header.u32(), header.u32()
    if not 1 <= public < wires <= MAX_WIRES:
        raise ProofError(f"{wires} wires with {public} public inputs")
    if domain & (domain - 1) or not 0 < domain <= MAX_DOMAIN:
        raise ProofError(f"a domain of {domain}")
    points: list[Affine] = []
    points2: list[G2Point | None] = []
    for kind in (1, 1, 2, 2, 1, 2):
        if kind == 1:
            points.append(_g1(header.take(POINT_BYTES)))
        else:
            points2.append(_g2_on_curve(header.take(G2_BYTES)))
    header.end()
    alpha1, beta1, delta1 = points
    beta2, gamma2, delta2 = points2
    beta1, delta1 = _proper(beta1, "beta_1"), _proper(delta1, "delta_1")
    ic = _section(file, 3, public + 1, "IC")
    for kind, count, name in ((5, wires, "A"), (8, wires - public - 1, "C"), (9, domain, "H")):
        _section(file, kind, count, name)
    b1 = _section(file, 6, wires, "B1")
    b2 = _section_g2(file, 7, wires)
    key = VerifyingKey(
        _proper(alpha1, "alpha"),
        _proper_g2(beta2, "beta"),
        _proper_g2(gamma2, "gamma"),
        _proper_g2(delta2, "delta"),
        tuple(_proper(point, f"IC point {at}") for at, point in enumerate(ic)),
    )
    read_coefficients(file, wires, domain)
    for point in (key.beta2, key.gamma2, key.delta2):  # last, as all that takes long
        pairing.check_g2(point)
    _agree([("beta_1 and beta_2", beta1, beta2), ("delta_1 and delta_2", delta1, delta2), *_b_sums(b1, b2)])
    return key


def verifying_key(path: Path) -> VerifyingKey:
    """Check a .zkey and take its verifying key.  Seconds for a tiny class, a minute for large ones.

    Raises:
        ConfigurationError: the file cannot be read.
        ProofError: what is wrong with it.
    """
    file = read_container(path, b"zkey", 1)
    try:
        return _parse(file)
    except ProofError as error:
        raise ProofError(f"{path}: {error}") from None

# SPDX-License-Identifier: GPL-3.0-or-later
"""A Groth16 verifying key in plain Python: what ``ragseal_native.VerifyingKey`` is, slower, refusal for refusal.

The key's IC points are a Pedersen basis: whatever is not given as a clear input is added to vk_x as a commitment.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ragseal.groth16 import pairing
from ragseal.groth16.pairing import G2_BYTES, G2Point
from ragseal.kernel.bn254 import POINT_BYTES, decode_point, encode_point, split_points, unpack_scalars
from ragseal.kernel.errors import ProofError
from ragseal.kernel.msm import Affine, Point, multi_scalar
from ragseal.kernel.params import P

PROOF_BYTES = 2 * POINT_BYTES + G2_BYTES
WEIGHT_BYTES = 16
MAX_IC = 1 << 28
MAX_JSON = 1 << 32
_HEAD = POINT_BYTES + 3 * G2_BYTES + 4


def proper_point(data: bytes) -> Point:
    """A G1 point that is not the identity; ProofError otherwise."""
    point = decode_point(data)
    if point is None:
        raise ProofError("the identity point is refused")
    return point


def _proper_points(data: bytes) -> list[Point]:
    return [proper_point(part) for part in split_points(data)]


@dataclass(frozen=True, slots=True)
class Proof:
    """A || B || C, every element proper."""

    a: Point
    b: G2Point
    c: Point

    @classmethod
    def decode(cls, data: bytes) -> Proof:
        """256 bytes; ProofError names the element that is refused."""
        if len(data) != PROOF_BYTES:
            raise ProofError(f"a proof has {PROOF_BYTES} bytes, not {len(data)}")
        at = "A"
        try:
            a = proper_point(data[:64])
            at = "B"
            b = pairing.decode_g2(data[64:192])
            at = "C"
            return cls(a, b, proper_point(data[192:]))
        except ProofError as error:
            raise ProofError(f"proof element {at}: {error}") from None


@dataclass(frozen=True)
class VerifyingKey:
    """alpha_1, beta_2, gamma_2, delta_2 and IC.

    Points must already be on their curves and, for G2, in the subgroup: use the ``from_`` constructors.

    Raises:
        ProofError: gamma = delta, or a number of IC points that no key has.
    """

    alpha1: Point
    beta2: G2Point
    gamma2: G2Point
    delta2: G2Point
    ic_points: tuple[Point, ...]

    def __post_init__(self) -> None:
        if self.gamma2 == self.delta2:
            raise ProofError("gamma equals delta: such a key proves anything")
        if not 2 <= len(self.ic_points) <= MAX_IC:
            raise ProofError(f"a key with {len(self.ic_points)} IC points")

    @property
    def n_public(self) -> int:
        return len(self.ic_points) - 1

    @classmethod
    def from_bytes(cls, data: bytes) -> VerifyingKey:
        """alpha_1 || beta_2 || gamma_2 || delta_2 || u32be(number of IC points) || IC; every point is checked."""
        if len(data) < _HEAD:
            raise ProofError("the verifying key is truncated")
        count = int.from_bytes(data[_HEAD - 4 : _HEAD], "big")
        if len(data) - _HEAD != count * POINT_BYTES:
            raise ProofError(
                f"the verifying key has {len(data) - _HEAD} bytes after its head, {count} IC points are announced"
            )
        alpha, ic = proper_point(data[:64]), tuple(_proper_points(data[_HEAD:]))
        beta, gamma, delta = (pairing.decode_g2(data[64 + G2_BYTES * i :][:G2_BYTES]) for i in range(3))
        return cls(alpha, beta, gamma, delta, ic)

    def to_bytes(self) -> bytes:
        head = encode_point(self.alpha1) + b"".join(map(pairing.encode_g2, (self.beta2, self.gamma2, self.delta2)))
        return head + len(self.ic_points).to_bytes(4, "big") + self.ic(0, len(self.ic_points))

    def digest(self) -> bytes:
        """SHA-256 of to_bytes()."""
        return hashlib.sha256(self.to_bytes()).digest()

    def ic(self, start: int, count: int) -> bytes:
        """IC points [start, start + count)."""
        if start < 0 or count < 0 or start + count > len(self.ic_points):
            raise ProofError(f"IC points {start}..{start + count} of a key with {len(self.ic_points)} points")
        return b"".join(map(encode_point, self.ic_points[start : start + count]))

    # --- snarkjs' verification_key.json ---

    def to_json(self) -> str:
        def g1(p: Point) -> list[str]:
            return [str(p[0]), str(p[1]), "1"]

        def g2(p: G2Point) -> list[list[str]]:
            return [[str(p[0]), str(p[1])], [str(p[2]), str(p[3])], ["1", "0"]]

        return json.dumps(
            {
                "protocol": "groth16",
                "curve": "bn128",
                "nPublic": self.n_public,
                "vk_alpha_1": g1(self.alpha1),
                "vk_beta_2": g2(self.beta2),
                "vk_gamma_2": g2(self.gamma2),
                "vk_delta_2": g2(self.delta2),
                "IC": [g1(p) for p in self.ic_points],
            }
        )

    @classmethod
    def from_json(cls, text: str) -> VerifyingKey:
        found = _json_object(text)
        ic = tuple(_json_g1(v, "an IC point") for v in _items(_entry(found, "IC"), "IC"))
        announced = _entry(found, "nPublic")
        if type(announced) is not int or announced != len(ic) - 1:  # neither True nor 4.0
            raise ProofError("nPublic does not match the number of IC points")
        return cls(
            _json_g1(_entry(found, "vk_alpha_1"), "vk_alpha_1"),
            _json_g2(_entry(found, "vk_beta_2"), "vk_beta_2"),
            _json_g2(_entry(found, "vk_gamma_2"), "vk_gamma_2"),
            _json_g2(_entry(found, "vk_delta_2"), "vk_delta_2"),
            ic,
        )

    # --- verification ---

    def _checked_inputs(self, clear: bytes, commitments: bytes) -> tuple[list[int], list[Point]]:
        values, points = unpack_scalars(clear), _proper_points(commitments)
        if len(values) > self.n_public:
            raise ProofError(f"{len(values)} clear inputs, the key has {self.n_public} public inputs")
        if len(values) < self.n_public and not points:
            raise ProofError(f"{len(values)} clear inputs of {self.n_public} and no commitment to the others")
        return values, points

    @cached_property
    def _alpha_beta(self) -> Any:
        return pairing.miller([(pairing.negated(self.alpha1), self.beta2)])

    def verify(self, proof: bytes, clear: bytes, commitments: bytes) -> None:
        """Raises ProofError unless the proof holds.

        clear: the first public inputs, 32 bytes each; commitments: points of 64 bytes, added to vk_x for the others.
        """
        decoded = Proof.decode(proof)
        values, points = self._checked_inputs(clear, commitments)
        bases = [*self.ic_points[: len(values) + 1], *points]
        x = multi_scalar(bases, [1, *values] + [1] * len(points))
        product = self._alpha_beta * pairing.miller(
            [
                (decoded.a, decoded.b),
                (pairing.negated(x), self.gamma2),
                (pairing.negated(decoded.c), self.delta2),
            ]
        )
        if not pairing.is_one(product):
            raise ProofError("the proof does not verify")

    def verify_batch(
        self,
        proofs: Sequence[bytes],
        clears: Sequence[bytes],
        commitments: Sequence[bytes],
        scales: Sequence[bytes],
        weights: bytes,
    ) -> None:
        """Raises ProofError unless all proofs hold.

        Args:
            scales: of each proof scalars that its points are added with, packed, or none: as they are.
            weights: 16 unpredictable bytes for each proof, none of them zero.
        """
        decoded, inputs = [], []
        for at, proof in enumerate(proofs):
            try:
                decoded.append(Proof.decode(proof))
            except ProofError as error:
                raise ProofError(f"batch entry {at}: {error}") from None
        n = len(decoded)
        if not n or {len(clears), len(commitments), len(scales)} != {n} or len(weights) != WEIGHT_BYTES * n:
            raise ProofError(
                "a batch needs as many inputs, commitments, scales and weights as proofs, and at least one"
            )
        factors = [int.from_bytes(weights[i : i + WEIGHT_BYTES], "big") for i in range(0, len(weights), WEIGHT_BYTES)]
        if not all(factors):
            raise ProofError("a weight is zero")
        own = []
        for at, (clear, given, packed) in enumerate(zip(clears, commitments, scales, strict=True)):
            try:
                inputs.append(self._checked_inputs(clear, given))
                own.append(unpack_scalars(packed) or [1] * len(inputs[-1][1]))
            except ProofError as error:
                raise ProofError(f"batch entry {at}: {error}") from None
        width = len(inputs[0][0])
        if any(len(values) != width for values, _ in inputs):
            raise ProofError("clear inputs differ in number")
        bases: list[Affine] = [*self.ic_points[: width + 1]]
        scalars = [sum(factors)]
        scalars += [sum(f * values[i] for f, (values, _) in zip(factors, inputs, strict=True)) for i in range(width)]
        for factor, multipliers, (_, points) in zip(factors, own, inputs, strict=True):
            if len(multipliers) != len(points):
                raise ProofError(f"{len(points)} points but {len(multipliers)} scales")
            bases += points
            scalars += [factor * multiplier for multiplier in multipliers]
        x = multi_scalar(bases, scalars)
        c = multi_scalar([proof.c for proof in decoded], factors)
        alpha = multi_scalar([self.alpha1], [sum(factors)])
        pairs = [(multi_scalar([p.a], [f]), p.b) for p, f in zip(decoded, factors, strict=True)]
        pairs += [(pairing.negated(q), r) for q, r in ((x, self.gamma2), (c, self.delta2), (alpha, self.beta2))]
        if not pairing.is_one(pairing.miller(pairs)):
            raise ProofError("a proof of the batch does not verify; verify them one by one to find it")


# --- strict JSON -----------------------------------------------------------------------------------------------------


def _json_object(text: str) -> dict[str, Any]:
    if len(text) > MAX_JSON:
        raise ProofError("the JSON text is too long")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProofError(f"not JSON: {error}") from None
    if not isinstance(found, dict):
        raise ProofError("not a JSON object")
    if found.get("protocol") != "groth16":
        raise ProofError("not a Groth16 object")
    if found.get("curve") not in ("bn128", "bn254"):
        raise ProofError("the curve is not BN254")
    return found


def _entry(found: Mapping[str, Any], key: str) -> Any:
    if key not in found:
        raise ProofError(f"{key} is missing")
    return found[key]


def _items(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise ProofError(f"{what} is not a list")
    return value


def _number(value: Any) -> int:
    if not isinstance(value, str):
        raise ProofError("a number is not a string")
    plain = value.isascii() and value.isdigit() and len(value) <= 78 and (len(value) == 1 or value[0] != "0")
    if not plain:
        raise ProofError("a number is not written as a plain decimal")
    number = int(value)
    if number >= P:
        raise ProofError("a number is not smaller than the modulus")
    return number


def _json_g1(value: Any, what: str) -> Point:
    coordinates = _items(value, what)
    if len(coordinates) != 3:
        raise ProofError(f"{what} does not have three coordinates")
    x, y, z = map(_number, coordinates)
    if z != 1:
        raise ProofError(f"{what} is not affine")
    if (x == 0 and y == 0) or (y * y - x * x * x - 3) % P:
        raise ProofError(f"{what} is not a proper point of the curve")
    return x, y


def _json_g2(value: Any, what: str) -> G2Point:
    coordinates = [[_number(c) for c in _items(pair, what)] for pair in _items(value, what)]
    if len(coordinates) != 3 or any(len(pair) != 2 for pair in coordinates):
        raise ProofError(f"{what} does not have three coordinates that are pairs")
    if coordinates[2] != [1, 0]:
        raise ProofError(f"{what} is not affine")
    (x0, x1), (y0, y1) = coordinates[:2]
    try:
        pairing.check_g2((x0, x1, y0, y1))
    except ProofError as error:
        raise ProofError(f"{what}: {error}") from None
    return x0, x1, y0, y1

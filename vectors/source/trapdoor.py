# SPDX-License-Identifier: GPL-3.0-or-later
"""Groth16 keys whose trapdoor is known, so that any statement has a proof that every verifier accepts.

What is checked of a proof is a pairing equation; with alpha, beta, gamma and delta known it is solved for C without any
circuit.  So vectors hold real proofs of small keys, and a second implementation checks them with its own pairing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from py_ecc import optimized_bn128 as ecc

from ragseal.backends.group import default_group
from ragseal.kernel import field
from ragseal.kernel.params import R
from vectors.source.values import points, scalar

G1 = (1).to_bytes(32, "big") + (2).to_bytes(32, "big")
GROUP = default_group()


@cache
def g2(k: int) -> bytes:
    """k times G2's generator: x.c1 || x.c0 || y.c1 || y.c0."""
    x, y = ecc.normalize(ecc.multiply(ecc.G2, k))
    return b"".join(int(c).to_bytes(32, "big") for c in (*x.coeffs[::-1], *y.coeffs[::-1]))


class Trapdoor:
    """A verifying key with ``public`` inputs, and its maker."""

    def __init__(self, name: str, public: int) -> None:
        self.name = name
        self.alpha, self.beta, self.gamma, self.delta = (scalar(f"{name} {part}") for part in "abcd")
        self.ic = points(f"{name} IC", public + 1)
        head = GROUP.msm(G1, field.pack([self.alpha])) + b"".join(map(g2, (self.beta, self.gamma, self.delta)))
        self.key = head + (public + 1).to_bytes(4, "big") + self.ic

    def bases(self, at: int, count: int) -> bytes:
        """IC points of ``count`` public inputs from ``at`` on."""
        return self.ic[64 * (at + 1) : 64 * (at + 1 + count)]

    def prove(self, clear: Sequence[int], commitments: bytes) -> bytes:
        """A || B || C with a b = alpha beta + gamma x + delta c, x being what clear inputs and commitments give."""
        n = len(commitments) // 64
        vk_x = GROUP.msm(self.ic[: 64 * (len(clear) + 1)] + commitments, field.pack([1, *clear, *[1] * n]))
        seed = f"{self.name} proof {vk_x.hex()}"
        a, b = scalar(f"{seed} a"), scalar(f"{seed} b")
        inverse = pow(self.delta, -1, R)
        factors = [(a * b - self.alpha * self.beta) * inverse % R, -self.gamma * inverse % R]
        return GROUP.msm(G1, field.pack([a])) + g2(b) + GROUP.msm(G1 + vk_x, field.pack(factors))

# SPDX-License-Identifier: GPL-3.0-or-later
"""Contributions made in Python, honest or not: what snarkjs would list in section 10 of a key."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from ragseal.groth16 import pairing
from ragseal.groth16.contributions import BEACON, CONTRIBUTION, Chain, Contribution
from ragseal.groth16.pairing import G1_GENERATOR, G2Point
from ragseal.groth16.snarkjs_random import beacon_draw, challenge_point
from ragseal.kernel.bn254 import encode_point
from ragseal.kernel.msm import Point, multi_scalar
from ragseal.kernel.params import P

CIRCUIT_HASH = bytes(range(64))
EMPTY = Chain(CIRCUIT_HASH, (), G1_GENERATOR, ())


def times(point: Point, scalar: int) -> Point:
    found = multi_scalar([point], [scalar])
    assert found is not None
    return found


def times2(point: G2Point, scalar: int) -> G2Point:
    found = pairing.combination([point], [scalar])
    assert found is not None
    return found


def transcript(chain: Chain, s: Point, sx: Point) -> bytes:
    digest = hashlib.blake2b(chain.circuit_hash)
    for one in chain.contributions:
        digest.update(one.public_key)
    digest.update(encode_point(s) + encode_point(sx))
    return digest.digest()


def contribution(chain: Chain, secret: int, s: Point = (1, 2), name: str = "somebody") -> Contribution:
    """What a party with this secret adds."""
    sx = times(s, secret)
    said = transcript(chain, s, sx)
    spx = times2(challenge_point(said), secret)
    return Contribution(times(chain.delta1, secret), s, sx, spx, said, CONTRIBUTION, name, 0, b"")


def beacon(chain: Chain, value: bytes, iterations: int = 10) -> Contribution:
    secret, s = beacon_draw(value, iterations)
    made = contribution(chain, secret, s, "beacon")
    return replace(made, kind=BEACON, iterations=iterations, beacon=value)


def added(chain: Chain, one: Contribution) -> Chain:
    return replace(chain, contributions=(*chain.contributions, one), delta1=one.after)


def encoded(one: Contribution) -> bytes:
    """A contribution that is no beacon's, as section 10 lists it."""
    numbers = [n for point in (one.after, one.s, one.sx) for n in point or (0, 0)] + list(one.spx)
    points = b"".join((n * (1 << 256) % P).to_bytes(32, "little") for n in numbers)
    name = bytes([1, len(one.name)]) + one.name.encode()
    return points + one.transcript + one.kind.to_bytes(4, "little") + len(name).to_bytes(4, "little") + name

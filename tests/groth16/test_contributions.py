# SPDX-License-Identifier: GPL-3.0-or-later
"""Chains of contributions: honest ones hold, and every way to leave a party out or to know the key does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from ragseal.groth16 import contributions, snarkjs_random
from ragseal.groth16.contributions import Chain, check_chain
from ragseal.groth16.pairing import on_twist
from ragseal.groth16.snarkjs_random import Drawn, challenge_point
from ragseal.kernel.errors import ProofError
from tests.groth16.parties import CIRCUIT_HASH, EMPTY, added, beacon, contribution, times, times2, transcript

pytest.importorskip("py_ecc")

VALUE = bytes(range(16))


@pytest.fixture(scope="module")
def chain() -> Chain:
    """Alice, Bob and a beacon."""
    found = added(EMPTY, contribution(EMPTY, 1234567, name="alice"))
    found = added(found, contribution(found, 7654321, (1, 2), "bob"))
    return added(found, beacon(found, VALUE))


def test_an_honest_chain(chain: Chain) -> None:
    check_chain(chain, CIRCUIT_HASH)
    check_chain(EMPTY, CIRCUIT_HASH)


def test_chacha() -> None:
    """The first block of the all-zero seed: RFC 8439, appendix A.1, test vector 1."""
    drawn = Drawn(bytes(32))
    words = [drawn._word() for _ in range(16)]
    block = b"".join(word.to_bytes(4, "little") for word in words)
    assert block.hex().startswith("76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7")


def test_points_that_are_drawn() -> None:
    for seed in range(3):
        assert on_twist(challenge_point(bytes([seed]) * 32))
        x, y = Drawn(bytes([seed]) * 32).g1()
        contributions._g1(b"".join((n * (1 << 256) % contributions.P).to_bytes(32, "little") for n in (x, y)))


def dropped(chain: Chain) -> Chain:
    """Alice is left out; what follows stays."""
    return replace(chain, contributions=chain.contributions[1:])


def exchanged(chain: Chain) -> Chain:
    first, second, last = chain.contributions
    return replace(chain, contributions=(second, first, last))


def without_knowledge(chain: Chain) -> Chain:
    """The last delta is one that the attacker knows whole: it makes up the secret that it does not know."""
    before = added(EMPTY, chain.contributions[0])
    made = contribution(before, 99)
    return added(before, replace(made, after=times((1, 2), 5)))


def forged_knowledge(chain: Chain) -> Chain:
    """delta follows the points of G2, and the points of G1, which the challenge hangs on, are of another secret."""
    before = added(EMPTY, chain.contributions[0])
    s, sx = times((1, 2), 3), times((1, 2), 8)
    said = transcript(before, s, sx)
    made = contribution(before, 99)
    return added(before, replace(made, s=s, sx=sx, transcript=said, spx=times2(challenge_point(said), 99)))


def beacon_replaced(chain: Chain) -> Chain:
    """Another beacon is named; the key is what the attacker chose."""
    last = replace(chain.contributions[-1], beacon=bytes(16))
    return replace(chain, contributions=(*chain.contributions[:-1], last))


def beacon_of_a_secret(chain: Chain) -> Chain:
    """A contribution with a secret that says that it is the beacon's."""
    before = added(EMPTY, chain.contributions[0])
    made = replace(contribution(before, 99), kind=contributions.BEACON, iterations=10, beacon=VALUE)
    return added(before, made)


def beacon_with_another_secret(chain: Chain) -> Chain:
    """The beacon's own point of G1, times another secret."""
    before = added(EMPTY, chain.contributions[0])
    _, s = snarkjs_random.beacon_draw(VALUE, 10)
    made = replace(contribution(before, 99, s), kind=contributions.BEACON, iterations=10, beacon=VALUE)
    return added(before, made)


def endless_beacon(chain: Chain) -> Chain:
    last = replace(chain.contributions[-1], iterations=63)
    return replace(chain, contributions=(*chain.contributions[:-1], last))


def another_delta(chain: Chain) -> Chain:
    return replace(chain, delta1=times((1, 2), 5))


def outside_subgroup(chain: Chain) -> Chain:
    """A G2 point of the twist that is not of order r."""
    point = None
    seed = 1
    while point is None:
        drawn = Drawn(seed.to_bytes(32, "big"))
        x0, x1 = drawn._number(contributions.P), drawn._number(contributions.P)
        square = (x0 * x0 - x1 * x1), 2 * x0 * x1
        cube = square[0] * x0 - square[1] * x1 + snarkjs_random.TWIST[0], square[0] * x1 + square[1] * x0
        y = snarkjs_random._root2(cube[0] % contributions.P, (cube[1] + snarkjs_random.TWIST[1]) % contributions.P)
        point = None if y is None else (x0, x1, *y)
        seed += 1
    assert on_twist(point)
    last = replace(chain.contributions[-1], spx=point)
    return replace(chain, contributions=(*chain.contributions[:-1], last))


FORGED: dict[Callable[[Chain], Chain], str] = {
    dropped: "contribution 1 was not made upon the ones before it",
    exchanged: "contribution 1 was not made upon the ones before it",
    without_knowledge: "the delta after contribution 2 does not hold",
    forged_knowledge: "the proof of knowledge of contribution 2 does not hold",
    beacon_replaced: "contribution 3 is not what its beacon gives",
    beacon_of_a_secret: "contribution 2 is not what its beacon gives",
    beacon_with_another_secret: "contribution 2 is not what its beacon gives",
    endless_beacon: "between 2\\^10 and 2\\^26 are checked here",
    another_delta: "the key's delta is not the one that its contributions make",
    outside_subgroup: "outside the subgroup",
}


@pytest.mark.parametrize("forge", FORGED, ids=lambda forge: forge.__name__)
def test_a_forged_chain(chain: Chain, forge: Callable[[Chain], Chain]) -> None:
    with pytest.raises(ProofError, match=FORGED[forge]):
        check_chain(forge(chain), CIRCUIT_HASH)


def test_a_chain_of_another_beginning(chain: Chain) -> None:
    """Attack: contributions to one ceremony are shown as those to another."""
    with pytest.raises(ProofError, match="circuit hash is that of a different beginning"):
        check_chain(chain, bytes(64))
    with pytest.raises(ProofError, match="contribution 1 was not made upon the ones before it"):
        check_chain(replace(chain, circuit_hash=bytes(64)), bytes(64))


def test_errors_that_cancel_in_a_plain_sum(chain: Chain) -> None:
    """Without weights a too large point in one equation would make up for a too small one in another."""
    before = added(EMPTY, chain.contributions[0])
    made = contribution(before, 99)
    with pytest.raises(ProofError, match="does not hold"):
        contributions._hold(
            [
                ("one", times((1, 2), 2), made.spx, times((1, 2), 2 * 99), challenge_point(made.transcript)),
                ("two", times((1, 2), 3), made.spx, times((1, 2), 3 * 99 + 1), challenge_point(made.transcript)),
                ("three", times((1, 2), 4), made.spx, times((1, 2), 4 * 99 - 1), challenge_point(made.transcript)),
            ]
        )

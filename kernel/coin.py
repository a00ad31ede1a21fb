# SPDX-License-Identifier: GPL-3.0-or-later
"""The coins of one tenant and coin period: which slots of the placed index stay empty.  docs/proofs/thinning.md.

The seed is committed in the manifest that throws them, so before its beacon; they follow from both: nobody chose them.
A coin is COIN_BITS uniform bits; a slot is hidden if its coin lies below the policy's numerator j, that is with
probability exactly j / 2^COIN_BITS.  The seed is not that of the noise: whoever learns one learns nothing of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ragseal.kernel import field
from ragseal.kernel.errors import UnprovableError
from ragseal.kernel.params import (
    COIN_BITS,
    ELEMENTS_PER_BLOCK,
    TAG_COIN_KEY,
    TAG_COIN_SEED,
    TAG_COINS,
    R,
)
from ragseal.kernel.poseidon import permute, poseidon
from ragseal.kernel.transcript import tagged_element

COINS_PER_ELEMENT = 208 // COIN_BITS  #: what a field element holds below its canonical top
TOP_POSITION = COINS_PER_ELEMENT * COIN_BITS


def coin_commitment(seed: tuple[int, int]) -> int:
    """c_coin = Poseidon(tag, s_hi, s_lo), in the manifest."""
    return poseidon(TAG_COIN_SEED, *seed)


def coin_context(manifest: bytes, beacon: int, tenant: str, shard: int = 0) -> int:
    """What makes one shard's coins of one coin period its own: 31 bytes over manifest digest, beacon, tenant, shard.

    Args:
        shard: its number in the tenant's index; 0 of an index that is one.
        manifest: digest of the one that threw the coins (:attr:`ragseal.kernel.commitment.Manifest.coin_period`).
        beacon: that manifest's.
    """
    return tagged_element("coin-context", manifest, field.to_bytes(beacon), tenant.encode(), shard.to_bytes(2, "big"))


def coin_elements(
    seed: tuple[int, int], context: int, capacity: int, permuted: Callable[[list[int]], list[int]] = permute
) -> list[int]:
    """The field elements that hold the coins of ``capacity`` slots, COINS_PER_ELEMENT each.

    ``permuted``: Poseidon's permutation, as a faster implementation has it.
    """
    key = poseidon(TAG_COIN_KEY, *seed, context)
    count = -(-capacity // COINS_PER_ELEMENT)
    out: list[int] = []
    for block in range(-(-count // ELEMENTS_PER_BLOCK)):
        out += permuted([0, key, block + (TAG_COINS << 32)] + [0] * 14)[1 : 1 + ELEMENTS_PER_BLOCK]
    return out[:count]


def coins(seed: tuple[int, int], context: int, capacity: int) -> list[int]:
    """One number in [0, 2^COIN_BITS) for every slot.

    Elements whose top bits are the modulus' own are refused, the last one's too although not all its coins are used: of
    the others every coin is uniform and independent, and the circuit's bits are those of the element and of no other.

    Raises:
        UnprovableError: such an element (2^-46 each, independent of the index): this window cannot be thinned.
    """
    elements = coin_elements(seed, context, capacity)
    if any(element >> TOP_POSITION >= R >> TOP_POSITION for element in elements):
        raise UnprovableError(
            "a coin element is outside the canonical decomposition (2^-46 an element): this window cannot be "
            "thinned; open another one"
        )
    return unpack_coins(elements, capacity)


def unpack_coins(elements: Sequence[int], capacity: int) -> list[int]:
    """The coins of the first ``capacity`` slots, lowest bits of an element first."""
    mask = (1 << COIN_BITS) - 1
    drawn = [(element >> (COIN_BITS * k)) & mask for element in elements for k in range(COINS_PER_ELEMENT)]
    return drawn[:capacity]


def hidden_slots(seed: tuple[int, int], context: int, capacity: int, hidden: int) -> list[bool]:
    """Whether each slot is hidden: its coin lies below ``hidden``, the numerator j of eta = j / 2^COIN_BITS.

    Raises:
        UnprovableError: as :func:`coins`.
    """
    return [coin < hidden for coin in coins(seed, context, capacity)]

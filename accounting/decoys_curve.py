# SPDX-License-Identifier: GPL-3.0-or-later
"""The curve that no law beats: ids of a list, return and size of an index.  ``docs/proofs/decoys.md``, section 3.

A query that one document alone matches returns it with probability 1 - eta.  So an empty slot is returned with
(1 - eta - delta) e^-R at least, for each of N slots: so many ids come by chance, whatever a law does.  Results take
places beside them.  Decoys have p0 = (1 - eta) / (e^R - eta) an id, which is the same but for what eta leaves, and each
slot on its own.
"""

from __future__ import annotations

import math

from ragseal.accounting.delivered_decoys import RARE
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.params import COIN_BITS

_FURTHEST = 64.0  #: nats; a return above it says nothing


def least_by_chance(slots: int, returned: float, hidden: int, delta: float = 0.0) -> float:
    """Ids that come by chance on average at least, under any law.

    Args:
        slots: N, of the whole index.
        returned: R, in nats.
        hidden: a coin hides that many in 2^COIN_BITS.
    """
    return slots * max(0.0, 1 - hidden / (1 << COIN_BITS) - delta) * math.exp(-returned)


def drawn_for(returned: float, hidden: int) -> float:
    """p0: how often an id comes by chance with decoys of that return.

    Raises:
        PolicyError: no such law, for the return is 0 or less.
    """
    if not 0 < returned <= _FURTHEST:
        raise PolicyError(f"a return lies above 0 and is {_FURTHEST:g} at most, not {returned:g}: take one such as 6")
    eta = hidden / (1 << COIN_BITS)
    return (1 - eta) / (math.exp(returned) - eta)


def most_drawn(slots: int, drawn: float, exponent: int = RARE) -> int:
    """The least q with P(more than q of the slots are drawn) <= 2^-exponent, each being drawn on its own with p0."""
    mean, limit = slots * drawn, 2.0**-exponent
    top = min(slots, math.ceil(mean + 12 * math.sqrt(mean * exponent) + 12 * exponent))  # beyond: far below the limit
    log_odds = math.log(drawn) - math.log1p(-drawn) if drawn < 1 else math.inf
    if math.isinf(log_odds):
        return slots
    whole = math.lgamma(slots + 1) + slots * math.log1p(-drawn)
    tail, k = 0.0, top
    while k > 0:
        tail += math.exp(whole - math.lgamma(k + 1) - math.lgamma(slots - k + 1) + k * log_odds)
        if tail > limit:
            break
        k -= 1
    return k


def ids_needed(slots: int, returned: float, hidden: int, results: int, exponent: int = RARE) -> int:
    """K that leaves so many places to results in all lists but one in 2^exponent."""
    return results + most_drawn(slots, drawn_for(returned, hidden), exponent)


def return_of_ids(slots: int, K: int, hidden: int, results: int, exponent: int = RARE) -> float:
    """The least R at which K ids leave so many places to results, to a millionth; infinite if there is none."""
    if results > K:
        return math.inf
    low, high = 0.0, _FURTHEST
    if ids_needed(slots, high, hidden, results, exponent) > K:
        return math.inf
    while high - low > 1e-6:
        middle = (low + high) / 2
        fits = ids_needed(slots, middle, hidden, results, exponent) <= K
        low, high = (low, middle) if fits else (middle, high)
    return high

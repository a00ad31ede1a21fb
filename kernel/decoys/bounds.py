# SPDX-License-Identifier: GPL-3.0-or-later
"""What a table of draws gives: the law of the drawn set, the ratio of a return, its delta.  Exact rationals.

docs/proofs/decoys.md, sections 2 and 3.  ``p_k`` is the probability that the drawn set is one given set of k slots.
All p_k have the denominator 2^(u L + L J_max), so integers stand for them here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, pairwise

from ragseal.kernel.decoys.table import MOST_DRAWS, RATE_BITS, TAIL_EXPONENT, DrawTable, build_table
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.params import COIN_BITS

_FIXED_BITS = 192  #: of probabilities that are rounded up


@lru_cache(maxsize=8)
def set_masses(table: DrawTable, N: int, most: int) -> tuple[int, ...]:
    """p_0 .. p_most, each times 2^(bits + L draws).

    With J draws, each id being one of V + i values, V void ones and i given slots, has probability ((V + i) / 2^L)^J.
    So that the set is *within* k given slots has probability G(V + k), G(x) = sum_J P(J) (x / 2^L)^J, and that it *is*
    all of them is the k-th difference of G at V.

    Raises:
        PolicyError: ids do not fit, or there are not so many slots.
    """
    if not 1 <= N <= 1 << table.L or not 0 <= most <= N:
        raise PolicyError(f"a table of ids of {table.L} bits is for 1 to 2^{table.L} slots, and sets of them")
    void, possible = (1 << table.L) - N, min(most, table.draws)  # no more slots than draws
    row = [_within(table, void + i) for i in range(possible + 1)]
    found = [row[0]]
    while len(row) > 1:
        row = [after - before for before, after in pairwise(row)]
        found.append(row[0])
    return (*found, *[0] * (most - possible))


def _within(table: DrawTable, x: int) -> int:
    """G(x) times 2^(bits + L draws)."""
    total = 0
    for j, mass in enumerate(reversed(table.masses)):
        total = total * x + (mass << (table.L * j))
    return total


def denominator(table: DrawTable) -> int:
    """Of what :func:`set_masses` gives."""
    return 1 << (table.bits + table.L * table.draws)


def own_slots(masses: Sequence[int], k: int, s: int) -> int:
    """sum_t C(s, t) p_(k+t): any of s own slots beside k given ones."""
    return sum(math.comb(s, t) * masses[k + t] for t in range(s + 1))


def visible_ratio(table: DrawTable, N: int, K: int, m: int = 1) -> Fraction | None:
    """A: how much likelier a list with slots of a visible document is than without it, at most.

    The largest of ``sum_t C(s, t) p_(k+t) / p_(k+s)`` over 1 <= s <= m and k + s <= K, 0 <= k <= N - s.  None: it has
    no bound, since some set of at most K slots is never drawn.

    Args:
        K: ids of a list, unless more are drawn.
        m: slots of the document, under one coin, in one shard.
    """
    _check(N, K, m)
    most = min(K, N)
    masses = set_masses(table, N, most)
    found = Fraction(1)
    for s in range(1, min(m, most) + 1):
        for k in range(most - s + 1):
            if not masses[k + s]:
                return None
            found = max(found, Fraction(own_slots(masses, k, s), masses[k + s]))
    return found


def excess(table: DrawTable, N: int, K: int, A: Fraction, m: int = 1) -> Fraction:
    """sum over lists of (P_D - A P_D0)_+, at most, of a visible document: what A leaves of one return.

    The largest over the number b of its slots that match.  Each list has its own slots S of those, so sets of k other
    slots are counted once for each S.

    Raises:
        PolicyError: numbers out of range, A below 1 among them.
    """
    _check(N, K, m)
    if A < 1:
        raise PolicyError("no ratio of a return is below 1")
    most = min(K, N)
    masses = set_masses(table, N, most)
    largest = Fraction(0)
    for b in range(1, m + 1):
        total = Fraction(0)
        for s in range(1, min(b, most) + 1):
            for k in range(min(most - s, N - b) + 1):
                over = own_slots(masses, k, s) - A * masses[k + s]
                if over > 0:
                    total += math.comb(b, s) * math.comb(N - b, k) * over
        largest = max(largest, total)
    return largest * Fraction(1, denominator(table))


def certified_ratio(table: DrawTable, N: int, K: int, budget: Fraction, m: int = 1) -> Fraction | None:
    """The least A among the ratios of single sizes of sets whose :func:`excess` is at most ``budget``.

    None: not even the largest finite one is.  With a budget of 0 it is :func:`visible_ratio`.
    """
    _check(N, K, m)
    most = min(K, N)
    masses = set_masses(table, N, most)
    pairs = [(k, s) for s in range(1, min(m, most) + 1) for k in range(most - s + 1) if masses[k + s]]
    ratios = sorted({Fraction(own_slots(masses, k, s), masses[k + s]) for k, s in pairs})
    low, high = 0, len(ratios)
    while low < high:  # the excess falls as A grows
        middle = (low + high) // 2
        if excess(table, N, K, ratios[middle], m) <= budget:
            high = middle
        else:
            low = middle + 1
    return ratios[low] if low < len(ratios) else None


def return_ratio(A: Fraction, hidden: int) -> Fraction:
    """e^R = (1 - eta) A + eta, for a coin that hides ``hidden`` in 2^COIN_BITS."""
    eta = Fraction(hidden, 1 << COIN_BITS)
    return (1 - eta) * A + eta


def over_shards(ratios: Sequence[Fraction]) -> Fraction:
    """A of m slots that lie in shards as they like, from A of 1 .. m slots in one: the largest product.

    Shards draw independently, so the ratio of a list is the product of its shards'.
    """
    best = [Fraction(1)]
    for m, own in enumerate(ratios, 1):
        best.append(max([own, *(best[i] * best[m - i] for i in range(1, m))]))
    return best[-1]


def smallest_rate(N: int, K: int, hidden: int, limit: Fraction, budget: Fraction = Fraction(0)) -> int:
    """The smallest rate of a table whose return is at most ``limit``, e^R, for documents of one slot.

    Args:
        N: slots of a shard.
        hidden: a coin hides that many in 2^COIN_BITS.
        budget: of a visible return's delta.

    Raises:
        PolicyError: no table of up to a draw a slot has such a return.
    """
    L = max(1, (N - 1).bit_length())

    def enough(rate: int) -> bool:
        A = certified_ratio(build_table(L, rate), N, K, budget)
        return A is not None and return_ratio(A, hidden) <= limit

    low, high = 0, min(1 << L, MOST_DRAWS - 1) << RATE_BITS
    if not enough(high):
        raise PolicyError("no number of decoys gives such a return: take a larger one, or more ids a list")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def size_law(table: DrawTable, N: int, most: int) -> tuple[Fraction, ...]:
    """P(k slots are drawn), k = 0 .. most."""
    whole = denominator(table)
    return tuple(Fraction(math.comb(N, k) * p, whole) for k, p in enumerate(set_masses(table, N, min(most, N))))


@lru_cache(maxsize=64)
def smallest_room(table: DrawTable, N: int, K: int, shards: int = 1) -> int:
    """The smallest room of a shard that a query overflows with probability 2^-64 at most.

    It does if some shard draws ``|P_h| > room`` slots, or if ``|P_h| + K - |P| > room``: it has to return that many if
    all results lie in it.  The latter is ``K - room`` more than all other shards draw.  Both are summed over shards.
    """
    _check(N, K, 1)
    most, limit = min(N, table.draws), Fraction(1, 1 << TAIL_EXPONENT)
    law = size_law(table, N, most)
    fewer = _few_of_others(law, shards, K) if shards > 1 else ()
    more, room = 1 - law[0], 0
    while room < N:
        few = 0 if room >= K else fewer[K - room - 1] if fewer else 1
        if shards * (more + few) <= limit:
            break
        room += 1
        more -= law[room] if room <= most else 0
    return room


def _few_of_others(law: Sequence[Fraction], shards: int, most: int) -> list[Fraction]:
    """P(all shards but one draw at most t slots together), t = 0 .. most - 1, rounded up."""
    unit = 1 << _FIXED_BITS
    own = [-(-one.numerator * unit // one.denominator) for one in law][:most]

    def times(a: Sequence[int], b: Sequence[int]) -> list[int]:
        out = [0] * min(most, len(a) + len(b) - 1)
        for i, x in enumerate(a):
            for j, y in enumerate(b[: len(out) - i]):
                out[i + j] += x * y
        return [-(-x >> _FIXED_BITS) for x in out]

    made, power, left = [unit], own, shards - 1
    while left:
        if left & 1:
            made = times(made, power)
        left >>= 1
        if left:
            power = times(power, power)
    made += [0] * (most - len(made))
    return [Fraction(x, unit) for x in accumulate(made)]


def drawn_probability(table: DrawTable, N: int) -> Fraction:
    """p0: the probability that one given slot is drawn, 1 - G(2^L - 1)."""
    if not 1 <= N <= 1 << table.L:
        raise PolicyError(f"a table of ids of {table.L} bits is for 1 to 2^{table.L} slots")
    return 1 - Fraction(_within(table, (1 << table.L) - 1), denominator(table))


def _check(N: int, K: int, m: int) -> None:
    if K < 1 or not 1 <= m <= N:
        raise PolicyError("a list has an id at least, and a document 1 to N slots")

# SPDX-License-Identifier: GPL-3.0-or-later
"""What a table of draws gives: the law of the drawn set, the ratio of a return, its delta.  Exact rationals.

docs/proofs/decoys.md, sections 2 and 3.  ``p_k`` is the probability that the drawn set is one given set of k slots.
All p_k have the denominator 2^(u L + L J_max), so integers stand for them here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, pairwise

from ragseal.kernel.decoys.table import TAIL_EXPONENT, DrawTable
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.params import COIN_BITS

FIXED_BITS = 192  #: of probabilities that are rounded up
_ENCLOSED_BITS = 320  #: of probabilities that are enclosed, where what is compared with them is 2^-64 or so
_COEFFICIENT_BYTES = 64  #: of a product of two sequences of probabilities: 384 bits, and their number


@lru_cache(maxsize=8)
def set_masses(table: DrawTable, N: int, most: int) -> tuple[int, ...]:
    """p_0 .. p_most, each times 2^(bits + L draws).

    With J draws, each id being one of V + i values, V void ones and i given slots, has probability ((V + i) / 2^L)^J.
    So that the set is *within* k given slots has probability G(V + k), G(x) = sum_J P(J) (x / 2^L)^J, and that it *is*
    all of them is the k-th difference of G at V: k! times the k-th remainder of G, divided by x - V, by x - V - 1, ..

    Raises:
        PolicyError: ids do not fit, or there are not so many slots.
    """
    if not 1 <= N <= 1 << table.L or not 0 <= most <= N:
        raise PolicyError(f"a table of ids of {table.L} bits is for 1 to 2^{table.L} slots, and sets of them")
    void, possible = (1 << table.L) - N, min(most, table.draws)  # no more slots than draws
    quotient = [mass << (table.L * j) for j, mass in enumerate(reversed(table.masses))]  # the highest power first
    found, factorial = [], 1
    for x in range(void, void + possible + 1):
        quotient = list(accumulate(quotient, lambda above, own, x=x: above * x + own))  # type: ignore[misc]
        found.append(quotient.pop() * factorial)
        factorial *= len(found)
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
    most = _sizes_of(table, N, K, m)
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
    most = _sizes_of(table, N, K, m)
    masses = set_masses(table, N, most)
    numerator, scale = A.as_integer_ratio()
    largest = 0
    for b in range(1, m + 1):
        total, ways = 0, _binomials(N - b, min(most, N - b))
        for s in range(1, min(b, most) + 1):
            for k in range(min(most - s, N - b) + 1):
                over = scale * own_slots(masses, k, s) - numerator * masses[k + s]
                if over > 0:
                    total += math.comb(b, s) * ways[k] * over
        largest = max(largest, total)
    return Fraction(largest, scale * denominator(table))


def certified_ratio(table: DrawTable, N: int, K: int, budget: Fraction, m: int = 1) -> Fraction | None:
    """The least A among the ratios of single sizes of sets whose :func:`excess` is at most ``budget``.

    None: not even the largest finite one is.  With a budget of 0 it is :func:`visible_ratio`.
    """
    _check(N, K, m)
    most = _sizes_of(table, N, K, m)
    masses = set_masses(table, N, most)
    own = [list(masses)]  # own[s][k] is own_slots(masses, k, s)
    for _ in range(min(m, most)):
        own.append([left + right for left, right in zip(own[-1], own[-1][1:], strict=False)])
    pairs = [(x, p) for s, row in enumerate(own[1:], 1) for k, x in enumerate(row) if (p := masses[k + s])]
    ratios = _sorted_ratios(pairs)
    enclosed = _Enclosed.of(own, N, m, denominator(table))
    low, high = 0, len(ratios)
    while low < high:  # the excess falls as A grows
        middle = (low + high) // 2
        within = enclosed.within(*ratios[middle], budget)
        if within is None:
            within = excess(table, N, K, Fraction(*ratios[middle]), m) <= budget
        low, high = (low, middle) if within else (middle + 1, high)
    return Fraction(*ratios[low]) if low < len(ratios) else None


def _sorted_ratios(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Of numerators and denominators of thousands of bits, without a fraction in lowest terms of each."""
    near = {((x << _ENCLOSED_BITS) // p, x, p) for x, p in pairs}
    if len({one[0] for one in near}) < len(near):  # some are equal, or as good as that
        return [one.as_integer_ratio() for one in sorted({Fraction(x, p) for _, x, p in near})]
    return [(x, p) for _, x, p in sorted(near)]


@dataclass(frozen=True, slots=True)
class _Enclosed:
    """Terms of an excess in units of 2^-_ENCLOSED_BITS, rounded down: each is less than 1 above.

    For each number b of slots that match (C(b, s) C(N - b, k) own_slots, C(b, s) C(N - b, k) p_(k+s)) of all k and s.
    """

    terms: tuple[tuple[tuple[int, int], ...], ...]

    @classmethod
    def of(cls, own: Sequence[Sequence[int]], N: int, m: int, whole: int) -> _Enclosed:
        shift, masses = whole.bit_length() - 1 - _ENCLOSED_BITS, own[0]
        found = []
        for b in range(1, m + 1):
            ways = _binomials(N - b, min(len(masses) - 1, N - b))
            found.append(
                tuple(
                    (math.comb(b, s) * ways[k] * x >> shift, math.comb(b, s) * ways[k] * masses[k + s] >> shift)
                    if shift > 0
                    else (math.comb(b, s) * ways[k] * x << -shift, math.comb(b, s) * ways[k] * masses[k + s] << -shift)
                    for s, row in enumerate(own[1 : b + 1], 1)
                    for k, x in enumerate(row[: len(ways)])
                )
            )
        return cls(tuple(found))

    def within(self, numerator: int, denominator: int, budget: Fraction) -> bool | None:
        """Whether the excess at A is at most the budget; None: the enclosure does not tell."""
        unit = 1 << _ENCLOSED_BITS
        below = (numerator << _ENCLOSED_BITS) // denominator  # A lies in [below, below + 1]
        limit = budget * unit
        least = max(
            sum(max(0, x - ((below + 1) * (p + 1) >> _ENCLOSED_BITS) - 1) for x, p in own) for own in self.terms
        )
        if least > limit:
            return False
        most = max(sum(max(0, x + 1 - (below * p >> _ENCLOSED_BITS)) for x, p in own) for own in self.terms)
        return True if most <= limit else None


def _binomials(n: int, most: int) -> list[int]:
    """C(n, 0) .. C(n, most)."""
    return list(accumulate(range(most), lambda one, k: one * (n - k) // (k + 1), initial=1))


def return_ratio(A: Fraction, hidden: int) -> Fraction:
    """e^R = (1 - eta) A + eta, for a coin that hides ``hidden`` in 2^COIN_BITS."""
    eta = Fraction(hidden, 1 << COIN_BITS)
    return (1 - eta) * A + eta


def power_ratio(
    table: DrawTable, N: int, K: int, m: int, budget: Fraction, shards: int = 1
) -> tuple[Fraction, Fraction] | None:
    """(a, what is left): a^m serves as A of m slots, which lie in shards as they like, and leaves so much of one query.

    With p_j <= (a - 1) p_(j+1) for all j < top, own_slots of k and s is at most a^s p_(k+s) where k + s <= top.  A
    fibre with a larger top comes of drawn sets of more than top - m slots in that shard: their probability is left.

    Args:
        budget: what may be left at most; top is the smallest that leaves no more.

    Returns:
        None: some set of 1 to top slots is never drawn.

    Raises:
        PolicyError: numbers out of range.
    """
    _check(N, K, min(m, N))
    law, whole, parts = _sizes(table, N, table.draws), denominator(table), min(shards, m)
    size, beyond = 0, whole - law[0]  # of sets of more than ``size`` slots
    while parts * beyond > budget * whole:
        size += 1
        beyond -= law[size]
    top = size + m
    if top >= min(K, N):  # there is no fibre with a larger one
        top, beyond = min(K, N), 0
    masses = set_masses(table, N, top)
    if not all(masses[1:]):
        return None
    numerator, divisor = 1, 1
    for fewer, p in pairwise(masses):
        if (fewer + p) * divisor > numerator * p:
            numerator, divisor = fewer + p, p
    return Fraction(numerator, divisor), Fraction(parts * beyond, whole)


def over_shards(ratios: Sequence[Fraction]) -> Fraction:
    """A of m slots that lie in shards as they like, from A of 1 .. m slots in one: the largest product.

    Shards draw independently, so the ratio of a list is the product of its shards'.
    """
    best = [Fraction(1)]
    for m, own in enumerate(ratios, 1):
        best.append(max([own, *(best[i] * best[m - i] for i in range(1, m))]))
    return best[-1]


def size_law(table: DrawTable, N: int, most: int) -> tuple[Fraction, ...]:
    """P(k slots are drawn), k = 0 .. most."""
    whole = denominator(table)
    return tuple(Fraction(one, whole) for one in _sizes(table, N, most))


def _sizes(table: DrawTable, N: int, most: int) -> list[int]:
    """The same times the denominator of the table."""
    masses = set_masses(table, N, min(most, N))
    return [ways * p for ways, p in zip(_binomials(N, len(masses) - 1), masses, strict=True)]


@lru_cache(maxsize=64)
def smallest_room(table: DrawTable, N: int, K: int, shards: int = 1) -> int:
    """The smallest room of a shard that a query overflows with probability 2^-64 at most.

    It does if some shard draws ``|P_h| > room`` slots, or if ``|P_h| + K - |P| > room``: it has to return that many if
    all results lie in it.  The latter is ``K - room`` more than all other shards draw.  Both are summed over shards.
    """
    _check(N, K, 1)
    most, whole, unit = min(N, table.draws), denominator(table), 1 << FIXED_BITS
    law = _sizes(table, N, most)
    limit = whole >> TAIL_EXPONENT
    fewer = list(accumulate(_together(_fixed(law, whole), shards - 1, K)))  # all other shards draw at most t slots
    more, room = whole - law[0], 0
    while room < N:
        few = 0 if room >= K else fewer[K - room - 1] * whole
        if shards * (more * unit + few) <= limit * unit:
            break
        room += 1
        more -= law[room] if room <= most else 0
    return room


@lru_cache(maxsize=64)
def most_listed(table: DrawTable, N: int, K: int, shards: int) -> int:
    """The most ids of a list: K, or the fewest that all shards together draw more of with 2^-64 at most.

    A query that draws more is refused, whatever was asked.
    """
    law = drawn_law(table, N, shards)
    beyond, size = sum(law) - law[0], 0
    while beyond > 1 << (FIXED_BITS - TAIL_EXPONENT):
        size += 1
        beyond -= law[size]
    return max(K, size)


@lru_cache(maxsize=16)
def drawn_law(table: DrawTable, N: int, shards: int) -> tuple[int, ...]:
    """P(all shards draw t slots together), t = 0, 1, .., rounded up, in units of 2^-FIXED_BITS."""
    most = min(N, table.draws)
    return tuple(_together(_fixed(_sizes(table, N, most), denominator(table)), shards, shards * most + 1))


def _fixed(law: Sequence[int], whole: int) -> list[int]:
    return [-(-(one << FIXED_BITS) // whole) for one in law]


def _together(law: Sequence[int], shards: int, most: int) -> list[int]:
    """The first ``most`` terms of the law of a sum over shards, rounded up.

    Args:
        law: of one shard, as the result in units of 2^-FIXED_BITS.
    """
    made, power, left = [1 << FIXED_BITS], list(law[:most]), shards
    while left:
        if left & 1:
            made = _times(made, power, most)
        left >>= 1
        if left:
            power = _times(power, power, most)
    return [*made, *[0] * (most - len(made))]


def _times(a: Sequence[int], b: Sequence[int], most: int) -> list[int]:
    """The first terms of the law of a sum, rounded up.  One product of long integers has all of them."""
    packed = [
        int.from_bytes(b"".join(x.to_bytes(_COEFFICIENT_BYTES, "little") for x in one), "little") for one in (a, b)
    ]
    length = len(a) + len(b) - 1
    product = (packed[0] * packed[1]).to_bytes((length + 1) * _COEFFICIENT_BYTES, "little")
    size = _COEFFICIENT_BYTES
    terms = (product[size * i : size * (i + 1)] for i in range(min(most, length)))
    return [-(-int.from_bytes(one, "little") >> FIXED_BITS) for one in terms]


def drawn_probability(table: DrawTable, N: int) -> Fraction:
    """p0: the probability that one given slot is drawn, 1 - G(2^L - 1)."""
    if not 1 <= N <= 1 << table.L:
        raise PolicyError(f"a table of ids of {table.L} bits is for 1 to 2^{table.L} slots")
    return 1 - Fraction(_within(table, (1 << table.L) - 1), denominator(table))


def _sizes_of(table: DrawTable, N: int, K: int, m: int) -> int:
    """The largest size of a set that counts: beyond it all p are 0, and K may be any number of 32 bits."""
    return min(K, N, table.draws + m)


def _check(N: int, K: int, m: int) -> None:
    if K < 1 or not 1 <= m <= N:
        raise PolicyError("a list has an id at least, and a document 1 to N slots")

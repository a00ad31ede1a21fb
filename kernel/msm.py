# SPDX-License-Identifier: GPL-3.0-or-later
"""Multi-scalar multiplication on BN254's G1 in plain Python: signed digits, buckets, shared inversions.

An affine addition costs six multiplications where many of them share one inversion (Montgomery's trick), half of what
projective coordinates cost; that and digits of a width that fits the input make the path without native code bearable.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragseal.kernel.params import P, R

Point = tuple[int, int]
#: A point, or None for the identity.
Affine = Point | None

# Jacobian coordinates (X, Y, Z), Z = 0 for the identity.
_Jacobian = tuple[int, int, int]
_ZERO: _Jacobian = (1, 1, 0)


def _double(p: _Jacobian) -> _Jacobian:
    x, y, z = p
    if z == 0 or y == 0:
        return _ZERO
    a = x * x % P
    b = y * y % P
    c = b * b % P
    d = 2 * ((x + b) * (x + b) - a - c) % P
    e = 3 * a % P
    x3 = (e * e - 2 * d) % P
    return x3, (e * (d - x3) - 8 * c) % P, 2 * y * z % P


def _add(p: _Jacobian, q: _Jacobian) -> _Jacobian:
    if p[2] == 0:
        return q
    if q[2] == 0:
        return p
    z1, z2 = p[2] * p[2] % P, q[2] * q[2] % P
    u1, u2 = p[0] * z2 % P, q[0] * z1 % P
    s1, s2 = p[1] * q[2] * z2 % P, q[1] * p[2] * z1 % P
    if u1 == u2:
        return _double(p) if s1 == s2 else _ZERO
    h = (u2 - u1) % P
    i = 4 * h * h % P
    j = h * i % P
    r = 2 * (s2 - s1) % P
    v = u1 * i % P
    x3 = (r * r - j - 2 * v) % P
    return x3, (r * (v - x3) - 2 * s1 * j) % P, 2 * p[2] * q[2] * h % P


def _affine(p: _Jacobian) -> Affine:
    if p[2] == 0:
        return None
    inv = pow(p[2], -1, P)
    square = inv * inv % P
    return p[0] * square % P, p[1] * square * inv % P


def add_pairs(left: Sequence[Point], right: Sequence[Point]) -> list[Affine]:
    """left[i] + right[i] for all i, with one inversion.  Complete: equal and opposite points included."""
    product, prefix, denominators = 1, [], []
    for (x1, y1), (x2, y2) in zip(left, right, strict=True):
        d = x2 - x1 or (2 * y1 if y1 == y2 else 1)  # no point of G1 has y = 0
        prefix.append(product)
        denominators.append(d)
        product = product * d % P
    inverse = pow(product, -1, P)
    out: list[Affine] = [None] * len(prefix)
    for k in range(len(prefix) - 1, -1, -1):
        inv = inverse * prefix[k] % P
        inverse = inverse * denominators[k] % P
        x1, y1 = left[k]
        x2, y2 = right[k]
        if x1 != x2:
            slope = (y2 - y1) * inv % P
        elif y1 == y2:
            slope = 3 * x1 * x1 * inv % P
        else:
            continue
        x3 = (slope * slope - x1 - x2) % P
        out[k] = x3, (slope * (x1 - x3) - y1) % P
    return out


def sum_groups(groups: list[list[Point]]) -> list[Affine]:
    """The sum of every group, by halving: all additions of one round share an inversion."""
    groups = list(groups)
    pending = [at for at, group in enumerate(groups) if len(group) > 1]
    while pending:
        left: list[Point] = []
        right: list[Point] = []
        for at in pending:
            group = groups[at]
            left += group[: len(group) & ~1 : 2]
            right += group[1::2]
        sums = add_pairs(left, right)
        start = 0
        for at in pending:
            group = groups[at]
            half = len(group) // 2
            rest = group[-1:] if len(group) & 1 else []
            groups[at] = [p for p in sums[start : start + half] if p is not None] + rest
            start += half
        pending = [at for at in pending if len(groups[at]) > 1]
    return [group[0] if group else None for group in groups]


def _width(bits: Sequence[int]) -> int:
    """The digit width with the least additions for scalars of these lengths; 4: cost of a bucket's running sums."""

    def cost(c: int) -> int:
        return sum(-(-(b + 1) // c) for b in bits) + 4 * (-(-(max(bits) + 1) // c) << (c - 1))

    return min(range(2, 13), key=cost)


def multi_scalar(points: Sequence[Affine], scalars: Sequence[int]) -> Affine:
    """sum_i scalars[i] * points[i] (Pippenger).  Scalars are reduced mod r; small ones, of either sign, cost little.

    Not constant-time: it is for machines whose timing nobody else can watch.
    """
    terms: list[tuple[Point, int]] = []
    for p, k in zip(points, scalars, strict=True):
        k %= R
        if p is None or k == 0:
            continue
        terms.append((p, k) if k <= R >> 1 else ((p[0], P - p[1]), R - k))
    if not terms:
        return None
    lengths = [k.bit_length() for _, k in terms]
    c = _width(lengths)
    windows, half, mask = -(-(max(lengths) + 1) // c), 1 << (c - 1), (1 << c) - 1
    buckets: list[list[Point]] = [[] for _ in range(windows * half)]
    for p, k in terms:
        at, opposite = -1, (p[0], P - p[1])
        while k:
            digit = k & mask
            k >>= c
            if digit > half:
                k += 1
                buckets[at + mask + 1 - digit].append(opposite)
            elif digit:
                buckets[at + digit].append(p)
            at += half
    sums = sum_groups(buckets)
    result = _ZERO
    for window in range(windows - 1, -1, -1):
        for _ in range(c):
            result = _double(result)
        running = total = _ZERO
        for bucket in range((window + 1) * half - 1, window * half - 1, -1):
            found = sums[bucket]
            if found is not None:
                running = _add(running, (found[0], found[1], 1))
            total = _add(total, running)
        result = _add(result, total)
    return _affine(result)


def _signed_digits(k: int) -> list[tuple[int, int]]:
    """k > 0 as (doublings, odd digit in -7..7), highest first: every digit is added, then doubled so many times."""
    digits, shift = [], 0
    while k:
        zeros = (k & -k).bit_length() - 1
        k, shift = k >> zeros, shift + zeros
        digit = (k & 15) - 16 if k & 8 else k & 15
        digits.append((shift, digit))
        k, shift = (k - digit) >> 4, 4
    return digits[::-1]


def multiples(points: Sequence[Point], k: int) -> list[Point]:
    """k * p for every p, 0 < k < r: one schedule of doublings and additions, each with one inversion for all."""
    if not points:
        return []

    def add(left: Sequence[Point], right: Sequence[Point]) -> list[Point]:
        return [p for p in add_pairs(left, right) if p is not None]  # multiples below r of points of order r

    twice = add(points, points)
    odd = {1: list(points)}
    for digit in (3, 5, 7):
        odd[digit] = add(odd[digit - 2], twice)
    digits = _signed_digits(k)
    sums = odd[digits[0][1]]
    for at, (shift, _) in enumerate(digits):
        if at:
            digit = digits[at][1]
            sums = add(sums, odd[digit] if digit > 0 else [(x, P - y) for x, y in odd[-digit]])
        for _ in range(shift):
            sums = add(sums, sums)
    return sums

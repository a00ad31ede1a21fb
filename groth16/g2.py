# SPDX-License-Identifier: GPL-3.0-or-later
"""Sums of many points of BN254's G2 in plain Python: affine additions that share one inversion."""

from __future__ import annotations

from collections.abc import Sequence

from ragseal.groth16.pairing import G2Point
from ragseal.kernel.params import P


def _mul(a0: int, a1: int, b0: int, b1: int) -> tuple[int, int]:
    """(a0 + a1 i)(b0 + b1 i), i^2 = -1."""
    low, high = a0 * b0, a1 * b1
    return (low - high) % P, ((a0 + a1) * (b0 + b1) - low - high) % P


def _denominator(a: G2Point, b: G2Point) -> tuple[int, int]:
    if a[:2] != b[:2]:
        return b[0] - a[0], b[1] - a[1]
    if a[2:] == b[2:] and (a[2] or a[3]):
        return 2 * a[2], 2 * a[3]
    return 1, 0


def add_pairs(left: Sequence[G2Point], right: Sequence[G2Point]) -> list[G2Point | None]:
    """left[i] + right[i] for all i, with one inversion; None for the identity.  Complete."""
    p0, p1 = 1, 0
    prefix, denominators = [], []
    for a, b in zip(left, right, strict=True):
        d = _denominator(a, b)
        prefix.append((p0, p1))
        denominators.append(d)
        p0, p1 = _mul(p0, p1, *d)
    norm = pow(p0 * p0 + p1 * p1, -1, P)
    i0, i1 = p0 * norm % P, -p1 * norm % P
    out: list[G2Point | None] = [None] * len(prefix)
    for k in range(len(prefix) - 1, -1, -1):
        inverse = _mul(i0, i1, *prefix[k])
        i0, i1 = _mul(i0, i1, *denominators[k])
        x0, x1, y0, y1 = left[k]
        u0, u1, v0, v1 = right[k]
        if (x0, x1) != (u0, u1):
            s0, s1 = _mul(v0 - y0, v1 - y1, *inverse)
        elif (y0, y1) == (v0, v1) and (y0 or y1):
            q0, q1 = _mul(x0, x1, x0, x1)
            s0, s1 = _mul(3 * q0, 3 * q1, *inverse)
        else:
            continue
        w0, w1 = _mul(s0, s1, s0, s1)
        w0, w1 = (w0 - x0 - u0) % P, (w1 - x1 - u1) % P
        z0, z1 = _mul(s0, s1, x0 - w0, x1 - w1)
        out[k] = w0, w1, (z0 - y0) % P, (z1 - y1) % P
    return out


def _add(a: G2Point | None, b: G2Point | None) -> G2Point | None:
    if a is None or b is None:
        return a or b
    return add_pairs([a], [b])[0]


def total(points: Sequence[G2Point]) -> G2Point | None:
    """The sum of points."""
    level = list(points)
    while len(level) > 1:
        rest = level[-1:] if len(level) & 1 else []
        sums = add_pairs(level[: len(level) & ~1 : 2], level[1::2])
        level = [p for p in sums if p is not None] + rest
    return level[0] if level else None


def combination(points: Sequence[G2Point], weights: Sequence[int], bits: int) -> G2Point | None:
    """sum_i weights[i] * points[i] for weights in [0, 2^bits), bits small: one bucket a weight."""
    buckets: list[list[G2Point]] = [[] for _ in range(1 << bits)]
    for point, weight in zip(points, weights, strict=True):
        buckets[weight].append(point)
    running: G2Point | None = None
    result: G2Point | None = None
    for weight in range(len(buckets) - 1, 0, -1):
        running = _add(running, total(buckets[weight]))
        result = _add(result, running)
    return result

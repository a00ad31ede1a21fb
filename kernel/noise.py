# SPDX-License-Identifier: GPL-3.0-or-later
"""The noise table: an integer law of total mass 2^112, its rules and its inverse CDF.  SPEC M.4.

Everything here is exact integer arithmetic; no float ever touches a mass, a quantile or a decision.

A table stores ``h(0..C)``, the non-negative half of a symmetric mass function p(x) = p(-x) on [-C, C].  Masses are out
of 2^n, n = 112.  A law's name ends in its scale in steps.  The rules that every party checks (:func:`check_table`):

T1  symmetric: given by what is stored;
T2  the masses sum to exactly 2^n;
T3  contiguous support: every stored entry is an integer >= 1;
T4  log-concave, p(x)^2 >= p(x-1) p(x+1) for all x.  This is what makes every shift smaller than the worst one
    dominated by it, so that a single shift has to be accounted;
T5  the digest of the table's canonical bytes is what a policy binds.

Because the total is even, p(0) = 2^n - 2 (h(1) + ... + h(C)) is even and the CDF folds exactly at U = 2^(n-1):
z(2^n - 1 - U) = -z(U).
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate

from ragseal.kernel.errors import PolicyError
from ragseal.kernel.params import (
    GAUSSIAN,
    GEOMETRIC,
    NOISE_LAWS,
    PROTOCOL_VERSION,
    UNIFORM_BITS,
)

TOTAL = 1 << UNIFORM_BITS  #: sum of all masses, and number of uniforms
TABLE_TAG = b"ragseal.noise-table"

GEOMETRIC_SCALE = 16  #: b of "geometric-16": p(x) proportional to exp(-|x| / b)
GAUSSIAN_SIGMA = 512  #: standard deviation of "gaussian-512"
GAUSSIAN_CUT = 5376  #: 10.5 sigma: up to here plain rounding to 2^-112 keeps T3 and T4
LARGEST_CUT = 1 << 16  #: refuses absurd tables before anything is computed from them

# Fractional bits of the fixed-point exponentials.  exp(-1/n) is known to 2^-390; the recurrences use at most the
# 5376^2-th power of it (relative error below 2^-360) and truncate a few thousand products at 2^-400, and no weight that
# matters is below 2^-119: every relative error is below 2^-250.  Rounding to a mass is decided at 2^-112 of the total.
_FIXED_BITS = 400
_ONE = 1 << _FIXED_BITS

# Steps by which the geometric builders rescale h(1..) until T4 holds at x = 1.  Parts in 10^6 would do, but
# would move the one-step privacy loss at 0 by 0.2 %; these leave it within 10^-14 of 1/32.
_RESCALE_UNIT = 10**18
_RESCALE_TRIES = 1000


@dataclass(frozen=True, slots=True)
class NoiseTable:
    """An integer law.  ``half[x]`` is the mass of x and of -x, x = 0..C, out of 2^n."""

    law: str
    half: tuple[int, ...]
    _cdf: tuple[int, ...] = field(init=False, repr=False, compare=False, default=())

    def __post_init__(self) -> None:
        object.__setattr__(self, "_cdf", tuple(accumulate(self.half[:0:-1] + self.half, initial=0)))

    @property
    def bits(self) -> int:
        """n: bits of the uniform that a value is drawn from."""
        return UNIFORM_BITS

    @property
    def total(self) -> int:
        """2^n: what the masses sum to (T2)."""
        return TOTAL

    @property
    def cut(self) -> int:
        """C, the largest value with positive mass, in table steps."""
        return len(self.half) - 1

    def mass(self, x: int) -> int:
        """p(x), an integer out of 2^n; 0 outside [-C, C]."""
        return self.half[abs(x)] if abs(x) < len(self.half) else 0

    def cdf(self, x: int) -> int:
        """F(x) = sum of p over all values <= x, an integer out of 2^n; 0 below the support, the total above C."""
        return self._cdf[min(max(x + self.cut + 1, 0), len(self._cdf) - 1)]

    def tail(self, x: int) -> int:
        """Mass of the values above x, an integer out of 2^n: the numerator of P(z_b > x)."""
        return self._cdf[-1] - self.cdf(x)

    def inverse(self, uniform: int) -> int:
        """The z with F(z-1) <= U < F(z).

        Raises:
            PolicyError: U is outside [0, 2^n).
        """
        if not 0 <= uniform < self.total:
            raise PolicyError(f"a uniform must lie in [0, 2^{self.bits})")
        return bisect_right(self._cdf, uniform) - self.cut - 1

    def canonical_bytes(self) -> bytes:
        """What the digest covers.

        ``u8 len(tag) || tag || u16 protocol version || u8 len(law) || law (ASCII) || u16 n || u32 C ||
        p(0) || p(1) || ... || p(C)``, every mass n / 8 bytes, all integers big-endian.
        """
        law = self.law.encode("ascii")
        head = bytes([len(TABLE_TAG)]) + TABLE_TAG + PROTOCOL_VERSION.to_bytes(2, "big")
        head += bytes([len(law)]) + law + self.bits.to_bytes(2, "big") + self.cut.to_bytes(4, "big")
        width = self.bits // 8
        return head + b"".join(p.to_bytes(width, "big") for p in self.half)

    def digest(self) -> bytes:
        """T5: SHA-256 of :meth:`canonical_bytes`, 32 bytes."""
        return hashlib.sha256(self.canonical_bytes()).digest()

    def check(self) -> None:
        """As :func:`check_table`."""
        check_table(self)

    def evidence(self) -> dict[str, object]:
        """What an auditor's report says of it, once :meth:`check` has passed."""
        return {"law": self.law, "cut": self.cut, "table_digest": self.digest(), "rules": "T1 T2 T3 T4 T5"}


def scale_of(law: str) -> int:
    """One unit of a law's scale, in table steps: sigma of the Gaussian, b of the geometric law.

    Raises:
        PolicyError: the law is unknown.
    """
    if law not in NOISE_LAWS:
        raise PolicyError(f"noise law must be one of {NOISE_LAWS}, not {law!r}")
    return GAUSSIAN_SIGMA if law == GAUSSIAN else GEOMETRIC_SCALE


def check_table(table: NoiseTable) -> None:
    """Check T1 to T4 in exact integers (milliseconds).

    Raises:
        PolicyError: names the rule and the entry that breaks it.
    """

    def refuse(why: str) -> None:
        raise PolicyError(f"noise table {table.law!r}: {why}; use the table of the canonical builder")

    if table.law not in NOISE_LAWS:
        refuse(f"law must be one of {NOISE_LAWS}")
    h = table.half
    if not 3 <= len(h) <= LARGEST_CUT:
        refuse(f"needs between 3 and {LARGEST_CUT} entries, has {len(h)}")
    for x, p in enumerate(h):
        if type(p) is not int or p < 1:
            refuse(f"T3: the mass of {x} must be an integer of at least 1")
    if h[0] + 2 * sum(h[1:]) != table.total:
        refuse(f"T2: masses do not sum to 2^{table.bits}")
    if h[1] > h[0]:
        refuse("T4: not log-concave at 0")
    for x in range(1, len(h) - 1):
        if h[x] * h[x] < h[x - 1] * h[x + 1]:
            refuse(f"T4: not log-concave at {x}")


@lru_cache(maxsize=len(NOISE_LAWS))
def build_table(law: str) -> NoiseTable:
    """The canonical table of a law, checked.

    "geometric-16": p(x) proportional to exp(-|x|/16), cut where the recursion below ends (C = 1115).  "gaussian-512":
    sigma = 512, cut at 5376.

    Raises:
        PolicyError: the law is unknown.
    """
    if law == GAUSSIAN:
        table = NoiseTable(law, _gaussian_masses(GAUSSIAN_SIGMA, GAUSSIAN_CUT, UNIFORM_BITS))
    elif law == GEOMETRIC:
        table = NoiseTable(law, _geometric_masses(GEOMETRIC_SCALE, UNIFORM_BITS))
    else:
        raise PolicyError(f"noise law must be one of {NOISE_LAWS}, not {law!r}")
    check_table(table)
    return table


def exp_of_minus_one_over(n: int) -> int:
    """exp(-1/n) in fixed point with ``_FIXED_BITS`` fractional bits, error below 2^-390, for n >= 1."""
    total, term, j = 0, _ONE, 0
    while term:
        total += term if j % 2 == 0 else -term
        j += 1
        term //= n * j
    return total


def _gaussian_masses(sigma: int, cut: int, bits: int) -> tuple[int, ...]:
    """h(0..cut) of the discrete Gaussian, p(x) proportional to exp(-x^2 / (2 sigma^2)), out of 2^bits.

    Weights are fixed point, by w(x+1) = w(x) r^(2x+1) with r = exp(-1/(2 sigma^2)).
    """
    r = exp_of_minus_one_over(2 * sigma * sigma)
    r2 = r * r >> _FIXED_BITS
    weights, step = [_ONE], r
    for _ in range(cut):
        weights.append(weights[-1] * step >> _FIXED_BITS)
        step = step * r2 >> _FIXED_BITS
    return _close(_concave(_rounded(weights, bits)), bits)


def _rounded(weights: list[int], bits: int) -> list[int]:
    """Weights normalised to total mass 2^bits over both sides, each rounded to the nearest integer."""
    norm = weights[0] + 2 * sum(weights[1:])
    return [((w << (bits + 1)) + norm) // (2 * norm) for w in weights]


def _concave(h: list[int]) -> list[int]:
    """Lower entries until h(x+1) h(x-1) <= h(x)^2 for x >= 1, ending before the first entry below 1."""
    out = [h[0], min(h[1], h[0])]
    for x in range(1, len(h) - 1):
        p = min(h[x + 1], out[x] * out[x] // out[x - 1])
        if p < 1:
            break
        out.append(p)
    return out


def _close(h: list[int], bits: int) -> tuple[int, ...]:
    """Put what is missing to 2^bits on h(0)."""
    return ((1 << bits) - 2 * sum(h[1:]), *h[1:])


def _geometric_masses(scale: int, bits: int) -> tuple[int, ...]:
    """h(0..C) of the two-sided geometric law, p(x) proportional to exp(-|x| / scale), out of 2^bits.

    Equality holds in T4 for the ideal law, so rounding alone breaks it everywhere and closing the sum on h(0) breaks
    it at x = 1.  h(1..) is therefore scaled by 1 + j/10^18 for j = 0, 1, -1, 2, -2, ... and the recursion repeated from
    h(1) on until the closed table satisfies T4 at 0 and 1 (the recursion gives the rest).
    """
    r = exp_of_minus_one_over(scale)
    weights = [_ONE]
    # Masses are below 1/2 from 2^bits exp(-x / scale) = 1 on; the recursion ends earlier.
    while weights[-1] >> (_FIXED_BITS - bits):
        weights.append(weights[-1] * r >> _FIXED_BITS)
    base = _rounded(weights, bits)
    for attempt in range(_RESCALE_TRIES):
        j = (attempt + 1) // 2 * (1 if attempt % 2 else -1)
        scaled = [base[0], *(p * (_RESCALE_UNIT + j) // _RESCALE_UNIT for p in base[1:])]
        half = _close(_concave(scaled), bits)
        if half[0] >= half[1] and half[1] * half[1] >= half[0] * half[2]:
            return half
    raise PolicyError("no rescaling of the geometric table is log-concave")


def inverse_cdf(table: NoiseTable, uniform: int) -> int:
    """z_b for a uniform of n bits: the unique z with F(z-1) <= U < F(z).  PolicyError if U is out of range."""
    return table.inverse(uniform)


def reflect(table: NoiseTable, uniform: int) -> tuple[int, int]:
    """Sign bit and folded uniform of the circuit: (0, U) for U >= 2^(n-1), else (1, 2^n - 1 - U).

    With z' = inverse_cdf(U') >= 0 the noise is (1 - 2 sign) z'.

    Raises:
        PolicyError: U is outside [0, 2^n).
    """
    if not 0 <= uniform < table.total:
        raise PolicyError(f"a uniform must lie in [0, 2^{table.bits})")
    return (0, uniform) if uniform >> (table.bits - 1) else (1, table.total - 1 - uniform)


def folded_rows(table: NoiseTable) -> tuple[tuple[int, int], ...]:
    """Rows (F(x-1), F(x)) of the circuit's constant noise table, x = 0..C."""
    return tuple((table.cdf(x - 1), table.cdf(x)) for x in range(table.cut + 1))


@lru_cache(maxsize=32)
def coarse_quantiles(table: NoiseTable, m: int) -> tuple[int, ...]:
    """Q(k), k = 0..2^m-1, non-decreasing: the table step reached by the largest U whose m coarse bits are k.

    Raises:
        PolicyError: m is not in 1..24.
    """
    if not 1 <= m <= 24:
        raise PolicyError(f"coarse bits must be in 1..24, not {m}")
    shift = table.bits - m
    return tuple(table.inverse(((k + 1) << shift) - 1) for k in range(1 << m))

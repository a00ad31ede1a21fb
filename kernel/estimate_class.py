# SPDX-License-Identifier: GPL-3.0-or-later
"""Phase C, the shape of circuits/estimate.circom: sizes, public inputs, what it proves of a block.  SPEC C."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ragseal.kernel.errors import PolicyError
from ragseal.kernel.estimate import Link

MAX_RECORDS = 256  #: of one block
RANGE_BITS = 16  #: every distance that the circuit proves to be none below zero


@dataclass(frozen=True)
class EstimateClass:
    """One size of circuits/estimate.circom: n records a block.  Its public inputs, in order, are those below."""

    name: str
    n: int  #: even: a full certificate joins two groups of n / 2

    def __post_init__(self) -> None:
        if not 2 <= self.n <= MAX_RECORDS or self.n % 2:
            raise PolicyError(f"estimate class {self.name!r}: a block has an even number of 2..{MAX_RECORDS} records")

    @property
    def pairs(self) -> int:
        return self.n * (self.n - 1) // 2

    @property
    def clear(self) -> int:
        """threshold, normLow, normHigh, r[n], present[n], sign[pairs]."""
        return 3 + 2 * self.n + self.pairs

    @property
    def hidden(self) -> int:
        """norm[n], product[pairs]: what C_G commits to."""
        return self.n + self.pairs

    @property
    def blind_at(self) -> int:
        """Index of the blinder among the public inputs."""
        return self.clear

    @property
    def products_at(self) -> int:
        """Index of the first norm."""
        return self.blind_at + 1

    @property
    def form_at(self) -> int:
        """Index of s."""
        return self.products_at + self.hidden

    @property
    def public(self) -> int:
        return self.form_at + 1

    @cached_property
    def order(self) -> tuple[Link, ...]:
        """Positions (a, b), a < b, of the pairs, by increasing a, then b."""
        return tuple(itertools.combinations(range(self.n), 2))


CLASSES = {cls.name: cls for cls in (EstimateClass("estimate-112", 112), EstimateClass("estimate-6", 6))}


def side(sign: int, threshold: int, product: int) -> int:
    """What the circuit proves to lie in [0, 2^16); sign 1: the pair is below the threshold, -1: a link, 0: free."""
    return sign * (threshold - product - 1) if sign >= 0 else product - threshold


def near_unit(present: int, low: int, high: int, norm: int) -> tuple[int, int]:
    """As :func:`side`: distances of a squared norm to both ends of what rounding allows; zeros without a record."""
    return present * (norm - low), present * (high - norm)


def quadratic_form(r: Sequence[int], norms: Sequence[int], products: Sequence[int]) -> int:
    """sum_a r_a^2 norm_a + 2 sum_{a<b} r_a r_b product_ab, not reduced."""
    crossed = sum(r[a] * r[b] * x for (a, b), x in zip(itertools.combinations(range(len(r)), 2), products, strict=True))
    return sum(x * x * norm for x, norm in zip(r, norms, strict=True)) + 2 * crossed

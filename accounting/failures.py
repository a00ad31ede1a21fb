# SPDX-License-Identifier: GPL-3.0-or-later
"""Named failures: what the refusals of n queries take from delta, under the claim every-list.  SPEC D.15, M.8.

A query that cannot be proven is refused, and a refusal tells something about scores.  ``docs/proofs/refusals.md`` says
why what stands here is enough and has no factor e^epsilon: a query is charged if the noise of the slots that the two
worlds have in common might let a refusal depend on the others.

Elements of coarse bits, and of a noise class's fine bits, are tested before a score is looked at: they cost nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from ragseal.kernel.classes import AttestationClass


@dataclass(frozen=True, slots=True)
class Failures:
    """Probabilities over all queries, upper bounds."""

    overflow: Fraction  #: more slots could win than there are places
    grid: Fraction  #: the threshold below the grid of theta

    @property
    def total(self) -> Fraction:
        return self.overflow + self.grid


def every_list(cls: AttestationClass, chunks: int, queries: int) -> Failures:
    """Under claim every-list, for a document of so many slots: n (a^chunks 2^-64 + g).

    Each probability is 1 at most; of a document of more slots than places nothing better is known.

    Raises:
        PolicyError: the class is of decoys, under which that claim bounds nothing.
    """
    return Failures(queries * cls.overflow_without(chunks), queries * cls.outside_grid(chunks))

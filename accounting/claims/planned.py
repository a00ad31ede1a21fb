# SPDX-License-Identifier: GPL-3.0-or-later
"""How a policy of a claim is chosen: what is traded for answers, what it costs, and how a plan of it reads.

Every number is the accountant's own, so that a plan and an audit cannot differ.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ragseal.accounting.delivered import Delivered
from ragseal.kernel.classes import AttestationClass

Row = Mapping[str, Any]  #: a point as `plan --json` prints it


@dataclass(frozen=True, slots=True)
class Wanted:
    """One policy, as far as its cost depends on it."""

    cls: AttestationClass
    lo: int
    hi: int
    gain: int
    n_max: int
    queries: int  #: that epsilon or its delta is spent on
    delta: Fraction
    hidden: int  #: j; 0 where there is no coin
    ids: int  #: K
    decoy_rate: int = 0  #: draws of a shard on average, times 2^16; 0 of a law with noise
    shards: int = 1


class Planned(ABC):
    """A claim that is planned on a corpus."""

    bound: str  #: what is traded for answers
    usual: float | None = None  #: its target where none is given; None: a share of the noise-free answers
    returned: Sequence[int] = ()  #: K where none is given, of laws whose classes have one of their own
    cheaper: str  #: what makes answers better at the same bound
    line: str  #: of a plot

    @abstractmethod
    def queries(self, n_max: int, k_max: int) -> int:
        """Those that epsilon, or its delta, is spent on."""

    def hidden(self, unseen: float | None) -> int:
        """j: the coin hides a document with probability j / 2^COIN_BITS; 0 where there is none."""
        return 0

    @abstractmethod
    def cost(self, wanted: Wanted) -> tuple[float, Delivered | None]:
        """Epsilon as an audit reports it, infinite where it would refuse the window; and unseen with its return.

        Raises:
            PolicyError: numbers out of range.
        """

    def pairs(self, n_max: Sequence[int], k_max: Sequence[int]) -> list[tuple[int, int]]:
        """Queries and accounts that are compared."""
        return [(n, k) for n in n_max for k in k_max]

    def reasons(self) -> list[str]:
        """What a plan says of the claim."""
        return []

    @abstractmethod
    def against(self, n_max: int, k_max: int, delta: Fraction) -> str:
        """Whom it holds against."""

    def policy_lines(self, unseen: float | None) -> str:
        """Of a policy file, what only this claim has."""
        return ""

    def described(self, unseen: float | None) -> str:
        """The same before a policy in one line."""
        return ""

    # --- rows ---

    @abstractmethod
    def accounts(self, row: Row) -> str:
        """Whom a row's policy holds against, in a cell."""

    @abstractmethod
    def label(self, n_max: int, k_max: int) -> str:
        """The same beside a line of the plot."""

    @abstractmethod
    def traded(self, row: Row) -> float:
        """What a row gives for its answers."""

    @abstractmethod
    def protects(self, row: Row) -> float:
        """Its epsilon."""

    @abstractmethod
    def headline(self, row: Row) -> str:
        """What a row's policy promises, in one sentence for the banner."""

    @abstractmethod
    def guess(self, row: Row) -> str:
        """How often somebody guesses right at most, from even odds, under a row's policy."""

    @abstractmethod
    def sentences(self, row: Row, which: str, quality: str) -> list[str]:
        """What is bounded, and how weak: two sentences.

        Args:
            which: the row is recommended, or the nearest one.
            quality: how good its answers are.
        """

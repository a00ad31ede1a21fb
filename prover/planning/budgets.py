# SPDX-License-Identifier: GPL-3.0-or-later
"""Whom a planned policy's guarantee holds against, and what it comes to by its claim.  SPEC Claims, D.11."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from ragseal.accounting.claims import planned
from ragseal.accounting.claims.planned import Planned, Wanted
from ragseal.accounting.claims.until_delivered import ACCOUNTS as ACCOUNTS
from ragseal.accounting.claims.until_delivered import RETURN as RETURN
from ragseal.accounting.delivered import Delivered
from ragseal.circuits.circuit import class_digest
from ragseal.kernel.claims import form_of
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.noise_class import NoiseClass
from ragseal.kernel.policy import EVERY_LIST, UNTIL_DELIVERED, Policy, max_gain

UNSEEN = 3.0  #: recommended: even odds become 95 to 5 at most, and 1 document in 20 is not found


@dataclass(frozen=True, slots=True)
class Terms:
    """What a policy says of scores and lists, in units of y."""

    lo: int
    hi: int
    gain: int
    ids: int  #: K
    decoy_rate: int = 0  #: draws of a shard on average, times 2^16; 0 of a law with noise
    shards: int = 1


@dataclass(frozen=True, slots=True)
class Budget:
    """``unseen`` is None under claim every-list, which holds against k_max accounts of n_max queries each."""

    n_max: int
    k_max: int
    delta: Fraction
    unseen: float | None = None  #: of claim until-delivered, at most; it holds against any accounts and queries

    @property
    def claim(self) -> str:
        return EVERY_LIST if self.unseen is None else UNTIL_DELIVERED

    @property
    def planned(self) -> Planned:
        return planned(self.claim)

    @property
    def hidden(self) -> int:
        """j: the coin hides a document with probability j / 2^COIN_BITS; 0 where there is none."""
        return self.planned.hidden(self.unseen)

    @property
    def queries(self) -> int:
        """That epsilon, or its delta, is spent on."""
        return self.planned.queries(self.n_max, self.k_max)

    def draft(self, cls: AttestationClass, dimension: int, terms: Terms) -> Policy:
        """A policy of this budget as a class checks it, by numbers that its times and its estimate do not enter."""
        return Policy(
            class_name=cls.name,
            class_digest=class_digest(cls),
            table_digest=cls.tables(terms.decoy_rate)[-1].digest(),
            dimension=dimension,
            claim=self.claim,
            hidden=self.hidden,
            lo=terms.lo,
            hi=terms.hi,
            gain=terms.gain,
            n_max=self.n_max,
            k_max=self.k_max,
            delta=str(self.delta),
            epsilon_account="1",
            theta="9/10",
            tau=1,
            gate=form_of(self.claim).counted,
            unit="slot",
            chunks_max=1,
            period_start=0,
            opens=0,
            closes=1,
            shards=terms.shards,
            ids=terms.ids,
            decoy_rate=terms.decoy_rate,
        )


@dataclass(frozen=True, slots=True)
class Cost:
    """What an audit of a policy reports."""

    epsilon: float  #: infinite where the auditor would refuse the window
    delivered: Delivered | None  #: under claim until-delivered, of which epsilon is unseen

    @property
    def bound(self) -> float:
        """What a dial trades against answers: the return under until-delivered, where nothing else moves; epsilon."""
        return self.epsilon if self.delivered is None or math.isinf(self.epsilon) else self.delivered.returned


def cost(cls: AttestationClass, terms: Terms, budget: Budget) -> Cost:
    """The cost of a policy with these terms.

    Raises:
        PolicyError: numbers out of range.
    """
    wanted = Wanted(
        cls=cls,
        lo=terms.lo,
        hi=terms.hi,
        gain=terms.gain,
        n_max=budget.n_max,
        queries=budget.queries,
        delta=budget.delta,
        hidden=budget.hidden,
        ids=terms.ids,
        decoy_rate=terms.decoy_rate,
        shards=terms.shards,
    )
    return Cost(*budget.planned.cost(wanted))


def least_gain(cls: NoiseClass, lo: int, hi: int) -> int:
    """The smallest gain whose shift is at least one table step."""
    return cls.widest(0) // (hi - lo) + 1


def most_gain(cls: NoiseClass, dimension: int, lo: int, hi: int) -> int:
    """The largest gain that a class with noise compares of a score window; 0 if none."""
    terms = Terms(lo, hi, least_gain(cls, lo, hi), cls.most_ids(1))
    return max_gain(Budget(1, 1, Fraction(1, 2)).draft(cls, dimension, terms), cls)

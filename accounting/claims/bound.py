# SPDX-License-Identifier: GPL-3.0-or-later
"""What a claim promises for some windows together, and all that a verdict must say of these numbers.  SPEC D.11, D.12.

The coalition that it holds against is a number of accounts, or any number of them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ragseal.accounting.audit import EpsilonReport
from ragseal.accounting.bands import band_of
from ragseal.accounting.guess import STRONG, best_guess
from ragseal.accounting.period import PeriodReport
from ragseal.accounting.rounding import for_people, per_cent_number
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.policy import Policy

Values = dict[str, Any]
Report = Mapping[str, Any]  #: report.json, as :mod:`ragseal.verifier.report.document` builds it
FORMULA = "(e^epsilon + delta) / (1 + e^epsilon): Kairouz, Oh, Viswanath 2015, theorem 2.1"


@dataclass(frozen=True, slots=True)
class Around:
    """What an auditor's log shows of a budget period beside the windows that its bound is of."""

    late: bool  #: documents were placed when the coins were known
    unopened: Sequence[Values]  #: windows that never opened and whose coins count
    unopened_outside: Sequence[Values]  #: those outside of the period
    throws_left_out: int  #: of coins, before the period


class Bound(ABC):
    """What a claim promises for some windows together."""

    @property
    def coalition(self) -> int | None:
        """The accounts that it holds against; None: any number of them."""
        return None

    @property
    def returned(self) -> float | None:
        """Nats, beside an epsilon that is unseen; None of claims without a return."""
        return None

    @property
    @abstractmethod
    def epsilon(self) -> float:
        """The claim's one number; infinite where none follows."""

    @property
    @abstractmethod
    def queries(self) -> int:
        """How many it is about: the coalition's, those of all accounts, or answers."""

    @property
    @abstractmethod
    def accountant(self) -> str:
        """Whose bound it is."""

    @property
    @abstractmethod
    def disagreement(self) -> str:
        """Which two routes of the arithmetic disagree; empty where all agree."""

    @property
    def boundless(self) -> str:
        """Why no finite epsilon follows, and what would help; empty where one does."""
        return "" if math.isfinite(self.epsilon) else "no finite epsilon follows: fewer queries, or a smaller gain"

    @property
    def every_list(self) -> PeriodReport | None:
        """What every list of a coalition tells, where that is what is bounded."""
        return None

    @property
    def confirmed(self) -> Sequence[tuple[str, AttestationClass, EpsilonReport]]:
        """By name what a second implementation can compute, too."""
        return ()

    @abstractmethod
    def evidence(self, delta: Fraction) -> Values:
        """What step 11 tells of its arithmetic."""

    @abstractmethod
    def details(self, around: Around) -> Values:
        """Members of the report's ``epsilon`` that only this claim has."""

    def line(self, around: Around) -> str:
        """Fields of the verdict's line that only this claim has, each behind a blank."""
        return ""

    @abstractmethod
    def conditions(self, policies: Sequence[Policy], late: bool) -> list[Values]:
        """One line a condition: what, whether it holds, and where that was checked.

        Those that steps 2 to 10 refuse a window for are true here.  None: it rests on the provider's word.
        """

    @abstractmethod
    def guess(self, account: float, delta: float, k_max: int) -> Values:
        """The attacker's best guess as report.json carries it.

        Args:
            account: epsilon of what the policy advertises to one account.
        """

    @abstractmethod
    def foreseen(self) -> Values:
        """The same for the provider before it commits."""


def require_agreement(found: Bound) -> None:
    """PolicyError: two computations of a bound disagree."""
    if found.disagreement:
        raise PolicyError(
            f"two computations of epsilon disagree ({found.disagreement}): no auditor would accept this policy; use "
            "another gain or delta, of decoys fewer ids or fewer slots of a document"
        )


def finite(epsilon: float) -> float | str:
    """As JSON has it."""
    return epsilon if math.isfinite(epsilon) else "inf"


def number(value: Any) -> str:
    """A bound for people."""
    return for_people(value, bound=True)


def best_guesses(
    account: float, delta: float, bound: Bound, accounts: int | None, said: str, **beside: float
) -> Values:
    """What :meth:`Bound.guess` says where an epsilon bounds the guess.

    Args:
        account: epsilon of what the policy advertises to one account.
        accounts: of the coalition, as the report names it.
        said: the guess in a sentence, to which a warning is added where the bound is a weak one.
        beside: further numbers, by name, which stand behind the coalition's.
    """
    if bound.epsilon > STRONG:
        said += f"; above epsilon {STRONG:g} such a bound hardly protects anybody"
    return {
        "account_per_cent": per_cent_number(right(account, delta)),
        "coalition_per_cent": per_cent_number(right(bound.epsilon, delta)),
        **beside,
        "account_band": band_of(account).name,
        "coalition_band": band_of(bound.epsilon).name,
        "coalition_accounts": accounts,
        "even_odds_per_cent": 50.0,
        "formula": FORMULA,
        "sentence": said,
    }


def right(epsilon: float, delta: float) -> float:
    """The best guess; 1 where no epsilon follows."""
    return best_guess(epsilon, delta) if math.isfinite(epsilon) else 1.0

# SPDX-License-Identifier: GPL-3.0-or-later
"""What answers may cost, in numbers that are public, and how many of them an account has had."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from ragseal.accounting.keyword_release import ReleaseCost, cost_for
from ragseal.kernel.errors import BudgetError, PolicyError
from ragseal.prover.answers.release import Range

LARGEST_ENSEMBLE = 1000


@dataclass(frozen=True, slots=True)
class AnswerPolicy:
    """(epsilon, delta) for all answers that k_max accounts with n_max questions each get in one period."""

    epsilon: float
    delta: Fraction
    n_max: int
    k_max: int
    documents: int  #: N, retrieved for a question
    ks: Range
    exact: bool = True  #: accounted by exact losses; else by the paper's Renyi bounds

    def __post_init__(self) -> None:
        if self.n_max < 1 or self.k_max < 1:
            raise PolicyError("a policy allows at least one question to at least one account")
        if not 1 <= self.documents <= LARGEST_ENSEMBLE:
            raise PolicyError(f"{self.documents} documents a question: between 1 and {LARGEST_ENSEMBLE}")

    def cost(self) -> ReleaseCost:
        """The least noise that keeps the promise.

        Raises:
            PolicyError: no noise does.
        """
        return cost_for(self.epsilon, self.delta, self.n_max * self.k_max, exact=self.exact)


class Budget:
    """How many answers each account has had.  May be used from many threads; what to keep is :meth:`spent`."""

    def __init__(self, n_max: int, spent: Mapping[str, int] | None = None) -> None:
        self._n_max = n_max
        self._spent = dict(spent or {})
        self._lock = threading.Lock()

    def spent(self) -> dict[str, int]:
        with self._lock:
            return dict(self._spent)

    def check(self, account: str) -> None:
        """
        Raises:
            BudgetError: the account has had n_max answers.
        """
        if self._spent.get(account, 0) >= self._n_max:
            raise BudgetError(f"{account} has had its {self._n_max} answers of this period: ask again in the next one")

    def spend(self, account: str) -> int:
        """Count one more answer; returns which one it is, from 1.

        Raises:
            BudgetError: as :meth:`check`; nothing is counted then.
        """
        with self._lock:
            self.check(account)
            self._spent[account] = self._spent.get(account, 0) + 1
            return self._spent[account]

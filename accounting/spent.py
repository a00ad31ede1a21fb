# SPDX-License-Identifier: GPL-3.0-or-later
"""A window's part of a budget period, as the accounting of every claim takes it.  SPEC D.11."""

from __future__ import annotations

from dataclasses import dataclass

from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.policy import Policy


@dataclass(frozen=True, slots=True)
class Spent:
    """One window of a budget period.  Each claim counts of it what its own numbers depend on."""

    window: str
    policy: Policy
    cls: AttestationClass  #: of its whole index
    queries: int  #: an account may have asked; 0 where it never opened, and only its coins count
    coins: bytes = b""  #: names the throw of its coins; windows that share one have the same
    accounts: int = 1  #: of its registry, or as many as asked
    answered: int = 0  #: records in the log

    @property
    def all_queries(self) -> int:
        """Of all accounts together."""
        return self.accounts * self.queries

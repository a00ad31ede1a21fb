# SPDX-License-Identifier: GPL-3.0-or-later
"""What an epsilon that was agreed to rests on, besides the policy: it may have changed by the time of the manifest.

Accounts and tenants come while a window is being committed.  More accounts ask more queries, which delta counts, and a
tenant that comes later takes a new throw of the coins: both would be more than what was agreed to.
"""

from __future__ import annotations

from dataclasses import dataclass

from ragseal.kernel.errors import CommitmentError


@dataclass(frozen=True, slots=True)
class Agreed:
    """Of one proposal."""

    accounts: int  #: that may ask in the window, at most
    coins: bytes  #: the manifest whose coins are carried on; b"" where the window throws its own, or has none

    def check_coins(self, coins: bytes) -> None:
        """Raises CommitmentError: it would throw coins, or carry on others than those that were counted."""
        if coins != self.coins:
            raise CommitmentError(
                "while this window was being committed it changed which coins it takes (a tenant came, documents got "
                "new slots, or another window was committed): nothing was committed; commit again to see what it "
                "comes to now"
            )

    def check_accounts(self, accounts: int) -> None:
        """Raises CommitmentError: more accounts may ask than were counted."""
        if accounts > self.accounts:
            raise CommitmentError(
                f"while this window was being committed accounts came: {accounts} may ask, where {self.accounts} were "
                "counted; nothing was committed; commit again to see what it comes to now"
            )

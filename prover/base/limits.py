# SPDX-License-Identifier: GPL-3.0-or-later
"""How much work an account may ask for that its budget of queries does not count.

n_max charges answers.  A Prepare that is never followed by its Retrieve, and a Retrieve that is not the account's next
query, cost the provider an embedding, a signature or the loading of a window, and would otherwise be free.  The buckets
are an account key's over all windows.  An account's next query takes nothing from any of them once it is
answered.
"""

from __future__ import annotations

from ragseal.kernel.errors import BudgetError

REPEATS, REPEATS_A_SECOND = 64, 8.0  #: an account's Retrieves that are no next query: at once, in the long run
UNWRITTEN, UNWRITTEN_A_SECOND = 4, 1 / 30  #: its next queries that the generator was asked for and that got no answer
#: Requests of all accounts that answers in words are written for, at most; further ones wait their turn.
WORDED_AT_ONCE = 64
RETRIEVES_AT_ONCE = 64  #: its Retrieves under way, those whose caller has gone too: they wait for each other
LINES, LINES_A_SECOND = 64, 8.0  #: its calls for its own line of a registry
LOADS, LOADS_A_SECOND = 4, 1 / 60  #: older windows that are loaded for it, because they are not in memory
PREPARES_A_QUERY, PREPARES_SPARE = 4, 16  #: Prepares of an account in a window: so many times n_max, and so many more


class Prepares:
    """Counts an account's Prepares of a window since this process was started."""

    def __init__(self) -> None:
        self._count: dict[tuple[bytes, str], int] = {}

    def charge(self, manifest: bytes, account: str, n_max: int) -> None:
        """Raises BudgetError when an account has prepared many times more queries than it may ask."""
        limit = PREPARES_A_QUERY * n_max + PREPARES_SPARE
        done = self._count.get((manifest, account), 0)
        if done >= limit:
            raise BudgetError(
                f"this account has sent {done} Prepares in this window, where it may ask {n_max} queries: finish those "
                "that are pending, or wait for the next window"
            )
        self._count[manifest, account] = done + 1

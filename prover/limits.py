# SPDX-License-Identifier: GPL-3.0-or-later
"""How much work an account may ask for that its budget of queries does not count.

n_max charges answers.  A Prepare that is never followed by its Retrieve, and an answer that is asked for again, cost
the provider an embedding or a signature and would otherwise be free.
"""

from __future__ import annotations

from ragseal.kernel.errors import BudgetError

REPEATS, REPEATS_A_SECOND = 64, 8.0  #: answers of old requests to an account: at once, in the long run
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

# SPDX-License-Identifier: GPL-3.0-or-later
"""A ledger that was restored from an older copy is not appended to.  SPEC G.6.2."""

from __future__ import annotations

from ragseal.kernel.errors import LedgerError
from ragseal.ledger.log import Log
from ragseal.prover.storage.state import State


def refuse_rollback(state: State, ledger: Log) -> None:
    """The ledger still holds the newest checkpoint that left this provider.

    The ledger's own comparison sees only its own folder: restored whole from a backup it looks sound, and appending
    to it would fork what others have seen.

    Raises:
        LedgerError: it does not.
    """
    known = state.checkpoint()
    if known is not None:
        size, note = known
        if size > ledger.size:
            raise LedgerError(
                f"the ledger has {ledger.size} entries, this provider has signed {size}: its folder was "
                "rolled back. Restore the newest one; serving this one would fork the log"
            )
        if ledger.checkpoint_at(size) != note:
            raise LedgerError(
                f"the ledger's first {size} entries are not those that this provider signed: restore the right ones"
            )
    if known != ledger.published():
        state.remember_checkpoint(*ledger.published())

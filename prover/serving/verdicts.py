# SPDX-License-Identifier: GPL-3.0-or-later
"""An auditor's verdict in the provider's own ledger, where accounts and observers look.  SPEC D.20.

The provider need not take any: the auditor's own log has every verdict, and no provider can keep one out of that.
"""

from __future__ import annotations

from ragseal.kernel.errors import CommitmentError
from ragseal.kernel.verdict import AuditVerdict
from ragseal.prover.storage.audit_verdicts import check_verdict
from ragseal.prover.storage.journal import Journal


class Verdicts:
    """Takes verdicts of the auditors that manifests name, and of nobody else."""

    def __init__(self, journal: Journal, taken: bool) -> None:
        """``taken``: False refuses all of them."""
        self._journal, self._taken = journal, taken

    async def submit(self, canonical: bytes) -> None:
        """Enter an :class:`AuditVerdict`; one that is in the ledger costs a look, whoever brings it.

        Raises:
            EncodingError: not one.
            AttestationError: not of the auditor that the window's manifest names, or about another log.
            CommitmentError: no such window, as many as it may have, or this provider takes none.
        """
        message = AuditVerdict.decode(canonical)
        history = self._journal.history
        window = history.window(message.manifest)
        known = message.auditor, message.digest
        if window.verdicts.get(known) == message:
            return
        check_verdict(message, window.manifest, window.verdicts, history.log)  # before it queues with those who ask
        if not self._taken:
            raise CommitmentError("this provider enters no verdicts in its ledger: the auditor's own log has this one")
        try:
            await self._journal.append(lambda: message)
        except CommitmentError:
            if window.verdicts.get(known) != message:  # else the same call came twice at once
                raise

# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose verdicts the ledger takes, and how many.  SPEC D.20."""

from __future__ import annotations

from collections.abc import Mapping

from ragseal.kernel.commitment import Manifest
from ragseal.kernel.errors import AttestationError, CommitmentError
from ragseal.kernel.verdict import MOST_VERDICTS, AuditVerdict


def check_verdict(
    message: AuditVerdict, manifest: Manifest, known: Mapping[tuple[bytes, bytes], AuditVerdict], log: bytes
) -> None:
    """Whether an auditor's verdict about a window may be entered, at whatever stage the window is.

    Args:
        manifest: the window's.
        known: its verdicts that the ledger holds, by auditor and digest of their envelopes.
        log: what names this log (:func:`ragseal.kernel.verdict.log_digest`).

    Raises:
        AttestationError: not of an auditor that the manifest names, not signed by it, or about another log.
        CommitmentError: its envelope is entered already, or the auditor has as many as it may have.
    """
    if manifest.auditor_of(message.auditor) is None:
        named = ", ".join(one.public_key.hex() for one in manifest.auditors)
        raise AttestationError(f"the manifest names {named}: no other auditor's signature enters this log")
    message.verify()
    if message.log != log:
        raise AttestationError("the auditor's signature is about a log with a different key than this one")
    if (message.auditor, message.digest) in known:
        raise CommitmentError("the verdict of that envelope is in the ledger already, in these words or in others")
    if sum(one.auditor == message.auditor for one in known.values()) >= MOST_VERDICTS:
        raise CommitmentError(
            f"the ledger holds {MOST_VERDICTS} verdicts of this auditor about this window, as many as it takes: the "
            "auditor's own log has all of them"
        )

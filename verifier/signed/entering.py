# SPDX-License-Identifier: GPL-3.0-or-later
"""A verdict, signed and in the auditor's own log before anybody has it: of audit and beacon alike.  SPEC D.19."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from ragseal.kernel.errors import AuditError, LedgerError
from ragseal.kernel.verdict import log_digest
from ragseal.ledger.note import NoteVerifier
from ragseal.ledger.turns import TurnError
from ragseal.verifier.outcome import FAIL, Verdict
from ragseal.verifier.report import document
from ragseal.verifier.signed.log import VerdictLog
from ragseal.verifier.signed.statement import signed_verdict
from ragseal.verifier.state import State

_TRIES = 3  #: until the log's key does not turn between naming and entering


def entered(state: State, log_key: NoteVerifier, verdict: Verdict, now: int) -> tuple[bytes, bytes, dict[str, Any]]:
    """Sign a verdict and enter it.

    Where the log of verdicts cannot be written the verdict is signed without it, and says so of itself; nothing else
    changes.

    Args:
        log_key: of the log that was audited.
        now: seconds since 1970.

    Returns:
        The envelope, the proof that it is entered (empty where it is not), and the report that it names.
    """

    audited = state.log_key(log_key)  # with its turns: the verdict's checkpoint is signed by the newest key

    def sign(verdicts: NoteVerifier | None) -> tuple[bytes, dict[str, Any]]:
        values = document.build(verdict)
        report = document.to_json(values)
        return signed_verdict(verdict, values, report, audited, now, state.identity, verdicts), values

    log = VerdictLog(state.directory, state.public_key)
    try:
        for _ in range(_TRIES):
            signed, values = sign(log.verifier())
            with suppress(TurnError):  # between the two lines: the verdict names the key that signs its proof
                return signed, log.enter(signed).proof.to_text(), values
        raise LedgerError("its key turns again and again: wait until nobody calls `verdict log rotate`")
    except (AuditError, OSError) as error:
        verdict.unkept.append(f"the verdict is not in this auditor's log of verdicts: {error}")
    signed, values = sign(None)
    return signed, b"", values


def enter_once(state: State, log_key: NoteVerifier, verdict: Verdict, now: int) -> None:
    """Enter a FAIL that was found outside of an audit, unless the log has a FAIL about the same already.

    Whoever takes part in a beacon looks at it every few seconds: one lie is one entry, also after a restart.

    Raises:
        ConfigurationError, LedgerError: it cannot be entered; nothing is.
        EncodingError: the log of verdicts holds what is none.
    """
    log = VerdictLog(state.directory, state.public_key)
    name = log.verifier()
    about = () if verdict.about is None else (verdict.about[1],)
    same = log_digest(log_key.vkey()), about, FAIL
    if any((entry.log, entry.manifest, entry.outcome) == same for entry in log.entries()):
        return
    values = document.build(verdict)
    report = document.to_json(values)
    audited = state.log_key(log_key)
    log.enter(signed_verdict(verdict, values, report, audited, now, state.identity, name))

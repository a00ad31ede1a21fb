# SPDX-License-Identifier: GPL-3.0-or-later
"""A verdict, signed and in the auditor's own log before anybody has it: of audit and beacon alike.  SPEC D.19."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from ragseal.kernel.errors import AuditError, LedgerError
from ragseal.kernel.verdict import log_digest
from ragseal.ledger.note import NoteVerifier
from ragseal.ledger.turns import TurnError
from ragseal.verifier.folder.state import State
from ragseal.verifier.outcome.outcome import FAIL, Verdict
from ragseal.verifier.report import document, page
from ragseal.verifier.report.document import SIGNED_NAME
from ragseal.verifier.signed.log import PROOF_NAME, VerdictLog
from ragseal.verifier.signed.statement import signed_verdict

_TRIES = 3  #: until the log's key does not turn between naming and entering


@dataclass(frozen=True, slots=True)
class Issued:
    """A signed verdict and the reports that it names."""

    signed: bytes  #: the envelope
    values: dict[str, Any]  #: report.json, plain
    reports: Mapping[str, bytes]  #: report.json and report.html, by name
    proof: bytes = b""  #: that the verdict is entered; empty where it is not

    def files(self) -> dict[str, bytes]:
        """What a folder of reports holds, by name.

        The signature covers both reports, and the proof names the signed file's digest.
        """
        return {**self.reports, SIGNED_NAME: self.signed, **({PROOF_NAME: self.proof} if self.proof else {})}


def reports_of(values: Mapping[str, Any]) -> dict[str, bytes]:
    """report.json and report.html of a report, by name."""
    return {document.JSON_NAME: document.to_json(values), document.PAGE_NAME: page.render(values).encode()}


def entered(state: State, log_key: NoteVerifier, verdict: Verdict) -> Issued:
    """Sign a verdict and enter it.

    Where the log of verdicts cannot be written the verdict is signed without it, and says so of itself; nothing else
    changes.

    Args:
        log_key: of the log that was audited.
    """

    audited = state.log_key(log_key)  # with its turns: the verdict's checkpoint is signed by the newest key

    def sign(verdicts: NoteVerifier | None) -> Issued:
        values = document.build(verdict)
        reports = reports_of(values)
        return Issued(signed_verdict(verdict, values, reports, audited, state.identity, verdicts), values, reports)

    log = VerdictLog(state.directory, state.public_key)
    try:
        for _ in range(_TRIES):
            made = sign(log.verifier())
            with suppress(TurnError):  # between the two lines: the verdict names the key that signs its proof
                return replace(made, proof=log.enter(made.signed).proof.to_text())
        raise LedgerError("its key turns again and again: wait until nobody calls `verdict log rotate`")
    except (AuditError, OSError) as error:
        verdict.unkept.append(f"the verdict is not in this auditor's log of verdicts: {error}")
    return sign(None)


def enter_once(state: State, log_key: NoteVerifier, verdict: Verdict) -> None:
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
    audited = state.log_key(log_key)
    log.enter(signed_verdict(verdict, values, reports_of(values), audited, state.identity, name))

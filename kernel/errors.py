# SPDX-License-Identifier: GPL-3.0-or-later
"""The one error tree.  Whatever goes wrong for a user is an :class:`AuditError` that names cause and way out."""

from __future__ import annotations

from ragseal.kernel.printable import printable


class AuditError(Exception):
    """Base of every error that a user of ragseal may see.

    Its text may quote what others sent or named, and goes to terminals, logs and reports: it is printable.
    """

    bundle: str = ""  #: name of the folder in which what was sent and received is kept, where there is one

    def __str__(self) -> str:
        return printable(super().__str__(), keep="\n")


class EncodingError(AuditError):
    """Bytes that are not the canonical encoding of what they claim to be (truncated, oversized, unknown field)."""


class PolicyError(AuditError):
    """A policy or circuit class that cannot give what it promises."""


class CommitmentError(AuditError):
    """Phase A: a manifest, index, seed, registry or beacon that does not hold."""


class AttestationError(AuditError):
    """Phase B: a request, record, answer or receipt that does not hold."""


class EstimateError(AuditError):
    """Phase C: an estimate of coalitions, its parameters or its certificate that does not hold."""


class ProofError(AuditError):
    """A Groth16 proof, a proof of opening, a key or a curve point that is refused."""


class LedgerError(AuditError):
    """The log: inclusion, consistency, checkpoint, storage; a fork or a shrinking log."""


class BudgetError(AuditError):
    """An account asks for more than n_max queries, a window for more than its policy allows, or a caller too often."""

    def __init__(self, *arguments: object, renews_at: int | None = None, retry_after_ms: int | None = None) -> None:
        """
        Args:
            renews_at: seconds since 1970 from when there may be a budget again, where that is known.
            retry_after_ms: milliseconds after which the same call may be taken, where only time is missing.
        """
        super().__init__(*arguments)
        self.renews_at, self.retry_after_ms = renews_at, retry_after_ms


class UnprovableError(AuditError):
    """A query that the circuit class cannot prove: a named completeness failure of SPEC M.8."""


class ConfigurationError(AuditError):
    """Files, keys, ports or settings of this process that are missing, contradictory or in use."""


class UnavailableError(ConfigurationError):
    """A tool, module, file or lock that this machine lacks now: what needs it cannot be done, and nothing is wrong."""


class TransportError(AuditError):
    """A peer that cannot be reached, or that answers with something that is no answer."""


class MismatchError(TransportError):
    """A peer that no call reaches however often it is made: TLS does not agree, or it does not offer the call."""

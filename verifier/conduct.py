# SPDX-License-Identifier: GPL-3.0-or-later
"""One audit from the auditor's folder to the written report; the command line and the service both conduct it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ragseal.circuits.build import class_digest, load_classes
from ragseal.circuits.estimate import estimate_digest
from ragseal.groth16.keys import Shape
from ragseal.kernel.certificate import CLASSES
from ragseal.kernel.errors import ConfigurationError
from ragseal.ledger.note import NoteVerifier
from ragseal.ledger.tls import BY_DEFAULT, ClientTls
from ragseal.verifier import page, report
from ragseal.verifier.blocks import Effort
from ragseal.verifier.evidence import ReceiptFile, read_receipt
from ragseal.verifier.remote import RemoteEvidence
from ragseal.verifier.sample import Sample
from ragseal.verifier.state import Classes, Sizes, State, find_class
from ragseal.verifier.verification import EFFORT, Surroundings, Verdict, audit

MAX_RECEIPT_BYTES = 1 << 26
RECEIPT_SUFFIXES = (".receipt", ".answer")


@dataclass(frozen=True, slots=True)
class Target:
    """A provider as the auditor knows it: where it serves, and the key of its log."""

    address: str
    log_key: NoteVerifier
    tls: ClientTls = BY_DEFAULT

    def connect(self) -> RemoteEvidence:
        return RemoteEvidence(self.address, self.tls)


def class_build() -> Classes:
    """The circuit classes of this installation with their digests."""
    return {name: (cls, class_digest(cls)) for name, cls in load_classes().items()}


def estimate_build() -> Sizes:
    """The sizes of the estimate's circuit of this installation with their digests."""
    return {name: (cls, estimate_digest(cls)) for name, cls in CLASSES.items()}


def find_shape(name: str) -> tuple[Shape, bytes]:
    """A circuit class or a size of the estimate's circuit.  Raises CommitmentError: names the classes there are."""
    if name in CLASSES:
        return CLASSES[name], estimate_digest(CLASSES[name])
    return find_class(class_build(), name)


def read_receipts(directory: Path) -> list[ReceiptFile]:
    """Every .receipt and .answer file below a folder.

    Raises:
        ConfigurationError: no such folder, no such file in it, or an unreadable one.
        EncodingError: a file that is no receipt.
    """
    if not directory.is_dir():
        raise ConfigurationError(f"{directory} is no folder")
    found = sorted(path for path in directory.rglob("*") if path.suffix in RECEIPT_SUFFIXES and path.is_file())
    if not found:
        raise ConfigurationError(f"{directory} holds no file that ends in {' or '.join(RECEIPT_SUFFIXES)}")
    receipts = []
    for path in found:
        try:
            if path.stat().st_size > MAX_RECEIPT_BYTES:
                raise ConfigurationError(f"{path} is too large for a receipt")
            receipts.append(read_receipt(str(path.relative_to(directory)), path.read_bytes()))
        except OSError as error:
            raise ConfigurationError(f"cannot read {path}: {error.strerror}") from None
    return receipts


def conduct(
    state: State,
    target: Target,
    around: Surroundings,
    *,
    window: str = "",
    sample: Sample | None = None,
    receipts: Sequence[ReceiptFile] = (),
    effort: Effort = EFFORT,
    since: int | None = None,
    out: Path | None = None,
) -> tuple[Verdict, dict[str, Any]]:
    """Audit a window, remember the log's checkpoint, and write report.json and report.html into ``out``.

    Raises:
        TransportError: the provider cannot be reached; there is no verdict.
        ConfigurationError: the auditor's own files.
        LedgerError: another process has meanwhile remembered a checkpoint that forks from this one.
    """
    auditor = replace(state.auditor(target.log_key, class_build(), estimate_build()), since=since)
    with target.connect() as evidence:
        verdict = audit(evidence, auditor, around, window=window, sample=sample, receipts=receipts, effort=effort)
    values = report.build(verdict)
    if out is not None:
        report.save(out, values, page.render(values))
    return verdict, values

# SPDX-License-Identifier: GPL-3.0-or-later
"""Kept receipts: listed, handed to an auditor, and checked without asking anyone.

An exported receipt is three files of canonical bytes: ``NAME.receipt``, ``NAME.record`` (the ledger entry it is for)
and ``WINDOW.manifest``.  They hold no query, text or slot.  The auditor's program takes the receipt as it is.
``*.turn-proof`` are turns of the log's key as this account was shown them: an auditor finds one that the log does not
hold.
``NAME.tlog-proof`` says of the record that it is in the log, as any tool for C2SP tlog-proof reads it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from ragseal.client.account import PROVIDER_FILE, TURN_PROOF, TURNS_FILE
from ragseal.client.attestation import check_receipt
from ragseal.client.folder import need, read, write
from ragseal.client.window import WINDOWS, WindowState, windows_of
from ragseal.kernel.attestation import Answer, Receipt, Record
from ragseal.kernel.commitment import SignedManifest
from ragseal.kernel.encoding import decode_any, guarded
from ragseal.kernel.errors import AttestationError, AuditError, CommitmentError, ConfigurationError, EncodingError
from ragseal.ledger.checkpoint import Checkpoint
from ragseal.ledger.note import NoteVerifier
from ragseal.ledger.receipt import InclusionBundle
from ragseal.runtime.edges.filesystem import why


@dataclass(frozen=True, slots=True)
class KeptReceipt:
    """One answered query."""

    window: WindowState
    ctr: int
    answer: Answer

    @property
    def label(self) -> str:
        """File name of the exported receipt, without its ending: auditors' reports show it, so it names nobody."""
        manifest = self.window.manifest
        return f"{_plain(manifest.window)}-{self.window.account.pseudonym}-{self.ctr:08d}"

    @property
    def question(self) -> str | None:
        """What was asked; None where the answer was fetched by its number, since the provider keeps no question.

        Likewise where a crash left the exchange under another name, which the next query puts right.
        """
        try:
            return self.window.exchange(self.ctr).prepare.query
        except ConfigurationError:
            return None


def kept(directory: Path, name: str | None = None) -> list[KeptReceipt]:
    """Every answered query of an account's folder, oldest first; reads only.

    Args:
        name: only of the window of this name; what is damaged in others is then not looked at.

    Raises:
        ConfigurationError: a damaged file.
    """
    return [
        KeptReceipt(window, ctr, window.answer(ctr))
        for window in windows_of(directory)
        if name is None or window.manifest.window == name
        for ctr in range(1, window.answered + 1)
    ]


def nothing_kept(directory: Path) -> str:
    """What is to be said of an account's folder that holds no receipt: that it never had one, or that it lost them.

    The provider's key is pinned once a window is kept, so a folder with the one and without the other has lost some.
    """
    if windows_of(directory) or not (directory / PROVIDER_FILE).exists():
        return "no receipts yet"
    return (
        f"no receipts are left: this account has used windows, and {directory / WINDOWS} holds none of them. Restore "
        "it from a copy; without one receipts and answers of those windows are lost, and questions go on with the next"
    )


def export(one: KeptReceipt, target: Path) -> Path:
    """Write a receipt with what its check needs into a folder; returns the receipt's path.

    Raises:
        ConfigurationError: the folder cannot be written.
    """
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"cannot make {target}: {why(error, target)}") from None
    receipt = target / f"{one.label}.receipt"
    write(target / f"{_plain(one.window.manifest.window)}.manifest", one.window.signed.encode())
    write(receipt.with_suffix(".record"), one.answer.record.encode())
    body = one.answer.receipt.body
    proof = InclusionBundle(body.index, one.answer.receipt.path, body.checkpoint)
    write(receipt.with_suffix(".tlog-proof"), proof.to_text())
    turns = read(one.window.folder.parents[1] / TURNS_FILE)
    if turns is not None:
        write(target / TURNS_FILE, turns)
    for shown in sorted(one.window.folder.parents[1].glob(f"*{TURN_PROOF}")):
        write(target / shown.name, need(shown))
    write(receipt, one.answer.receipt.encode())
    return receipt


@dataclass(frozen=True, slots=True)
class Checked:
    """What an offline check of a receipt has established."""

    record: Record
    receipt: Receipt
    checkpoint: Checkpoint
    manifest: SignedManifest


def check_file(path: Path, record: Path, manifest: Path, log: NoteVerifier, provider_key: bytes | None) -> Checked:
    """Check a receipt (or a kept answer) from files alone.

    Args:
        record: the ledger entry; ignored when ``path`` holds a whole answer.
        provider_key: the expected key; None takes the manifest's own, so that the log key alone is trusted.

    Raises:
        ConfigurationError: a file is missing.
        EncodingError: a file that is none of the expected kind.
        AttestationError, CommitmentError, LedgerError: what does not hold.
    """
    try:
        message = decode_any(need(path), (Receipt, Answer))
    except EncodingError as error:
        raise EncodingError(f"{path}: {error}") from None
    if isinstance(message, Answer):
        receipt, entry, openings = message.receipt, message.record, message.openings.digest()
    elif isinstance(message, Receipt):
        receipt, openings = message, None
        entry = guarded(lambda: Record.decode(need(record)), str(record))
    else:
        raise EncodingError(f"{path} holds no receipt")
    signed = guarded(lambda: SignedManifest.decode(need(manifest)), str(manifest))
    if provider_key is not None and signed.manifest.provider_key != provider_key:
        raise CommitmentError(f"{manifest} is signed by a provider key different from the expected one")
    try:
        signed.verify()
    except AuditError:
        raise CommitmentError(f"{manifest} is not signed by the provider key that it names") from None
    if entry.manifest != signed.manifest.digest():
        raise AttestationError(f"the record belongs to a window other than {manifest}")
    return Checked(entry, receipt, check_receipt(signed.manifest, log, entry, openings, receipt), signed)


def _plain(name: str) -> str:
    """A name as a file name: identifiers may hold slashes and dots.  Another name gives another file name."""
    safe = "".join(ch if ch.isalnum() or ch in "-_" else "_" for ch in name)
    return safe if safe == name else f"{safe}~{hashlib.sha256(name.encode()).hexdigest()[:12]}"

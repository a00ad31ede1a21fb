# SPDX-License-Identifier: GPL-3.0-or-later
"""Any canonical message as plain values, for people who look at evidence."""

from __future__ import annotations

from typing import Any

from ragseal.kernel import attestation, certificate, commitment, emptied, link_list, proofs, versions
from ragseal.kernel.encoding import Message, decode_any
from ragseal.kernel.errors import EncodingError
from ragseal.kernel.opening import Opening
from ragseal.kernel.policy import Policy
from ragseal.kernel.slot_text import Metadata, SlotText
from ragseal.kernel.verdict import VerdictEntry
from ragseal.ledger.probe.statement import ProbeStatement
from ragseal.ledger.receipt import InclusionBundle
from ragseal.verifier.report.document import plain

MAX_BYTES = 1 << 28

KINDS: tuple[type[Message], ...] = (
    *commitment.MESSAGES,
    commitment.Manifest,
    commitment.TenantIndex,
    commitment.Account,
    commitment.IndexFile,
    versions.UpdatedIndex,
    emptied.EmptiedFile,
    Policy,
    Opening,
    InclusionBundle,
    VerdictEntry,
    ProbeStatement,
    attestation.Prepare,
    attestation.Prepared,
    attestation.Request,
    attestation.SignedRequest,
    attestation.Record,
    attestation.SlotOpening,
    attestation.TextOpening,
    SlotText,
    Metadata,
    attestation.Openings,
    attestation.ReceiptBody,
    attestation.Receipt,
    attestation.Answer,
    proofs.ProofEntry,
    proofs.SameEmbeddingOpening,
    proofs.ProofBatch,
    link_list.SignedLinks,
    link_list.LinkList,
    link_list.TenantLinks,
    certificate.BlockProof,
    certificate.BlockBatch,
)

DIGESTED = (commitment.Manifest, commitment.TenantIndex, attestation.Request, attestation.Record, attestation.Receipt)


def decode(data: bytes) -> dict[str, Any]:
    """A message given as bytes or as hexadecimal text, by field; its digest beside it where it has one.

    Raises:
        EncodingError: no canonical message, or an oversized one.
    """
    if len(data) > MAX_BYTES:
        raise EncodingError(f"oversized: more than {MAX_BYTES} bytes")
    message = decode_any(_bytes(data), KINDS)
    values: dict[str, Any] = plain(message)
    if isinstance(message, commitment.SignedManifest):
        values["digest"] = message.manifest.digest().hex()
    elif isinstance(message, DIGESTED):
        values["digest"] = message.digest().hex()
    return values


def _bytes(data: bytes) -> bytes:
    """Hexadecimal text begins with the length of a tag in digits, which no tag's length byte can be taken for."""
    text = data.strip()
    if text and all(ch in b"0123456789abcdefABCDEF" for ch in text) and len(text) % 2 == 0:
        return bytes.fromhex(text.decode("ascii"))
    return data

# SPDX-License-Identifier: GPL-3.0-or-later
"""What an audit reads: the provider's evidence, an account's receipts, and the auditor's own configuration.

Nothing here decides anything.  Evidence is whatever the provider says, so every byte of it is checked by a step of
:mod:`ragseal.verifier.verification`; the configuration is the auditor's own, so it is believed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ragseal.kernel.attestation import Answer, Receipt
from ragseal.kernel.certificate import BlockKey
from ragseal.kernel.commitment import ScoreBases
from ragseal.kernel.encoding import decode_any
from ragseal.kernel.errors import AuditError, ConfigurationError, EncodingError
from ragseal.kernel.inquiry import Ask
from ragseal.kernel.params import CircuitClass
from ragseal.ledger.checkpoint import SignedCheckpoint
from ragseal.ledger.note import NoteVerifier

AUDITOR, CEREMONY, PROVIDER = "auditor", "ceremony", "provider"  #: who made a key
OWNER = "auditor"  #: the auditor's name in a beacon


class Refused(AuditError):
    """A check that does not hold, with the numbers that show it."""

    def __init__(self, message: str, **evidence: Any) -> None:
        super().__init__(message)
        self.evidence: dict[str, Any] = evidence


class Evidence(Protocol):
    """Where an audit gets the provider's side from: over gRPC, or in a test from memory.

    Raises:
        TransportError: the provider cannot be reached; there is no verdict then.
        AuditError: the provider refuses to deliver, or what it delivers is malformed: a FAIL of the step that asked.
    """

    def checkpoint(self) -> bytes:
        """The newest signed note of the log."""

    def entries(self, start: int, stop: int) -> Sequence[bytes]:
        """The log's entries [start, stop), all of them."""

    def manifest(self, window: str) -> bytes:
        """SignedManifest of a window; empty for the newest."""

    def index_file(self, manifest: bytes, tenant: str) -> bytes:
        """IndexFile of one tenant."""

    def deliver(self, ask: Ask, proof: bytes) -> bytes:
        """What comes for an ask that ``proof``, the auditor's signature, goes with: Delivery or Refusal if all is well.

        An ask is for the registry, proofs, links or blocks (:mod:`ragseal.kernel.inquiry`).
        """


class Key(Protocol):
    """What the checks ask of a verifying key (:class:`ragseal.groth16.keys.KeyView` is one)."""

    @property
    def digest(self) -> bytes: ...

    @property
    def scores(self) -> ScoreBases: ...

    @property
    def hints(self) -> bytes: ...

    @property
    def sum_y(self) -> bytes: ...

    def verify(self, clear: Sequence[int], c_w: bytes, c_h: bytes, proof: bytes) -> None: ...

    def verify_batch(self, items: Sequence[tuple[Sequence[int], bytes, bytes, bytes]]) -> None: ...


@dataclass(frozen=True, slots=True)
class ConfiguredKey:
    """A verifying key of the auditor's own configuration and where it comes from."""

    digest: bytes
    class_name: str
    class_digest: bytes  #: of the class the key was made for
    made_by: str  #: AUDITOR, CEREMONY or PROVIDER
    load: Callable[[], Key] = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class ConfiguredEstimate:
    """A verifying key of the estimate's circuit, as :class:`ConfiguredKey`."""

    digest: bytes
    class_name: str  #: one of :data:`ragseal.kernel.certificate.CLASSES`
    made_by: str
    load: Callable[[], BlockKey] = field(repr=False, compare=False)


def newest_links(manifest: bytes, signed: bytes) -> bytes:
    """Remembers no list of links: whoever may sign a second one is told which blocks it must fit."""
    return signed


def mute(ask: Ask) -> bytes:
    """Of an auditor without its private key: it can ask for nothing that only it is given."""
    raise ConfigurationError("this auditor's identity cannot sign: registry, proofs and links are given to it alone")


def forgetful(seen: SignedCheckpoint, manifest: bytes, fresh: bytes) -> bytes:
    """Takes the fresh nonce and keeps nothing: whoever may break off an audit and be asked again chooses its sample."""
    return fresh


@dataclass(frozen=True, slots=True)
class Auditor:
    """Everything an audit believes without evidence."""

    log_key: NoteVerifier
    classes: Mapping[str, tuple[CircuitClass, bytes]]  #: own class build: name -> class, digest
    keys: Mapping[bytes, ConfiguredKey]  #: by key digest
    identity: bytes  #: own public key in the beacon
    nonces: Mapping[bytes, bytes]  #: own beacon nonces by manifest digest
    beacons: Mapping[bytes, int]  #: by manifest digest, the only beacon that the nonce was released for
    drawn: Mapping[bytes, int]  #: by manifest digest, when the nonce was drawn (own clock, seconds since 1970)
    remembered: SignedCheckpoint | None = None  #: the newest checkpoint seen of this log
    #: (checkpoint just seen, manifest digest, fresh bytes) -> the nonce of all samples of that window; an auditor with
    #: a memory keeps both before a proof is asked for (:meth:`ragseal.verifier.state.State.sample_nonce`)
    sample_nonce: Callable[[SignedCheckpoint, bytes, bytes], bytes] = forgetful
    #: takes a checkpoint once it is found consistent, before anything else is asked: breaking off does not undo it
    remember: Callable[[SignedCheckpoint], None] = lambda seen: None
    estimates: Sequence[ConfiguredEstimate] = ()  #: keys of the estimate's circuit
    #: (manifest digest, SignedLinks) -> the list that this auditor saw first, on disk before this returns
    first_links: Callable[[bytes, bytes], bytes] = newest_links
    sign: Callable[[Ask], bytes] = mute  #: an ask -> the signature of this auditor's identity
    since: int | None = None  #: the period begins no later than this (seconds since 1970), whatever the policy says


@dataclass(frozen=True, slots=True)
class ReceiptFile:
    """A receipt handed in by an account; with the whole answer where the account shows it."""

    name: str
    receipt: Receipt
    answer: Answer | None = None


def read_receipt(name: str, data: bytes) -> ReceiptFile:
    """A receipt file holds one canonical Receipt or Answer.

    Raises:
        EncodingError: it holds neither.
    """
    try:
        message = decode_any(data, (Receipt, Answer))
    except AuditError as error:
        raise EncodingError(f"receipt file {name}: {error}; give the files that ragseal-client keeps") from None
    if isinstance(message, Answer):
        return ReceiptFile(name, message.receipt, message)
    assert isinstance(message, Receipt)
    return ReceiptFile(name, message)

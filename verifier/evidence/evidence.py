# SPDX-License-Identifier: GPL-3.0-or-later
"""What an audit reads: the provider's evidence, an account's receipts, and the auditor's own configuration.

Nothing here decides anything.  Evidence is whatever the provider says, so every byte of it is checked by a step of
:mod:`ragseal.verifier.audit.verification`; the configuration is the auditor's own, so it is believed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from ragseal.kernel.attestation import Answer, Receipt
from ragseal.kernel.certificate import BlockKey
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.commitment import ScoreBases, SignedManifest
from ragseal.kernel.committed import CommittedBases
from ragseal.kernel.encoding import Message, decode_any
from ragseal.kernel.errors import AuditError, ConfigurationError, EncodingError, TransportError
from ragseal.kernel.inquiry import Ask
from ragseal.kernel.thinning_class import ThinningKey
from ragseal.ledger.checkpoint import SignedCheckpoint
from ragseal.ledger.note import NoteVerifier
from ragseal.ledger.policy import Policy
from ragseal.ledger.probe.statement import ProbeStatement
from ragseal.ledger.turns import LogKey, TurnProof

AUDITOR, CEREMONY, PROVIDER, UNKNOWN = "auditor", "ceremony", "provider", "unknown"  #: who made a key


def of_auditor(public_key: bytes) -> str:
    """Who made a key, where that is another auditor than this one."""
    return f"{AUDITOR}:{public_key.hex()}"


def is_anothers(made_by: str) -> bool:
    """Whether another auditor made a key."""
    return made_by.startswith(of_auditor(b""))


def binds(made_by: str) -> bool:
    """Whether a key binds the provider: this auditor's own, a ceremony's, or another auditor's that it relies on."""
    return made_by in (AUDITOR, CEREMONY) or is_anothers(made_by)


# Ways out of a missing verdict.
DELIVER_AGAIN = (
    "nobody signed what was delivered, so it says nothing about the provider: audit again, over TLS or another network"
)
ASK_AGAIN = "audit again later; if it stays so, ask whoever runs the provider"
OTHER_LOG = (
    "check --log-key and --provider: the key is what `ragseal-provider init` printed as ledger key; if both are right, "
    "somebody between may have changed the note: audit again, over TLS or another network"
)
OWN_FOLDER = "restore the auditor's folder from a backup; without it this window cannot be audited here"
OWN_BUILD = "audit with the version of ragseal that the window was made for, or ask the provider which one that is"
OWN_CLOCK = "set this machine's clock right and audit again"
ELSEWHERE = (
    "let an auditor that had a part in the beacon audit the window; or, if you trust one of them not to have let it be "
    "chosen, name its key with --beacon-of"
)
OWN_MISTAKE = "check this installation: the auditor's own arithmetic or files do not hold"


class Refused(AuditError):
    """What the provider signed does not hold: the only error that is a FAIL.  Carries what shows it.

    Raise it for bytes that nobody but the provider could have made: entries under a signed checkpoint, a manifest, a
    receipt's body, a signed delivery or refusal.  Whatever somebody else could have sent, and whatever rests on the
    auditor's own files, clock or build, is :class:`Undecided`.
    """

    def __init__(self, message: str, **evidence: Any) -> None:
        super().__init__(message)
        self.evidence: dict[str, Any] = evidence


class Undecided(AuditError):
    """No verdict follows: nobody's signature shows who is at fault.  Says what would lead to one."""

    def __init__(self, message: str, way_out: str, **evidence: Any) -> None:
        super().__init__(message)
        self.way_out = way_out
        self.evidence: dict[str, Any] = evidence


@contextmanager
def held(context: str = "", **evidence: Any) -> Iterator[None]:
    """Inside, bytes are checked that the provider signed: what does not hold there is a :class:`Refused`.

    What ends without a verdict (a peer that is away, own files, :class:`Undecided`) passes as it is.
    """
    try:
        yield
    except (TransportError, ConfigurationError, Undecided):
        raise
    except Refused as error:
        raise Refused(f"{context}{error}", **{**evidence, **error.evidence}) from None
    except AuditError as error:
        raise Refused(f"{context}{error}", **evidence) from None


M = TypeVar("M", bound=Message)


def decoded(kind: type[M], data: bytes, whose: str, **evidence: Any) -> M:
    """What was delivered, as a message; Undecided: it is none, and nobody signed these bytes."""
    try:
        return kind.decode(data)
    except EncodingError as error:
        raise Undecided(f"{whose}{error}", DELIVER_AGAIN, **evidence) from None


T = TypeVar("T")


class Evidence(Protocol):
    """Where an audit gets the provider's side from: over gRPC, or in a test from memory.

    Raises:
        TransportError: the provider cannot be reached, or was busy for longer than the auditor waits.
        Undecided: it answers with an error that it did not sign, or with more than is read.
    """

    def checkpoint(self) -> bytes:
        """The newest signed note of the log."""

    def cosigned(self) -> bytes | None:
        """The newest note that is served as witnessed; None without one.  Asked for under a witness policy only."""

    def entries(self, start: int, stop: int) -> Sequence[bytes]:
        """The log's entries [start, stop), all of them."""

    def manifest(self, window: str) -> bytes:
        """SignedManifest of a window; empty for the newest."""

    def index_file(self, manifest: bytes, tenant: str) -> bytes:
        """IndexFile of one tenant."""

    def thinned_file(self, manifest: bytes, tenant: str) -> bytes:
        """ThinnedFile of one tenant of a window whose claim has a coin."""

    def version_file(self, manifest: bytes, number: int, tenant: str) -> bytes:
        """What an update of a window names for one tenant: IndexFile, or EmptiedFile where the claim has a coin."""

    def deliver(self, ask: Ask, proof: bytes) -> bytes:
        """What comes for an ask that ``proof``, the auditor's signature, goes with: Delivery or Refusal if all is well.

        An ask is for the registry, proofs, links or blocks (:mod:`ragseal.kernel.inquiry`).  Asked once: an ask grows
        old, so it is repeated with a new one, by :meth:`patiently`.
        """

    def patiently(self, once: Callable[[], T]) -> T:
        """``once``, again while it raises TransportError or BudgetError and there is patience left."""


class ColumnKey(Protocol):
    """What the checks ask of a key under whose points columns lie."""

    @property
    def digest(self) -> bytes: ...

    @property
    def scores(self) -> ScoreBases: ...


class Key(Protocol):
    """What the checks ask of a verifying key (:class:`ragseal.groth16.keys.KeyView` is one)."""

    @property
    def digest(self) -> bytes: ...

    @property
    def scores(self) -> ScoreBases: ...

    @property
    def committed(self) -> CommittedBases: ...

    @property
    def sum_y(self) -> bytes: ...

    def verify(self, clear: Sequence[int], c_w: bytes, committed: bytes, proof: bytes) -> None: ...

    def verify_batch(self, items: Sequence[tuple[Sequence[int], bytes, bytes, bytes]]) -> None: ...


K_co = TypeVar("K_co", covariant=True)


@dataclass(frozen=True, slots=True)
class ConfiguredKey(Generic[K_co]):
    """A verifying key of the auditor's own configuration, of any circuit, and where it comes from."""

    digest: bytes
    class_name: str
    class_digest: bytes  #: of the class the key was made for
    made_by: str  #: AUDITOR, CEREMONY or PROVIDER
    load: Callable[[], K_co] = field(repr=False, compare=False)
    participants: tuple[str, ...] = ()  #: of a ceremony: the parties whom this auditor knows

    @property
    def origin(self) -> dict[str, Any]:
        """What a step says of where the key comes from."""
        known = {"participants": self.participants} if self.made_by == CEREMONY else {}
        return {"made_by": self.made_by, **known}


def newest_links(manifest: bytes, signed: bytes) -> bytes:
    """Remembers no list of links: whoever may sign a second one is told which blocks it must fit."""
    return signed


def mute(ask: Ask) -> bytes:
    """Of an auditor without its private key: it can ask for nothing that only it is given."""
    raise ConfigurationError("this auditor's identity cannot sign: registry, proofs and links are given to it alone")


def newest_note(seen: Any) -> SignedCheckpoint:
    """Of an auditor without a memory: whatever it saw last is the newest that it knows."""
    note: SignedCheckpoint = seen.signed
    return note


def forgetful(seen: Any, manifest: bytes, fresh: bytes) -> bytes:
    """Takes the fresh nonce and keeps nothing: whoever may break off an audit and be asked again chooses its sample."""
    return fresh


@dataclass(frozen=True, slots=True)
class Auditor:
    """Everything an audit believes without evidence."""

    log_key: NoteVerifier
    classes: Mapping[str, tuple[AttestationClass, bytes]]  #: own class build: name -> class, digest
    keys: Mapping[bytes, ConfiguredKey[Key]]  #: by key digest
    identity: bytes  #: own public key in the beacon
    nonces: Mapping[bytes, bytes]  #: own beacon nonces by manifest digest
    released: Mapping[bytes, bytes]  #: by manifest digest, what the nonce was released for (:func:`seal_digest`)
    drawn: Mapping[bytes, int]  #: by manifest digest, when the nonce was drawn (own clock, seconds since 1970)
    remembered: SignedCheckpoint | None = None  #: the newest checkpoint seen of this log
    #: (log just read, manifest digest, fresh bytes) -> the nonce of all samples of that window in this log; an
    #: auditor with a memory keeps both before a proof is asked for
    #: (:meth:`ragseal.verifier.folder.state.State.sample_nonce`)
    sample_nonce: Callable[[Any, bytes, bytes], bytes] = forgetful
    #: keeps a log's checkpoint before anything else is asked, so that breaking off does not undo it -> what is kept: a
    #: larger one if another process has seen that (:meth:`ragseal.verifier.folder.state.State.remember`)
    remember: Callable[[Any], SignedCheckpoint] = newest_note
    keep_turns: Callable[[LogKey], None] = lambda key: (
        None
    )  #: keeps the turns of the log's key before they are believed
    estimates: Sequence[ConfiguredKey[BlockKey]] = ()  #: keys of the estimate's circuit
    thinnings: Mapping[bytes, ConfiguredKey[ThinningKey]] = field(default_factory=dict)  #: by key digest
    #: (manifest digest, SignedLinks) -> the list that this auditor saw first, on disk before this returns
    first_links: Callable[[bytes, bytes], bytes] = newest_links
    sign: Callable[[Ask], bytes] = mute  #: an ask -> the signature of this auditor's identity
    #: (log, other windows of the period as (name, manifest digest), the audited manifest's) -> what is known of them
    neighbours: Callable[[Any, Sequence[tuple[str, bytes]], bytes], Sequence[Any]] = lambda log, windows, audited: ()
    relies_on: bytes | None = None  #: key of an auditor whose part in a beacon counts where this one had none
    since: int | None = None  #: the period begins no later than this (seconds since 1970), whatever the policy says
    witness_policy: Policy | None = None  #: whose quorum has to have cosigned the log up to the window's close


NO_MANIFESTS: Mapping[bytes, SignedManifest] = {}


@dataclass(frozen=True, slots=True)
class ReceiptFile:
    """A receipt handed in by an account; with the whole answer where the account shows it."""

    name: str
    receipt: Receipt
    answer: Answer | None = None
    #: that were handed in beside it, by their digests
    manifests: Mapping[bytes, SignedManifest] = field(default_factory=dict, hash=False)
    probe: ProbeFile | None = None  #: the statement that holds it


@dataclass(frozen=True, slots=True)
class ProbeFile:
    """An observer's statement of its probe (SPEC D.13)."""

    name: str
    statement: ProbeStatement = field(repr=False, compare=False)

    def answer_name(self, number: int) -> str:
        """What one of its answers is called among the files that were handed in."""
        return f"{self.name}#{number}"

    def receipts(self) -> list[ReceiptFile]:
        """Its answers: each is evidence like a file of its account's, whoever signed the statement."""
        answers = self.statement.answers
        named = [(self.answer_name(number), one.answer) for number, one in enumerate(answers)]
        return [ReceiptFile(name, answer.receipt, answer, probe=self) for name, answer in named]


@dataclass(frozen=True, slots=True)
class TurnFile:
    """A turn of the log's key as an account was shown it."""

    name: str
    proof: TurnProof


def read_receipt(name: str, data: bytes, manifests: Mapping[bytes, SignedManifest] = NO_MANIFESTS) -> ReceiptFile:
    """A receipt file holds one canonical Receipt or Answer.

    Args:
        manifests: that were handed in beside it, by their digests.

    Raises:
        EncodingError: it holds neither.
    """
    try:
        message = decode_any(data, (Receipt, Answer))
    except AuditError as error:
        raise EncodingError(f"receipt file {name}: {error}; give the files that ragseal-client keeps") from None
    if isinstance(message, Answer):
        return ReceiptFile(name, message.receipt, message, manifests)
    assert isinstance(message, Receipt)
    return ReceiptFile(name, message, None, manifests)

# SPDX-License-Identifier: GPL-3.0-or-later
"""The auditor's own log of verdicts: every verdict stands in it before it is handed out.  SPEC D.19.

It is a log as a provider's is, with a key of its own, so whoever follows it sees that no verdict is taken back: neither
a FAIL nor the NO VERDICT that nobody asked about again.

    verdict-log/                          the log (:mod:`ragseal.ledger.shared`), of all processes of this folder
    verdict-log/envelopes/<digest>.jsonl  the signed verdicts themselves (0600)

Public is what an entry holds: whose verdict, about which log, window and manifest, its word, its claim and its time.
All of that but the audit itself stands in the provider's public log anyway.  The envelopes stay with the auditor, who
hands them on: their steps may quote what only the auditor was given, links between accounts among it (SPEC G.8.8).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ragseal.kernel.errors import AttestationError, ConfigurationError, EncodingError, LedgerError
from ragseal.kernel.rotation import Rotation
from ragseal.kernel.signature import SigningKey
from ragseal.kernel.verdict import AuditVerdict, VerdictEntry, log_digest
from ragseal.ledger.note import NoteVerifier
from ragseal.ledger.receipt import InclusionBundle
from ragseal.ledger.shared import PATIENCE, CopySource, LiveCopy, LogCopy, SharedLog
from ragseal.ledger.turns import LogKey, is_turn
from ragseal.runtime.durable import write_durably
from ragseal.runtime.edges.filesystem import why
from ragseal.verifier.signed.statement import SignedVerdict, manifest_of, read_turns, read_verdict

FOLDER, ENVELOPES = "verdict-log", "envelopes"
PROOF_NAME = "verdict.tlog-proof"  #: of the inclusion, beside the signed verdict
_NAME = "ragseal-verdicts/"
_TIME = "%Y-%m-%dT%H:%M:%SZ"  #: one form, in UTC: text without a zone is another time to each reader


def origin_of(auditor: bytes) -> str:
    """The name of an auditor's log: it holds the auditor's key, so nobody else's log passes for it."""
    return _NAME + auditor.hex()


def entry_of(data: bytes, found: SignedVerdict) -> VerdictEntry:
    """What the auditor's log has of a signed verdict: all of it follows from the envelope.

    Args:
        data: the envelope's bytes.
        found: the same, read.

    Raises:
        EncodingError: its time, its epsilon or its names are not what this program would have signed.
    """
    said = found.predicate
    outcome = str(said["verdict"]).replace(" ", "-")
    try:
        time = int(datetime.strptime(said["issued"], _TIME).replace(tzinfo=UTC).timestamp())
        entry = VerdictEntry(
            auditor=found.auditor,
            digest=hashlib.sha256(data).digest(),
            log=log_digest(said["log"]["key"]),
            origin=said["log"]["origin"],
            window=said["window"] or "",
            manifest=() if (manifest := manifest_of(found)) is None else (manifest,),
            outcome=outcome,
            claimed=found.claims,
            time=time,
        )
        return VerdictEntry.decode(entry.encode())
    except (ValueError, TypeError, OverflowError) as error:
        raise EncodingError(f"the signed verdict cannot stand in a log: {error}") from None


def verdict_for_the_ledger(data: bytes, found: SignedVerdict, key: SigningKey) -> AuditVerdict:
    """What a provider may enter in the log that was audited, under the auditor's signature.  SPEC D.20.

    Args:
        data: the envelope's bytes.
        found: the same, read.
        key: the auditor's identity.

    Raises:
        ConfigurationError: the verdict is about no manifest.
        EncodingError: as :func:`entry_of`.
    """
    entry = entry_of(data, found)
    if not entry.manifest:
        raise ConfigurationError("this verdict is about no manifest that was found in the log: no ledger can hold it")
    (manifest,) = entry.manifest
    made = AuditVerdict(
        manifest=manifest,
        log=entry.log,
        auditor=entry.auditor,
        digest=entry.digest,
        outcome=entry.outcome,
        claimed=entry.claimed,
        signature=bytes(64),
    )
    return made.signed(key)


@dataclass(frozen=True, slots=True)
class Entered:
    """A verdict in the auditor's log."""

    entry: VerdictEntry
    proof: InclusionBundle


class VerdictLog:
    """The log of verdicts of an auditor's folder; any process, any thread."""

    def __init__(self, state: Path, auditor: bytes, patience: float = PATIENCE) -> None:
        """``state``: the auditor's folder; ``auditor``: its public key.  Touches nothing."""
        self._directory, self._auditor = state / FOLDER, auditor
        self.shared = SharedLog(self._directory, origin_of(auditor), patience)

    def verifier(self) -> NoteVerifier:
        """The log's public key; the log is made if there is none.

        Raises:
            ConfigurationError, LedgerError: it cannot be made or read.
        """
        return self.shared.verifier()

    def enter(self, data: bytes) -> Entered:
        """Keep a signed verdict and enter it: both durable on return.

        Raises:
            TurnError: the log's key has turned since the verdict named it; nothing is entered.
            AttestationError, EncodingError: not a verdict of this auditor.
            ConfigurationError, LedgerError: the disk refuses, or another process has the log for too long.
        """
        found = read_verdict(data, self._auditor)
        entry, named = entry_of(data, found), named_log(found)
        self.shared.verifier()  # made, if it has to be
        path = self._envelope(entry.digest)
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            write_durably(path, data, mode=0o600)
        except OSError as error:
            raise ConfigurationError(f"cannot keep {path}: {why(error, path)}") from None
        encoded = entry.encode()
        return Entered(entry, self.shared.append(lambda index: encoded, named).bundle)

    def rotate(self, overlap: int) -> LogKey:
        """Sign the log with a new key from here on.  Raises as :meth:`ragseal.ledger.shared.SharedLog.rotate`."""
        return self.shared.rotate(overlap)

    def copy(self) -> LogCopy:
        """The log as it stands.  Raises ConfigurationError, LedgerError: it cannot be read."""
        return self.shared.copy()

    def live(self) -> LiveCopy:
        """The log as readers are served it.  Raises as :meth:`copy`."""
        return LiveCopy(self.shared)

    def source(self) -> CopySource:
        """The log as an exporter reads it.  Raises as :meth:`copy`."""
        return CopySource(self.copy())

    def entries(self) -> list[VerdictEntry]:
        """Every verdict, in order.  Raises as :meth:`copy`; EncodingError: an entry is neither that nor a turn."""
        return list(verdicts_of(self.copy()).values())

    def envelope(self, index: int) -> bytes:
        """The signed verdict of an entry, counting from 0.

        Raises:
            LedgerError: no such entry, or a turn of the log's key.
            ConfigurationError: as :meth:`envelope_of`.
        """
        return self.envelope_of(verdict_in(self.copy(), index))

    def envelope_of(self, entry: VerdictEntry) -> bytes:
        """The signed verdict of an entry.

        Raises:
            ConfigurationError: the envelope is gone or is not the one that was entered.
        """
        path = self._envelope(entry.digest)
        try:
            data = path.read_bytes()
        except OSError as error:
            raise ConfigurationError(f"cannot read {path}: {why(error, path)}") from None
        if hashlib.sha256(data).digest() != entry.digest:
            raise ConfigurationError(f"{path} is damaged: its digest is not the one that was entered")
        return data

    def proof(self, index: int) -> InclusionBundle:
        """That an entry is in the log as it stands now.  Raises LedgerError: no such entry."""
        return proof_in(self.copy(), index)

    def _envelope(self, digest: bytes) -> Path:
        return self._directory / ENVELOPES / f"{digest.hex()}.jsonl"


def verdicts_of(copy: LogCopy) -> dict[int, VerdictEntry]:
    """Every verdict of a copy by its index, in order; turns of the log's key are left out.

    Raises:
        EncodingError: an entry is neither a verdict nor a turn.
    """
    return {index: VerdictEntry.decode(one) for index, one in enumerate(copy.all) if not is_turn(one)}


def turns_of(copy: LogCopy) -> dict[int, Rotation]:
    """Every turn of the log's key by its index."""
    return {turn.index: turn for turn in LogKey.of(copy.verifier).turns}


def verdict_in(copy: LogCopy, index: int) -> VerdictEntry:
    """An entry.  Raises LedgerError: no such entry, or a turn of the log's key."""
    found, size = verdicts_of(copy), len(copy.all)
    if not 0 <= index < size:
        raise LedgerError(f"there is no entry {index}: the log of verdicts has {size}")
    if index not in found:
        raise LedgerError(f"entry {index} of the log of verdicts turns the log's key: it is not a verdict")
    return found[index]


def proof_in(copy: LogCopy, index: int) -> InclusionBundle:
    """That a verdict is in a copy of the log, or was up to the next turn of its key: it names the turns before it.

    Raises:
        LedgerError: as :func:`verdict_in`.
    """
    verdict_in(copy, index)
    size = min([len(copy.all), *(turn for turn in turns_of(copy) if turn > index)])
    return InclusionBundle(index, tuple(copy.inclusion(index, size)), copy.checkpoint_at(size))


def named_log(found: SignedVerdict) -> NoteVerifier | None:
    """The key of the log that a verdict says it is in, with the turns that it names; None where it is in no log.

    Raises:
        EncodingError: no key, or no turns.
        TurnError: turns that the log's keys did not sign.
    """
    named = found.predicate["verdictLog"]
    if named is None:
        return None
    key, turns = NoteVerifier.from_vkey(named["key"]), read_turns(named["turns"])
    return LogKey.of(key, turns) if turns else key


def check_entered(data: bytes, found: SignedVerdict, proof: bytes, log: NoteVerifier | None) -> NoteVerifier:
    """A signed verdict stands in its auditor's log, with what that says of it in public.

    Args:
        data: the envelope's bytes.
        found: the same, read.
        proof: a ``.tlog-proof`` file.
        log: the log's key as the auditor gave it; None: the one that the verdict names.

    Returns:
        The log's key, which is its first, with its turns up to there.

    Raises:
        AttestationError: the verdict says that it is in no log, or in another one; or the log is another auditor's.
        LedgerError: it is not in that log.
        EncodingError: no such file.
    """
    key = named_log(found)
    if key is None:
        raise AttestationError(
            "the verdict says of itself that it is in no log: its auditor could not write it down when it was issued"
        )
    if log is not None and log.vkey() != key.vkey():
        raise AttestationError(f"the verdict names a different log of verdicts than {log.name}: {key.vkey()[:200]}")
    if key.name != origin_of(found.auditor):
        raise AttestationError(f"the log of verdicts {key.name} is not that of the auditor {found.auditor.hex()}")
    InclusionBundle.from_text(proof).verify(entry_of(data, found).encode(), key)
    return key

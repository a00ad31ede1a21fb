# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose cosignatures a reader wants to see: policy files as C2SP tlog-policy has them.  SPEC G.6.9.

    log <vkey> [<url>]
    witness <name> <vkey> [<url>]
    group <name> all|any|<k> <member>...
    quorum <name>|none

A line names only what stands above it, and nothing is a member twice: so a group is decided by its members in one pass,
and no witness counts more than once.  Names are octets, not characters, as the format wants it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from ragseal.kernel.errors import AuditError, ConfigurationError, EncodingError, LedgerError
from ragseal.kernel.printable import printable
from ragseal.ledger.checkpoint import SignedCheckpoint, open_checkpoint
from ragseal.ledger.note import COSIGNATURE, ED25519, NoteVerifier
from ragseal.runtime import texts

MAX_POLICY_BYTES = 256 * 1024
MAX_LINES_OF_A_KIND = 64  #: logs, witnesses and groups, of each
NONE = "none"


class QuorumError(LedgerError):
    """Fewer witnesses than the policy wants cosigned a checkpoint.  It shows nothing about the log."""


@dataclass(frozen=True, slots=True)
class PolicyWitness:
    """One witness: its name within the file, its key, and its submission prefix (empty: nobody submits to it)."""

    name: str
    verifier: NoteVerifier
    url: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """Witnesses a checkpoint if at least ``threshold`` of its members (witnesses or earlier groups) do."""

    name: str
    threshold: int
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Policy:
    """The content of a policy file; :meth:`parse` checks it."""

    logs: tuple[NoteVerifier, ...]  #: empty: the log is known from elsewhere
    witnesses: tuple[PolicyWitness, ...]
    groups: tuple[Group, ...]
    quorum: str

    @classmethod
    def load(cls, path: Path) -> Policy:
        """Read a policy file.  ConfigurationError: unreadable, or a line that does not hold, by its number."""
        what = f"witness policy {path}"
        data = texts.read_bytes(path, what, most=MAX_POLICY_BYTES)
        try:
            return cls.parse(texts.octets_of(data, what))
        except EncodingError as error:
            raise ConfigurationError(f"witness policy {path}, {error}") from None

    @classmethod
    def parse(cls, data: bytes) -> Policy:
        """The octets of a policy file.

        Raises:
            EncodingError: the first line that does not hold, by its number, and what would.
        """
        if len(data) > MAX_POLICY_BYTES:
            raise EncodingError(f"line 1: the file has more than {MAX_POLICY_BYTES} bytes: is it a policy?")
        reader = _Reader()
        lines = data.split(b"\n")
        for number, line in enumerate(lines, 1):
            try:
                reader.read(line)
            except AuditError as error:
                raise EncodingError(f"line {number}: {error}") from None
        if reader.quorum is None:
            raise EncodingError(f"line {len(lines)}: the quorum is missing: end with `quorum NAME`, or `quorum none`")
        return cls(tuple(reader.logs), tuple(reader.witnesses), tuple(reader.groups), reader.quorum)

    def of(self, log: NoteVerifier) -> Policy:
        """This policy, which is one for ``log``.  ConfigurationError: it lists logs, and not this one."""
        if self.logs and log.keys[0] not in self.logs:  # a log line names the first key, as everything does
            raise ConfigurationError(
                f"the witness policy is not for the log {log.name} with key id {log.key_id.hex()}: add a line "
                f"`log {log.vkey()}`, or remove its log lines"
            )
        return self

    @property
    def asks_nobody(self) -> bool:
        """Whether any checkpoint will do (``quorum none``)."""
        return self.quorum == NONE

    def verifiers(self) -> tuple[NoteVerifier, ...]:
        return tuple(one.verifier for one in self.witnesses)

    def reached_by(self, cosigners: Iterable[NoteVerifier]) -> bool:
        """Whether these witnesses are a quorum; keys that the policy does not name count for nothing."""
        if self.asks_nobody:
            return True
        keys = {(one.algorithm, one.public_key) for one in cosigners}
        witnessed = {
            one.name for one in self.witnesses if (one.verifier.algorithm, one.verifier.public_key) in keys
        }  # fmt: skip
        for group in self.groups:  # members stand above their groups
            if sum(member in witnessed for member in group.members) >= group.threshold:
                witnessed.add(group.name)
        return self.quorum in witnessed

    def open(self, data: bytes, log: NoteVerifier) -> SignedCheckpoint:
        """A signed note of ``log`` that a quorum cosigned.

        Raises:
            EncodingError, LedgerError: not the log's, or a line of a named witness that does not verify.
            QuorumError: too few witnesses.
        """
        signed = open_checkpoint(data, log, self.verifiers())
        cosigners = [one.verifier for one in signed.witnesses]
        if not self.reached_by(cosigners):
            names = [one.name for one in self.witnesses if one.verifier in cosigners]
            raise QuorumError(
                f"the checkpoint of {signed.checkpoint.size} entries is cosigned by {_named(names)} of the policy's "
                f"witnesses, which is not the quorum {_shown(self.quorum)} ({self._wanted()})"
            )
        return signed

    def _wanted(self) -> str:
        for group in self.groups:
            if group.name == self.quorum:
                return f"{group.threshold} of {_named(group.members)}"
        return "this witness"


class _Reader:
    """A policy file line by line."""

    def __init__(self) -> None:
        self.logs: list[NoteVerifier] = []
        self.witnesses: list[PolicyWitness] = []
        self.groups: list[Group] = []
        self.quorum: str | None = None
        self._defined: set[str] = set()
        self._members: set[str] = set()

    def read(self, line: bytes) -> None:
        """One line without its newline.  Raises EncodingError, LedgerError."""
        for octet in line:
            if octet != 0x09 and not 0x20 <= octet <= 0x7E and octet < 0x80:
                raise EncodingError(f"control character {octet:#04x}: lines end in a newline alone, and hold tabs only")
        # Octets that are no UTF-8 stay themselves, so that different names stay different.
        words = [word for word in line.decode("utf-8", "surrogateescape").replace("\t", " ").split(" ") if word]
        if not words or words[0].startswith("#"):
            return
        kinds: dict[str, Callable[[list[str]], None]] = {
            "log": self._log, "witness": self._witness, "group": self._group, "quorum": self._quorum,
        }  # fmt: skip
        if words[0] not in kinds:
            raise EncodingError(f"{_shown(words[0])} is none of log, witness, group and quorum; comments begin with #")
        kinds[words[0]](words[1:])

    def _log(self, words: list[str]) -> None:
        if len(words) not in (1, 2):
            raise EncodingError("expected `log VKEY [URL]`")
        key = _vkey(words[0], ED25519, "a log's key has type 0x01")
        if any(key.public_key == other.public_key for other in self.logs):
            raise EncodingError("this log's key stands above already: leave one of the lines out")
        _bounded(self.logs, "logs")
        self.logs.append(key)

    def _witness(self, words: list[str]) -> None:
        if len(words) not in (2, 3):
            raise EncodingError("expected `witness NAME VKEY [URL]`")
        key = _vkey(words[1], COSIGNATURE, "a witness's key has type 0x04 (`ragseal-observer keygen` makes one)")
        if any(key.public_key == other.verifier.public_key for other in self.witnesses):
            raise EncodingError("this witness's key stands above already: one key would count twice")
        _bounded(self.witnesses, "witnesses")
        self.witnesses.append(PolicyWitness(self._new(words[0]), key, words[2] if len(words) == 3 else ""))

    def _group(self, words: list[str]) -> None:
        if len(words) < 3:
            raise EncodingError("expected `group NAME all|any|K MEMBER...`, with at least one member")
        members = words[2:]
        for at, member in enumerate(members):
            self._known(member)
            if member in self._members or member in members[:at]:
                raise EncodingError(f"{_shown(member)} is a member of a group already: each name counts once")
        threshold = {"any": 1, "all": len(members)}.get(words[1])
        if threshold is None:
            if not words[1].isascii() or not words[1].isdigit() or len(words[1]) > 4:
                raise EncodingError(f"{_shown(words[1])} is none of all, any and a number")
            threshold = int(words[1])
        if not 1 <= threshold <= len(members):
            raise EncodingError(f"{threshold} of {len(members)} members: the number is from 1 to {len(members)}")
        _bounded(self.groups, "groups")
        self.groups.append(Group(self._new(words[0]), threshold, tuple(members)))
        self._members.update(members)

    def _quorum(self, words: list[str]) -> None:
        if len(words) != 1:
            raise EncodingError("expected `quorum NAME`: a witness, a group, or none")
        if self.quorum is not None:
            raise EncodingError("there is a quorum above already: a policy has one")
        if words[0] != NONE:
            self._known(words[0])
        self.quorum = words[0]

    def _new(self, name: str) -> str:
        if name == NONE:
            raise EncodingError("`none` has a meaning of its own: take another name")
        if name in self._defined:
            raise EncodingError(f"{_shown(name)} is defined above already: take another name")
        self._defined.add(name)
        return name

    def _known(self, name: str) -> None:
        if name not in self._defined:
            raise EncodingError(f"{_shown(name)} is not defined above this line: witnesses and groups come first")


def _vkey(text: str, algorithm: int, otherwise: str) -> NoteVerifier:
    key = NoteVerifier.from_vkey(text)
    if key.algorithm != algorithm:
        raise EncodingError(f"{otherwise}, not {key.algorithm:#04x}")
    return key


def _bounded(found: list[NoteVerifier] | list[PolicyWitness] | list[Group], what: str) -> None:
    if len(found) >= MAX_LINES_OF_A_KIND:
        raise EncodingError(f"more than {MAX_LINES_OF_A_KIND} {what}")


def _shown(name: str) -> str:
    return repr(printable(name.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))[:80])


def _named(names: Iterable[str]) -> str:
    return ", ".join(_shown(name) for name in names) or "none"

# SPDX-License-Identifier: GPL-3.0-or-later
"""What signs the notes of a log whose key may have turned: at each size the key that counts there.  SPEC G.6.13.

The note of a size is the same bytes whenever it is asked for.  Ed25519 repeats itself while a key is there; before a
key is given up for good, its lines over all sizes that it signed are kept in a file, ``lines-<number>``, 64 bytes a
size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from ragseal.kernel.errors import LedgerError
from ragseal.kernel.rotation import MAX_TURNS, Rotation
from ragseal.kernel.verdict import log_digest
from ragseal.ledger.checkpoint import Checkpoint
from ragseal.ledger.note import ED25519, Note, NoteSignature, NoteSigner, NoteVerifier
from ragseal.ledger.turns import LogKey, TurnError
from ragseal.runtime.durable import write_durably
from ragseal.runtime.edges.filesystem import why

LINE_BYTES = 64


def lines_file(directory: Path, number: int) -> Path:
    """Where the lines of a log's key ``number`` (the first is 0) are kept."""
    return directory / f"lines-{number}"


def line_files() -> set[str]:
    """The names that such files can have."""
    return {f"lines-{number}" for number in range(MAX_TURNS)}


@dataclass(frozen=True, slots=True)
class LogSigner:
    """The private keys that are there of one log, and where the lines of the others are."""

    log: LogKey
    signers: tuple[NoteSigner, ...]  #: of the log's keys, or of one that it may turn to
    directory: Path | None = None  #: of the kept lines

    def __repr__(self) -> str:
        return f"LogSigner({self.log.name!r})"

    @classmethod
    def of(cls, signer: NoteSigner | LogSigner, directory: Path | None = None) -> LogSigner:
        """The signer of a new log with one key, or that of a copy.  LedgerError: a key for another purpose."""
        if isinstance(signer, LogSigner):
            return signer
        if signer.algorithm != ED25519:
            raise LedgerError(f"checkpoints of {signer.name} are signed by the log key of that name, of type 0x01")
        return cls(LogKey.of(signer.verifier), (signer,), directory)

    @property
    def name(self) -> str:
        return self.log.name

    @property
    def verifier(self) -> NoteVerifier:
        """The log's public key, with its turns where it has any."""
        return self.log if self.log.turns else self.log.first

    def key(self, public: bytes) -> NoteSigner | None:
        """The private key that belongs to a public one, if it is there."""
        return next((one for one in self.signers if one.verifier.public_key == public), None)

    @classmethod
    def among(cls, signers: Iterable[NoteSigner], turns: Iterable[Rotation], directory: Path | None) -> LogSigner:
        """The signer of a log with these turns; without any the first of ``signers`` is the log's only key.

        Raises:
            TurnError: the turns are not of a log of that name.
            LedgerError: the log's newest key is not among them.
        """
        there, chain = tuple(signers), tuple(turns)
        public = chain[0].old_key if chain else there[0].verifier.public_key
        made = cls(LogKey.of(NoteVerifier(there[0].name, public), chain), there, directory)
        if made.key(made.log.newest.public_key) is None:
            raise LedgerError(
                f"{made.name} is signed by the key {made.log.newest.public_key.hex()} by now, which is not here: put "
                "its file back"
            )
        return made

    def note(self, checkpoint: Checkpoint) -> bytes:
        """The signed note of a checkpoint of this log.

        Raises:
            LedgerError: another log's, or of a size whose key is gone without its lines having been kept.
        """
        if checkpoint.origin != self.name:
            raise LedgerError(f"checkpoints of {checkpoint.origin} are signed by the log key of that name")
        text = checkpoint.text()
        return Note(
            text, tuple(self._line(key, text, checkpoint.size) for key in self.log.signing(checkpoint.size))
        ).encode()

    def _line(self, key: NoteVerifier, text: str, size: int) -> NoteSignature:
        signer = self.key(key.public_key)
        if signer is not None:
            return signer.sign(text)
        number = self.log.keys.index(key)
        first, last = self._span(number)
        data = b""
        if self.directory is not None and first <= size <= last:
            try:
                with open(lines_file(self.directory, number), "rb") as file:
                    file.seek((size - first) * LINE_BYTES)
                    data = file.read(LINE_BYTES)
            except OSError:
                data = b""
        if len(data) != LINE_BYTES:
            raise LedgerError(
                f"the key that signed {self.name} at {size} entries was given up, and its lines are not in "
                f"lines-{number}: restore that file from a copy"
            )
        line = NoteSignature(key.name, key.key_id, data)
        key.verify(text, line)
        return line

    def _span(self, number: int) -> tuple[int, int]:
        """The sizes whose notes have a line of a given-up key: the first and the last."""
        return (self.log.turns[number - 1].index + 1 if number else 0), self.log.turns[number].until

    def over(self, size: int) -> list[int]:
        """Numbers of keys that have signed all that they will ever sign, of a log of ``size`` entries."""
        return [number for number, turn in enumerate(self.log.turns) if size >= turn.until]

    def keep_lines(self, number: int, root: Callable[[int], bytes]) -> None:
        """Keep every line of a key that is over, durably, so that the key itself can be removed.

        Args:
            root: gives the root of the first so many entries.

        Raises:
            LedgerError: the key is gone already without them, or the disk refuses.
        """
        assert self.directory is not None
        path, key = lines_file(self.directory, number), self.log.keys[number]
        first, last = self._span(number)
        try:
            if path.is_file() and path.stat().st_size == (last - first + 1) * LINE_BYTES:
                return
            lines = (
                self._line(key, Checkpoint(self.name, size, root(size)).text(), size) for size in range(first, last + 1)
            )
            write_durably(path, b"".join(line.blob for line in lines), mode=0o600)
        except OSError as error:
            raise LedgerError(f"cannot write {path}: {why(error, path)}; the old key is kept until then") from None

    def turn(self, new: NoteSigner, index: int, root: bytes, overlap: int) -> Rotation:
        """The statement, signed by both keys, that ``new`` signs this log from entry ``index`` on.

        Raises:
            TurnError: the log had that key, has turned too often, or is in the overlap of its last turn.
            EncodingError: an overlap out of range.
        """
        log, old = self.log, self.key(self.log.newest.public_key)
        if old is None:
            raise TurnError(f"the newest key of {self.name} is not here: it has to sign the turn")
        unsigned = Rotation(
            log=log_digest(log.vkey()),
            number=len(log.turns) + 1,
            old_key=log.newest.public_key,
            new_key=new.verifier.public_key,
            index=index,
            root=root,
            until=index + 1 + overlap,
            by_old=bytes(64),
            by_new=bytes(64),
        )
        unsigned.validate()
        made = unsigned.signed(old.private_key, new.private_key)
        log.turned(made)
        return made

    def turned(self, turn: Rotation) -> LogSigner:
        """The same behind a turn of its log, whose new key is there."""
        if turn in self.log.turns:
            return self
        if self.key(turn.new_key) is None:
            raise TurnError(f"the key that {self.name} turns to is not here")
        return replace(self, log=self.log.turned(turn))

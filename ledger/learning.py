# SPDX-License-Identifier: GPL-3.0-or-later
"""How an observer and an exporter of tiles learn of a turn of a log's key: from the log's own entries.  SPEC G.6.13.

Nothing is hashed under a note that no key of the log signed (G.6.13.14), and what is learnt is kept by the caller, once
the log continues what it remembers (G.6.13.15).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from ragseal.kernel.errors import AuditError, ConfigurationError, TransportError
from ragseal.kernel.verdict import log_digest
from ragseal.ledger.checkpoint import Checkpoint, has_unknown_line, open_checkpoint
from ragseal.ledger.merkle import Frontier, leaf_hash
from ragseal.ledger.note import Note, NoteVerifier
from ragseal.ledger.turns import KeptTurns, LogKey, TurnedTwiceError, follow, is_turn, read_turn
from ragseal.ledger.witness import Evidence, ForkError, UnprovenError
from ragseal.runtime.durable import write_durably
from ragseal.runtime.edges.filesystem import why

PAGE = 1024


class Entries(Protocol):
    """Where a log's entries, and what it shows of its key's turns, come from."""

    async def rotations(self) -> list[bytes]: ...

    async def entries(self, start: int, count: int) -> list[bytes]: ...


async def learn(source: Entries, data: bytes, log: NoteVerifier) -> NoteVerifier:
    """The log's key with the turns that a note was signed after.

    Where the note has a line under the log's name by a key that is not known, the log is asked for its turns.  If the
    key that counts by those has signed the note, all entries are hashed to the root that it names, and what they turn
    the key to is believed if that key signed the note.  Else ``log`` comes back, and opening the note says what is
    wrong with it: whoever stands in between can name any size, and has nobody hash for it.

    Raises:
        ForkError: one old key has signed two different turns; both statements are the evidence.
        TransportError: the log is out of reach.
    """
    try:
        note = Note.parse(data)
        point = Checkpoint.parse(note.text)
        if point.origin != log.name or not has_unknown_line(note, log):
            return log
        open_checkpoint(data, follow(log, await source.rotations()))
        frontier, found = Frontier(), LogKey.of(log)
        while frontier.size < point.size:
            at = frontier.size
            page = await source.entries(at, min(PAGE, point.size - at))
            if not page:
                return log
            for index, entry in enumerate(page, at):
                if is_turn(entry):
                    found = read_turn(found, index, entry, frontier.root)
                frontier.add(leaf_hash(entry))
        if frontier.root() != point.root:
            return log
        open_checkpoint(data, found)
    except TurnedTwiceError as error:
        raise ForkError(str(error), Evidence("turned-twice", error.known.encode(), error.other.encode())) from None
    except TransportError:
        raise
    except AuditError:
        return log  # nobody has signed what was read
    return found


def refuse_unknown_turn(log: NoteVerifier, index: int, entry: bytes) -> None:
    """An entry under a note is no turn that the reader of the note does not know.

    Raises:
        UnprovenError: it is: then only a key signed the note that the log had given up, or the turn does not hold.
    """
    if is_turn(entry) and index not in [turn.index for turn in LogKey.of(log).turns]:
        raise UnprovenError(
            f"{log.name} turns its key at entry {index}, and the note is not signed by the key that it turns to: "
            "a thief of the old key can show it, and so can anyone who took a line from the note. Ask again"
        )


def with_turns(logs: Sequence[NoteVerifier], kept: Sequence[bytes]) -> list[NoteVerifier]:
    """The keys of several logs, each with the turns that were kept of it (``kept-turns``).

    Raises:
        ConfigurationError: turns of none of the logs, that do not hold, or of one for which other keys are given too:
            those would count at every size, and so may one that was given up.
    """
    found = list(logs)
    for data in kept:
        try:
            turns = KeptTurns.decode(data).turns
            at = next((n for n, log in enumerate(found) if turns and turns[0].log == log_digest(log.vkey())), None)
            if at is None:
                raise ConfigurationError(
                    "the turns are of none of the logs that are given: --log names a log's first key"
                )
            found[at] = LogKey.of(found[at].keys[0], turns)
        except ConfigurationError:
            raise
        except AuditError as error:
            raise ConfigurationError(f"turns of a log's key do not hold: {error}") from None
    for name in {log.name for log in found if len(log.keys) > 1}:
        if sum(log.name == name for log in found) > 1:
            raise ConfigurationError(f"give the first key of {name} alone: its turns say the others")
    return found


def load_turns(path: Path, log: NoteVerifier) -> NoteVerifier:
    """A log's key with the turns in a file; ConfigurationError: the file is damaged."""
    try:
        return LogKey.of(log.keys[0], KeptTurns.decode(path.read_bytes()).turns)
    except FileNotFoundError:
        return log
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {why(error, path)}") from None
    except AuditError as error:
        raise ConfigurationError(f"{path} is damaged ({error}): remove it, the log has its turns too") from None


def keep_turns(path: Path, log: NoteVerifier, mode: int = 0o600) -> None:
    """Keep a log's turns durably, before they are believed.  ConfigurationError: the disk refuses."""
    try:
        write_durably(path, KeptTurns(LogKey.of(log).turns).encode(), mode=mode)
    except OSError as error:
        raise ConfigurationError(f"cannot write {path}: {why(error, path)}") from None

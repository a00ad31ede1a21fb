# SPDX-License-Identifier: GPL-3.0-or-later
"""Which key signs the log by now: turns of it as the auditor finds them in the entries.  SPEC G.6.13, D.1.5.

The auditor was given the log's first key.  Every turn since stands in the log, signed by the key before; it hashes the
entries, so it takes them from there and asks nobody.
"""

from __future__ import annotations

from functools import partial

from ragseal.kernel.errors import AuditError
from ragseal.ledger.checkpoint import Checkpoint, SignedCheckpoint, has_unknown_line, open_checkpoint
from ragseal.ledger.note import Note, NoteVerifier
from ragseal.ledger.turns import LogKey, TurnedTwiceError, TurnError, is_turn, read_turn, turns_in
from ragseal.verifier.evidence.evidence import ASK_AGAIN, Evidence, Refused, Undecided
from ragseal.verifier.steps.log import MAX_LOG_BYTES, LogTree, LogView, decoded, read_note, read_tree
from ragseal.verifier.steps.pin import refuse_later_pin


class TurnedTwice(Refused):
    """Two turns that one old key of the log signed; both statements are the evidence."""

    def __init__(self, error: TurnedTwiceError) -> None:
        super().__init__(str(error), known=error.known.encode(), other=error.other.encode())


def current_key(evidence: Evidence, log_key: NoteVerifier, most: int = MAX_LOG_BYTES) -> NoteVerifier:
    """The log's key with the turns that the newest note was signed after.

    Where that note has a line under the log's name by a key that is not known, the entries are read and hashed to the
    root that it names, and what they turn the key to is believed if that key signed the note.

    Returns:
        ``log_key`` itself where nothing new is found: :func:`ragseal.verifier.steps.log.read_note` says what is wrong
        with the note then.

    Raises:
        TurnedTwice: the log shows another turn of a key than the known one.
    """
    data = evidence.checkpoint()
    try:
        note = Note.parse(data)
        point = Checkpoint.parse(note.text)
        if point.origin != log_key.name or not has_unknown_line(note, log_key):
            return log_key
        tree = read_tree(evidence, SignedCheckpoint(point, note, ()), None, most)
        found = turns_in(log_key, tree.entries, 0, tree.tree.root)
        open_checkpoint(data, found)
        return found
    except TurnedTwiceError as error:
        raise TurnedTwice(error) from None
    except AuditError:
        return log_key  # nobody has signed what was read


def turned_by(tree: LogTree, log_key: NoteVerifier) -> NoteVerifier:
    """The log's key behind its entries, whose checkpoint is signed by the key that counts for their number.

    Raises:
        TurnedTwice: one old key has signed two different turns.
        Refused: an entry under the signed root is a turn that the log's keys did not sign for this place.
        Undecided: the checkpoint is signed by a key alone that was given up before, or ``log_key`` is not the first.
    """
    refuse_later_pin(tree, log_key)
    found = LogKey.of(log_key)
    wrong: TurnError | None = None
    for index, entry in enumerate(tree.entries):
        if is_turn(entry):
            try:
                found = read_turn(found, index, entry, partial(tree.tree.root, index))
            except TurnedTwiceError as error:
                raise TurnedTwice(error) from None
            except TurnError as error:
                wrong = error
                break
    _check_counted(tree.signed, found)  # first: a thief of an old key can enter whatever it likes, and sign it
    if wrong is not None:
        raise Refused(str(wrong), checkpoint=tree.signed.note.encode().decode())
    return found if found.turns else log_key


def _check_counted(signed: SignedCheckpoint, log: LogKey) -> None:
    """Raises Undecided: of the log's keys only one signed that does not count for this size."""
    try:
        open_checkpoint(signed.note.encode(), log)
    except AuditError as error:
        raise Undecided(
            f"the checkpoint of {signed.checkpoint.size} entries is signed only by a key that the log has given up "
            f"before: a thief of that key can show it, and so can anyone who took a line from the note ({error})",
            ASK_AGAIN,
            note=signed.note.encode().decode(),
        ) from None


def check_held(tree: LogTree, log_key: NoteVerifier) -> None:
    """Every known turn within the log stands in it.

    Both keys signed that it is that entry, and the key that counts signed the log, which is not the old one any more.

    Raises:
        Refused: one does not, in a log that is signed by the key that counts.
        Undecided: in one that a key alone signed which was given up.
    """
    for turn in LogKey.of(log_key).turns:
        if turn.index < tree.size and not is_turn(tree.entries[turn.index]):
            _check_counted(tree.signed, LogKey.of(log_key))
            raise Refused(
                f"the log does not hold the turn of its key at entry {turn.index}, where both keys said that it is",
                turn=turn.encode(),
                entry=tree.entries[turn.index],
                checkpoint=tree.signed.note.encode().decode(),
            )


def more_turns(found: NoteVerifier, known: NoteVerifier) -> LogKey | None:
    """What was found, if it has turns that were not known."""
    return found if isinstance(found, LogKey) and len(found.keys) > len(known.keys) else None


def read_log(
    evidence: Evidence, log_key: NoteVerifier, known: LogView | None = None, most: int = MAX_LOG_BYTES
) -> LogView:
    """The log as it is served now, decoded, under whatever key it has turned to.

    Raises:
        Refused, Undecided: as the parts.
    """
    key = current_key(evidence, log_key, most)
    tree = read_tree(evidence, read_note(evidence, key), known, most)
    check_held(tree, turned_by(tree, key))
    log = decoded(tree, known)
    log.to_its_end()
    return log

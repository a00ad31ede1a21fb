# SPDX-License-Identifier: GPL-3.0-or-later
"""Turns of the log's key as accounts were shown them, against the log.  SPEC G.6.13.10.

A file of this kind comes from an account, and anybody can write one.  What in it the log's own key signed is the log's
word: the note of the size behind the turn, and the statement.  A key that such a statement names for this log is no
stranger's either: a receipt that the provider signed around its notes is of a log that was kept beside this one.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragseal.kernel.errors import AuditError
from ragseal.kernel.verdict import log_digest
from ragseal.ledger.checkpoint import SignedCheckpoint, open_checkpoint
from ragseal.ledger.note import NoteVerifier
from ragseal.ledger.turns import LogKey, TurnedTwiceError, refuse_contradiction
from ragseal.verifier.evidence.evidence import TurnFile, Undecided
from ragseal.verifier.steps.log import LogTree
from ragseal.verifier.steps.turns import TurnedTwice


def keys_beside(files: Sequence[TurnFile], log_key: NoteVerifier, size: int) -> tuple[NoteVerifier, ...]:
    """Keys that a key of this log has named for it, in statements that its first ``size`` entries do not hold.

    A statement about an entry behind those may be in the log all the same: it is younger than what is shown here.
    """
    name, known = log_digest(log_key.vkey()), list(log_key.keys)
    for file in sorted(files, key=lambda file: file.proof.turn.number):
        turn = file.proof.turn
        try:
            turn.verify()
            new = NoteVerifier(log_key.name, turn.new_key)
        except AuditError:
            continue  # somebody else's words
        old = any(turn.old_key == key.public_key for key in known)
        if turn.log == name and old and new not in known and turn.index < size:
            known.append(new)
    return tuple(known[len(log_key.keys) :])


def check_shown(files: Sequence[TurnFile], tree: LogTree, log_key: NoteVerifier) -> None:
    """What the log's key signed of the turns that accounts were shown is of this log.

    Raises:
        TurnedTwice: one old key has signed another turn than the one in this log.
        Forked: the note behind a turn contradicts this log.
        Undecided: that note is of more entries than are served.
    """
    later: Undecided | None = None
    for file in files:
        try:
            refuse_contradiction(LogKey.of(log_key), file.proof.turn)
        except TurnedTwiceError as error:
            raise TurnedTwice(error) from None
        except AuditError:
            pass  # void behind the turn that is known
        note = _signed(file, log_key)
        if note is not None:
            try:
                tree.extends(note, f"the note behind the turn in {file.name}")
            except Undecided as error:
                later = later or error
    if later is not None:
        raise later


def _signed(file: TurnFile, log_key: NoteVerifier) -> SignedCheckpoint | None:
    """The note behind a turn, where the key that counts for its size signed it: else it is nobody's word."""
    try:
        return open_checkpoint(file.proof.checkpoint, log_key)
    except AuditError:
        return None

# SPDX-License-Identifier: GPL-3.0-or-later
"""The checks of a turn of a log's key (SPEC G.6.13), each with the way to take exactly it away."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

from ragseal.client import history as client_history
from ragseal.kernel import rotation
from ragseal.ledger import checkpoint as ledger_checkpoint
from ragseal.ledger import learning, turned_tree, turns
from ragseal.ledger import log as ledger_log
from ragseal.ledger import observer as ledger_observer
from ragseal.ledger import shared as ledger_shared
from ragseal.ledger import witness as ledger_witness
from ragseal.ledger.note import Note, NoteSignature, NoteVerifier
from ragseal.ledger.turns import LogKey, TurnProof
from ragseal.verifier.audit import findings, participant
from ragseal.verifier.evidence.evidence import TurnFile
from ragseal.verifier.steps import manifest, pin, receipts, shown_turns
from ragseal.verifier.steps import turns as auditor_turns
from ragseal.verifier.steps.log import LogView
from tests.attacks.removal import Both, Check, Guard, Removable

TURN_OLD_SIGNED = Check(rotation.Rotation, "verify_old")
TURN_NEW_SIGNED = Guard(rotation.Rotation, "verify", "by its new key")
TURN_OF_THIS_LOG = Guard(LogKey, "turned", "is of a different log's key")
TURN_IN_ORDER = Guard(LogKey, "turned", "does not come behind turn")
TURN_OF_THE_NEWEST = Guard(LogKey, "turned", "that did not sign the log")
TURN_BEHIND_THE_OVERLAP = Guard(LogKey, "turned", "in the overlap of the turn")
TURN_TO_NO_OLDER_KEY = Guard(LogKey, "turned", "id of one that the log had")
TURN_IN_ITS_PLACE = Guard(turns, "read_turn", "signed for another place")
TURNED_ONCE = Check(turns, "refuse_contradiction")
OLD_KEY_ALONE = Check(auditor_turns, "_check_counted")
ONE_KEY_A_SIZE = Check(LogKey, "at", lambda key, size: key.newest)
NO_ANSWER_BESIDE_THE_LOG = Check(receipts, "_refuse_off_the_log")
KNOWN_TURN_STANDS = Both((
    Check(findings, "check_held"), Check(participant, "check_held"), Check(auditor_turns, "check_held")
))  # fmt: skip
PIN_IN_TURNS = Check(auditor_turns, "refuse_later_pin")
PIN_IN_MANIFEST = Check(manifest, "refuse_later_pin")
GOES_BY_ITS_NAME = Check(pin, "_goes_by", lambda tree, name: False)
SHOWN_TURNS = Check(findings, "check_shown")


def _of_any_entry(files: Sequence[TurnFile], log_key: NoteVerifier, size: int) -> tuple[NoteVerifier, ...]:
    return shown_turns.keys_beside(files, log_key, 1 << 62)


_READ = participant.Participant._read
_LEARN = ledger_observer.Observer._learn


def _believe_and_read(part: participant.Participant) -> LogView:
    """As it was once: what the newest note was signed after is kept before anything is compared."""
    part._believe(auditor_turns.current_key(part.link, part.state.log_key(part.log_key)))
    return _READ(part)


_BELIEVE = findings.Findings._believe


def _believe_and_keep(self: findings.Findings, found: NoteVerifier) -> bool:
    new = _BELIEVE(self, found)
    if self._unkept is not None:
        self.auditor.keep_turns(self._unkept)
    return new


async def _keep_at_once(self: ledger_observer.Observer, note: bytes) -> None:
    await _LEARN(self, note)
    self._keep_turns()


def _whatever_it_signs(note: Note, key: NoteVerifier) -> NoteSignature | None:
    return next((line for line in note.signatures if key.owns(line)), None)


BESIDE_WITHIN_THE_LOG = Check(findings, "keys_beside", _of_any_entry)
COMPARED_BEFORE_KEPT = Check(participant.Participant, "_read", _believe_and_read)
KEPT_BEHIND_AN_AUDITS_COMPARISON = Check(findings.Findings, "_believe", _believe_and_keep)
KEYS_BESIDE = Check(findings, "keys_beside", lambda files, log_key, size: ())
TURN_IN_THIS_HISTORY = Check(client_history.History, "_in_this_history")
CACHED_NOTE_IS_VOID = Check(participant, "recall", lambda note, log: SimpleNamespace(void=False))
SIGNED_BEFORE_HASHED = Guard(learning, "learn", "follow(log, await source.rotations())")
REMEMBERED_LINES_VERIFY = Check(ledger_witness, "line_of", _whatever_it_signs)
FOLLOWED_BEFORE_KEPT = Check(ledger_observer.Observer, "_learn", _keep_at_once)
LINES_OF_A_LOG_KEY = Check(ledger_checkpoint, "_is_of_a_log_key", lambda line: True)
READ_IN_ITS_PLACE = Guard(turned_tree, "read_turns", "was signed for a different entry")
TURNED_BY_ROTATE = Guard(ledger_log.Log, "_commit", "turned by rotate()")
NAMED_AS_IT_SIGNS = Guard(ledger_shared.SharedLog, "append", "has turned meanwhile")
FIRST_KEY_ALONE = Guard(learning, "with_turns", "give the first key of")
MANY_TURNS = Guard(turns, "follow", "a log has at most")
TURN_SIGNED_THERE = Guard(TurnProof, "follow", "verify_note(note, [one])")
TURN_SHOWN_IN_ITS_SIZE = Guard(TurnProof, "follow", "it is of")
TURN_SHOWN_IN_ITS_PLACE = Check(TurnProof, "_check_place")

TURN_CHECKS: dict[str, Removable] = {
    "turn: signed by the old key": TURN_OLD_SIGNED,
    "turn: signed by the new key": TURN_NEW_SIGNED,
    "turn: of this log": TURN_OF_THIS_LOG,
    "turn: in order": TURN_IN_ORDER,
    "turn: of the key that signs": TURN_OF_THE_NEWEST,
    "turn: behind the overlap of the one before": TURN_BEHIND_THE_OVERLAP,
    "turn: to no key that the log had": TURN_TO_NO_OLDER_KEY,
    "turn: of this place and history": TURN_IN_ITS_PLACE,
    "turn: one of one key": TURNED_ONCE,
    "turn: the old key alone signs nothing behind it": OLD_KEY_ALONE,
    "turn: one key counts for one size": ONE_KEY_A_SIZE,
    "turn: no answer beside the log, signed by its provider": NO_ANSWER_BESIDE_THE_LOG,
    "turn: a later key that was pinned convicts nobody": PIN_IN_TURNS,
    "turn: a known one stands in the log": KNOWN_TURN_STANDS,
    "turn: a later key that was pinned convicts nobody by a manifest": PIN_IN_MANIFEST,
    "turn: a log goes by the name that its manifests have": GOES_BY_ITS_NAME,
    "turn: a log that was read before it is known by the note that counts": CACHED_NOTE_IS_VOID,
    "turn shown: what the log's key signed of it is of this log": SHOWN_TURNS,
    "turn shown: answers under its key are the provider's": KEYS_BESIDE,
    "turn shown: of an entry that the log has and does not hold": BESIDE_WITHIN_THE_LOG,
    "turn: nothing is hashed under a note that no key of the log signed": SIGNED_BEFORE_HASHED,
    "turn: lines of keys that do not count are remembered where they verify": REMEMBERED_LINES_VERIFY,
    "turn: kept by an observer once the log continues what it remembers": FOLLOWED_BEFORE_KEPT,
    "turn: a line of another length is no log key's": LINES_OF_A_LOG_KEY,
    "turn: read from the database in its place": READ_IN_ITS_PLACE,
    "turn: entered by rotate alone": TURNED_BY_ROTATE,
    "turn: at most 64 are shown": MANY_TURNS,
    "turn: a witness that has the turns takes no other keys": FIRST_KEY_ALONE,
    "turn: kept once the log continues what is remembered": COMPARED_BEFORE_KEPT,
    "turn: kept by an audit once the log continues what is remembered": KEPT_BEHIND_AN_AUDITS_COMPARISON,
    "turn shown: of the history that the account knows": TURN_IN_THIS_HISTORY,
    "turn shown: both keys signed the size behind it": TURN_SIGNED_THERE,
    "turn shown: under a note of its size": TURN_SHOWN_IN_ITS_SIZE,
    "turn shown: in its place": TURN_SHOWN_IN_ITS_PLACE,
}

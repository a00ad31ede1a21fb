# SPDX-License-Identifier: GPL-3.0-or-later
"""The checks of a turn of a log's key (SPEC G.6.13), each with the way to take exactly it away."""

from __future__ import annotations

from types import SimpleNamespace

from ragseal.client import history as client_history
from ragseal.kernel import rotation
from ragseal.ledger import turns
from ragseal.ledger.turns import LogKey, TurnProof
from ragseal.verifier import findings, participant
from ragseal.verifier.steps import manifest, receipts
from ragseal.verifier.steps import turns as auditor_turns
from tests.attacks.removal import Check, Guard, Removable

TURN_OLD_SIGNED = Check(rotation.Rotation, "verify_old")
TURN_NEW_SIGNED = Guard(rotation.Rotation, "verify", "by its new key")
TURN_OF_THIS_LOG = Guard(LogKey, "turned", "is of another log's key")
TURN_IN_ORDER = Guard(LogKey, "turned", "does not come behind turn")
TURN_OF_THE_NEWEST = Guard(LogKey, "turned", "that did not sign the log")
TURN_BEHIND_THE_OVERLAP = Guard(LogKey, "turned", "in the overlap of the turn")
TURN_TO_NO_OLDER_KEY = Guard(LogKey, "turned", "id of one that the log had")
TURN_IN_ITS_PLACE = Guard(turns, "read_turn", "signed for another place")
TURNED_ONCE = Check(turns, "refuse_contradiction")
OLD_KEY_ALONE = Check(auditor_turns, "_check_counted")
ONE_KEY_A_SIZE = Check(LogKey, "at", lambda key, size: key.newest)
NO_ANSWER_BESIDE_THE_LOG = Guard(receipts, "sort_receipts", "raise _off_the_log")
PIN_IN_TURNS = Check(auditor_turns, "refuse_later_pin")
PIN_IN_MANIFEST = Check(manifest, "refuse_later_pin")
SHOWN_TURNS = Check(findings, "check_shown")
KEYS_BESIDE = Check(findings, "keys_beside", lambda files, log_key: ())
TURN_IN_THIS_HISTORY = Check(client_history.History, "_in_this_history")
CACHED_NOTE_IS_VOID = Check(participant, "recall", lambda note, log: SimpleNamespace(void=False))
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
    "turn: a later key that was pinned convicts nobody by a manifest": PIN_IN_MANIFEST,
    "turn: a log that was read before it is known by the note that counts": CACHED_NOTE_IS_VOID,
    "turn shown: what the log's key signed of it is of this log": SHOWN_TURNS,
    "turn shown: answers under its key are the provider's": KEYS_BESIDE,
    "turn shown: of the history that the account knows": TURN_IN_THIS_HISTORY,
    "turn shown: both keys signed the size behind it": TURN_SIGNED_THERE,
    "turn shown: under a note of its size": TURN_SHOWN_IN_ITS_SIZE,
    "turn shown: in its place": TURN_SHOWN_IN_ITS_PLACE,
}

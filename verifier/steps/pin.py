# SPDX-License-Identifier: GPL-3.0-or-later
"""That the key which the auditor was given is the one that names the log, not a later one.  SPEC G.6.13.9."""

from __future__ import annotations

from ragseal.kernel.errors import AuditError
from ragseal.kernel.rotation import Rotation
from ragseal.kernel.verdict import log_digest
from ragseal.ledger.note import NoteVerifier
from ragseal.ledger.turns import is_turn
from ragseal.verifier.evidence import Undecided
from ragseal.verifier.steps.log import LogTree


def refuse_later_pin(tree: LogTree, log_key: NoteVerifier) -> None:
    """No entry turns a log of another first key to the pinned one.

    Raises:
        Undecided: one does.  The auditor pinned a later key of an honest log; what the log says of its name is no lie.
    """
    pinned, name = log_key.keys[0].public_key, log_digest(log_key.vkey())
    for entry in filter(is_turn, tree.entries):
        try:
            turn = Rotation.decode(entry)
        except AuditError:
            continue  # what is wrong with it is said where it is followed
        if turn.new_key == pinned and turn.log != name:
            raise Undecided(
                f"the key that this auditor was given is the one that {log_key.name} has turned to at entry "
                f"{turn.index}; the log is called by its first key, {turn.old_key.hex()} or one before it",
                "give the log's first key as --log-key: what `ragseal-provider init` printed as ledger key",
            )

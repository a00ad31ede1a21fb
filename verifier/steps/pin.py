# SPDX-License-Identifier: GPL-3.0-or-later
"""That the key which the auditor was given is the one that names the log, not a later one.  SPEC G.6.13.9."""

from __future__ import annotations

from ragseal.kernel.commitment import SignedManifest
from ragseal.kernel.encoding import peek_tag
from ragseal.kernel.errors import AuditError
from ragseal.kernel.rotation import Rotation
from ragseal.kernel.verdict import log_digest
from ragseal.ledger.note import NoteVerifier
from ragseal.ledger.turns import is_turn
from ragseal.verifier.evidence.evidence import Undecided
from ragseal.verifier.steps.log import LogTree


def refuse_later_pin(tree: LogTree, log_key: NoteVerifier) -> None:
    """No entry turns a log of another first key to the pinned one.

    A log that has a manifest under the pinned key's name goes by that name, whatever else is entered: else a provider
    that is about to be convicted would enter a turn to its own first key, and no receipt would be compared any more.

    Raises:
        Undecided: one does.  The auditor pinned a later key of an honest log; what the log says of its name is no lie.
    """
    pinned, name = log_key.keys[0].public_key, log_digest(log_key.vkey())
    if _goes_by(tree, name):
        return
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


def _goes_by(tree: LogTree, name: bytes) -> bool:
    """Whether an entry is a manifest of a window of the log that ``name`` is the digest of; only P enters any."""
    for entry in tree.entries:
        try:
            if peek_tag(entry) == SignedManifest.TAG and SignedManifest.decode(entry).manifest.log == name:
                return True
        except AuditError:
            continue  # what is wrong with it is said where it is read
    return False

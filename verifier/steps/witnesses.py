# SPDX-License-Identifier: GPL-3.0-or-later
"""That a quorum of the auditor's witnesses cosigned the log up to the window's close.  SPEC D.1.4."""

from __future__ import annotations

from ragseal.kernel.errors import AuditError, TransportError
from ragseal.ledger.note import NoteVerifier
from ragseal.ledger.policy import Policy, QuorumError
from ragseal.verifier.evidence.evidence import OTHER_LOG, Evidence, Undecided
from ragseal.verifier.steps.log import LogTree, read_tree
from ragseal.verifier.steps.recorder import Recorder
from ragseal.verifier.steps.turns import turned_by

WAIT = (
    "audit again in a few minutes, once witnesses had time; if it stays so, ask the provider whether it submits to the "
    "witnesses of your policy (`serve --witness-policy`), or them whether they are up"
)


def check_witnessed(
    policy: Policy, evidence: Evidence, log_key: NoteVerifier, tree: LogTree, close_index: int, most: int, say: Recorder
) -> None:
    """A note at or behind the entry that closed the window, with a quorum, of the history that this audit has read.

    ``most``: bytes of entries that are held, should the note be newer than what was read.

    Raises:
        Undecided: no such note.  Cosignatures that are missing or do not verify are nobody's lie: whoever is between
            can leave them out or spoil them, and a witness may be away.
        Refused, Undecided: as :func:`ragseal.verifier.steps.turns.turned_by`, of what was read beyond the log.
        Forked: the log signed that note and one that contradicts it.
    """
    if policy.asks_nobody:  # a policy without witnesses asks for nothing
        say(witnesses=[], witnessed_size=0)
        return
    note = evidence.cosigned()
    if note is None:
        raise Undecided("no witness has cosigned this log, as far as it is served", WAIT)
    try:
        signed = policy.open(note, log_key)
    except TransportError:
        raise
    except QuorumError as error:
        raise Undecided(str(error), WAIT, note=note) from None
    except AuditError as error:
        raise Undecided(f"the witnessed note does not hold: {error}", OTHER_LOG, note=note) from None
    size = signed.checkpoint.size
    if size <= close_index:
        raise Undecided(
            f"a quorum of witnesses cosigned {size} entries, the window ends with entry {close_index}", WAIT, note=note
        )
    if size > tree.size:
        # What follows hashes to the witnessed root, on top of what was read; a turn in it gives the old key up.
        turned_by(read_tree(evidence, signed, tree, most), log_key)
    else:
        tree.extends(signed, "the checkpoint that witnesses cosigned")
    say(witnesses=sorted({one.verifier.name for one in signed.witnesses}), witnessed_size=size)

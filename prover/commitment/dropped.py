# SPDX-License-Identifier: GPL-3.0-or-later
"""Versions of a live index that nobody needs any more leave the state folder.  SPEC A.12.12.

No record names them and none can: records name one of the newest versions, or are there already.  Salts and
blinders go, and texts and vectors that no other version has; what is public stays, since every version is audited.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragseal.kernel.errors import CommitmentError
from ragseal.kernel.versions import nameable
from ragseal.prover.commitment import slots
from ragseal.prover.storage.retirement import is_retired
from ragseal.prover.storage.state import State
from ragseal.prover.storage.window import Stage, Window


def needed(window: Window) -> set[int]:
    """Numbers of the updates of a window that answers and proofs may take: what records name, and what they may."""
    newest = len(window.updates)
    first = max(1, newest - nameable(window.manifest.policy) + 1)
    answering = range(first, newest + 1) if window.stage is Stage.OPEN else ()
    return {*window.named, *answering}


def _kept(state: State, manifest: bytes) -> list[int]:
    query = "SELECT DISTINCT number FROM versions WHERE manifest = ? AND number > 0 AND secret <> x'' ORDER BY number"
    return [int(number) for (number,) in state.rows(query, (manifest,))]


def droppable(state: State, window: Window) -> list[int]:
    """Numbers of the updates whose secrets are there and that nobody needs.

    What is made for an update that the log does not name yet stays.
    """
    if not window.every or is_retired(state, window.digest):
        return []
    keep, newest = needed(window), len(window.updates)
    return [number for number in _kept(state, window.digest) if number <= newest and number not in keep]


def drop(state: State, window: Window, numbers: Sequence[int]) -> None:
    """Delete what is secret of these updates, in one transaction.  No copy of the folder may be under way.

    What a slot held in one of them and holds in a version that is needed stays: :mod:`ragseal.prover.commitment.slots`.

    Raises:
        CommitmentError: somebody may need one of them.
        ConfigurationError: the disk or the database refuses; nothing was deleted.
    """
    if wanted := needed(window) & set(numbers):
        raise CommitmentError(f"version {min(wanted)} of the indices is still needed")
    with state.transaction() as db:
        blank = "UPDATE versions SET secret = x'', blinders = x'' WHERE manifest = ? AND number = ?"
        db.executemany(blank, [(window.digest, number) for number in numbers])
        slots.drop_unused(db, window.digest)


def is_dropped(state: State, manifest: bytes, number: int) -> bool:
    """Whether a version's secrets are gone."""
    query = "SELECT 1 FROM versions WHERE manifest = ? AND number = ? AND secret = x''"
    return state.row(query, (manifest, number)) is not None

# SPDX-License-Identifier: GPL-3.0-or-later
"""What must hold of a retired window: nothing secret is left, what is public is whole.  SPEC G.13."""

from __future__ import annotations

from collections.abc import Iterator

from ragseal.kernel import signature
from ragseal.kernel.commitment import IndexFile
from ragseal.kernel.emptied import EmptiedFile, plain_entry
from ragseal.kernel.errors import AuditError
from ragseal.kernel.thinning import ThinnedFile
from ragseal.kernel.versions import IndexUpdate
from ragseal.prover.commitment import slots
from ragseal.prover.commitment.dropped import needed
from ragseal.prover.storage.state import State
from ragseal.prover.storage.window import Window
from ragseal.prover.storage.window_keys import load_window_key

_LEFT = {
    "texts": "SELECT COUNT(*) FROM version_texts WHERE manifest = ?",
    "secrets of queries": "SELECT COUNT(*) FROM queries WHERE manifest = ?",
    "embeddings": "SELECT COUNT(*) FROM prepared WHERE manifest = ?",
    "proofs of shards": "SELECT COUNT(*) FROM shard_proofs WHERE manifest = ?",
    "salts, blinders or matrices": (
        "SELECT COUNT(*) FROM versions WHERE manifest = ? AND (secret <> x'' OR blinders <> x'' OR matrix <> '')"
    ),
    "hidden slots": "SELECT COUNT(*) FROM thinnings WHERE manifest = ? AND (hidden <> x'' OR blinders <> x'')",
    "seeds": "SELECT COUNT(*) FROM windows WHERE manifest = ? AND (seed <> x'' OR nonce <> x'' OR blinding <> x'')",
}


def unfinished(state: State, window: Window) -> bool:
    """Whether its purge was begun and not ended."""
    found = state.row("SELECT ended FROM retirements WHERE manifest = ?", (window.digest,))
    return found is not None and found[0] is None


def problems(state: State, window: Window) -> Iterator[str]:
    """Every problem found in what is kept of a window whose purge has ended."""
    for what, query in _LEFT.items():
        found = state.row(query, (window.digest,))
        if found is not None and found[0]:
            yield f"the window is retired, and {what} of it are left: they should be purged"
    try:
        key = signature.public_bytes(load_window_key(state, window.digest))
    except AuditError:
        key = b""
    if key != window.manifest.window_key:
        yield "the window's signing key is not the one that its manifest names, so no audit is answered: restore it"
    for one in window.manifest.tenants:
        query = "SELECT public FROM versions WHERE manifest = ? AND number = 0 AND tenant = ?"
        stored = state.row(query, (window.digest, one.tenant))
        try:
            file = None if stored is None else IndexFile.decode(stored[0])
        except AuditError as error:
            yield f"columns of tenant {one.tenant!r}: {error}"
            continue
        if file is None or (file.columns_digest(), file.opening_digest()) != (one.columns_digest, one.opening_digest):
            yield f"the columns of tenant {one.tenant!r} are not those that the manifest names: restore a backup"
    for _, update in window.updates:
        yield from _update_problems(state, window, update)
    for thin in () if window.thinning is None else window.thinning.tenants:
        query = "SELECT public FROM thinnings WHERE manifest = ? AND tenant = ?"
        stored = state.row(query, (window.digest, thin.tenant))
        if stored is None or ThinnedFile.decode(stored[0]).entry(thin.tenant) != thin:
            yield f"the thinned columns of tenant {thin.tenant!r} are not those that the log names: restore a backup"


def _update_problems(state: State, window: Window, update: IndexUpdate) -> Iterator[str]:
    """Of the public files of one update."""
    for line in update.tenants:
        query = "SELECT public FROM versions WHERE manifest = ? AND number = ? AND tenant = ?"
        stored = state.row(query, (window.digest, update.number, line.tenant))
        try:
            if stored is None:
                found = None
            elif line.proof_digests:
                found = EmptiedFile.decode(stored[0]).entry(line.tenant, line.text_root)
            else:
                found = plain_entry(IndexFile.decode(stored[0]), line.tenant, line.text_root)
        except AuditError as error:
            yield f"version {update.number} of tenant {line.tenant!r}: {error}"
            continue
        if found != line:
            yield (
                f"version {update.number} of the columns of tenant {line.tenant!r} is not what the log names: restore "
                "a backup"
            )


def dropped_problems(state: State, window: Window, update: IndexUpdate) -> Iterator[str]:
    """Every problem found in what is left of a version whose secrets were deleted before its window was retired."""
    if update.number in needed(window):
        yield f"version {update.number} of the indices was deleted, and answers or proofs need it: restore a backup"
    query = (
        "SELECT COUNT(*) FROM versions WHERE manifest = ? AND number = ? AND (secret <> x'' OR blinders <> x'' "
        "OR matrix <> '')"
    )
    left = state.row(query, (window.digest, update.number))
    if (left and left[0]) or slots.left_of(state, window.digest, update.number):
        yield f"version {update.number} of the indices was deleted in part: its salts, blinders or texts are left"
    yield from _update_problems(state, window, update)


def unproven(state: State, window: Window) -> int:
    """How many of its records have no proof: an audit of it ends without a verdict."""
    found = state.row("SELECT COUNT(*) FROM proofs WHERE manifest = ?", (window.digest,))
    return len(window.records) - (int(found[0]) if found else 0)

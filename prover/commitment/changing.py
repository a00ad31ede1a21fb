# SPDX-License-Identifier: GPL-3.0-or-later
"""A provider takes another circuit class or embedder, and keeps its log, keys, accounts, documents and budget.

Windows that are kept to answer again and to prove need the class that they were committed with, so all of them are
retired first; their audits are given what was made before (SPEC G.13.3).  Documents are placed afresh, as the number of
places changes, so the next window throws its own coins (SPEC A.11.10), and accounting of the budget period goes on.

While it is under way a file says so, and nothing else opens the folder: rows of two embedders could not be told apart.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from ragseal.embedder import Embedder, quantise
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.errors import CommitmentError, ConfigurationError, LedgerError
from ragseal.prover.base.randomness import Draw
from ragseal.prover.commitment.placement import ASIDE, KEY_BYTES, IndexShape, next_slots
from ragseal.prover.storage.history import History
from ragseal.prover.storage.retirement import is_retired, unfinished
from ragseal.prover.storage.state import NEXT, SETTINGS, Settings, State
from ragseal.runtime.durable import sync_directory, write_durably
from ragseal.runtime.edges.filesystem import why

TOGETHER = 256  #: texts that are embedded between two reports of progress

Progress = Callable[[str, int, int], None]


def require_retired(state: State, history: History) -> None:
    """Raises CommitmentError: a window may still answer or be proven; LedgerError: the folder is a copy."""
    if state.frozen is not None:
        raise LedgerError(state.frozen)
    for window in history.windows.values():
        if not is_retired(state, window.digest):
            name = window.manifest.window
            raise CommitmentError(
                f"window {name!r} is kept to answer again and to prove, which takes the class and the embedder that it "
                f"was committed with. Nothing was changed. Close it, and `ragseal-provider retire {name} --yes` once "
                "its verdict is in; a full audit is given the proofs later too"
            )
    if unfinished(state):
        raise CommitmentError("a window is being retired: start `ragseal-provider serve` once, it finishes that")


def change(
    state: State, made: Settings, cls: AttestationClass, embedder: Embedder, draw: Draw, progress: Progress
) -> dict[str, int]:
    """Take another class or embedder.  All or nothing; one that broke off is to be done again, with any settings.

    Args:
        made: the settings from now on; ``cls`` and ``embedder`` are those that they name.

    Returns:
        Documents by tenant.

    Raises:
        CommitmentError: a tenant has more documents than the class has places; nothing was changed.
        ConfigurationError: the disk or the database refuses.
    """
    shape = IndexShape(made.shards * cls.N, embedder.dimension)
    anew = made.embedder != state.settings.embedder or (state.directory / NEXT).exists()
    tenants = state.rows("SELECT name, revision FROM tenants ORDER BY name")
    counts = {
        str(tenant): int(state.rows("SELECT COUNT(*) FROM documents WHERE tenant = ?", (tenant,))[0][0])
        for tenant, _ in tenants
    }
    for tenant, count in counts.items():
        if count > shape.places:
            raise CommitmentError(
                f"tenant {tenant!r} has {count} documents, {made.shards} x class {cls.name!r} has {shape.places} "
                "places: nothing was changed; take a larger class, or more shards"
            )
    rows = {tenant: _rows(state, tenant, embedder, anew, progress) for tenant in counts}
    _write(state.directory / NEXT, made)
    with state.transaction() as db:
        for tenant, revision in tenants:
            placement, names = draw(KEY_BYTES), list(rows[tenant])
            places = next_slots(placement, 0, len(names), shape)
            db.execute("UPDATE documents SET slot = slot + ? WHERE tenant = ?", (ASIDE, tenant))
            db.executemany(
                "UPDATE documents SET slot = ?, row = ? WHERE tenant = ? AND document = ?",
                [(slot, rows[tenant][name], tenant, name) for slot, name in zip(places, names, strict=True)],
            )
            db.execute("DELETE FROM resting WHERE tenant = ?", (tenant,))
            line = (tenant, placement, len(names), shape.capacity, shape.block_slots, revision + 1)
            db.execute("INSERT OR REPLACE INTO tenants VALUES (?, ?, ?, ?, ?, ?)", line)
    _write(state.directory / SETTINGS, made)
    (state.directory / NEXT).unlink()
    sync_directory(state.directory)
    return counts


def _rows(state: State, tenant: str, embedder: Embedder, anew: bool, progress: Progress) -> dict[str, bytes]:
    """By id the quantised vectors, in the order of slots, of which ids tell nothing; embedded ``anew``, or as kept."""
    query = "SELECT document, text, row FROM documents WHERE tenant = ? ORDER BY slot"
    found = state.rows(query, (tenant,))
    if not anew:
        return {name: row for name, _, row in found}
    made = dict[str, bytes]()
    for start in range(0, len(found), TOGETHER):
        progress(f"embedding documents of tenant {tenant}", start, len(found))
        part = found[start : start + TOGETHER]
        vectors = quantise(embedder.embed([text for _, text, _ in part]))
        if vectors.shape != (len(part), embedder.dimension) or vectors.dtype != np.int8:
            raise ConfigurationError(f"the embedder gave {vectors.shape} {vectors.dtype} for {len(part)} texts")
        made |= {name: row.tobytes() for (name, _, _), row in zip(part, vectors, strict=True)}
    return made


def _write(path: Path, made: Settings) -> None:
    try:
        write_durably(path, made.encode() + b"\n", mode=0o600)
    except OSError as error:
        raise ConfigurationError(f"cannot write {path}: {why(error, path)}") from None

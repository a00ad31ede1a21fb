# SPDX-License-Identifier: GPL-3.0-or-later
"""A tenant's documents as the next committed version will hold them: put, changed, deleted.  SPEC A.3.1, A.3.2.

A window answers from the version that was committed for it, so nothing here touches a window that runs.  A document
keeps its place while it is edited; a deleted one's place stays empty until the period ends, or until a document of its
id is put again: elsewhere it would have a second coin (see :mod:`ragseal.prover.commitment.placement`).  Once all
places were used, new documents wait for a window whose index is larger (:mod:`ragseal.prover.commitment.growth`).
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ragseal.kernel.encoding import NAME
from ragseal.kernel.errors import AuditError, CommitmentError, EncodingError
from ragseal.prover.base.randomness import Draw
from ragseal.prover.commitment.corpora import Document
from ragseal.prover.commitment.document_rows import begun, put_to_rest, require_revision, resting_name
from ragseal.prover.commitment.growth import waiting_slots
from ragseal.prover.commitment.placement import KEY_BYTES, IndexShape, next_slots
from ragseal.prover.commitment.slots import Written
from ragseal.prover.storage import tombstones
from ragseal.prover.storage.state import State

FEW = 256  #: changes up to which the documents that they name are looked up one by one

Row = npt.NDArray[np.int8]  #: (d,), one document's quantised vector
Embed = Callable[[Sequence[str]], npt.NDArray[np.int8]]  #: n texts -> quantised rows, (n, d)


@dataclass(frozen=True, slots=True)
class Put:
    """A document that is to be there with this content."""

    document: Document
    row: Row | None = None  #: its quantised vector, where that is not to be computed from the text

    def content(self) -> bytes:
        """SHA-256 of all that the index takes of it; a document with the same one is unchanged."""
        said = self.document.content.encode()
        return hashlib.sha256(said + (b"" if self.row is None else b"\0" + self.row.tobytes())).digest()


@dataclass(frozen=True, slots=True)
class Delete:
    """A document that is not to be there; one that is not is none the worse for it."""

    id: str


Change = Put | Delete


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a source was read, kept with what was read."""

    source: str  #: the source's identity
    value: str  #: what the source itself calls this moment


@dataclass(frozen=True, slots=True)
class Applied:
    """What changes did, in documents."""

    added: int = 0
    changed: int = 0
    deleted: int = 0
    unchanged: int = 0  #: there with the same content, or to be deleted and not there
    erased: int = 0  #: in the source, and erased here: they stay out
    waiting: int = 0  #: of those added, how many have no place before the next window

    def __add__(self, other: Applied) -> Applied:
        """Of one run of changes after another."""
        return Applied(
            self.added + other.added,
            self.changed + other.changed,
            self.deleted + other.deleted,
            self.unchanged + other.unchanged,
            self.erased + other.erased,
            self.waiting + other.waiting,
        )

    @property
    def any(self) -> bool:
        """Whether the next version differs."""
        return bool(self.added or self.changed or self.deleted)


@dataclass(slots=True)
class _Plan:
    """What is to be done, once every change was looked at."""

    inserted: dict[str, Put] = field(default_factory=dict)  #: in the order of insertion
    edited: dict[str, Put] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    same: set[str] = field(default_factory=set)
    absent: set[str] = field(default_factory=set)

    def take(self, change: Change, present: Mapping[str, bytes]) -> None:
        """One change after another; of an id that occurs more than once, in their order."""
        if isinstance(change, Delete):
            if self.inserted.pop(change.id, None) is not None:
                return  # put and deleted before any version could show it: it needs no place
            if change.id in present:
                self.deleted.add(change.id)
                self.edited.pop(change.id, None)
                self.same.discard(change.id)
            else:
                self.absent.add(change.id)
            return
        name = change.document.id
        if name not in present or name in self.deleted:
            self.inserted[name] = change
        elif present[name] == change.content():
            self.edited.pop(name, None)
            self.same.add(name)
        else:
            self.same.discard(name)
            self.edited[name] = change


def apply(
    state: State,
    tenant: str,
    changes: Iterable[Change],
    embed: Embed,
    draw: Draw,
    shape: IndexShape,
    *,
    source: str = "",
    mark: Mark | None = None,
) -> Applied:
    """Make changes to a tenant's documents, all of them or none, in one transaction.

    Args:
        changes: read once; of one id several times, the order counts.
        embed: called once, with the texts that are new or changed and came without a row.
        shape: as a new tenant begins with; the capacity of one that is there is its period's.
        source: identity of the source that documents are put from; remembered with each.  What was erased (G.12) is not
            taken from a source again; an operator who puts it without one asks for it anew.
        mark: how far that source was read; in the same transaction.

    Raises:
        CommitmentError: more documents than the index can ever have places for (before anything is embedded or
            written), an oversized or malformed name or text, a row of another shape, another shape of the index,
            documents that are too long for one answer together, or documents that were changed by somebody else
            meanwhile.
    """
    check_name(tenant)
    running = begun(state, tenant)
    shape = running.continued(tenant, shape) if running else shape
    stored = _stored(state, tenant, changes)
    present = {name: content for name, content, _ in stored}
    plan, stays_out, erased = _Plan(), tombstones.erased_of(state, tenant), 0
    for change in changes:
        if isinstance(change, Put):
            if source and stays_out(change.document.id):
                erased += 1
                continue
            _check_put(change, shape)
        plan.take(change, present)
    placement, used, revision = (
        (running.placement, running.used, running.revision) if running else (draw(KEY_BYTES), 0, 0)
    )
    own = _own_slots(state, tenant, placement, plan)
    unused = [name for name in plan.inserted if name not in own]
    placed = min(len(unused), shape.places - used)
    _require_places(state, tenant, shape, used, plan, len(unused) - placed)
    written = [*plan.inserted.values(), *plan.edited.values()]
    rows = _rows(written, embed, shape.dimension)
    given = next_slots(placement, used, placed, shape) + waiting_slots(state, tenant, len(unused) - placed)
    slots = own | dict(zip(unused, given, strict=True))
    moved = [name for name, _, owner in stored if name in plan.same and owner != source]
    line = (tenant, placement, used + placed, shape.capacity, shape.block_slots, revision + 1)
    with state.transaction() as db:
        require_revision(db, tenant, revision)
        for name in plan.deleted:
            put_to_rest(db, tenant, name, resting_name(placement, name))
        for put, row in zip(plan.inserted.values(), rows, strict=False):
            db.execute(
                "DELETE FROM resting WHERE tenant = ? AND document = ?",
                (tenant, resting_name(placement, put.document.id)),
            )
            _insert(db, tenant, slots[put.document.id], put, row, source)
        for put, row in zip(plan.edited.values(), rows[len(slots) :], strict=True):
            _edit(db, tenant, put, row, source)
        if not source:
            tombstones.put_again(db, tenant, [put.document.id for put in written])
        for name in moved:
            db.execute("UPDATE documents SET source = ? WHERE tenant = ? AND document = ?", (source, tenant, name))
        db.execute("INSERT OR REPLACE INTO tenants VALUES (?, ?, ?, ?, ?, ?)", line)
        if written and shape.answers is not None:
            shape.answers.require(Written(db), tenant)  # a live index answers from them at its next tick
        if mark is not None:
            db.execute("INSERT OR REPLACE INTO source_marks VALUES (?, ?, ?)", (tenant, mark.source, mark.value))
    return Applied(
        added=len(plan.inserted.keys() - plan.deleted),
        changed=len(plan.edited) + len(plan.inserted.keys() & plan.deleted),
        deleted=len(plan.deleted - plan.inserted.keys()),
        unchanged=len(plan.same) + len(plan.absent - plan.inserted.keys()),
        erased=erased,
        waiting=sum(slots[name] < 0 for name in plan.inserted),
    )


def delete(state: State, tenant: str, names: Sequence[str], draw: Draw, shape: IndexShape) -> Applied:
    """Delete documents by id, all of them or none.

    Raises:
        CommitmentError: an id that is not there, or as :func:`apply`.
    """
    present = {name for (name,) in state.rows("SELECT document FROM documents WHERE tenant = ?", (tenant,))}
    missing = [name for name in names if name not in present]
    if missing:
        shown = ", ".join(repr(name[:80]) for name in missing[:5]) + (" and more" if len(missing) > 5 else "")
        raise CommitmentError(
            f"tenant {tenant!r} has no document {shown}: nothing was deleted; `documents list` shows what is there"
        )
    return apply(state, tenant, [Delete(name) for name in names], _nothing_to_embed, draw, shape)


def check_name(tenant: str) -> None:
    """Raises CommitmentError: no name that a tenant can have."""
    try:
        NAME.write(tenant, bytearray())
    except EncodingError as error:
        raise CommitmentError(f"tenant name: {error}") from None


# --- parts of apply --------------------------------------------------------------------------------------------------


def _stored(state: State, tenant: str, changes: Iterable[Change]) -> list[tuple[str, bytes, str]]:
    """Id, content and source of the tenant's documents; of a few changes only those that they name."""
    query = "SELECT document, content, source FROM documents WHERE tenant = ?"
    if not isinstance(changes, Sequence) or len(changes) > FEW:
        return state.rows(query, (tenant,))
    names = {one.id if isinstance(one, Delete) else one.document.id for one in changes}
    return [row for name in names for row in state.rows(f"{query} AND document = ?", (tenant, name))]


def _require_places(state: State, tenant: str, shape: IndexShape, used: int, plan: _Plan, waiting: int) -> None:
    """Of the planned documents ``waiting`` ones have no place in this period."""
    if not waiting:
        return
    query = "SELECT COUNT(*), TOTAL(slot >= 0) FROM documents WHERE tenant = ?"
    ((present, placed),) = state.rows(query, (tenant,))
    wanted = len(plan.inserted)
    if not shape.most:
        raise CommitmentError(
            f"{wanted} new documents for tenant {tenant!r}, and {shape.places - used} of {shape.places} places are "
            f"unused in this period ({used - int(placed)} rest: their documents were deleted). None of them was put. A "
            "new period frees those that rest: `ragseal-provider documents new-period`, between two windows. Or use a "
            "larger class (`ragseal-provider change`), or split the corpus into tenants"
        )
    if present - len(plan.deleted) + wanted > shape.most_places:
        raise CommitmentError(
            f"{wanted} new documents for tenant {tenant!r}, which has {present}: an index of this class has "
            f"{shape.most_places} places at most. None of them was put. Use a larger class (`ragseal-provider "
            "change`), or split the corpus into tenants"
        )


def _own_slots(state: State, tenant: str, placement: bytes, plan: _Plan) -> dict[str, int]:
    """Slots of inserted documents that had one in this period: in another one they would have two coins (A.11.10)."""
    if len(plan.inserted) <= FEW:
        resting, leaving = dict[bytes, int](), dict[str, int]()
        for name in plan.inserted:
            query, key = "WHERE tenant = ? AND document = ?", resting_name(placement, name)
            resting |= dict(state.rows(f"SELECT document, slot FROM resting {query}", (tenant, key)))
            leaving |= dict(state.rows(f"SELECT document, slot FROM documents {query}", (tenant, name)))
    else:
        resting = dict(state.rows("SELECT document, slot FROM resting WHERE tenant = ?", (tenant,)))
        leaving = dict(state.rows("SELECT document, slot FROM documents WHERE tenant = ?", (tenant,)))
    named = {name: resting.get(resting_name(placement, name), leaving.get(name)) for name in plan.inserted}
    return {name: slot for name, slot in named.items() if slot is not None}


def _check_put(put: Put, shape: IndexShape) -> None:
    try:
        put.document.content.check()
    except AuditError as error:
        raise CommitmentError(f"document {put.document.id[:80]!r} fits no slot: {error}") from None
    if put.row is not None and (put.row.shape != (shape.dimension,) or put.row.dtype != np.int8):
        raise CommitmentError(
            f"document {put.document.id[:80]!r} has a row {put.row.dtype} {put.row.shape}, not {shape.dimension} int8"
        )


def _rows(puts: Sequence[Put], embed: Embed, dimension: int) -> list[bytes]:
    """Every put's row; those that have none are embedded together."""
    texts = [put.document.text for put in puts if put.row is None]
    rows = embed(texts) if texts else np.zeros((0, dimension), dtype=np.int8)
    if rows.shape != (len(texts), dimension) or rows.dtype != np.int8:
        raise CommitmentError(f"the embedder gave {rows.shape} {rows.dtype}, not ({len(texts)}, {dimension}) int8")
    made = iter(rows)
    return [(next(made) if put.row is None else put.row).tobytes() for put in puts]


def _insert(db: sqlite3.Connection, tenant: str, slot: int, put: Put, row: bytes, source: str) -> None:
    one = put.document
    values = (tenant, slot, one.id, one.text, one.metadata.encode(), row, put.content(), source)
    db.execute("INSERT INTO documents VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)


def _edit(db: sqlite3.Connection, tenant: str, put: Put, row: bytes, source: str) -> None:
    one = put.document
    values = (one.text, one.metadata.encode(), row, put.content(), source, tenant, one.id)
    query = "UPDATE documents SET text = ?, metadata = ?, row = ?, content = ?, source = ?"
    db.execute(f"{query} WHERE tenant = ? AND document = ?", values)


def _nothing_to_embed(texts: Sequence[str]) -> npt.NDArray[np.int8]:
    raise CommitmentError(f"{len(texts)} texts to embed where documents are only deleted")

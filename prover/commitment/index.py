# SPDX-License-Identifier: GPL-3.0-or-later
"""A tenant's index: which slot holds which document, and what of it a window commits to.  SPEC A.3, A.4.

Documents come and go in :mod:`ragseal.prover.commitment.documents`.  :class:`Version` is the index as one window sees
it: int8 matrix, texts, salts and their Merkle tree, column blinders.
"""

from __future__ import annotations

import hashlib
import hmac
import io
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from ragseal.backends.scores import ScoreMatrix, score_matrix
from ragseal.groth16.thinning import thin
from ragseal.kernel import field
from ragseal.kernel.attestation import TextOpening
from ragseal.kernel.commitment import IndexFile, TenantIndex, shard_columns, text_leaf
from ragseal.kernel.emptied import EmptiedFile, plain_entry
from ragseal.kernel.errors import CommitmentError, ConfigurationError
from ragseal.kernel.slot_text import SlotText
from ragseal.kernel.thinning import ThinnedFile
from ragseal.kernel.versions import UpdatedIndex
from ragseal.ledger.merkle import MerkleTree
from ragseal.prover.commitment import slots
from ragseal.prover.commitment.slots import Readable
from ragseal.prover.commitment.texts import by_slot, load_texts
from ragseal.prover.storage.state import State
from ragseal.runtime.durable import write_durably
from ragseal.runtime.edges.filesystem import why

Matrix = npt.NDArray[np.int8]

# --- the documents now ------------------------------------------------------------------------------------------------


def tenants(state: State) -> list[tuple[str, int]]:
    """Every tenant and the number of its documents, by name."""
    query = "SELECT t.name, COUNT(d.slot) FROM tenants t LEFT JOIN documents d ON d.tenant = t.name GROUP BY t.name"
    return [(str(name), int(count)) for name, count in state.rows(query + " ORDER BY t.name")]


def current(source: Readable, tenant: str, capacity: int, dimension: int) -> tuple[Matrix, Mapping[int, SlotText]]:
    """The tenant's index now: matrix (capacity, dimension), empty slots zero, and what can be read by slot.

    Args:
        source: a snapshot, where others may change documents meanwhile; texts of a large index are read from it later.

    Raises:
        CommitmentError: a stored row has another dimension, or lies outside the capacity.
    """
    own = slots.document_slots(source, tenant)
    matrix = np.zeros((capacity, dimension), dtype=np.int8)
    for slot, row in own.each("row"):
        if slot >= capacity or len(row) != dimension:
            raise CommitmentError(
                f"the documents of tenant {tenant!r} were put for another class or embedder (slot {slot}, {len(row)} "
                "entries): `ragseal-provider change` brings them to this one, between windows"
            )
        matrix[slot] = np.frombuffer(row, dtype=np.int8)
    return matrix, load_texts(own, capacity)


def contents(source: Readable, tenant: str, names: Container[str]) -> Iterator[tuple[SlotText, bytes]]:
    """What the tenant's index holds now of the documents with these ids: what can be read, and the row."""
    for _, name, *others, row in slots.document_slots(source, tenant).each(f"{slots.TEXT}, row"):
        if name in names:
            yield slots.stored(name, *others), row


# --- a window's version ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Columns:
    """A matrix with commitments to its columns: what a record's C_y is made of."""

    matrix: Matrix  #: (slots, d), of all shards one after the other
    blinders: tuple[int, ...]  #: beta_j, one for a column of a shard
    points: bytes  #: C_j, 64 bytes each, in the same order

    def __repr__(self) -> str:
        return f"Columns({self.matrix.shape})"

    @cached_property
    def shard_points(self) -> list[bytes]:
        """The column commitments of every shard; the same objects whenever they are asked for."""
        dimension = self.matrix.shape[1]
        return shard_columns(self.points, dimension, len(self.blinders) // dimension)

    @cached_property
    def scored(self) -> ScoreMatrix:
        """The matrix made ready for queries, once."""
        return score_matrix(self.matrix)


@dataclass(frozen=True)
class Thinned:
    """Which slots of a version its coins hide, and the columns without them.  SPEC A.11."""

    hidden: tuple[bool, ...]  #: one a slot
    blinders: tuple[int, ...]  #: of the thinned columns
    public: ThinnedFile

    def __repr__(self) -> str:
        return f"Thinned({len(self.hidden)} slots)"


@dataclass(frozen=True)
class Version:
    """One tenant's index as a window commits to it, secrets included."""

    tenant: str
    matrix: Matrix  #: (slots, d), as placed
    texts: Mapping[int, SlotText]  #: of the filled slots
    secret: bytes  #: 32 bytes; salts of the text tree
    blinders: tuple[int, ...]  #: of the placed columns
    public: IndexFile
    coined: bool = False  #: whether queries are answered from thinned columns only
    thinned: Thinned | None = None  #: which slots the coins hide, once they have decided
    number: int = 0  #: of the update that names it; 0: the window's manifest does
    emptied: EmptiedFile | None = None  #: of an update of a window with coins: the proof that hidden slots are empty
    named: bytes = b""  #: how requests call an update's version
    claim: str = ""  #: of the tenant, where it is lower than the policy's

    def __repr__(self) -> str:
        return f"Version({self.tenant!r}, {self.matrix.shape})"

    @cached_property
    def in_force(self) -> Columns:
        """What queries are answered from.

        Raises:
            CommitmentError: the window's coins have not decided yet what that is.
        """
        if not self.coined:
            return Columns(self.matrix, self.blinders, self.public.columns)
        if self.thinned is None:
            raise CommitmentError(f"the index of tenant {self.tenant!r} is not thinned yet: the window is not open")
        return Columns(thin(self.matrix, self.thinned.hidden), self.thinned.blinders, self.thinned.public.columns)

    @cached_property
    def documents(self) -> dict[str, tuple[int, ...]]:
        """Slots by document, in order of ids; one that fills several slots is one document."""
        found: dict[str, list[int]] = {}
        for slot, content in self.texts.items():
            found.setdefault(content.id, []).append(slot)
        return {name: tuple(sorted(own)) for name, own in sorted(found.items())}

    def document_text(self, own: Sequence[int]) -> str:
        """What the document in these slots says."""
        return "\n".join(self.texts[slot].text for slot in own)

    @cached_property
    def tree(self) -> MerkleTree:
        """One leaf a slot, empty or not."""
        return text_tree(self.secret, self.texts, self.matrix.shape[0])

    @cached_property
    def committed(self) -> TenantIndex:
        """The entry of the manifest."""
        return TenantIndex(
            tenant=self.tenant,
            dimension=self.matrix.shape[1],
            columns_digest=self.public.columns_digest(),
            opening_digest=self.public.opening_digest(),
            text_root=self.tree.root(),
            claim=self.claim,
        )

    @property
    def digest(self) -> bytes:
        """How requests and records call this version."""
        return self.named or self.committed.digest()

    @cached_property
    def updated(self) -> UpdatedIndex:
        """The line of an update."""
        if self.emptied is not None:
            return self.emptied.entry(self.tenant, self.tree.root())
        return plain_entry(self.public, self.tenant, self.tree.root())

    def open_text(self, slot: int) -> TextOpening:
        """What can be read of a filled slot, with salt and path in the text tree.

        Raises:
            CommitmentError: the slot is empty.
        """
        if slot not in self.texts:
            raise CommitmentError(f"slot {slot} is to be opened, but this version of the index has no text for it")
        return TextOpening(self.texts[slot], slot_salt(self.secret, slot), tuple(self.tree.path(slot)))


def slot_salt(secret: bytes, slot: int) -> bytes:
    """32 bytes, unpredictable without the version's secret."""
    return hmac.new(secret, b"slot-salt" + slot.to_bytes(4, "big"), hashlib.sha256).digest()


def text_tree(secret: bytes, texts: Mapping[int, SlotText], capacity: int) -> MerkleTree:
    """The Merkle tree over salted hashes of what the slots hold."""
    contents = enumerate(by_slot(texts, capacity))
    return MerkleTree(text_leaf(slot_salt(secret, slot), slot, content) for slot, content in contents)


def save_version(state: State, manifest: bytes, version: Version) -> str:
    """Write the matrix of a version that a manifest names, durably.

    Returns:
        The file's name, which the caller's transaction records.

    An update's matrix is in its rows (:mod:`ragseal.prover.commitment.slots`): most of them change little.
    """
    name = f"{manifest.hex()[:32]}-{hashlib.sha256(version.tenant.encode()).hexdigest()[:16]}.npy"
    buffer = io.BytesIO()
    np.save(buffer, version.matrix, allow_pickle=False)
    try:
        write_durably(state.windows_directory / name, buffer.getvalue(), mode=0o600)
    except OSError as error:
        raise ConfigurationError(
            f"cannot write {state.windows_directory / name}: {why(error, state.windows_directory / name)}"
        ) from None
    return name


def load_version(
    state: State, manifest: bytes, tenant: str, coined: bool = False, number: int = 0, claim: str = ""
) -> Version:
    """A committed version, and what its coins hide if that is known.

    Args:
        coined: the tenant's claim has coins.
        number: of the update; 0: what the manifest commits to.
        claim: of the tenant, where it is lower than the policy's.

    Raises:
        CommitmentError: this state holds none, or its matrix is not the stored shape.
    """
    found = state.row(
        "SELECT secret, blinders, public, matrix FROM versions WHERE manifest = ? AND number = ? AND tenant = ?",
        (manifest, number, tenant),
    )
    if found is None:
        raise CommitmentError(f"no index of tenant {tenant!r} was committed for this window")
    secret, blinders, public, name = found
    own = slots.version_slots(state, manifest, tenant, number)
    if number:
        matrix = slots.load_matrix(own, _shape(state, manifest, tenant))
    else:
        matrix = _load_matrix(state.windows_directory / name)
    emptied = EmptiedFile.decode(public) if number and coined else None
    return Version(
        tenant=tenant,
        matrix=matrix,
        texts=load_texts(own, len(matrix)),
        secret=secret,
        blinders=tuple(field.unpack(blinders)),
        public=IndexFile.decode(public) if emptied is None else emptied.index,
        coined=coined and not number,
        thinned=None if number else _load_thinned(state, manifest, tenant, len(matrix)),
        number=number,
        emptied=emptied,
        claim=claim,
    )


def _load_thinned(state: State, manifest: bytes, tenant: str, capacity: int) -> Thinned | None:
    found = state.row(
        "SELECT hidden, blinders, public FROM thinnings WHERE manifest = ? AND tenant = ?", (manifest, tenant)
    )
    if found is None:
        return None
    bits, blinders, public = found
    hidden = np.unpackbits(np.frombuffer(bits, dtype=np.uint8), count=capacity).astype(bool).tolist()
    return Thinned(tuple(hidden), tuple(field.unpack(blinders)), ThinnedFile.decode(public))


def _shape(state: State, manifest: bytes, tenant: str) -> tuple[int, int]:
    """Slots and dimension of the versions of a window: those of the matrix that its manifest names."""
    found = state.row(
        "SELECT matrix FROM versions WHERE manifest = ? AND number = 0 AND tenant = ?", (manifest, tenant)
    )
    if found is None:
        raise CommitmentError(f"no index of tenant {tenant!r} was committed for this window")
    capacity, dimension = _mapped(state.windows_directory / found[0]).shape
    return capacity, dimension


def _load_matrix(path: Path) -> Matrix:
    return _read(path, None)  # in memory: the file may be overwritten while it is used


def _mapped(path: Path) -> Matrix:
    """A stored matrix, read only as far as it is used."""
    return _read(path, "r")


def _read(path: Path, mode: Literal["r"] | None) -> Matrix:
    if path.exists() and not path.is_file():  # a pipe would be waited for
        raise CommitmentError(f"the committed matrix {path} is not a regular file: something else lies at its path")
    try:
        matrix: Matrix = np.load(path, mmap_mode=mode, allow_pickle=False)
    except OSError as error:
        raise CommitmentError(f"the committed matrix {path} cannot be read: {why(error, path)}") from None
    except (ValueError, EOFError) as error:
        raise CommitmentError(f"the committed matrix {path} cannot be read ({error}): restore a backup") from None
    if matrix.ndim != 2 or matrix.dtype != np.int8:
        raise CommitmentError(f"{path} is not an int8 matrix")
    return matrix

# SPDX-License-Identifier: GPL-3.0-or-later
"""Column commitments of an index with their proof of opening.  SPEC A."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from ragseal.backends.native import available, native, native_errors
from ragseal.kernel import commitment, field
from ragseal.kernel.bn254 import POINT_BYTES, Group, split_points
from ragseal.kernel.commitment import IndexFile, ScoreBases
from ragseal.kernel.errors import CommitmentError
from ragseal.kernel.opening import powers
from ragseal.kernel.params import R
from ragseal.kernel.slot_text import SlotText
from ragseal.prover.base.randomness import Draw, packed_scalars
from ragseal.prover.commitment.index import Columns, Matrix, Version


def commit_columns(group: Group, bases: ScoreBases, matrix: Matrix, blinders: Sequence[int]) -> bytes:
    """C_j = sum_i E[i][j] Y_i + beta_j B for every column of every shard, 64 bytes each.

    A matrix of several times as many rows as there are bases is that of so many shards, one after the other.

    Raises:
        CommitmentError: matrix, bases and blinders do not fit one another.
        ProofError: a base is malformed.
    """
    rows, columns = matrix.shape
    if not rows or rows % bases.capacity or columns * (rows // bases.capacity) != len(blinders):
        raise CommitmentError(f"a matrix of {rows} x {columns} for {bases.capacity} bases and {len(blinders)} blinders")
    if rows > bases.capacity:
        own = zip(shards_of(matrix, bases.capacity), parts_of(blinders, columns), strict=True)
        return b"".join(commit_columns(group, bases, shard, part) for shard, part in own)
    if available():
        with native_errors():
            packed = np.ascontiguousarray(matrix).tobytes()
            return bytes(native.commit_columns(bases.y, bases.b, packed, columns, field.pack(blinders)))
    points = bases.y + bases.b
    return b"".join(
        group.msm(points, field.pack([*(int(x) for x in matrix[:, j]), beta])) for j, beta in enumerate(blinders)
    )


def shards_of(matrix: Matrix, capacity: int) -> list[Matrix]:
    """The shards of an index, in order, without copying them."""
    return [matrix[at : at + capacity] for at in range(0, len(matrix), capacity)]


def parts_of(blinders: Sequence[int], columns: int) -> list[Sequence[int]]:
    """The columns' blinders of every shard, in order."""
    return [blinders[at : at + columns] for at in range(0, len(blinders), columns)]


def combine_columns(matrix: Matrix, chi: int) -> bytes:
    """a_i = sum_j chi^j E[i][j] mod r for every row, packed."""
    columns = matrix.shape[1]
    if available():
        with native_errors():
            packed = np.ascontiguousarray(matrix).tobytes()
            return bytes(native.matrix_combination(packed, columns, field.to_bytes(chi)))
    weights, rows = powers(chi, columns), matrix.tolist()
    return field.pack(sum(w * x for w, x in zip(weights, row, strict=True) if x) % R for row in rows)


_GENERATORS: dict[int, bytes] = {}


def embedding_generators(group: Group, dimension: int) -> bytes:
    """H_0 .. H_d, computed once: they are the same points whichever group computes them."""
    if dimension not in _GENERATORS:
        _GENERATORS[dimension] = commitment.generators(group, dimension)
    return _GENERATORS[dimension]


class ColumnKey(Protocol):
    """A verifying key under whose points columns are committed."""

    @property
    def scores(self) -> ScoreBases: ...

    @property
    def digest(self) -> bytes: ...


FEW = 8  #: one slot in so many: where more have changed, committing to all of them anew costs less


def move_columns(group: Group, bases: ScoreBases, former: Columns, matrix: Matrix, blinders: Sequence[int]) -> bytes:
    """Commitments to the columns of ``matrix`` from those of a former version, at the cost of what has changed.

    C_j' = C_j + sum over changed slots i of (E'[i][j] - E[i][j]) Y_i + (beta_j' - beta_j) B: the same points as
    :func:`commit_columns` gives.

    Raises:
        CommitmentError: matrix, bases and blinders do not fit one another.
        ProofError: a base is malformed.
    """
    if matrix.shape != former.matrix.shape:
        return commit_columns(group, bases, matrix, blinders)
    rows = np.flatnonzero((matrix != former.matrix).any(axis=1))
    if len(matrix) > bases.capacity:
        columns = matrix.shape[1]
        known = (split_points(former.points)[at : at + columns] for at in range(0, len(blinders), columns))
        own = zip(
            shards_of(former.matrix, bases.capacity), parts_of(former.blinders, columns), known,
            shards_of(matrix, bases.capacity), parts_of(blinders, columns), strict=True,
        )  # fmt: skip
        return b"".join(
            move_columns(group, bases, Columns(before, tuple(betas), b"".join(points)), shard, part)
            for before, betas, points, shard, part in own
        )
    if len(rows) * FEW > len(matrix):
        return commit_columns(group, bases, matrix, blinders)
    moved = b"".join(bases.y[POINT_BYTES * i : POINT_BYTES * (i + 1)] for i in rows.tolist()) + bases.b
    steps = (matrix[rows].astype(np.int16) - former.matrix[rows].astype(np.int16)).T.tolist()
    return b"".join(
        group.msm(former.points[POINT_BYTES * j : POINT_BYTES * (j + 1)] + moved, field.pack([1, *step, new - old]))
        for j, (step, new, old) in enumerate(zip(steps, blinders, former.blinders, strict=True))
    )


def prove_span(
    group: Group, key: ColumnKey, matrix: Matrix, draw: Draw, former: Columns | None = None
) -> tuple[tuple[int, ...], IndexFile]:
    """Commit to a matrix' columns with fresh blinders, and check the public file exactly as an auditor does.

    Args:
        former: an earlier version under the same key's points, from which the columns can be had for less.

    Returns:
        The blinders, and the columns with their proof of opening.
    """
    dimension, capacity = matrix.shape[1], key.scores.capacity
    count = dimension * (len(matrix) // capacity)
    blinders = field.unpack(packed_scalars(draw, count))
    if former is None:
        columns = commit_columns(group, key.scores, matrix, blinders)
    else:
        columns = move_columns(group, key.scores, former, matrix, blinders)
    chi = commitment.columns_batching_challenge(key.digest, columns)
    weights = powers(chi, count)
    folded_blinder = sum(w * b for w, b in zip(weights, blinders, strict=True)) % R
    rows = [combine_columns(shard, chi) for shard in shards_of(matrix, capacity)]
    witness = group.combine(rows, weights[::dimension]) + field.to_bytes(folded_blinder)
    nonces = packed_scalars(draw, capacity + 1)
    opening = commitment.prove_columns(group, key.scores, key.digest, columns, witness, nonces)
    public = IndexFile(columns, opening)
    commitment.verify_columns(group, key.scores, key.digest, count, public)
    return tuple(blinders), public


def make_version(
    group: Group,
    key: ColumnKey,
    tenant: str,
    matrix: Matrix,
    texts: Mapping[int, SlotText],
    draw: Draw,
    coined: bool = False,
    claim: str = "",
) -> Version:
    """Commit to a tenant's index with fresh secrets.

    Args:
        coined: queries wait until it is thinned.
        claim: of the tenant, where it is lower than the policy's.
    """
    blinders, public = prove_span(group, key, matrix, draw)
    return Version(
        tenant=tenant,
        matrix=matrix,
        texts=texts,
        secret=draw(32),
        blinders=blinders,
        public=public,
        coined=coined,
        claim=claim,
    )

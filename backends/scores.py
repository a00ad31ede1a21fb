# SPDX-License-Identifier: GPL-3.0-or-later
"""Exact scores y = E e of an int8 index and their commitment C_y: native where possible, else numpy and the kernel."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from ragseal.backends.asked import int8_entries
from ragseal.backends.group import NativeGroup
from ragseal.backends.native import available, native, native_errors
from ragseal.kernel import attestation, field
from ragseal.kernel.bn254 import POINT_BYTES, Group
from ragseal.kernel.commitment import ScoreBases
from ragseal.kernel.params import MAX_SHARDS

if TYPE_CHECKING:
    from ragseal_native import Committer


class ScoreMatrix(Protocol):
    """An index made ready for queries."""

    def scores(self, e: Sequence[int]) -> npt.NDArray[np.int32]:
        """<E_i, e> of every row, exactly; entries of e are int8, and |y| < 2^31 for every legal dimension."""


class NumpyScores:
    """The fallback, and what the native one is compared with.  Holds the matrix in 32 bits."""

    def __init__(self, matrix: npt.NDArray[np.int8]) -> None:
        self._rows = np.ascontiguousarray(matrix, dtype=np.int32)

    def scores(self, e: Sequence[int]) -> npt.NDArray[np.int32]:
        entries = int8_entries(e, self._rows.shape[1])
        out: npt.NDArray[np.int32] = self._rows @ entries.astype(np.int32)
        return out


class NativeScores:
    """Reads 8 bits an entry, with all cores, where the matrix lies: nobody may write to it any more."""

    def __init__(self, matrix: npt.NDArray[np.int8]) -> None:
        rows = np.ascontiguousarray(matrix, dtype=np.int8)
        rows.flags.writeable = False
        self._dimension = matrix.shape[1]
        with native_errors():
            self.rows = native.ScoreMatrix(rows.view(np.uint8).data, matrix.shape[1])

    def scores(self, e: Sequence[int]) -> npt.NDArray[np.int32]:
        with native_errors():
            return np.frombuffer(self.rows.scores(int8_entries(e, self._dimension).tobytes()), dtype="<i4")


def score_matrix(matrix: npt.NDArray[np.int8]) -> ScoreMatrix:
    """The fastest there is on this machine."""
    return NativeScores(matrix) if available() else NumpyScores(matrix)


@lru_cache(maxsize=64 * MAX_SHARDS)  # of as many indices
def committer(columns: bytes, b: bytes) -> Committer:
    """Columns and B, checked, for commitments under them; kept for the next query."""
    with native_errors():
        return native.Committer(columns, b)


def commit_shards(
    group: Group, columns: Sequence[bytes], bases: ScoreBases, e: Sequence[int], rhos: Sequence[int]
) -> bytes:
    """C_y of every shard, in order: of its columns, with a blinder of its own."""
    pairs = zip(columns, rhos, strict=True)
    return b"".join(commit_scores(group, own, bases, e, rho) for own, rho in pairs)


def commit_scores(
    group: Group, columns: bytes, bases: ScoreBases, e: Sequence[int] | npt.NDArray[np.int8], rho: int
) -> bytes:
    """C_y = sum_j e_j C_j + rho B; the native module keeps checked columns for the next query.

    Raises:
        EncodingError: |rho| >= r.
        AttestationError: another number of entries than columns, or one that is no int8.
        ProofError: a column or B is the identity, or no point.
    """
    entries, blinder = int8_entries(e, len(columns) // POINT_BYTES), field.to_bytes(rho)
    if not isinstance(group, NativeGroup):
        group.check(columns + bases.b)
        return attestation.score_commitment(group, columns, bases, entries.tolist(), rho)
    with native_errors():
        return committer(columns, bases.b).commit(entries.tobytes(), blinder)

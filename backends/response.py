# SPDX-License-Identifier: GPL-3.0-or-later
"""What a query needs of its index, in one native call: scores, noise and T, and beside them C_y.  SPEC M.5 to M.8.

In one call the interpreter lock is let go of once, and C_y is computed by whichever core the noise leaves free.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ragseal.backends.asked import ScoreLine
from ragseal.backends.group import NativeGroup
from ragseal.backends.mechanism import Engine, NativeDecoysEngine, NativeNoiseEngine, winners
from ragseal.backends.scores import NativeScores, ScoreMatrix, commit_shards, committer
from ragseal.kernel.bn254 import Group
from ragseal.kernel.commitment import ScoreBases
from ragseal.kernel.statement import Returned


@dataclass(frozen=True, slots=True)
class Response:
    """T, and the commitment that its proof opens."""

    returned: tuple[Returned, ...]
    scores: tuple[int, ...]  #: w of each of them
    c_y: bytes  #: of every shard

    def __repr__(self) -> str:
        return "Response(...)"


@dataclass(frozen=True, slots=True)
class CommittedIndex:
    """An index as a query is scored against it, and as C_y commits to the scores."""

    rows: ScoreMatrix
    columns: Sequence[bytes]  #: commitments of every shard's columns, to which ``rows`` belong
    bases: ScoreBases

    def __repr__(self) -> str:
        return "CommittedIndex(...)"


def respond(
    group: Group,
    engine: Engine,
    index: CommittedIndex,
    line: ScoreLine,
    key: int,
    embedding: bytes,
    rhos: Sequence[int],
) -> Response:
    """Answer one query.

    Args:
        key: of the noise.
        embedding: int8 entries of e.
        rhos: blinders of C_y, one a shard.

    Raises:
        UnprovableError: a named completeness failure.
    """
    rows, columns, bases = index.rows, index.columns, index.bases
    if (
        isinstance(engine, NativeNoiseEngine | NativeDecoysEngine)
        and isinstance(rows, NativeScores)
        and isinstance(group, NativeGroup)
    ):
        committers = [committer(one, bases.b) for one in columns]
        found = engine.respond(key, rows.rows, committers, embedding, line, rhos)
        return Response(winners(found), tuple(found["scores"]), found["c_y"])
    e = np.frombuffer(embedding, dtype=np.int8).tolist()
    w = line.gain * (rows.scores(e).astype(np.int64) - line.lo)
    returned = engine.answer(key, w, line.asked)
    c_y = commit_shards(group, columns, bases, e, rhos)
    return Response(returned, tuple(int(w[one.slot]) for one in returned), c_y)

# SPDX-License-Identifier: GPL-3.0-or-later
"""How often a live index can have a new version on this machine.  SPEC A.12.

What a version takes is measured here on made-up documents, at the class's capacity, all of them new: columns with their
proof of opening and the tree of texts.  Where the claim has a coin, the proof that hidden slots are empty is reckoned
by the rows of its circuit, since there is no key to prove with before there is a policy.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ragseal.backends.group import default_group
from ragseal.circuits.search import count_rows
from ragseal.kernel.bn254 import POINT_BYTES
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.commitment import ScoreBases
from ragseal.kernel.policy import LEAST_TICK, MOST_TICK
from ragseal.kernel.slot_text import NO_METADATA, SlotText
from ragseal.kernel.thinning_class import thinning_class
from ragseal.prover.base.randomness import Draw
from ragseal.prover.commitment.columns import commit_columns, prove_span
from ragseal.prover.commitment.index import text_tree

SECONDS_A_ROW = 80e-6  #: openings included: 0.65 s for 16,348 rows on one core with AVX-512, twice that without
SHARE = 10  #: versions may take a tenth of the time, and answers lose no more of their rate than that
TICKS = (60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, MOST_TICK)
_PART = 8  #: of the columns one in so many is committed to: all cost the same
_INDEPENDENT = 256  #: points that are hashed to the curve; more are their repetitions, which cost the same to compute


@dataclass(frozen=True, slots=True)
class TickCost:
    """What a version of one tenant's index takes at most."""

    columns: float  #: seconds, proof of opening and texts included; measured
    proof: float  #: seconds of the proof that hidden slots are empty; reckoned, 0 without coins

    @property
    def seconds(self) -> float:
        return self.columns + self.proof


@dataclass(frozen=True)
class _Key:
    """Points in the place of a key's."""

    scores: ScoreBases
    digest: bytes


def measured(cls: AttestationClass, dimension: int, coined: bool, draw: Draw) -> TickCost:
    """Commit once to an index of made-up documents.

    Args:
        dimension: of the embedder.
        coined: the claim has a coin.
    """
    group = default_group()
    few = group.hash_to_curve(b"ragseal ticks", _INDEPENDENT)
    times = -(-(cls.N + 1) // _INDEPENDENT)
    points = (few * times)[: POINT_BYTES * (cls.N + 1)]
    key = _Key(ScoreBases(points[:-POINT_BYTES], points[-POINT_BYTES:]), hashlib.sha256(few).digest())
    some = max(1, dimension // _PART)
    matrix = np.random.default_rng(1).integers(-40, 41, (cls.N, some), dtype=np.int8)
    texts = {slot: SlotText(f"d{slot}", "word " * 100, NO_METADATA) for slot in range(cls.N)}
    commit = _seconds(lambda: commit_columns(group, key.scores, matrix, range(1, some + 1)))
    opened = _seconds(lambda: prove_span(group, key, matrix, draw))
    written = _seconds(lambda: text_tree(bytes(32), texts, cls.N).root())
    columns = commit * dimension / some + max(0.0, opened - commit) + written
    return TickCost(columns, reckoned_proof(cls) if coined else 0.0)


def reckoned_proof(cls: AttestationClass) -> float:
    """Seconds of the proof that hidden slots of a version are empty, by the rows of its circuit."""
    return SECONDS_A_ROW * count_rows(thinning_class(cls.N)).constraints


def _seconds(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def shortest_tick(cost: TickCost, tenants: int) -> int:
    """The shortest ``version_every`` in seconds at which versions take no more than a tenth of the time.

    Returns:
        0 if even a version a day takes more: documents then count from the next window on.
    """
    least = max(LEAST_TICK, math.ceil(SHARE * tenants * cost.seconds))
    return next((tick for tick in TICKS if tick >= least), 0)


def advice(cls: AttestationClass, cost: TickCost, tenants: int) -> tuple[int, str]:
    """``version_every``, and what is said of it."""
    tick = shortest_tick(cost, tenants)
    reckoned = f"; {cost.proof:.2g} s of it, the proof about hidden slots, are reckoned" if cost.proof else ""
    takes = (
        f"a version of a live index takes up to {cost.seconds:.2g} s a tenant here "
        f"({cls.N} slots, all documents new{reckoned})"
    )
    if not tick:
        return 0, (
            f"{takes}: even once a day {tenants} tenants would keep this machine from answering, so version_every is "
            "left out, and documents count from the next window on"
        )
    return tick, (
        f"{takes}, so version_every = {tick} s is the shortest tick at which the versions of {tenants} "
        f"tenant{'s' if tenants > 1 else ''} take no more than a tenth of its time, and leave the answers' rate; a "
        "longer one costs less, 0 has documents count from the next window on"
    )

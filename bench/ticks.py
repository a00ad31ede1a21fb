# SPDX-License-Identifier: GPL-3.0-or-later
"""What a version of a live index costs: one document put, against committing to everything anew.  SPEC A.12.

    python -m bench.ticks ranked-mini-one-50 ranked-small-one-50

Prints seconds of the parts and their ratios; no key is needed, since columns and openings take any independent points.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ragseal.backends.group import default_group
from ragseal.kernel.commitment import ScoreBases
from ragseal.kernel.slot_text import NO_METADATA, SlotText
from ragseal.prover.assembly import circuit_class
from ragseal.prover.commitment.columns import commit_columns, move_columns, prove_span
from ragseal.prover.commitment.index import Columns, text_tree
from ragseal.prover.provider import Environment

DIMENSION = 384
ROUNDS = 3


@dataclass(frozen=True)
class Points:
    """Independent points in the place of a key's."""

    scores: ScoreBases
    digest: bytes


def seconds(action: Callable[[], Any]) -> float:
    """The least of a few runs."""
    spent = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        action()
        spent.append(time.perf_counter() - began)
    return min(spent)


def measure(name: str) -> dict[str, Any]:
    """One class: a full index in which one document changes."""
    capacity, group, draw = circuit_class(name).N, default_group(), Environment().draw
    points = group.hash_to_curve(b"bench of ticks", capacity + 1)
    key = Points(ScoreBases(points[:-64], points[-64:]), hashlib.sha256(points).digest())
    rng = np.random.default_rng(1)
    old = rng.integers(-40, 41, (capacity, DIMENSION), dtype=np.int8)
    new = old.copy()
    new[capacity // 2] = rng.integers(-40, 41, DIMENSION, dtype=np.int8)
    blinders = tuple(range(1, DIMENSION + 1))
    former = Columns(old, blinders, commit_columns(group, key.scores, old, blinders))
    texts = {slot: SlotText(f"d{slot}", "word " * 100, NO_METADATA) for slot in range(capacity)}
    found = {
        "columns_anew": seconds(lambda: commit_columns(group, key.scores, new, blinders)),
        "columns_moved": seconds(lambda: move_columns(group, key.scores, former, new, blinders)),
        "span_anew": seconds(lambda: prove_span(group, key, new, draw)),
        "span_moved": seconds(lambda: prove_span(group, key, new, draw, former)),
        "texts": seconds(lambda: text_tree(bytes(32), texts, capacity).root()),
    }
    ratios = {
        "columns": found["columns_anew"] / found["columns_moved"],
        "columns_with_opening": found["span_anew"] / found["span_moved"],
    }
    return {"class": name, "slots": capacity, "seconds": found, "anew_over_moved": ratios}


if __name__ == "__main__":
    for name in sys.argv[1:] or ["ranked-mini-one-50", "ranked-small-one-50"]:
        print(json.dumps(measure(name)))

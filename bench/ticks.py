# SPDX-License-Identifier: GPL-3.0-or-later
"""What a version of a live index costs: ``python -m bench.ticks`` writes bench/results/ticks.json.  SPEC A.12.

By class and by how many documents changed since the version before: seconds, bytes that the log, the public file and
the state folder take, and memory.  No key is needed, since columns and openings take any independent points; the proof
that hidden slots are empty, which a claim with a coin adds, is reckoned by the rows of its circuit.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt

from bench.classes import LARGE
from bench.experiment import machine, save
from bench.scene import ROOT
from bench.sync import memory, new_state
from ragseal.backends.group import default_group
from ragseal.kernel.commitment import ScoreBases
from ragseal.kernel.emptied import plain_entry
from ragseal.kernel.slot_text import NO_METADATA, SlotText
from ragseal.kernel.versions import IndexUpdate
from ragseal.prover.commitment import slots
from ragseal.prover.commitment.columns import commit_columns, prove_span
from ragseal.prover.commitment.index import Columns, text_tree
from ragseal.prover.commitment.texts import by_slot
from ragseal.prover.planning.tick_costs import reckoned_proof
from ragseal.prover.provider.assembly import circuit_class
from ragseal.prover.provider.backends import Environment

RESULT = ROOT / "bench" / "results" / "ticks.json"
DIMENSION = 384
CLASSES = ("noise-mini-two-10", "noise-small-two-50", LARGE)
TEXT = "word " * 100
SHARES = (0.0, 0.01, 0.1, 1.0)
ROUNDS = 3


@dataclass(frozen=True)
class Points:
    """Independent points in the place of a key's."""

    scores: ScoreBases
    digest: bytes


def seconds(what: str, action: Callable[[], Any], rounds: int) -> dict[str, float]:
    """The least of a few runs: seconds, and processor time of this process alone, whatever else the machine does."""
    spent, own = [], []
    for _ in range(rounds):
        began, used = time.perf_counter(), time.process_time()
        action()
        spent.append(time.perf_counter() - began)
        own.append(time.process_time() - used)
    return {f"{what}_s": round(min(spent), 4), f"{what}_cpu_s": round(min(own), 4)}


def stored_bytes(
    old: npt.NDArray[np.int8], before: dict[int, SlotText], new: npt.NDArray[np.int8], after: dict[int, SlotText]
) -> int:
    """Of documents and vectors, what a version behind another one adds to the provider's database."""
    parts = " + ".join(f"LENGTH({name})" for name in ("document", "CAST(text AS BLOB)", "metadata", "row"))
    with tempfile.TemporaryDirectory() as folder, closing(new_state(Path(folder) / "state")) as state:
        with state.transaction() as db:
            slots.store(db, bytes(32), "acme", 0, old, by_slot(before, len(old)))
            slots.store(db, bytes(32), "acme", 1, new, by_slot(after, len(new)))
        found = state.row(f"SELECT SUM({parts}) FROM version_texts WHERE number = 1")
    return int(found[0] or 0) if found else 0


def measure(name: str, shares: Sequence[float], rounds: int) -> dict[str, Any]:
    """One class, its index full; at least one document changes."""
    cls, group, draw = circuit_class(name), default_group(), Environment().draw
    points = group.hash_to_curve(b"bench of ticks", cls.N + 1)
    key = Points(ScoreBases(points[:-64], points[-64:]), hashlib.sha256(points).digest())
    rng = np.random.default_rng(1)
    old = rng.integers(-40, 41, (cls.N, DIMENSION), dtype=np.int8)
    blinders = tuple(range(1, DIMENSION + 1))
    former = Columns(old, blinders, commit_columns(group, key.scores, old, blinders))
    texts = {slot: SlotText(f"d{slot}", TEXT, NO_METADATA) for slot in range(cls.N)}
    root = text_tree(bytes(32), texts, cls.N).root()
    rows = []
    for share in shares:
        changed = max(1, round(share * cls.N))
        new, where = old.copy(), rng.permutation(cls.N)[:changed]
        new[where] = rng.integers(-40, 41, (changed, DIMENSION), dtype=np.int8)
        later = texts | {slot: SlotText(f"d{slot}", TEXT + "changed", NO_METADATA) for slot in map(int, where)}
        with memory() as used:
            spent = seconds("columns", partial(prove_span, group, key, new, draw, former), rounds)
        stored = stored_bytes(old, texts, new, later)
        rows.append({"changed": changed, **spent, "peak_mb": used[0], "state_bytes": stored})
    _, file = prove_span(group, key, old, draw, former)
    line = plain_entry(file, "acme", root)
    return {
        "class": name,
        "slots": cls.N,
        "by_changed_documents": rows,
        **seconds("columns_anew", lambda: prove_span(group, key, old, draw), rounds),
        **seconds("texts", lambda: text_tree(bytes(32), texts, cls.N).root(), rounds),
        "proof_about_hidden_slots_reckoned_s": round(reckoned_proof(cls), 2),
        "bytes": {
            "entry": len(IndexUpdate(bytes(32), 1, 0, (line,), bytes(32)).encode()),
            "public_file": len(file.encode()),
            "salts_and_blinders": 32 + 32 * DIMENSION,
            "matrix": old.nbytes,
            "texts": sum(len(one.encode()) for one in texts.values()),
        },
    }


@click.command()
@click.option("--class", "names", multiple=True, default=CLASSES, show_default=True)
@click.option("--share", "shares", multiple=True, type=click.FloatRange(0, 1), default=SHARES, show_default=True,
              help="Of documents that changed; one at least does.")  # fmt: skip
@click.option("--rounds", type=click.IntRange(min=1), default=ROUNDS, show_default=True)
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), default=RESULT, show_default=False)
def main(
    names: Sequence[str],
    shares: Sequence[float],
    rounds: int,
    out: Path,
) -> None:
    """Measure and write the result."""
    found: dict[str, Any] = {"machine": machine(), "dimension": DIMENSION, "classes": []}
    for name in names:
        click.echo(f"{name} ...", err=True)
        found["classes"].append(measure(name, shares, rounds))
    save(out, found)
    click.echo(json.dumps({name: value for name, value in found.items() if name != "machine"}, indent=1))


if __name__ == "__main__":
    main()

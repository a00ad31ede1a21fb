# SPDX-License-Identifier: GPL-3.0-or-later
"""What a version of a live index costs: ``python -m bench.ticks`` writes bench/results/ticks.json.  SPEC A.12.

By class and by how many documents changed since the version before: seconds, bytes that the log, the public file and
the state folder take, and memory.  No key is needed, since columns and openings take any independent points; the proof
that hidden slots are empty, which a claim with a coin adds, is reckoned by the rows of its circuit.

``--answers SECONDS`` measures besides how many answers a second a provider gives whose index changes on a tick of a
minute, with ``--changes`` documents a second put, and with none.
"""

from __future__ import annotations

import hashlib
import io
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np

from bench import load
from bench.experiment import machine
from bench.scene import ROOT
from bench.sync import memory
from ragseal.backends.group import default_group
from ragseal.kernel.commitment import ScoreBases
from ragseal.kernel.emptied import plain_entry
from ragseal.kernel.slot_text import NO_METADATA, SlotText
from ragseal.kernel.versions import IndexUpdate
from ragseal.prover.assembly import circuit_class
from ragseal.prover.backends import Environment
from ragseal.prover.commitment.columns import commit_columns, prove_span
from ragseal.prover.commitment.index import Columns, text_tree
from ragseal.prover.planning.tick_costs import reckoned_proof

RESULT = ROOT / "bench" / "results" / "ticks.json"
DIMENSION = 384
CLASSES = ("ranked-mini-one-50", "ranked-small-one-50")
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


def measure(name: str, shares: Sequence[float], rounds: int) -> dict[str, Any]:
    """One class, its index full; at least one document changes."""
    cls, group, draw = circuit_class(name), default_group(), Environment().draw
    points = group.hash_to_curve(b"bench of ticks", cls.N + 1)
    key = Points(ScoreBases(points[:-64], points[-64:]), hashlib.sha256(points).digest())
    rng = np.random.default_rng(1)
    old = rng.integers(-40, 41, (cls.N, DIMENSION), dtype=np.int8)
    blinders = tuple(range(1, DIMENSION + 1))
    former = Columns(old, blinders, commit_columns(group, key.scores, old, blinders))
    texts = {slot: SlotText(f"d{slot}", "word " * 100, NO_METADATA) for slot in range(cls.N)}
    root = text_tree(bytes(32), texts, cls.N).root()
    rows = []
    for share in shares:
        changed = max(1, round(share * cls.N))
        new = old.copy()
        new[rng.permutation(cls.N)[:changed]] = rng.integers(-40, 41, (changed, DIMENSION), dtype=np.int8)
        with memory() as used:
            spent = seconds("columns", partial(prove_span, group, key, new, draw, former), rounds)
        rows.append({"changed": changed, **spent, "peak_mb": used[0]})
    _, file = prove_span(group, key, old, draw, former)
    line = plain_entry(file, "acme", root)
    matrix = io.BytesIO()
    np.save(matrix, old, allow_pickle=False)
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
            "matrix": len(matrix.getvalue()),
            "texts": sum(len(one.encode()) for one in texts.values()),
        },
    }


def answers(class_name: str, clients: int, length: float, changes: float) -> dict[str, Any]:
    """Answers a second of a provider with a tick of a minute, while so many documents a second change or none does."""
    found: dict[str, Any] = {"class": class_name, "clients": clients, "version_every": 60}
    with tempfile.TemporaryDirectory() as folder:
        for name, rate in (("no_ticks", None), ("ticks", 0.0), ("ticks_and_changes", changes)):
            click.echo(f"answers, {name}: {clients} clients for {length:.0f} s ...", err=True)
            place = Path(folder) / name
            place.mkdir()
            found[name] = load.measure(place, class_name, clients, length, 1, False, changing=rate)
            del found[name]["samples_s"]
    found["changes_per_s"] = changes
    return found


@click.command()
@click.option("--class", "names", multiple=True, default=CLASSES, show_default=True)
@click.option("--share", "shares", multiple=True, type=click.FloatRange(0, 1), default=SHARES, show_default=True,
              help="Of documents that changed; one at least does.")  # fmt: skip
@click.option("--rounds", type=click.IntRange(min=1), default=ROUNDS, show_default=True)
@click.option("--answers", "length", type=click.FloatRange(min=0), default=0.0, show_default=True,
              help="Measure answers a second, too, for so many seconds each.")  # fmt: skip
@click.option("--answers-class", default="small", show_default=True)
@click.option("--clients", type=click.IntRange(min=1), default=32, show_default=True)
@click.option("--changes", type=click.FloatRange(min=0), default=10.0, show_default=True, help="Documents a second.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), default=RESULT, show_default=False)
def main(
    names: Sequence[str],
    shares: Sequence[float],
    rounds: int,
    length: float,
    answers_class: str,
    clients: int,
    changes: float,
    out: Path,
) -> None:
    """Measure and write the result."""
    found: dict[str, Any] = {"machine": machine(), "dimension": DIMENSION, "classes": []}
    for name in names:
        click.echo(f"{name} ...", err=True)
        found["classes"].append(measure(name, shares, rounds))
    if length:
        found["answers"] = answers(answers_class, clients, length, changes)
    out.write_text(json.dumps(found, indent=1) + "\n")
    click.echo(json.dumps({name: value for name, value in found.items() if name != "machine"}, indent=1))


if __name__ == "__main__":
    main()

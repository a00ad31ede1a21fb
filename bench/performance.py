# SPDX-License-Identifier: GPL-3.0-or-later
"""``make bench``: what the system costs, each figure beside its target and, where it has one, its peer in the same run.

Writes bench/results/performance.json: the figures, ``raw`` with every sample, and the machine.  Each part is kept in
var/bench until all are measured: a run that was broken off goes on there (``--fresh`` starts again).  ``--class NAME``
measures the proof path of one other class into performance-NAME.json.  ``--quick`` takes the smallest class and few
repetitions: it shows that everything is measured, not how fast it is.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click

from bench import answering, proofpath, sealing
from bench.classes import LARGE, QUICK
from bench.experiment import RESULTS, ROOT, machine, save
from ragseal.circuits.circuit import load_classes
from ragseal.kernel.noise_class import NoiseClass, with_noise

LOAD = RESULTS / "load.json"

#: What each figure is to reach; the sign says which way.
TARGETS: Mapping[str, tuple[str, float]] = {
    "rows_per_slot": ("<=", 14.1),
    "fixed_rows": ("<=", 36_000),
    "prove_vs_snarkjs": (">=", 8),
    "witness_share": ("<=", 0.5),
    "keys_base_s": ("<=", 20),
    "batch_verify_ms": ("<=", 1.0),
    "commit_us_per_entry": ("<=", 1),
    "answer_vs_faiss": ("<=", 3),
    "answers_per_s": (">=", 200),
    "seal_ms": ("<=", 0.5),  # of an answer of 12 kB
}
#: Every figure of performance.json.
KEYS = (
    "rows_per_slot", "fixed_rows", "prove_vs_snarkjs", "prove_vs_rapidsnark", "witness_share", "peak_memory_mib",
    "keys_base_s", "batch_verify_ms", "single_verify_ms", "commit_us_per_entry", "answer_vs_faiss", "answers_per_s",
    "seal_ms", "seal_vs_library", "proof_bytes",
)  # fmt: skip


@dataclass(frozen=True)
class Effort:
    """How much is measured."""

    cls: str = LARGE
    distinct: int = 8  #: proofs made
    repeat: int = 3
    records: int = 1000  #: of the verified batch
    sizes: tuple[int, ...] = (100, 1000)  #: records that an auditor downloads
    documents: tuple[int, ...] = (5183, answering.LARGE)
    rounds: int = 40
    sealed: tuple[int, ...] = (12_288, 1 << 20)  #: bytes of an answer: ten short texts, ten long ones
    seals: int = 400


QUICK_EFFORT = Effort(QUICK, distinct=2, repeat=1, records=6, documents=(120, 1000), rounds=3, seals=20)


class Kept:
    """Parts measured so far, each in a file of its own."""

    def __init__(self, folder: Path, fresh: bool) -> None:
        if fresh and folder.exists():
            shutil.rmtree(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder

    def part(self, name: str, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        path = self._folder / f"{name}.json"
        if path.exists():
            found: dict[str, Any] = json.loads(path.read_text())
            return found
        made = measure()
        path.with_suffix(".part").write_text(json.dumps(made))
        os.replace(path.with_suffix(".part"), path)
        return made

    def done(self) -> None:
        """Everything is written: the next run measures anew."""
        shutil.rmtree(self._folder)


def prove_path(effort: Effort, cls: NoiseClass, say: Callable[[str], None]) -> dict[str, Any]:
    """Everything about one class's proofs."""
    out, bench, made = proofpath.proving(cls, ROOT / "var", effort.distinct, effort.repeat, say)
    out["verification"] = proofpath.verification(bench, made, effort.records, say)
    say("what an auditor downloads")
    out["delivered_bytes"] = {str(n): proofpath.delivered(bench, made, n) for n in effort.sizes}
    say("index commitments")
    out["commitment"] = proofpath.committing(bench, effort.repeat)
    return out


def load_figure(say: Callable[[str], None], quick: bool) -> dict[str, Any]:
    """Answers a second with durable receipts: the load bench's result, or its run; a quick one's is no full one's.

    Raises:
        click.ClickException: neither is there.
    """
    found = json.loads(LOAD.read_text()) if LOAD.exists() else None
    if (found is None or (found.get("quick") and not quick)) and importlib.util.find_spec("bench.load") is not None:
        say("answers a second under load")
        importlib.import_module("bench.load").run(quick=quick)
        found = json.loads(LOAD.read_text())
    if found is None:
        raise click.ClickException(f"answers_per_s: {LOAD} is missing; run `python -m bench.load`, then this again")
    if "answers_per_s" not in found or (found.get("quick") and not quick):
        raise click.ClickException(
            f"answers_per_s: {LOAD} does not hold it; run `python -m bench.load`, then this again"
        )
    return dict(found)


def _ratio(other: list[float] | None, own: list[float]) -> float | None:
    return None if other is None else statistics.median(other) / statistics.median(own)


def figures(
    proofs: Mapping[str, Any], answers: Mapping[str, Any], seals: Mapping[str, Any], load: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The figures, computed from the samples."""
    checked, committed = proofs["verification"], proofs["commitment"]
    whole = sum(proofs["witness_s"]) + sum(proofs["prove_s"])
    return {
        "rows_per_slot": proofs["rows"]["a_slot"],
        "fixed_rows": proofs["rows"]["fixed"],
        "prove_vs_snarkjs": _ratio(proofs["others_s"]["snarkjs"], proofs["prove_same_witness_s"]),
        "prove_vs_rapidsnark": _ratio(proofs["others_s"]["rapidsnark"], proofs["prove_same_witness_s"]),
        "witness_share": sum(proofs["witness_s"]) / whole,
        "peak_memory_mib": proofs["peak_memory_mib"],
        "keys_base_s": proofs["keys_s"][0],
        "batch_verify_ms": 1000 * min(checked["check_batch_s"]) / checked["records"],
        "single_verify_ms": 1000 * statistics.median(checked["check_single_s"]),
        "commit_us_per_entry": 1e6 * min(committed["columns_s"]) / committed["entries"],
        "answer_vs_faiss": {documents: found["ratio"] for documents, found in answers.items()},
        "answers_per_s": None if load is None else load["answers_per_s"],
        "seal_ms": next(iter(seals.values()))["median_ms"]["seal"],
        "seal_vs_library": {size: found["ratio"] for size, found in seals.items()},
        "proof_bytes": proofs["delivered_bytes"],
    }


def missed(found: Mapping[str, Any]) -> list[str]:
    """Figures beyond their targets, as text."""
    out = []
    for name, (sign, target) in TARGETS.items():
        value = found[name]
        for at, one in value.items() if isinstance(value, dict) else [("", value)]:
            if one is not None and (one > target if sign == "<=" else one < target):
                out.append(f"{name}{f' at {at}' if at else ''}: {one:.4g}, target {sign} {target:g}")
    return out


@click.command()
@click.option("--class", "name", default=None, help="Only the proof path of this circuit class.")
@click.option("--quick", is_flag=True, help="The smallest class, few repetitions: everything is measured, roughly.")
@click.option("--fresh", is_flag=True, help="Measure again what an earlier run has kept.")
@click.option("--skip-load", is_flag=True, help="Without answers_per_s (null), where no load bench has run.")
@click.option("--out", type=click.Path(path_type=Path), default=None, help="Where to write; default bench/results.")
def main(name: str | None, quick: bool, fresh: bool, skip_load: bool, out: Path | None) -> None:
    """Measure and write bench/results/performance.json."""
    effort = QUICK_EFFORT if quick else Effort()
    folder = out or RESULTS
    folder.mkdir(parents=True, exist_ok=True)
    classes, began = load_classes(), time.monotonic()
    if name is not None and name not in classes:
        raise click.ClickException(f"there is no class {name!r}: {', '.join(classes)}")

    def say(text: str) -> None:
        click.echo(f"[{time.monotonic() - began:5.0f} s] {text}", err=True)

    cls = with_noise(classes[name or effort.cls])
    kept = Kept((out or ROOT / "var" / "bench") / f"performance-{cls.name}{'-quick' if quick else ''}", fresh)
    proofs = kept.part("proofs", lambda: prove_path(effort, cls, say))
    if name is not None:
        write(folder / f"performance-{name}.json", {"machine": machine(), **proofs})
        kept.done()
        return
    answers = {}
    for documents in effort.documents:
        say(f"answers against FAISS at N = {documents:,}")
        fits = cls if documents <= cls.N else answering.large_class(-(-documents // 16) * 16)
        answers[str(documents)] = kept.part(
            f"answers-{documents}",
            partial(answering.against_faiss, fits, documents, effort.rounds),
        )
    say("sealing answers")
    seals = {
        str(size): kept.part(f"sealing-{size}", partial(sealing.sealing, size, effort.seals)) for size in effort.sealed
    }
    load = None if skip_load else load_figure(say, quick)
    found = figures(proofs, answers, seals, load)
    assert set(found) == set(KEYS)
    raw = {"proofs": proofs, "answers": answers, "sealing": seals, "load": load}
    write(folder / "performance.json", {**found, "machine": machine(), "raw": raw})
    kept.done()
    click.echo(json.dumps(found, indent=1))
    for line in [] if quick else missed(found):  # the targets are the default class's
        click.echo(f"missed  {line}")


def write(path: Path, value: dict[str, Any]) -> None:
    save(path, value)
    click.echo(f"written: {path}", err=True)


if __name__ == "__main__":
    sys.exit(main())

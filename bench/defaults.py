# SPDX-License-Identifier: GPL-3.0-or-later
"""What proofs, checks and answers cost in processor time: ``python -m bench.defaults`` writes defaults.json.

Seconds of a busy machine say little, so the processor time of all threads is counted: of a proof and an auditor's check
of classes with noise; of a record over 7,000 documents with the default's decoys and with noise, in turns; and of the
default's answers, beside plain FAISS, in turns.
"""

from __future__ import annotations

import json
import secrets
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np

import ragseal_native as native
from bench import answering, shardproofs
from bench.experiment import machine, save
from bench.proofpath import ROOT
from bench.records import Bench, batch, make
from ragseal.circuits.build import build
from ragseal.circuits.circuit import class_digest, load_classes
from ragseal.groth16.keys import KeyView, make_keys
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.noise_class import with_noise
from ragseal.kernel.opening import Equations
from ragseal.verifier.steps import proofs as auditor

RESULT = ROOT / "bench" / "results" / "defaults.json"
CLASSES = ("noise-mini-two-10", "noise-small-two-50", "noise-large-gaussian-50")
DISTINCT, ROUNDS = 2, 5
BESIDE = ("decoys-8k", "noise-small-two-50")  #: the smallest of either law for about 7,000 documents
ANSWERED = {5_183: "decoys-8k", 100_000: "decoys-128k"}  #: documents: the smallest class of decoys that holds them
ANSWERS = 100


def processor(action: Callable[[], Any], rounds: int) -> list[float]:
    """Milliseconds of processor time, of all threads, of each run."""
    samples = []
    for _ in range(rounds):
        began = time.process_time()
        action()
        samples.append(round(1000 * (time.process_time() - began), 3))
    return samples


def proofs(cls: AttestationClass, sizes: Sequence[int]) -> dict[str, Any]:
    """Proofs, and an auditor's check of one batch of each size, equations of its openings included."""
    built = build(cls, ROOT / "var" / "build")
    with tempfile.TemporaryDirectory() as folder:
        paths = make_keys(built.r1cs, cls, class_digest(cls), Path(folder) / "keys")
        pk = native.ProvingKey.load(str(paths.zkey))
    r1cs = native.R1cs.load(str(built.r1cs))
    bench = Bench(with_noise(cls), KeyView(cls, pk.verifying_key()), np.random.default_rng(1))
    records = [make(bench, k) for k in range(DISTINCT)]
    made, spent = [], []
    for one in records:
        began = time.process_time()
        made.append(replace(one, proof=bytes(pk.prove(r1cs.solve(one.assignment.packed())))))
        spent.append(round(1000 * (time.process_time() - began)))
    out: dict[str, Any] = {"proof_ms": spent}
    for size in sizes:
        part, whole = batch(bench, [made[k % DISTINCT] for k in range(size)])

        def check(part: Any = part, whole: Any = whole) -> None:
            later = Equations(bench.group, secrets.token_bytes)
            auditor.check_batch(bench.basis, part, whole, later)
            if not later.hold():
                raise SystemExit(f"{cls.name}: an honest batch does not hold")

        check()
        samples = processor(check, ROUNDS)
        out[str(size)] = {"a_record_ms": min(samples) / size, "batch_ms": samples}
    return out


def records_beside() -> dict[str, Any]:
    """Records of either law in turns: processor seconds, hints and commitments included, and the ratio of medians."""
    spent: dict[str, list[float]] = {name: [] for name in BESIDE}
    for _ in range(ROUNDS):
        for name in BESIDE:
            found = shardproofs.proofs(name, ROOT / "var" / "build", ROOT / "var" / "bench" / "shards", 1)
            spent[name].append(found["record"]["processor_seconds"])
    decoys, noise = (statistics.median(spent[name]) for name in BESIDE)
    return {"processor_seconds": spent, "ratio": decoys / noise, "target": 0.4}


@click.command()
@click.option("--size", "sizes", multiple=True, type=int, default=(256, 1000), help="Records of a batch.")
def main(sizes: tuple[int, ...]) -> None:
    """Measure and write bench/results/defaults.json."""
    classes = load_classes()
    found: dict[str, Any] = {"machine": machine(), "proofs_cpu": {}}
    for name in CLASSES:
        click.echo(f"{name}: batches of {', '.join(map(str, sizes))}", err=True)
        found["proofs_cpu"][name] = proofs(classes[name], sizes)
        click.echo(json.dumps(found["proofs_cpu"][name]), err=True)
    found["records_beside"] = records_beside()
    click.echo(json.dumps(found["records_beside"]), err=True)
    found["answers"] = {}
    for documents, name in ANSWERED.items():
        click.echo(f"{name}: answers beside FAISS", err=True)
        found["answers"][str(documents)] = answering.against_faiss(classes[name], documents, ANSWERS)
    save(RESULT, found)
    click.echo(f"written: {RESULT}", err=True)


if __name__ == "__main__":
    main()

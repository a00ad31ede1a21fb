# SPDX-License-Identifier: GPL-3.0-or-later
"""What one class's proof path costs: rows, keys, proofs, memory, verification, index commitments, what is delivered."""

from __future__ import annotations

import multiprocessing
import resource
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import ragseal_native as native
from bench.records import DIMENSION, TENANT, Bench, Instance, batch, make
from ragseal.circuits import search
from ragseal.circuits.build import build
from ragseal.circuits.circuit import class_digest
from ragseal.groth16.keys import KeyView, make_keys
from ragseal.kernel import folding
from ragseal.kernel.noise_class import NoiseClass
from ragseal.prover.commitment.columns import commit_columns, make_version
from ragseal.verifier.steps import proofs as auditor

ROOT = Path(__file__).resolve().parent.parent
SNARKJS = ROOT / "circuits" / "node_modules" / "snarkjs" / "build" / "cli.cjs"
Say = Callable[[str], None]


def timed(action: Callable[[], Any], repeat: int) -> tuple[list[float], Any]:
    """Seconds of each run, and what the last one returned."""
    samples, value = [], None
    for _ in range(repeat):
        began = time.perf_counter()
        value = action()
        samples.append(time.perf_counter() - began)
    return samples, value


def rounded(samples: Sequence[float]) -> list[float]:
    return [round(s, 6) for s in samples]


def _prove_alone(pipe: Any, zkey: str, r1cs: str, packed: bytes) -> None:
    """In a process of its own: one proof from the files."""
    native.ProvingKey.load(zkey).prove(native.R1cs.load(r1cs).solve(packed))
    pipe.send(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)


def peak_memory_mib(zkey: Path, r1cs: Path, packed: bytes) -> int:
    """Peak resident memory of a process that loads a key and proves one record."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    child = context.Process(target=_prove_alone, args=(there, str(zkey), str(r1cs), packed))
    child.start()
    there.close()
    found = int(here.recv())
    child.join()
    return found


def other_provers(zkey: Path, witness: Any, repeat: int, say: Say) -> dict[str, list[float] | None]:
    """Seconds of the commands that others would prove with, on the same key and witness.  None: not on this machine."""
    node, rapidsnark = shutil.which("node"), shutil.which("rapidsnark")
    commands: dict[str, list[str] | None] = {
        "snarkjs": [node, str(SNARKJS), "groth16", "prove"] if node and SNARKJS.exists() else None,
        "rapidsnark": [rapidsnark] if rapidsnark else None,
    }
    out: dict[str, list[float] | None] = {}
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder)
        witness.to_wtns(str(at / "w.wtns"))
        files = [str(zkey), str(at / "w.wtns"), str(at / "proof.json"), str(at / "public.json")]
        for name, command in commands.items():
            if command is None:
                out[name] = None
                continue
            say(f"proving with {name}")

            def run(command: list[str] = command) -> None:
                subprocess.run([*command, *files], check=True, capture_output=True)

            out[name] = timed(run, repeat)[0]
    return out


def proving(
    cls: NoiseClass, cache: Path, distinct: int, repeat: int, say: Say
) -> tuple[dict[str, Any], Bench, list[Instance]]:
    """Rows, keys, witnesses and proofs; and the records that verification is measured on."""
    say(f"compiling class {cls.name} (once)")
    built = build(cls, cache / "build")
    rows = search.count_rows(cls)
    if (rows.constraints, rows.public) != (built.constraints, built.public):
        raise SystemExit(f"{cls.name}: the compiled circuit is not what search.count_rows says")
    out: dict[str, Any] = {
        "class": cls.to_mapping(),
        "rows": {
            "constraints": rows.constraints, "public": rows.public, "domain": rows.domain,
            "a_slot": rows.scaling / cls.N, "fixed": rows.rows - rows.scaling,
        },
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        say("making keys")
        out["keys_s"], paths = timed(lambda: make_keys(built.r1cs, cls, class_digest(cls), Path(folder) / "k"), 1)
        out["zkey_bytes"], out["vkey_bytes"] = paths.zkey.stat().st_size, paths.vkey.stat().st_size
        out["load_zkey_s"], pk = timed(lambda: native.ProvingKey.load(str(paths.zkey)), 1)
        r1cs = native.R1cs.load(str(built.r1cs))
        say("committing an index")
        bench = Bench(cls, KeyView(cls, pk.verifying_key()), np.random.default_rng(1))
        made, witness_s, prove_s = [], [], []
        for k in range(distinct):
            say(f"proving record {k + 1} of {distinct}")
            one = make(bench, k)
            packed = one.assignment.packed()
            seconds, witness = timed(partial(r1cs.solve, packed), 1)
            witness_s += seconds
            seconds, proof = timed(partial(pk.prove, witness), 1)
            prove_s += seconds
            made.append(replace(one, proof=bytes(proof)))
        say("peak memory of one proof")
        out["peak_memory_mib"] = peak_memory_mib(paths.zkey, built.r1cs, packed)
        again, _ = timed(lambda: pk.prove(witness), repeat)
        out["others_s"] = other_provers(paths.zkey, witness, repeat, say)
    out["witness_s"], out["prove_s"], out["prove_same_witness_s"] = map(rounded, (witness_s, prove_s, again))
    return out, bench, made


def verification(bench: Bench, made: list[Instance], records: int, say: Say) -> dict[str, Any]:
    """An auditor's check of so many delivered records, in batches and one by one; and their bytes."""
    cycle = [made[k % len(made)] for k in range(records)]
    say(f"opening and checking {records} records in one batch")
    open_s, (part, whole) = timed(lambda: batch(bench, cycle), 1)
    batch_s, _ = timed(lambda: auditor.check_batch(bench.basis, part, whole), 2)
    say("checking them one by one")
    opened = [timed(partial(batch, bench, [one]), 1) for one in made]
    open_single_s, singles = [seconds[0] for seconds, _ in opened], [pair for _, pair in opened]
    single_s = [timed(partial(auditor.check_batch, bench.basis, *pair), 1)[0][0] for pair in singles]
    items = [(one.assignment.clear, one.c_w, one.committed + one.c_v, one.proof) for one in made]
    pairing_s = [timed(partial(bench.key.verify, *item), 1)[0][0] for item in items]
    return {
        "records": records,
        "distinct": len(made),
        "open_batch_s": rounded(open_s),
        "open_single_s": rounded(open_single_s),
        "check_batch_s": rounded(batch_s),
        "check_single_s": rounded(single_s),
        "pairing_alone_s": rounded(pairing_s),
        "openings_bytes": {
            **{name: len(one.encode()) for name, one in zip(bench.key.committed.names, whole.openings, strict=True)},
            "link": len(whole.links[0].opening.encode()),
        },
        "openings_bytes_unfolded": {
            "hints": 32 * (bench.key.layout.size + 1) + 64,
            "link": 32 * (DIMENSION + 2) + 128,
        },
        "rounds": len(folding.lengths(bench.key.layout.size + 1, 1)) - 1,
    }


def delivered(bench: Bench, made: list[Instance], records: int) -> int:
    """Bytes of all batches that an auditor asks for."""
    total = 0
    for start in range(0, records, auditor.BATCH):
        chunk = [made[k % len(made)] for k in range(start, min(start + auditor.BATCH, records))]
        total += len(batch(bench, chunk)[1].encode())
    return total


def committing(bench: Bench, repeat: int) -> dict[str, Any]:
    """An index's columns, and the whole version with its proof of opening, checked as an auditor does."""
    key, entries = bench.key, bench.matrix.size
    columns_s, _ = timed(lambda: commit_columns(bench.group, key.scores, bench.matrix, bench.blinders), repeat)
    version_s, version = timed(lambda: make_version(bench.group, key, TENANT, bench.matrix, {}, secrets.token_bytes), 1)
    return {
        "columns_s": rounded(columns_s),
        "version_s": rounded(version_s),
        "entries": entries,
        "index_file_bytes": len(version.public.encode()),
        "index_file_bytes_unfolded": len(version.public.columns) + 32 * (bench.cls.N + 1),
    }

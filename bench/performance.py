# SPDX-License-Identifier: GPL-3.0-or-later
"""What the proof path costs: rows, keys, proofs, memory, batch verification, index commitments, answers.

``python -m bench.performance --class base`` writes bench/results/performance-<class>.json: every number with its raw
samples, and the machine.  Machines are shared, so ratios of one run mean more than seconds.
"""

from __future__ import annotations

import json
import platform
import resource
import secrets
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np

import ragseal_native as native
from ragseal.circuits.build import build, class_digest, load_classes
from ragseal.groth16.engine import NativeEngine
from ragseal.groth16.group import default_group
from ragseal.groth16.keys import KeyView, make_keys
from ragseal.groth16.proving import Assignment
from ragseal.kernel import attestation, field, hints, opening
from ragseal.kernel.params import CircuitClass, R

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"
DIMENSION = 384


def timed(action: Callable[[], Any], repeat: int) -> tuple[list[float], Any]:
    """Seconds of each run, and what the last one returned."""
    samples, value = [], None
    for _ in range(repeat):
        began = time.perf_counter()
        value = action()
        samples.append(time.perf_counter() - began)
    return samples, value


def summary(samples: list[float]) -> dict[str, Any]:
    return {"median": statistics.median(samples), "samples": [round(s, 6) for s in samples]}


class Instance:
    """One provable record on random scores, without a ledger around it."""

    def __init__(self, cls: CircuitClass, key: KeyView, engine: NativeEngine, rng: np.random.Generator) -> None:
        scale = (256 if cls.law == "gaussian" else 32) << cls.s
        self.hmax = 3 * scale
        self.w = rng.integers(-2 * scale, self.hmax, cls.N)
        self.seed = (secrets.randbits(128), secrets.randbits(128))
        self.t_salt, blinders = secrets.randbelow(R), [secrets.randbelow(R) for _ in range(2)]
        beacon, ctx = secrets.randbits(248), secrets.randbits(248)
        noise_key = hints.noise_key(self.seed, beacon, ctx)
        self.ids = engine.answer(noise_key, self.w, self.hmax)
        self.h = engine.hints(noise_key, self.w, self.hmax)
        group = default_group()
        scores = key.scores
        self.c_w = group.msm(scores.y + scores.b, field.pack([*map(int, self.w), blinders[0]]))
        self.c_h = group.msm(key.hints + scores.b, self.h + field.to_bytes(blinders[1]))
        self.rho_hint = blinders[1]
        t_commit = hints.places_commitment(cls, self.t_salt, self.ids)
        statement = attestation.Statement(hints.seed_commitment(self.seed), beacon, ctx, self.hmax, t_commit)
        both = attestation.challenges(key.digest, secrets.token_bytes(32), statement, self.c_w, self.c_h)
        self.clear = (*statement.clear(), *both)
        self.assignment = Assignment(
            self.clear, tuple(map(int, self.w)), self.h, sum(blinders) % R, self.seed, self.t_salt
        )


def measure(cls: CircuitClass, proofs: int, cache: Path) -> dict[str, Any]:
    """All numbers of one class."""
    rng = np.random.default_rng(1)
    group = default_group()
    began = time.perf_counter()
    built = build(cls, cache / "build")
    out: dict[str, Any] = {"class": cls.to_mapping(), "build_s": time.perf_counter() - began}
    with tempfile.TemporaryDirectory() as folder:
        seconds, paths = timed(lambda: make_keys(built.r1cs, cls, class_digest(cls), Path(folder)), 1)
        out["keys_s"] = seconds[0]
        out["zkey_bytes"], out["vkey_bytes"] = paths.zkey.stat().st_size, paths.vkey.stat().st_size
        seconds, pk = timed(lambda: native.ProvingKey.load(str(paths.zkey)), 1)
        out["load_zkey_s"] = seconds[0]
    key = KeyView(cls, pk.verifying_key())
    r1cs = native.R1cs.load(str(built.r1cs))
    layout = hints.Layout(cls)
    out["rows"] = {
        "constraints": r1cs.n_constraints,
        "public": layout.public,
        "total": r1cs.n_constraints + layout.public,
        "a_slot": (r1cs.n_constraints + layout.public) / cls.N,
        "domain": pk.domain,
    }
    engine = NativeEngine(cls)
    instances = [Instance(cls, key, engine, rng) for _ in range(min(proofs, 8))]
    witness_s, prove_s, made = [], [], []
    for one in instances:
        packed = one.assignment.packed()
        seconds, witness = timed(lambda packed=packed: r1cs.solve(packed), 1)
        witness_s += seconds
        seconds, proof = timed(lambda witness=witness: pk.prove(witness), 1)
        prove_s += seconds
        made.append((one, bytes(proof)))
    both = [a + b for a, b in zip(witness_s, prove_s, strict=True)]
    out["witness_s"], out["prove_s"], out["record_s"] = summary(witness_s), summary(prove_s), summary(both)
    out["witness_share"] = sum(witness_s) / sum(both)
    batch = [(one.clear, one.c_w, one.c_h, proof) for one, proof in made]
    batch = [batch[i % len(batch)] for i in range(proofs)]
    seconds, _ = timed(lambda: key.verify_batch(batch), 3)
    out["batch_verify_ms_a_proof"] = 1000 * min(seconds) / proofs
    seconds, _ = timed(lambda: [key.verify(*item) for item in batch[:20]], 3)
    out["single_verify_ms"] = 1000 * min(seconds) / min(20, proofs)
    out["hint_opening"] = hint_opening(key, [one for one, _ in made])
    matrix = rng.integers(-40, 41, (cls.N, DIMENSION), dtype=np.int8)
    blinders = bytes(native.random_scalars(DIMENSION))
    args = (key.scores.y, key.scores.b, matrix.tobytes(), DIMENSION, blinders)
    seconds, _ = timed(lambda: native.commit_columns(*args), 2)
    out["commit_us_per_entry"] = 1e6 * min(seconds) / matrix.size
    answer_s, _ = timed(lambda: engine.answer(secrets.randbelow(R), instances[0].w, instances[0].hmax), 20)
    hint_s, _ = timed(lambda: engine.hints(secrets.randbelow(R), instances[0].w, instances[0].hmax), 10)
    commit_s, _ = timed(lambda: group.msm(key.hints + key.scores.b, instances[0].h + bytes(32)), 3)
    out["answer_ms"], out["hints_ms"] = 1000 * statistics.median(answer_s), 1000 * statistics.median(hint_s)
    out["hint_commitment_ms"] = 1000 * min(commit_s)
    out["peak_memory_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return out


def hint_opening(key: KeyView, instances: list[Instance]) -> dict[str, Any]:
    """The batched opening of C_h: seconds to make and to check, and its bytes, whatever the number of records."""
    group = default_group()
    context = secrets.token_bytes(32)
    size = key.layout.size + 1
    relation = opening.Relation(key.hints + key.scores.b, ((0, size),), tuple(i.c_h for i in instances))
    weights = opening.powers(opening.fold_challenge("hints", context), len(instances))

    def make() -> opening.Opening:
        witness = group.combine([i.h + field.to_bytes(i.rho_hint) for i in instances], weights)
        nonces = bytes(native.random_scalars(size))
        return opening.prove_opening(group, "hints", context, [relation], witness, nonces)

    prove_s, proof = timed(make, 2)
    verify_s, _ = timed(lambda: opening.verify_opening(group, "hints", context, [relation], size, proof), 2)
    return {"prove_s": min(prove_s), "verify_s": min(verify_s), "bytes": len(proof.encode())}


def machine() -> dict[str, Any]:
    """Processor, cores and versions."""
    model = platform.processor()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = info.read_text().splitlines()
        model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), model)
        cores = sum(line.startswith("processor") for line in lines)
    else:
        cores = 0
    return {"processor": model, "cores": cores, "python": platform.python_version(), "system": platform.platform()}


@click.command()
@click.option(
    "--class", "names", multiple=True, default=("base",), show_default=True, help="Circuit class; repeatable."
)
@click.option(
    "--proofs", default=100, show_default=True, help="Size of the verified batch (at most 8 distinct proofs)."
)
def main(names: tuple[str, ...], proofs: int) -> None:
    """Measure and write bench/results/performance-<class>.json."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    classes = load_classes()
    for name in names:
        click.echo(f"measuring class {name} ...", err=True)
        found = {"machine": machine(), **measure(classes[name], proofs, ROOT / "var")}
        target = RESULTS / f"performance-{name}.json"
        target.write_text(json.dumps(found, indent=1) + "\n")
        short = {k: v for k, v in found.items() if not isinstance(v, dict)}
        click.echo(json.dumps(short, indent=1))
        click.echo(f"written: {target.relative_to(ROOT)}")


if __name__ == "__main__":
    main()

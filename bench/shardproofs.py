# SPDX-License-Identifier: GPL-3.0-or-later
"""Proofs of the shards of one record for :mod:`bench.scale`: seconds, memory of a worker, bytes, seconds of a verifier.

One key, and a record of which each shard is proven as a worker does: from its scores, the seed, the threshold and T.
Figures are given for one shard, and for the record, all of whose shards one process proves one after the other.
"""

from __future__ import annotations

import itertools
import multiprocessing
import secrets
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ragseal.backends.group import default_group
from ragseal.backends.mechanism import NativeNoiseEngine
from ragseal.backends.poseidon import commit_lists, noise_key
from ragseal.circuits.build import build
from ragseal.circuits.circuit import class_digest, load_classes
from ragseal.groth16.assignments import assign_attestation
from ragseal.groth16.keys import make_keys
from ragseal.groth16.provers import NativeBackend
from ragseal.kernel import field, statement
from ragseal.kernel.classes import Asked
from ragseal.kernel.noise_class import NoiseClass
from ragseal.kernel.params import R
from ragseal.kernel.proofs import Statement, challenges
from ragseal.kernel.record_proofs import statements_of

T = TypeVar("T")

STEPS = 96
BATCH = 30  #: proofs that a verifier checks together: those of a record of a million slots


def peak_mib() -> float:
    """Peak resident memory of this process; getrusage would count that of the one that started it."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024


def prove(name: str, builds: Path, zkey: Path, shards: int) -> dict[str, Any]:
    """In a process of its own: its peak memory is a worker's."""
    cls, group, rng = load_classes()[name], default_group(), np.random.default_rng(3)
    assert isinstance(cls, NoiseClass)
    built = build(cls, builds)
    w = rng.integers(-1000 << cls.c, 90 << cls.c, (shards, cls.N))
    seed, beacon, ctx, salt = (1, 2), 3, secrets.randbits(248), secrets.randbits(248)
    engine, key = NativeNoiseEngine(cls), noise_key(seed, beacon, ctx)
    asked = Asked((STEPS,))
    found = engine.select(key, w, asked)
    backend = NativeBackend(cls, built.r1cs, zkey)
    view, rho_v, shared = backend.key, secrets.randbelow(R), (found.threshold, found.threshold_slot)
    c_v = view.committed.commit_shared(group, shared, rho_v)
    lists = commit_lists(cls, salt, found.returned, shards)
    common = Statement(statement.seed_commitment(seed), beacon, ctx, asked, lists)
    proven, parts = [], []
    clock, processor = time.perf_counter(), time.process_time()
    for shard, stated in enumerate(statements_of(cls, common, shards)):
        times = [time.perf_counter()]
        h = engine.hints(key, w[shard], STEPS, (shard, shards), found)
        times.append(time.perf_counter())
        rho, rhos, own = secrets.randbelow(R), [secrets.randbelow(R) for _ in range(2)], tuple(map(int, w[shard]))
        c_w = group.msm(view.scores.y + view.scores.b, field.pack([*own, rho]))
        c_h = view.committed.commit(group, [h], [rhos])
        times.append(time.perf_counter())
        alpha, beta = challenges(view.digest, bytes(32), stated, c_w, c_h + c_v)
        clear = (*stated, alpha, beta)
        blind = (rho + rhos[0] + beta * rhos[1] + rho_v) % R
        proof = backend.prove(assign_attestation(cls, clear, own, [h], shared, blind, (seed, salt)))
        times.append(time.perf_counter())
        parts.append([b - a for a, b in itertools.pairwise(times)])
        proven.append((clear, c_w, c_h + c_v, proof))
    whole = {"seconds": time.perf_counter() - clock, "processor_seconds": time.process_time() - processor}
    for one in proven:
        view.verify(*one)
    began = time.perf_counter()
    view.verify_batch([proven[k % shards] for k in range(BATCH)])
    verified = time.perf_counter() - began
    middle = [sorted(times)[len(times) // 2] for times in zip(*parts, strict=True)]
    return {
        "class": name,
        "slots_a_shard": cls.N,
        "shards": shards,
        "record": {name: round(value, 3) for name, value in whole.items()},
        "seconds_a_shard": dict(zip(("hints", "commitments", "proof"), (round(x, 3) for x in middle), strict=True)),
        "samples_s": [[round(x, 4) for x in one] for one in parts],
        "worker_peak_mib": round(peak_mib(), 1),
        "bytes_a_shard": len(proven[0][2]) - len(c_v) + len(proven[0][3]),
        "bytes_a_record": len(c_v),
        "verify_ms_a_shard": round(1000 * verified / BATCH, 3),
    }


def proofs(name: str, builds: Path, keys: Path, shards: int = 3) -> dict[str, Any]:
    """Figures of one class; ``builds`` holds compiled circuits, ``keys`` takes the key."""
    cls = load_classes()[name]
    made = make_keys(build(cls, builds).r1cs, cls, class_digest(cls), keys)
    return apart(prove, name, builds, made.zkey, shards)


def apart(measure: Callable[..., T], *arguments: Any) -> T:
    """What ``measure`` finds in a process of its own, whose peak memory is then its own; raises what it raises."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as one:
        return one.submit(measure, *arguments).result()

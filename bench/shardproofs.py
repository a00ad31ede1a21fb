# SPDX-License-Identifier: GPL-3.0-or-later
"""Proofs of a record's shards, for :mod:`bench.scale` and :mod:`bench.table2`: time, memory of a worker, bytes.

One key, and a record of either law of which each shard is proven as a worker does, from its scores and hints.
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
from ragseal.backends.mechanism import open_engine
from ragseal.backends.poseidon import commit_lists, noise_key
from ragseal.circuits.build import build
from ragseal.circuits.circuit import class_digest, load_classes
from ragseal.groth16.assignments import assign_attestation
from ragseal.groth16.keys import make_keys
from ragseal.groth16.provers import NativeBackend
from ragseal.kernel import field, statement
from ragseal.kernel.params import R
from ragseal.kernel.proofs import Statement, challenges
from ragseal.kernel.record_proofs import statements_of

T = TypeVar("T")

BATCH = 30  #: proofs that a verifier checks together: those of a record of a million slots


def peak_mib() -> float:
    """Peak resident memory of this process; getrusage would count that of the one that started it."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024


def prove(name: str, builds: Path, zkey: Path, shards: int) -> dict[str, Any]:
    """A record on random scores, as a key from elsewhere is tried; in a process of its own, a worker's memory."""
    cls, group, rng = load_classes()[name], default_group(), np.random.default_rng(3)
    asked, reach, matching = cls.tried()
    w = rng.integers(-reach, 0, (shards, cls.N))
    w.ravel()[rng.choice(w.size, matching, replace=False)] = rng.integers(0, reach, matching)
    seed, beacon, ctx, salt = (1, 2), 3, secrets.randbits(248), secrets.randbits(248)
    engine, backend = open_engine(cls), NativeBackend(cls, build(cls, builds).r1cs, zkey)
    key, view, bases = noise_key(seed, beacon, ctx), backend.key, backend.key.committed
    answer = engine.answer(key, w.ravel(), asked)
    lists, proven, parts = commit_lists(cls, salt, answer, shards), [], []
    common = Statement(statement.seed_commitment(seed), beacon, ctx, asked, lists)
    clock, processor = time.perf_counter(), time.process_time()
    found, rho_v = engine.hidden(key, w.ravel(), asked), secrets.randbelow(R)
    c_v = bases.commit_shared(group, found.shared, rho_v)
    hints = time.perf_counter() - clock
    for shard, (stated, hidden) in enumerate(zip(statements_of(cls, common, shards), found, strict=True)):
        times = [time.perf_counter()]
        rho, own = secrets.randbelow(R), w[shard].tolist()
        blinders = [[secrets.randbelow(R) for _ in use.over] for use in bases.own]
        c_w = group.msm(view.scores.y + view.scores.b, field.pack([*own, rho]))
        committed = bases.commit(group, hidden, blinders) + c_v
        times.append(time.perf_counter())
        alpha, beta = challenges(view.digest, bytes(32), stated, c_w, committed)
        every = (rho, *itertools.chain.from_iterable(blinders), rho_v)
        blind = sum(scale * one for scale, one in zip(view.stated.scales(beta), every, strict=True)) % R
        clear = (*stated, alpha, beta)
        proof = backend.prove(assign_attestation(cls, clear, own, hidden, found.shared, blind, (seed, salt)))
        times.append(time.perf_counter())
        parts.append([b - a for a, b in itertools.pairwise(times)])
        proven.append((clear, c_w, committed, proof))
    whole = {"seconds": time.perf_counter() - clock, "processor_seconds": time.process_time() - processor}
    for one in proven:
        view.verify(*one)
    began = time.perf_counter()
    view.verify_batch([proven[k % shards] for k in range(BATCH)])
    verified = time.perf_counter() - began
    commitments, made = (sorted(times)[len(times) // 2] for times in zip(*parts, strict=True))
    spent = {"hints": hints / shards, "commitments": commitments, "proof": made}
    return {
        "class": name,
        "slots_a_shard": cls.N,
        "shards": shards,
        "record": {name: round(value, 3) for name, value in whole.items()},
        "seconds_a_shard": {name: round(value, 3) for name, value in spent.items()},
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

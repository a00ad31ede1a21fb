# SPDX-License-Identifier: GPL-3.0-or-later
"""The answer path against its peer: plain FAISS flat search of the same vectors and one Ed25519 signature.

The answer path is what a provider computes between a signed request and the bytes that it makes durable, without the
embedding: key, exact scores of all slots, noise over every slot or draws of decoys, T, C_y, the commitment to T, one
signature.
"""

from __future__ import annotations

import secrets
import statistics
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import faiss
import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from bench.records import DIMENSION, policy_of, unit_rows
from ragseal.backends.group import default_group
from ragseal.backends.mechanism import open_engine
from ragseal.backends.native import native
from ragseal.backends.poseidon import noise_key
from ragseal.backends.scores import commit_scores
from ragseal.circuits import search
from ragseal.circuits.circuit import class_digest
from ragseal.kernel import field, signature
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.commitment import ScoreBases
from ragseal.kernel.noise import scale_of
from ragseal.kernel.noise_class import NoiseClass
from ragseal.kernel.params import GEOMETRIC, R
from ragseal.kernel.policy import UNTIL_DELIVERED, Policy
from ragseal.prover.attestation import retrieval
from ragseal.prover.commitment.index import Columns
from ragseal.prover.commitment.policy_file import Binding, read_policy
from ragseal.prover.planning.budgets import RETURN
from ragseal.prover.provider import assembly

LARGE = 100_000


def large_class(slots: int = LARGE) -> NoiseClass:
    """A class of so many slots with its proven number of places; nobody has to compile it to answer with it."""
    return search.complete_noise(f"n{slots}", GEOMETRIC, slots, 10, 12, 16, 12, 1)


def alternately(
    actions: dict[str, Callable[[], Any]], rounds: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Seconds of each action, one after the other in every round: what else the machine does meets all alike.

    Args:
        clock: ``time.process_time`` counts this process alone, all of its threads.
    """
    samples: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(rounds):
        for name, action in actions.items():
            began = clock()
            action()
            samples[name].append(clock() - began)
    return samples


def processor_ms(actions: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Medians of processor time; FAISS has one thread meanwhile, since others of its would wait in loops that count."""
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        return medians_ms(alternately(actions, rounds, time.process_time))
    finally:
        faiss.omp_set_num_threads(threads)


def medians_ms(samples: dict[str, list[float]]) -> dict[str, float]:
    """Of each action, in milliseconds."""
    return {name: round(1000 * statistics.median(values), 4) for name, values in samples.items()}


def _policy(cls: AttestationClass) -> Policy:
    """Of a class of noise three times its scale over the public window; of decoys the default at return 6."""
    lo, hi = 4839, 11290
    if isinstance(cls, NoiseClass):
        return policy_of(cls, lo, hi, 3 * (scale_of(cls.law) << cls.step_bits) // (hi - lo))
    values = {"class": cls.name, "claim": UNTIL_DELIVERED, "unseen": 3, "return": RETURN, "lo": 0.3, "n_max": 10,
              "k_max": 2, "delta": "1/1000000", "estimate": "report"}  # fmt: skip
    return read_policy(values, Binding(cls, class_digest(cls), DIMENSION, 0), assembly.advertised_epsilon)


def against_faiss(cls: AttestationClass, documents: int, rounds: int) -> dict[str, Any]:
    """Both paths on one index of ``documents`` vectors in a class of at least as many slots."""
    rng, group = np.random.default_rng(2), default_group()
    matrix = unit_rows(rng, cls.N)
    matrix[documents:] = 0
    flat = faiss.IndexFlatIP(DIMENSION)
    flat.add(matrix[:documents].astype(np.float32))
    signer, engine = Ed25519PrivateKey.generate(), open_engine(cls)
    points = group.hash_to_curve(b"bench columns", DIMENSION + 1)
    key: Any = SimpleNamespace(cls=cls, scores=ScoreBases(b"", points[-64:]))
    version: Any = SimpleNamespace(in_force=Columns(matrix, (0,) * matrix.shape[1], points[:-64]))
    policy = _policy(cls)
    first = policy.ids or policy.capacity(cls)
    seed, beacon, e = (secrets.randbits(128), secrets.randbits(128)), secrets.randbits(248), unit_rows(rng, 1)[0]
    query, record = e.astype(np.float32)[None], secrets.token_bytes(500)

    def answer() -> None:
        asked = retrieval.Query(e.tobytes(), 1, noise_key(seed, beacon, secrets.randbits(248)))
        retrieval.answer_query(group, engine, key, version, policy, asked, secrets.token_bytes)
        signature.sign(signer, "receipt", record)

    def peer() -> None:
        flat.search(query, first)
        signer.sign(record)

    w = retrieval.shifted_scores(policy, cls, version, [int(x) for x in e])
    blocks = {width: [field.to_bytes(secrets.randbelow(R)) for _ in range(width - 1)] for width in (3, 17)}
    parts = {
        "scores": lambda: version.in_force.scored.scores(e),
        "noise_and_selection": lambda: engine.answer(secrets.randbelow(R), w, policy.asked(cls)),
        "poseidon_width_17": lambda: native.poseidon(blocks[17]),
        "poseidon_width_3": lambda: native.poseidon(blocks[3]),
        "c_y": lambda: commit_scores(group, points[:-64], key.scores, [int(x) for x in e], R - 5),
    }
    for action in (answer, peer):
        action()
    samples = alternately({"answer": answer, "faiss_and_signature": peer, **parts}, rounds)
    spent = processor_ms({"answer": answer, "faiss_and_signature": peer}, rounds)
    median = medians_ms(samples)
    return {
        "ratio": median["answer"] / median["faiss_and_signature"],
        "processor_ratio": spent["answer"] / spent["faiss_and_signature"],
        "slots": cls.N,
        "documents": documents,
        "K": first,
        "median_ms": median,
        "median_processor_ms": spent,
        "samples_s": {name: [round(x, 6) for x in values] for name, values in samples.items()},
    }

# SPDX-License-Identifier: GPL-3.0-or-later
"""``python -m bench.scale``: answers over an index of shards beside FAISS flat, and the provider's memory, in one run.

Writes bench/results/scale.json.  Vectors are synthetic: random unit vectors, which is all that time and memory depend
on.  An answer is: exact scores of all slots, a commitment C_y of every shard, noise over every slot of every shard, the
top K, and a signature; the peer is FAISS IndexFlatIP over the same vectors as float32, with a signature.  Memory is the
peak of a process of its own that holds the index and answers, without FAISS.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from typing import Any

import click
import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from bench import shardproofs
from bench.answering import alternately, medians_ms, processor_ms
from bench.experiment import RESULTS, ROOT, machine, save
from bench.records import DIMENSION
from ragseal.backends.group import default_group
from ragseal.backends.mechanism import NativeNoiseEngine, NoiseAnswer
from ragseal.backends.native import native
from ragseal.backends.poseidon import noise_key
from ragseal.backends.scores import NativeScores
from ragseal.circuits.build import default_cache
from ragseal.circuits.circuit import load_classes
from ragseal.kernel import field
from ragseal.kernel.classes import Asked
from ragseal.kernel.noise_class import NoiseClass
from ragseal.kernel.params import R

#: Slots asked for, and the class whose shards hold them.
SIZES = {10_000: "noise-small-two-50", 100_000: "noise-large-gaussian-50", 1_000_000: "noise-large-gaussian-50"}
TARGETS = {10_000: 1.5, 100_000: 1.3, 1_000_000: 1.3}  #: of the medians' ratio
MEMORY_MIB = 2048
STEPS, LO = 96, 4839
BLOCK = 1 << 16  #: vectors made at a time

Rows = npt.NDArray[np.int8]


def vectors(count: int) -> Rows:
    """Random int8 vectors of one length, made in blocks so that they are never held as floats together."""
    rng, out = np.random.default_rng(2), np.empty((count, DIMENSION), dtype=np.int8)
    for at in range(0, count, BLOCK):
        block = rng.standard_normal((min(BLOCK, count - at), DIMENSION), dtype=np.float32)
        block *= 127 / np.linalg.norm(block, axis=1, keepdims=True)
        out[at : at + len(block)] = np.rint(block)
    return out


class Index:
    """Slots of several shards, and how a provider answers on them."""

    def __init__(self, cls: NoiseClass, slots: int) -> None:
        self.cls, self.shards = cls, -(-slots // cls.N)
        rows = vectors(self.shards * cls.N)
        rows[slots:] = 0
        self.matrix = NativeScores(rows).rows
        points = default_group().hash_to_curve(b"bench columns", DIMENSION + 1)
        # One shard's columns stand for all: a commitment's time does not depend on the points.
        self.committer = native.Committer(points[:-64], points[-64:])
        self.engine = NativeNoiseEngine(cls)
        self.signer = Ed25519PrivateKey.generate()
        self.gain = (STEPS << cls.c) // (11290 - LO)
        self.seed = secrets.randbits(128), secrets.randbits(128)

    def scores(self, e: Rows) -> npt.NDArray[np.int64]:
        """w of every slot."""
        y = np.frombuffer(self.matrix.scores(e.tobytes()), dtype="<i4")
        return self.gain * (y.astype(np.int64) - LO)

    def select(self, w: npt.NDArray[np.int64]) -> NoiseAnswer:
        """Noise over every slot, and the top K."""
        return self.engine.select(noise_key(self.seed, 5, secrets.randbits(248)), w, Asked((STEPS,)))

    def commit(self, e: Rows) -> list[bytes]:
        """C_y of every shard."""
        given = e.tobytes()
        return [self.committer.commit(given, field.to_bytes(secrets.randbelow(R))) for _ in range(self.shards)]

    def answer(self, e: Rows) -> NoiseAnswer:
        """All of an answer but its texts."""
        found = self.select(self.scores(e))
        self.signer.sign(b"".join(self.commit(e)))
        return found


def _class_of(name: str) -> NoiseClass:
    cls = load_classes()[name]
    assert isinstance(cls, NoiseClass)
    return cls


def _memory(name: str, slots: int) -> float:
    index, e = Index(_class_of(name), slots), vectors(1)[0]
    for _ in range(3):
        index.answer(e)
    return shardproofs.peak_mib()


def memory_mib(name: str, slots: int) -> float:
    """Peak resident memory of a process that loads an index and answers."""
    return shardproofs.apart(_memory, name, slots)


def against_faiss(name: str, slots: int, rounds: int) -> dict[str, Any]:
    """Both paths on the same vectors, and the parts of ours."""
    import faiss  # an optional package

    cls = _class_of(name)
    index, e = Index(cls, slots), vectors(1)[0]
    flat, rows = faiss.IndexFlatIP(DIMENSION), vectors(index.shards * cls.N)
    for at in range(0, slots, BLOCK):
        flat.add(rows[at : min(at + BLOCK, slots)].astype(np.float32))
    del rows
    query, record, w = e.astype(np.float32)[None], secrets.token_bytes(500), index.scores(e)

    def peer() -> None:
        flat.search(query, cls.K)
        index.signer.sign(record)

    actions: dict[str, Callable[[], object]] = {
        "answer": lambda: index.answer(e),
        "faiss_and_signature": peer,
        "scores": lambda: index.scores(e),
        "noise_and_selection": lambda: index.select(w),
        "commitments": lambda: index.commit(e),
    }
    for action in actions.values():
        action()
    samples = alternately(actions, rounds)
    median = medians_ms(samples)
    both = {part: actions[part] for part in ("answer", "faiss_and_signature")}
    spent = processor_ms(both, rounds)
    return {
        "class": name,
        "slots": slots,
        "shards": index.shards,
        "ratio": median["answer"] / median["faiss_and_signature"],
        "processor_ratio": spent["answer"] / spent["faiss_and_signature"],
        "target": TARGETS[slots],
        "median_ms": median,
        "median_processor_ms": spent,
        "samples_s": {part: [round(x, 6) for x in values] for part, values in samples.items()},
    }


@click.command()
@click.option("--rounds", default=15, show_default=True)
@click.option("--size", "sizes", type=int, multiple=True, help="Slots; default: all sizes.")
def main(rounds: int, sizes: tuple[int, ...]) -> None:
    """Measure every size and write scale.json."""
    found = []
    for slots in sizes or SIZES:
        one = against_faiss(SIZES[slots], slots, rounds)
        one["peak_memory_mib"] = round(memory_mib(SIZES[slots], slots), 1)
        found.append(one)
        click.echo(
            f"{slots} slots in {one['shards']} shards: {one['ratio']:.2f} times FAISS (target {one['target']}; "
            f"{one['processor_ratio']:.2f} in processor time), "
            f"{one['median_ms']} ms, peak {one['peak_memory_mib']} MiB (target {MEMORY_MIB})"
        )
    if not sizes:
        proven = shardproofs.proofs("noise-large-gaussian-50", default_cache(), ROOT / "var" / "bench" / "shards")
        click.echo(json.dumps({name: value for name, value in proven.items() if name != "samples_s"}))
        save(RESULTS / "scale.json", {"machine": machine(), "sizes": found, "proofs": proven})


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: GPL-3.0-or-later
"""Many honest statements satisfy the compiled circuit with noise: native engine and witness, every kind of scores."""

from __future__ import annotations

import random

import numpy as np
import pytest

from ragseal.circuits.build import build
from ragseal.groth16.assignments import assign_attestation
from ragseal.kernel import statement
from ragseal.kernel.classes import Asked
from ragseal.kernel.mechanism import noise_key
from ragseal.kernel.noise_class import check_scores
from ragseal.kernel.params import NOISE_LAWS
from ragseal.kernel.statements import stated_of
from tests.circuits.scene import CACHE, noise_probe, noise_tiny

native = pytest.importorskip("ragseal_native")
from ragseal.backends.mechanism import NativeNoiseEngine  # noqa: E402

pytestmark = pytest.mark.slow


def digits(kind: str, n: int, steps: int, rng: random.Random) -> list[int]:
    """Of n slots, as far as a class allows with a window of ``steps``."""
    least, most = steps - 2047, 2048
    return {
        "random": lambda: [rng.randrange(least, most + 1) for _ in range(n)],
        "equal": lambda: [rng.randrange(least, most + 1)] * n,
        "around the window": lambda: [rng.randrange(-3, steps + 4) for _ in range(n)],
        "clustered": lambda: [rng.choice((0, steps // 2, steps)) for _ in range(n)],
        "extreme": lambda: [rng.choice((least, most)) for _ in range(n)],
        "empty": lambda: [-900 if rng.randrange(4) else rng.randrange(-300, steps + 1) for _ in range(n)],
        "one": lambda: [most] + [least] * (n - 1),
    }[kind]()


@pytest.mark.parametrize("kind", ["random", "equal", "around the window", "clustered", "extreme", "empty", "one"])
@pytest.mark.parametrize("law", [*NOISE_LAWS, "probe"])
def test_honest_statements(law: str, kind: str) -> None:
    cls, shards = (noise_probe(), 1) if law == "probe" else (noise_tiny(law), 2)
    circuit, engine, rng = native.R1cs.load(str(build(cls, CACHE).r1cs)), NativeNoiseEngine(cls), random.Random(kind)
    for _ in range(5 if law == "probe" else 40):
        steps = rng.choice((1, 2, 16, 96, 128, 400))
        check_scores(cls, steps, steps - 2047, 2048)
        ks = digits(kind, cls.N * shards, steps, rng)
        w = np.array([(k << cls.c) + rng.randrange(1 << cls.c) for k in ks], dtype=np.int64)
        seed, beacon, ctx = (rng.getrandbits(128), rng.getrandbits(128)), rng.getrandbits(248), rng.getrandbits(248)
        key, salt = noise_key(seed, beacon, ctx), rng.getrandbits(248)
        asked = Asked((steps,))
        common = statement.seed_commitment(seed), beacon, ctx, steps
        lists = stated_of(cls).lists(salt, engine.answer(key, w, asked), shards)
        hidden, challenges = engine.hidden(key, w, asked), (rng.getrandbits(248), rng.getrandbits(248))
        for shard, own in enumerate(w.reshape(shards, cls.N).tolist()):
            clear = (*common, *lists, shard, shards, *challenges)
            given = assign_attestation(cls, clear, own, hidden[shard], hidden.shared, 5, (seed, salt))
            assert circuit.check(circuit.solve(given.packed())) is None

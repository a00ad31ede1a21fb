# SPDX-License-Identifier: GPL-3.0-or-later
"""The native engine over several shards gives what the reference gives, bit for bit."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from ragseal.kernel import field
from ragseal.kernel.errors import AttestationError, UnprovableError
from ragseal.kernel.mechanism import noise_key
from ragseal.kernel.noise_hints import noise_hints
from ragseal.kernel.noise_mechanism import select_noise
from tests.circuits.noise_records import STEPS, scores_of
from tests.classes import TINY

pytest.importorskip("ragseal_native")
from ragseal.backends.mechanism import NativeNoiseEngine, NoiseAnswer

CLS = TINY
ENGINE = NativeNoiseEngine(CLS)
KINDS = {
    "random": lambda rng, shard: rng.randrange(-900, 300),
    "equal": lambda rng, shard: 7,
    "one shard wins": lambda rng, shard: 128 if shard == 1 else -1000,
    "extreme": lambda rng, shard: rng.choice((STEPS - 2047, 2048)),
}


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_answers_and_hints_equal_the_reference(kind: str, shards: int) -> None:
    rng = random.Random(kind)
    w = [scores_of(CLS, [KINDS[kind](rng, s) for _ in range(CLS.N)], rng) for s in range(shards)]
    key, scores = noise_key((7, rng.getrandbits(128)), 8, 9), np.array(w, dtype=np.int64)
    chosen = select_noise(CLS, key, w, STEPS)
    found = ENGINE.select(key, scores, STEPS)
    assert found == NoiseAnswer(chosen.returned, chosen.threshold, chosen.threshold_slot)
    for shard in range(shards):
        made = ENGINE.hints(key, scores[shard], STEPS, (shard, shards), found)
        assert made == field.pack(noise_hints(CLS, chosen, shard, w[shard], STEPS))


def test_a_prover_of_one_shard_refuses_what_is_no_part_of_the_index() -> None:
    scores = np.zeros((2, CLS.N), dtype=np.int64)
    found = ENGINE.select(5, scores, STEPS)
    for place, answer, why in (
        ((2, 2), found, "no shard 2 of 2"),
        ((0, 65), found, "no shard"),
        ((0, 2), replace(found, returned=found.returned[::-1]), "increasing"),
        ((0, 2), replace(found, returned=found.returned[1:]), "increasing"),
        ((0, 2), replace(found, threshold_slot=-1), "increasing"),
    ):
        with pytest.raises(AttestationError, match=why):
            ENGINE.hints(5, scores[0], STEPS, place, answer)
    with pytest.raises(UnprovableError, match="could win"):
        ENGINE.hints(5, scores[0], STEPS, (0, 2), replace(found, threshold=-1000))


@pytest.mark.parametrize("count", [0, 125, 65 * 126])
def test_scores_that_are_no_shards_are_refused(count: int) -> None:
    with pytest.raises(AttestationError, match="of 1 to 64 shards of 126"):
        ENGINE.select(5, np.zeros(count, dtype=np.int64), STEPS)

# SPDX-License-Identifier: GPL-3.0-or-later
"""A record over the shards of the tiny class: scores, the selection, and every shard's inputs."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ragseal.groth16.assignments import Assignment
from ragseal.kernel import field, statement
from ragseal.kernel.mechanism import noise_key
from ragseal.kernel.noise_class import NoiseClass
from ragseal.kernel.noise_hints import noise_hints
from ragseal.kernel.noise_mechanism import NoiseSelection, select_noise
from ragseal.kernel.noise_statement import NoiseLayout
from tests.classes import TINY

STEPS = 128


def scores_of(cls: NoiseClass, digits: Sequence[int], rng: random.Random) -> list[int]:
    """Scores with these digits and any remainder."""
    return [(k << cls.c) + rng.randrange(1 << cls.c) for k in digits]


@dataclass
class NoiseRecord:
    """One query, its answer, and what its provers put in."""

    cls: NoiseClass
    seed: tuple[int, int]
    beacon: int
    ctx: int
    salt: int
    w: list[list[int]]
    selection: NoiseSelection

    def assignment(self, shard: int, alpha: int, beta: int) -> Assignment:
        """The honest inputs of one shard, under challenges that stand for a verifier's."""
        chosen, t_commit = self.selection, statement.places_commitment(self.cls, self.salt, self.selection.returned)
        sizes = shard, len(self.w)
        return Assignment(
            clear=(statement.seed_commitment(self.seed), self.beacon, self.ctx, STEPS, t_commit, *sizes, alpha, beta),
            w=tuple(self.w[shard]),
            h=field.pack(noise_hints(self.cls, chosen, shard, self.w[shard], STEPS)),
            blind=5,
            seed=self.seed,
            t_salt=self.salt,
            threshold=(chosen.threshold, chosen.threshold_slot),
        )


def noise_record(number: int, shards: int = 3, digits: Sequence[Sequence[int]] | None = None) -> NoiseRecord:
    """An honest record; ``digits``: of every shard's slots, else any."""
    cls, rng = TINY, random.Random(number)
    if digits is None:
        digits = [[rng.randrange(-900, 300) for _ in range(cls.N)] for _ in range(shards)]
    w = [scores_of(cls, one, rng) for one in digits]
    seed, beacon, ctx, salt = (rng.getrandbits(128), rng.getrandbits(128)), *(rng.getrandbits(248) for _ in range(3))
    selection = select_noise(cls, noise_key(seed, beacon, ctx), w, STEPS)
    return NoiseRecord(cls, seed, beacon, ctx, salt, w, selection)


def edited(one: Assignment, **groups: Sequence[int]) -> Assignment:
    """The same inputs with some arrays of hints replaced, and the range table's multiplicities left as they are."""
    layout = NoiseLayout(TINY)
    h = list(field.unpack(one.h))
    for name, values in groups.items():
        group = layout.by_name[name]
        assert len(values) == group.count, name
        h[group.offset : group.offset + group.count] = values
    return replace(one, h=field.pack(h))


def group_of(one: Assignment, name: str) -> list[int]:
    """One array of hints."""
    group = NoiseLayout(TINY).by_name[name]
    return list(field.unpack(one.h))[group.offset : group.offset + group.count]

# SPDX-License-Identifier: GPL-3.0-or-later
"""A record over the shards of the tiny class: scores, the selection, and every shard's inputs."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ragseal.groth16.assignments import Assignment, assign_attestation
from ragseal.kernel import field, statement
from ragseal.kernel.classes import Asked
from ragseal.kernel.mechanism import noise_key
from ragseal.kernel.noise_class import NoiseClass
from ragseal.kernel.noise_hints import noise_hints
from ragseal.kernel.noise_mechanism import NoiseSelection, select_noise
from ragseal.kernel.noise_statement import NoiseLayout
from ragseal.kernel.proofs import Statement
from ragseal.kernel.record_proofs import statements_of
from ragseal.kernel.statements import stated_of
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

    def assignment(self, shard: int, alpha: int, beta: int, blind: int = 5) -> Assignment:
        """The honest inputs of one shard, under challenges that stand for a verifier's."""
        clear = (*statements_of(self.cls, self.common, len(self.w))[shard], alpha, beta)
        secret = self.seed, self.salt
        return assign_attestation(self.cls, clear, self.w[shard], [self.hints(shard)], self.threshold, blind, secret)

    @property
    def common(self) -> Statement:
        """What the proofs of all shards state."""
        lists = stated_of(self.cls).lists(self.salt, self.selection.returned, len(self.w))
        return Statement(statement.seed_commitment(self.seed), self.beacon, self.ctx, Asked((STEPS,)), lists)

    @property
    def threshold(self) -> tuple[int, int]:
        """What C_v opens to."""
        return self.selection.threshold, self.selection.threshold_slot

    def hints(self, shard: int) -> bytes:
        """What C_h of a shard opens to."""
        return field.pack(noise_hints(self.cls, self.selection, shard, self.w[shard], STEPS))


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
    hidden = list(field.unpack(one.hidden))
    for name, values in groups.items():
        group = layout.by_name[name]
        assert len(values) == group.count, name
        at = TINY.N + group.offset
        hidden[at : at + group.count] = values
    return replace(one, hidden=field.pack(hidden))


def group_of(one: Assignment, name: str) -> list[int]:
    """One array of hints."""
    group = NoiseLayout(TINY).by_name[name]
    at = TINY.N + group.offset
    return list(field.unpack(one.hidden))[at : at + group.count]

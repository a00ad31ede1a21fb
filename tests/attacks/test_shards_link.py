# SPDX-License-Identifier: GPL-3.0-or-later
"""One opening ties the C_y of all shards to one embedding: psi is drawn once all of them are there.  SPEC B.7."""

from __future__ import annotations

import random
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from ragseal.backends.group import default_group
from ragseal.kernel import field, proofs
from ragseal.kernel.errors import ProofError
from ragseal.kernel.opening import powers, prove_opening
from ragseal.kernel.params import R
from tests.attacks.checks import without
from tests.attacks.removal import Check

GROUP = default_group()
D, SHARDS, SLOTS = 16, 3, 8
SCORES = GROUP.hash_to_curve(b"scores", SLOTS)
B = GROUP.hash_to_curve(b"blinder", 1)
GENERATORS = GROUP.hash_to_curve(b"generators", D + 1)
FORESEEN = Check(proofs, "shard_weight", lambda here: 1)


def combination(points: bytes, scalars: Sequence[int]) -> bytes:
    return GROUP.msm(points, field.pack([x % R for x in scalars]))


class Provider:
    """Columns of every shard, one question, and the opening of what is said about it."""

    def __init__(self) -> None:
        rng = random.Random(5)
        self.columns = [
            b"".join(combination(SCORES + B, [rng.randrange(-127, 128) for _ in range(SLOTS + 1)]) for _ in range(D))
            for _ in range(SHARDS)
        ]
        self.e, self.r = [rng.randrange(-127, 128) for _ in range(D)], rng.randrange(R)
        self.rhos = [rng.randrange(R) for _ in range(SHARDS)]
        self.c_e = combination(GENERATORS, [*self.e, self.r])
        self.nonces = field.pack([rng.randrange(R) for _ in range(D + 2)])

    def c_y(self, e: Sequence[Sequence[int]] | None = None) -> list[bytes]:
        own = e or [self.e] * SHARDS
        return [
            combination(columns + B, [*one, rho])
            for columns, one, rho in zip(self.columns, own, self.rhos, strict=True)
        ]

    def check(self, c_y: Sequence[bytes], columns: Sequence[bytes] | None = None) -> None:
        """Prove the link and verify it, over the columns that the manifest has."""
        record = SimpleNamespace(c_y=b"".join(c_y), signed=SimpleNamespace(request=SimpleNamespace(c_e=self.c_e)))
        items: list[Any] = [SimpleNamespace(record=record)]
        here = proofs.link_context(record.c_y + self.c_e, "acme", b"i" * 32)
        shown = b"".join(columns or self.columns)
        relations = proofs.link_relations(GENERATORS, shown, B, here, items)
        weights = powers(proofs.shard_weight(here), SHARDS)
        rho = sum(psi * one for psi, one in zip(weights, self.rhos, strict=True)) % R
        witness = field.pack([x % R for x in (*self.e, self.r, rho)])
        made = prove_opening(GROUP, "link", here, relations, witness, self.nonces)
        proofs.verify_link(GROUP, GENERATORS, b"".join(self.columns), B, here, items, made)


def test_the_honest_one_holds() -> None:
    Provider().check(Provider().c_y())


def test_scores_that_one_shard_gives_and_another_takes_are_refused() -> None:
    """A document is lifted in one shard and an empty slot of another sinks by as much: their sum is what it was."""
    made = Provider()
    first, second, third = made.c_y()
    moved = [
        combination(first + SCORES[:64], [1, 900]),
        combination(second + SCORES[:64], [1, -900]),
        third,
    ]
    with pytest.raises(ProofError, match="the link opening does not hold"):
        made.check(moved)
    with without(FORESEEN):
        made.check(moved)


def test_shards_of_two_embeddings_are_refused() -> None:
    """Two questions whose columns cooperate: what shard 0 has too much of, shard 1 lacks."""
    made = Provider()
    made.columns[1] = made.columns[0]
    up, down = [made.e[0] + 9, *made.e[1:]], [made.e[0] - 9, *made.e[1:]]
    c_y = made.c_y([up, down, made.e])
    with pytest.raises(ProofError, match="the link opening does not hold"):
        made.check(c_y)
    with without(FORESEEN):
        made.check(c_y)


def test_shards_in_another_order_are_refused() -> None:
    made = Provider()
    first, second, third = made.c_y()
    with pytest.raises(ProofError, match="the link opening does not hold"):
        made.check([second, first, third])
    turned = Provider()
    turned.columns = [made.columns[1], made.columns[0], made.columns[2]]
    turned.rhos = made.rhos
    with pytest.raises(ProofError, match="the link opening does not hold"):
        made.check(turned.c_y(), turned.columns)
    with without(FORESEEN):
        made.check(turned.c_y(), turned.columns)


def test_another_number_of_shards_is_refused() -> None:
    made = Provider()
    for wrong in (made.c_y()[:2], [*made.c_y(), made.c_y()[0]]):
        with pytest.raises(ProofError, match="another number of C_y than its index has shards"):
            made.check(wrong)

# SPDX-License-Identifier: GPL-3.0-or-later
"""One tenant's thinned index by a provider that may lie in one thing, everything else made to fit the lie.

Circuit, key and proofs are real, of 126 slots; the attestation key's points are hashed to the curve.  Entries of
indices are field elements here: a liar's need not be small.  There is no log and no window around it: what is attacked
is one statement, and the simulator's indices could not hold what a liar's may.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from ragseal.backends.group import default_group
from ragseal.groth16.assignments import CoinWitness, ThinningAssignment, coin_witness
from ragseal.groth16.coin_proofs import CoinScores, Opened
from ragseal.groth16.provers import ThinningBackend
from ragseal.kernel import commitment, field, thinning
from ragseal.kernel.bn254 import POINT_BYTES
from ragseal.kernel.coin import coin_commitment, coin_context, hidden_slots
from ragseal.kernel.coin_proof import Coined, CoinProof, nonces_needed, prove_coins
from ragseal.kernel.commitment import IndexFile, ScoreBases, prove_columns, verify_columns
from ragseal.kernel.opening import powers
from ragseal.kernel.params import R
from ragseal.kernel.thinning import ThinnedFile, ThinnedShard, ThinningStatement, thinned_coins
from ragseal.kernel.thinning_class import CLEAR_NAMES, PAIRS
from tests.simulator.keys import THINNING
from tests.simulator.keys import thinning_backend as backend

GROUP = default_group()
SIZE = THINNING
N, D = SIZE.N, 4
HIDDEN = 60  #: j: about a quarter of the slots
MANIFEST, BEACON, TENANT = b"m" * 32, 987654321, "north"
ATTESTATION = b"a" * 32  #: digest of the attestation key
SEED, OTHER_SEED = (11, 22), (11, 23)

Rows = list[list[int]]  #: N x D field elements
Extra = Sequence[tuple[bytes, int]]  #: points and scalars that a commitment holds besides


@cache
def bases() -> ScoreBases:
    """Y_i and B."""
    points = GROUP.hash_to_curve(b"ragseal tests: attestation bases", N + 1)
    return ScoreBases(points[: POINT_BYTES * N], points[POINT_BYTES * N :])


def base(points: bytes, at: int) -> bytes:
    return points[POINT_BYTES * at : POINT_BYTES * (at + 1)]


def clear_base(name: str) -> bytes:
    """Of one of the circuit's clear inputs."""
    return backend().key.bases(CLEAR_NAMES.index(name), 1)


def pair_base(hides: int, coin: int) -> bytes:
    """Of the number of slots with this pair, whether it is in the table or not."""
    return backend().key.bases(SIZE.pairs_at + PAIRS * hides + coin, 1)


def placed_rows() -> Rows:
    """E: embeddings of int8 entries; some slots are empty."""
    rng = random.Random(1)
    return [[rng.randint(-40, 40) if i % 9 else 0 for _ in range(D)] for i in range(N)]


def context(manifest: bytes = MANIFEST, beacon: int = BEACON, tenant: str = TENANT) -> int:
    return coin_context(manifest, beacon, tenant)


def mask(seed: tuple[int, int] = SEED, of: int | None = None, hidden: int = HIDDEN) -> list[bool]:
    return hidden_slots(seed, context() if of is None else of, N, hidden)


def thin(rows: Rows, hides: Sequence[bool]) -> Rows:
    return [[0] * D if h else row for row, h in zip(rows, hides, strict=True)]


def slot(hidden: bool, number: int = 0) -> int:
    """One that the honest coins hide, or do not, with a document."""
    rows = placed_rows()
    return [i for i, h in enumerate(mask()) if h == hidden and any(rows[i])][number]


def scalars(count: int, number: int) -> list[int]:
    rng = random.Random(f"scalars {number}")
    return [rng.randrange(1, R) for _ in range(count)]


def times(rows: Rows, weights: Sequence[int]) -> list[int]:
    return [sum(w * x for w, x in zip(weights, row, strict=True)) % R for row in rows]


def dot(weights: Sequence[int], values: Sequence[int]) -> int:
    return sum(w * x for w, x in zip(weights, values, strict=True)) % R


def plus(commitment: bytes, extra: Extra) -> bytes:
    points = [commitment, *(point for point, _ in extra)]
    return GROUP.msm(b"".join(points), field.pack([1, *(x % R for _, x in extra)]))


@dataclass(frozen=True)
class Columns:
    """Commitments to an index's columns, with what opens them."""

    rows: Rows
    blinders: list[int]
    points: bytes


def commit(on: ScoreBases, rows: Rows, number: int, extra: Sequence[Extra] = ()) -> Columns:
    """``extra``: what each column holds besides, along any points."""
    blinders = scalars(D, number)
    points = []
    for j, beta in enumerate(blinders):
        point = GROUP.msm(on.y + on.b, field.pack([*(row[j] % R for row in rows), beta]))
        points.append(plus(point, extra[j]) if extra else point)
    return Columns(rows, blinders, b"".join(points))


def opened(on: ScoreBases, key_digest: bytes, columns: Columns) -> IndexFile:
    """With the proof of opening that an honest prover would make."""
    chi = powers(commitment.columns_batching_challenge(key_digest, columns.points), D)
    witness = field.pack([*times(columns.rows, chi), dot(chi, columns.blinders)])
    nonces = field.pack(scalars(N + 1, 99))
    return IndexFile(columns.points, prove_columns(GROUP, on, key_digest, columns.points, witness, nonces))


#: (r, c_coin and context, w, w') -> what the circuit's proof is made of
Inputs = Callable[[Sequence[int], list[int], list[int], list[int]], tuple[list[int], list[int], list[int]]]


def as_it_is(_: Sequence[int], clear: list[int], w: list[int], w2: list[int]) -> tuple[list[int], list[int], list[int]]:
    return clear, w, w2


@dataclass(frozen=True)
class Sent:
    """What an auditor has: its own statement, and two files."""

    statement: ThinningStatement
    placed: IndexFile
    file: ThinnedFile

    def check(self) -> None:
        """As an auditor does: the manifest's columns first, then the thinned ones."""
        key = backend().key
        verify_columns(GROUP, key.scores, key.digest, D, self.placed)
        thinning.verify_thinning(GROUP, [self.statement], key, bases(), self.file)

    @property
    def shard(self) -> ThinnedShard:
        """What the file has of the one shard of its index."""
        return self.file.shards[0]

    @property
    def shown(self) -> CoinProof:
        """What that has of its coins."""
        return self.shard.shown

    def with_file(self, **changes: Any) -> Sent:
        return replace(self, file=replace(self.file, **changes))

    def with_shard(self, **changes: Any) -> Sent:
        return self.with_file(shards=(replace(self.shard, **changes),))

    def with_shown(self, **changes: Any) -> Sent:
        return self.with_shard(shown=replace(self.shown, **changes))


def send(
    *,
    placed: Rows | None = None,
    thinned: Rows | None = None,
    linked: Rows | None = None,
    inputs: Inputs = as_it_is,
    seed: tuple[int, int] = SEED,
    witness: Callable[[CoinWitness], CoinWitness] = lambda honest: honest,
    held: Callable[[Opened, Coined], Opened] = lambda honest, _: honest,
    assigned: Callable[[ThinningAssignment], ThinningAssignment] = lambda honest: honest,
    placed_extra: Sequence[Extra] = (),
    scores_extra: Callable[[Sequence[int]], Extra] = lambda _: (),
    hints_extra: Callable[[Sequence[int]], Extra] = lambda _: (),
    prover: ThinningBackend | None = None,
    **stated: Any,
) -> Sent:
    """A tenant's files.

    Args:
        placed: E of the manifest's columns.
        thinned: E' of the thinned columns.
        linked: E' that W' is made of; that of ``thinned`` if not given.
        inputs: what the circuit's proof is made of instead.
        seed: whose coins the proof opens.
        witness, held: what is committed to of coins, and of all, instead.
        assigned: what the circuit is given instead.
        placed_extra, scores_extra, hints_extra: what placed columns, W' and C_x hold besides.
        prover: whose key the circuit's proof is made under.
        stated: changes of the auditor's statement.

    Raises:
        ProofError: the inputs satisfy no witness.
    """
    key, on = backend().key, bases()
    rows = placed_rows() if placed is None else placed
    empty = thin(placed_rows(), mask()) if thinned is None else thinned
    before = commit(key.scores, rows, 1, placed_extra)
    after = commit(on, empty, 2)
    values = {
        "thinning_key": key.digest, "attestation_key": ATTESTATION, "manifest": MANIFEST,
        "c_coin": coin_commitment(SEED), "context": context(), "hidden": HIDDEN,
        "placed": before.points, "thinned": after.points,
    }  # fmt: skip
    statement = ThinningStatement(**{**values, **stated})
    r = statement.weights()
    w, w2 = times(rows, r), times(empty if linked is None else linked, r)
    (rho,) = scalars(1, 3)
    scores = GROUP.msm(key.mixed.y + key.mixed.b, field.pack([*w2, rho]))
    scores = plus(scores, scores_extra(r))
    coined = thinned_coins(GROUP, statement, key, on, scores)
    clear, proven, proven2 = inputs(r, [statement.c_coin, statement.context], w, w2)
    drawn = witness(coin_witness(SIZE, seed, clear[1], statement.hidden))
    values = CoinScores(w, w2, dot(r, before.blinders), (dot(r, after.blinders), rho))
    masks = scalars(7, 5)
    products = [coin * x % R for coin, x in zip(drawn.coins, proven, strict=True)]
    own = held(Opened(values, drawn, products, (masks[:2], masks[2:4], masks[4:6], masks[6:])), coined)
    points = own.commit(GROUP, coined)
    points = replace(points, hints=plus(points.hints, hints_extra(r)))
    inside = replace(own, scores=replace(own.scores, placed=proven, thinned=proven2))
    given = inside.assignment(coined, points, seed)
    proof = (prover or backend()).prove(assigned(replace(given, clear=(*clear, *given.clear[2:]))))
    nonces = field.pack(scalars(nonces_needed(SIZE, 2), 4))
    shown = prove_coins(GROUP, coined, points, proof, own.vectors(), nonces)
    file = ThinnedFile(after.points, opened(on, ATTESTATION, after).opening, (ThinnedShard(scores, shown),))
    return Sent(statement, opened(key.scores, key.digest, before), file)

# SPDX-License-Identifier: GPL-3.0-or-later
"""Who takes part in a simulated window: a class, keys, two tenants with their indices, three accounts, a policy.

:class:`BindingKey` stands for a verifying key and accepts exactly the statements it "proved", as a sound proof system
does, so that the checklist can be attacked without compiling a circuit.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.backends.group import default_group
from ragseal.kernel import commitment, field, noise, signature
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.commitment import (
    Account,
    IndexFile,
    ScoreBases,
    TenantIndex,
    text_leaf,
)
from ragseal.kernel.committed import CommittedBases, Over, Use
from ragseal.kernel.errors import ProofError
from ragseal.kernel.noise_stated import HINTS as HINTS_USE
from ragseal.kernel.noise_stated import THRESHOLDS
from ragseal.kernel.noise_statement import THRESHOLD
from ragseal.kernel.opening import powers
from ragseal.kernel.params import R
from ragseal.kernel.policy import EVERY_LIST, Policy
from ragseal.kernel.sealing import public_of
from ragseal.kernel.slot_text import SlotText
from ragseal.kernel.statements import stated_of
from ragseal.ledger.merkle import MerkleTree
from ragseal.runtime.metadata import committed
from tests.classes import TINY

OPENS, CLOSES = 1_800_000_000, 1_800_003_600
NOW = CLOSES + 600
ORIGIN = "test.example/log"
CLASS_DIGEST = hashlib.sha256(b"class").digest()
DIMENSION = 4
GAIN = 30  #: of policies: H is 11 steps
LOUD = {"lo": 0, "hi": 16000, "gain": 110}  #: in a policy: H is 859 steps, near to the end of the noise table
HINTS = 6
SEAL_KEY = public_of(b"s" * 32)
GROUP = default_group()


CLS = TINY


def key_of(name: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(name.encode()).digest())


class BindingKey:
    """Bases as a verifying key has them, and "proofs" that hold for one statement only.

    Of a class with noise, with few hints and without C_1.
    """

    def __init__(self, name: str = "key") -> None:
        few = HINTS + len(THRESHOLD) + 1
        points = GROUP.hash_to_curve(name.encode(), CLS.N + few)
        hints_at, shared_at, b = 64 * CLS.N, 64 * (CLS.N + HINTS), points[-64:]
        hints = Over(points[hints_at:shared_at] + b, ((0, HINTS + 1),))
        threshold = Over(points[shared_at:], ((0, len(THRESHOLD) + 1),))
        own = (Use(HINTS_USE, HINTS, (hints,)),)
        committed = CommittedBases(own, Use(THRESHOLDS, len(THRESHOLD), (threshold,)))
        self._hold(points, ScoreBases(points[:hints_at], b), committed)

    def _hold(self, points: bytes, scores: ScoreBases, committed: CommittedBases) -> None:
        """Everything that a verifying key has."""
        self.scores, self.committed = scores, committed
        self.digest = hashlib.sha256(points).digest()
        self.sum_y = GROUP.msm(scores.y, field.pack([1] * scores.capacity))
        self.calls = 0

    def prove(self, clear: Sequence[int], c_w: bytes, committed: bytes) -> bytes:
        return hashlib.shake_256(self.digest + field.pack(clear) + c_w + committed).digest(256)

    def verify(self, clear: Sequence[int], c_w: bytes, committed: bytes, proof: bytes) -> None:
        self.calls += 1
        if proof != self.prove(clear, c_w, committed):
            raise ProofError("the pairing equation does not hold")

    def verify_batch(self, items: Sequence[tuple[Sequence[int], bytes, bytes, bytes]]) -> None:
        for item in items:
            self.verify(*item)


class StatedKey(BindingKey):
    """Of a class of any law, with every base that its kind states."""

    def __init__(self, cls: AttestationClass) -> None:
        stated, N = stated_of(cls), cls.N
        points = GROUP.hash_to_curve(b"key of " + cls.name.encode(), stated.layout.public)

        def of(first: int, count: int) -> bytes:
            return points[64 * (first - 1) : 64 * (first - 1 + count)]

        scores = ScoreBases(of(stated.layout.scores_at, N), of(stated.layout.blind_at, 1))
        self._hold(points, scores, stated.bases(of, GROUP))


KEY = BindingKey()


Extra = Sequence[tuple[bytes, int]]  #: (base, coefficient) pairs


def index_file(
    rows: list[list[int]],
    blinders: list[int],
    key: Any,
    rng: random.Random,
    extra: Mapping[int, Extra] | None = None,
) -> IndexFile:
    """Commitments to the columns of these rows under a key's points, with their proof of opening.

    Args:
        extra: components outside the span, by column: what a liar adds.
    """
    columns = b""
    for j, blinder in enumerate(blinders):
        more = (extra or {}).get(j, ())
        points = key.scores.y + key.scores.b + b"".join(base for base, _ in more)
        columns += GROUP.msm(points, field.pack([*(row[j] for row in rows), blinder, *(k for _, k in more)]))
    chi = powers(commitment.columns_batching_challenge(key.digest, columns), len(blinders))
    witness = [sum(c * x for c, x in zip(chi, row, strict=True)) % R for row in [*rows, blinders]]
    nonces = scalars(rng, len(witness))
    opening = commitment.prove_columns(GROUP, key.scores, key.digest, columns, field.pack(witness), nonces)
    return IndexFile(columns, opening)


def beside(rows: list[list[int]], slots: int) -> list[list[int]]:
    """Rows of several shards beside each other: the columns of shard 0 are first, then those of shard 1, ..."""
    return [[x for row in rows[i::slots] for x in row] for i in range(slots)]


def slot_text(tenant: str, slot: int) -> SlotText:
    """What a slot holds."""
    return SlotText(f"{tenant}-{slot}", f"{tenant} {slot}", committed({"page": slot, "source": tenant}))


@dataclass
class Tenant:
    """One tenant's index: random rows, its columns with their opening, its texts."""

    name: str
    rows: list[list[int]]  #: N x d, of every shard
    blinders: list[int]
    file: IndexFile
    texts: MerkleTree
    index: TenantIndex

    @classmethod
    def make(
        cls,
        name: str,
        key: Any,
        *,
        slots: int = CLS.N,
        dimension: int = DIMENSION,
        shards: int = 1,
        extra: Mapping[int, Extra] | None = None,
    ) -> Tenant:
        """Everything but ``key`` follows from the name; ``extra`` as for :func:`index_file`."""
        rng = random.Random(name)
        rows = [[rng.randrange(-60, 61) for _ in range(dimension)] for _ in range(slots * shards)]
        blinders = [rng.randrange(1, R) for _ in range(dimension * shards)]
        file = index_file(beside(rows, slots), blinders, key, rng, extra)
        texts = MerkleTree([text_leaf(bytes(32), i, slot_text(name, i)) for i in range(slots * shards)])
        index = TenantIndex(name, dimension, file.columns_digest(), file.opening_digest(), texts.root())
        return cls(name, rows, blinders, file, texts, index)


def scalars(rng: random.Random, count: int) -> bytes:
    """Random field elements, packed."""
    return field.pack(rng.randrange(R) for _ in range(count))


TENANTS = {name: Tenant.make(name, KEY) for name in ("north", "south")}
ACCOUNTS = (("alice", "north"), ("bob", "north"), ("carol", "south"))


def account(name: str, tenant: str, key: Ed25519PrivateKey | None = None) -> Account:
    """An account's line, with a salt that follows from its name."""
    salt = hashlib.sha256(f"salt of {name}".encode()).digest()
    return Account(name, tenant, signature.public_bytes(key or key_of(name)), salt)


def registry(*lines: tuple[str, str]) -> list[Account]:
    """A window's accounts by pseudonym, from (name, tenant) pairs."""
    return sorted((account(name, tenant) for name, tenant in lines), key=lambda one: one.pseudonym)


def pseudonym(name: str) -> str:
    """What the ledger calls the account of this name."""
    return account(name, "any").pseudonym


def policy(**changes: Any) -> Policy:
    base = Policy(
        class_name=TINY.name,
        class_digest=CLASS_DIGEST,
        table_digest=noise.build_table(CLS.law).digest(),
        dimension=DIMENSION,
        claim=EVERY_LIST,
        hidden=0,
        lo=4800,
        hi=5600,
        gain=GAIN,
        n_max=3,
        k_max=2,
        delta="1/1000000",
        epsilon_account="4",
        theta="9/10",
        tau=100,
        gate=True,
        unit="slot",
        chunks_max=1,
        period_start=OPENS - 100_000,
        opens=OPENS,
        closes=CLOSES,
        ids=CLS.K,
    )
    return replace(base, **changes)

# SPDX-License-Identifier: GPL-3.0-or-later
"""What a provider computes by itself, against tests/apart.py: blinders, C_e, native Poseidon and score commitments."""

from __future__ import annotations

import hashlib
import hmac
import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ragseal.backends import poseidon
from ragseal.backends.group import default_group
from ragseal.backends.scores import commit_scores
from ragseal.embedder.interface import Role, Vectors
from ragseal.kernel import statement
from ragseal.kernel.attestation import Prepare
from ragseal.kernel.commitment import ScoreBases
from ragseal.kernel.committed import CommittedBases, Over, Use
from ragseal.prover.attestation.batch_openings import shard_blinders, shared_blinder
from ragseal.prover.attestation.prepared_embedding import EmbeddingCommitter, PrepareJob
from ragseal.prover.attestation.retrieval import decode_embedding, score_blinders
from ragseal.prover.base.randomness import derived_scalar, packed_scalars, scalar
from tests import apart
from tests.apart import be, wide
from tests.simulator import CLS
from tests.simulator.provider import DIMENSION, TrigramEmbedder

R = apart.ORDER


def derived(secret: bytes, *parts: bytes) -> int:
    """HMAC-SHA512 over the parts, each behind its length of eight bytes."""
    data = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    return int(hmac.new(secret, data, hashlib.sha512).hexdigest(), 16) % R


class OneOff(TrigramEmbedder):
    """The same embedder, moved by so little that one entry is rounded to its other neighbour."""

    def embed(self, texts: Sequence[str], *, role: Role = "document", progress: object = None) -> Vectors:
        rows = super().embed(texts, role=role)
        fraction = 127 * rows[0] - np.floor(127 * rows[0])
        nearest = int(np.argmin(np.abs(fraction - 0.5)))
        rows[0, nearest] += (0.502 - fraction[nearest] if fraction[nearest] < 0.5 else 0.498 - fraction[nearest]) / 127
        return rows


def offer(embedding: bytes = b"") -> PrepareJob:
    """A Prepare of a query; ``canonical`` are whatever bytes it came in."""
    message = Prepare.__new__(Prepare)
    object.__setattr__(message, "query", "what does the contract say?")
    object.__setattr__(message, "embedding", embedding)
    return PrepareJob(message, b"the canonical bytes of a Prepare", hashlib.sha256(b"blinding").digest(), DIMENSION)


def test_blinder_of_c_e() -> None:
    """B.8: r follows from the window's secret, the Prepare and e; C_e opens to them."""
    group = default_group()
    given = offer()
    embedding, blinder, c_e = EmbeddingCommitter(group, TrigramEmbedder()).alone(given)
    assert blinder == derived(given.blinding, given.canonical, embedding)
    bases = b"".join(apart.generator(b"ragseal/v1/embedding-generators", j) for j in range(DIMENSION + 1))
    assert c_e == apart.total(bases, [*decode_embedding(embedding), blinder])
    assert EmbeddingCommitter(group, TrigramEmbedder()).alone(given) == (embedding, blinder, c_e)


def test_one_blinder_never_serves_two_vectors() -> None:
    """The same Prepare and another e, since the embedder rounds otherwise today: the difference of both C_e is blinded.

    With one r for both, C_e - C_e' would be sum_j (e_j - e'_j) H_j, which is found by trying.
    """
    one = EmbeddingCommitter(default_group(), TrigramEmbedder()).alone(offer())
    other = EmbeddingCommitter(default_group(), OneOff()).alone(offer())
    assert one[0] != other[0]
    assert one[1] != other[1]
    sent = EmbeddingCommitter(default_group(), TrigramEmbedder()).alone(offer(other[0]))
    assert sent == other, "an e that the account sent is blinded as the provider's own"


def use(name: str, commitments: int) -> Use:
    """Of so many commitments, over nothing."""
    return Use(name, 0, (Over(b"", ()),) * commitments)


def test_every_part_of_a_derived_scalar() -> None:
    secret, parts = hashlib.sha256(b"secret").digest(), (b"one", b"", b"three")
    assert derived_scalar(secret, *parts) == derived(secret, *parts)
    others = [(b"one", b"three"), (b"onethree",), (b"on", b"e", b"three"), (*parts, b"")]
    assert len({derived_scalar(secret, *other) for other in (parts, *others)}) == 5
    assert derived_scalar(bytes(32), *parts) != derived_scalar(secret, *parts)
    assert "secret" not in repr(replace(offer(), blinding=b"secret"))


def test_scalars_of_a_draw() -> None:
    """48 bytes each, reduced: the bias is below 2^-128."""
    wanted: list[int] = []

    def draw(count: int) -> bytes:
        wanted.append(count)
        return random.Random(count).randbytes(count)

    assert scalar(draw) == int.from_bytes(random.Random(48).randbytes(48), "big") % R
    wide_ = random.Random(144).randbytes(144)
    assert packed_scalars(draw, 3) == b"".join(be(int.from_bytes(wide_[at : at + 48], "big")) for at in (0, 48, 96))
    assert wanted == [48, 144]


def test_blinders_of_commitments() -> None:
    """B.8: each follows from a secret of the record, the shard's number, its use and what it blinds; rho_v as well."""
    bases, packed = CommittedBases((use("hints", 2), use("counts", 1)), use("lists", 1)), (be(3) + be(4), be(6))
    for shard in (0, 258):
        one, other = ([be(5), be(shard, 2), witness] for witness in packed)
        want = tuple(wide(f"blinder/hints/{k}", *one) for k in range(2)), (wide("blinder/counts/0", *other),)
        assert shard_blinders(5, bases, packed, shard) == want
    assert shared_blinder(5, (3, 4)) == wide("shared-blinder", be(5), packed[0])
    assert score_blinders(5, 1) == [5]
    assert score_blinders(5, 2) == [wide("shard-blinder", be(5), be(shard, 2)) for shard in range(2)]


def test_native_poseidon_commitments() -> None:
    """A.5, M.6 and the commitment to T, where the native module computes them."""
    seed, beacon, ctx, salt = (1 << 127, 3), R - 1, 5, R - 7
    assert poseidon.seed_commitment(seed) == apart.poseidon(1, *seed)
    assert poseidon.noise_key(seed, beacon, ctx) == apart.poseidon(2, *seed, beacon, ctx)
    returned = [statement.Returned(slot, slot % 3 > 0) for slot in sorted(random.Random(1).sample(range(CLS.N), CLS.K))]
    t = [2 * slot + (slot % 3 > 0) for slot in (one.slot for one in returned)]
    width = (CLS.S * CLS.N - 1).bit_length() + 1
    per = 248 // width
    parts = [sum(x << (width * at) for at, x in enumerate(t[j : j + per])) for j in range(0, CLS.K, per)]
    assert poseidon.commit_lists(CLS, salt, returned, 1) == (apart.poseidon(5, salt, *parts),)


def test_native_score_commitment() -> None:
    """C_y of the extreme entries, with tables and without."""
    columns = b"".join(apart.generator(b"columns", j) for j in range(5))
    bases, e, rho = ScoreBases(b"", apart.generator(b"blinder", 0)), [127, -127, 0, 1, -1], R - 9
    for group in (default_group(),) * 2:
        assert commit_scores(group, columns, bases, e, rho) == apart.total(columns + bases.b, [*e, rho])

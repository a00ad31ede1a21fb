# SPDX-License-Identifier: GPL-3.0-or-later
"""The answer path: exact scores, committed noise, T, and the commitments a record carries.  SPEC B.3, M.5 to M.8.

Every query does the same work: all N scores, noise over every slot, no filter in front.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ragseal.backends.asked import ScoreLine, Scores
from ragseal.backends.mechanism import Engine
from ragseal.backends.poseidon import commit_lists
from ragseal.backends.response import CommittedIndex, respond
from ragseal.backends.scores import commit_shards
from ragseal.groth16.keys import KeyView
from ragseal.kernel import attestation, field
from ragseal.kernel.attestation import SignedRequest
from ragseal.kernel.bn254 import POINT_BYTES, Group
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.encoding import ELEMENT, U32, Blob, Codec, Elements, Many, Message, Points, Text
from ragseal.kernel.errors import AttestationError
from ragseal.kernel.params import MAX_LISTED, MAX_SHARDS
from ragseal.kernel.policy import MAX_DIMENSION, Policy
from ragseal.kernel.statement import Returned, unpacked
from ragseal.kernel.transcript import challenge
from ragseal.prover.base.randomness import Draw, scalars
from ragseal.prover.commitment.guard import guard_of, withheld
from ragseal.prover.commitment.index import Version

MAX_COUNTS = 1 << 18  #: bytes of a histogram
COUNT = np.dtype(">u2")


def encode_embedding(e: Sequence[int] | npt.NDArray[np.int8]) -> bytes:
    """e as the wire carries it: one two's-complement byte an entry."""
    return np.asarray(e, dtype=np.int8).tobytes()


def decode_embedding(data: bytes) -> list[int]:
    """Entries of an e on the wire."""
    entries: list[int] = np.frombuffer(data, dtype=np.int8).tolist()
    return entries


def shifted_scores(policy: Policy, cls: AttestationClass, version: Version, e: Sequence[int]) -> Scores:
    """w_i = gain * (<E_i, e> - lo) for every slot, of decoys <E_i, e>.

    Exactly: |y| < 2^31 and |w| < 2^63 for every legal policy.
    """
    y = version.in_force.scored.scores(e)
    return policy.gain * (y.astype(np.int64) - policy.origin(cls))


@dataclass(frozen=True, slots=True)
class QuerySecrets(Message):
    """All that is needed to answer again and to prove later; durable before the record is."""

    TAG: ClassVar[str] = "query-secrets"
    CODECS: ClassVar[Sequence[Codec]] = (
        Blob(MAX_DIMENSION), ELEMENT, ELEMENT, ELEMENT, ELEMENT, Many(U32, MAX_LISTED), Points(MAX_SHARDS),
        Elements(MAX_SHARDS), Many(U32, 1), Blob(MAX_COUNTS), Text(attestation.MAX_ANSWER_BYTES),
    )  # fmt: skip

    embedding: bytes
    blinder: int  #: r of C_e
    rho: int  #: of C_y; of several shards the secret from which those of every C_y are derived
    rho_hint: int  #: secret from which the blinders of a proof's commitments are derived
    t_salt: int
    places: tuple[int, ...]  #: T, each id with its flag as its lowest bit
    c_y: bytes  #: of every shard
    t_commits: tuple[int, ...]
    withheld: tuple[int, ...] = ()  #: the slot whose text the guard keeps back, SPEC M.10: decided once, as T is
    counts: bytes = b""  #: the histogram where the claim is answers: a clipped count of each slot, 2 bytes
    answer: str = ""  #: the text that goes with T's keywords, where the claim is answers

    def __repr__(self) -> str:
        return "QuerySecrets(...)"

    @property
    def shard_rhos(self) -> list[int]:
        """rho of the C_y of every shard, each its own: equal ones would show differences of scores."""
        return score_blinders(self.rho, len(self.c_y) // POINT_BYTES)

    @property
    def returned(self) -> tuple[Returned, ...]:
        """T."""
        return tuple(unpacked(value) for value in self.places)


#: Where the table ``queries`` keeps a request's secrets; the values are those of :func:`query_key`.
QUERY_KEY = "manifest = ? AND account = ? AND ctr = ? AND request = ?"
PLACE = "manifest, account, ctr, request"
Place = tuple[bytes, str, int, bytes]


def query_key(manifest: bytes, signed: SignedRequest) -> Place:
    """The key of a request's row: two requests with one ctr have two rows, whichever enters the ledger."""
    return manifest, signed.request.account, signed.request.ctr, hashlib.sha256(signed.encode()).digest()


def score_blinders(rho: int, shards: int) -> list[int]:
    """As :attr:`QuerySecrets.shard_rhos`."""
    if shards == 1:
        return [rho]
    return [challenge("shard-blinder", field.to_bytes(rho), shard.to_bytes(2, "big")) for shard in range(shards)]


@dataclass(frozen=True, slots=True)
class Query:
    """A query whose answer is fixed: its embedding, the blinder of C_e, and the key of its noise."""

    embedding: bytes
    blinder: int
    noise_key: int

    def __repr__(self) -> str:
        return "Query(...)"


def answer_query(
    group: Group,
    engine: Engine,
    key: KeyView,
    version: Version,
    policy: Policy,
    query: Query,
    draw: Draw,
) -> QuerySecrets:
    """Compute T for a query, with fresh blinders for C_y, a proof's commitments and those to T.

    Raises:
        UnprovableError: a named completeness failure; the query gets no answer and no record.
    """
    rho, rho_hint, t_salt = scalars(draw, 3)
    held = version.in_force
    index = CommittedIndex(held.scored, held.shard_points, key.scores)
    line = ScoreLine(policy.origin(key.cls), policy.gain, policy.asked(key.cls))
    rhos = score_blinders(rho, len(index.columns))
    found = respond(group, engine, index, line, query.noise_key, query.embedding, rhos)
    # All that a guard may look at.
    near = {one.slot: score for one, score in zip(found.returned, found.scores, strict=True) if one.flag}
    return QuerySecrets(
        embedding=query.embedding,
        blinder=query.blinder,
        rho=rho,
        rho_hint=rho_hint,
        t_salt=t_salt,
        places=tuple(one.packed for one in found.returned),
        c_y=found.c_y,
        t_commits=commit_lists(key.cls, t_salt, found.returned, policy.shards),
        withheld=withheld(near, policy.capacity(key.cls), guard_of(policy)),
    )


def record_scores(policy: Policy, cls: AttestationClass, version: Version, kept: QuerySecrets) -> Scores:
    """w of a record: of its embedding and the version's columns, or of the histogram that was kept for it.

    Raises:
        AttestationError: as :func:`count_scores`.
    """
    if policy.answers:
        return count_scores(policy, cls, kept)
    return shifted_scores(policy, cls, version, decode_embedding(kept.embedding))


def count_scores(policy: Policy, cls: AttestationClass, kept: QuerySecrets) -> Scores:
    """w_i = 2^c (gain count_i + 1).

    Raises:
        AttestationError: a histogram of another number of counts than the class has slots.
    """
    counts = np.frombuffer(kept.counts, dtype=COUNT)
    if len(counts) != cls.N:
        raise AttestationError("the histogram kept for this record is of a different class: restore state.db")
    return policy.factor(cls) * counts.astype(np.int64) + policy.offset(cls)


def histogram_commitment(group: Group, key: KeyView, counts: bytes, rho: int) -> bytes:
    """C_y = sum_i count_i Y_i + rho B."""
    values = np.frombuffer(counts, dtype=COUNT)
    filled = np.flatnonzero(values).tolist()
    points = b"".join(key.scores.y[POINT_BYTES * i : POINT_BYTES * (i + 1)] for i in filled)
    return group.msm(points + key.scores.b, field.pack([*(int(values[i]) for i in filled), rho]))


def record_commitment(group: Group, key: KeyView, version: Version, policy: Policy, kept: QuerySecrets) -> bytes:
    """C_y of a record, from what was kept for it."""
    if policy.answers:
        return histogram_commitment(group, key, kept.counts, kept.rho)
    columns = version.in_force.shard_points
    rhos = score_blinders(kept.rho, len(columns))
    return commit_shards(group, columns, key.scores, decode_embedding(kept.embedding), rhos)


def answer_counts(
    group: Group,
    engine: Engine,
    key: KeyView,
    policy: Policy,
    query: Query,
    counts: bytes,
    draw: Draw,
) -> QuerySecrets:
    """As :func:`answer_query`, of a histogram; the answer's text is not written yet.

    Raises:
        UnprovableError: as there.
    """
    rho, rho_hint, t_salt = scalars(draw, 3)
    draft = QuerySecrets(
        embedding=query.embedding,
        blinder=query.blinder,
        rho=rho,
        rho_hint=rho_hint,
        t_salt=t_salt,
        places=(),
        c_y=b"",
        t_commits=(),
        counts=counts,
    )
    returned = engine.answer(query.noise_key, count_scores(policy, key.cls, draft), policy.asked(key.cls))
    return replace(
        draft,
        places=tuple(one.packed for one in returned),
        c_y=histogram_commitment(group, key, counts, rho),
        t_commits=commit_lists(key.cls, t_salt, returned, policy.shards),
    )

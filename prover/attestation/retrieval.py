# SPDX-License-Identifier: GPL-3.0-or-later
"""The answer path: exact scores, committed noise, T, and the commitments a record carries.  SPEC B.3, M.5 to M.8.

Every query does the same work: all N scores, noise over every slot, no filter in front.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ragseal.backends.mechanism import Engine, Scores
from ragseal.backends.poseidon import places_commitment
from ragseal.backends.scores import commit_scores
from ragseal.groth16.keys import KeyView
from ragseal.kernel import attestation
from ragseal.kernel.attestation import SignedRequest
from ragseal.kernel.bn254 import Group
from ragseal.kernel.encoding import ELEMENT, POINT, U32, Blob, Codec, Many, Message
from ragseal.kernel.policy import MAX_DIMENSION, Policy
from ragseal.kernel.statement import Returned, unpacked
from ragseal.prover.attestation.guard import guard_of, withheld
from ragseal.prover.commitment.index import Version
from ragseal.prover.randomness import Draw, scalar


def encode_embedding(e: Sequence[int] | npt.NDArray[np.int8]) -> bytes:
    """e as the wire carries it: one two's-complement byte an entry."""
    return np.asarray(e, dtype=np.int8).tobytes()


def decode_embedding(data: bytes) -> list[int]:
    """Entries of an e on the wire."""
    entries: list[int] = np.frombuffer(data, dtype=np.int8).tolist()
    return entries


def shifted_scores(version: Version, e: Sequence[int], policy: Policy) -> Scores:
    """w_i = gain * (<E_i, e> - lo) for every slot, exactly: |y| < 2^31 and |w| < 2^63 for every legal policy."""
    y = version.in_force.scored.scores(e)
    return policy.gain * (y.astype(np.int64) - policy.lo)


@dataclass(frozen=True, slots=True)
class QuerySecrets(Message):
    """All that is needed to answer again and to prove later; durable before the record is."""

    TAG: ClassVar[str] = "query-secrets"
    CODECS: ClassVar[Sequence[Codec]] = (
        Blob(MAX_DIMENSION), ELEMENT, ELEMENT, ELEMENT, ELEMENT, Many(U32, attestation.MAX_K), POINT, ELEMENT,
        Many(U32, 1),
    )  # fmt: skip

    embedding: bytes
    blinder: int  #: r of C_e
    rho: int  #: of C_y
    rho_hint: int  #: secret from which rho' of C_h is derived
    t_salt: int
    places: tuple[int, ...]  #: T, each id with its flag as its lowest bit
    c_y: bytes
    t_commit: int
    withheld: tuple[int, ...] = ()  #: the slot whose text the guard keeps back, SPEC M.10: decided once, as T is

    def __repr__(self) -> str:
        return "QuerySecrets(...)"

    @property
    def returned(self) -> tuple[Returned, ...]:
        """T."""
        return tuple(unpacked(value) for value in self.places)


#: Where the table ``queries`` keeps a request's secrets; the values are those of :func:`query_key`.
QUERY_KEY = "manifest = ? AND account = ? AND ctr = ? AND request = ?"


def query_key(manifest: bytes, signed: SignedRequest) -> tuple[bytes, str, int, bytes]:
    """The key of a request's row: two requests with one ctr have two rows, whichever enters the ledger."""
    return manifest, signed.request.account, signed.request.ctr, hashlib.sha256(signed.encode()).digest()


def answer_query(
    group: Group,
    engine: Engine,
    key: KeyView,
    version: Version,
    policy: Policy,
    key_of_noise: int,
    embedding: bytes,
    blinder: int,
    draw: Draw,
) -> QuerySecrets:
    """Compute T for a query whose noise key is fixed, with fresh blinders for C_y, C_h and the commitment to T.

    Raises:
        UnprovableError: a named completeness failure; the query gets no answer and no record.
    """
    e = decode_embedding(embedding)
    scores = shifted_scores(version, e, policy)
    returned = engine.answer(key_of_noise, scores, policy.hmax(key.cls))
    near = {one.slot: int(scores[one.slot]) for one in returned if one.flag}  # all that a guard may look at
    rho, rho_hint, t_salt = scalar(draw), scalar(draw), scalar(draw)
    return QuerySecrets(
        embedding=embedding,
        blinder=blinder,
        rho=rho,
        rho_hint=rho_hint,
        t_salt=t_salt,
        places=tuple(one.packed for one in returned),
        c_y=commit_scores(group, version.in_force.points, key.scores, e, rho),
        t_commit=places_commitment(key.cls, t_salt, returned),
        withheld=withheld(near, key.cls.N, guard_of(policy)),
    )

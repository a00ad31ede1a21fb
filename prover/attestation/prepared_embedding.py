# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixing e of a query: this provider's own embedding, the account's held against it, and C_e.  SPEC B.1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from ragseal.backends.scores import commit_scores
from ragseal.embedder import Embedder, quantise
from ragseal.kernel import fixedpoint
from ragseal.kernel.attestation import Prepare
from ragseal.kernel.bn254 import POINT_BYTES, Group
from ragseal.kernel.commitment import ScoreBases
from ragseal.kernel.errors import AttestationError, TransportError
from ragseal.prover.attestation.kept_embeddings import KeptEmbeddings
from ragseal.prover.attestation.retrieval import decode_embedding, encode_embedding
from ragseal.prover.base.randomness import derived_scalar
from ragseal.prover.commitment.columns import embedding_generators


@dataclass(frozen=True, slots=True)
class PrepareJob:
    """A Prepare whose e is to be fixed."""

    message: Prepare
    canonical: bytes
    blinding: bytes  #: the window's secret from which blinders of C_e are derived
    dimension: int

    def __repr__(self) -> str:
        return "PrepareJob(...)"


Fixed = tuple[bytes, int, bytes]  #: e, its blinder, C_e


class EmbeddingCommitter:
    """Methods block and may be called from any thread."""

    def __init__(self, group: Group, embedder: Embedder, kept: KeptEmbeddings | None = None) -> None:
        """``kept``: for embedders that run elsewhere and may not repeat themselves."""
        self._group = group
        self._embedder = embedder
        self._kept = kept

    def alone(self, offer: PrepareJob) -> Fixed:
        """The query by itself: this provider's own e is a function of it, and the same Prepare brings the same C_e.

        Raises:
            AttestationError: the account's e is not this query's, or no unit vector.
            TransportError: the embedder's server is away.
            AuditError: the embedder does not take the query.
        """
        if self._kept is not None and (told := self._kept.find(offer.canonical)) is not None:
            return self._commit(offer, told)
        (fixed,) = self.together([offer])
        if isinstance(fixed, Exception):
            raise fixed
        if self._kept is not None:
            self._kept.keep(offer.message.manifest, offer.canonical, fixed[0])
        return fixed

    def together(self, offers: Sequence[PrepareJob]) -> list[Fixed | Exception]:
        """Many queries in one run of the embedder, whose last bits then depend on the neighbours.

        So only for accounts that send their own e: the provider's decides nothing but whether it is near enough.  A
        query that the embedder does not take, or gives no direction, is its account's trouble and no neighbour's; a
        server that is away is everybody's, and is not asked once more for each of them.
        """
        try:
            own = quantise(self._embedder.embed([offer.message.query for offer in offers], role="query"))
        except TransportError as error:
            return [error] * len(offers)
        except Exception as error:
            return [error] if len(offers) == 1 else [one for offer in offers for one in self.together([offer])]
        return [self._fix(offer, encode_embedding(e)) for offer, e in zip(offers, own, strict=True)]

    def _fix(self, offer: PrepareJob, own: bytes) -> Fixed | AttestationError:
        embedding = offer.message.embedding or own
        e = decode_embedding(embedding)
        if not fixedpoint.within_slack(e, decode_embedding(own)):
            return AttestationError(
                "the embedding sent is not this query's: it differs by more than 1 from the provider's own, "
                "or in more than an eighth of its entries; "
                "check that both use the embedder whose digest the manifest names"
            )
        try:
            fixedpoint.check_embedding(e, offer.dimension)
        except AttestationError as error:
            return error
        return self._commit(offer, embedding)

    def _commit(self, offer: PrepareJob, embedding: bytes) -> Fixed:
        e = np.frombuffer(embedding, dtype=np.int8)
        blinder = derived_scalar(offer.blinding, offer.canonical, embedding)
        head, last = _split(embedding_generators(self._group, len(e)))
        return embedding, blinder, commit_scores(self._group, head, last, e, blinder)


@cache
def _split(generators: bytes) -> tuple[bytes, ScoreBases]:
    """H_0 .. H_(d-1), and H_d for the blinder: the same objects every time.

    Their content finds the tables that are kept for them, and only an object that stays keeps its hash.
    """
    return generators[:-POINT_BYTES], ScoreBases(b"", generators[-POINT_BYTES:])

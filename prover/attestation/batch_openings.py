# SPDX-License-Identifier: GPL-3.0-or-later
"""The openings that a batch of proofs is delivered with: of its hints, and of its records.  SPEC B.7, B.8."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ragseal.backends.mechanism import ShardHints
from ragseal.kernel import field, proofs
from ragseal.kernel.attestation import Record
from ragseal.kernel.bn254 import Group
from ragseal.kernel.errors import ProofError
from ragseal.kernel.opening import Opening, Relation, batching_challenge, powers, prove_opening
from ragseal.kernel.params import R
from ragseal.kernel.proofs import BatchItem, SameEmbeddingOpening, Statement
from ragseal.kernel.threshold_opening import verify_thresholds
from ragseal.kernel.transcript import challenge
from ragseal.prover.attestation.open_window import OpenWindow
from ragseal.prover.attestation.retrieval import COUNT, QuerySecrets, decode_embedding
from ragseal.prover.base.randomness import Draw, packed_scalars
from ragseal.prover.commitment.columns import embedding_generators
from ragseal.prover.commitment.index import Version
from ragseal.prover.workers.turns import Turns


@dataclass(frozen=True)
class Case:
    """A record with everything its proof is about."""

    record: Record
    digest: bytes
    statement: Statement
    kept: QuerySecrets
    version: Version
    key: int  #: of the noise

    def __repr__(self) -> str:
        return f"Case({self.record.seq})"


def hint_blinders(secret: int, packed: bytes, count: int, shard: int = 0) -> list[int]:
    """rho' of C_h, and of C_1 where there is one: functions of the record's secret and of the hints that they blind.

    Every shard's proof has its own.

    Were a lost proof made again by software that fills in other hints, one rho' for both would leave C_h - C_h'
    unblinded.
    """
    parts = field.to_bytes(secret), shard.to_bytes(2, "big"), packed
    return [challenge(name, *parts) for name in ("hint-blinder", "bound-blinder")[:count]]


def threshold_blinder(secret: int, threshold: tuple[int, int]) -> int:
    """rho_v of C_v, as :func:`hint_blinders`."""
    return challenge("threshold-blinder", field.to_bytes(secret), field.pack(threshold))


@dataclass(frozen=True)
class BatchOpenings:
    """Opens one batch; every nonce is fresh.  Each opening takes its turn among whatever else takes every core."""

    group: Group
    opened: OpenWindow
    items: Sequence[BatchItem]
    cases: Sequence[Case]  #: of the items, in their order
    packed_hints: Callable[[OpenWindow, Case], ShardHints]  #: of every shard, and (v*, i*) where they share one
    draw: Draw
    turns: Turns
    wanted_still: Callable[[], None]  #: asked for every record; raises when nobody waits any more

    def __repr__(self) -> str:
        return f"BatchOpenings({len(self.items)})"

    @cached_property
    def context(self) -> bytes:
        return proofs.batch_context(self.opened.key.digest, self.opened.digest, self.items)

    def links(self) -> tuple[SameEmbeddingOpening, ...]:
        """One of each index version, by tenant and number."""
        versions = {item.version: case.version for item, case in zip(self.items, self.cases, strict=True)}
        opens = self._histograms if self.opened.policy.answers else self._link
        return tuple(
            SameEmbeddingOpening(tenant, opens(version), number)
            for (tenant, number), version in sorted(versions.items(), key=lambda one: one[0])
        )

    def hints(self) -> Opening:
        """That of all C_h and C_1."""
        return self._hints_and_thresholds[0]

    @cached_property
    def _hints_and_thresholds(self) -> tuple[Opening, list[tuple[int, int] | None]]:
        """The opening of hints, and (v*, i*) of every case, which come with them: a selection is made once a record."""
        bases = self.opened.key.hint_bases
        size = bases.size
        commitments = proofs.hint_commitments(bases, self.items)
        weights = iter(powers(batching_challenge("hints", self.context), len(commitments)))
        witness = bytes(32 * size)
        thresholds = []
        for case in self.cases:
            with self.turns:
                hints = self.packed_hints(self.opened, case)
            thresholds.append(hints.threshold)
            for shard in range(len(hints)):  # one at a time: a hint vector is megabytes
                with self.turns:
                    self.wanted_still()
                    packed = hints[shard]
                    vector = bases.witness(packed, hint_blinders(case.kept.rho_hint, packed, bases.count, shard))
                    witness = self.group.combine([witness, vector], [1, next(weights)])
        with self.turns:
            self.wanted_still()
            relations = bases.relations(commitments)
            nonces = packed_scalars(self.draw, size)
            opening = prove_opening(self.group, "hints", self.context, relations, witness, nonces)
            proofs.verify_hints(self.group, bases, self.context, self.items, opening)
        return opening, thresholds

    def thresholds(self) -> tuple[Opening, ...]:
        """That of all C_v, where the class has it."""
        bases = self.opened.key.thresholds
        if bases is None:
            return ()
        committed = [c_v for item in self.items for c_v in item.entry.c_v]
        known = iter(self._hints_and_thresholds[1])

        def witness(case: Case) -> list[int]:
            found = next(known)
            if found is None:
                raise ProofError("a class with C_v has a threshold beside the hints")
            return [*found, threshold_blinder(case.kept.rho_hint, found)]

        relation = bases.relation(committed)
        return (
            self._open(
                "thresholds",
                self.context,
                self.cases,
                bases.size,
                witness,
                lambda: [relation],
                lambda opening: verify_thresholds(self.group, bases, self.context, committed, opening),
            ),
        )

    def _of(self, version: Version) -> tuple[list[BatchItem], list[Case]]:
        mine = version.tenant, version.number
        chosen = [(item, case) for item, case in zip(self.items, self.cases, strict=True) if item.version == mine]
        return [item for item, _ in chosen], [case for _, case in chosen]

    def _link(self, version: Version) -> Opening:
        own, cases = self._of(version)
        here = proofs.link_context(self.context, version.tenant, version.digest)
        dimension = version.matrix.shape[1]
        generators = embedding_generators(self.group, dimension)
        columns, b = version.in_force.points, self.opened.key.scores.b
        return self._open(
            "link",
            here,
            cases,
            dimension + 2,
            lambda case: [*decode_embedding(case.kept.embedding), case.kept.blinder, self._added_rho(here, case.kept)],
            lambda: proofs.link_relations(generators, columns, b, here, own),
            lambda opening: proofs.verify_link(self.group, generators, columns, b, here, own, opening),
        )

    @staticmethod
    def _added_rho(here: bytes, kept: QuerySecrets) -> int:
        """sum_s psi^s rho_s, what the shards' C_y have of B when they are added up."""
        rhos = kept.shard_rhos
        if len(rhos) == 1:
            return rhos[0]
        weights = powers(proofs.shard_weight(here), len(rhos))
        return sum(weight * rho for weight, rho in zip(weights, rhos, strict=True)) % R

    def _histograms(self, version: Version) -> Opening:
        own, cases = self._of(version)
        here = proofs.histogram_context(self.context, version.tenant, version.digest)
        scores = self.opened.key.scores
        return self._open(
            "histogram",
            here,
            cases,
            scores.capacity + 1,
            lambda case: [*map(int, np.frombuffer(case.kept.counts, dtype=COUNT)), case.kept.rho],
            lambda: proofs.histogram_relations(scores, own),
            lambda opening: proofs.verify_histograms(self.group, scores, here, own, opening),
        )

    def _open(
        self,
        use: str,
        here: bytes,
        cases: Sequence[Case],
        size: int,
        witness: Callable[[Case], list[int]],
        relations: Callable[[], Sequence[Relation]],
        verify: Callable[[Opening], None],
    ) -> Opening:
        """One opening of these cases' witnesses, ``size`` elements each, weighted by the challenge of its use."""
        weights = powers(batching_challenge(use, here), len(cases))
        vectors = []
        for case in cases:
            self.wanted_still()
            vectors.append(field.pack(witness(case)))
        with self.turns:
            self.wanted_still()
            made = self.group.combine(vectors, weights)
            opening = prove_opening(self.group, use, here, relations(), made, packed_scalars(self.draw, size))
            verify(opening)
        return opening

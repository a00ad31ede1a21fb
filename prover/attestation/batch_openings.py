# SPDX-License-Identifier: GPL-3.0-or-later
"""The openings that a batch of proofs is delivered with: of its hints, and of its records.  SPEC B.7, B.8."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np

from ragseal.backends.mechanism import Hidden
from ragseal.kernel import field, proofs
from ragseal.kernel.attestation import Record
from ragseal.kernel.bn254 import Group
from ragseal.kernel.committed import CommittedBases
from ragseal.kernel.opening import Opening, Relation, batching_challenge, powers, prove_opening
from ragseal.kernel.params import R
from ragseal.kernel.proofs import BatchItem, SameEmbeddingOpening, Statement
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


def shard_blinders(
    secret: int, bases: CommittedBases, witnesses: Sequence[bytes], shard: int
) -> tuple[tuple[int, ...], ...]:
    """The blinders of a shard's commitments, by use: functions of the record's secret and of what they blind.

    Were a lost proof made again by software that fills in other hints, equal blinders for both would leave the
    difference of the commitments unblinded.
    """
    parts = field.to_bytes(secret), shard.to_bytes(2, "big")
    return tuple(
        tuple(challenge(f"blinder/{use.name}/{k}", *parts, witness) for k in range(len(use.over)))
        for use, witness in zip(bases.own, witnesses, strict=True)
    )


def shared_blinder(secret: int, shared: Sequence[int]) -> int:
    """rho_v of C_v, as :func:`shard_blinders`."""
    return challenge("shared-blinder", field.to_bytes(secret), field.pack(shared))


@dataclass(frozen=True)
class BatchOpenings:
    """Opens one batch; every nonce is fresh.  Each opening takes its turn among whatever else takes every core."""

    group: Group
    opened: OpenWindow
    items: Sequence[BatchItem]
    cases: Sequence[Case]  #: of the items, in their order
    hidden: Callable[[OpenWindow, Case], Hidden]  #: what the commitments of a record's proofs open to
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

    def committed(self) -> tuple[Opening, ...]:
        """Those of what proofs commit to, in order: of every use, and of all C_v."""
        bases = self.opened.key.committed
        due = proofs.committed_relations(bases, self.items)
        shards = len(due[0][1][0].commitments) // len(self.cases)
        weights = [powers(batching_challenge(use.name, self.context), shards * len(self.cases)) for use in bases.own]
        totals = [bytes(field.FIELD_BYTES * use.size) for use in bases.own]
        shared, proof = list[bytes](), 0
        for case in self.cases:
            with self.turns:
                hidden = self.hidden(self.opened, case)
            sums = [0] * len(bases.sums)
            for shard in range(len(hidden)):  # one at a time: witnesses are megabytes
                with self.turns:
                    self.wanted_still()
                    witnesses = hidden[shard]
                    blinders = shard_blinders(case.kept.rho_hint, bases, witnesses, shard)
                    for k, (witness, own) in enumerate(zip(witnesses, blinders, strict=True)):
                        vectors = [totals[k], witness + field.pack(own)]
                        totals[k] = self.group.combine(vectors, [1, weights[k][proof]])
                every = list(chain.from_iterable(blinders))
                sums = [(total + every[at]) % R for total, at in zip(sums, bases.sums, strict=True)]
                proof += 1
            rho_v = shared_blinder(case.kept.rho_hint, hidden.shared)
            shared.append(field.pack([*hidden.shared, rho_v, *sums]))
        last = self.group.combine(shared, powers(batching_challenge(bases.shared.name, self.context), len(shared)))
        made = list[Opening]()
        for (use, relations), witness in zip(due, [*totals, last], strict=True):
            with self.turns:
                self.wanted_still()
                nonces = packed_scalars(self.draw, use.size)
                made.append(prove_opening(self.group, use.name, self.context, relations, witness, nonces))
        with self.turns:
            proofs.verify_committed(self.group, bases, self.context, self.items, made)
        return tuple(made)

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

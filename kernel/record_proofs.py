# SPDX-License-Identifier: GPL-3.0-or-later
"""The proofs of one record taken apart: one of every shard of its index, all with one C_v.  SPEC B.5, A.15.

A prover and a verifier both go this way from what the log says of a record to what each pairing check is about.
"""

from __future__ import annotations

from dataclasses import dataclass

from ragseal.kernel import proofs
from ragseal.kernel.bn254 import POINT_BYTES
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.committed import CommittedBases
from ragseal.kernel.errors import ProofError
from ragseal.kernel.proofs import PROOF_BYTES, BatchItem, Statement
from ragseal.kernel.statements import stated_of


@dataclass(frozen=True, slots=True)
class ProofEquation:
    """One pairing check: a proof, its clear inputs with the challenges, and the commitments added to vk_x."""

    clear: list[int]
    c_w: bytes
    committed: bytes  #: the commitments of the shard's proof, and C_v behind them
    proof: bytes


def statements_of(cls: AttestationClass, common: Statement, shards: int) -> tuple[list[int], ...]:
    """The clear inputs of a record's proofs without the challenges, one of every shard, in their order.

    Nobody but the verifier numbers shards.

    Raises:
        ProofError: the class has no index of so many shards, or the record names another number of lists.
    """
    if not 1 <= shards <= cls.S:
        raise ProofError(f"an index of {shards} shards; class {cls.name!r} has 1 to {cls.S}")
    stated, lists = stated_of(cls), common.t_commits
    due = stated.lists_due(shards)
    if len(lists) != due:
        raise ProofError(f"the record commits to {len(lists)} lists, class {cls.name!r} has {due} of {shards} shards")
    return tuple(
        common.clear(lists[shard if due > 1 else 0], cls.stated_of_shard(shard, shards)) for shard in range(shards)
    )


def proof_equations(
    cls: AttestationClass, key_digest: bytes, bases: CommittedBases, item: BatchItem
) -> tuple[ProofEquation, ...]:
    """The pairing checks of a record, in the order of the shards.

    Nobody but the verifier numbers shards: how many there are follows from its C_w, which it computed itself.

    Raises:
        ProofError: other numbers of proofs, of commitments or of lists than the record's index needs, or a challenge is
            zero.
    """
    entry, shards = item.entry, len(item.c_w) // POINT_BYTES
    width = POINT_BYTES * bases.count
    if (len(entry.committed), len(entry.proof)) != (width * shards, PROOF_BYTES * shards):
        raise ProofError(
            f"a record over {shards} shards has {shards} proofs and {bases.count} commitments each; this entry has "
            f"{len(entry.proof) // PROOF_BYTES} proofs and {len(entry.committed) // POINT_BYTES} commitments"
        )
    made = []
    for shard, stated in enumerate(statements_of(cls, item.statement, shards)):
        c_w = item.c_w[POINT_BYTES * shard : POINT_BYTES * (shard + 1)]
        committed = entry.committed[width * shard : width * (shard + 1)] + entry.c_v
        drawn = proofs.challenges(key_digest, item.record_digest, stated, c_w, committed)
        proof = entry.proof[PROOF_BYTES * shard : PROOF_BYTES * (shard + 1)]
        made.append(ProofEquation([*stated, *drawn], c_w, committed, proof))
    return tuple(made)

# SPDX-License-Identifier: GPL-3.0-or-later
"""The proofs of one record taken apart: one of every shard of its index, all with one C_v.  SPEC B.5, A.15.

A prover and a verifier both go this way from what the log says of a record to what each pairing check is about.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ragseal.kernel import proofs
from ragseal.kernel.bn254 import POINT_BYTES
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.errors import ProofError
from ragseal.kernel.hint_opening import HintBases
from ragseal.kernel.proofs import PROOF_BYTES, BatchItem, Statement


@dataclass(frozen=True, slots=True)
class ProofEquation:
    """One pairing check: a proof, its clear inputs with the challenges, and the commitments added to vk_x."""

    clear: list[int]
    c_w: bytes
    c_h: bytes  #: the commitments to hints, and of a noise class C_v behind them
    proof: bytes


def statements_of(cls: AttestationClass, common: Statement, shards: int) -> tuple[Statement, ...]:
    """What the proofs of a record state, one of every shard, in their order: nobody but the verifier numbers them.

    The clear inputs of a shard are equal in all shards but for what the class says of its number.

    Raises:
        ProofError: the class has no index of so many shards.
    """
    most = cls.shards_at_most
    if not 1 <= shards <= most:
        raise ProofError(f"an index of {shards} shards; class {cls.name!r} has {f'1 to {most}' if cls.sharded else 1}")
    return tuple(replace(common, own=(*common.own, *cls.stated_of_shard(shard, shards))) for shard in range(shards))


def proof_equations(
    cls: AttestationClass, key_digest: bytes, bases: HintBases, item: BatchItem
) -> tuple[ProofEquation, ...]:
    """The pairing checks of a record, in the order of the shards.

    Nobody but the verifier numbers shards: how many there are follows from its C_w, which it computed itself.

    Raises:
        ProofError: other numbers of proofs or of commitments than the record's index needs, or a challenge is zero.
    """
    entry, shards = item.entry, len(item.c_w) // POINT_BYTES
    width = POINT_BYTES * bases.count
    due = 1 if cls.sharded else 0
    if (len(entry.c_h), len(entry.proof), len(entry.c_v)) != (width * shards, PROOF_BYTES * shards, due):
        raise ProofError(
            f"a record over {shards} shards has {shards} proofs, {bases.count} commitments to hints each and {due} to "
            f"a threshold; this entry has {len(entry.proof) // PROOF_BYTES} proofs, {len(entry.c_h) // POINT_BYTES} "
            f"and {len(entry.c_v)} commitments"
        )
    made = []
    for shard, statement in enumerate(statements_of(cls, item.statement, shards)):
        c_w = item.c_w[POINT_BYTES * shard : POINT_BYTES * (shard + 1)]
        c_h = entry.c_h[width * shard : width * (shard + 1)] + b"".join(entry.c_v)
        drawn = proofs.challenges(key_digest, item.record_digest, statement, c_w, c_h)
        proof = entry.proof[PROOF_BYTES * shard : PROOF_BYTES * (shard + 1)]
        made.append(ProofEquation(statement.clear() + drawn, c_w, c_h, proof))
    return tuple(made)

# SPDX-License-Identifier: GPL-3.0-or-later
"""What commitments open over, what each proof of a record is about, and sums over shards.  SPEC A.15, B.5, B.7."""

from __future__ import annotations

from collections.abc import Callable

from ragseal.kernel.attestation import Record
from ragseal.kernel.bn254 import IDENTITY, POINT_BYTES
from ragseal.kernel.classes import Asked, attestation_class
from ragseal.kernel.committed import Use
from ragseal.kernel.opening import Relation, powers
from ragseal.kernel.proofs import BatchItem, ProofEntry, Statement
from ragseal.kernel.record_proofs import proof_equations
from ragseal.kernel.stated import Stated
from ragseal.kernel.statements import stated_of
from vectors.source.reading import GROUP, Json, un
from vectors.source.values import shown


def _nowhere(at: int, count: int) -> bytes:
    """Points that are not looked at."""
    return IDENTITY * count


def _use(use: Use) -> Json:
    commitments = [{"points": len(one.bases) // POINT_BYTES, "slots": shown(list(map(list, one.entries)))}
                   for one in use.over]  # fmt: skip
    return {"use": use.name, "size": use.size, "commitments": commitments}


def commitments(given: Json) -> Json:
    """Of a class: its public inputs, each opening with its commitments, and what a verifier multiplies those by."""
    stated: Stated = stated_of(attestation_class(given["class"]))
    bases = stated.bases(_nowhere, GROUP)
    return {
        "inputs": stated.layout.public,
        "clear": stated.layout.clear,
        "openings": [_use(use) for use in (*bases.own, bases.shared)],
        "sums": list(bases.sums),
        "scales": shown(list(stated.scales(int(given["beta"])))),
    }


def equations(given: Json) -> Json:
    """The pairing checks of a record, in the order of its shards."""
    cls = attestation_class(given["class"])
    bases = stated_of(cls).bases(_nowhere, GROUP)
    record, entry = Record.decode(un(given["record"])), ProofEntry.decode(un(given["entry"]))
    c_seed, beacon, ctx, *asked = (int(x) for x in given["clear"])
    table = tuple(int(x) for x in given["table"])
    statement = Statement(c_seed, beacon, ctx, Asked(tuple(asked), table), record.t_commits)
    item = BatchItem(record, record.digest(), "", statement, un(given["c_w"]), entry)
    found = proof_equations(cls, un(given["key_digest"]), bases, item)
    return {
        "equations": [
            shown({"clear": one.clear, "c_w": one.c_w, "committed": one.committed, "proof": one.proof}) for one in found
        ]
    }


def added_up(given: Json) -> Json:
    """sum_s psi^s P_s, point by point."""
    points, shards = un(given["points"]), given["shards"]
    each = ((0, len(points) // POINT_BYTES // shards),)
    relation = Relation(points, each * shards, (), tuple(powers(int(given["psi"]), shards)))
    return {"points": relation.spread(GROUP, each[0][1]).hex()}


OPERATIONS: dict[str, Callable[[Json], Json]] = {
    "commitments": commitments,
    "proof-equations": equations,
    "added-up": added_up,
}

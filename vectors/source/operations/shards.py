# SPDX-License-Identifier: GPL-3.0-or-later
"""An index of shards: what each proof of a record is about, and how shards are added up.  SPEC A.15, B.5, B.7."""

from __future__ import annotations

from collections.abc import Callable

from ragseal.kernel.attestation import Record
from ragseal.kernel.bn254 import POINT_BYTES
from ragseal.kernel.classes import attestation_class
from ragseal.kernel.hint_opening import HintBases
from ragseal.kernel.opening import Relation, powers
from ragseal.kernel.proofs import BatchItem, ProofEntry, Statement
from ragseal.kernel.record_proofs import proof_equations
from vectors.source.reading import GROUP, Json, un
from vectors.source.values import shown


def equations(given: Json) -> Json:
    """The pairing checks of a record, in the order of its shards."""
    cls = attestation_class(given["class"])
    bases = HintBases(b"", b"", bytes(64))  # how many commitments, no more
    record, entry = Record.decode(un(given["record"])), ProofEntry.decode(un(given["entry"]))
    c_seed, beacon, ctx, hmax, t_commit = (int(x) for x in given["clear"])
    statement = Statement(c_seed, beacon, ctx, hmax, t_commit)
    item = BatchItem(record, record.digest(), "", statement, un(given["c_w"]), entry)
    found = proof_equations(cls, un(given["key_digest"]), bases, item)
    return {
        "equations": [
            shown({"clear": one.clear, "c_w": one.c_w, "committed": one.c_h, "proof": one.proof}) for one in found
        ]
    }


def added_up(given: Json) -> Json:
    """sum_s psi^s P_s, point by point."""
    points, shards = un(given["points"]), given["shards"]
    each = ((0, len(points) // POINT_BYTES // shards),)
    relation = Relation(points, each * shards, (), tuple(powers(int(given["psi"]), shards)))
    return {"points": relation.spread(GROUP, each[0][1]).hex()}


OPERATIONS: dict[str, Callable[[Json], Json]] = {"proof-equations": equations, "added-up": added_up}

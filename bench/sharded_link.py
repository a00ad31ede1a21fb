# SPDX-License-Identifier: GPL-3.0-or-later
"""What an auditor's check of a link over shards costs: ``python -m bench.sharded_link [--shards 30]``.

Its columns enter one multi-scalar multiplication with coefficients that are multiplied (``Relation.pick``).  Beside it,
in the same run, stands the check that adds up the points of all columns first, as it was.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

from bench.experiment import RESULTS, machine, save
from ragseal.backends.group import default_group
from ragseal.kernel import field, opening
from ragseal.kernel.bn254 import POINT_BYTES, Group
from ragseal.kernel.opening import Opening, Relation, powers
from ragseal.kernel.params import R
from ragseal.kernel.proofs import shard_weight

USE, CONTEXT, DIMENSION = "link", b"bench", 384


def added_up(group: Group, given: bytes, shards: int, psi: int) -> bytes:
    """sum_s psi^s P_s, for as many points P_s of every shard, point by point."""
    size = len(given) // shards
    parts = [given[at : at + size] for at in range(0, len(given), size)]
    total = parts[-1]
    for part in reversed(parts[:-1]):
        total = group.fold(total + part, psi)
    return total


def median(check: Callable[[], object], rounds: int) -> dict[str, float]:
    seen = []
    for _ in range(rounds):
        clock, processor = time.perf_counter(), time.process_time()
        check()
        seen.append((time.perf_counter() - clock, time.process_time() - processor))
    took, spent = (1000 * statistics.median(one) for one in zip(*seen, strict=True))
    return {"milliseconds": round(took, 2), "processor_milliseconds": round(spent, 2)}


def measured(shards: int, rounds: int) -> dict[str, Any]:
    """One record's link; more records of a batch add only their C_e and C_y."""
    group, d, size = default_group(), DIMENSION, DIMENSION + 2
    chance = random.Random(1)
    e, r, *rhos = (
        [chance.randrange(R) for _ in range(d)],
        *(chance.randrange(R) for _ in range(1 + shards)),
    )
    columns, generators, b = (
        group.hash_to_curve(b"bench " + name, count)
        for name, count in ((b"columns", d * shards), (b"generators", d + 1), (b"B", 1))
    )
    own = [columns[at : at + POINT_BYTES * d] for at in range(0, len(columns), POINT_BYTES * d)]
    c_e = group.msm(generators, field.pack([*e, r]))
    c_y = b"".join(group.msm(one + b, field.pack([*e, rho])) for one, rho in zip(own, rhos, strict=True))
    psi = shard_weight(CONTEXT)
    weights = tuple(powers(psi, shards))
    left = Relation(generators, ((0, d + 1),), (c_e,))
    slots = (*((0, d) for _ in weights), (d + 1, d + 2))

    def multiplied() -> tuple[Relation, Relation]:
        return left, Relation(columns + b, slots, (c_y,), (*weights, 1), weights)

    def summed() -> tuple[Relation, Relation]:
        bases = added_up(group, columns, shards, psi) + b
        return left, Relation(bases, ((0, d), (d + 1, d + 2)), (added_up(group, c_y, shards, psi),))

    rho = sum(weight * one for weight, one in zip(weights, rhos, strict=True)) % R
    witness = field.pack([*e, r, rho])
    nonces = field.pack([chance.randrange(R) for _ in range(size)])

    def proof(relations: Callable[[], tuple[Relation, Relation]]) -> Opening:
        return opening.prove_opening(group, USE, CONTEXT, relations(), witness, nonces)

    def check(relations: Callable[[], tuple[Relation, Relation]]) -> dict[str, float]:
        made = proof(relations)
        return median(lambda: opening.verify_opening(group, USE, CONTEXT, relations(), size, made), rounds)

    assert proof(multiplied) == proof(summed)
    now, before = check(multiplied), check(summed)
    return {
        "columns": d,
        "shards": shards,
        "check": now,
        "check_that_adds_up_points": before,
        "processor_ratio": round(before["processor_milliseconds"] / now["processor_milliseconds"], 2),
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--shards", type=int, default=30)
    options.add_argument("--rounds", type=int, default=15)
    given = options.parse_args()
    load = os.getloadavg()[0]
    found = {"machine": machine(), "load_of_the_machine": load, **measured(given.shards, given.rounds)}
    save(RESULTS / "sharded_link.json", found)
    print(found)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: GPL-3.0-or-later
"""Points, Poseidon, and what is committed or drawn by it.  SPEC G.9, M."""

from __future__ import annotations

from collections.abc import Callable

from ragseal.backends import poseidon
from ragseal.backends.native import available, native, native_errors
from ragseal.kernel import (
    field,
    mechanism,
    statement,
)  # fmt: skip
from ragseal.kernel import poseidon as reference
from ragseal.kernel.statements import stated_of
from vectors.source.reading import GROUP, Json, class_from, un
from vectors.source.values import number, shown


def points(given: Json) -> Json:
    GROUP.check(un(given["points"]))
    return {}


def msm(given: Json) -> Json:
    return {"point": GROUP.msm(un(given["points"]), un(given["scalars"])).hex()}


def generators(given: Json) -> Json:
    return {"points": GROUP.hash_to_curve(given["domain"].encode(), given["count"]).hex()}


def fold_points(given: Json) -> Json:
    return {"points": GROUP.fold(un(given["points"]), int(given["u"])).hex()}


def poseidon_hash(given: Json) -> Json:
    """Natively where that is installed: constants of a width take the reference half a second."""
    return {"hash": field.to_bytes(poseidon.poseidon(*field.unpack(un(given["inputs"])))).hex()}


def poseidon_permutation(given: Json) -> Json:
    state = field.unpack(un(given["state"]))
    if not available():
        return {"state": field.pack(reference.permute(state)).hex()}
    with native_errors():
        return {"state": b"".join(native.poseidon_permute([field.to_bytes(x) for x in state])).hex()}


def seed_commitment(given: Json) -> Json:
    return {"c_seed": number(statement.seed_commitment(field.limbs(un(given["seed"]))))}


def noise_key(given: Json) -> Json:
    seed = field.limbs(un(given["seed"]))
    return {"key": number(mechanism.noise_key(seed, int(given["beacon"]), int(given["ctx"])))}


def list_commitments(given: Json) -> Json:
    """What a record commits to T with."""
    returned = [statement.Returned(slot, flag) for slot, flag in zip(given["ids"], given["flags"], strict=True)]
    lists = stated_of(class_from(given["class"])).lists(int(given["salt"]), returned, given["shards"])
    return {"t_commits": shown(list(lists))}


OPERATIONS: dict[str, Callable[[Json], Json]] = {
    "points": points,
    "msm": msm,
    "generators": generators,
    "fold-points": fold_points,
    "poseidon": poseidon_hash,
    "poseidon-permutation": poseidon_permutation,
    "seed-commitment": seed_commitment,
    "noise-key": noise_key,
    "list-commitments": list_commitments,
}

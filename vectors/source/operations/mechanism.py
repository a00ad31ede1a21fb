# SPDX-License-Identifier: GPL-3.0-or-later
"""Noise and selection.  SPEC M."""

from __future__ import annotations

from collections.abc import Callable

from ragseal.kernel import noise
from ragseal.kernel.decoys.decoys_class import DecoysClass
from ragseal.kernel.decoys.hints import shared_of
from ragseal.kernel.decoys.law import select
from ragseal.kernel.decoys.table import build_table
from ragseal.kernel.noise_class import NoiseClass
from ragseal.kernel.noise_mechanism import fine_bits, select_noise, wide_elements
from ragseal.kernel.params import TAG_COARSE, TAG_FINE
from vectors.source.reading import Json
from vectors.source.values import number, shown


def noise_table(given: Json) -> Json:
    table = noise.build_table(given["law"])
    inverse = [table.inverse(int(uniform)) for uniform in given["uniforms"]]
    masses = [number(table.mass(x)) for x in given["at"]]
    return {"cut": table.cut, "masses": masses, "inverse": inverse, "digest": table.digest().hex()}


def noise_masses(given: Json) -> Json:
    """p(0), p(1), ..., p(C), 14 bytes each, as the digest covers them."""
    table = noise.build_table(given["law"])
    return {
        "half": b"".join(p.to_bytes(table.bits // 8, "big") for p in table.half).hex(),
        "digest": table.digest().hex(),
    }


def check_noise_table(given: Json) -> Json:
    table = noise.NoiseTable(given["law"], tuple(int(p) for p in given["half"]))
    noise.check_table(table)
    return {"canonical": table.canonical_bytes().hex(), "digest": table.digest().hex()}


def row_noise(given: Json) -> Json:
    """Of the first shard: elements of coarse bits, u and Q(u) of every slot, and the fine bits of every rank."""
    cls, key = NoiseClass.from_mapping(given["class"]), int(given["key"])
    elements = wide_elements(key, TAG_COARSE, cls.elements, 0)
    u = [(x >> (cls.m * j)) & ((1 << cls.m) - 1) for x in elements for j in range(cls.q)]
    ranks = wide_elements(key, TAG_FINE, cls.fine_elements, 0)
    return {
        "elements": shown(elements),
        "u": u,
        "bounds": [cls.bounds[one] for one in u],
        "fine": shown([fine_bits(cls, ranks, rank) for rank in range(cls.R)]),
    }


def select_with_noise(given: Json) -> Json:
    cls = NoiseClass.from_mapping(given["class"])
    found = select_noise(cls, int(given["key"]), given["w"], given["hmax"])
    return {
        "grid": cls.grid,
        "entries": [one.entry for one in found.shards],
        "places": [[place.slot for place in one.places] for one in found.shards],
        "full": [sum(place.full for place in one.places) for one in found.shards],
        "noise": [[place.noise for place in one.places] for one in found.shards],
        "thetas": [one.theta for one in found.shards],
        "threshold": found.threshold,
        "threshold_slot": found.threshold_slot,
        "ids": list(found.ids),
        "flags": [one.flag for one in found.returned],
    }


def draw_table(given: Json) -> Json:
    """How many draws at most, F(0) .. F(draws) out of 2^(u L), and the digest."""
    table = build_table(given["id_bits"], given["decoy_rate"])
    return {
        "draws": table.draws,
        "bits": table.bits,
        "rows": shown(list(table.rows(table.draws))),
        "digest": table.digest().hex(),
    }


def select_with_decoys(given: Json) -> Json:
    cls, scores, lo = DecoysClass.from_mapping(given["class"]), given["y"], given["lo"]
    table = build_table(cls.L, given["decoy_rate"])
    found = select(cls, table, int(given["key"]), scores, lo, given["ids"])
    shared, returned = shared_of(cls, found, scores, lo), found.listed(cls.N)
    return {
        "rows": shown(list(table.rows(cls.draws))),
        "draws": [one.number for one in found.draws],
        "drawn": [list(own) for own in found.drawn],
        "threshold": shared.threshold,
        "threshold_slot": shared.threshold_slot,
        "ids": [one.slot for one in returned],
        "flags": [one.flag for one in returned],
        "short": found.short,
        "over": found.over,
    }


OPERATIONS: dict[str, Callable[[Json], Json]] = {
    "noise-table": noise_table,
    "noise-masses": noise_masses,
    "check-noise-table": check_noise_table,
    "row-noise": row_noise,
    "select-noise": select_with_noise,
    "draw-table": draw_table,
    "select-decoys": select_with_decoys,
}

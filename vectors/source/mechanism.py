# SPDX-License-Identifier: GPL-3.0-or-later
"""The committed noise, from seed to the set T.  SPEC M, A.5."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from ragseal.kernel.noise import TOTAL, NoiseTable
from ragseal.kernel.params import (
    GAUSSIAN,
    GEOMETRIC,
)
from vectors.source.book import Book
from vectors.source.values import digest, scalar, stream

CIRCUITS = Path(__file__).parents[2] / "circuits"
CLASSES = {
    name: values
    for file in ("noise_classes.toml", "decoys_classes.toml")
    for name, values in tomllib.loads((CIRCUITS / file).read_text()).items()
}


def class_of(name: str) -> dict[str, Any]:
    """A class as its parameter file has it."""
    return {"name": name, **CLASSES[name]}


def add(book: Book) -> None:
    _tables(book)
    seed, beacon, ctx = digest("seed"), scalar("beacon") >> 8, scalar("ctx") >> 8
    book.valid("noise/seed", "seed-commitment", "A.5", "C_seed of a 256-bit seed, in two limbs.", seed=seed)
    book.wrong(
        "noise/seed-limbs-swapped", "seed-commitment", "A.5", "C_seed of the other half first.",
        {"c_seed": book.valid("noise/seed-turned", "seed-commitment", "A.5", "The halves of the seed before change "
                              "places.", seed=seed[16:] + seed[:16])["c_seed"]},
        seed=seed,
    )  # fmt: skip
    request = {"seed": seed, "beacon": beacon, "ctx": ctx}
    key = book.valid("noise/key", "noise-key", "M.6", "The key of one request's noise.", **request)["key"]
    turned = book.valid(
        "noise/key-of-another-request", "noise-key", "M.6", "One bit of ctx differs.", **{**request, "ctx": ctx ^ 1}
    )
    book.wrong("noise/key-without-ctx", "noise-key", "M.6", "A key that another ctx gives.", turned, **request)
    for name in ("noise-tiny-two", "noise-tiny-gaussian"):
        book.valid(
            f"noise/rows-{name}", "row-noise", "M.6",
            "From the key: the coarse elements, u and Q(u) of every slot, and the fine bits of every rank.",
            **{"class": class_of(name), "key": key},
        )  # fmt: skip
        _select_with_noise(book, name, key)
    _draw_tables(book)
    _select_with_decoys(book, "decoys-tiny", key)
    _places(book)
    _accounting(book)


def _tables(book: Book) -> None:
    ends = [0, 1, TOTAL // 2 - 1, TOTAL // 2, TOTAL - 1]
    drawn = [int.from_bytes(stream(f"uniform {i}", 16), "big") % TOTAL for i in range(11)]
    for law, cut in ((GEOMETRIC, 1115), (GAUSSIAN, 1408)):
        at = [0, 1, 2, 100, cut, cut + 1, -1, -100]
        about = "The canonical table: masses out of 2^112 at some values, its inverse CDF, and the policy's digest."
        book.valid(f"noise-tables/{law}", "noise-table", "M.4", about, law=law, uniforms=ends + drawn, at=at)
        about = "The whole table: what it stores from 0 on, and the digest that covers it."
        book.valid(f"noise-tables/{law}-masses", "noise-masses", "M.4", about, law=law)
    for name, uniform in (("uniform-of-2-112", TOTAL), ("negative-uniform", -1)):
        book.refused(
            f"noise-tables/{name}", "noise-table", "M.6", "A uniform out of range.", "PolicyError", "must lie in",
            law=GAUSSIAN, uniforms=[uniform], at=[],
        )  # fmt: skip
    book.refused(
        "noise-tables/unknown-law", "noise-table", "M.4", "A law that nobody knows.", "PolicyError", "must be one of",
        law="cauchy", uniforms=[], at=[],
    )  # fmt: skip
    unit = TOTAL // 17
    half = [TOTAL - 10 * unit, 4 * unit, unit]
    assert NoiseTable(GAUSSIAN, tuple(half)).cut == 2
    about = "A table of five values that keeps T1 to T4, the bytes that its digest covers, and it."
    book.valid("noise-tables/five-values", "check-noise-table", "M.4", about, law=GAUSSIAN, half=half)
    for name, rule, changed in (
        ("t2-one-too-many", "T2", [half[0] + 1, *half[1:]]),
        ("t3-zero-mass", "T3", [half[0] + 2 * unit, 4 * unit, 0]),
        ("t3-negative-mass", "T3", [half[0] + 2 * unit + 2, 4 * unit, -1]),
        ("t4-rises", "T4: not log-concave at 0", [TOTAL - 14 * unit, 6 * unit, unit]),
        ("t4-not-log-concave", "T4: not log-concave at 1", [TOTAL - 4 * unit, unit, unit]),
        ("too-short", "entries", [TOTAL - 2 * unit, unit]),
    ):
        about = f"A table that breaks {rule[:2]}." if rule[0] == "T" else "Two entries are no table."
        book.refused(
            f"noise-tables/{name}",
            "check-noise-table",
            "M.4",
            about,
            "PolicyError",
            rule,
            law=GAUSSIAN,
            half=changed,
        )


def _select_with_noise(book: Book, name: str, key: Any) -> None:
    values = class_of(name)
    n, unit = values["N"], 1 << values["c"]

    def w(shard: int) -> list[int]:
        drawn = (int.from_bytes(stream(f"score {shard * n + i}", 4), "big") for i in range(n))
        return [x % (300 * unit) - 200 * unit for x in drawn]

    base: dict[str, Any] = {"class": values, "key": key, "w": [w(0)], "hmax": 96}
    about = (
        "From unclipped w of every shard and H in steps: grid; of every shard entry, places by rank with their noise, "
        "theta; v*, i*, T with flags."
    )
    book.valid(f"select/{name}", "select-noise", "M.7", about, **base)
    for shards in (2, 3):
        over = {**base, "w": [w(shard) for shard in range(shards)]}
        text = f"{shards} shards under one threshold: ids count over all of them."
        book.valid(f"select/{name}-over-{shards}-shards", "select-noise", "A.15", text, **over)
    alone = {**base, "w": [[-1000 * unit] * n, [96 * unit] * n]}
    book.valid(f"select/{name}-all-in-the-last-shard", "select-noise", "A.15", "No winner in the first.", **alone)
    book.valid(
        f"select/{name}-equal-scores", "select-noise", "M.7", "All slots score alike.", **{**base, "w": [[0] * n]}
    )
    edge = [unit - 1 if i % 2 else unit for i in range(n)]
    book.valid(f"select/{name}-flags", "select-noise", "M.5", "One unit short of a step is no flag.",
               **{**base, "w": [edge]})  # fmt: skip
    for what, about, text, changed in (
        ("a-slot-less", "A slot has no score.", "capacity", [w(0)[1:]]),
        ("no-shard", "No shard has scores.", "has 1 to 64", []),
    ):
        book.refused(
            f"select/{name}-{what}", "select-noise", "M.5", about, "AttestationError", text, **{**base, "w": changed}
        )


def _draw_tables(book: Book) -> None:
    """Of ids of 6 bits: one draw on average, a hundredth of it, forty."""
    about = "Poisson masses out of 2^(u L), cut where 2^-64 is left: how many draws, F(0), F(1), ..., digest."
    for name, L, rate in (
        ("one", 6, 1 << 16),
        ("three-quarters", 6, 3 << 14),
        ("two", 6, 2 << 16),
        ("few", 6, 655),
        ("no-draws", 6, 0),
        ("forty-of-13-bits", 13, 40 << 16),
    ):
        book.valid(f"draw-tables/{name}", "draw-table", "M.4.1", about, id_bits=L, decoy_rate=rate)
    for name, L, rate in (("less-than-no-draws", 6, -1), ("no-id", 0, 1 << 16), ("ids-of-25-bits", 25, 1 << 16)):
        book.refused(f"draw-tables/{name}", "draw-table", "M.4.1", "No table.", "PolicyError", "needs ids of 1 to 24",
                     id_bits=L, decoy_rate=rate)  # fmt: skip


def _select_with_decoys(book: Book, name: str, key: Any) -> None:
    values = class_of(name)
    n = values["N"]

    def y(shard: int, most: int = 12000) -> list[int]:
        drawn = (int.from_bytes(stream(f"score {shard * n + i}", 3), "big") for i in range(n))
        return [x % most - 5000 for x in drawn]

    base: dict[str, Any] = {"class": values, "key": key, "y": [y(0)], "lo": 4800, "ids": 8, "decoy_rate": 1 << 16}
    about = (
        "From y of every shard, lo, K and the rate: of every shard how many draws, and which slots; v*, i*, T with "
        "flags, whether it is short or longer than K."
    )
    book.valid(f"select/{name}", "select-decoys", "M.5.3", about, **base)
    for shards in (2, 3):
        over = {**base, "y": [y(shard) for shard in range(shards)]}
        text = f"{shards} shards, one list: ids count over all of them."
        book.valid(f"select/{name}-over-{shards}-shards", "select-decoys", "A.15", text, **over)
    last = {**base, "y": [[0] * n, [5000] * n]}
    book.valid(f"select/{name}-all-in-the-last-shard", "select-decoys", "A.15", "No result in the first.", **last)
    for what, text, changes in (
        ("equal-scores", "All slots score alike: the lowest ids are results.", {"y": [[5000] * n]}),
        ("short", "Fewer slots match than there is room for.", {"y": [[*[4801] * 3, *[4800] * (n - 3)]]}),
        ("nothing-matches", "Nothing but what is drawn.", {"y": [[4800] * n]}),
        ("longer-than-k", "More is drawn than K.", {"ids": 1, "decoy_rate": 3 << 14}),
        ("few-draws", "A shard draws nothing nearly always.", {"decoy_rate": 655}),
        ("no-draws", "A shard never draws: the best K.", {"decoy_rate": 0}),
    ):  # fmt: skip
        book.valid(f"select/{name}-{what}", "select-decoys", "M.5.3", text, **{**base, **changes})
    wrong: list[tuple[str, str, str, str, dict[str, Any]]] = [
        ("a-slot-less", "A slot has no score.", "AttestationError", "shards of 60 slots", {"y": [y(0)[1:]]}),
        ("no-shard", "No shard has scores.", "AttestationError", "shards of 60 slots", {"y": []}),
        ("no-k", "K is 0.", "PolicyError", "takes 1 to 24 ids", {"ids": 0}),
        ("lo-below-0", "An empty slot would match.", "AttestationError", "lo is 0 at least", {"lo": -1}),
        ("scores-out-of-range", "A distance has more than two chunks.", "AttestationError", "out of the range",
         {"y": [[0, 1 << 16, *[0] * (n - 2)]]}),
        ("too-many-draws", "The class has fewer.", "PolicyError", "draws in a class of 20", {"decoy_rate": 2 << 16}),
    ]  # fmt: skip
    for what, about, error, text, changes in wrong:
        book.refused(f"select/{name}-{what}", "select-decoys", "M.5.3", about, error, text, **{**base, **changes})


def _places(book: Book) -> None:
    """Commitments to T."""
    of_noise = "2 id + flag of each slot packed lowest first, then Poseidon(5, salt, packed)."
    of_decoys = (
        "One of every shard: 2 slot + flag of each, filled with 0 up to the room, packed lowest first; Poseidon(10, "
        "salt, length + shard 2^32, packed), what does not fit in further hashes."
    )
    for name, shards, about in (
        ("noise-tiny-two", 1, of_noise), ("noise-small-two-50", 1, of_noise), ("decoys-tiny", 3, of_decoys),
        ("decoys-tiny", 1, of_decoys),
    ):  # fmt: skip
        values = class_of(name)
        most = values.get("K", 20)
        ids = sorted({int.from_bytes(stream(f"id {i}", 4), "big") % (shards * values["N"]) for i in range(50)})[:most]
        flags = [i % 3 > 0 for i in range(len(ids))]
        base = {"class": values, "salt": scalar("t salt"), "shards": shards, "ids": ids, "flags": flags}
        path = f"places/{name}" if shards == 1 else f"places/{name}-over-{shards}-shards"
        found = book.valid(path, "list-commitments", "B.6", about, **base)
        for what, text, changes in (
            ("flagged", "The same slots with every flag set.", {"flags": [True] * len(ids)}),
            ("unordered", "The same slots in another order.", {"ids": [*ids[:-2], ids[-1], ids[-2]]}),
        ):
            if what == "flagged" or shards == 1:
                claimed = {"t_commits": found["t_commits"]}
                book.wrong(f"{path}-{what}", "list-commitments", "B.6", text, claimed, **{**base, **changes})
    base = {"class": class_of("decoys-tiny"), "salt": scalar("t salt"), "shards": 2, "ids": [], "flags": []}
    found = book.valid("places/no-ids", "list-commitments", "B.6", "Two empty lists do not look alike.", **base)
    book.wrong("places/no-ids-are-not-slot-0", "list-commitments", "B.6", "{} and {0} are packed alike.",
               {"t_commits": found["t_commits"]}, **{**base, "ids": [0, 60], "flags": [False, False]})  # fmt: skip
    book.refused("places/too-many-ids", "list-commitments", "B.6", "A shard has room for 24.", "EncodingError",
                 "room for", **{**base, "ids": list(range(25)), "flags": [True] * 25})  # fmt: skip


def _accounting(book: Book) -> None:
    """What has no epsilon; the epsilons that stand in accounting.json, and a table that decimals gave."""
    for case in json.loads(Path(__file__).with_name("accounting.json").read_text()):
        book.given(f"accounting/{case.pop('name')}", case)
    base = {"law": GEOMETRIC, "N": 126, "K": 3, "shift": 8, "n": 7, "delta": 0.0001}
    for name, text, changes in (
        ("no-query", "at least", {"n": 0}),
        ("delta-of-1", "delta", {"delta": 1.0}), ("shift-of-0", "at least", {"shift": 0}),
        ("all-slots-released", "K", {"K": 126}), ("unknown-law", "law", {"law": "cauchy"}),
    ):  # fmt: skip
        about = "No epsilon follows from this."
        book.refused(f"accounting/{name}", "epsilon", "D.14", about, "PolicyError", text, **{**base, **changes})

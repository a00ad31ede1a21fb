# SPDX-License-Identifier: GPL-3.0-or-later
"""The circuit of a class of decoys: sources, main component, digest, and what its commitments are opened over."""

from __future__ import annotations

import json
from pathlib import Path

from ragseal.circuits.circuit import HERE, Circuit, statement_digest, wires
from ragseal.circuits.search import Rows, _increasing, _permute, _poseidon, _total
from ragseal.kernel.decoys.decoys_class import DECOYS, HASH_INPUTS, DecoysClass
from ragseal.kernel.decoys.statement import CLEAR_NAMES, SHARED, DecoysLayout
from ragseal.kernel.params import ELEMENTS_PER_BLOCK

CLASS_TAG = b"ragseal.decoys-class.v1"
_LIBRARY = ("constants.circom", "poseidon.circom", "logup.circom", "ranges.circom", "secret.circom")


def sources() -> list[Path]:
    """The circuit's own .circom files, in a fixed order."""
    lib = HERE / "lib"
    return [HERE / "decoys.circom", *sorted((lib / "decoys").glob("*.circom")), *(lib / name for name in _LIBRARY)]


def main_component(cls: DecoysClass) -> str:
    """Source of the generated main component."""
    layout = DecoysLayout(cls)
    public = [*CLEAR_NAMES, "blind", "x", *(group.name for group in layout.groups), "count", *SHARED]
    most = (cls.S * cls.room).bit_length()
    sizes = (cls.N, cls.draws, cls.room, cls.L, cls.uniform_ids, cls.id_bits, cls.c, cls.chunks, most)
    return (
        f"// Generated for decoys class {cls.name}.\npragma circom 2.1.6;\n\n"
        'include "decoys.circom";\n\n'
        # logup.circom names other circuits' tables, in templates that this one has not.
        "function COARSE_BOUNDS() {\n    return [0];\n}\n\nfunction NOISE_CDF() {\n    return [0];\n}\n\n"
        f"component main {{public [{', '.join(public)}]}} = Decoys({', '.join(map(str, sizes))});\n"
    )


def decoys_circuit(cls: DecoysClass) -> Circuit:
    """The circuit of a class; ConfigurationError if sources are missing."""
    layout, files, main = DecoysLayout(cls), sources(), main_component(cls)
    groups = (
        (layout.scores_at, cls.N),
        (layout.hints_at, layout.size),
        (layout.count_at, 1),
        (layout.shared_at, len(SHARED)),
    )
    relations = tuple(wires(at, count) for at, count in groups)
    digest = statement_digest(CLASS_TAG, json.dumps(cls.to_mapping(), sort_keys=True), main, files)
    kind: Circuit = Circuit(
        cls,  # type: ignore[arg-type]  # a Shape once policies may name it
        DECOYS, tuple(files), True, main, layout.public, layout.clear, relations, digest,
    )  # fmt: skip
    return kind


def count_rows(cls: DecoysClass) -> Rows:
    """Constraints and public inputs of a class's circuit; scaling rows are those of slots."""
    layout, nl = DecoysLayout(cls), cls.id_chunks
    draws, room = cls.draws, cls.room
    secrets = _poseidon(2) + _poseidon(4) + 3 + 3  # seed and key; first S-boxes of key and shard
    output = cls.per_element * (nl + (cls.L % cls.c != 0)) + cls.filler + 2 * cls.top
    own = [min(ELEMENTS_PER_BLOCK, cls.elements - at) for at in range(0, cls.elements, ELEMENTS_PER_BLOCK)]
    blocks = sum(_permute(17) + count * output + _total(count * output) for count in own)
    number = 3 * draws + 2 + 2 * cls.uniform_chunks + 1  # steps, two products each; look-ups and their sum
    each = draws + _total(draws)
    if not cls.full:  # bit, what it exceeds N by, whether it is a slot; look-ups, and their sum if there are several
        each += draws * (3 + nl + (nl > 1)) + _total(draws)
    limits = 1 + 1 + 2 + 3 + cls.whole_chunks + cls.chunks + cls.total_chunks + 1
    slots = cls.N * cls.chunks + _total(cls.N * cls.chunks)
    element = 3 + 2 + 5 + 2 + 1 + 2 * cls.chunks + 1  # slot; step; draw; folds and flag; what is hashed; look-ups
    elements = room * (element + 1) + 3 * _total(room) + _increasing(room - 1, nl)
    packed = cls.packed_elements
    first = min(packed, HASH_INPUTS - 2)
    links = [2 + first, *(1 + min(HASH_INPUTS - 1, packed - at) for at in range(first, packed, HASH_INPUTS - 1))]
    hashes = sum(_poseidon(inputs) for inputs in links) + packed - (room % cls.ids_per_element == 1)
    closing = 2 + 2 * (cls.chunks - 1) + 3 + 2  # powers of beta; high chunks; length twice, decoys; identities
    table = (1 << cls.c) + _total(1 << cls.c)
    fixed = secrets + blocks + number + each + limits + elements + hashes + closing + table
    return Rows(fixed + slots, layout.public, layout.public - layout.clear, layout.clear, slots)

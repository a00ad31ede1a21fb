# SPDX-License-Identifier: GPL-3.0-or-later
"""The circuit of a class of decoys: sources, main component, digest, and what its commitments are opened over."""

from __future__ import annotations

import json
from pathlib import Path

from ragseal.circuits.build import DEFAULT_CACHE, Progress, cached, header
from ragseal.circuits.circuit import HERE, Circuit, hash_parts, library_integrity, read_source
from ragseal.kernel.decoys.decoys_class import DECOYS, DecoysClass
from ragseal.kernel.decoys.statement import CLEAR_NAMES, SHARED, DecoysLayout
from ragseal.kernel.errors import ConfigurationError

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
    parts = [CLASS_TAG, json.dumps(cls.to_mapping(), sort_keys=True).encode(), main.encode()]
    parts.append(library_integrity().encode())
    for path in files:
        parts += [path.name.encode(), read_source(path)]
    groups = (
        (layout.scores_at, cls.N),
        (layout.hints_at, layout.size),
        (layout.count_at, 1),
        (layout.shared_at, len(SHARED)),
    )
    relations = tuple(range(1 + at, 1 + at + count) for at, count in groups)
    digest = hash_parts(parts).digest()
    kind: Circuit = Circuit(
        cls,  # type: ignore[arg-type]  # a Shape once policies may name it
        DECOYS, tuple(files), True, main, layout.public, layout.clear, relations, digest,
    )  # fmt: skip
    return kind


def compiled_decoys(cls: DecoysClass, cache: Path = DEFAULT_CACHE, progress: Progress | None = None) -> Path:
    """The R1CS of a class, compiled or found in the cache.  Raises as :func:`ragseal.circuits.build.build`."""
    circuit = decoys_circuit(cls)
    r1cs = cached(circuit, cls.name, cache, progress) / f"{DECOYS}.r1cs"
    _, public = header(r1cs)
    if public != circuit.public:
        raise ConfigurationError(f"circuit {cls.name} has {public} public signals, its layout {circuit.public}")
    return r1cs

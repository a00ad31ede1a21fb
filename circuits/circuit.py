# SPDX-License-Identifier: GPL-3.0-or-later
"""One description of a circuit, whichever it is: its class, sources, main component, digest and public inputs.

There are two: the attestation's, which a policy names by its class, and the estimate's, of which an auditor chooses a
size by the key that it asks for proofs under.  Builds, keys and proofs follow from a :class:`Circuit`.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ragseal.kernel import noise
from ragseal.kernel.certificate import CLASSES, EstimateClass
from ragseal.kernel.errors import ConfigurationError
from ragseal.kernel.params import CircuitClass, class_from_mapping
from ragseal.kernel.statement import CLEAR_NAMES, Layout

HERE = Path(__file__).resolve().parent
CLASSES_FILE = HERE / "classes.toml"
ATTESTATION, ESTIMATE = "attestation", "estimate"
CLASS_TAG = b"ragseal.circuit-class.v1"
ESTIMATE_TAG = b"ragseal.estimate-class.v1"
_ESTIMATE_PUBLIC = "threshold, normLow, normHigh, r, present, sign, norm, product, s, blind"

Shape = CircuitClass | EstimateClass  #: what a circuit is generated from


@dataclass(frozen=True, slots=True)
class Circuit:
    """A circuit before it is compiled."""

    cls: Shape
    noun: str  #: ATTESTATION or ESTIMATE; names its file and the files of its builds
    sources: tuple[Path, ...]  #: its own .circom files, in a fixed order
    library: bool  #: whether it includes circomlib's constants
    main: str  #: source of the generated main component
    public: int  #: public inputs, committed ones among them
    digest: bytes  #: which statement is proven, 32 bytes: over parameters, tables and sources; not over the compiler

    @property
    def about(self) -> dict[str, object]:
        """What a build's class.json says of it."""
        return {"class": parameters(self.cls), "class_digest": self.digest.hex()}


def parameters(cls: Shape) -> dict[str, object]:
    """A class as plain values."""
    return cls.to_mapping() if isinstance(cls, CircuitClass) else {"name": cls.name, "n": cls.n}


@lru_cache(maxsize=64)
def circuit_of(cls: Shape) -> Circuit:
    """The circuit of a class.

    Raises:
        ConfigurationError: circuit sources are missing.
    """
    return _attestation(cls) if isinstance(cls, CircuitClass) else _estimate(cls)


def class_digest(cls: Shape) -> bytes:
    """What policies and keys name: the digest of a class's circuit.  Raises as :func:`circuit_of`."""
    return circuit_of(cls).digest


def sources() -> list[Path]:
    """The attestation's own .circom files, in a fixed order."""
    return [HERE / "attestation.circom", *sorted((HERE / "lib").glob("*.circom"))]


def _attestation(cls: CircuitClass) -> Circuit:
    files, main = sources(), _attestation_main(cls)
    parts = [CLASS_TAG, json.dumps(cls.to_mapping(), sort_keys=True).encode(), main.encode()]
    parts.append(library_integrity().encode())
    for path in files:
        parts += [path.name.encode(), read_source(path)]
    return Circuit(cls, ATTESTATION, tuple(files), True, main, Layout(cls).public, hash_parts(parts).digest())


def _attestation_main(cls: CircuitClass) -> str:
    """Constant tables, public signals, parameters."""
    table = noise.build_table(cls.law)
    bounds = ", ".join(map(str, noise.coarse_bounds(table, cls.m, cls.s)))
    cumulative = ", ".join(str(table.cdf(x - 1)) for x in range(table.cut + 2))
    layout = Layout(cls)
    public = [*CLEAR_NAMES, "w", *(group.name for group in layout.groups), "blind"]
    sizes = (cls.N, cls.K, cls.R, cls.m, cls.q, cls.c, cls.s, layout.grid, table.cut)
    return (
        f"// Generated for circuit class {cls.name}.\npragma circom 2.1.6;\n\n"
        'include "attestation.circom";\n\n'
        f"function COARSE_BOUNDS() {{\n    return [{bounds}];\n}}\n\n"
        f"function NOISE_CDF() {{\n    return [{cumulative}];\n}}\n\n"
        f"function ONE_SIDED() {{\n    return {int(table.one_sided)};\n}}\n\n"
        f"component main {{public [{', '.join(public)}]}} = Attestation({', '.join(map(str, sizes))});\n"
    )


def _estimate(cls: EstimateClass) -> Circuit:
    source = HERE / "estimate.circom"
    main = (
        f"// Generated for estimate class {cls.name}.\npragma circom 2.1.6;\n\n"
        f'include "{source.name}";\n\ncomponent main {{public [{_ESTIMATE_PUBLIC}]}} = Estimate({cls.n});\n'
    )
    digest = hash_parts([ESTIMATE_TAG, cls.name.encode(), main.encode(), read_source(source)]).digest()
    return Circuit(cls, ESTIMATE, (source,), False, main, cls.public, digest)


def load_classes(path: Path | None = None) -> dict[str, CircuitClass]:
    """The classes of a parameter file (default: the one that comes with ragseal), by name.

    Raises:
        ConfigurationError: the file cannot be read or is no TOML.
        PolicyError: a class's parameters are contradictory.
    """
    source = path or CLASSES_FILE
    try:
        tables = tomllib.loads(source.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"circuit classes: cannot read {source}: {error}") from None
    classes = {}
    for name, values in tables.items():
        if not isinstance(values, dict):
            raise ConfigurationError(f"circuit classes: {source}: {name} stands outside of a [class] table")
        classes[name] = class_from_mapping({"name": name, **values})
    return classes


def estimate_class(name: str) -> EstimateClass:
    """A size of the estimate's circuit by name; ConfigurationError lists those there are."""
    if name not in CLASSES:
        raise ConfigurationError(f"there is no estimate class {name!r}, only {', '.join(CLASSES)}")
    return CLASSES[name]


def fitting(class_name: str) -> EstimateClass:
    """The size that goes with a class of the attestation: the tiny one for the tiny ones."""
    return CLASSES["estimate-6" if class_name.startswith("tiny") else "estimate-112"]


def library_integrity() -> str:
    """The pinned digest of circomlib, whose constants the circuits include."""
    try:
        packages = json.loads((HERE / "package-lock.json").read_text(encoding="utf-8"))["packages"]
        return str(packages["node_modules/circomlib"]["integrity"])
    except (OSError, ValueError, KeyError) as error:
        raise ConfigurationError(f"circuits/package-lock.json does not pin circomlib ({error}); restore it") from None


def hash_parts(parts: list[bytes]) -> hashlib._Hash:
    """SHA-256 over length-prefixed parts."""
    h = hashlib.sha256()
    for part in parts:
        h.update(len(part).to_bytes(8, "big") + part)
    return h


def read_source(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"circuit source {path.name} cannot be read: {error}; reinstall ragseal") from None

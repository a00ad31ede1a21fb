# SPDX-License-Identifier: GPL-3.0-or-later
"""One description of a circuit, whichever it is: its class, sources, main component, digest and public inputs.

The one with noise and that of decoys prove that a list is what the mechanism gives; a policy names one of them by its
class.  An auditor chooses a size of the estimate's by the key that it asks for proofs under.  The size of the
thinning's is the capacity of the policy's class.  Builds, keys and proofs follow from a :class:`Circuit`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache, singledispatch
from pathlib import Path

from ragseal.kernel.classes import KINDS, AttestationClass, attestation_class
from ragseal.kernel.decoys.decoys_class import DecoysClass
from ragseal.kernel.errors import ConfigurationError
from ragseal.kernel.estimate_class import CLASSES, EstimateClass
from ragseal.kernel.noise_class import NoiseClass
from ragseal.kernel.statement import HintLayout
from ragseal.kernel.statements import stated_of
from ragseal.kernel.thinning_class import CLEAR_NAMES as THINNING_CLEAR
from ragseal.kernel.thinning_class import HINT_NAMES, SLOT_NAMES, ThinningClass, thinning_class
from ragseal.runtime import texts
from ragseal.runtime.edges.filesystem import why

HERE = Path(__file__).resolve().parent
ESTIMATE, THINNING = "estimate", "thinning"
#: What JSON that tells of keys calls those of :func:`shapes_of`, in its order.
KEY_FIELDS = ("key_digest", "estimate_key_digest", "thinning_key_digest")
NOISE_TAG = b"ragseal.noise-class.v1"
DECOYS_TAG = b"ragseal.decoys-class.v1"
ESTIMATE_TAG = b"ragseal.estimate-class.v1"
THINNING_TAG = b"ragseal.thinning-class.v1"
_ESTIMATE_PUBLIC = "threshold, normLow, normHigh, r, present, sign, blind, norm, product, s"
_THINNING_LIBRARY = ("constants.circom", "poseidon.circom", "logup.circom")
_PLACES_LIBRARY = (*_THINNING_LIBRARY, "ranges.circom", "secret.circom")
#: logup.circom names another circuit's tables, in templates that these have not.
_NO_TABLES = "function COARSE_BOUNDS() {\n    return [0];\n}\n\nfunction NOISE_CDF() {\n    return [0];\n}\n\n"

Shape = AttestationClass | EstimateClass | ThinningClass  #: what a circuit is generated from


def class_file(kind: type[AttestationClass]) -> Path:
    """Where the classes of a kind of law stand."""
    return HERE / f"{kind.kind}_classes.toml"


def layout_of(cls: AttestationClass) -> HintLayout:
    """The public inputs of an attestation's circuit, in order."""
    return stated_of(cls).layout


@dataclass(frozen=True, slots=True)
class Circuit:
    """A circuit before it is compiled."""

    cls: Shape
    noun: str  #: the kind of an attestation's class, ESTIMATE or THINNING; names its file and its builds' files
    sources: tuple[Path, ...]  #: its own .circom files, in a fixed order
    library: bool  #: whether it includes circomlib's constants
    main: str  #: source of the generated main component
    public: int  #: public inputs, committed ones among them
    clear: int  #: the first public inputs, which a verifier knows; the blinder follows, then what is committed to
    relations: tuple[range, ...]  #: wires that one commitment is opened over, besides the blinder
    digest: bytes  #: which statement is proven, 32 bytes: over parameters, tables and sources; not over the compiler

    @property
    def kept(self) -> int:
        """Wires 1..kept have a row of their own in a key, as the constant has: clear inputs and the blinder.

        All other public inputs are bound by the circuit's rows alone (:mod:`ragseal.circuits.independence`).
        """
        return self.clear + 1

    @property
    def about(self) -> dict[str, object]:
        """What a build's class.json says of it."""
        return {"class": parameters(self.cls), "class_digest": self.digest.hex()}


def parameters(cls: Shape) -> dict[str, object]:
    """A class as plain values."""
    if isinstance(cls, AttestationClass):
        return cls.to_mapping()
    return {"name": cls.name, "n": cls.n} if isinstance(cls, EstimateClass) else {"name": cls.name, "N": cls.N}


@lru_cache(maxsize=64)
def circuit_of(cls: Shape) -> Circuit:
    """The circuit of a class.

    Raises:
        ConfigurationError: circuit sources are missing.
    """
    return described(cls)


@singledispatch
def described(cls: Shape) -> Circuit:
    """As :func:`circuit_of`, which keeps what this makes: a kind of class registers its own here."""
    raise TypeError(f"no circuit of a {type(cls).__name__}")


def class_digest(cls: Shape) -> bytes:
    """What policies and keys name: the digest of a class's circuit.  Raises as :func:`circuit_of`."""
    return circuit_of(cls).digest


def wires(at: int, count: int) -> range:
    """Wires of ``count`` public inputs from ``at`` on; wire 0 is the constant."""
    return range(1 + at, 1 + at + count)


def noise_sources() -> list[Path]:
    """The .circom files of the circuit with noise, in a fixed order."""
    shared = [HERE / "lib" / name for name in _PLACES_LIBRARY]
    return [HERE / "noise.circom", *sorted((HERE / "lib" / "noise").glob("*.circom")), *shared]


@described.register
def _noise(cls: NoiseClass) -> Circuit:
    return attestation_circuit(cls, NOISE_TAG, noise_sources(), _noise_main(cls, layout_of(cls)))


def _noise_main(cls: NoiseClass, layout: HintLayout) -> str:
    """Constant tables, public signals, parameters."""
    table = cls.table
    bounds = ", ".join(map(str, cls.bounds))
    cumulative = ", ".join(str(table.cdf(x - 1)) for x in range(table.cut + 2))
    sizes = (cls.N, cls.K, cls.R, cls.m, cls.q, cls.c, cls.L, table.bits, cls.grid, table.cut)
    return (
        f"// Generated for noise class {cls.name}.\npragma circom 2.1.6;\n\n"
        'include "noise.circom";\n\n'
        f"function COARSE_BOUNDS() {{\n    return [{bounds}];\n}}\n\n"
        f"function NOISE_CDF() {{\n    return [{cumulative}];\n}}\n\n"
        f"component main {{public [{', '.join(layout.names)}]}} = Noise({', '.join(map(str, sizes))});\n"
    )


def decoys_sources() -> list[Path]:
    """The .circom files of the decoys' circuit, in a fixed order."""
    shared = [HERE / "lib" / name for name in _PLACES_LIBRARY]
    return [HERE / "decoys.circom", *sorted((HERE / "lib" / "decoys").glob("*.circom")), *shared]


@described.register
def _decoys(cls: DecoysClass) -> Circuit:
    return attestation_circuit(cls, DECOYS_TAG, decoys_sources(), _decoys_main(cls))


def _decoys_main(cls: DecoysClass) -> str:
    """Source of the generated main component."""
    most = (cls.S * cls.room).bit_length()
    sizes = (cls.N, cls.draws, cls.room, cls.L, cls.uniform_ids, cls.id_bits, cls.c, cls.chunks, most)
    return (
        f"// Generated for decoys class {cls.name}.\npragma circom 2.1.6;\n\n"
        'include "decoys.circom";\n\n'
        + _NO_TABLES
        + f"component main {{public [{', '.join(layout_of(cls).names)}]}} = Decoys({', '.join(map(str, sizes))});\n"
    )


def attestation_circuit(cls: AttestationClass, tag: bytes, files: list[Path], main: str) -> Circuit:
    """Of a class that a policy may name: what its commitments stand for are scores, hints, and what is behind them."""
    layout = layout_of(cls)
    groups = (
        (layout.scores_at, cls.N),
        (layout.hints_at, layout.size),
        (layout.behind_at, layout.behind),
        (layout.shared_at, len(layout.shared_names)),
    )
    relations = tuple(wires(at, count) for at, count in groups)
    digest = statement_digest(tag, json.dumps(cls.to_mapping(), sort_keys=True), main, files)
    return Circuit(cls, cls.kind, tuple(files), True, main, layout.public, layout.clear, relations, digest)


@described.register
def _estimate(cls: EstimateClass) -> Circuit:
    source = HERE / "estimate.circom"
    main = (
        f"// Generated for estimate class {cls.name}.\npragma circom 2.1.6;\n\n"
        f'include "{source.name}";\n\ncomponent main {{public [{_ESTIMATE_PUBLIC}]}} = Estimate({cls.n});\n'
    )
    digest = hash_parts([ESTIMATE_TAG, cls.name.encode(), main.encode(), read_source(source)]).digest()
    relations = wires(cls.products_at, cls.hidden), wires(cls.form_at, 1)
    return Circuit(cls, ESTIMATE, (source,), False, main, cls.public, cls.clear, relations, digest)


@described.register
def _thinning(cls: ThinningClass) -> Circuit:
    files = (HERE / "thinning.circom", *(HERE / "lib" / name for name in _THINNING_LIBRARY))
    public = ", ".join((*THINNING_CLEAR, "blind", *SLOT_NAMES, *HINT_NAMES))
    main = (
        f"// Generated for thinning class {cls.name}.\npragma circom 2.1.6;\n\n"
        f'include "{files[0].name}";\n\n{_NO_TABLES}component main {{public [{public}]}} = Thinning({cls.N});\n'
    )
    relations = (
        *(wires(at, cls.N) for at in (cls.placed_at, cls.mixed_at)),
        wires(cls.hints_at, cls.public - cls.hints_at),
    )
    digest = statement_digest(THINNING_TAG, cls.name, main, files)
    return Circuit(cls, THINNING, files, True, main, cls.public, cls.clear, relations, digest)


def load_classes(path: Path | None = None) -> dict[str, AttestationClass]:
    """The classes of a parameter file (default: all that come with ragseal), by name.

    Raises:
        ConfigurationError: the file cannot be read or is no TOML.
        PolicyError: a class's parameters are contradictory.
    """
    tables: dict[str, dict[str, object]] = {}
    for source in [path] if path else map(class_file, KINDS):
        tables |= _tables(source)
    return {name: attestation_class({"name": name, **values}) for name, values in tables.items()}


def _tables(source: Path) -> dict[str, dict[str, object]]:
    tables = texts.read_toml(source, f"circuit classes: {source}")
    for name, values in tables.items():
        if not isinstance(values, dict):
            raise ConfigurationError(f"circuit classes: {source}: {name} stands outside of a [class] table")
    return tables


def estimate_class(name: str) -> EstimateClass:
    """A size of the estimate's circuit by name; ConfigurationError lists those there are."""
    if name not in CLASSES:
        raise ConfigurationError(f"there is no estimate class {name!r}, only {', '.join(CLASSES)}")
    return CLASSES[name]


def fitting(class_name: str) -> EstimateClass:
    """The size that goes with a class of the attestation: the tiny one for the tiny ones."""
    return CLASSES["estimate-6" if "tiny" in class_name.split("-") else "estimate-112"]


def shapes_of(cls: AttestationClass) -> tuple[Shape, ...]:
    """A class of the attestation, the estimate's size that goes with it, and the thinning's where it has coins."""
    return (cls, fitting(cls.name), *(() if cls.noisy else (thinning_class(cls.N),)))


def thinning_classes() -> dict[str, ThinningClass]:
    """The sizes of the thinning's circuit that go with the classes for claims with a coin, by name."""
    sizes = (thinning_class(slots) for slots in sorted({cls.N for cls in load_classes().values() if not cls.noisy}))
    return {cls.name: cls for cls in sizes}


def library_integrity() -> str:
    """The pinned digest of circomlib, whose constants the circuits include."""
    try:
        packages = json.loads((HERE / "package-lock.json").read_text(encoding="utf-8"))["packages"]
        return str(packages["node_modules/circomlib"]["integrity"])
    except OSError as error:
        raise ConfigurationError(f"cannot read circuits/package-lock.json: {why(error)}") from None
    except (ValueError, KeyError) as error:
        raise ConfigurationError(f"circuits/package-lock.json does not pin circomlib ({error}); restore it") from None


def statement_digest(tag: bytes, shape: str, main: str, files: Iterable[Path]) -> bytes:
    """Which statement a circuit proves that includes circomlib's constants, 32 bytes.  Raises as :func:`read_source`.

    ``shape``: the class, as text.
    """
    parts = [tag, shape.encode(), main.encode(), library_integrity().encode()]
    for path in files:
        parts += [path.name.encode(), read_source(path)]
    return hash_parts(parts).digest()


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
        raise ConfigurationError(
            f"circuit source {path.name} cannot be read: {why(error, path)}; reinstall ragseal"
        ) from None

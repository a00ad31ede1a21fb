# SPDX-License-Identifier: GPL-3.0-or-later
"""The estimate's circuit: its sizes, digests, build and cost.  SPEC C.

It has a digest of its own: neither a policy nor a class of the attestation names it.  An auditor chooses the size, by
the key that it asks for proofs under.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ragseal.circuits.build import DEFAULT_CACHE, HERE, Progress, cached, hash_parts, header, read_source
from ragseal.kernel.certificate import CLASSES, EstimateClass
from ragseal.kernel.errors import ConfigurationError

SOURCE = HERE / "estimate.circom"
STATS_FILE = HERE / "estimate_stats.csv"
TAG = b"ragseal.estimate-class.v1"
COLUMNS = ("class", "n", "pairs", "constraints", "hidden", "clear", "rows", "domain")
_PUBLIC = "threshold, normLow, normHigh, r, present, sign, norm, product, s, blind"


@dataclass(frozen=True, slots=True)
class BuiltEstimate:
    """A compiled size.  ``constraints`` and ``public`` are read from the R1CS's own header."""

    cls: EstimateClass
    folder: Path
    constraints: int
    public: int

    @property
    def r1cs(self) -> Path:
        return self.folder / "estimate.r1cs"

    @property
    def wasm(self) -> Path:
        return self.folder / "estimate.wasm"

    @property
    def sym(self) -> Path:
        return self.folder / "estimate.sym"


def estimate_class(name: str) -> EstimateClass:
    """A size by name; ConfigurationError lists those there are."""
    if name not in CLASSES:
        raise ConfigurationError(f"there is no estimate class {name!r}, only {', '.join(CLASSES)}")
    return CLASSES[name]


def fitting(class_name: str) -> EstimateClass:
    """The size that goes with a circuit class of the attestation: the tiny one for the tiny ones."""
    return CLASSES["estimate-6" if class_name.startswith("tiny") else "estimate-112"]


def main_component(cls: EstimateClass) -> str:
    """Source of a size's main component."""
    return (
        f"// Generated for estimate class {cls.name}.\npragma circom 2.1.6;\n\n"
        f'include "{SOURCE.name}";\n\ncomponent main {{public [{_PUBLIC}]}} = Estimate({cls.n});\n'
    )


@lru_cache(maxsize=8)
def estimate_digest(cls: EstimateClass) -> bytes:
    """SHA-256 over parameters and source: which statement is proven, 32 bytes."""
    return hash_parts([TAG, cls.name.encode(), main_component(cls).encode(), read_source(SOURCE)]).digest()


def build_estimate(
    cls: EstimateClass, cache_dir: Path = DEFAULT_CACHE, progress: Progress | None = None
) -> BuiltEstimate:
    """Compile a size, or find it in the cache.  20 s for "estimate-112" on an idle machine.

    Raises:
        ConfigurationError: no compiler, no npm packages, folder not writable; each with the way out.
    """
    record: dict[str, object] = {"class": {"name": cls.name, "n": cls.n}, "class_digest": estimate_digest(cls).hex()}
    folder = cached(main_component(cls), cls.name, cache_dir, record, progress, [SOURCE], "estimate")
    constraints, public = header(folder / "estimate.r1cs")
    if public != cls.public:
        raise ConfigurationError(f"circuit {cls.name} has {public} public signals, its layout {cls.public}")
    return BuiltEstimate(cls, folder, constraints, public)


def count_constraints(cls: EstimateClass) -> int:
    """Constraints by formula: 18 a pair (distance, 16 bits, product with r), 36 a record, one for s."""
    return 18 * cls.pairs + 36 * cls.n + 1


def line(cls: EstimateClass) -> dict[str, str]:
    """One size's line of estimate_stats.csv."""
    constraints = count_constraints(cls)
    rows = constraints + cls.public
    domain = 1 << rows.bit_length()  # rows + 1 fit
    values = (cls.name, cls.n, cls.pairs, constraints, cls.hidden + 2, cls.clear, rows, domain)
    return dict(zip(COLUMNS, map(str, values), strict=True))


def render() -> str:
    """The statistics file's text."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(line(cls) for cls in CLASSES.values())
    return out.getvalue()

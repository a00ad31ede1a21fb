# SPDX-License-Identifier: GPL-3.0-or-later
"""What each circuit class costs, as lines of circuits/stats.csv: a change of a circuit is a change of a line.

Definitions.  hidden: public inputs that nobody publishes (scores, hints, blinder).  clear: the other public inputs.
rows: constraints, and a row each for the constant, the clear inputs and the blinder.  domain: the power of two that
holds them, which a Groth16 key pays for.  rows_per_slot: the rows of slots, elements (of coarse bits or coins) and
Poseidon blocks, divided by N; fixed_rows: all others.  Constraints and public inputs are read from the compiled R1CS
and must equal the formula of search.py that splits them.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from pathlib import Path

from ragseal.circuits.build import BuiltCircuit
from ragseal.circuits.circuit import HERE, Shape, circuit_of
from ragseal.circuits.search import count_rows
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.errors import ConfigurationError
from ragseal.kernel.estimate_class import EstimateClass
from ragseal.kernel.thinning_class import ThinningClass

STATS_FILE = HERE / "stats.csv"
COLUMNS = (
    "class", "circuit", "shape", "constraints", "hidden", "clear", "rows", "domain", "rows_per_slot", "fixed_rows",
)  # fmt: skip


def line(cls: Shape) -> dict[str, str]:
    """One class's numbers, by formula."""
    rows = count_rows(cls)
    if isinstance(cls, AttestationClass):
        shape = f"N={cls.N} {cls.sizes}"
        split = f"{rows.scaling / cls.N:.3f}", str(rows.rows - rows.scaling)
    elif isinstance(cls, ThinningClass):
        shape, split = f"N={cls.N}", (f"{rows.scaling / cls.N:.3f}", str(rows.rows - rows.scaling))
    else:
        shape, split = f"n={cls.n}", ("", "")
    values = (
        cls.name, circuit_of(cls).noun, shape, rows.constraints, rows.hidden, rows.clear, rows.rows, rows.domain,
        *split,
    )  # fmt: skip
    return dict(zip(COLUMNS, map(str, values), strict=True))


def measured(
    built: BuiltCircuit[AttestationClass] | BuiltCircuit[EstimateClass] | BuiltCircuit[ThinningClass],
) -> dict[str, str]:
    """As :func:`line`, held to what was compiled.

    Raises:
        ConfigurationError: the compiled circuit differs from the formula of search.py.
    """
    cls, rows = built.cls, count_rows(built.cls)
    if (rows.constraints, rows.public) != (built.constraints, built.public):
        raise ConfigurationError(
            f"circuit {cls.name} has {built.constraints} constraints and {built.public} public inputs, "
            f"search.count_rows says {rows.constraints} and {rows.public}: one of them changed without the other"
        )
    return line(cls)


def read(path: Path = STATS_FILE) -> dict[str, dict[str, str]]:
    """The lines of a statistics file by class; empty if there is none."""
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        return {row["class"]: row for row in csv.DictReader(file)}


def render(lines: Iterable[dict[str, str]]) -> str:
    """The statistics file's text."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return out.getvalue()

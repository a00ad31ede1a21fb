# SPDX-License-Identifier: GPL-3.0-or-later
"""What each circuit class costs, as lines of circuits/stats.csv: a change of a circuit is a change of a line.

Definitions.  hidden: public inputs that nobody publishes (scores, hints, blinder).  clear: the other public inputs.
domain: the power of two that holds constraints + public inputs + 1, which a Groth16 key pays for.  rows_per_slot: the
rows (constraints and public inputs) of slots, coarse elements and Poseidon blocks, divided by N; fixed_rows: all
others.  Constraints and public inputs are read from the compiled R1CS and must equal the formula of search.py that
splits them.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from pathlib import Path

from ragseal.circuits.build import HERE, BuiltCircuit
from ragseal.circuits.search import count_rows
from ragseal.kernel.errors import ConfigurationError

STATS_FILE = HERE / "stats.csv"
COLUMNS = ("class", "N", "K", "R", "m", "constraints", "hidden", "clear", "domain", "rows_per_slot", "fixed_rows")


def line(built: BuiltCircuit) -> dict[str, str]:
    """One class's numbers.

    Raises:
        ConfigurationError: the compiled circuit differs from the formula of search.py.
    """
    cls, rows = built.cls, count_rows(built.cls)
    if (rows.constraints, rows.public) != (built.constraints, built.public):
        raise ConfigurationError(
            f"circuit {cls.name} has {built.constraints} constraints and {built.public} public inputs, "
            f"search.count_rows says {rows.constraints} and {rows.public}: one of them changed without the other"
        )
    values = (
        cls.name, cls.N, cls.K, cls.R, cls.m, rows.constraints, rows.hidden, rows.clear, rows.domain,
        f"{rows.scaling / cls.N:.3f}", rows.rows - rows.scaling,
    )  # fmt: skip
    return dict(zip(COLUMNS, map(str, values), strict=True))


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

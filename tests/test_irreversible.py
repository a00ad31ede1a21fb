# SPDX-License-Identifier: GPL-3.0-or-later
"""SECURITY.md's table of irreversible steps: each row names a test of its own, and the test is there."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
HEADING = "## After the point of no return\n"
COLUMNS = ["who", "step", "why it cannot be taken back", "what can fail after it", "why that strands nobody", "test"]


def table(text: str) -> list[list[str]]:
    """Cells of every row, the heading's first."""
    section = text.partition(HEADING)[2].partition("\n## ")[0]
    rows = [
        [cell.strip() for cell in line.strip().strip("|").split("|")] for line in section.splitlines() if "|" in line
    ]
    return [rows[0], *rows[2:]] if rows else []


def faults(rows: list[list[str]]) -> list[str]:
    """What is wrong with the table."""
    if not rows or rows[0] != COLUMNS:
        return ["no such table, or other columns"]
    found, seen = [], set[str]()
    for row in rows[1:]:
        if len(row) != len(COLUMNS) or not all(row):
            found.append(f"an empty cell, or one too many: {row}")
            continue
        name = row[-1].strip("`")
        if name in seen:
            found.append(f"{name} is named twice")
        seen.add(name)
        file, _, function = name.partition("::")
        if not (ROOT / file).is_file() or function not in functions_of(ROOT / file):
            found.append(f"there is no test {name}")
    return found


def functions_of(file: Path) -> set[str]:
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    return {one.name for one in ast.parse(file.read_text("utf-8")).body if isinstance(one, kinds)}


ROWS = table((ROOT / "SECURITY.md").read_text("utf-8"))


def test_every_row_names_a_test_of_its_own() -> None:
    assert faults(ROWS) == []


@pytest.mark.parametrize(
    ("who", "least"), [("provider", 20), ("auditor", 8), ("account", 6), ("observer", 1), ("all", 4)]
)
def test_every_program_has_its_steps(who: str, least: int) -> None:
    assert sum(row[0] == who for row in ROWS[1:]) >= least


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda row: [*row[:-1], "`tests/test_irreversible.py::test_that_is_not_there`"], "there is no test"),
        (lambda row: [*row[:-1], "`tests/nowhere.py::test_x`"], "there is no test"),
        (lambda row: [*row[:-1], ""], "an empty cell"),
        (lambda row: ["", *row[1:]], "an empty cell"),
        (lambda row: [*row, "more"], "an empty cell, or one too many"),
        (lambda row: [*row[:-1], ROWS[2][-1]], "is named twice"),
    ],
)
def test_the_check_is_alive(change: object, said: str) -> None:
    spoilt = [ROWS[0], change(ROWS[1]), *ROWS[2:]]  # type: ignore[operator]
    assert any(said in one for one in faults(spoilt))
    assert faults([]) == ["no such table, or other columns"]

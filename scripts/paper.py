# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/paper.md has a row for every element of the paper, and names nothing that is not there.

python3 scripts/paper.py           one line for each fault; exit status 1 if there is one
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

STATES = ("whole", "partly", "not", "deliberately otherwise")
OTHERWISE = "deliberately otherwise"


def numbered(form: str, first: int, last: int) -> list[str]:
    return [form.format(number) for number in range(first, last + 1)]


#: Every label of the paper; a row's first cell is a label, or begins with one and a comma.
LABELS = (
    *numbered("({}.1)", 2, 3), *numbered("(2.{})", 2, 4), *numbered("(3.{})", 2, 11), "(5.1)", "(5.2)",
    *numbered("M{}", 1, 5), *numbered("C{}", 1, 4), *numbered("P{}", 1, 3), *numbered("G{}", 1, 5),
    *numbered("R{}", 1, 6), *numbered("A{}", 1, 5), *(f"Phase {phase}" for phase in "ABCD"), "Mode A", "Mode B",
    "Definition 2.2", "Definition 3.1", "Definition 3.3", "Definition 3.10", "Definition B.1",
    "Lemma 3.2", "Lemma 3.4", "Lemma 3.11", "Theorem 3.5", "Theorem 3.6", "Theorem 3.9", "Theorem 5.3",
    "Corollary 3.7", "Corollary 3.12", "Corollary 3.13", "Observation 5.2",
    "Remark 2.1", "Remark 3.8", "Remark 5.1", "Remark 5.4",
    *numbered("Figure {}", 1, 5), *numbered("Table {}", 1, 2), *numbered("Experiment A.{}", 1, 3),
    *numbered("Step {} of phase D", 1, 5), *(f"Appendix {name}" for name in "BCDF"),
    "Section 2.1", "Section 2.2", "Section 2.4", "Section 3.6", "Section 5.7", "Policy (r", "P-A", "pi_coal",
    "k_max", "Same-tenant collusion", "Cross-tenant collusion", "External collusion", "Provider", "Verifier",
    "Observer", "Record and receipt", "H", "Pi",
    "Limitation: retrieval channel only", "Limitation: coalition cap and estimator",
    "Limitation: sampling and implementation cost", "Limitation: embedder trust", "Limitation: disclosure",
    "Future work (i)", "Future work (ii)", "Future work (iii)", "Future work (iv)",
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One element of the paper."""

    element: str
    where: str
    test: str
    state: str
    why: str

    @property
    def label(self) -> str:
        return self.element.split(", ")[0]


def rows(text: str) -> list[Row]:
    """Of every table of five columns.  Raises SystemExit: a row has another number of cells than its head."""
    found = []
    for line in text.splitlines():
        if not line.startswith("| ") or line.startswith(("| element ", "| state ")):
            continue
        cells = [cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|")]
        if len(cells) == 2 and cells[0] in STATES:
            continue  # the table that says what states mean
        if len(cells) != len(Row.__dataclass_fields__):
            sys.exit(f"docs/paper.md: not a row of five cells: {line}")
        found.append(Row(*cells))
    return found


def deviations(claims: str) -> list[str]:
    """First cells of the specification's table of deviations."""
    section = claims.partition("\n## Deviations from the paper\n")[2].partition("\n## ")[0]
    return [line.split("|")[1].strip() for line in section.splitlines() if line.startswith("| ")]


def tests_of(path: Path) -> set[str]:
    return {one.name for one in ast.parse(path.read_text("utf-8")).body if isinstance(one, ast.FunctionDef)}


def faults(text: str, root: Path = ROOT) -> Iterator[str]:
    """What the page says that is not so, and which labels it lacks."""
    spec = "\n".join(path.read_text("utf-8") for path in sorted((root / "spec").glob("*.md")))
    clauses = set(re.findall(r"(?m)^ *- \*\*([GMABCD](?:\.\d+)+)", spec))
    known = deviations((root / "spec" / "claims.md").read_text("utf-8"))
    found = rows(text)
    labels = [row.label for row in found]
    yield from (f"no row: {label}" for label in LABELS if label not in labels)
    yield from (f"two rows: {label}" for label in sorted(set(labels)) if labels.count(label) > 1)
    yield from (f"not a label of the paper: {label}" for label in labels if label not in LABELS)
    for row in found:
        yield from (f"{row.label}: {why}" for why in _of_row(row, clauses, known, root))


def _of_row(row: Row, clauses: set[str], known: list[str], root: Path) -> Iterator[str]:
    if row.state not in STATES:
        yield f"{row.state} is not a state"
    if row.state != "not" and not (row.where and row.test):
        yield "no place or no test"
    if row.state != "whole" and row.state != "not" and not row.why:
        yield f"{row.state}, and nothing says why"
    for clause in re.findall(r"(?<![\w./`])[GMABCD](?:\.\d+)+", re.sub(r"`[^`]*`", "", row.where)):
        if clause not in clauses:
            yield f"no clause {clause}"
    for name in re.findall(r"`([^`]+)`", row.where):
        if not (root / name).exists():
            yield f"no file {name}"
    for node in re.findall(r"`([^`]+)`", row.test):
        name, _, test = node.partition("::")
        if not (root / name).is_file() and not (test == "" and (root / name).is_dir()):
            yield f"no file {name}"
        elif test and test not in tests_of(root / name):
            yield f"no test {node}"
    said = re.search(r"Deviations?: (.+?)\.?$", row.why)
    named = said[1].split("; ") if said else []
    if (row.state == OTHERWISE) != bool(named):
        yield f"{OTHERWISE} and a deviation go together"
    for one in named:
        if not any(title.startswith(one) for title in known):
            yield f"the table of deviations has no row {one}"


def main() -> None:
    found = list(faults((ROOT / "docs" / "paper.md").read_text("utf-8")))
    if found:
        sys.exit("\n".join(f"docs/paper.md: {one}" for one in found))


if __name__ == "__main__":
    main()

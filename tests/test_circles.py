# SPDX-License-Identifier: GPL-3.0-or-later
"""No two files need each other: imports inside functions count as those at the top do."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
#: Folders, and what their files are imported as.
FOLDERS = {
    "accounting": "ragseal.accounting", "backends": "ragseal.backends", "circuits": "ragseal.circuits",
    "client": "ragseal.client", "embedder": "ragseal.embedder", "generators": "ragseal.generators",
    "groth16": "ragseal.groth16", "kernel": "ragseal.kernel", "ledger": "ragseal.ledger", "prover": "ragseal.prover",
    "runtime": "ragseal.runtime", "vectors/source": "vectors.source", "verifier": "ragseal.verifier",
}  # fmt: skip


def imports(folder: Path, package: str) -> dict[str, set[str]]:
    """Module -> the modules of the same package that it imports, wherever it does; a package is its ``__init__``."""
    files = {}
    for path in folder.rglob("*.py"):
        if "node_modules" not in path.parts:
            steps = path.relative_to(folder).with_suffix("").parts
            files[".".join((package, *steps)).removesuffix(".__init__")] = path
    return {name: _imported(path.read_text(), files.keys()) - {name} for name, path in files.items()}


def _imported(text: str, known: set[str]) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module:
            submodules = {f"{node.module}.{alias.name}" for alias in node.names} & known
            # A package gives its own names; where all that is asked for are modules of it, these are meant.
            found |= submodules if len(submodules) == len(node.names) else submodules | {node.module}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found & known


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_two_files_need_each_other(folder: str) -> None:
    graph = imports(ROOT / folder, FOLDERS[folder])
    assert len(graph) > 3
    list(TopologicalSorter(graph).static_order())


def test_a_circle_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import p.b\n")
    (tmp_path / "b.py").write_text("def f():\n    from p import c, a\n")
    (tmp_path / "c.py").write_text("from p.d import x\n")
    with pytest.raises(CycleError):
        list(TopologicalSorter(imports(tmp_path, "p")).static_order())
    (tmp_path / "b.py").write_text("from p import c\n")
    assert list(TopologicalSorter(imports(tmp_path, "p")).static_order()) == ["p.c", "p.b", "p.a"]

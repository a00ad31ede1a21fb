# SPDX-License-Identifier: GPL-3.0-or-later
"""One table says a circuit's public inputs: what is generated from it is current, and follows it."""

from __future__ import annotations

import ast
import importlib
import math
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from ragseal.circuits.circuit import load_classes

layout: Any = importlib.import_module("scripts.layout")  # other scripts import it by its own name alone
CIRCUITS, Circom, Described, Rust = layout.CIRCUITS, layout.Circom, layout.Described, layout.Rust
CLASSES = load_classes()
KINDS = tuple(one.kind for one in CIRCUITS)  #: of decoys a test compares the compiled circuit with the table


@pytest.mark.parametrize("described", CIRCUITS, ids=lambda one: one.noun)
def test_circuit_and_engine_are_those_of_the_table(described: Any) -> None:
    path, text = layout.circuit(described)
    assert path.read_text("utf-8") == text
    rust = layout.ROOT / "native" / "src" / described.noun / "layout.rs"
    assert rust.read_text("utf-8") == Rust(described).file()


@pytest.mark.parametrize("described", CIRCUITS, ids=lambda one: one.noun)
def test_another_order_or_length_changes_all_that_is_generated(described: Any) -> None:
    first, second, *others = described.table.hints
    longer = replace(first, shape=first.shape + " + 1")
    for hints in [(second, first, *others), (longer, second, *others)]:
        other = Described(described.noun, replace(described.table, hints=hints), described.kind)
        assert Circom(other).part() != Circom(described).part()
        assert Rust(other).file() != Rust(described).file()
        assert layout.tables(described.noun) != layout.tables(described.noun, [other])


@pytest.mark.parametrize("name", sorted(name for name, cls in CLASSES.items() if isinstance(cls, KINDS)))
def test_derived_sizes_as_written_are_those_of_the_class(name: str) -> None:
    cls = CLASSES[name]
    described = next(one for one in CIRCUITS if isinstance(cls, one.kind))
    known: dict[str, int] = {}
    for size in described.table.given:
        constant = size.attribute.isupper() and len(size.attribute) > 1
        known[size.name] = described.constant(size.attribute) if constant else attrgetter(size.attribute)(cls)
    for size in described.table.derived:
        text = layout.Language(described).show(described.expression(size))
        known[size.name] = eval(text, {"floor": math.floor, "ceil": math.ceil}, known)
        if not size.attribute.isupper():
            assert known[size.name] == getattr(cls, size.attribute), size


# No two files need each other: imports inside functions count as those at the top do.


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

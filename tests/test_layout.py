# SPDX-License-Identifier: GPL-3.0-or-later
"""One table says a circuit's public inputs: what is generated from it is current, and follows it."""

from __future__ import annotations

import importlib
import math
from dataclasses import replace
from operator import attrgetter
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

# SPDX-License-Identifier: GPL-3.0-or-later
"""A provider's state, thirty rows with the embedder's own vectors, and what of them the state holds."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ragseal.prover.commitment import document_rows, index
from ragseal.prover.sources.interface import Item, Refused, Source
from ragseal.prover.sources.sync import Target
from ragseal.prover.sources.vectors import EMBED, VectorRule
from ragseal.prover.storage.state import State
from tests.simulator.provider import DIMENSION, SHAPE, TrigramEmbedder, embed_with, new_state

EMBEDDER = TrigramEmbedder()
TEXTS = {f"doc-{i}": f"report number {i} speaks of topic {i * 7 % 13}" for i in range(30)}
VECTORS = dict(zip(TEXTS, EMBEDDER.embed(list(TEXTS.values())), strict=True))
CHECKED = VectorRule(10)


def rows() -> list[dict[str, Any]]:
    """The thirty rows, as a table has them."""
    return [
        {"id": name, "text": text, "vector": VECTORS[name].tolist(), "source": f"file-{i}", "page": i}
        for i, (name, text) in enumerate(TEXTS.items())
    ]


def new_target(folder: Path, **changes: Any) -> Target:
    state = new_state(folder / "state", tenants={})
    made = Target(state, "acme", lambda: SHAPE, EMBEDDER, embed_with(EMBEDDER), secrets.token_bytes, EMBED)
    return replace(made, **changes)


def held(state: State) -> dict[str, str]:
    """The tenant's texts by id."""
    return {str(name): str(text) for name, text in state.rows("SELECT document, text FROM documents")}


def matrix_is_right(state: State) -> bool:
    """Whether every slot holds the embedder's vector of its text, up to one step of rounding."""
    matrix, texts = index.current(state, "acme", SHAPE.capacity, DIMENSION)
    wanted = np.zeros_like(matrix)
    for slot, one in texts.items():
        wanted[slot] = embed_with(EMBEDDER)([one.text])[0]
    return bool((np.abs(wanted.astype(int) - matrix.astype(int)) <= 1).all())


def everything(state: State) -> list[list[tuple[Any, ...]]]:
    tables = "documents", "tenants", "source_marks"
    return [state.rows(f"SELECT * FROM {table} ORDER BY 1, 2") for table in tables]


def sources_of(state: State) -> set[str]:
    return {one.source for one in document_rows.listed(state, "acme")}


def read_all(source: Source) -> list[Item]:
    """Its rows; raises the first refusal."""
    found = list(source.snapshot()[0])
    for one in found:
        if isinstance(one, Refused):
            raise one.error
    return [one for one in found if isinstance(one, Item)]


class Rows:
    """A source of items that are given; what it is asked is counted."""

    def __init__(self, *items: Item, name: str = "rows") -> None:
        self.items = list(items)
        self.name = name
        self.read = 0

    def identity(self) -> str:
        return self.name

    def snapshot(self) -> tuple[Iterator[Item], str]:
        self.read += 1
        return iter(self.items), ""

    def close(self) -> None:
        pass


def item(name: str, **changes: Any) -> Item:
    """An item of the thirty rows, with its vector."""
    made = Item(name, TEXTS.get(name, "another text"), {}, VECTORS.get(name), f"row of {name}")
    return replace(made, **changes)

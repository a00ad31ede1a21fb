# SPDX-License-Identifier: GPL-3.0-or-later
"""Texts of a large version stay in the database: what is read there is what would be in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel.errors import CommitmentError
from ragseal.kernel.slot_text import NO_METADATA, SlotText
from ragseal.prover.commitment import index
from ragseal.prover.storage import slots
from ragseal.prover.storage.state import Settings, State, create
from ragseal.runtime.metadata import committed

CAPACITY, MANIFEST = 12, bytes(32)
BEFORE = {3: SlotText("d3", "three", NO_METADATA), 7: SlotText("d7", "seven", committed({"n": 7}))}
NOW = {0: SlotText("d0", "zero", NO_METADATA), 7: BEFORE[7], 11: SlotText("d11", "", NO_METADATA)}


def rows(texts: dict[int, SlotText], value: int) -> index.Matrix:
    matrix = np.zeros((CAPACITY, 4), dtype=np.int8)
    matrix[list(texts)] = value
    return matrix


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    keys = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    create(tmp_path / "p", Settings("example.org/rag", "tiny", "minilm"), *keys)
    made = State(tmp_path / "p")
    with made.transaction() as db:
        for number, texts, value in ((0, BEFORE, 1), (1, NOW, 2)):
            slots.store(db, MANIFEST, "acme", number, rows(texts, value), texts)
            slots.store(db, MANIFEST, "other", number, rows(BEFORE, 9), BEFORE)
    yield made
    made.close()


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever there is, is too much for memory, and more than one part."""
    monkeypatch.setattr(slots, "IN_MEMORY", 0)
    monkeypatch.setattr(slots, "PART", 2)


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize(("number", "texts"), [(0, BEFORE), (1, NOW)])
def test_they_are_the_same_as_in_memory(state: State, number: int, texts: dict[int, SlotText]) -> None:
    stored = slots.load_texts(slots.Slots(state, MANIFEST, "acme", number), CAPACITY)
    assert isinstance(stored, slots.StoredTexts)
    assert dict(stored) == dict(stored.items()) == texts
    assert list(stored.values()) == list(texts.values())
    assert (len(stored), list(stored)) == (len(texts), sorted(texts))
    assert [slot in stored for slot in range(-1, CAPACITY + 1)] == [slot in texts for slot in range(-1, CAPACITY + 1)]
    for slot in (-1, 1, CAPACITY):
        with pytest.raises(KeyError):
            stored[slot]
    assert list(slots.by_slot(stored, CAPACITY)) == list(slots.by_slot(texts, CAPACITY))
    secret = b"s" * 32
    assert index.text_tree(secret, stored, CAPACITY).root() == index.text_tree(secret, texts, CAPACITY).root()


@pytest.mark.usefixtures("large")
def test_a_slot_beyond_the_index_is_damage(state: State) -> None:
    with pytest.raises(CommitmentError, match="stored slot 11 does not fit an index of 11"):
        slots.load_texts(slots.Slots(state, MANIFEST, "acme", 1), 11)
    with pytest.raises(CommitmentError, match="slot 11"):
        slots.load_matrix(slots.Slots(state, MANIFEST, "acme", 1), (11, 4))


@pytest.mark.usefixtures("large")
def test_the_matrix_of_an_update_is_read_in_parts(state: State) -> None:
    expected = rows(NOW, 2)  # slot 7 has another vector too, so that it is a row of its own
    assert np.array_equal(slots.load_matrix(slots.Slots(state, MANIFEST, "acme", 1), (CAPACITY, 4)), expected)


def test_few_are_held_in_memory_and_outlive_their_rows(state: State) -> None:
    held = slots.load_texts(slots.Slots(state, MANIFEST, "acme", 1), CAPACITY)
    with state.transaction() as db:
        db.execute("DELETE FROM version_texts")
    assert held == NOW


@pytest.mark.usefixtures("large")
def test_what_is_purged_can_be_read_no_more(state: State) -> None:
    stored = slots.load_texts(slots.Slots(state, MANIFEST, "acme", 1), CAPACITY)
    with state.transaction() as db:
        db.execute("DELETE FROM version_texts")
    with pytest.raises(KeyError):
        stored[7]

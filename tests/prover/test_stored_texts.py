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
from ragseal.prover.commitment import index, slots, texts
from ragseal.prover.storage.state import Settings, State, create
from ragseal.runtime.metadata import committed
from tests.classes import TINY

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
    create(tmp_path / "p", Settings("example.org/rag", TINY.name, "minilm"), *keys)
    made = State(tmp_path / "p")
    with made.transaction() as db:
        for number, held, value in ((0, BEFORE, 1), (1, NOW, 2)):
            slots.store(db, MANIFEST, "acme", number, rows(held, value), texts.by_slot(held, CAPACITY))
            slots.store(db, MANIFEST, "other", number, rows(BEFORE, 9), texts.by_slot(BEFORE, CAPACITY))
    yield made
    made.close()


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever there is, is too much for memory, and more than one part."""
    monkeypatch.setattr(texts, "IN_MEMORY", 0)
    monkeypatch.setattr(slots, "PART", 2)


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize(("number", "held"), [(0, BEFORE), (1, NOW)])
def test_they_are_the_same_as_in_memory(state: State, number: int, held: dict[int, SlotText]) -> None:
    stored = texts.load_texts(slots.version_slots(state, MANIFEST, "acme", number), CAPACITY)
    assert isinstance(stored, texts.StoredTexts)
    assert dict(stored) == dict(stored.items()) == held
    assert list(stored.values()) == list(held.values())
    assert (len(stored), list(stored)) == (len(held), sorted(held))
    assert [slot in stored for slot in range(-1, CAPACITY + 1)] == [slot in held for slot in range(-1, CAPACITY + 1)]
    for slot in (-1, 1, CAPACITY):
        with pytest.raises(KeyError):
            stored[slot]
    assert list(texts.by_slot(stored, CAPACITY)) == list(texts.by_slot(held, CAPACITY))
    secret = b"s" * 32
    assert index.text_tree(secret, stored, CAPACITY).root() == index.text_tree(secret, held, CAPACITY).root()


@pytest.mark.usefixtures("large")
def test_a_slot_beyond_the_index_is_damage(state: State) -> None:
    with pytest.raises(CommitmentError, match="stored slot 11 does not fit an index of 11"):
        texts.load_texts(slots.version_slots(state, MANIFEST, "acme", 1), 11)
    with pytest.raises(CommitmentError, match="slot 11"):
        slots.load_matrix(slots.version_slots(state, MANIFEST, "acme", 1), (11, 4))


@pytest.mark.usefixtures("large")
def test_the_matrix_of_an_update_is_read_in_parts(state: State) -> None:
    expected = rows(NOW, 2)  # slot 7 has another vector too, so that it is a row of its own
    assert np.array_equal(slots.load_matrix(slots.version_slots(state, MANIFEST, "acme", 1), (CAPACITY, 4)), expected)


def test_few_are_held_in_memory_and_outlive_their_rows(state: State) -> None:
    held = texts.load_texts(slots.version_slots(state, MANIFEST, "acme", 1), CAPACITY)
    with state.transaction() as db:
        db.execute("DELETE FROM version_texts")
    assert held == NOW


@pytest.mark.usefixtures("large")
def test_what_is_purged_can_be_read_no_more(state: State) -> None:
    stored = texts.load_texts(slots.version_slots(state, MANIFEST, "acme", 1), CAPACITY)
    with state.transaction() as db:
        db.execute("DELETE FROM version_texts")
    with pytest.raises(KeyError):
        stored[7]


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("in_parts", [True, False])
def test_a_version_is_stored_in_parts_as_it_would_be_at_once(
    state: State, in_parts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots, "PART", 2 if in_parts else CAPACITY)
    with state.transaction() as db:
        slots.store(db, MANIFEST, "acme", 2, rows(BEFORE, 2), texts.by_slot(BEFORE, CAPACITY))
    kept = "SELECT slot, number, until FROM version_texts WHERE tenant = 'acme' ORDER BY slot, number"
    assert state.rows(kept) == [(0, 1, 2), (3, 0, 1), (3, 2, None), (7, 0, 1), (7, 1, None), (11, 1, 2)]


def put(state: State, *documents: tuple[int, str]) -> None:
    """The tenant's documents, all of them, by slot."""
    with state.transaction() as db:
        db.execute("DELETE FROM documents")
        for slot, text in documents:
            line = ("acme", slot, f"d{slot}", text, NO_METADATA.encode(), bytes([slot] * 4), bytes(32), "")
            db.execute("INSERT INTO documents VALUES (?, ?, ?, ?, ?, ?, ?, ?)", line)


@pytest.mark.usefixtures("large")
def test_a_version_is_made_of_one_moment(state: State) -> None:
    put(state, (1, "one"), (5, "five"))
    with state.snapshot() as documents:
        put(state, (5, "changed"), (8, "eight"))
        matrix, found = index.current(documents, "acme", CAPACITY, 4)
        assert isinstance(found, texts.StoredTexts)
        assert [(slot, one.text) for slot, one in found.items()] == [(1, "one"), (5, "five")]
        assert found[5].text == "five"
        assert np.flatnonzero(matrix.any(axis=1)).tolist() == [1, 5]
        with state.snapshot() as later:  # both at once, each of its moment
            assert list(index.current(later, "acme", CAPACITY, 4)[1]) == [5, 8]
        with state.transaction() as db:
            slots.store(db, MANIFEST, "acme", 2, matrix, texts.by_slot(found, CAPACITY))
        texts.settle(found, slots.version_slots(state, MANIFEST, "acme", 2))
    put(state)
    assert [(slot, one.text) for slot, one in found.items()] == [(1, "one"), (5, "five")]


def test_nothing_is_scrubbed_before_a_snapshot_ends(state: State) -> None:
    put(state, (1, "erased"))
    with state.snapshot() as documents:
        put(state)
        assert not state.scrub()
        assert documents.row("SELECT text FROM documents") == ("erased",)
    assert state.scrub()
    with state.snapshot() as documents:
        assert documents.row("SELECT text FROM documents") is None


def test_a_snapshot_opens_no_file_and_none_stay_open_of_several_at_once(state: State) -> None:
    def opened() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = opened()
    with state.snapshot():
        assert opened() == before
    after = []
    for _ in range(5):
        with state.snapshot(), state.snapshot(), state.snapshot():
            assert opened() > before
        after.append(opened())
    assert set(after) == {after[0]}  # SQLite keeps closed files of a database that others still lock, for the next one

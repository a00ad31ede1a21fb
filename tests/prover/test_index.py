# SPDX-License-Identifier: GPL-3.0-or-later
"""The tree over a version's texts, and what survives on disk."""

from __future__ import annotations

import os
import secrets
import stat
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel.commitment import text_leaf
from ragseal.kernel.errors import CommitmentError, ConfigurationError, LedgerError
from ragseal.kernel.slot_text import NO_METADATA, SlotText
from ragseal.ledger.merkle import leaf_hash, verify_inclusion
from ragseal.prover.commitment import documents, index, slots, texts
from ragseal.prover.commitment.corpora import Document
from ragseal.prover.commitment.documents import Put
from ragseal.prover.commitment.index import Matrix
from ragseal.prover.commitment.placement import IndexShape
from ragseal.prover.storage.schema import SCHEMA_VERSION
from ragseal.prover.storage.state import Settings, State, create
from ragseal.runtime.metadata import committed
from tests.classes import TINY

CAPACITY, DIMENSION = 10, 4


@pytest.fixture
def state(tmp_path: Path) -> State:
    keys = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    create(tmp_path / "p", Settings("example.org/rag", TINY.name, "minilm"), *keys)
    return State(tmp_path / "p")


def embed(texts: Sequence[str]) -> Matrix:
    return np.array([[len(t) % 127, 1, 2, 3] for t in texts], dtype=np.int8).reshape(len(texts), DIMENSION)


def test_text_tree_opens_every_slot(state: State) -> None:
    secret = b"s" * 32
    texts = {3: SlotText("d3", "three", NO_METADATA), 7: SlotText("d7", "seven", committed({"n": 7}))}
    tree = index.text_tree(secret, texts, CAPACITY)
    for slot in range(CAPACITY):
        leaf = text_leaf(index.slot_salt(secret, slot), slot, texts.get(slot))
        verify_inclusion(leaf_hash(leaf), slot, CAPACITY, tree.path(slot), tree.root())
    assert tree.root() != index.text_tree(b"t" * 32, texts, CAPACITY).root()


def test_secret_files_are_private(state: State) -> None:
    documents.apply(
        state, "acme", [Put(Document("d0", "x"))], embed, secrets.token_bytes, IndexShape(CAPACITY, DIMENSION)
    )
    for name in ("state.db", "provider.pem", "log.pem", "provider.toml"):
        assert stat.S_IMODE(os.stat(state.directory / name).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(state.directory).st_mode) == 0o700


def test_two_providers_on_one_state_are_refused(state: State) -> None:
    with pytest.raises(LedgerError, match="in use"):
        State(state.directory)
    state.close()
    State(state.directory).close()


def test_a_state_is_made_once(state: State) -> None:
    keys = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    with pytest.raises(ConfigurationError, match="already"):
        create(state.directory, Settings("example.org/rag", TINY.name, "minilm"), *keys)


@pytest.mark.parametrize("content", ["", "origin = 1", "not toml [", 'origin = "a"\nclass_name = "b"'])
def test_damaged_settings_are_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "provider.toml").write_text(content)
    with pytest.raises(ConfigurationError, match=r"provider\.toml"):
        State(tmp_path)
    with pytest.raises(ConfigurationError, match="ragseal-provider init"):
        State(tmp_path / "nowhere")


def test_a_database_of_another_format_is_refused(state: State) -> None:
    with state.transaction() as db:
        db.execute(f"PRAGMA user_version={SCHEMA_VERSION + 1}")
    state.close()
    with pytest.raises(ConfigurationError, match=f"format {SCHEMA_VERSION + 1}"):
        State(state.directory)


def test_reads_see_what_is_committed_and_wait_for_no_transaction(state: State) -> None:
    """An answer is looked up while others are being written: a sync takes milliseconds."""
    found: list[object] = []
    with state.transaction() as db:
        db.execute("INSERT INTO accounts VALUES ('a', 't', x'00')")
        reader = threading.Thread(target=lambda: found.append(state.rows("SELECT name FROM accounts")))
        reader.start()
        reader.join(10)
        assert found == [[]]
    assert state.rows("SELECT name FROM accounts") == [("a",)]
    with pytest.raises(ConfigurationError, match="readonly"):
        state.rows("DELETE FROM accounts")
    assert state.rows("SELECT name FROM accounts") == [("a",)]


def test_a_failed_transaction_changes_nothing(state: State) -> None:
    def insert(*keys: bytes) -> None:
        with state.transaction() as db:
            for key in keys:
                db.execute("INSERT INTO accounts VALUES ('a', 't', ?)", (key,))
            raise RuntimeError

    with pytest.raises(ConfigurationError, match="nothing was changed"):
        insert(b"0", b"1")
    assert state.rows("SELECT * FROM accounts") == []
    with pytest.raises(RuntimeError):
        insert(b"0")
    assert state.rows("SELECT * FROM accounts") == []


# Texts of a large version stay in the database: what is read there is what would be in memory.


STORED_TEXTS_CAPACITY, MANIFEST = 12, bytes(32)
BEFORE = {3: SlotText("d3", "three", NO_METADATA), 7: SlotText("d7", "seven", committed({"n": 7}))}
NOW = {0: SlotText("d0", "zero", NO_METADATA), 7: BEFORE[7], 11: SlotText("d11", "", NO_METADATA)}


def rows(texts: dict[int, SlotText], value: int) -> index.Matrix:
    matrix = np.zeros((STORED_TEXTS_CAPACITY, 4), dtype=np.int8)
    matrix[list(texts)] = value
    return matrix


@pytest.fixture
def stored_texts_state(tmp_path: Path) -> Iterator[State]:
    keys = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    create(tmp_path / "p", Settings("example.org/rag", TINY.name, "minilm"), *keys)
    made = State(tmp_path / "p")
    with made.transaction() as db:
        for number, held, value in ((0, BEFORE, 1), (1, NOW, 2)):
            slots.store(db, MANIFEST, "acme", number, rows(held, value), texts.by_slot(held, STORED_TEXTS_CAPACITY))
            slots.store(db, MANIFEST, "other", number, rows(BEFORE, 9), texts.by_slot(BEFORE, STORED_TEXTS_CAPACITY))
    yield made
    made.close()


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever there is, is too much for memory, and more than one part."""
    monkeypatch.setattr(texts, "IN_MEMORY", 0)
    monkeypatch.setattr(slots, "PART", 2)


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize(("number", "held"), [(0, BEFORE), (1, NOW)])
def test_they_are_the_same_as_in_memory(stored_texts_state: State, number: int, held: dict[int, SlotText]) -> None:
    stored = texts.load_texts(slots.version_slots(stored_texts_state, MANIFEST, "acme", number), STORED_TEXTS_CAPACITY)
    assert isinstance(stored, texts.StoredTexts)
    assert dict(stored) == dict(stored.items()) == held
    assert list(stored.values()) == list(held.values())
    assert (len(stored), list(stored)) == (len(held), sorted(held))
    assert [slot in stored for slot in range(-1, STORED_TEXTS_CAPACITY + 1)] == [
        slot in held for slot in range(-1, STORED_TEXTS_CAPACITY + 1)
    ]
    for slot in (-1, 1, STORED_TEXTS_CAPACITY):
        with pytest.raises(KeyError):
            stored[slot]
    assert list(texts.by_slot(stored, STORED_TEXTS_CAPACITY)) == list(texts.by_slot(held, STORED_TEXTS_CAPACITY))
    secret = b"s" * 32
    assert (
        index.text_tree(secret, stored, STORED_TEXTS_CAPACITY).root()
        == index.text_tree(secret, held, STORED_TEXTS_CAPACITY).root()
    )


@pytest.mark.usefixtures("large")
def test_a_slot_beyond_the_index_is_damage(stored_texts_state: State) -> None:
    with pytest.raises(CommitmentError, match="stored slot 11 does not fit an index of 11"):
        texts.load_texts(slots.version_slots(stored_texts_state, MANIFEST, "acme", 1), 11)
    with pytest.raises(CommitmentError, match="slot 11"):
        slots.load_matrix(slots.version_slots(stored_texts_state, MANIFEST, "acme", 1), (11, 4))


@pytest.mark.usefixtures("large")
def test_the_matrix_of_an_update_is_read_in_parts(stored_texts_state: State) -> None:
    expected = rows(NOW, 2)  # slot 7 has another vector too, so that it is a row of its own
    assert np.array_equal(
        slots.load_matrix(slots.version_slots(stored_texts_state, MANIFEST, "acme", 1), (STORED_TEXTS_CAPACITY, 4)),
        expected,
    )


def test_few_are_held_in_memory_and_outlive_their_rows(stored_texts_state: State) -> None:
    held = texts.load_texts(slots.version_slots(stored_texts_state, MANIFEST, "acme", 1), STORED_TEXTS_CAPACITY)
    with stored_texts_state.transaction() as db:
        db.execute("DELETE FROM version_texts")
    assert held == NOW


@pytest.mark.usefixtures("large")
def test_what_is_purged_can_be_read_no_more(stored_texts_state: State) -> None:
    stored = texts.load_texts(slots.version_slots(stored_texts_state, MANIFEST, "acme", 1), STORED_TEXTS_CAPACITY)
    with stored_texts_state.transaction() as db:
        db.execute("DELETE FROM version_texts")
    with pytest.raises(KeyError):
        stored[7]


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("in_parts", [True, False])
def test_a_version_is_stored_in_parts_as_it_would_be_at_once(
    stored_texts_state: State, in_parts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots, "PART", 2 if in_parts else STORED_TEXTS_CAPACITY)
    with stored_texts_state.transaction() as db:
        slots.store(db, MANIFEST, "acme", 2, rows(BEFORE, 2), texts.by_slot(BEFORE, STORED_TEXTS_CAPACITY))
    kept = "SELECT slot, number, until FROM version_texts WHERE tenant = 'acme' ORDER BY slot, number"
    assert stored_texts_state.rows(kept) == [(0, 1, 2), (3, 0, 1), (3, 2, None), (7, 0, 1), (7, 1, None), (11, 1, 2)]


def put(stored_texts_state: State, *documents: tuple[int, str]) -> None:
    """The tenant's documents, all of them, by slot."""
    with stored_texts_state.transaction() as db:
        db.execute("DELETE FROM documents")
        for slot, text in documents:
            line = ("acme", slot, f"d{slot}", text, NO_METADATA.encode(), bytes([slot] * 4), bytes(32), "")
            db.execute("INSERT INTO documents VALUES (?, ?, ?, ?, ?, ?, ?, ?)", line)


@pytest.mark.usefixtures("large")
def test_a_version_is_made_of_one_moment(stored_texts_state: State) -> None:
    put(stored_texts_state, (1, "one"), (5, "five"))
    with stored_texts_state.snapshot() as documents:
        put(stored_texts_state, (5, "changed"), (8, "eight"))
        matrix, found = index.current(documents, "acme", STORED_TEXTS_CAPACITY, 4)
        assert isinstance(found, texts.StoredTexts)
        assert [(slot, one.text) for slot, one in found.items()] == [(1, "one"), (5, "five")]
        assert found[5].text == "five"
        assert np.flatnonzero(matrix.any(axis=1)).tolist() == [1, 5]
        with stored_texts_state.snapshot() as later:  # both at once, each of its moment
            assert list(index.current(later, "acme", STORED_TEXTS_CAPACITY, 4)[1]) == [5, 8]
        with stored_texts_state.transaction() as db:
            slots.store(db, MANIFEST, "acme", 2, matrix, texts.by_slot(found, STORED_TEXTS_CAPACITY))
        texts.settle(found, slots.version_slots(stored_texts_state, MANIFEST, "acme", 2))
    put(stored_texts_state)
    assert [(slot, one.text) for slot, one in found.items()] == [(1, "one"), (5, "five")]


def test_nothing_is_scrubbed_before_a_snapshot_ends(stored_texts_state: State) -> None:
    put(stored_texts_state, (1, "erased"))
    with stored_texts_state.snapshot() as documents:
        put(stored_texts_state)
        assert not stored_texts_state.scrub()
        assert documents.row("SELECT text FROM documents") == ("erased",)
    assert stored_texts_state.scrub()
    with stored_texts_state.snapshot() as documents:
        assert documents.row("SELECT text FROM documents") is None


def test_a_snapshot_opens_no_file_and_none_stay_open_of_several_at_once(stored_texts_state: State) -> None:
    def opened() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = opened()
    with stored_texts_state.snapshot():
        assert opened() == before
    after = []
    for _ in range(5):
        with stored_texts_state.snapshot(), stored_texts_state.snapshot(), stored_texts_state.snapshot():
            assert opened() > before
        after.append(opened())
    assert set(after) == {after[0]}  # SQLite keeps closed files of a database that others still lock, for the next one

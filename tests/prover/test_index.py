# SPDX-License-Identifier: GPL-3.0-or-later
"""Ingestion, slots, and what survives on disk."""

from __future__ import annotations

import os
import secrets
import stat
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel.commitment import text_leaf
from ragseal.kernel.errors import CommitmentError, ConfigurationError, LedgerError
from ragseal.kernel.slot_text import MAX_TEXT_BYTES, NO_METADATA, Metadata, MetadataPair, SlotText
from ragseal.ledger.merkle import leaf_hash, verify_inclusion
from ragseal.prover.commitment import index
from ragseal.prover.commitment.corpora import Document
from ragseal.prover.commitment.index import Matrix
from ragseal.prover.storage.state import SCHEMA_VERSION, Settings, State, create
from ragseal.runtime.metadata import committed

CAPACITY, DIMENSION = 10, 4


@pytest.fixture
def state(tmp_path: Path) -> State:
    keys = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    create(tmp_path / "p", Settings("example.org/rag", "tiny", "minilm"), *keys)
    return State(tmp_path / "p")


def embed(texts: Sequence[str]) -> Matrix:
    return np.array([[len(t) % 127, 1, 2, 3] for t in texts], dtype=np.int8).reshape(len(texts), DIMENSION)


def add(state: State, *documents: Document) -> tuple[int, int]:
    return index.ingest(state, "acme", CAPACITY, DIMENSION, documents, embed, secrets.token_bytes)


def many(count: int, start: int = 0) -> list[Document]:
    return [Document(f"d{i}", "x" * (i + 1)) for i in range(start, start + count)]


def test_rows_stand_in_their_slots_and_empty_ones_are_zero(state: State) -> None:
    assert add(state, *many(6)) == (6, 0)
    matrix, texts = index.current(state, "acme", CAPACITY, DIMENSION)
    assert len(texts) == 6
    for slot in range(CAPACITY):
        expected = embed([texts[slot].text])[0] if slot in texts else np.zeros(DIMENSION)
        assert (matrix[slot] == expected).all()
    assert index.tenants(state) == [("acme", 6)]


def test_a_second_corpus_fills_up_and_known_documents_are_skipped(state: State) -> None:
    add(state, *many(6))
    before = index.current(state, "acme", CAPACITY, DIMENSION)[1]
    assert add(state, *many(8)) == (2, 6)
    after = index.current(state, "acme", CAPACITY, DIMENSION)[1]
    assert before.items() <= after.items()


def test_full_is_refused_before_anything_is_written(state: State) -> None:
    add(state, *many(6))
    with pytest.raises(CommitmentError, match="10"):
        add(state, *many(5, start=6))
    assert index.tenants(state) == [("acme", 6)]


def test_an_id_with_another_text_is_refused(state: State) -> None:
    add(state, *many(2))
    with pytest.raises(CommitmentError, match="another text"):
        add(state, Document("d9", "new"), Document("d0", "changed"))
    assert index.tenants(state) == [("acme", 2)]


def test_an_id_with_other_metadata_is_refused(state: State) -> None:
    kept = Document("d0", "x", committed({"source": "a", "page": 1}))
    assert add(state, kept) == (1, 0)
    assert add(state, Document("d0", "x", committed({"page": 1.0, "source": "a"}))) == (0, 1)
    for other in ({}, {"source": "a"}, {"source": "a", "page": 2}, {"source": "a", "page": "1"}):
        with pytest.raises(CommitmentError, match="'d0' of tenant 'acme' is there with other metadata"):
            add(state, Document("d1", "new"), Document("d0", "x", committed(other)))
    with pytest.raises(CommitmentError, match="other metadata"):
        add(state, Document("d1", "new"), Document("d1", "new", committed({"a": 1})))
    (found,) = index.current(state, "acme", CAPACITY, DIMENSION)[1].values()
    assert found == kept.content


def test_documents_that_no_leaf_can_hold_are_refused_before_they_are_embedded(state: State) -> None:
    unsorted = Metadata((MetadataPair("b", True), MetadataPair("a", "x")))
    for document, why in (
        (Document("d0", "x" * (MAX_TEXT_BYTES + 1)), "oversized"),
        (Document("d0", "\ud800"), "surrogate"),
        (Document("d0" * 257, "x"), "514 characters"),
        (Document("", "x"), "0 characters"),
        (Document("d0", "x", unsorted), "sorted by key"),
        (Document("d0", "x", Metadata((MetadataPair("k", "v" * 513),))), "513 characters"),
        (Document("d0", "x", Metadata(tuple(MetadataPair(f"{i:02}", "") for i in range(17)))), "17 items"),
    ):
        with pytest.raises(CommitmentError, match=rf"fits no slot: .*{why}"):
            index.ingest(state, "acme", CAPACITY, DIMENSION, [document], _never, secrets.token_bytes)
    assert index.tenants(state) == []


def _never(texts: Sequence[str]) -> Matrix:
    raise AssertionError("embedded before it was checked")


def test_damaged_metadata_is_named(state: State) -> None:
    add(state, *many(2))
    with state.transaction() as db:
        db.execute("UPDATE documents SET metadata = substr(metadata, 2) WHERE document = 'd1'")
    with pytest.raises(CommitmentError, match=r"metadata of document 'd1' is damaged.*restore"):
        index.current(state, "acme", CAPACITY, DIMENSION)


def test_an_embedder_of_another_shape_is_refused(state: State) -> None:
    with pytest.raises(CommitmentError, match="embedder"):
        index.ingest(
            state, "acme", CAPACITY, DIMENSION, many(2), lambda t: np.zeros((2, 3), np.int8), secrets.token_bytes
        )


def test_slots_depend_on_key_and_counter_only() -> None:
    free = list(range(100))
    key = b"k" * 32
    chosen = [index.choose_slot(key, n, free) for n in range(50)]
    assert chosen == [index.choose_slot(key, n, free) for n in range(50)]
    assert len(set(chosen)) > 25
    assert chosen != [index.choose_slot(b"j" * 32, n, free) for n in range(50)]
    with pytest.raises(CommitmentError, match="free"):
        index.choose_slot(key, 0, [])


def test_text_tree_opens_every_slot(state: State) -> None:
    secret = b"s" * 32
    texts = {3: SlotText("d3", "three", NO_METADATA), 7: SlotText("d7", "seven", committed({"n": 7}))}
    tree = index.text_tree(secret, texts, CAPACITY)
    for slot in range(CAPACITY):
        leaf = text_leaf(index.slot_salt(secret, slot), slot, texts.get(slot))
        verify_inclusion(leaf_hash(leaf), slot, CAPACITY, tree.path(slot), tree.root())
    assert tree.root() != index.text_tree(b"t" * 32, texts, CAPACITY).root()


def test_secret_files_are_private(state: State) -> None:
    add(state, *many(2))
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
        create(state.directory, Settings("example.org/rag", "tiny", "minilm"), *keys)


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

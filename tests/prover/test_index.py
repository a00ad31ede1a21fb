# SPDX-License-Identifier: GPL-3.0-or-later
"""The tree over a version's texts, and what survives on disk."""

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
from ragseal.kernel.errors import ConfigurationError, LedgerError
from ragseal.kernel.slot_text import NO_METADATA, SlotText
from ragseal.ledger.merkle import leaf_hash, verify_inclusion
from ragseal.prover.commitment import documents, index
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

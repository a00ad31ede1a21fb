# SPDX-License-Identifier: GPL-3.0-or-later
"""Documents that are put, changed and deleted: where they stand, and that a refusal changes nothing."""

from __future__ import annotations

import secrets
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel.errors import CommitmentError
from ragseal.kernel.slot_text import MAX_TEXT_BYTES
from ragseal.prover.commitment import document_rows, documents, index
from ragseal.prover.commitment.corpora import Document
from ragseal.prover.commitment.documents import Applied, Delete, Mark, Put
from ragseal.prover.commitment.index import Matrix
from ragseal.prover.commitment.new_period import new_period
from ragseal.prover.commitment.placement import IndexShape, next_slots, permutation
from ragseal.prover.storage.state import Settings, State, create
from tests.classes import TINY

CAPACITY, DIMENSION = 10, 4
SHAPE = IndexShape(CAPACITY, DIMENSION)


@pytest.fixture
def state(tmp_path: Path) -> State:
    keys = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    create(tmp_path / "p", Settings("example.org/rag", TINY.name, "minilm"), *keys)
    return State(tmp_path / "p")


def embed(texts: Sequence[str]) -> Matrix:
    return np.array([[len(t) % 127, 1, 2, 3] for t in texts], dtype=np.int8).reshape(len(texts), DIMENSION)


def apply(state: State, *changes: Put | Delete, shape: IndexShape = SHAPE, **more: object) -> Applied:
    return documents.apply(state, "acme", changes, embed, secrets.token_bytes, shape, **more)


def put(name: str, text: str = "text") -> Put:
    return Put(Document(name, text))


def many(count: int, start: int = 0) -> list[Put]:
    return [put(f"d{i}", "x" * (i + 1)) for i in range(start, start + count)]


def places(state: State) -> dict[str, int]:
    return {str(name): int(slot) for name, slot in state.rows("SELECT document, slot FROM documents")}


def everything(state: State) -> list[list[tuple]]:
    tables = "documents", "tenants", "source_marks", "resting"
    return [state.rows(f"SELECT * FROM {table} ORDER BY 1, 2") for table in tables]


def test_rows_stand_in_their_slots_and_empty_ones_are_zero(state: State) -> None:
    assert apply(state, *many(6)) == Applied(added=6)
    matrix, texts = index.current(state, "acme", CAPACITY, DIMENSION)
    assert len(texts) == 6
    for slot in range(CAPACITY):
        expected = embed([texts[slot].text])[0] if slot in texts else np.zeros(DIMENSION)
        assert (matrix[slot] == expected).all()
    assert index.tenants(state) == [("acme", 6)]


def test_an_edit_keeps_its_place_and_what_is_unchanged_is_not_embedded(state: State) -> None:
    apply(state, *many(6))
    before, asked = places(state), []

    def watched(texts: Sequence[str]) -> Matrix:
        asked.extend(texts)
        return embed(texts)

    changes = [*many(6)[1:], put("d0", "changed"), put("new", "new text")]
    done = documents.apply(state, "acme", changes, watched, secrets.token_bytes, SHAPE)
    assert done == Applied(added=1, changed=1, unchanged=5)
    assert asked == ["new text", "changed"]
    after = places(state)
    assert before.items() <= after.items()
    matrix, texts = index.current(state, "acme", CAPACITY, DIMENSION)
    assert texts[before["d0"]].text == "changed"
    assert (matrix[before["d0"]] == embed(["changed"])[0]).all()
    assert (matrix[after["new"]] == embed(["new text"])[0]).all()


def test_the_nth_insertion_goes_to_the_nth_place_whatever_was_deleted_before(state: State) -> None:
    """Except under the id that was deleted: that document has its place."""
    pi = permutation(b"k" * 32, CAPACITY)
    documents.apply(state, "acme", many(3), embed, lambda n: b"k" * n, SHAPE)
    assert [places(state)[f"d{i}"] for i in range(3)] == pi[:3]
    assert apply(state, Delete("d1"), Delete("d2")) == Applied(deleted=2)
    apply(state, put("e"), put("d1", "again"))
    assert places(state) == {"d0": pi[0], "e": pi[3], "d1": pi[1]}
    assert apply(state, Delete("d0"), put("d0", "x")) == Applied(changed=1)
    apply(state, put("f"))
    assert places(state) == {"d0": pi[0], "d1": pi[1], "e": pi[3], "f": pi[4]}


def test_a_document_that_is_deleted_and_put_again_has_no_second_coin(state: State) -> None:
    """In two slots of a coin period it would be hidden by both coins only, and unseen counts one.  SPEC A.11.10."""
    apply(state, *many(3))
    here = places(state)["d1"]
    for _ in range(3):
        apply(state, Delete("d1"))
        apply(state, put("other"), Delete("d0"))
        apply(state, put("d1", "as it comes from a table that is filled anew"))
        assert places(state)["d1"] == here
        apply(state, Delete("d1"), put("d1", "in one batch"))
        assert places(state)["d1"] == here
    assert state.row("SELECT counter FROM tenants") == (4,)
    apply(state, Delete("d1"))
    new_period(state, "acme", SHAPE, secrets.token_bytes)
    assert state.rows("SELECT * FROM resting") == []


def test_a_freed_place_rests_until_the_period_ends(state: State) -> None:
    """Under one coin, a later document could be told visible by what its predecessor returned."""
    used: list[int] = []
    for i in range(CAPACITY):
        apply(state, put(f"d{i}"))
        used += places(state).values()
        apply(state, Delete(f"d{i}"))
    assert sorted(used) == list(range(CAPACITY))
    with pytest.raises(CommitmentError, match=r"10 rest.*new-period"):
        apply(state, put("new"))
    new_period(state, "acme", SHAPE, secrets.token_bytes)
    assert apply(state, *many(CAPACITY)) == Applied(added=CAPACITY)


def test_a_full_period_is_refused_before_anything_is_embedded_or_written(state: State) -> None:
    apply(state, *many(6))
    apply(state, Delete("d0"))
    before = everything(state)

    def never(texts: Sequence[str]) -> Matrix:
        raise AssertionError(texts)

    changes = [Delete("d1"), put("d2", "edit"), *many(5, start=6)]
    with pytest.raises(CommitmentError, match=r"5 new documents .* 4 of 10 places are unused .*1 rest"):
        documents.apply(state, "acme", changes, never, secrets.token_bytes, SHAPE)
    assert everything(state) == before


def test_changes_of_one_id_count_in_their_order(state: State) -> None:
    apply(state, put("a", "one"), put("b", "two"))
    here = places(state)
    done = apply(state, put("a", "x"), put("a", "one"), Delete("b"), put("b", "y"), put("c"), Delete("c"), Delete("d"))
    assert done == Applied(changed=1, unchanged=2)
    assert places(state)["a"] == here["a"]
    assert places(state)["b"] == here["b"]
    assert set(places(state)) == {"a", "b"}
    assert apply(state, put("a", "z"), Delete("a"), put("e")) == Applied(added=1, deleted=1)
    assert set(places(state)) == {"b", "e"}
    used = state.row("SELECT counter FROM tenants")
    assert used == (3,)


def test_a_new_period_places_everything_afresh(state: State) -> None:
    apply(state, *many(8))
    apply(state, *map(Delete, ("d6", "d7")))
    before = {one.text: slot for slot, one in index.current(state, "acme", CAPACITY, DIMENSION)[1].items()}
    seen = Counter()
    for _ in range(60):
        new_period(state, "acme", SHAPE, secrets.token_bytes)
        matrix, texts = index.current(state, "acme", CAPACITY, DIMENSION)
        assert sorted(one.text for one in texts.values()) == sorted(before)
        assert all((matrix[slot] == embed([one.text])[0]).all() for slot, one in texts.items())
        seen.update(texts.keys())
    assert set(seen) == set(range(CAPACITY))  # each slot is missed with probability 0.4^60
    assert state.row("SELECT counter FROM tenants") == (6,)
    with pytest.raises(CommitmentError, match="no documents"):
        new_period(state, "globex", SHAPE, secrets.token_bytes)
    with pytest.raises(CommitmentError, match="6 documents"):
        new_period(state, "acme", IndexShape(5, DIMENSION), secrets.token_bytes)


def test_a_period_of_another_shape_is_not_continued(state: State) -> None:
    """Another permutation would meet places that rest."""
    apply(state, *many(3))
    with pytest.raises(CommitmentError, match="new period"):
        apply(state, put("e"), shape=IndexShape(CAPACITY, DIMENSION, 2))
    new_period(state, "acme", IndexShape(CAPACITY, DIMENSION, 3), secrets.token_bytes)
    assert all(slot % 3 == 0 and slot < 9 for slot in places(state).values())
    with pytest.raises(CommitmentError, match="0 of 3 places"):
        apply(state, put("e"), shape=IndexShape(CAPACITY, DIMENSION, 3))


def test_places_are_a_permutation_of_their_key_alone() -> None:
    key, shape = b"k" * 32, IndexShape(101, 4)
    assert next_slots(key, 0, 101, shape) == permutation(key, 101)
    assert sorted(permutation(key, 101)) == list(range(101))
    assert next_slots(key, 40, 2, shape) == permutation(key, 101)[40:42]
    assert permutation(b"j" * 32, 101) != permutation(key, 101)
    assert next_slots(key, 0, 3, IndexShape(101, 4, 4)) == [4 * place for place in permutation(key, 25)[:3]]
    with pytest.raises(CommitmentError, match="1 places are unused"):
        next_slots(key, 100, 2, shape)


def test_every_place_is_met_equally_often() -> None:
    """Where the first document stands, over many keys: chi-squared with 9 degrees of freedom, 4 sigma."""
    rounds = 4000
    counts = Counter(permutation(i.to_bytes(32, "big"), CAPACITY)[0] for i in range(rounds))
    expected = rounds / CAPACITY
    assert sum((counts[p] - expected) ** 2 / expected for p in range(CAPACITY)) < 9 + 4 * 18**0.5


def test_oversized_and_malformed_texts_and_names_are_refused(state: State) -> None:
    for text in ("x" * (MAX_TEXT_BYTES + 1), "\ud800"):
        with pytest.raises(CommitmentError, match="d0"):
            apply(state, put("before"), put("d0", text))
    with pytest.raises(CommitmentError, match="tenant name"):
        documents.apply(state, "a\nb", [put("d0")], embed, secrets.token_bytes, SHAPE)
    assert index.tenants(state) == []


@pytest.mark.parametrize("row", [np.zeros(3, np.int8), np.zeros(4, np.float32), np.zeros((1, 4), np.int8)])
def test_rows_of_another_shape_are_refused(state: State, row: np.ndarray) -> None:
    with pytest.raises(CommitmentError, match="d0"):
        apply(state, Put(Document("d0", "x"), row))
    assert index.tenants(state) == []


def test_an_embedder_of_another_shape_is_refused(state: State) -> None:
    for wrong in (lambda t: np.zeros((2, 3), np.int8), lambda t: np.zeros((2, 4), np.int16)):
        with pytest.raises(CommitmentError, match="embedder"):
            documents.apply(state, "acme", many(2), wrong, secrets.token_bytes, SHAPE)


def test_a_row_that_came_along_is_taken_and_is_part_of_the_content(state: State) -> None:
    own = np.array([9, 8, 7, 6], dtype=np.int8)
    assert apply(state, Put(Document("d", "text"), own), put("e")) == Applied(added=2)
    matrix, _ = index.current(state, "acme", CAPACITY, DIMENSION)
    assert (matrix[places(state)["d"]] == own).all()
    assert apply(state, Put(Document("d", "text"), own)) == Applied(unchanged=1)
    assert apply(state, Put(Document("d", "text"), own[::-1].copy())) == Applied(changed=1)
    assert apply(state, put("d")) == Applied(changed=1)  # and embedded again
    matrix, _ = index.current(state, "acme", CAPACITY, DIMENSION)
    assert (matrix[places(state)["d"]] == embed(["text"])[0]).all()


def test_what_was_changed_while_somebody_embedded_is_not_written_over(state: State) -> None:
    apply(state, put("a"))
    work: list[Callable[[], object]] = [
        lambda: apply(state, put("b")),
        lambda: apply(state, Delete("a")),
        lambda: new_period(state, "acme", SHAPE, secrets.token_bytes),
    ]
    for meanwhile in work:

        def slow(texts: Sequence[str], meanwhile: Callable[[], object] = meanwhile) -> Matrix:
            other = threading.Thread(target=meanwhile)
            other.start()
            other.join()
            return embed(texts)

        with pytest.raises(CommitmentError, match="meanwhile"):
            documents.apply(state, "acme", [put("late")], slow, secrets.token_bytes, SHAPE)
        assert "late" not in places(state)


def test_a_mark_stands_or_falls_with_its_changes(state: State) -> None:
    apply(state, put("a"), source="s", mark=Mark("s", "1"))
    assert document_rows.mark_of(state, "acme", "s") == "1"
    assert document_rows.mark_of(state, "acme", "other") is None
    assert document_rows.mark_of(state, "globex", "s") is None
    with pytest.raises(CommitmentError):
        apply(state, *many(CAPACITY), source="s", mark=Mark("s", "2"))
    assert document_rows.mark_of(state, "acme", "s") == "1"
    apply(state, source="s", mark=Mark("s", "3"))
    assert document_rows.mark_of(state, "acme", "s") == "3"


def test_a_document_belongs_to_the_source_that_it_was_last_read_from(state: State) -> None:
    apply(state, put("a"), put("b"), source="s")
    apply(state, put("c"))
    assert document_rows.of_source(state, "acme", "s") == {"a", "b"}
    assert apply(state, put("b")) == Applied(unchanged=1)
    assert document_rows.of_source(state, "acme", "s") == {"a"}
    listed = document_rows.listed(state, "acme")
    assert [(one.id, one.source, one.bytes) for one in listed] == [("a", "s", 4), ("b", "", 4), ("c", "", 4)]


def test_deleting_what_is_not_there_deletes_nothing(state: State) -> None:
    apply(state, *many(3))
    before = everything(state)
    with pytest.raises(CommitmentError, match=r"'d9'.*nothing was deleted"):
        documents.delete(state, "acme", ["d0", "d9"], secrets.token_bytes, SHAPE)
    assert everything(state) == before
    assert documents.delete(state, "acme", ["d0", "d1"], secrets.token_bytes, SHAPE) == Applied(deleted=2)
    assert set(places(state)) == {"d2"}


def test_a_deleted_text_is_overwritten_in_the_database(state: State) -> None:
    """secure_delete: neither the file nor the log beside it keeps what was deleted or replaced."""
    apply(state, put("a", "SENTINEL of a deleted text"), put("b", "SENTINEL of an edited text"), put("c"))
    state.close()
    again = State(state.directory)
    apply(again, Delete("a"), put("b", "new"))
    again.close()
    for file in state.directory.glob("state.db*"):
        assert b"SENTINEL" not in file.read_bytes(), file


def test_few_changes_are_looked_up_one_by_one_and_do_what_many_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A single document costs what it changes, not a reading of all; nothing else may differ."""
    found = []
    for few in (0, documents.FEW):
        monkeypatch.setattr(documents, "FEW", few)
        keys = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
        create(tmp_path / str(few), Settings("example.org/rag", TINY.name, "minilm"), *keys)
        with State(tmp_path / str(few)) as opened:
            said = []
            for changes in (
                many(5), [put("d1", "changed"), put("d2", "xxx")], [Delete("d0"), Delete("none")], [put("d0", "again")],
                [put("new"), Delete("d3"), put("d3", "back")], [Delete("d4"), put("d4", "other"), put("d1", "changed")],
            ):  # fmt: skip
                more = {"source": "jsonl:x"} if changes[0] == put("new") else {}
                said.append(documents.apply(opened, "acme", changes, embed, bytes, SHAPE, **more))
            with pytest.raises(CommitmentError, match=r"20 new documents .* 4 of 10 places are unused .*\(0 rest"):
                documents.apply(opened, "acme", many(20, 50), embed, bytes, SHAPE)
            found.append((said, everything(opened)))
    assert found[0] == found[1]

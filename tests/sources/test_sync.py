# SPDX-License-Identifier: GPL-3.0-or-later
"""A sync is all or nothing: what is put, changed, deleted, and what a hostile source does not get in."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragseal.kernel.errors import AuditError, CommitmentError, EncodingError, TransportError
from ragseal.prover.commitment import document_rows, documents
from ragseal.prover.commitment.corpora import Document
from ragseal.prover.commitment.corpus_files import Limits
from ragseal.prover.commitment.documents import Applied, Delete, Put
from ragseal.prover.sources import sync as syncing
from ragseal.prover.sources.interface import Item, Refused, StaleMark
from ragseal.prover.sources.sync import Target, catch_up, follow, sync
from tests.simulator.provider import SHAPE
from tests.sources.scene import CHECKED, TEXTS, VECTORS, Rows, everything, held, item, matrix_is_right, new_target

ALL = [item(name) for name in TEXTS]


@pytest.fixture(params=["embed", "check"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Target]:
    made = new_target(tmp_path, **({"rule": CHECKED} if request.param == "check" else {}))
    yield made
    made.state.close()


def test_a_snapshot_is_put_changed_and_deleted(target: Target) -> None:
    source = Rows(*ALL)
    assert sync(target, source) == Applied(added=30)
    assert held(target.state) == TEXTS
    assert matrix_is_right(target.state)
    assert sync(target, source) == Applied(unchanged=30)
    places = dict(target.state.rows("SELECT document, slot FROM documents"))
    other = replace(item("doc-5"), id="doc-4")
    source.items = [*ALL[:4], other, *ALL[6:], replace(item("doc-5"), id="new")]
    assert sync(target, source) == Applied(added=1, changed=1, deleted=1, unchanged=28)
    assert set(held(target.state)) == {*TEXTS, "new"} - {"doc-5"}
    assert dict(target.state.rows("SELECT document, slot FROM documents"))["doc-4"] == places["doc-4"]
    assert matrix_is_right(target.state)


def test_only_what_changed_is_embedded(tmp_path: Path) -> None:
    asked: list[str] = []
    target = new_target(tmp_path)

    def watched(texts: Any) -> Any:
        asked.extend(texts)
        return target.embed(texts)

    watching = replace(target, embed=watched)
    sync(watching, Rows(*ALL))
    assert asked == list(TEXTS.values())
    sync(watching, Rows(*ALL[1:], item("doc-0", text="changed")))
    assert asked[30:] == ["changed"]


def test_a_sync_deletes_what_its_own_source_had_and_nothing_else(target: Target) -> None:
    put = Put(Document("by hand", "put by a person"))
    documents.apply(target.state, "acme", [put], target.embed, target.draw, SHAPE)
    sync(target, Rows(*ALL[:5], name="one"))
    sync(target, Rows(*ALL[5:10], name="two"))
    assert sync(target, Rows(*ALL[:3], name="one")) == Applied(deleted=2, unchanged=3)
    assert set(held(target.state)) == {"by hand", *list(TEXTS)[:3], *list(TEXTS)[5:10]}
    assert sync(replace(target, keep_missing=True), Rows(ALL[5], name="two")) == Applied(unchanged=1)
    assert len(held(target.state)) == 9


HOSTILE: list[tuple[Callable[[], Item], str]] = [
    (lambda: item("doc-3"), "row of doc-3: this id occurs twice"),
    (lambda: item("  "), "row of   : the identifier is empty"),
    (lambda: item("x" * 513), "513 characters, at most 512"),
    (lambda: item("a\nb"), "control character"),
    (lambda: item("a\ud800"), "lone surrogate"),
    (lambda: item("new", text=" \n"), "row of new: the text is empty"),
    (lambda: item("new", text="x" * ((1 << 20) + 1)), "row of new: the text has 1048577 characters"),
    (lambda: item("new", text="é" * (1 << 20)), "'new'.*oversized"),
]


@pytest.mark.parametrize(("make", "said"), HOSTILE)
def test_a_row_that_is_refused_is_named_and_only_deletions_are_taken(
    target: Target, make: Callable[[], Item], said: str
) -> None:
    sync(target, Rows(*ALL[:20]))
    before = everything(target.state)
    bad = replace(make(), vector=VECTORS["doc-0"])
    with pytest.raises((EncodingError, CommitmentError), match=f"(?s){said}"):
        sync(target, Rows(*ALL[:20], *ALL[25:], bad))
    assert everything(target.state) == before
    with pytest.raises(EncodingError, match=f"(?s){said}.*deleted all the same, 3 of them; nothing else was changed"):
        sync(target, Rows(bad, *ALL[3:]))
    assert set(held(target.state)) == {one.id for one in ALL[3:20]}


def test_deletions_are_not_taken_from_what_may_be_another_table(target: Target) -> None:
    sync(target, Rows(*ALL[:20]))
    before = everything(target.state)
    renamed = [replace(one, id=f"k{one.id}") for one in ALL]
    with pytest.raises(EncodingError, match="the text is empty"):
        sync(target, Rows(*renamed, item("new", text=" ")))
    assert everything(target.state) == before


def test_missing_documents_that_are_kept_are_kept_beside_a_refused_row(target: Target) -> None:
    sync(target, Rows(*ALL[:20]))
    before = everything(target.state)
    with pytest.raises(EncodingError, match="the text is empty"):
        sync(replace(target, keep_missing=True), Rows(*ALL[3:], item("new", text=" ")))
    assert everything(target.state) == before


def vector(*entries: float, size: int = 24) -> np.ndarray:
    return np.array([*entries, *[0.5] * (size - len(entries))], dtype=np.float32)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (None, "no vector, the provider's embedder gives 24"),
        (vector(size=23), "a vector of 23 entries"),
        (vector(float("nan")), "NaN or infinity"),
        (vector(float("inf")), "NaN or infinity"),
        (np.zeros(24, np.float32), "has length 0"),
        (vector(1e30), "has length 1e"),
        (VECTORS["doc-2"] * np.float32(1e-9), "has length 1e-09"),
    ],
)
def test_a_vector_that_no_embedder_gives_is_refused(tmp_path: Path, wrong: np.ndarray | None, said: str) -> None:
    target = new_target(tmp_path, rule=CHECKED)
    sync(target, Rows(*ALL[:20]))
    before = everything(target.state)
    with pytest.raises(EncodingError, match=f"row of doc-25: .*{said}"):
        sync(target, Rows(*ALL[:25], item("doc-25", vector=wrong), *ALL[26:]))
    assert everything(target.state) == before


def test_vectors_of_another_model_are_refused_and_those_of_another_length_are_not(tmp_path: Path) -> None:
    target = new_target(tmp_path, rule=CHECKED)
    swapped = [replace(one, vector=VECTORS["doc-0"]) for one in ALL]
    with pytest.raises(EncodingError, match=r"cosine .* less than 0.999 .* of 10 that were drawn.*embed anew"):
        sync(target, Rows(*swapped))
    assert held(target.state) == {}
    longer = [replace(one, vector=VECTORS[one.id] * np.float32(7)) for one in ALL]
    assert sync(target, Rows(*longer)) == Applied(added=30)
    assert matrix_is_right(target.state)


def test_a_vector_that_was_exchanged_is_a_change_and_embedding_repairs_it(tmp_path: Path) -> None:
    """Under check:1 one wrong vector among thirty often passes; the next sync with embed replaces it."""
    target = new_target(tmp_path, rule=CHECKED)
    sync(target, Rows(*ALL))
    assert sync(target, Rows(*ALL)) == Applied(unchanged=30)
    embedding = replace(target, rule=syncing.EMBED)
    assert sync(embedding, Rows(*ALL)) == Applied(changed=30)
    assert matrix_is_right(target.state)


def test_an_empty_source_deletes_nothing(target: Target) -> None:
    sync(target, Rows(*ALL))
    before = everything(target.state)
    with pytest.raises(EncodingError, match="has no rows: nothing was changed"):
        sync(target, Rows())
    assert everything(target.state) == before


def test_a_source_with_too_many_rows_is_refused_before_all_are_read(target: Target) -> None:
    few = replace(target, limits=Limits(documents=5))
    with pytest.raises(EncodingError, match="row of doc-5: more than 5 rows"):
        sync(few, Rows(*ALL))
    assert held(target.state) == {}


def test_a_full_period_takes_deletions_alone(target: Target) -> None:
    more = [item(f"more-{i}", vector=VECTORS["doc-0"], text=TEXTS["doc-0"]) for i in range(100)]
    sync(target, Rows(*ALL))
    with pytest.raises(CommitmentError, match=r"new documents .* places are unused.*deleted all the same, 5 of them"):
        sync(target, Rows(*ALL[:25], *more))
    assert set(held(target.state)) == {one.id for one in ALL[:25]}


@pytest.mark.parametrize("most", [SHAPE.capacity, 5])
def test_a_source_without_end_is_left_before_it_fills_the_memory(
    target: Target, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """A hostile database costs the provider, which may be serving, as much as an index can hold and no more."""
    read = 0

    class Endless(Fed):
        def rows(self) -> Iterator[Item]:
            nonlocal read
            for read in itertools.count(1):
                yield item(f"row-{read}", vector=VECTORS["doc-0"], text="x" * 10)

        def snapshot(self) -> tuple[Iterator[Item], str]:
            return self.rows(), "0"

        def changes(self, mark: str) -> tuple[Iterator[Item | Delete], str]:
            return self.rows(), "1"

    if most == 5:
        monkeypatch.setattr(syncing, "MOST_CHARACTERS", 50)
    match = "more rows than the" if most > 5 else "more than 50 characters"
    with pytest.raises(AuditError, match=match):
        sync(target, Endless(changed=[]))
    assert read == most + 1
    with pytest.raises(AuditError, match=match):
        syncing._fed(target, "endless", Endless(changed=[]).changes("0")[0])
    assert read == most + 1
    assert held(target.state) == {}


def test_rows_beyond_the_places_wait_as_long_as_the_index_may_grow(tmp_path: Path) -> None:
    """A source that is followed outlives windows: what the index may hold is asked for each batch."""
    shapes = [replace(SHAPE, capacity=20, most=25), replace(SHAPE, capacity=20, most=40)]
    made = new_target(tmp_path, rule=CHECKED, shape=lambda: shapes[0])
    try:
        with pytest.raises(AuditError, match="more rows than the 25 places that an index has at most"):
            sync(made, Rows(*ALL))
        del shapes[0]
        assert sync(made, Rows(*ALL)) == Applied(added=30, waiting=10)
    finally:
        made.state.close()


def test_a_source_that_is_lost_in_the_middle_changes_nothing(target: Target) -> None:
    class Lost(Rows):
        def snapshot(self) -> tuple[Iterator[Item], str]:
            def broken() -> Iterator[Item]:
                yield from self.items[:7]
                raise TransportError("gone")

            return broken(), "mark"

    sync(target, Rows(*ALL[:20]))
    before = everything(target.state)
    with pytest.raises(TransportError, match="gone"):
        sync(target, Lost(*ALL))
    assert everything(target.state) == before


# --- following -------------------------------------------------------------------------------------------------------


class Fed(Rows):
    """A source whose changes are given, a list for each mark; ``lose`` says how often it is lost at first."""

    def __init__(self, *items: Item, changed: list[list[Item | Refused | Delete]], lose: int = 0) -> None:
        super().__init__(*items, name="fed")
        self.changed = changed
        self.lose = lose
        self.waits = 0

    def snapshot(self) -> tuple[Iterator[Item], str]:
        return super().snapshot()[0], "0"

    def ready(self) -> None:
        pass

    def changes(self, mark: str) -> tuple[Iterator[Item | Refused | Delete], str]:
        at = int(mark)
        if self.lose:
            self.lose -= 1
            raise TransportError("lost for now")
        if at >= len(self.changed):
            return iter(()), mark
        return iter(self.changed[at]), str(at + 1)

    def wait(self, seconds: float, stop: threading.Event) -> None:
        self.waits += 1
        if self.waits > len(self.changed):  # it has told everything
            stop.set()


@pytest.mark.parametrize("bad", [item("new", text=""), Refused("new", EncodingError("row new: it has no 'body'"))])
def test_a_refused_change_holds_up_no_deletion(target: Target, bad: Item | Refused) -> None:
    source = Fed(*ALL[:10], changed=[[bad, Delete("doc-0"), item("doc-20")], [Delete("doc-1")]])
    catch_up(target, source)
    for times in (1, 0):  # it was deleted the first time, and is no more there the second
        said = "deleted all the same, 1 of them" if times else "new: "
        with pytest.raises(EncodingError, match=f"new: .*{said}" if times else said):
            catch_up(target, source)
        assert set(held(target.state)) == {one.id for one in ALL[1:10]}
        assert document_rows.mark_of(target.state, "acme", "fed") == "0", "the rest of the batch is read again"
    source.changed[0] = [item("doc-20"), Delete("doc-0")]
    assert catch_up(target, source) == Applied(added=1, deleted=1)
    assert matrix_is_right(target.state)


def test_changes_are_taken_with_their_mark_and_go_on_where_they_stopped(target: Target) -> None:
    source = Fed(*ALL[:10], changed=[[item("doc-20"), Delete("doc-0")], [item("doc-1", text=TEXTS["doc-9"])]])
    source.changed[1] = [replace(item("doc-9"), id="doc-1"), Delete("nobody's")]
    assert catch_up(target, source) == Applied(added=10)
    assert catch_up(target, source) == Applied(added=1, changed=1, deleted=1)
    assert source.read == 1
    assert document_rows.mark_of(target.state, "acme", "fed") == "2"
    assert held(target.state)["doc-1"] == TEXTS["doc-9"]
    assert "doc-0" not in held(target.state)
    assert catch_up(target, source) == Applied()
    assert matrix_is_right(target.state)


def test_a_batch_that_is_refused_leaves_the_mark_where_it_was(target: Target) -> None:
    source = Fed(
        *ALL[:10], changed=[[item("doc-20")], [item("doc-21"), item("bad", text=" ", vector=VECTORS["doc-0"])]]
    )
    catch_up(target, source)
    with pytest.raises(EncodingError, match="row of bad"):
        catch_up(target, source)
    assert document_rows.mark_of(target.state, "acme", "fed") == "1"
    assert "doc-20" in held(target.state)
    assert "doc-21" not in held(target.state)


def test_a_feed_deletes_only_what_came_from_it(target: Target) -> None:
    sync(target, Rows(*ALL[20:]))
    source = Fed(*ALL[:10], changed=[[Delete("doc-25"), Delete("doc-1")]])
    catch_up(target, source)
    assert catch_up(target, source) == Applied(deleted=1)
    assert "doc-25" in held(target.state)
    keeping = replace(target, keep_missing=True)
    source.changed.append([Delete("doc-2")])
    assert catch_up(keeping, source) == Applied()
    assert "doc-2" in held(target.state)


def test_a_mark_that_the_source_forgot_means_a_snapshot(target: Target) -> None:
    class Forgetful(Fed):
        def changes(self, mark: str) -> tuple[Iterator[Item | Delete], str]:
            raise StaleMark("too old")

    source = Forgetful(*ALL[:10], changed=[])
    catch_up(target, source)
    source.items = ALL[:9]
    assert catch_up(target, source) == Applied(deleted=1, unchanged=9)
    assert source.read == 2


def test_a_source_with_the_same_version_is_not_read_again(target: Target) -> None:
    class Numbered(Rows):
        number = "1"

        def version(self) -> str:
            return self.number

        def snapshot(self) -> tuple[Iterator[Item], str]:
            return super().snapshot()[0], self.number

    source = Numbered(*ALL[:10])
    assert catch_up(target, source).added == 10
    assert catch_up(target, source) == Applied()
    assert source.read == 1
    source.number = "2"
    assert catch_up(target, source).unchanged == 10
    sync(target, source)
    assert source.read == 3


def test_following_survives_losses_and_ends_when_it_is_asked_to(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(syncing, "FIRST_WAIT", 0.01)
    told: list[Applied] = []
    source = Fed(*ALL[:10], changed=[[item("doc-20")]], lose=3)
    opened: list[int] = []

    def opening() -> Fed:
        opened.append(1)
        if len(opened) in (3, 4):
            raise TransportError("nobody listens")
        return source

    follow(target, opening, threading.Event(), 0.01, told.append)
    assert told == [Applied(added=10), Applied(added=1)]
    assert len(opened) == 6  # lost three times while it was read, twice while it was opened
    assert held(target.state).keys() == {*list(TEXTS)[:10], "doc-20"}


def test_following_ends_although_the_source_never_stops_changing(target: Target) -> None:
    stop = threading.Event()

    class Restless(Fed):
        def changes(self, mark: str) -> tuple[Iterator[Item | Delete], str]:
            if int(mark) == 3:
                stop.set()
            return iter([item("doc-1")]), str(int(mark) + 1)

        def wait(self, seconds: float, stop: threading.Event) -> None:
            pass

    worker = threading.Thread(
        target=follow, args=(target, lambda: Restless(*ALL[:3], changed=[]), stop, 0.01), daemon=True
    )
    worker.start()
    worker.join(10)
    assert not worker.is_alive()
    assert document_rows.mark_of(target.state, "acme", "fed") == "4"


def test_a_source_that_never_answered_is_an_error_at_once(target: Target) -> None:
    def opening() -> Fed:
        raise TransportError("no such host")

    with pytest.raises(TransportError, match="no such host"):
        follow(target, opening, threading.Event(), 0.01)


def test_following_ends_at_a_row_that_is_refused(target: Target) -> None:
    source = Fed(*ALL[:10], changed=[[item("bad", text=" ", vector=VECTORS["doc-0"])]])
    with pytest.raises(AuditError, match="row of bad"):
        follow(target, lambda: source, threading.Event(), 0.01)
    assert len(held(target.state)) == 10

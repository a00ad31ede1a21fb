# SPDX-License-Identifier: GPL-3.0-or-later
"""Texts of which the embedder reads the beginning alone are named, or refused."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from ragseal.kernel.errors import EncodingError
from ragseal.prover.administration import documents
from ragseal.prover.administration.documents import Reading
from ragseal.prover.commitment.corpora import Document
from ragseal.prover.storage.state import State
from tests.simulator.provider import TrigramEmbedder, new_state


class ShortSighted(TrigramEmbedder):
    """Reads twenty characters."""

    most_tokens = 20

    def cut(self, texts: Sequence[str]) -> list[int]:
        return [at for at, text in enumerate(texts) if len(text) > self.most_tokens]


LONG = "a text of which the end is in no vector"
CORPUS = [Document("short", "a short text"), Document("long", LONG), Document("longer", LONG * 2)]
SAID = (
    "2 texts are longer than the embedder reads, 20 word pieces; they are 'long', 'longer': questions find them by "
    "their beginnings; split them into several documents (--chunk does it for text folders)"
)


def silent(what: str, done: int, total: int) -> None: ...


@pytest.fixture
def state(tmp_path: Path) -> State:
    return new_state(tmp_path / "state", tenants={})


def count(state: State) -> int:
    return len(state.rows("SELECT document FROM documents"))


def test_they_are_named_when_they_are_put(state: State) -> None:
    told = documents.put(state, ShortSighted(), "acme", CORPUS, silent)
    assert told.values["notes"] == [SAID]
    assert told.text.endswith(f"\nnote: {SAID}")
    assert documents.put(state, ShortSighted(), "acme", CORPUS, silent).values["notes"] == [], (
        "nothing is embedded anew"
    )
    assert documents.put(state, TrigramEmbedder(), "other", CORPUS, silent).values["notes"] == [], "it cannot tell"


def test_strict_refuses_them_before_anything_is_put(state: State) -> None:
    with pytest.raises(
        EncodingError, match=r"2 texts are longer .* begin with 'a text of which the end is .*Nothing was put"
    ):
        documents.put(state, ShortSighted(), "acme", CORPUS, silent, strict=True)
    assert count(state) == 0
    assert documents.put(state, ShortSighted(), "acme", CORPUS[:1], silent, strict=True).values["added"] == 1


def test_they_are_named_when_a_source_is_read(state: State, tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    for one in CORPUS:
        (tmp_path / "texts" / f"{one.id}.txt").write_text(one.text)
    reading = Reading("acme", f"text:{tmp_path / 'texts'}")
    with pytest.raises(EncodingError, match="2 texts are longer"):
        documents.sync(state, ShortSighted(), Reading("acme", reading.source, strict=True), silent, threading.Event())
    assert count(state) == 0
    told = documents.sync(state, ShortSighted(), reading, silent, threading.Event())
    assert told.values["notes"] == [SAID.replace("'long', 'longer'", "'long.txt', 'longer.txt'")]
    assert documents.sync(state, ShortSighted(), reading, silent, threading.Event()).values["notes"] == []


def test_many_are_counted(state: State) -> None:
    (note,) = documents.put(
        state, ShortSighted(), "acme", [Document(f"d{i:02}", LONG) for i in range(25)], silent
    ).values["notes"]
    assert note.startswith("25 texts are longer")
    assert "'d09' and 15 more: " in note

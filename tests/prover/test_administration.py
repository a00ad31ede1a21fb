# SPDX-License-Identifier: GPL-3.0-or-later
"""The operator's socket: the same commands while the provider serves, and answers that do not wait for them."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from ragseal.kernel.errors import AuditError, CommitmentError, EncodingError
from ragseal.kernel.slot_text import Metadata
from ragseal.prover.administration import document_lines
from ragseal.prover.administration.document_lines import Lines, lines_of
from ragseal.prover.administration.documents import Reading
from ragseal.prover.commitment.corpora import Document
from ragseal.prover.commitment.registry import Registration
from ragseal.prover.wire import operator_remote as remote
from ragseal.prover.wire.operator_remote import Remote
from ragseal.runtime.metadata import mapping_of
from tests.classes import TINY
from tests.simulator import provider as scene
from tests.simulator.live import Live, folder_of, live, run
from tests.simulator.rolling import POLICY

pytestmark = pytest.mark.slow


def silent(*_: object) -> None:
    """No progress shown."""


def test_the_commands_work_while_the_provider_serves(serving: Live, tmp_path: Path) -> None:
    assert run(serving, "status")["accounts"] == 3
    key = scene.signature.public_bytes(scene.account_key("dora"))
    assert run(serving, "accounts add", "dora", "--tenant", "acme", "--key", key.hex())["account"] == "dora"
    assert [one["name"] for one in run(serving, "accounts list")["accounts"]] == ["alice", "bob", "carol", "dora"]
    assert run(serving, "accounts remove", "bob") == {"removed": "bob"}
    corpus = tmp_path / "more.jsonl"
    corpus.write_text("".join(json.dumps({"id": f"new-{i}", "text": f"news number {i}"}) + "\n" for i in range(20)))
    put = ("documents put", "--tenant", "acme", "--corpus", f"jsonl:{corpus}")
    assert run(serving, *put)["added"] == 20
    assert run(serving, *put)["unchanged"] == 20
    policy = tmp_path / "policy.toml"
    policy.write_text(POLICY.format(n_max=6) + f"opens = {scene.NOW}\n")
    made = run(serving, "commit", "--policy", str(policy), "--window", "w2", "--yes-epsilon-is", "inf")
    history = serving.provider.journal.history
    assert history.following is not None
    assert made["manifest"] == history.following.digest.hex()
    second = history.following
    assert [a.name for a in serving.provider.window_secrets(second.digest).registry.values() if a.name == "bob"] == []
    assert any(
        "news" in one.text for one in serving.provider.window_secrets(second.digest).versions["acme"].texts.values()
    )
    closed = run(serving, "close")
    assert (closed["window"], closed["opened"]) == ("w1", None)
    assert [one["stage"] for one in run(serving, "status")["windows"]] == ["closed", "committed"]


def test_documents_are_deleted_listed_and_kept_beside_a_source_while_the_provider_serves(
    serving: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative path is that of whoever types it, not of the process that serves."""

    def names() -> set[str]:
        return {one["id"] for one in run(serving, "documents list", "--tenant", "acme")["documents"]}

    def write(*texts: str) -> None:
        lines = [json.dumps({"id": f"s{i}", "text": text, "page": i}) + "\n" for i, text in enumerate(texts)]
        (tmp_path / "here" / "source.jsonl").write_text("".join(lines))

    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    before = names()
    deleted = run(serving, "documents delete", "--tenant", "acme", "--id", "acme-1")
    assert (deleted["deleted"], [one["ids"] for one in deleted["still_answered"]]) == (1, [["acme-1"]])
    assert names() == before - {"acme-1"}
    write("one", "two", "three")
    sync = ("documents sync", "--tenant", "acme", "--source", "jsonl:source.jsonl", "--metadata-fields", "page")
    assert run(serving, *sync)["added"] == 3
    write("one", "changed")
    done = run(serving, *sync)
    assert (done["changed"], done["deleted"], done["unchanged"]) == (1, 1, 1)
    assert names() == (before - {"acme-1"}) | {"s0", "s1"}
    (kept,) = serving.provider.state.rows("SELECT metadata FROM documents WHERE document = 's1'")
    assert mapping_of(Metadata.decode(kept[0])) == {"page": 1}


def test_a_source_is_followed_until_the_operator_stops(serving: Live, tmp_path: Path) -> None:
    source = tmp_path / "source.jsonl"
    source.write_text(json.dumps({"id": "s0", "text": "one"}) + "\n")
    stop, seen, told = threading.Event(), threading.Event(), []

    def said(doing: str, done: int, total: int) -> None:
        if "2 added" in doing:
            seen.set()

    def bring() -> None:
        with Remote(folder_of(serving)) as there:
            reading = Reading("acme", f"jsonl:{source}", follow=True, every=0.5)
            told.append(there.sync_documents(reading, said, stop))

    thread = threading.Thread(target=bring)
    thread.start()
    there = "SELECT 1 FROM documents WHERE document = 's0'"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not serving.provider.state.row(there):
        time.sleep(0.1)
    source.write_text("".join(json.dumps({"id": f"s{i}", "text": "one"}) + "\n" for i in range(2)))
    assert seen.wait(60)
    stop.set()
    thread.join(20)
    assert not thread.is_alive()
    assert told[0].text.startswith("stopped; 2 added")
    source.write_text("".join(json.dumps({"id": f"s{i}", "text": "one"}) + "\n" for i in range(3)))
    time.sleep(1.5)
    assert serving.provider.state.row("SELECT 1 FROM documents WHERE document = 's2'") is None


def test_a_source_that_never_answers_does_not_keep_the_provider_from_ending(serving: Live) -> None:
    """A database takes the query and says nothing more; the interpreter waits for every thread that is no daemon."""
    asked = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        peer, _ = listener.accept()
        with peer:
            peer.recv(4096)
            peer.sendall(b"R" + struct.pack("!II", 8, 0) + b"Z" + struct.pack("!I", 5) + b"I")
            peer.recv(4096)
            asked.set()
            while peer.recv(4096):
                pass

    threading.Thread(target=serve, daemon=True).start()
    uri = f"postgresql://reader@127.0.0.1:{listener.getsockname()[1]}/db?sslmode=disable&gssencmode=disable"
    stop = threading.Event()

    def sync() -> None:
        with Remote(folder_of(serving)) as far:
            far.sync_documents(Reading("acme", f"postgres:{uri}&table=t"), silent, stop)

    command = threading.Thread(target=sync)
    command.start()
    assert asked.wait(60)
    stop.set()
    command.join(30)
    serving.stop()
    left = [one for one in threading.enumerate() if one.name.startswith("sync")]
    assert left, "the source still says nothing"
    assert all(one.daemon for one in left)
    listener.close()
    serving.restart_after_stop()


def test_texts_that_no_embedder_reads_whole_are_told_to_who_asks_from_outside(
    serving: Live, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(scene.TrigramEmbedder, "most_tokens", 20, raising=False)
    monkeypatch.setattr(scene.TrigramEmbedder, "cut", lambda _, texts: list(range(len(texts))), raising=False)
    (tmp_path / "b.txt").write_text("another text")
    reading = Reading("lengths", f"text:{tmp_path}", strict=True)
    with Remote(folder_of(serving)) as there:
        with pytest.raises(EncodingError, match="1 texts are longer"):
            there.put_documents("lengths", [Document("a", "a text")], silent, strict=True)
        with pytest.raises(EncodingError, match="1 texts are longer"):
            there.sync_documents(reading, silent, threading.Event())
        (note,) = there.put_documents("lengths", [Document("a", "a text")], silent).values["notes"]
        assert note.startswith("1 texts are longer than the embedder reads, 20 word pieces; they are 'a': ")


def test_refusals_come_back_as_what_they_are(serving: Live) -> None:
    """All or nothing, with the reason; nothing that was sent is half there."""
    with Remote(folder_of(serving)) as there:
        before = there.status().values
        with pytest.raises(CommitmentError, match="no account 'nobody' is registered"):
            there.remove_account("nobody")
        key = scene.signature.public_bytes(scene.account_key("dora"))
        with pytest.raises(CommitmentError, match="is registered with another key"):
            there.add_accounts([Registration("dora", "acme", key), Registration("alice", "acme", key)])
        with pytest.raises(CommitmentError, match=r"places at most\. None of them was put"):
            there.put_documents("acme", [Document(f"d{i}", f"text {i}") for i in range(TINY.S * TINY.N)], silent)
        with pytest.raises(CommitmentError, match="fits no slot"):
            there.put_documents("acme", [Document("fresh", "one"), Document("", "another")], silent)
        with pytest.raises(CommitmentError, match="has no document 'nothing'"):
            there.delete_documents("acme", ["acme-1", "nothing"])
        with pytest.raises(EncodingError, match="another standard input"):
            there.sync_documents(Reading("acme", "jsonl:-"), silent, threading.Event())
        with pytest.raises(AuditError, match="unknown keys"):
            there.commit(b"nonsense = 1\n", "w2", None, (), silent)
        with pytest.raises(AuditError, match="yes-epsilon-is"):
            there.commit(POLICY.format(n_max=6).encode(), "w2", 0.5, (), silent)
        with pytest.raises(CommitmentError, match=r"is not open, so there is nothing to close|holds no window"):
            there.close("w7")
        assert there.status().values == before


BAD_LINES = {
    "cut off": (b'{"id": "a", "text": "b", "metadata": {}}\n{"id"', "was cut off"),
    "no JSON": (b"nothing\n", "not a line of JSON"),
    "another member": (b'{"id": "a", "text": "b", "metadata": {}, "more": 1}\n', "exactly the members"),
    "a member less": (b'{"id": "a", "text": "b"}\n', "exactly the members"),
    "a number": (b'{"id": 1, "text": "b", "metadata": {}}\n', "are texts"),
    "metadata that is none": (b'{"id": "a", "text": "b", "metadata": []}\n', "is an object"),
    "metadata that nests": (b'{"id": "a", "text": "b", "metadata": {"m": [1]}}\n', "text, a boolean or a number"),
    "not UTF-8": (b'{"id": "\xff", "text": "b"}\n', "not a line of JSON"),
    "nested": (b"[" * 100_000 + b"\n", "not a line of JSON"),
}


@pytest.mark.parametrize("bad", BAD_LINES)
def test_documents_that_are_none_are_refused(bad: str) -> None:
    data, why = BAD_LINES[bad]

    def read() -> None:
        lines = Lines()
        for at in range(0, len(data), 7):
            lines.add(data[at : at + 7])
        lines.all()

    with pytest.raises(EncodingError, match=why):
        read()


def test_documents_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_lines, "MAX_LINE", 50)
    with pytest.raises(EncodingError, match="more than 50 bytes"):
        Lines().add(b"x" * 51)
    monkeypatch.setattr(document_lines, "MAX_CORPUS", 60)
    lines = Lines()
    lines.add(b'{"id": "a", "text": "b", "metadata": {}}\n')
    with pytest.raises(EncodingError, match="more than 60 bytes of documents"):
        lines.add(b'{"id": "b", "text": "b"}\n{"id": "c", "text": "b"}\n')


def test_documents_arrive_as_they_were_sent() -> None:
    sent = [Document(f"\u00e4{i}", "line\nbreak \u2028 " + "x" * i) for i in range(3000)]
    lines = Lines()
    for piece in remote._pieces(lines_of(sent)):
        assert len(piece) <= remote.PIECE
        lines.add(piece)
    assert lines.all() == sent


# --- answers meanwhile -----------------------------------------------------------------------------------------------


class SlowEmbedder(scene.TrigramEmbedder):
    """Takes long for a text, outside the interpreter's lock as models are; a run waits for the one before it."""

    def embed(self, texts: Any, **named: Any) -> Any:
        time.sleep(0.05 * len(texts))
        return super().embed(texts, **named)


def test_answers_do_not_wait_for_documents(tmp_path: Path) -> None:
    """Documents come through the socket, for seconds, while an account asks: theirs is another embedder's queue."""
    with live(tmp_path) as made:
        object.__setattr__(made.provider.backends, "documents", SlowEmbedder)
        corpus = [Document(f"more-{i}", f"another text about topic {i}") for i in range(60)]
        running, told = threading.Event(), []

        def bring() -> None:
            with Remote(folder_of(made)) as there:
                told.append(there.put_documents("fresh", corpus, lambda *_: running.set()))

        with made.client() as client:
            client.ask("report about topic 3")
            thread = threading.Thread(target=bring)
            thread.start()
            assert running.wait(20)
            beside = timed(client, 3)
            assert told == [], "the documents were there before the account had asked"
            thread.join()
        assert told[0].values["added"] == 60
        assert max(beside) < 1.0


def timed(client: Any, count: int) -> list[float]:
    found = []
    for number in range(count):
        began = time.monotonic()
        client.ask(f"report about topic {number}")
        found.append(time.monotonic() - began)
    return found


def test_what_was_stopped_unheard_is_not_said_to_have_changed_nothing() -> None:
    """The other process may have done all of it before it heard that it should end."""

    class Unheard:
        def __init__(self) -> None:
            self._over = asyncio.Event()

        def __aiter__(self) -> Unheard:
            return self

        async def __anext__(self) -> Any:
            await self._over.wait()
            raise asyncio.CancelledError

        def cancel(self) -> None:
            self._over.set()

    stop = threading.Event()
    stop.set()
    told = asyncio.run(Remote._followed(lambda _: Unheard(), None, lambda *_: None, stop))
    assert told.text == "stopped; `documents list` shows what there is now"

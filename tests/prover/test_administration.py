# SPDX-License-Identifier: GPL-3.0-or-later
"""The operator's socket: the same commands while the provider serves, for its own user and for nobody else."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import stat
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from click.testing import CliRunner

from ragseal.kernel.errors import AuditError, CommitmentError, ConfigurationError, EncodingError, LedgerError
from ragseal.kernel.slot_text import Metadata
from ragseal.prover.__main__ import main
from ragseal.prover.administration import access, document_lines, place, remote
from ragseal.prover.administration.access import administration
from ragseal.prover.administration.document_lines import Lines, lines_of
from ragseal.prover.administration.documents import Reading
from ragseal.prover.administration.remote import Remote
from ragseal.prover.commitment.corpora import Document
from ragseal.prover.commitment.registry import Registration
from ragseal.prover.storage.state import State
from ragseal.prover.storage.window import Stage
from ragseal.runtime.metadata import mapping_of
from ragseal.runtime.rpc import open_channel
from ragseal.runtime.statuses import error_of
from ragseal.v1 import admin_pb2, admin_pb2_grpc
from tests.attacks.checks import without
from tests.attacks.removal import Guard
from tests.simulator import provider as scene
from tests.simulator.live import Live, live
from tests.simulator.rolling import POLICY

pytestmark = pytest.mark.slow


def silent(*_: object) -> None:
    """No progress shown."""


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Live]:
    with live(tmp_path) as made:
        yield made


def folder_of(made: Live) -> Path:
    return made.folder / "provider"


def run(made: Live, *arguments: str) -> dict[str, Any]:
    """A command on the folder of a provider that serves."""
    command, *rest = arguments
    line = [*command.split(), "--state", str(folder_of(made)), *rest, "--json"]
    done = CliRunner().invoke(main, line)
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


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
    assert run(serving, "documents delete", "--tenant", "acme", "--id", "acme-1") == {"tenant": "acme", "deleted": 1}
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


def test_refusals_come_back_as_what_they_are(serving: Live) -> None:
    """All or nothing, with the reason; nothing that was sent is half there."""
    with Remote(folder_of(serving)) as there:
        before = there.status().values
        with pytest.raises(CommitmentError, match="no account 'nobody' is registered"):
            there.remove_account("nobody")
        key = scene.signature.public_bytes(scene.account_key("dora"))
        with pytest.raises(CommitmentError, match="is registered with another key"):
            there.add_accounts([Registration("dora", "acme", key), Registration("alice", "acme", key)])
        with pytest.raises(CommitmentError, match=r"places are unused.*Nothing was changed"):
            there.put_documents("acme", [Document(f"d{i}", f"text {i}") for i in range(500)], silent)
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
    "no JSON": (b"nothing\n", "no line of JSON"),
    "another member": (b'{"id": "a", "text": "b", "metadata": {}, "more": 1}\n', "exactly the members"),
    "a member less": (b'{"id": "a", "text": "b"}\n', "exactly the members"),
    "a number": (b'{"id": 1, "text": "b", "metadata": {}}\n', "are texts"),
    "metadata that is none": (b'{"id": "a", "text": "b", "metadata": []}\n', "is an object"),
    "metadata that nests": (b'{"id": "a", "text": "b", "metadata": {"m": [1]}}\n', "text, a boolean or a number"),
    "not UTF-8": (b'{"id": "\xff", "text": "b"}\n', "no line of JSON"),
    "nested": (b"[" * 100_000 + b"\n", "no line of JSON"),
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


# --- whose socket ----------------------------------------------------------------------------------------------------


def test_the_socket_is_its_user_s_alone_and_goes_with_the_provider(serving: Live) -> None:
    path = folder_of(serving) / place.SOCKET
    assert stat.S_IMODE(path.lstat().st_mode) == 0o600
    assert stat.S_IMODE(folder_of(serving).stat().st_mode) == 0o700
    serving.stop()
    assert not path.exists()
    with administration(folder_of(serving)) as local:
        assert local.list_accounts().values["accounts"]
    serving.restart_after_stop()


def test_a_socket_that_a_crash_left_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with live(tmp_path) as made:
        made.stop()
        left = socket.socket(socket.AF_UNIX)
        monkeypatch.chdir(folder_of(made))
        left.bind(place.SOCKET)
        left.close()
        with administration(folder_of(made)) as local:  # nobody listens, so the lock counts
            assert local.list_accounts().values["accounts"]
        made.restart_after_stop()
        assert run(made, "accounts list")["accounts"]


def test_a_command_asks_the_socket_first_and_takes_no_lock_where_a_provider_serves(
    serving: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it might hold the folder in the moment in which a provider starts."""

    def taken(*_: object) -> None:
        pytest.fail("the folder's lock was tried")

    monkeypatch.setattr(access, "State", taken)
    assert run(serving, "accounts list")["accounts"]


def test_a_copy_that_is_asked_for_by_the_clock_never_takes_the_folder(tmp_path: Path) -> None:
    """A provider that starts has no socket yet, and would find its folder in use."""
    command = ["backup", "--state", str(tmp_path / "provider"), "--to", str(tmp_path / "copy")]
    with live(tmp_path) as made:
        made.stop()
        made.provider.close()
        refused = CliRunner().invoke(main, [*command, "--serving"])
        assert refused.exit_code == 1
        assert "no provider serves in" in refused.output
        assert not (tmp_path / "copy").exists()
        made.restart_after_stop()
        assert CliRunner().invoke(main, [*command, "--serving"]).exit_code == 0
        assert (tmp_path / "copy").is_dir()


def _file(path: Path) -> None:
    path.write_bytes(b"")


def _link(path: Path) -> None:
    path.symlink_to("/tmp/elsewhere.sock")


def _folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize("plant", [_file, _link, _folder])
def test_what_somebody_put_in_the_socket_s_place_is_refused(tmp_path: Path, plant: Callable[[Path], None]) -> None:
    """Neither does a provider remove it, nor does a command talk to it."""
    with live(tmp_path) as made:
        made.stop()
        path = folder_of(made) / place.SOCKET
        plant(path)
        with pytest.raises(ConfigurationError, match="no provider made it"):
            made.restart_after_stop()
        assert os.path.lexists(path)
        made.provider.close()
        held = State(folder_of(made))
        with pytest.raises(ConfigurationError, match="no provider made it"), administration(folder_of(made)):
            pass
        held.close()
        with contextlib.suppress(IsADirectoryError):
            path.unlink()
        if path.exists():
            path.rmdir()
        made.restart_after_stop()


def test_nothing_is_served_in_a_folder_that_others_may_enter(tmp_path: Path) -> None:
    """Between its making and its mode a socket has only the folder to protect it."""
    with live(tmp_path) as made:
        made.stop()
        os.chmod(folder_of(made), 0o755)
        with pytest.raises(ConfigurationError, match="open to others"):
            made.restart_after_stop()
        assert not (folder_of(made) / place.SOCKET).exists()
        os.chmod(folder_of(made), 0o700)
        made.provider.close()
        made.restart_after_stop()


OWNER = Guard(place, "found", "no provider made it")
MODE = Guard(place, "_require_private", "open to others")


def test_another_user_s_socket_or_folder_is_refused(serving: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = folder_of(serving)
    os.chmod(directory, 0o750)
    with pytest.raises(ConfigurationError, match="open to others"):
        place.found(directory)
    with without(MODE):
        assert place.found(directory)
    os.chmod(directory, 0o700)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(ConfigurationError, match="no socket of this user's"):
        place.found(directory)


def test_a_folder_that_is_held_by_a_process_that_does_not_serve(tmp_path: Path) -> None:
    with scene.new_state(tmp_path / "p") as state:
        with pytest.raises(LedgerError, match="in use by another process"), administration(tmp_path / "p"):
            pass
        assert state.rows("SELECT 1") == [(1,)]


def test_strangers_cannot_call_it(serving: Live) -> None:
    """On the port that everybody reaches there is no such service: nobody else commits, closes or copies."""

    async def called(stub: Any, method: str, request: Any) -> None:
        try:
            answer = getattr(stub, method)(request, timeout=10)
            if hasattr(answer, "__aiter__"):
                async for _ in answer:
                    pass
            else:
                await answer
        except grpc.RpcError as error:
            raise error_of(error, "P") from None

    async def attempt() -> None:
        async with open_channel(serving.address) as channel:
            stub = admin_pb2_grpc.AdminServiceStub(channel)  # type: ignore[no-untyped-call]
            for method, request in (
                ("GetStatus", admin_pb2.GetStatusRequest()),
                ("EndWindow", admin_pb2.EndWindowRequest()),
                ("RemoveAccount", admin_pb2.RemoveAccountRequest(name="alice")),
                ("AddAccounts", admin_pb2.AddAccountsRequest()),
                ("ListAccounts", admin_pb2.ListAccountsRequest()),
                ("AdmitAuditor", admin_pb2.AdmitAuditorRequest(name="late", public_key=bytes(32))),
                ("RemoveAuditor", admin_pb2.RemoveAuditorRequest(name="late")),
                ("ListAuditors", admin_pb2.ListAuditorsRequest()),
                ("CommitWindow", admin_pb2.CommitWindowRequest(window="w2")),
                ("Backup", admin_pb2.BackupRequest(folder=str(serving.folder / "stolen"))),
                ("ExportProofs", admin_pb2.ExportProofsRequest(folder=str(serving.folder / "stolen"))),
                ("PutDocuments", iter([admin_pb2.PutDocumentsRequest(tenant="acme")])),
                ("DeleteDocuments", admin_pb2.DeleteDocumentsRequest(tenant="acme", ids=["acme-1"])),
                ("EraseDocument", admin_pb2.EraseDocumentRequest(tenant="acme", id="acme-1", reason="art. 17")),
                ("ListErasures", admin_pb2.ListErasuresRequest()),
                ("RetireWindow", admin_pb2.RetireWindowRequest(window="w1", agreed=True)),
                ("ListDocuments", admin_pb2.ListDocumentsRequest(tenant="acme")),
                ("SyncDocuments", admin_pb2.SyncDocumentsRequest(tenant="acme", source="jsonl:/x", vectors="embed")),
            ):
                with pytest.raises(AuditError, match=r"does not offer this call|Internal error from Core"):
                    await called(stub, method, request)

    asyncio.run(attempt())
    assert serving.window.stage is Stage.OPEN
    assert not (serving.folder / "stolen").exists()
    methods = set(admin_pb2.DESCRIPTOR.services_by_name["AdminService"].methods_by_name)
    assert methods == {
        "GetStatus", "EndWindow", "RemoveAccount", "AddAccounts", "ListAccounts", "CommitWindow", "Backup",
        "PutDocuments", "DeleteDocuments", "ListDocuments", "SyncDocuments",
        "EraseDocument", "ListErasures", "RetireWindow", "AdmitAuditor", "RemoveAuditor", "ListAuditors",
        "ExportProofs",
    }  # fmt: skip


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

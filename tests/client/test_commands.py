# SPDX-License-Identifier: GPL-3.0-or-later
"""``ragseal-client`` from the outside, over real gRPC on loopback."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import shlex
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.client import Client
from ragseal.client.__main__ import main
from ragseal.client.receipts import _plain, export, kept
from ragseal.client.settings import Environment
from ragseal.client.window import windows_of
from ragseal.kernel.attestation import Receipt, Record
from ragseal.kernel.errors import (
    AttestationError,
    AuditError,
    BudgetError,
    ConfigurationError,
    LedgerError,
    TransportError,
)
from ragseal.ledger.note import NoteSigner
from ragseal.ledger.receipt import InclusionBundle
from ragseal.runtime.rpc import answers, bind, new_server
from ragseal.v1 import ledger_pb2, ledger_pb2_grpc, provider_pb2, provider_pb2_grpc


class Service(provider_pb2_grpc.ProviderServiceServicer, ledger_pb2_grpc.LedgerServiceServicer):  # type: ignore[misc]
    """The test provider behind the two services that the client calls."""

    def __init__(self, bench: Any) -> None:
        self.provider = bench.provider

    @answers
    async def GetManifest(self, request: Any, context: Any) -> Any:
        announced = self.provider.announced()
        state = {
            "preparing": provider_pb2.WINDOW_STATE_SEALED,
            "open": provider_pb2.WINDOW_STATE_OPEN,
            "closed": provider_pb2.WINDOW_STATE_CLOSED,
        }[announced.stage]
        return provider_pb2.GetManifestResponse(
            canonical=announced.manifest,
            state=state,
            ledger_index=announced.ledger_index,
        )

    @answers
    async def GetAccount(self, request: Any, context: Any) -> Any:
        return provider_pb2.GetAccountResponse(canonical=self.provider.account(request.canonical, request.signature))

    @answers
    async def Prepare(self, request: Any, context: Any) -> Any:
        reply = self.provider.prepare(request.canonical, request.signature)
        return provider_pb2.PrepareResponse(canonical=reply.canonical, answered=reply.answered)

    @answers
    async def Retrieve(self, request: Any, context: Any) -> Any:
        found = self.provider.retrieve(request.canonical, request.signature, request.known_size)
        return provider_pb2.RetrieveResponse(canonical=found.answer, consistency=found.consistency)

    @answers
    async def GetCheckpoint(self, request: Any, context: Any) -> Any:
        return ledger_pb2.GetCheckpointResponse(checkpoint=self.provider.checkpoint())

    @answers
    async def GetEntries(self, request: Any, context: Any) -> Any:
        return ledger_pb2.GetEntriesResponse(entries=self.provider.entries(request.start, request.count))

    @answers
    async def GetInclusionProof(self, request: Any, context: Any) -> Any:
        return ledger_pb2.GetInclusionProofResponse(path=self.provider.inclusion(request.index, request.size))

    @answers
    async def GetConsistencyProof(self, request: Any, context: Any) -> Any:
        path = self.provider.consistency(request.old_size, request.new_size)
        return ledger_pb2.GetConsistencyProofResponse(path=path)


@pytest.fixture
def address(bench: Any) -> Iterator[str]:
    """The provider served on a free port by an event loop of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def start() -> tuple[Any, int]:
        server = new_server()
        provider_pb2_grpc.add_ProviderServiceServicer_to_server(Service(bench), server)
        ledger_pb2_grpc.add_LedgerServiceServicer_to_server(Service(bench), server)
        port = bind(server, "127.0.0.1:0")
        await server.start()
        return server, port

    server, port = asyncio.run_coroutine_threadsafe(start(), loop).result()
    yield f"127.0.0.1:{port}"
    asyncio.run_coroutine_threadsafe(server.stop(None), loop).result()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.fixture
def remote(bench: Any, address: str) -> Callable[..., Client]:
    return lambda **more: bench.client(provider=address, ledger=None, **more)


def run(*arguments: object, fails: bool = False) -> str:
    done = CliRunner().invoke(main, [str(a) for a in arguments], catch_exceptions=False)
    assert (done.exit_code != 0) == fails, done.output
    return done.output


def test_over_grpc(bench: Any, remote: Any) -> None:
    first = remote().ask("json")
    second = remote().ask("csv")
    assert (first.record.seq, second.record.seq) == (0, 1)
    assert "consistency" not in bench.provider.calls  # paths came with the answers
    bench.provider.gives_paths = False
    assert remote().ask("xml").record.seq == 2
    assert "consistency" in bench.provider.calls


def test_window_states_over_grpc(bench: Any, remote: Any) -> None:
    for stage in ("preparing", "closed"):
        bench.provider.stage = stage
        with pytest.raises(TransportError, match="open"):
            remote().ask("json")
    bench.provider.stage = "open"
    remote().ask("json")


def test_refusals_keep_their_kind_over_grpc(bench: Any, remote: Any) -> None:
    client = remote()
    client.ask("json")

    def refuse(call: str) -> None:
        if call == "prepare":
            raise BudgetError("spent")

    bench.provider.on_call = refuse
    with pytest.raises(BudgetError, match="answers: spent"):
        client.ask("csv")
    assert bench.evidence() == []  # a refusal is an answer, not a lie


def test_a_closed_connection_says_so(bench: Any, address: str) -> None:
    from ragseal.client.remote import LedgerOverGrpc, ProviderOverGrpc
    from ragseal.runtime.tls import ClientTls

    for kind, call in ((LedgerOverGrpc, "checkpoint"), (ProviderOverGrpc, "announced")):
        link: Any = kind(address, ClientTls(), 5.0)
        assert getattr(link, call)()
        link.close()
        link.close()
        with pytest.raises(ConfigurationError, match=f"connection to {address} is closed"):
            getattr(link, call)()


def test_a_closed_client_over_grpc(bench: Any, remote: Any) -> None:
    client = remote()
    client.ask("json")
    client.close()
    with pytest.raises(ConfigurationError, match="this client is closed"):
        client.ask("csv")


def test_nobody_there(bench: Any) -> None:
    client = bench.client(provider="127.0.0.1:1", ledger="127.0.0.1:1", timeout=2.0)
    with pytest.raises(TransportError, match="cannot be reached"):
        client.ask("json")
    assert bench.evidence() == []


def test_malformed_addresses_are_refused(bench: Any) -> None:
    for address in ("nowhere", "127.0.0.1:99999"):
        with pytest.raises(ConfigurationError):
            bench.client(provider=address, ledger=None)
    bench.client().ask("json")  # the folder was released every time


def test_keygen_and_register_line(tmp_path: Path) -> None:
    state = tmp_path / "a"
    made = json.loads(run("keygen", "--state", state, "--account", "alice", "--json"))
    line = run("register-line", "--state", state, "--tenant", "acme")
    assert line == f"ragseal-provider accounts add alice --tenant acme --key {made['public_key']}\n"
    assert "never overwritten" in run("keygen", "--state", state, "--account", "alice", fails=True)
    assert "keygen" in run("register-line", "--state", tmp_path / "b", "--tenant", "acme", fails=True)


def test_ask_prints_texts_and_refuses_with_one_line(bench: Any, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "ragseal.client.client.Environment", lambda: Environment(class_of=lambda _: bench.provider_class)
    )
    common = ("ask", "json", "--state", bench.state, "--provider", address, "--embedder", "none")
    assert "no log key is pinned" in run(*common, fails=True)
    vkey = bench.provider.log_signer.verifier.vkey()
    said = run(*common, "--log-key", vkey)
    assert "embedding NOT checked by this client" in said
    told = json.loads(run(*common, "--json"))
    assert (told["ctr"], told["checked"], len(told["returned_slots"])) == (2, False, 3)
    assert run("resume", *common[2:]).startswith("no answer is owed;")
    bench.provider.tamper = lambda m: dataclasses.replace(m, **_bad(m))
    refused = run(*common, fails=True)
    assert "Traceback" not in refused
    assert "evidence saved in" in refused
    assert "expected 64 hexadecimal" in run(*common, "--provider-key", "zz", fails=True)


def test_resume_says_what_there_is_to_do_where_no_answer_comes(
    bench: Any, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "ragseal.client.client.Environment", lambda: Environment(class_of=lambda _: bench.provider_class)
    )
    vkey = bench.provider.log_signer.verifier.vkey()
    common = ("--state", bench.state, "--provider", address, "--embedder", "none", "--log-key", vkey)

    def refuse(call: str) -> None:
        if call in ("retrieve", "prepare"):
            raise AttestationError("window 'w1' is over")

    bench.provider.on_call = lambda call: refuse(call) if call == "retrieve" else None
    run("ask", "json", *common, fails=True)
    over = bench.provider.closes
    bench.provider.on_call = refuse
    clock = {"now": over - 1.0}
    here = Environment(class_of=lambda _: bench.provider_class, clock=lambda: clock["now"])
    monkeypatch.setattr("ragseal.client.client.Environment", lambda: here)
    waiting = run("resume", *common, fails=True)
    assert "window w1, query 1: no answer (" in waiting
    assert "ask again" not in waiting
    clock["now"] = over
    ended = run("resume", *common, fails=True)
    assert "its window is over: ask again, which costs a query of the present window" in ended
    assert str(bench.state / "windows") in ended
    later = run("resume", *common)
    assert "no answer is owed;" in later
    assert "given up before: 1; `resume --again` asks for these answers too" in later
    told = json.loads(run("resume", "--again", "--json", *common, fails=True))
    assert (told["window"], told["ctr"], told["given_up"]) == ("w1", 1, True)
    bench.provider.on_call = lambda _: None
    assert "window w1, query 1, ledger entry" in run("resume", "--again", *common)


def test_ask_says_that_an_older_answer_is_owed(bench: Any, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "ragseal.client.client.Environment", lambda: Environment(class_of=lambda _: bench.provider_class)
    )
    vkey = bench.provider.log_signer.verifier.vkey()
    common = ("--state", bench.state, "--provider", address, "--embedder", "none", "--log-key", vkey)

    def refuse(call: str) -> None:
        if call == "retrieve":
            raise AttestationError("not today")

    bench.provider.on_call = refuse
    run("ask", "json", *common, fails=True)
    bench.provider.on_call = lambda _: None
    bench.provider.open("w2")
    assert "an answer of window w1 is owed from before: `ragseal-client resume`" in run("ask", "csv", *common)


def test_ask_says_that_the_noise_returned_no_document(
    empty: Any, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "ragseal.client.client.Environment", lambda: Environment(class_of=lambda _: empty.provider_class)
    )
    vkey = empty.provider.log_signer.verifier.vkey()
    common = ("ask", "json", "--state", empty.state, "--provider", address, "--embedder", "none", "--log-key", vkey)
    assert "none of the 3 returned slots came with a text, all by chance alone: no document scores" in run(*common)
    told = json.loads(run(*common, "--json"))
    assert (told["documents"], told["texts"]) == (0, [])


@pytest.mark.parametrize("command", [["ask", "topic 3"], ["mcp"], ["gateway"]], ids=lambda words: words[0])
def test_every_way_of_asking_takes_a_witness_policy(bench: Any, tmp_path: Path, command: list[str]) -> None:
    """One of another log is refused before anybody is called, so whoever names one is not served without it."""
    if command[0] != "ask":
        pytest.importorskip("mcp")
    policy = tmp_path / "policy.txt"
    other = NoteSigner("other.example/log", Ed25519PrivateKey.generate()).verifier
    policy.write_text(f"log {other.vkey()}\nquorum none\n")
    where = ["--state", str(bench.state), "--provider", "127.0.0.1:1", "--embedder", "none"]
    log = ["--log-key", bench.provider.log_signer.verifier.vkey(), "--witness-policy", str(policy)]
    done = CliRunner().invoke(main, [*command, *where, *log])
    assert "the witness policy is not for the log" in " ".join(f"{done.output} {done.exception}".split())
    assert done.exit_code != 0


def test_an_empty_question_costs_nothing(bench: Any, address: str) -> None:
    vkey = bench.provider.log_signer.verifier.vkey()
    before = bench.snapshot()
    for text in ("", " \t\n"):
        said = run("ask", text, "--state", bench.state, "--provider", address, "--log-key", vkey, fails=True)
        assert "there is no question" in said
    assert bench.provider.calls == []
    assert bench.snapshot() == before


def _bad(message: Any) -> dict[str, Any]:
    return {"request_id": bytes(16)} if hasattr(message, "request_id") else {}


@pytest.mark.parametrize("ranked", [False, True])
def test_texts_cannot_steer_the_terminal(bench: Any, capsys: pytest.CaptureFixture[str], ranked: bool) -> None:
    from ragseal.client.result import Opened, Ranked
    from ragseal.client.showing import show

    result = bench.client().ask("json")
    text = "é\n\tz\x1b[2Jb\u202e"
    said_of = {"id": f"id {text}", "text": text, "metadata": {f"key {text}": f"value {text}", "draft": True}}
    place = (Ranked(slot=0, score=1, **said_of),) if ranked else None
    show(dataclasses.replace(result, opened=(Opened(slot=0, **said_of),), ranked=place), as_json=False)
    said = capsys.readouterr().out
    assert "é\n\tz\\x1b[2Jb\\u202e" in said
    for one in ("[id", "key", "value"):
        assert f"{one} é\\n\\tz\\x1b[2Jb\\u202e" in said  # on one line
    assert "draft: true" in said
    assert "\x1b" not in said


def test_receipts_listed_exported_and_checked_offline(bench: Any, tmp_path: Path) -> None:
    client = bench.client()
    client.ask("json")
    second = client.ask("csv").receipt.body.index
    listed = json.loads(run("receipts", "list", "--state", bench.state, "--json"))["receipts"]
    assert [item["ctr"] for item in listed] == [1, 2]  # while the side-car is running
    out = tmp_path / "out"
    files = json.loads(run("receipts", "export", "--state", bench.state, "--out", out, "--json"))["files"]
    said = run("receipts", "check", files[1], "--state", bench.state)
    assert f"query 2 of {bench.pseudonym} is entry {second}" in said

    vkey = bench.provider.log_signer.verifier.vkey()
    elsewhere = tmp_path / "nobody"
    said = run("receipts", "check", files[0], "--state", elsewhere, "--log-key", vkey)
    assert "nobody vouched for" in said
    key = bench.provider.manifest.provider_key.hex()
    run("receipts", "check", files[0], "--state", elsewhere, "--log-key", vkey, "--provider-key", key)
    assert "give --log-key" in run("receipts", "check", files[0], "--state", elsewhere, fails=True)
    record = Path(files[1]).with_suffix(".record").read_bytes()
    proof = Path(files[1]).with_suffix(".tlog-proof").read_bytes()
    log = bench.provider.log_signer.verifier
    assert proof.startswith(b"c2sp.org/tlog-proof@v1\nindex %d\n" % second)
    assert InclusionBundle.from_text(proof).verify(record, log).checkpoint.size == second + 1
    with pytest.raises(LedgerError, match="inclusion"):
        InclusionBundle.from_text(proof).verify(record[:-1] + b"x", log)
    exported = b"".join(p.read_bytes() for p in out.iterdir())
    for slot in client.state.windows()[0].answer(1).openings.slots:
        if slot.content is not None:
            assert slot.content.text.encode() not in exported
            assert slot.content.metadata.encode() not in exported
    answer = client.state.windows()[0].folder / "00000001.answer"
    assert f"query 1 of {bench.pseudonym}" in run("receipts", "check", answer, "--state", bench.state)


def test_a_damaged_window_keeps_no_other_s_receipts_back(bench: Any, tmp_path: Path) -> None:
    client = bench.client()
    client.ask("json")
    bench.provider.open("w2")
    client.ask("csv")
    client.close()
    broken = next(w for w in windows_of(bench.state) if w.manifest.window == "w1")
    (broken.folder / "00000001.answer").write_bytes(b"nonsense")
    assert "damaged" in run("receipts", "export", "--state", bench.state, "--out", tmp_path / "all", fails=True)
    run("receipts", "export", "--state", bench.state, "--out", tmp_path / "w2", "--window", "w2")
    assert len(list((tmp_path / "w2").glob("*.receipt"))) == 1


@pytest.mark.slow
def test_every_altered_byte_of_an_exported_receipt_is_noticed(bench: Any, tmp_path: Path) -> None:
    client = bench.client()
    client.ask("json")
    client.ask("csv")
    path = export(kept(bench.state)[1], tmp_path / "out")
    proof = path.with_suffix(".tlog-proof")  # for other tools: our own check does not read it
    record, log = path.with_suffix(".record").read_bytes(), bench.provider.log_signer.verifier
    for at in range(0, len(data := proof.read_bytes()), 7):
        with pytest.raises(AuditError):
            InclusionBundle.from_text(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]).verify(record, log)
    for file in {*(tmp_path / "out").iterdir()} - {proof}:
        data = file.read_bytes()
        for at in range(0, len(data), 7):
            file.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
            refused = run("receipts", "check", path, "--state", bench.state, fails=True)
            assert refused.startswith("Error: "), (file.name, at)
        for broken in (b"", data[:-1], data + b"\x00"):
            file.write_bytes(broken)
            run("receipts", "check", path, "--state", bench.state, fails=True)
        file.write_bytes(data)
    run("receipts", "check", path, "--state", bench.state)


def test_an_offline_check_names_what_is_wrong(bench: Any, tmp_path: Path) -> None:
    client = bench.client()
    client.ask("json")
    path = export(kept(bench.state)[0], tmp_path)
    wrong = ("--provider-key", "11" * 32)
    assert "a provider key different" in run("receipts", "check", path, "--state", bench.state, *wrong, fails=True)
    assert "missing" in run("receipts", "check", path, "--state", bench.state, "--record", tmp_path / "x", fails=True)
    signer = bench.provider.log_signer
    other = NoteSigner("else.example/log", signer.private_key).verifier.vkey()
    nobody = ("--state", tmp_path / "nobody", "--log-key", other)
    assert "the window is kept in the log 'test.example/log'" in run("receipts", "check", path, *nobody, fails=True)
    lone = tmp_path / "lone"
    lone.mkdir()
    (lone / path.name).write_bytes(path.read_bytes())
    assert "no manifest beside" in run("receipts", "check", lone / path.name, "--state", bench.state, fails=True)
    bench.provider.open("w2")
    (tmp_path / "w2.manifest").write_bytes(bench.provider.signed.encode())
    told = ("--manifest", tmp_path / "w2.manifest")
    assert "a window other than" in run("receipts", "check", path, "--state", bench.state, *told, fails=True)
    assert "no such receipts" in run(
        "receipts", "export", "--state", bench.state, "--out", lone, "--window", "none", fails=True
    )


def test_a_folder_that_lost_its_windows_says_so(bench: Any, tmp_path: Path) -> None:
    """ "No receipts yet" was said of an account whose paid answers were gone."""
    assert "no receipts yet" in run("receipts", "list", "--state", bench.state)
    bench.client().ask("json")
    shutil.rmtree(bench.state / "windows")
    said = " ".join(run("receipts", "list", "--state", bench.state).split())
    assert "no receipts are left" in said
    assert "Restore it from a copy" in said
    assert "no receipts are left" in run("receipts", "export", "--state", bench.state, "--out", tmp_path, fails=True)
    bench.provider.open("w2")
    bench.client().ask("csv")
    assert "w2 query 1" in run("receipts", "list", "--state", bench.state)


def test_an_account_with_other_records_signature(bench: Any, tmp_path: Path) -> None:
    """The receipt of one record with another record of the same window."""
    client = bench.client()
    client.ask("json")
    client.ask("csv")
    one, two = (export(k, tmp_path) for k in kept(bench.state))
    one.with_suffix(".record").write_bytes(two.with_suffix(".record").read_bytes())
    assert "another request" in run("receipts", "check", one, "--state", bench.state, fails=True)
    assert (
        Receipt.decode(two.read_bytes()).body.record_digest
        == Record.decode(two.with_suffix(".record").read_bytes()).digest()
    )


def test_help_teaches() -> None:
    said = run("--help")
    assert "register-line" in said
    assert "byte for byte" in said


def test_names_that_differ_in_a_dot_have_files_of_their_own() -> None:
    names = ["2026.01", "2026/01", "2026_01", "2026~01", "2026-01"]
    assert len({_plain(name) for name in names}) == len(names)
    assert _plain("2026_01") == "2026_01"
    assert all("/" not in _plain(name) and "." not in _plain(name) for name in names)


def test_the_line_for_the_provider_is_safe_in_a_shell(bench: Any) -> None:
    said = run("register-line", "--state", bench.state, "--tenant", "acme; touch /tmp/x")
    assert shlex.split(said)[4:6] == ["--tenant", "acme; touch /tmp/x"]

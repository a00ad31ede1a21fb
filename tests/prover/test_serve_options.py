# SPDX-License-Identifier: GPL-3.0-or-later
"""Whom `ragseal-provider serve` names, and what strangers can then no longer take from them, over real gRPC."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel.errors import ConfigurationError
from ragseal.ledger import cosignatures
from ragseal.ledger.checkpoint import open_checkpoint
from ragseal.ledger.note import COSIGNATURE, NoteSigner
from ragseal.ledger.policy import Policy
from ragseal.ledger.remote import RemoteLedger
from ragseal.ledger.witness import Witness
from ragseal.ledger.witness_http import WITNESS_LIMITS, WitnessSite
from ragseal.prover import __main__ as program
from ragseal.prover.base.check_report import Report
from ragseal.prover.cli import serve_command
from ragseal.prover.fsck.files_check import check_files
from ragseal.prover.serving.serving import ServeOptions
from ragseal.prover.wire import service
from ragseal.prover.wire.service import Listening, Server
from ragseal.runtime.http_server import HttpServer
from ragseal.runtime.rpc import open_channel
from ragseal.runtime.tokenbucket import Rate
from tests.simulator.provider import Clock, account_key, make_policy, new_state, open_provider

NAMED = NoteSigner("watch.example", account_key("watch"), COSIGNATURE)


def serve_options_of(
    directory: Path, monkeypatch: pytest.MonkeyPatch, *options: str
) -> tuple[ServeOptions | None, str]:
    """What the command hands to the server with these options, and what it says."""
    found: list[ServeOptions] = []
    quoting: list[dict[str, bool]] = []

    async def run(provider: Any, serve_options: ServeOptions, *_: Any) -> None:
        found.append(serve_options)

    monkeypatch.setattr(service, "run", run)
    monkeypatch.setattr(serve_command.assembly, "assemble", lambda *_: SimpleNamespace(embedder=None, keys=None))
    monkeypatch.setattr(serve_command, "named_generator", lambda *_, **more: quoting.append(more))
    monkeypatch.setattr(serve_command.Provider, "write_with", lambda *_: None)
    monkeypatch.setattr(serve_command, "check_start", lambda *_: Report())
    done = CliRunner().invoke(program.main, ["serve", "--state", str(directory), *options])
    assert quoting in ([], [{"alone": None, "quotes": False}]), "a model's server quotes what accounts ask"
    return (found[0] if found else None), done.output


def test_a_hangup_while_the_program_starts_does_not_end_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new_state(tmp_path / "s").close()
    ended: list[int] = []
    before = signal.signal(signal.SIGHUP, lambda number, _: ended.append(number))
    try:
        monkeypatch.setattr(serve_command, "prove_by", lambda *_: os.kill(os.getpid(), signal.SIGHUP))
        serve_options_of(tmp_path / "s", monkeypatch)
        assert ended == []
    finally:
        signal.signal(signal.SIGHUP, before)


def test_named_observers_reach_the_beacon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new_state(tmp_path / "s").close()
    one, two = "11" * 32, "22" * 32
    serve_options, said = serve_options_of(
        tmp_path / "s", monkeypatch, "--observer", f"a={one}", "--observer", f"b.example={two}"
    )
    assert serve_options is not None, said
    assert serve_options.beacon.observers == {"a": bytes.fromhex(one), "b.example": bytes.fromhex(two)}
    for bad, text in ((["a"], "NAME=KEY"), ([f"={one}"], "NAME=KEY"), (["a=11"], "64 hexadecimal"),
                      ([f"a={one}", f"a={two}"], "twice")):  # fmt: skip
        options = [part for value in bad for part in ("--observer", value)]
        refused, said = serve_options_of(tmp_path / "s", monkeypatch, *options)
        assert refused is None
        assert text in said


def test_named_witnesses_reach_the_book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new_state(tmp_path / "s").close()
    serve_options, said = serve_options_of(tmp_path / "s", monkeypatch, "--witness", NAMED.verifier.vkey())
    assert serve_options is not None, said
    assert list(serve_options.witnesses) == [NAMED.verifier]
    refused, said = serve_options_of(tmp_path / "s", monkeypatch, "--witness", "junk")
    assert refused is None
    assert "verifier key: expected name+id+base64" in said
    monkeypatch.setattr(cosignatures, "MAX_STRANGERS", 1)

    async def scene() -> None:
        provider = open_provider(tmp_path / "p", clock := Clock())
        provider.commit(make_policy(), "w1")
        server = Server(provider, ServeOptions(False, 0.0, witnesses=serve_options.witnesses), Listening("127.0.0.1:0"))
        await server.start()
        try:
            async with open_channel(server.address) as channel:
                remote, log = RemoteLedger(channel), provider.ledger
                text = open_checkpoint(log.checkpoint(), log.verifier).checkpoint.text()
                strangers = [NoteSigner("s", Ed25519PrivateKey.generate(), COSIGNATURE) for _ in range(3)]
                for who in (NAMED, *strangers):
                    line = who.sign(text, int(clock.now) - 10**8)
                    await remote.add_cosignature(1, who.verifier.vkey(), line.line())
                shown = open_checkpoint(await remote.checkpoint(), log.verifier, [NAMED.verifier])
                assert [found.verifier for found in shown.witnesses] == [NAMED.verifier]
                listed = await remote.cosignatures(0, 10)
                assert [key for _, key, _ in listed] == [NAMED.verifier.vkey(), strangers[-1].verifier.vkey()]
        finally:
            await server.stop()
            provider.close()

    asyncio.run(scene())


def test_a_policy_and_a_public_address_reach_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new_state(tmp_path / "s").close()
    path = tmp_path / "policy"
    path.write_text(f"witness w {NAMED.verifier.vkey()}\nquorum w\n")
    options = ["--witness-policy", str(path), "--witness-every", "7"]
    serve_options, said = serve_options_of(tmp_path / "s", monkeypatch, *options)
    assert serve_options is not None, said
    assert serve_options.witness_policy == Policy.load(path)
    assert serve_options.witness_every == 7
    path.write_text("quorum w\n")
    refused, said = serve_options_of(tmp_path / "s", monkeypatch, *options)
    assert refused is None
    assert "line 1: 'w' is not defined above" in said
    refused, said = serve_options_of(tmp_path / "s", monkeypatch, "--witness-every", "1")
    assert refused is None


@pytest.mark.asyncio
async def test_a_provider_gets_its_log_witnessed_and_shows_it(tmp_path: Path) -> None:
    """Provider, witness and reader over real connections: from the submission to a quorum that a reader asks for."""
    provider = open_provider(tmp_path / "p", Clock())
    provider.commit(make_policy(), "w1")
    log = provider.ledger
    witness = Witness(tmp_path / "w", NAMED)
    site = WitnessSite(witness, tmp_path / "w", [log.verifier], time.time)
    cosigner = HttpServer(site.handle, WITNESS_LIMITS)
    url = await cosigner.start("127.0.0.1:0")
    dead = NoteSigner("dead.example", account_key("dead"), COSIGNATURE).verifier.vkey()
    lines = [f"log {log.verifier.vkey()}", f"witness w {NAMED.verifier.vkey()} http://{url}"]
    lines += [f"witness away {dead} http://127.0.0.1:9", "group g any w away", "quorum g"]
    policy = Policy.parse("\n".join(lines).encode())
    options = ServeOptions(False, 0.0, publish=0, witness_policy=policy, witness_every=0.1)
    server = Server(provider, options, Listening("127.0.0.1:0", public="127.0.0.1:0"))
    await server.start()
    try:
        async with open_channel(server.address) as channel:
            remote = RemoteLedger(channel)
            async with asyncio.timeout(20):
                while (note := await remote.cosigned()) is None:
                    await asyncio.sleep(0.05)
            assert policy.open(note, log.verifier).checkpoint.size == 1
            reader, writer = await asyncio.open_connection(*server.public_address.split(":"))
            writer.write(b"GET /checkpoint HTTP/1.1\r\nConnection: close\r\n\r\n")
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
            writer.close()
            assert head.startswith(b"HTTP/1.1 200 OK")
            assert policy.open(body, log.verifier).checkpoint.size == 1
        assert (provider.state.ledger_directory / "quorum").exists()
        report = Report()
        check_files(provider.state.directory, report)
        assert not [note for note in report.notes if "quorum" in note]  # it is one of a provider's files
    finally:
        await server.stop()
        await cosigner.stop()
        site.close()
        provider.close()
    other = Policy.parse(f"log {NoteSigner('other', account_key('o')).verifier.vkey()}\nquorum none".encode())
    provider = open_provider(tmp_path / "q", Clock())
    provider.commit(make_policy(), "w1")
    refused = Server(provider, ServeOptions(False, witness_policy=other), Listening("127.0.0.1:0"))
    with pytest.raises(ConfigurationError, match="is not for the log"):
        await refused.start()
    with pytest.raises(ConfigurationError, match="in the clear"):
        await Server(provider, ServeOptions(False), Listening("127.0.0.1:0", public="0.0.0.0:0")).start()
    provider.close()


def test_every_option_may_stand_in_a_file_and_a_check_opens_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `--check-config` prints is a file that says the same; no state folder is needed for it."""
    run = CliRunner().invoke
    done = run(program.main, ["serve", "--state", str(tmp_path / "none"), "--witness", NAMED.verifier.vkey(),
                              "--check-config"])  # fmt: skip
    assert done.exit_code == 0, done.output
    assert not (tmp_path / "none").exists()
    file = tmp_path / "serve.toml"
    file.write_text(done.output)
    again = run(program.main, ["serve", "--config", str(file), "--check-config"])
    assert again.exit_code == 0, again.output
    assert [line.partition("  # ")[0] for line in again.output.splitlines()] == [
        line.partition("  # ")[0] for line in done.output.splitlines()
    ]
    assert f'witness = ["{NAMED.verifier.vkey()}"]  # file {file}' in again.output
    options = {max(one.opts, key=len)[2:] for one in program.main.commands["serve"].params}
    named = {line.removeprefix("# ").split()[0] for line in done.output.splitlines()}
    assert options - named == {"config", "check-config"}
    for bad, said in (('witness = ["junk"]', "verifier key"), ('observer = ["a"]', "NAME=KEY"),
                      ('next = "serve.toml"\nevery = "x"', "30m"), ('tls-cert = "serve.toml"', "both")):  # fmt: skip
        file.write_text(bad)
        done = run(program.main, ["serve", "--config", str(file), "--check-config"])
        assert done.exit_code == 1, (bad, done.output)
        assert said in done.output, (bad, done.output)


def test_a_hangup_is_for_settings_and_only_a_termination_ends(tmp_path: Path) -> None:
    """As the program runs it: SIGHUP has the limits read again, SIGTERM stops."""
    provider = open_provider(tmp_path / "p", Clock())
    seen: list[str] = []

    def rates() -> tuple[Rate | None, Rate | None]:
        seen.append("rates")
        loop.call_later(0.1, os.kill, os.getpid(), signal.SIGTERM)
        return Rate(1, 60.0), None

    def ready(address: str, tiles: str) -> None:
        seen.append(address)
        loop.call_soon(lambda: loop.call_soon(os.kill, os.getpid(), signal.SIGHUP))

    async def scene() -> None:
        nonlocal loop
        loop = asyncio.get_running_loop()
        options = ServeOptions(False, 0.0)
        async with asyncio.timeout(30):
            await service.run(provider, options, Listening("127.0.0.1:0"), ready, None, rates)

    loop: Any = None
    asyncio.run(scene())
    provider.close()
    assert seen[1:] == ["rates"]

# SPDX-License-Identifier: GPL-3.0-or-later
"""Whom `ragseal-provider serve` names, and what strangers can then no longer take from them, over real gRPC."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.ledger import cosignatures
from ragseal.ledger.checkpoint import open_checkpoint
from ragseal.ledger.note import COSIGNATURE, NoteSigner
from ragseal.ledger.remote import RemoteLedger
from ragseal.prover import __main__ as program
from ragseal.prover import service
from ragseal.prover.service import Listening, Server
from ragseal.prover.serving import ServeOptions
from ragseal.runtime.rpc import open_channel
from tests.simulator.provider import Clock, account_key, make_policy, new_state, open_provider

NAMED = NoteSigner("watch.example", account_key("watch"), COSIGNATURE)


def serve_options_of(
    directory: Path, monkeypatch: pytest.MonkeyPatch, *options: str
) -> tuple[ServeOptions | None, str]:
    """What the command hands to the server with these options, and what it says."""
    found: list[ServeOptions] = []

    async def run(provider: Any, serve_options: ServeOptions, *_: Any) -> None:
        found.append(serve_options)

    monkeypatch.setattr(service, "run", run)
    monkeypatch.setattr(program.assembly, "assemble", lambda *_: None)
    monkeypatch.setattr(program.fsck, "check_start", lambda *_: None)
    done = CliRunner().invoke(program.main, ["serve", "--state", str(directory), *options])
    return (found[0] if found else None), done.output


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

# SPDX-License-Identifier: GPL-3.0-or-later
"""An account that asks for a quorum of witnesses sends nothing under a window that they were not shown."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.client import Client, history
from ragseal.client.__main__ import main
from ragseal.kernel.errors import AuditError, ConfigurationError, LedgerError, TransportError
from ragseal.ledger.checkpoint import Checkpoint
from ragseal.ledger.merkle import MerkleTree
from ragseal.ledger.note import COSIGNATURE, Note, NoteSigner
from ragseal.ledger.observer import Observer
from ragseal.ledger.policy import Policy
from ragseal.ledger.remote import RemoteLedger
from ragseal.ledger.witness import UnprovenError, Witness
from ragseal.ledger.witness_http import WITNESS_LIMITS, WitnessSite
from ragseal.prover.serving.serving import ServeOptions
from ragseal.prover.wire.service import Listening, Server
from ragseal.runtime.http_server import HttpServer
from ragseal.runtime.rpc import open_channel
from ragseal.verifier.evidence.remote import RemoteEvidence
from tests.simulator import provider as scene
from tests.simulator.clients import client_of
from tests.simulator.live import Live

QUESTION = "bicycle repair"
KEYS = [
    NoteSigner(f"w{n}.example", Ed25519PrivateKey.from_private_bytes(bytes([n]) * 32), COSIGNATURE) for n in (1, 2, 3)
]
LINES = "\n".join(f"witness w{n} {key.verifier.vkey()}" for n, key in enumerate(KEYS))
POLICY = Policy.parse(f"{LINES}\ngroup g 2 w0 w1 w2\nquorum g\n".encode())


def cosigned(note: bytes, *keys: NoteSigner) -> bytes:
    found = Note.parse(note)
    return found.with_signatures(key.sign(found.text, 1000) for key in keys).encode()


def newest(bench: Any) -> bytes:
    return bytes(bench.provider.log.checkpoint())


def opened_at(bench: Any) -> int:
    return int(bench.provider.log.size - 1)  # the window's opening is the newest entry


def asked(bench: Any) -> bool:
    """Whether anything went out under the window but the ask for one's own line."""
    return "prepare" in bench.provider.calls


def test_a_quorum_over_the_opening_lets_an_account_ask(bench: Any) -> None:
    bench.provider.witnessed = cosigned(newest(bench), *KEYS[:2])
    assert bench.client(witness_policy=POLICY).ask(QUESTION).checked
    calls = bench.provider.calls.count("cosigned")
    bench.provider.witnessed = None
    assert bench.client(witness_policy=POLICY).ask(QUESTION).checked  # the note is kept with the window
    assert bench.provider.calls.count("cosigned") == calls


@pytest.mark.parametrize("signers", [(), (0,), (0, 0)])
def test_without_a_quorum_nothing_is_sent(bench: Any, signers: tuple[int, ...]) -> None:
    bench.provider.witnessed = cosigned(newest(bench), *(KEYS[n] for n in signers))
    with pytest.raises(TransportError, match=r"not the quorum 'g' .*ask again in a minute"):
        bench.client(witness_policy=POLICY).ask(QUESTION)
    assert not asked(bench)
    assert bench.evidence() == []  # witnesses that are late are no lie
    bench.provider.witnessed = None
    with pytest.raises(TransportError, match="no witness has cosigned"):
        bench.client(witness_policy=POLICY).ask(QUESTION)
    bench.provider.witnessed = cosigned(newest(bench), *KEYS)
    assert bench.client(witness_policy=POLICY).ask(QUESTION).checked


def test_a_client_can_be_put_under_a_policy_later(bench: Any) -> None:
    """As an adapter does it: the window at hand is judged again, and nobody takes the policy away."""
    client = bench.client()
    assert client.ask(QUESTION).checked
    client.require_witnesses(POLICY)
    sent = bench.provider.calls.count("prepare")
    with pytest.raises(TransportError, match="no witness has cosigned"):
        client.ask(QUESTION)
    assert bench.provider.calls.count("prepare") == sent
    stranger = NoteSigner("other.example/log", Ed25519PrivateKey.from_private_bytes(b"s" * 32)).verifier.vkey()
    for other, words in (
        (Policy.parse(b"quorum none\n"), "one client for each witness policy"),
        (Policy.parse(f"log {stranger}\nquorum none\n".encode()), "is not for the log"),
    ):
        with pytest.raises(ConfigurationError, match=words):
            client.require_witnesses(other)
    bench.provider.witnessed = cosigned(newest(bench), *KEYS[:2])
    client.require_witnesses(POLICY)
    assert client.ask(QUESTION).checked
    client.close()
    with pytest.raises(ConfigurationError, match="closed"):
        client.require_witnesses(POLICY)


def test_a_quorum_over_what_came_before_the_opening_is_not_enough(bench: Any) -> None:
    before = bench.provider.log.checkpoint_at(opened_at(bench))
    bench.provider.witnessed = cosigned(before, *KEYS)
    with pytest.raises(TransportError, match=f"cosigned {opened_at(bench)} entries, the window opens with entry"):
        bench.client(witness_policy=POLICY).ask(QUESTION)
    assert not asked(bench)


def split_view(bench: Any, size: int) -> bytes:
    """What witnesses were shown of a log that this account was not: another first entry, signed by the same key."""
    entries = bench.provider.log.entries(0, bench.provider.log.size)
    other = [b"another beginning", *entries[1:], *[b"more"] * 9][:size]
    return Checkpoint(bench.provider.log.origin, size, MerkleTree(other).root()).sign(bench.provider.log_signer)


@pytest.mark.parametrize("more", [0, 3])
def test_a_split_view_is_refused_with_both_notes_kept(bench: Any, more: int, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.provider.witnessed = cosigned(split_view(bench, bench.provider.log.size + more), *KEYS)
    if more:  # the ledger goes along with the lie and gives a path, which fits nothing
        consistency = bench.provider.consistency
        monkeypatch.setattr(
            bench.provider, "consistency", lambda old, new: consistency(old, min(new, old)) or [bytes(32)]
        )
    with pytest.raises(LedgerError, match="contradicts the one this account remembers"):
        bench.client(witness_policy=POLICY).ask(QUESTION)
    assert not asked(bench)
    names = {path.name[3:] for path in bench.evidence()[0].iterdir()}
    assert {"received-cosigned.bin", "remembered-checkpoint.bin"} <= names
    monkeypatch.setattr(history, "verify_consistency", lambda *_: None)  # without the check the account would ask
    assert bench.client(witness_policy=POLICY).ask(QUESTION).checked


def test_a_spoiled_line_of_a_witness_is_refused(bench: Any) -> None:
    spoiled = KEYS[0].sign("another text\n", 1000)
    bench.provider.witnessed = Note.parse(cosigned(newest(bench), *KEYS[1:])).with_signatures([spoiled]).encode()
    with pytest.raises(LedgerError, match="does not verify"):
        bench.client(witness_policy=POLICY).ask(QUESTION)
    assert not asked(bench)


def test_another_policy_asks_anew(bench: Any) -> None:
    bench.provider.witnessed = cosigned(newest(bench), *KEYS[:2])
    bench.client(witness_policy=POLICY).ask(QUESTION)
    stricter = Policy.parse(f"{LINES}\ngroup g all w0 w1 w2\nquorum g\n".encode())
    with pytest.raises(TransportError, match="not the quorum"):
        bench.client(witness_policy=stricter).ask(QUESTION)
    assert bench.client().ask(QUESTION).checked  # without a policy, as ever


def test_a_policy_file(bench: Any, tmp_path: Path) -> None:
    path = tmp_path / "policy"
    path.write_text(f"log {KEYS[0].verifier.vkey()}\n")
    with pytest.raises(ConfigurationError, match="line 1: a log's key"):
        bench.client(witness_policy=path)
    other = NoteSigner("other.example", KEYS[0].private_key)
    path.write_text(f"log {other.verifier.vkey()}\nquorum none\n")
    with pytest.raises(ConfigurationError, match="is not for the log"):
        bench.client(witness_policy=str(path))
    path.write_text(f"log {bench.provider.log.verifier.vkey()}\nquorum none\n")
    assert bench.client(witness_policy=path).ask(QUESTION).checked
    assert "cosigned" not in bench.provider.calls
    assert "--witness-policy" in CliRunner().invoke(main, ["ask", "--help"]).output


# Everything real under one policy: a provider, its witness over HTTP, an account, an observer, an auditor's link.


KEY = NoteSigner("w.example", Ed25519PrivateKey.from_private_bytes(b"w" * 32), COSIGNATURE)
ASKED = "report about topic 3"


class Witnessed(Live):
    """A provider that submits to one witness, which listens once :meth:`appear` was called."""

    def __init__(self, folder: Path) -> None:
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        self.cosigner: HttpServer | None = None
        self.state = folder / "w"
        super().__init__(folder)

    def begin(self, address: str) -> None:
        """The provider's server with a policy, in the place of the one without."""
        self.url = f"http://{address}"
        self.policy = Policy.parse(f"witness w {KEY.verifier.vkey()} {self.url}\nquorum w\n".encode())
        self.call(self.server.stop())

        async def again() -> Server:
            options = ServeOptions(False, 0.0, publish=0, witness_policy=self.policy, witness_every=0.1)
            server = Server(self.provider, options, Listening("127.0.0.1:0"))
            await server.start()
            return server

        self.server = self.call(again())
        self.address = self.server.address

    def appear(self) -> None:
        site = WitnessSite(Witness(self.state, KEY), self.state, [self.log], time.time)
        self.cosigner = HttpServer(site.handle, WITNESS_LIMITS)
        start = self.cosigner.start(self.url.removeprefix("http://"))
        asyncio.run_coroutine_threadsafe(start, self.loop).result(10)

    def asking(self) -> Client:
        return client_of(
            self.address,
            self.account(),
            self.log_key,
            scene.TrigramEmbedder(),
            timeout=20.0,
            witness_policy=self.policy,
        )


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Witnessed]:
    made = Witnessed(tmp_path)

    async def free() -> str:
        server = HttpServer(lambda request: None)  # type: ignore[arg-type, return-value]
        address = await server.start("127.0.0.1:0")
        await server.stop()
        return address

    made.begin(asyncio.run_coroutine_threadsafe(free(), made.loop).result(10))
    yield made
    made.end()
    if made.cosigner is not None:
        asyncio.run_coroutine_threadsafe(made.cosigner.stop(), made.loop).result(10)
    made.loop.call_soon_threadsafe(made.loop.stop)


@pytest.mark.slow
def test_an_account_waits_for_the_witness_and_then_asks(running: Witnessed, tmp_path: Path) -> None:
    with running.asking() as client, pytest.raises(TransportError, match="no witness has cosigned this log yet"):
        client.ask(ASKED)
    with running.client() as client:  # who asks for nobody is answered while the witness is away
        assert client.ask(ASKED).checked

    async def followed(observer_of: Path) -> int:
        async with open_channel(running.address) as channel:
            witness = Witness(observer_of, NoteSigner("o.example", scene.account_key("o"), COSIGNATURE))
            observer = Observer(RemoteLedger(channel), running.log, observer_of, witness, time.time, running.policy)
            try:
                return (await observer.step()).size
            finally:
                witness.close()

    with pytest.raises(UnprovenError, match="no witness has cosigned"):
        asyncio.run(followed(tmp_path / "o"))

    running.appear()
    end = time.monotonic() + 30
    with running.asking() as client:
        while True:
            try:
                assert client.ask(ASKED).checked
                break
            except AuditError:
                assert time.monotonic() < end
                time.sleep(0.2)
    with RemoteEvidence(running.address) as evidence:
        note = evidence.cosigned()
    assert note is not None
    assert running.policy.open(note, running.log).checkpoint.size > 1
    assert asyncio.run(followed(tmp_path / "o")) > 1

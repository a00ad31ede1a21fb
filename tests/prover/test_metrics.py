# SPDX-License-Identifier: GPL-3.0-or-later
"""What an operator's machines are told: numbers that say no more about time than the ledger, and readiness."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from ragseal.kernel import signature
from ragseal.kernel.errors import (
    AttestationError,
    BudgetError,
    ConfigurationError,
    LedgerError,
    TransportError,
    UnprovableError,
)
from ragseal.ledger.checkpoint import open_checkpoint
from ragseal.ledger.cosignatures import CosignatureBook
from ragseal.ledger.note import COSIGNATURE, NoteSigner
from ragseal.prover.commitment.beacon import BeaconRules
from ragseal.prover.serving import metrics as module
from ragseal.prover.serving.health import WHATS
from ragseal.prover.serving.metrics import ANSWERED, FAILED, GONE, LIMITED, REFUSED, UNPROVABLE, Metrics
from ragseal.prover.serving.readiness import Readiness
from ragseal.prover.serving.serving import ServeOptions
from ragseal.prover.storage.stopped_keys import stop_key
from ragseal.prover.wire.service import Listening, Server
from ragseal.runtime.logs import JsonFormatter
from ragseal.runtime.rpc import call, open_channel
from ragseal.runtime.tls import ServerTls
from ragseal.v1 import provider_pb2, provider_pb2_grpc
from tests.simulator.provider import (
    TENANTS,
    Asker,
    Clock,
    account_key,
    documents,
    make_policy,
    open_provider,
    open_window,
)

prometheus = pytest.importorskip("prometheus_client.parser")

QUERY = "who wrote the seventh letter?"

Families = dict[str, dict[tuple[tuple[str, str], ...], float]]


async def get(address: str, path: str, method: str = "GET", host: str = "") -> tuple[int, str]:
    """Status and body."""
    reader, writer = await asyncio.open_connection(*address.split(":"))
    named = f"Host: {host}\r\n" if host else ""
    writer.write(f"{method} {path} HTTP/1.1\r\n{named}Connection: close\r\n\r\n".encode())
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return int(head.split()[1]), body.decode()


@pytest.mark.slow
@pytest.mark.asyncio
async def test_no_web_page_reads_the_numbers_by_a_name_that_leads_here(tmp_path: Path) -> None:
    server = server_on(tmp_path)
    await server.start()
    where = server.metrics_address
    try:
        for host in (where, "localhost", "LOCALHOST:1", "[::1]:9464", "10.0.0.7", ""):
            assert (await get(where, "/metrics", host=host))[0] == 200, host
        for host in (
            "rebound.example",
            "rebound.example:9464",
            "127.0.0.1.rebound.example",
            "localhost.example",
            "a:b:",
        ):
            for path in ("/metrics", "/livez", "/readyz"):
                status, said = await get(where, path, host=host)
                assert (status, "does not go by that name" in said) == (421, True), host
        assert server._site is not None
        server._site._of_this_machine = False  # on a network it goes by the names that it has there
        assert (await get(where, "/metrics", host="provider.ragseal.svc:9464"))[0] == 200
    finally:
        await server.stop()
        server.serving.provider.close()


def parsed(text: str) -> Families:
    """Samples by name and labels."""
    found: Families = {}
    for family in prometheus.text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return found


async def scraped(address: str) -> Families:
    status, body = await get(address, "/metrics")
    assert status == 200, body
    return parsed(body)


def one(found: Families, name: str, **labels: str) -> float:
    return found[f"ragseal_{name}"][tuple(sorted(labels.items()))]


async def served(server: Server, service: str) -> bool:
    async with open_channel(server.address) as channel:
        answer = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service=service))
        return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


def server_on(folder: Path, publish: float = 0.0, **listening: Any) -> Server:
    provider = open_provider(folder / "p", Clock())
    provider.commit(make_policy(), "w1")
    options = ServeOptions(False, 0.0, BeaconRules(participants=2, wait=5.0), publish)
    return Server(provider, options, Listening("127.0.0.1:0", metrics="127.0.0.1:0", **listening))


@pytest.mark.slow
def test_a_window_in_numbers_and_whether_it_answers(tmp_path: Path) -> None:
    """From the commitment to the end: each number against what happened, and readiness of calls and of queries."""

    async def scene() -> None:
        server = server_on(tmp_path)
        await server.start()
        serving, provider, where = server.serving, server.serving.provider, server.metrics_address
        try:
            before = await scraped(where)
            assert one(before, "ready") == 1  # the auditor has to reach the beacon
            assert one(before, "answering") == 0
            assert "ragseal_window_queries_left" not in before
            assert await get(where, "/readyz") == (200, "ready\n")
            assert await get(where, "/readyz/answers") == (503, "no window is open\n")
            assert await served(server, "ragseal.v1.LedgerService")
            assert not await served(server, "ragseal.v1.ProviderService")
            window = await open_window(serving)
            alice = Asker("alice", serving)
            for query in (QUERY, "two", "three"):
                async with serving.metrics.answer(True):
                    await alice.ask(query)
            stop_key(provider.state, b"k" * 32, "a reason that names /a/file")
            book = CosignatureBook(provider.state.ledger_directory, provider.journal.public)
            server._site._book = book  # type: ignore[union-attr]
            witness, now = NoteSigner("w", account_key("w"), COSIGNATURE), int(provider.environment.clock())
            note = open_checkpoint(provider.ledger.checkpoint_at(1), provider.ledger.verifier).checkpoint.text()
            book.add(1, witness.verifier.vkey(), witness.sign(note, now - 40).line(), now)
            found = await scraped(where)
            assert one(found, "answers_total", outcome=ANSWERED) == 3
            assert one(found, "answer_seconds_count") == 3
            assert one(found, "ledger_entries") == provider.ledger.size
            assert one(found, "window_records") == one(found, "proofs_pending") == 3
            policy = window.manifest.policy
            assert one(found, "window_queries_left") == window.manifest.accounts * policy.n_max - 3
            assert one(found, "window_seconds_left") == policy.closes - now
            assert one(found, "keys_stopped") == 1
            assert one(found, "cosignature_age_seconds") == 40
            assert one(found, "answering") == 1
            assert await get(where, "/readyz/answers") == (200, "ready\n")
            text = (await get(where, "/metrics"))[1]
            names = {*TENANTS, *(account for accounts in TENANTS.values() for account in accounts)}
            for word in (*names, QUERY, window.manifest.window, window.digest.hex(), "/a/file"):
                assert word not in text
            labels = {key for samples in found.values() for pairs in samples for key, _ in pairs}
            assert labels == {"outcome", "le", "version", "what"}
            assert one(found, "proofs_failing") == 0
            assert one(found, "disk_free_bytes") % (1 << 26) == 0
            told = {dict(pairs)["what"]: value for pairs, value in found["ragseal_wrong"].items()}
            assert told == {what: float(what in ("keys",)) for what in WHATS}
            assert await get(where, "/other") == (404, "there are /metrics, /livez, /readyz and /readyz/answers\n")
            assert (await get(where, "/metrics", "POST"))[0] == 405
            provider.journal._failure = "the disk is full"
            assert (await get(where, "/readyz"))[0] == (await get(where, "/readyz/answers"))[0] == 503
            assert await get(where, "/livez") == (200, "alive\n")
            server._say_health()
            assert not await served(server, "")
        finally:
            await server.stop()
            serving.provider.close()

    asyncio.run(scene())


@pytest.mark.slow
def test_what_an_answer_moves_waits_for_the_coarse_tick(tmp_path: Path) -> None:
    """Else whoever reads the numbers would see when somebody asks, which the ledger hides (SPEC B.3)."""

    async def scene() -> None:
        server = server_on(tmp_path, publish=10**6)
        await server.start()
        serving, where = server.serving, server.metrics_address
        try:
            window = await open_window(serving)
            await serving.metrics.settle()
            before = (await get(where, "/metrics"))[1]
            alice = Asker("alice", serving)
            async with serving.metrics.prepare(), serving.metrics.answer(True):
                await alice.ask(QUERY)
            with pytest.raises(AttestationError):
                async with serving.metrics.answer(True):
                    raise AttestationError("no")
            assert (await get(where, "/metrics"))[1] == before
            serving.journal.public.reveal()
            assert (await get(where, "/metrics"))[1] == before  # not even where the ledger was shown in between
            await serving._settle()
            found = await scraped(where)
            assert one(found, "answers_total", outcome=ANSWERED) == one(found, "window_records") == 1
            assert one(found, "answers_total", outcome=REFUSED) == one(found, "prepares_total", outcome=ANSWERED) == 1
            await alice.ask("two")
            with serving.provider.state.transaction() as db:  # the proof of a record that is not public yet
                db.execute("INSERT INTO proofs VALUES (?, ?, ?)", (window.digest, 1, b""))
            await serving.metrics.settle()
            assert one(await scraped(where), "proofs_pending") == 1
        finally:
            await server.stop()
            serving.provider.close()

    asyncio.run(scene())


@pytest.mark.slow
def test_the_coarse_tick_shows_records_and_numbers_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        server = server_on(tmp_path, publish=0.4)
        await server.start()
        serving = server.serving
        try:
            await open_window(serving)
            async with serving.metrics.answer(True):
                await Asker("alice", serving).ask(QUERY)
            async with asyncio.timeout(10):
                while serving.metrics.shown.answers.get(ANSWERED) != 1:
                    await asyncio.sleep(0.02)
            assert serving.metrics.shown.entries == serving.journal.public.size
            assert serving.metrics.shown.records == 1

            async def fails() -> None:
                raise LedgerError("the database is away")

            monkeypatch.setattr(serving.metrics, "settle", fails)
            size = serving.journal.public.size
            async with serving.metrics.answer(True):
                await Asker("bob", serving).ask(QUERY)
            async with asyncio.timeout(10):  # the ledger goes on where the numbers cannot be had
                while serving.journal.public.size == size:
                    await asyncio.sleep(0.02)
        finally:
            await server.stop()
            serving.provider.close()

    asyncio.run(scene())


@pytest.mark.asyncio
async def test_outcomes_and_latencies_are_coarse() -> None:
    """Buckets and sum are whole ticks: what an account sees of its own answers, and nothing finer."""
    numbers = Metrics(SimpleNamespace(), 0.5, False)  # type: ignore[arg-type]
    for error, outcome in ((AttestationError("x"), REFUSED), (BudgetError("x"), LIMITED),
                           (UnprovableError("x"), UNPROVABLE), (asyncio.CancelledError(), GONE),
                           (KeyError("x"), FAILED)):  # fmt: skip
        with pytest.raises(type(error)):
            async with numbers.answer(True):
                raise error
        assert numbers._answers[outcome] == 1
    assert not numbers._latencies
    clock = [100.0]
    loop = SimpleNamespace(time=lambda: clock[0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module.asyncio, "get_running_loop", lambda: loop)
        for seconds in (0.001, 0.4, 0.502, 0.9, 700.0):
            async with numbers.answer(True):
                clock[0] += seconds
    assert numbers._latencies == {1: 3, 2: 1, 1400: 1}
    family = numbers._histogram(prometheus_core(), dict(numbers._latencies))
    samples = {(sample.name.rpartition("_")[2], sample.labels.get("le")): sample.value for sample in family.samples}
    assert samples["bucket", "0.5"] == 3
    assert samples["bucket", "1"] == samples["bucket", "300"] == 4
    assert samples["bucket", "+Inf"] == samples["count", None] == 5
    assert samples["sum", None] == 0.5 * (3 + 2 + 1400)
    assert all(float(edge) % 0.5 == 0 for name, edge in samples if name == "bucket" and edge != "+Inf")


def prometheus_core() -> Any:
    return module.prometheus_client().core


def test_a_window_that_cannot_answer_says_why(tmp_path: Path) -> None:
    now = [1000.0]
    window = SimpleNamespace(closes=2000, overdue=lambda at: at > 1500)
    journal = SimpleNamespace(history=SimpleNamespace(open=window), failure=None)
    readiness = Readiness(journal, lambda: now[0])  # type: ignore[arg-type]
    assert readiness.trouble() == "starting or stopping"
    readiness.serves(True)
    assert not readiness.trouble()
    assert not readiness.no_answers()
    now[0] = 1600.0
    assert "overdue" in readiness.no_answers()
    now[0] = 2001.0
    assert "closing time" in readiness.no_answers()
    readiness.serves(False)
    assert readiness.trouble()


def test_numbers_are_not_served_in_the_clear_unless_asked_nor_without_their_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = open_provider(tmp_path / "p", Clock())
    options = ServeOptions(False, 0.0)

    async def refused(words: str, **listening: Any) -> None:
        with pytest.raises(ConfigurationError, match=words):
            await Server(provider, options, Listening("127.0.0.1:0", **listening)).start()

    async def scene() -> None:
        await refused("in the clear", metrics="0.0.0.0:0")
        server = Server(
            provider, options, Listening("127.0.0.1:0", metrics="0.0.0.0:0", metrics_tls=ServerTls(plain=True))
        )
        await server.start()
        await server.stop()
        monkeypatch.setitem(sys.modules, "prometheus_client", None)
        await refused("pip install", metrics="127.0.0.1:0")

    asyncio.run(scene())
    provider.close()


@pytest.mark.slow
def test_the_log_tells_machines_of_no_query_text_secret_or_name(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers, refusals and an error that nobody foresaw and that quotes its query, each as a line of JSON."""
    caplog.set_level(logging.DEBUG)

    async def scene() -> None:
        server = server_on(tmp_path)
        await server.start()
        serving = server.serving
        try:
            window = await open_window(serving)
            alice = Asker("alice", serving)
            async with open_channel(server.address) as channel:
                stub = provider_pb2_grpc.ProviderServiceStub(channel)
                canonical = alice.message(QUERY).encode()
                for signer in ("alice", "bob"):
                    proof = signature.sign(account_key(signer), "prepare", canonical)
                    request = provider_pb2.PrepareRequest(canonical=canonical, signature=proof)
                    with suppress(AttestationError):
                        await call(stub.Prepare, request, "p")
                await alice.ask(QUERY)

                async def quotes(*_: Any) -> None:
                    raise KeyError(QUERY)

                monkeypatch.setattr(serving.attestation, "prepare", quotes)
                with pytest.raises(TransportError, match="internal error"):
                    await call(stub.Prepare, request, "p")
            texts = [one.text for tenant in TENANTS for one in documents(tenant)]
            secrets = [account_key("alice").private_bytes_raw().hex(), window.digest.hex()]
            lines = [JsonFormatter().format(record) for record in caplog.records]
            assert any("KeyError" in line for line in lines)
            for line in lines:
                json.loads(line)
                for word in (QUERY, "alice", alice.pseudonym, *TENANTS, *texts, *secrets):
                    assert word not in line, line
        finally:
            await server.stop()
            serving.provider.close()

    asyncio.run(scene())

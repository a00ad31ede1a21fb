# SPDX-License-Identifier: GPL-3.0-or-later
"""The auditor's service: keys for everyone, audits of configured providers only."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel.errors import AuditError, BudgetError, ConfigurationError, EncodingError
from ragseal.runtime import streams
from ragseal.runtime.rpc import call, open_channel
from ragseal.runtime.statuses import error_of
from ragseal.v1 import verifier_pb2, verifier_pb2_grpc
from ragseal.verifier.__main__ import main
from ragseal.verifier.audit.audit import Target, Terms
from ragseal.verifier.audit.findings import Environment
from ragseal.verifier.cli import audit_command
from ragseal.verifier.folder.key_entries import KeyEntry
from ragseal.verifier.folder.state import State
from ragseal.verifier.report.document import SIGNED_NAME
from ragseal.verifier.service import service
from ragseal.verifier.service.limits import check_caller, prune
from ragseal.verifier.service.service import VerifierServicer
from ragseal.verifier.signed.log import VerdictLog, check_entered
from ragseal.verifier.signed.statement import read_verdict
from ragseal.verifier.steps.sample import Sample
from tests.classes import TINY
from tests.simulator import GROUP, NOW, World
from tests.simulator.turning import Turning
from tests.verifier.test_verdicts import bad
from tests.verifier.wire import provider, served

KEY = KeyEntry("ab" * 32, TINY.name, "cd" * 32, "auditor", "keys/tiny-abab")
UNSAFE = KeyEntry("ef" * 32, TINY.name, "cd" * 32, "provider", "keys/tiny-efef")
ZKEY = bytes(range(256)) * 10_000


@pytest.fixture
def state(tmp_path: Path) -> State:
    made = State.create(tmp_path / "auditor", Ed25519PrivateKey.generate())
    for line in (KEY, UNSAFE):
        made.add_key(line)
        (made.directory / line.path).mkdir()
        (made.directory / line.path / "proving_key.zkey").write_bytes(ZKEY)
    return made


@contextmanager
def auditor(state: State, targets: dict[str, Target], working: bool = True) -> Iterator[str]:
    def mount(server: Any) -> Any:
        servicer = VerifierServicer(state, targets)
        servicer.mount(server)
        return [servicer.work()] if working else []

    with served(mount) as address:
        yield address


def ask(address: str, method: str, request: Any) -> Any:
    async def once() -> Any:
        async with open_channel(address) as channel:
            stub = verifier_pb2_grpc.VerifierServiceStub(channel)  # type: ignore[no-untyped-call]
            return await call(getattr(stub, method), request, address)

    return asyncio.run(once())


def get_key(address: str, digest: bytes) -> bytes:
    import grpc

    async def stream() -> bytes:
        async with open_channel(address) as channel:
            stub = verifier_pb2_grpc.VerifierServiceStub(channel)  # type: ignore[no-untyped-call]
            try:
                return b"".join([c.data async for c in stub.GetKey(verifier_pb2.GetKeyRequest(key_digest=digest))])
            except grpc.RpcError as error:
                raise error_of(error, address) from None

    return asyncio.run(stream())


def test_keys_are_listed_and_streamed(state: State) -> None:
    with auditor(state, {}) as address:
        listed = ask(address, "ListKeys", verifier_pb2.ListKeysRequest()).keys
        assert [(k.class_name, k.key_digest.hex(), k.size, k.made_by) for k in listed] == [
            (TINY.name, KEY.key_digest, len(ZKEY), "auditor")
        ], "a key that the provider made is not handed out as the auditor's"
        assert get_key(address, KEY.digest) == ZKEY
        with pytest.raises(ConfigurationError, match="holds no proving key"):
            get_key(address, bytes(32))
        with pytest.raises(EncodingError, match="32 bytes"):
            get_key(address, b"short")


def test_only_configured_providers_are_audited(state: State) -> None:
    with auditor(state, {}) as address, pytest.raises(ConfigurationError, match="is not set up for"):
        ask(address, "RequestAudit", verifier_pb2.RequestAuditRequest(provider="198.51.100.7:1"))
    assert not (state.directory / "reports").exists()


def finished(address: str, audit_id: str) -> Any:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        found = ask(address, "GetReport", verifier_pb2.GetReportRequest(audit_id=audit_id))
        if found.done:
            return found
        time.sleep(0.05)
    raise AssertionError("no report")


def test_an_audit_runs_in_the_background_and_its_report_stays(state: State) -> None:
    world = World.honest()
    with provider(world) as (where, _):
        target = Target(where, world.signer.verifier)
        with auditor(state, {where: target}) as address:
            request = verifier_pb2.RequestAuditRequest(provider=where, window="w1")
            audit_id = ask(address, "RequestAudit", request).audit_id
            found = finished(address, audit_id)
    # The simulator's window has another auditor.
    assert found.line.startswith("NO VERDICT step=2 manifest: window 'w1' names auditor ")
    values = json.loads(found.report_json)
    page = (state.directory / "reports" / audit_id / "report.html").read_bytes()
    reports = {"report.json": found.report_json, "report.html": page}
    signed = read_verdict(found.signed_verdict, state.public_key, reports)
    assert signed.line == values["line"]
    key = check_entered(found.signed_verdict, signed, found.verdict_proof, None)
    assert key == VerdictLog(state.directory, state.public_key).verifier()
    assert values["no_verdict"]["step"] == 2
    assert (state.directory / "reports" / audit_id / "report.html").is_file()
    assert state.remembered(world.signer.verifier) is not None


def test_audits_on_request_read_what_accounts_handed_in(
    state: State, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Turns of the log's key too, as `audit --receipts` does (SPEC G.6.13.10); a folder that is gone stops nothing."""
    world, seen = Turning.turned(), list[Terms]()

    def conducted(state: State, target: Target, around: Any, terms: Terms, out: Path) -> Any:
        seen.append(terms)
        raise ConfigurationError("that is all")

    monkeypatch.setattr(service, "conduct", conducted)
    folder = tmp_path / "handed in"
    folder.mkdir()
    servicer = VerifierServicer(state, {}, folder)
    job = service.Job("a", Target("127.0.0.1:1", world.signer.verifier), "w1", None)
    (folder / "one.turn-proof").write_bytes(world.proofs()[0].encode())
    servicer._conduct(job)
    (folder / "one.receipt").write_bytes(world.answers[0].receipt.encode())
    servicer._conduct(job)
    shutil.rmtree(folder)
    servicer._conduct(job)
    assert [(len(terms.receipts), len(terms.turns)) for terms in seen] == [(0, 1), (1, 1), (0, 0)]
    assert all(terms.window == "w1" for terms in seen)


def mounted(servicer: VerifierServicer, server: Any) -> list[Any]:
    """Served, and nothing that is asked for is begun."""
    servicer.mount(server)
    return []


def test_audits_on_request_prove_the_sample_that_the_auditor_serves(state: State) -> None:
    """A caller that names no size is given the auditor's own; of one that does the confidence is the auditor's."""
    usual = Sample(detect=Fraction(1, 100), confidence=1 - Fraction(1, 1 << 20))
    for sample, size, given in (
        (None, 0, None),
        (None, 7, Sample(7)),
        (usual, 0, usual),
        (usual, 7, Sample(7, usual.confidence)),
    ):
        target = Target("127.0.0.1:1", World.honest().signer.verifier)
        servicer = VerifierServicer(state, {"127.0.0.1:1": target}, None, sample)
        with served(functools.partial(mounted, servicer)) as address:
            request = verifier_pb2.RequestAuditRequest(provider="127.0.0.1:1", window="w1", sample=size)
            audit_id = ask(address, "RequestAudit", request).audit_id
        assert servicer._jobs[audit_id].sample == given


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--detect", "2"], "not a share"),
        (["--detect", "0.01", "--confidence", "1"], "not a confidence"),
        (["--confidence", "0.9"], "give --detect SHARE"),
    ],
)
def test_a_sample_that_cannot_be_served_is_refused_at_once(state: State, options: list[str], said: str) -> None:
    done = CliRunner().invoke(main, ["serve", "--state", str(state.directory), *options])
    assert done.exit_code == 1
    assert said in done.output


def test_a_failure_that_cannot_be_kept_is_still_the_answer(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk or a damaged folder is the auditor's trouble; what the provider signed stays what it is."""
    world = bad()
    monkeypatch.setattr(State, "auditor", lambda *_: world.auditor())
    monkeypatch.setattr(service, "environment", lambda: Environment(GROUP, NOW, time.monotonic, os.urandom))
    (state.directory / "verdicts").write_text("in the way")
    with provider(world) as (where, _), auditor(state, {where: Target(where, world.signer.verifier)}) as address:
        audit_id = ask(address, "RequestAudit", verifier_pb2.RequestAuditRequest(provider=where)).audit_id
        found = finished(address, audit_id)
    assert found.line.startswith("FAIL step=6 records: "), found.line
    assert "not kept by this auditor: cannot make" in found.line
    values = json.loads(found.report_json)
    assert values["verdict"] == "FAIL"
    assert len(values["not_kept"]) == 1


@pytest.mark.parametrize("taken", ["verdicts", "report"])
def test_the_command_s_exit_status_follows_the_verdict(
    state: State, taken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = bad()
    monkeypatch.setattr(State, "auditor", lambda *_: world.auditor())
    monkeypatch.setattr(
        service, "environment", lambda progress: Environment(GROUP, NOW, time.monotonic, os.urandom, progress)
    )
    out = tmp_path / "folder" / "report"
    (out.parent if taken == "report" else state.directory / "verdicts").write_text("in the way")
    vkey = world.signer.verifier.vkey()
    with provider(world) as (where, _):
        result = CliRunner().invoke(
            main,
            ["audit", "--state", str(state.directory), "--provider", where, "--out", str(out), "--log-key", vkey],
        )
    assert result.exit_code == audit_command.EXIT_FAIL, result.output
    assert result.stdout.splitlines()[-1].startswith("FAIL step=6 records: ")
    assert "not kept: cannot " in result.output.replace("\n", " ")
    kept = out / "report.json" if taken == "verdicts" else next((state.directory / "verdicts").glob("*.json"))
    assert json.loads(kept.read_text())["verdict"] == "FAIL"


def test_a_path_that_is_not_utf_8_keeps_no_verdict_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The report names files that could not be written, and a folder may have any name."""
    world = bad()
    state = State.create(tmp_path / os.fsdecode(b"caf\xe9"), Ed25519PrivateKey.generate())
    (state.directory / "verdicts").write_text("in the way")
    monkeypatch.setattr(State, "auditor", lambda *_: world.auditor())
    monkeypatch.setattr(
        service, "environment", lambda progress: Environment(GROUP, NOW, time.monotonic, os.urandom, progress)
    )
    out = tmp_path / "report"
    with provider(world) as (where, _):
        command = ["audit", "--state", str(state.directory), "--provider", where, "--out", str(out)]
        result = CliRunner().invoke(main, [*command, "--log-key", world.signer.verifier.vkey()])
    assert result.exit_code == audit_command.EXIT_FAIL, result.output
    (unkept,) = json.loads((out / "report.json").read_text())["not_kept"]
    assert "caf" in unkept
    assert read_verdict((out / SIGNED_NAME).read_bytes(), state.public_key)


@pytest.mark.parametrize(("world", "status", "line"), [(World.honest, 0, "PASS "), (bad, 3, "FAIL step=6 ")])
@pytest.mark.parametrize("lost", ["<stdout>", "<stderr>"])
def test_a_verdict_that_cannot_be_printed_is_the_same_verdict(
    state: State, world: Any, status: int, line: str, lost: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Report, signed verdict and exit status are there; what was lost is said where it can be."""
    made = world()
    monkeypatch.setattr(State, "auditor", lambda *_: made.auditor())
    monkeypatch.setattr(
        service, "environment", lambda progress: Environment(GROUP, NOW, time.monotonic, os.urandom, progress)
    )
    real = streams._Written._now

    def full(stream: Any, data: Any) -> int:
        if stream.name == lost:
            raise OSError(28, "No space left on device")
        return real(stream, data)

    monkeypatch.setattr(streams._Written, "_now", full)
    out = tmp_path / "report"
    with provider(made) as (where, _):
        command = ["audit", "--state", str(state.directory), "--provider", where, "--out", str(out)]
        result = CliRunner().invoke(main, [*command, "--log-key", made.signer.verifier.vkey()])
    assert result.exit_code == status, result.output
    assert json.loads((out / "report.json").read_text())["line"].startswith(line)
    assert (out / SIGNED_NAME).exists()
    said = "standard output cannot be written (No space left on device)"
    assert (said in result.stderr, line in result.stdout) == ((True, False) if lost == "<stdout>" else (False, True))


def test_a_provider_that_is_away_gives_no_verdict(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "Terms", functools.partial(Terms, patience=0.0))
    world = World.honest()
    with provider(world) as (where, _):
        pass
    with auditor(state, {where: Target(where, world.signer.verifier)}) as address:
        audit_id = ask(address, "RequestAudit", verifier_pb2.RequestAuditRequest(provider=where)).audit_id
        found = finished(address, audit_id)
    assert found.line.startswith("NO VERDICT step=1 log: ")
    assert json.loads(found.report_json)["verdict"] == "NO VERDICT"


def test_a_provider_that_stalls_delays_nobody_else_s_audit(state: State) -> None:
    """It takes connections and never says a word; its own audits wait for it, and for nothing else."""
    world = World.honest()
    with socket.create_server(("127.0.0.1", 0)) as silent, provider(world) as (where, _):
        stalling = f"127.0.0.1:{silent.getsockname()[1]}"
        targets = {address: Target(address, world.signer.verifier) for address in (stalling, where)}
        with auditor(state, targets) as address:
            waiting = [
                ask(address, "RequestAudit", verifier_pb2.RequestAuditRequest(provider=stalling)).audit_id
                for _ in range(2)
            ]
            request = verifier_pb2.RequestAuditRequest(provider=where, window="w1")
            found = finished(address, ask(address, "RequestAudit", request).audit_id)
            assert found.line.startswith("NO VERDICT step=2 manifest")
            for audit_id in waiting:
                assert not ask(address, "GetReport", verifier_pb2.GetReportRequest(audit_id=audit_id)).done


def test_waiting_audits_are_bounded(state: State) -> None:
    target = Target("127.0.0.1:9", World().signer.verifier)
    with auditor(state, {"127.0.0.1:9": target}, working=False) as address:
        request = verifier_pb2.RequestAuditRequest(provider="127.0.0.1:9", sample=3)
        for _ in range(service.WAITING):
            ask(address, "RequestAudit", request)
        with pytest.raises(BudgetError, match="ask again later"):
            ask(address, "RequestAudit", request)


def test_unknown_reports_are_refused(state: State) -> None:
    with auditor(state, {}) as address, pytest.raises(AuditError, match="no such audit"):
        ask(address, "GetReport", verifier_pb2.GetReportRequest(audit_id="../../etc"))


# --- limits ----------------------------------------------------------------------------------------------------------


class Call:
    """What a handler knows of its caller."""

    def __init__(self, peer: str, **auth: list[bytes]) -> None:
        self._peer, self._auth = peer, auth

    def peer(self) -> str:
        return self._peer

    def auth_context(self) -> dict[str, list[bytes]]:
        return self._auth


def test_audits_are_for_this_machine_and_for_callers_with_a_certificate() -> None:
    for peer in ("ipv4:127.0.0.1:5000", "ipv6:%5B::1%5D:5000", "ipv6:[::1]:5000", "unix:/run/x", "unix:"):
        check_caller(Call(peer))
    for peer in ("ipv4:198.51.100.7:5000", "ipv6:%5B2001:db8::1%5D:5000"):
        check_caller(Call(peer, x509_common_name=[b"provider"]))
        with pytest.raises(ConfigurationError, match="--tls-clients"):
            check_caller(Call(peer))
        with pytest.raises(ConfigurationError, match="--tls-clients"):
            check_caller(Call(peer, transport_security_type=[b"ssl"]))


@pytest.mark.slow
def test_audits_of_one_caller_are_limited(state: State) -> None:
    target = Target("127.0.0.1:9", World().signer.verifier)
    with auditor(state, {"127.0.0.1:9": target}, working=False) as address:
        request = verifier_pb2.RequestAuditRequest(provider="127.0.0.1:9")
        seen = []
        for _ in range(service.AUDITS_AN_HOUR + 1):
            try:
                ask(address, "RequestAudit", request)
            except BudgetError as error:
                seen.append(str(error))
        assert "too many calls" in seen[-1]
        assert "too many calls" not in seen[0], "the queue is full before that"
        said = set()
        for _ in range(3 * service.REPORTS_A_MINUTE):
            try:
                ask(address, "GetReport", verifier_pb2.GetReportRequest(audit_id="none"))
            except AuditError as error:
                said.add(type(error))
        assert said == {ConfigurationError, BudgetError}


def test_old_reports_are_removed(tmp_path: Path) -> None:
    for number in range(6):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        (folder / "report.json").write_text("{}")
        os.utime(folder, (1000.0 * number, 1000.0 * number))
    (tmp_path / "a file").write_text("stays")
    prune(tmp_path, 5000.0, kept=4, days=2000 / 86_400)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["3", "4", "5", "a file"]
    prune(tmp_path, 5000.0, kept=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["4", "5", "a file"]
    prune(tmp_path / "nowhere", 5000.0)

# SPDX-License-Identifier: GPL-3.0-or-later
"""The auditor's own log of verdicts: in it before it is handed out, and nobody drops one unseen.  SPEC D.19."""

from __future__ import annotations

import asyncio
import functools
import json
import multiprocessing
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel.errors import AttestationError, ConfigurationError, EncodingError, LedgerError
from ragseal.kernel.verdict import VerdictEntry, log_digest
from ragseal.ledger.checkpoint import Checkpoint, open_checkpoint
from ragseal.ledger.cosignatures import CosignatureBook
from ragseal.ledger.log import Log
from ragseal.ledger.merkle import leaf_hash
from ragseal.ledger.note import COSIGNATURE, NoteSigner
from ragseal.ledger.observer import AlarmError, Observer
from ragseal.ledger.published import PublicLog
from ragseal.ledger.receipt import InclusionBundle
from ragseal.ledger.remote import RemoteLedger
from ragseal.ledger.service import LedgerServicer
from ragseal.ledger.shared import SharedLog
from ragseal.ledger.witness import Witness
from ragseal.runtime.rpc import open_channel
from ragseal.verifier.__main__ import main
from ragseal.verifier.audit.audit import Terms
from ragseal.verifier.cli.verdict_log_commands import _line
from ragseal.verifier.folder.state import State
from ragseal.verifier.outcome.outcome import FAIL, NO_VERDICT, Verdict
from ragseal.verifier.report import document
from ragseal.verifier.report.document import SIGNED_NAME
from ragseal.verifier.signed import log as log_module
from ragseal.verifier.signed.entering import enter_once, reports_of
from ragseal.verifier.signed.log import FOLDER, PROOF_NAME, VerdictLog, check_entered, entry_of, origin_of
from ragseal.verifier.signed.statement import REPORTS, read_verdict, signed_verdict
from tests.attacks.test_hostile_names import audited
from tests.simulator import NOW, World
from tests.verifier.test_verdicts import bad
from tests.verifier.wire import served

KEY = Ed25519PrivateKey.from_private_bytes(b"a" * 32)
PUBLIC = KEY.public_key().public_bytes_raw()
LOG = World.honest().signer.verifier


@functools.cache
def _honest() -> tuple[Verdict, dict[str, Any]]:
    verdict = World.honest().audit()
    return verdict, document.build(verdict)


def written(folder: Path) -> dict[str, bytes]:
    """Both reports of a folder, by name."""
    return {name: (folder / name).read_bytes() for name in REPORTS}


def signed(log: VerdictLog, now: int = NOW) -> bytes:
    """An envelope for that log; another time gives another one."""
    verdict, values = _honest()
    values = {**values, "issued": document.issued(now)}
    return signed_verdict(verdict, values, reports_of(values), LOG, KEY, log.verifier())


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[bytes]]:
    folder = tmp_path_factory.mktemp("filled")
    log = VerdictLog(folder, PUBLIC)
    made = [signed(log, NOW + n) for n in range(3)]
    for one in made:
        log.enter(one)
    return folder, made


def test_every_verdict_is_entered_before_it_is_issued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever stops the program between the two finds it in the log, and nowhere else."""
    seen: list[int] = []

    def save(directory: Path, written: dict[str, bytes]) -> None:
        seen.append(VerdictLog(tmp_path / "auditor", State(tmp_path / "auditor").public_key).copy().published()[0])
        raise ConfigurationError("the power went")

    monkeypatch.setattr(document, "save", save)
    verdict, _ = audited(bad(), tmp_path / "auditor", Terms(), monkeypatch)
    assert (seen, verdict.verdict, verdict.unkept) == ([1], FAIL, ["the power went"])
    assert not (tmp_path / "auditor" / "report").exists()
    state = State(tmp_path / "auditor")
    log = VerdictLog(state.directory, state.public_key)
    [entry] = log.entries()
    assert (entry.outcome, entry.window, entry.claimed, entry.time) == (FAIL, "w1", (), NOW)
    assert read_verdict(log.envelope(0), state.public_key).line == verdict.line()


def test_what_it_hands_out_is_proven_to_stand_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verdict, _ = audited(World.honest(), tmp_path / "auditor", Terms(), monkeypatch)
    state, report = State(tmp_path / "auditor"), tmp_path / "auditor" / "report"
    data, proof = (report / SIGNED_NAME).read_bytes(), (report / PROOF_NAME).read_bytes()
    found = read_verdict(data, state.public_key, written(report))
    log = VerdictLog(state.directory, state.public_key)
    assert check_entered(data, found, proof, log.verifier()) == log.verifier()
    assert verdict.unkept == []
    [entry] = log.entries()
    assert entry.outcome == "PASS"
    assert found.line.startswith(f"PASS {entry.claimed[0].text()} ")
    assert entry.log == log_digest(found.predicate["log"]["key"])
    shown = CliRunner().invoke(
        main,
        ["verdict", "verify", str(report / SIGNED_NAME), "--auditor", state.public_key.hex(), "--proof",
         str(report / PROOF_NAME), "--log", log.verifier().vkey()],
    )  # fmt: skip
    assert shown.exit_code == 0, shown.output
    assert "in the auditor's log of verdicts" in shown.output


def test_a_log_that_cannot_be_written_keeps_no_verdict_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says of itself that it is in no log, and nobody can take it for one that is."""
    (tmp_path / "auditor").mkdir()
    (tmp_path / "auditor" / FOLDER).write_text("in the way")
    (tmp_path / "auditor" / "report").mkdir()
    (tmp_path / "auditor" / "report" / PROOF_NAME).write_text("of an earlier audit")
    verdict, values = audited(bad(), tmp_path / "auditor", Terms(), monkeypatch)
    assert verdict.verdict == FAIL
    assert "is not in this auditor's log of verdicts" in values["not_kept"][0]
    state, report = State(tmp_path / "auditor"), tmp_path / "auditor" / "report"
    assert not (report / PROOF_NAME).exists()
    data = (report / SIGNED_NAME).read_bytes()
    found = read_verdict(data, state.public_key, written(report))
    assert found.predicate["verdictLog"] is None
    with pytest.raises(AttestationError, match="is in no log"):
        check_entered(data, found, b"", None)


def _append(folder: Path, many: int, first: int) -> None:
    log = VerdictLog(folder, PUBLIC)
    for number in range(many):
        log.enter(signed(log, NOW + first + number))


@pytest.mark.slow
def test_audits_of_one_folder_at_the_same_time_are_all_entered(tmp_path: Path) -> None:
    """Three processes and two threads, none of which finds the log made: one key, one history, nothing lost."""
    context = multiprocessing.get_context("spawn")
    workers: list[Any] = [context.Process(target=_append, args=(tmp_path, 3, 100 * n)) for n in range(3)]
    workers += [threading.Thread(target=_append, args=(tmp_path, 3, 100 * n)) for n in (3, 4)]
    for one in workers:
        one.start()
    for one in workers:
        one.join(120)
    log = VerdictLog(tmp_path, PUBLIC)
    log.copy()
    assert sorted(e.time - NOW for e in log.entries()) == [100 * n + i for n in range(5) for i in range(3)]
    assert len(list((tmp_path / FOLDER / "envelopes").iterdir())) == 15


def test_a_turn_that_does_not_end_ends_the_waiting(tmp_path: Path, filled: tuple[Path, list[bytes]]) -> None:
    folder, made = filled
    held = VerdictLog(folder, PUBLIC)
    with held.shared._turn(), pytest.raises(LedgerError, match=r"another process .*has had .* for 0.1 s"):
        VerdictLog(folder, PUBLIC, patience=0.1).enter(made[0])


def test_a_crash_while_the_log_is_made_leaves_nothing_or_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = VerdictLog(tmp_path, PUBLIC)
    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", lambda *_: (_ for _ in ()).throw(OSError(5, "power")))
        with pytest.raises(ConfigurationError, match="cannot make"):
            log.verifier()
    assert not (tmp_path / FOLDER).exists()
    log.enter(signed(log))
    assert len(log.entries()) == 1
    assert stat.S_IMODE((tmp_path / FOLDER).stat().st_mode) == 0o700
    assert {stat.S_IMODE(p.stat().st_mode) for p in (tmp_path / FOLDER / "envelopes").iterdir()} == {0o600}


def test_only_the_auditors_own_verdicts_are_entered(tmp_path: Path) -> None:
    log = VerdictLog(tmp_path, Ed25519PrivateKey.generate().public_key().public_bytes_raw())
    with pytest.raises(AttestationError, match="no signature of the envelope"):
        log.enter(signed(VerdictLog(tmp_path / "other", PUBLIC)))
    assert not (tmp_path / FOLDER).exists()


def test_a_lie_that_is_seen_again_is_one_entry(tmp_path: Path) -> None:
    """Of the same log, manifest and outcome: a NO VERDICT about it, or a FAIL about another one, does not hide it."""
    state = State.create(tmp_path / "auditor", KEY)
    log = VerdictLog(state.directory, state.public_key)
    fail = replace(bad().audit(), auditor=PUBLIC, at=NOW)
    assert (fail.verdict, fail.about is None) == (FAIL, False)
    undecided = World.honest()
    undecided.made_by = "provider"
    verdict = replace(undecided.audit(), auditor=PUBLIC, at=NOW, about=fail.about)
    assert verdict.verdict == NO_VERDICT
    enter_once(state, LOG, verdict)
    for _ in range(2):
        enter_once(state, LOG, fail)
    assert [entry.outcome for entry in log.entries()] == ["NO-VERDICT", FAIL]
    enter_once(state, LOG, replace(fail, about=("w1", b"o" * 32)))
    assert [entry.manifest for entry in log.entries()][1:] == [(fail.about[1],), (b"o" * 32,)]  # type: ignore[index]


# --- what a reader checks --------------------------------------------------------------------------------------------


def test_a_proof_is_about_this_very_verdict_and_log(filled: tuple[Path, list[bytes]], tmp_path: Path) -> None:
    folder, made = filled
    log = VerdictLog(folder, PUBLIC)
    proofs = [log.proof(n).to_text() for n in range(3)]
    for at, data in enumerate(made):
        found = read_verdict(data, PUBLIC)
        check_entered(data, found, proofs[at], None)
        with pytest.raises(LedgerError):
            check_entered(data, found, proofs[(at + 1) % 3], None)
        with pytest.raises(EncodingError):
            check_entered(data, found, b"nothing", None)
    found = read_verdict(made[0], PUBLIC)
    # the same envelope under a log of another key: replayed there, or never entered here
    other = VerdictLog(tmp_path, PUBLIC)
    elsewhere = other.enter(made[0]).proof.to_text()
    with pytest.raises(LedgerError):
        check_entered(made[0], found, elsewhere, None)
    with pytest.raises(AttestationError, match="names a different log"):
        check_entered(made[0], found, elsewhere, other.verifier())


def test_an_entry_with_another_word_is_not_the_verdicts(filled: tuple[Path, list[bytes]]) -> None:
    """The old digest under a changed outcome: the auditor's log could hold it, but nobody takes it for the envelope."""
    folder, made = filled
    found = read_verdict(made[0], PUBLIC)
    entry = entry_of(made[0], found)
    log = VerdictLog(folder, PUBLIC)
    for lie in (
        replace(entry, outcome="FAIL", claimed=()),
        replace(entry, claimed=(replace(entry.claimed[0], epsilon="0.1"),)),
        replace(entry, claimed=(replace(entry.claimed[0], queries="1"),)),
        replace(entry, manifest=()),
    ):
        with pytest.raises(LedgerError):
            check_entered(made[0], found, _alone(log, lie).to_text(), None)


def _alone(log: VerdictLog, entry: VerdictEntry) -> InclusionBundle:
    """A proof of an entry as the log's own key would sign it."""
    note = Checkpoint(log.verifier().name, 1, leaf_hash(entry.encode())).sign(log.shared._signers()[0])
    made = InclusionBundle(0, (), note)
    made.verify(entry.encode(), log.verifier())
    return made


def test_a_verdict_of_another_auditor_is_in_no_log_of_this_one(
    filled: tuple[Path, list[bytes]], tmp_path: Path
) -> None:
    folder, _ = filled
    other = Ed25519PrivateKey.from_private_bytes(b"o" * 32)
    theirs = other.public_key().public_bytes_raw()
    verdict, values = _honest()
    log = VerdictLog(folder, PUBLIC).verifier()
    data = signed_verdict(verdict, values, reports_of(values), LOG, other, log)
    with pytest.raises(AttestationError, match="not that of the auditor"):
        check_entered(data, read_verdict(data, theirs), VerdictLog(folder, PUBLIC).proof(0).to_text(), None)
    with pytest.raises(AttestationError):
        read_verdict(data, PUBLIC)


# --- the commands ----------------------------------------------------------------------------------------------------


def test_the_log_is_shown_exported_and_read_by_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    audited(World.honest(), tmp_path / "auditor", Terms(), monkeypatch)
    state = State(tmp_path / "auditor")
    log = VerdictLog(state.directory, state.public_key)

    def run(*command: str, code: int = 0) -> str:
        done = CliRunner().invoke(main, ["verdict", "log", *command, "--state", str(state.directory)])
        assert done.exit_code == code, done.output
        return done.output.strip()

    assert run("key") == log.verifier().vkey()
    assert run("key").startswith(origin_of(state.public_key))
    [line] = run("show").splitlines()
    assert "PASS epsilon_audit=" in line
    assert "w1 of " in line
    readings: list[int] = []
    whole = SharedLog.copy
    with monkeypatch.context() as patched:
        patched.setattr(SharedLog, "copy", lambda self, known=None: readings.append(1) or whole(self, known))
        run("show", "0", "--out", str(tmp_path / "v"), "--proof", str(tmp_path / "p"))
    assert len(readings) == 1, "one reading, so that line, envelope and proof are of one log"
    data = (tmp_path / "v").read_bytes()
    assert data == (state.directory / "report" / SIGNED_NAME).read_bytes()
    check_entered(data, read_verdict(data, state.public_key), (tmp_path / "p").read_bytes(), log.verifier())
    assert json.loads(run("show", "0", "--json"))["outcome"] == "PASS"
    assert "there is no entry 1" in run("show", "1", code=1)
    run("export", "--tiles", str(tmp_path / "tiles"))
    assert open_checkpoint((tmp_path / "tiles" / "checkpoint").read_bytes(), log.verifier()).checkpoint.size == 1
    [stored] = (state.directory / FOLDER / "envelopes").iterdir()
    stored.write_bytes(b"changed")
    assert "is damaged" in run("show", "0", "--out", str(tmp_path / "w"), code=1)
    assert not (tmp_path / "w").exists()


def test_names_in_the_log_steer_no_terminal() -> None:
    entry = VerdictEntry(PUBLIC, bytes(32), bytes(32), "a\x1b[2K\u202eb", "w\r\n1", (), "NO-VERDICT", (), NOW)
    line = _line(0, entry)
    assert line.isprintable()
    assert r"w\r\n1 of a\x1b[2K\u202eb" in line, "what was there can still be told apart"


# --- followers -------------------------------------------------------------------------------------------------------


class _Serving:
    """The log of a folder on the wire, with an observer that follows it."""

    def __init__(self, address: str, log: VerdictLog, state: Path) -> None:
        self.address, self.log, self.state = address, log, state
        if not (state / "key").exists():
            state.mkdir(exist_ok=True)
        self.signer = NoteSigner("observer.example", Ed25519PrivateKey.from_private_bytes(b"w" * 32), COSIGNATURE)

    def look(self) -> int:
        async def once() -> int:
            async with open_channel(self.address) as channel:
                witness = Witness(self.state, self.signer)
                try:
                    remote = RemoteLedger(channel, self.address)
                    observer = Observer(remote, self.log.verifier(), self.state, witness, time.time)
                    return (await observer.step()).size
                finally:
                    witness.close()

        return asyncio.run(once())


def test_a_follower_sees_each_verdict_and_that_one_was_dropped(tmp_path: Path) -> None:
    """The FAIL is taken out, all other verdicts are entered anew under the same key: an alarm, with both notes."""
    log = VerdictLog(tmp_path / "auditor", PUBLIC)
    verdicts = [signed(log, NOW + n) for n in range(4)]
    for one in verdicts[:3]:
        log.enter(one)

    def mount(server: Any) -> None:
        public = PublicLog(log.live(), live=True)
        book = tmp_path / "book"
        book.mkdir(exist_ok=True)
        LedgerServicer(public, CosignatureBook(book, public)).mount(server)

    with served(mount) as address:
        follower = _Serving(address, log, tmp_path / "observer")
        assert follower.look() == 3
        log.enter(verdicts[3])
        assert follower.look() == 4, "what another process appends is served"
    folder = tmp_path / "auditor" / FOLDER
    shutil.copy(folder / "log.pem", tmp_path / "key.pem")
    shutil.rmtree(folder)
    shutil.rmtree(tmp_path / "book")
    log.verifier()
    for name in ("log.sqlite", "checkpoint"):
        (folder / name).unlink()
    shutil.copy(tmp_path / "key.pem", folder / "key.pem")
    Log.create(folder, log.shared._signers()[0]).close()
    for one in (verdicts[0], verdicts[2], verdicts[3], verdicts[3]):
        log.enter(one)
    with served(mount) as address:
        follower = _Serving(address, log, tmp_path / "observer")
        with pytest.raises(AlarmError):
            follower.look()


def test_a_log_that_was_rolled_back_takes_nothing_more(filled: tuple[Path, list[bytes]], tmp_path: Path) -> None:
    """A database without its newest verdict under the newest checkpoint: the audit says that it could not enter it."""
    folder = tmp_path / "auditor"
    shutil.copytree(filled[0], folder)
    old = tmp_path / "old.sqlite"
    shutil.copy(folder / FOLDER / "log.sqlite", old)
    log = VerdictLog(folder, PUBLIC)
    log.enter(signed(log, NOW + 9))
    shutil.copy(old, folder / FOLDER / "log.sqlite")
    for extra in (folder / FOLDER).glob("log.sqlite-*"):
        extra.unlink()
    with pytest.raises(LedgerError, match="rolled back"):
        log.enter(signed(log, NOW + 10))


def test_the_checks_are_alive(filled: tuple[Path, list[bytes]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the look at the log's name another auditor's log passes for this one's."""
    folder, _ = filled
    other = Ed25519PrivateKey.from_private_bytes(b"o" * 32)
    theirs = other.public_key().public_bytes_raw()
    verdict, values = _honest()
    mine = VerdictLog(folder, PUBLIC)
    data = signed_verdict(verdict, values, reports_of(values), LOG, other, mine.verifier())
    found = read_verdict(data, theirs)
    proof = _alone(mine, entry_of(data, found)).to_text()
    with pytest.raises(AttestationError, match="not that of the auditor"):
        check_entered(data, found, proof, None)
    monkeypatch.setattr(log_module, "origin_of", lambda _: mine.verifier().name)
    check_entered(data, found, proof, None)


@pytest.mark.slow
def test_the_served_log_is_followed_while_audits_go_on(tmp_path: Path) -> None:
    """The command itself, as a process: an observer cosigns, a second server is refused, SIGTERM ends it."""
    State.create(tmp_path / "auditor", KEY)
    log = VerdictLog(tmp_path / "auditor", PUBLIC)
    log.enter(signed(log))
    serve = [sys.executable, "-m", "ragseal.verifier", "verdict", "log", "serve", "--state", str(tmp_path / "auditor")]
    serve += ["--listen", "127.0.0.1:0", "--json"]
    running = subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert running.stdout is not None
        address = json.loads(running.stdout.readline())["listening"]
        follower = _Serving(address, log, tmp_path / "observer")
        assert follower.look() == 1
        log.enter(signed(log, NOW + 1))
        assert follower.look() == 2
        assert (tmp_path / "auditor" / FOLDER / "witnesses" / "cosignatures").read_bytes()
        second = subprocess.run(serve, capture_output=True, text=True, timeout=120)
        assert second.returncode == 1
        assert "in use by another process" in second.stderr
        running.send_signal(signal.SIGTERM)
        assert running.wait(60) == 0
    finally:
        running.kill()
        running.communicate()

# SPDX-License-Identifier: GPL-3.0-or-later
"""The auditor's own log of verdicts turns its key, and whoever follows or reads it goes on.  SPEC D.19, G.6.13."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from ragseal.kernel.errors import AttestationError, LedgerError
from ragseal.ledger.checkpoint import open_checkpoint
from ragseal.ledger.log_keys import FORMER_FILE, NEXT_FILE
from ragseal.ledger.note import COSIGNATURE, NoteSigner, NoteVerifier
from ragseal.ledger.observer import Observer
from ragseal.ledger.published import PublicLog
from ragseal.ledger.shared import LiveCopy
from ragseal.ledger.tiles import TileFolder
from ragseal.ledger.turns import LogKey, TurnError, follow
from ragseal.ledger.witness import Witness
from ragseal.verifier.__main__ import main
from ragseal.verifier.folder.state import State
from ragseal.verifier.outcome.outcome import Verdict
from ragseal.verifier.signed import entering
from ragseal.verifier.signed.log import FOLDER, VerdictLog, check_entered
from ragseal.verifier.signed.statement import read_verdict
from tests.attacks import turn_checks as checks
from tests.attacks.checks import without
from tests.simulator import NOW
from tests.verifier.test_verdict_log import KEY, LOG, PUBLIC, signed


def enter(log: VerdictLog, now: int) -> tuple[bytes, bytes]:
    data = signed(log, now)
    return data, log.enter(data).proof.to_text()


def checked(made: tuple[bytes, bytes], log: NoteVerifier | None = None) -> NoteVerifier:
    return check_entered(made[0], read_verdict(made[0], PUBLIC), made[1], log)


@pytest.mark.parametrize("overlap", [0, 2])
def test_verdicts_on_both_sides_of_turns_are_proven(tmp_path: Path, overlap: int) -> None:
    log = VerdictLog(tmp_path, PUBLIC)
    first = log.verifier()
    made = [enter(log, NOW)]
    for turn in (1, 2):
        assert log.rotate(overlap).newest == log.verifier().keys[-1]
        made += [enter(log, NOW + 10 * turn + n) for n in range(3)]
    assert len(log.verifier().keys) == 3
    assert not (tmp_path / FOLDER / NEXT_FILE).exists()
    assert not (tmp_path / FOLDER / FORMER_FILE).exists()
    for one in made:
        assert checked(one, first).vkey() == first.vkey()
    assert len(log.entries()) == len(made)
    copy = log.copy()
    indices = [index for index in range(len(copy.all)) if index not in (1, 5)]
    for index, (data, _) in zip(indices, made, strict=True):
        assert log.envelope(index) == data
        checked((data, log.proof(index).to_text()), first)
    with pytest.raises(LedgerError, match="turns the log's key"):
        log.envelope(1)


def test_a_verdict_behind_a_turn_that_it_does_not_name_is_not_entered(tmp_path: Path) -> None:
    log = VerdictLog(tmp_path, PUBLIC)
    early = signed(log)
    log.rotate(0)
    with pytest.raises(TurnError, match="has turned meanwhile"):
        log.enter(early)
    assert log.entries() == []
    with without(checks.NAMED_AS_IT_SIGNS):
        proof = log.enter(early).proof.to_text()
    with pytest.raises(LedgerError, match="no signature by a known key"):
        checked((early, proof))


def test_an_audit_names_the_turn_that_came_between(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = State.create(tmp_path / "auditor", KEY)
    log = VerdictLog(state.directory, PUBLIC)
    real, turned = VerdictLog.enter, []

    def enter_late(self: VerdictLog, data: bytes) -> object:
        if not turned:
            turned.append(log.rotate(0))
        return real(self, data)

    monkeypatch.setattr(VerdictLog, "enter", enter_late)
    verdict = Verdict(auditor=state.public_key, at=NOW, origin=LOG.name)
    issued = entering.entered(state, LOG, verdict)
    assert not verdict.unkept
    assert len(checked((issued.signed, issued.proof)).keys) == 2
    assert len(log.entries()) == 1


def test_a_thief_of_the_old_key_proves_nothing_behind_the_turn(tmp_path: Path) -> None:
    """Turns are in the verdict, under the auditor's own signature: a proof by the old key alone is none."""
    log = VerdictLog(tmp_path, PUBLIC)
    stolen = NoteSigner(log.verifier().name, log.shared._signers()[0].private_key)
    log.rotate(10)
    data, _ = enter(log, NOW)
    bundle = log.proof(1)
    copy = log.copy()
    point = open_checkpoint(copy.note, copy.verifier).checkpoint
    alone = type(bundle)(bundle.index, bundle.path, point.sign(stolen))
    with pytest.raises(LedgerError, match="no signature by a known key"):
        checked((data, alone.to_text()))
    with without(checks.ONE_KEY_A_SIZE), pytest.raises(LedgerError):
        checked((data, alone.to_text()))
    with pytest.raises(AttestationError, match="names a different log"):
        checked((data, bundle.to_text()), log.verifier().keys[-1])


class Local:
    """The log as it is served, without a network between."""

    def __init__(self, log: PublicLog) -> None:
        self.log = log

    async def checkpoint(self) -> bytes:
        return self.log.published()[1]

    async def rotations(self) -> list[bytes]:
        return [proof.encode() for proof in self.log.turns()]

    async def entries(self, start: int, count: int) -> list[bytes]:
        return self.log.entries(start, count)

    async def consistency(self, old: int, new: int) -> list[bytes]:
        return self.log.consistency(old, new)

    async def add_cosignature(self, size: int, witness: str, line: str) -> None: ...


@pytest.mark.asyncio
async def test_whoever_follows_the_log_learns_of_the_turn(tmp_path: Path) -> None:
    log = VerdictLog(tmp_path / "auditor", PUBLIC)
    first = log.verifier()
    enter(log, NOW)
    live = PublicLog(LiveCopy(log.shared), live=True)
    peer = Local(live)
    witness = Witness(tmp_path / "observer", NoteSigner("w.example", KEY, COSIGNATURE))
    observer = Observer(peer, first, tmp_path / "observer", witness, lambda: NOW + 1)  # type: ignore[arg-type]
    assert (await observer.step()).size == 1
    tiles = TileFolder(tmp_path / "tiles", first)
    for turn in (1, 2):
        log.rotate(0)
        enter(log, NOW + turn)
        observer._clock = lambda turn=turn: NOW + 1 + turn  # type: ignore[misc]
        assert (await observer.step()).size == 1 + 2 * turn
        assert (await tiles.update(log.source())).size == 1 + 2 * turn
    assert follow(first, await peer.rotations()) == log.verifier() == observer.log
    assert len(LogKey.of(live.verifier).turns) == 2
    tiles.close()
    witness.close()


def test_the_command_turns_the_key_and_shows_the_turn(tmp_path: Path) -> None:
    folder = tmp_path / "auditor"
    state = State.create(folder, KEY)
    log = VerdictLog(state.directory, PUBLIC)
    name = log.verifier().vkey()
    enter(log, NOW)
    done = CliRunner().invoke(main, ["verdict", "log", "rotate", "--state", str(folder), "--overlap", "1", "--json"])
    assert done.exit_code == 0, done.output
    said = json.loads(done.output)
    assert (said["log_key"], said["index"], said["until"]) == (name, 1, 3)
    enter(log, NOW + 1)
    shown = CliRunner().invoke(main, ["verdict", "log", "show", "--state", str(folder)])
    assert shown.exit_code == 0, shown.output
    assert "from here on the log is signed by the key" in shown.output.splitlines()[1]
    key = CliRunner().invoke(main, ["verdict", "log", "key", "--state", str(folder)])
    assert key.output.strip() == name
    out = tmp_path / "none"
    refused = CliRunner().invoke(main, ["verdict", "log", "show", "1", "--out", str(out), "--state", str(folder)])
    assert refused.exit_code == 1
    assert "it is not a verdict" in refused.output
    assert not out.exists()
    again = CliRunner().invoke(main, ["verdict", "log", "rotate", "--state", str(folder)])
    assert again.exit_code == 0, "the overlap is over"

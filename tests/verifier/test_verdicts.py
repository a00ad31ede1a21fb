# SPDX-License-Identifier: GPL-3.0-or-later
"""Results are kept by window, and a PASS names the windows of its period that have none."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from rich.console import Console

from ragseal.kernel.commitment import WindowClose
from ragseal.kernel.errors import ConfigurationError
from ragseal.ledger.checkpoint import open_checkpoint
from ragseal.ledger.note import NoteSigner
from ragseal.verifier.cli import audit_command
from ragseal.verifier.folder.state import State
from ragseal.verifier.folder.verdicts import Verdicts
from ragseal.verifier.outcome.outcome import Verdict
from ragseal.verifier.report import document
from ragseal.verifier.steps.blocks import Effort
from ragseal.verifier.steps.log import Forked
from ragseal.verifier.steps.sample import Sample
from tests.simulator import CLOSES, NOW, OPENS, ORIGIN, World, key_of, policy, resign

LATER = NOW + 7200


class Desk:
    """An auditor with a folder, who audits a world and keeps what it finds."""

    def __init__(self, folder: Path, world: World) -> None:
        self.state = State.create(folder, Ed25519PrivateKey.generate())
        self.world = world
        self.kept = Verdicts(self.state.directory, world.signer.verifier)

    def audit(self, **options: Any) -> Verdict:
        auditor = replace(options.pop("auditor", None) or self.world.auditor(), neighbours=self.kept.neighbours)
        verdict = self.world.audit(auditor=auditor, now=LATER, **options)
        self.kept.keep(verdict, LATER)
        return verdict


def second(world: World) -> None:
    """An empty window behind whatever is there."""
    world.enter_manifest("w2", policy_=policy(opens=CLOSES, closes=CLOSES + 3600))
    world.enter_beacon()
    world.messages[-1] = replace(world.messages[-1], time=CLOSES + 60)  # type: ignore[type-var]
    world.messages.append(WindowClose(world.digest, 0, CLOSES + 3000))


def bad() -> World:
    """Its first window fails: an account was given more than its budget."""
    world = World()
    world.commit()
    for _ in range(4):
        world.ask("alice")
    world.close()
    return world


def status(verdict: Verdict, alone: bool = False) -> int:
    return audit_command.status_of(verdict, alone, "")


def test_an_empty_window_behind_a_bad_one_does_not_pass_quietly(tmp_path: Path) -> None:
    world = bad()
    second(world)
    desk = Desk(tmp_path / "auditor", world)
    newest = desk.audit()
    assert newest.verdict == "PASS"
    assert newest.about is not None
    what = f"beside=w1:not-audited window=w2@{newest.about[1].hex()[:8]} log=test.example/log"
    assert newest.line().endswith(what), newest.line()
    assert (status(newest), status(newest, alone=True)) == (5, 0)
    failed = desk.audit(window="w1")
    assert (failed.verdict, status(failed)) == ("FAIL", 3)
    newest = desk.audit()
    assert " beside=w1:FAIL " in newest.line()
    assert status(newest) == 5
    values = document.build(newest)
    assert [(one["window"], one["verdict"]) for one in values["other_windows_of_the_period"]] == [("w1", "FAIL")]


def test_once_every_window_has_passed_nothing_stands_beside(tmp_path: Path) -> None:
    world = World.honest()
    first = (world.digest, world.beacon, world.manifest)
    desk = Desk(tmp_path / "auditor", world)
    assert status(desk.audit()) == 0
    second(world)
    found = desk.audit()
    assert "beside=" not in found.line()
    assert (found.verdict, status(found)) == ("PASS", 0)
    # An entry of the first window that came after its audit: what was found of it is about another log.
    world.messages.append(WindowClose(first[0], 7, OPENS + 3000))
    found = desk.audit()
    assert " beside=w1:changed-after-its-audit " in found.line(), found.line()
    assert status(found) == 5


def test_a_failure_stays_and_an_absence_takes_nothing_away(tmp_path: Path) -> None:
    world = World.honest()
    desk = Desk(tmp_path / "auditor", world)
    (path,) = _files(desk, desk.audit())
    assert json.loads(path.read_text())["verdict"] == "PASS"
    away = desk.audit(auditor=replace(world.auditor(), keys={}))
    assert away.verdict == "NO VERDICT"
    assert json.loads(path.read_text())["verdict"] == "PASS"
    sampled = desk.audit(sample=Sample(2))
    assert sampled.verdict == "SAMPLED-PASS"
    assert json.loads(path.read_text())["verdict"] == "PASS"
    other = World.honest()
    files = other.receipts()
    body = replace(files[2].receipt.body, seq=1)
    files[2] = replace(files[2], receipt=resign(other, files[2].receipt, body), answer=None)
    assert desk.audit(receipts=files).verdict == "FAIL"
    without = desk.audit()
    assert " beside=w1:FAIL " in without.line(), "leaving the receipts out does not unmake what they showed"
    assert (without.verdict, status(without)) == ("PASS", 5)


def _broken(world: World) -> Any:
    """An account's receipt for a record that is not the one in the log."""
    files = world.receipts()
    body = replace(files[1].receipt.body, record_digest=bytes(32))
    files[1] = replace(files[1], receipt=resign(world, files[1].receipt, body), answer=None)
    return files


def test_a_failure_stays_whatever_another_log_key_shows(tmp_path: Path) -> None:
    """Attack: the same entries under a second key of the log, without what convicted them under the first one."""
    world = World.honest()
    desk = Desk(tmp_path / "auditor", world)
    assert desk.audit(receipts=_broken(world)).verdict == "FAIL"
    first, world.signer = world.signer, NoteSigner(ORIGIN, key_of("another"))
    other = desk.kept = Verdicts(desk.state.directory, world.signer.verifier)
    assert "with another key than this one's" in desk.audit().line()  # a manifest names its log by key
    world.signer, desk.kept = first, Verdicts(desk.state.directory, first.verifier)
    again = desk.audit()
    assert " beside=w1:FAIL " in again.line(), again.line()
    assert status(again, alone=True) == 5
    assert (world.digest, "w1") not in [(one.manifest, one.window) for one in other.neighbours(None, [], b"")]  # type: ignore[arg-type]
    assert {json.loads(one.read_text())["verdict"] for one in _files(desk, again)} == {"FAIL"}


def test_a_failure_of_an_earlier_version_stays(tmp_path: Path) -> None:
    """Its file had the manifest's name only, and no notes in it."""
    world = World.honest()
    desk = Desk(tmp_path / "auditor", world)
    (path,) = _files(desk, desk.audit(receipts=_broken(world)))
    values = {name: value for name, value in json.loads(path.read_text()).items() if name not in ("older", "newer")}
    path.with_name(f"{world.digest.hex()}.json").write_text(json.dumps(values))
    path.unlink()
    assert " beside=w1:FAIL " in desk.audit().line()


def test_a_damaged_result_keeps_no_failure_from_being_kept(tmp_path: Path) -> None:
    world = World.honest()
    desk = Desk(tmp_path / "auditor", world)
    (path,) = _files(desk, desk.audit())
    path.write_bytes(b"{")
    desk.audit(receipts=_broken(world))
    assert json.loads(path.read_text())["verdict"] == "FAIL"


def test_a_fork_stays_with_the_log(tmp_path: Path) -> None:
    world = World.honest()
    world.remember()
    remembered = world.remembered
    other = World.honest()
    other.messages[2] = other.commit_entry("auditor", bytes(32), other.auditor_key)
    desk = Desk(tmp_path / "auditor", other)
    assert desk.audit(auditor=replace(other.auditor(), remembered=remembered)).line().startswith("FAIL step=1 ")
    desk.world = world
    assert " beside=%28the-log%29:FAIL " in desk.audit().line().replace("%20", "-")


def test_a_fork_seen_late_in_an_audit_stays_with_the_window_and_with_the_log(tmp_path: Path) -> None:
    """It stayed with the window only, and an audit of another one said nothing of it."""
    world = World.honest()
    desk = Desk(tmp_path / "auditor", world)
    older, newer = (open_checkpoint(one.checkpoint(), world.signer.verifier) for one in (World.honest(), bad()))
    seen = []

    def remember(tree: Any) -> Any:
        seen.append(tree)
        if len(seen) > 1:
            raise Forked("the log was forked", older, newer)
        return tree.signed

    verdict = desk.audit(auditor=replace(world.auditor(), remember=remember))
    assert verdict.line().startswith("FAIL step=1 "), verdict.line()
    folder = desk.state.directory / "verdicts"
    kept = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    assert sorted(one["window"] for one in kept) == ["(the log)", "w1"]
    assert {(one["older"], one["newer"]) for one in kept} == {
        (older.note.encode().decode(), newer.note.encode().decode())
    }
    second(world)
    assert " beside=w1:FAIL,%28the%20log%29:FAIL " in desk.audit().line()


def test_notes_that_contradict_nothing_are_not_kept_as_a_fork(tmp_path: Path) -> None:
    """A log that is an old copy, and another failure of its step."""
    world, longer = World.honest(), World.honest()
    longer.enter_manifest("w2")
    world.raw[15] = world.messages[15].encode()[:-1]
    desk = Desk(tmp_path / "auditor", world)
    remembered = open_checkpoint(longer.checkpoint(), world.signer.verifier)
    assert desk.audit(auditor=replace(world.auditor(), remembered=remembered)).line().startswith("FAIL step=1 ")
    (path,) = (desk.state.directory / "verdicts").glob("log-*.json")
    kept = json.loads(path.read_text())
    assert (kept["verdict"], kept.get("older", ""), kept.get("newer", "")) == ("FAIL", "", "")


def test_results_of_another_log_do_not_count(tmp_path: Path) -> None:
    world = World.honest()
    desk = Desk(tmp_path / "auditor", world)
    (path,) = _files(desk, desk.audit())
    second(world)
    values = json.loads(path.read_text())
    path.write_text(json.dumps({**values, "log": "another+log"}))
    assert " beside=w1:not-audited " in desk.audit().line()


@pytest.mark.parametrize("data", [b"{", b"[]", b"{}", b'{"verdict": "PASS"}'])
def test_a_damaged_result_is_named_and_no_verdict(tmp_path: Path, data: bytes) -> None:
    world = World.honest()
    desk = Desk(tmp_path / "auditor", world)
    (path,) = _files(desk, desk.audit())
    path.write_bytes(data)
    second(world)
    verdict = world.audit(auditor=replace(world.auditor(), neighbours=desk.kept.neighbours), now=LATER)
    assert verdict.line().startswith("NO VERDICT step=11 "), verdict.line()
    assert path.name in verdict.line()
    with pytest.raises(ConfigurationError):
        desk.kept.keep(World.honest().audit(), LATER)


def test_what_is_required_of_a_pass() -> None:
    verdict = World.honest().audit()
    assert verdict.budget is not None
    assert audit_command.not_enough(verdict, verdict.budget.epsilon, True) == ""
    said = audit_command.not_enough(verdict, verdict.budget.epsilon / 2, False)
    assert "--require-epsilon" in said
    assert audit_command.status_of(verdict, False, said) == 6
    sampled = World.honest().audit(sample=Sample(2))
    assert audit_command.not_enough(sampled, None, False) == ""
    assert "only a sample of the records was proven" in audit_command.not_enough(sampled, None, True)
    whole = World.honest().audit(sample=Sample(99))
    assert whole.verdict == "SAMPLED-PASS"
    assert audit_command.not_enough(whole, None, True) == "", "every record was proven, whatever was asked for"
    estimate = World.honest().audit(effort=Effort(full=0, sampled=2))
    assert "coalition estimate" in audit_command.not_enough(estimate, None, True)
    failed = bad().audit()
    assert audit_command.status_of(failed, False, "") == audit_command.EXIT_FAIL


def test_what_others_sign_adds_no_line_to_the_checklist(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A provider's reason for a refusal holds line breaks, and forged a step of the auditor's checklist."""
    verdict = bad().audit()
    failed = next(step for step in verdict.steps if step.status == "failed")
    said = failed.message
    told = []
    for forged in ("", "\n  8  proofs           ok\nPASS"):
        verdict.steps[verdict.steps.index(failed)] = failed = replace(failed, message=said + forged)
        console = Console(stderr=True, soft_wrap=True)
        audit_command._print(console, verdict, document.build(verdict), tmp_path, "")
        told.append(capsys.readouterr().err.splitlines())
    assert len(told[0]) == len(told[1])
    assert f"     {said}   8  proofs           ok PASS" in told[1]


def _files(desk: Desk, verdict: Verdict) -> list[Path]:
    assert verdict.about is not None
    return list((desk.state.directory / "verdicts").glob(f"{verdict.about[1].hex()}-*.json"))

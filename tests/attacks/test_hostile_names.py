# SPDX-License-Identifier: GPL-3.0-or-later
"""Names that others choose reach terminals, logs and reports: they neither steer a terminal nor unmake a verdict.

An account hands in receipts and names their files.  Such a name once ended the auditor's program before its FAIL was
kept, and another wrote a PASS over the line of a NO VERDICT.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel import errors
from ragseal.kernel.errors import AuditError, ConfigurationError, LedgerError
from ragseal.kernel.printable import printable
from ragseal.runtime.statuses import status_of
from ragseal.verifier.audit import audit, verification
from ragseal.verifier.audit.audit import Target, Terms, read_receipts
from ragseal.verifier.folder.state import State
from ragseal.verifier.folder.verdicts import Verdicts
from ragseal.verifier.outcome.outcome import FAIL, NO_VERDICT
from ragseal.verifier.report import document
from ragseal.verifier.signed.entering import reports_of
from tests.simulator import CLOSES, GROUP, NOW, SimulatedEvidence, World
from tests.verifier.test_verdicts import bad

STEERING = "\x1b[2K\x1b[1GPASS epsilon_audit=0.41 window=w1\x1b[8m\r\n\u202e\x9b\ud800.receipt"


class _Here:
    """A target whose evidence is a world in memory."""

    def __init__(self, world: World) -> None:
        self.world, self.log_key, self.address = world, world.signer.verifier, "here"

    def connect(self, patience: Any = None) -> Any:
        return contextlib.nullcontext(SimulatedEvidence(self.world))


def audited(world: World, folder: Path, terms: Terms, monkeypatch: pytest.MonkeyPatch) -> Any:
    """One audit as the command line and the service conduct it; the folder's keys and nonces are the world's."""
    state = State.create(folder, Ed25519PrivateKey.generate())
    monkeypatch.setattr(State, "auditor", lambda *_: world.auditor())
    around = verification.Environment(GROUP, NOW, lambda: 0.0, os.urandom)
    target: Target = _Here(world)  # type: ignore[assignment]
    return audit.conduct(state, target, around, terms, folder / "report")


@pytest.mark.parametrize("name", [b"\xff.receipt", os.fsencode("\x1b[2K\u202e.receipt"), b"a\nb.receipt"])
def test_no_file_name_keeps_a_fail_from_being_kept(
    name: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handed_in = tmp_path / "receipts"
    handed_in.mkdir()
    (handed_in / os.fsdecode(name)).write_bytes(b"no receipt")
    given, aside = read_receipts(handed_in)
    world = bad()
    terms = Terms(receipts=given, set_aside=aside)
    verdict, _ = audited(world, tmp_path / "auditor", terms, monkeypatch)
    assert verdict.verdict == FAIL
    written = json.loads((tmp_path / "auditor" / "report" / "report.json").read_text())
    assert written["verdict"] == FAIL
    assert verdict.set_aside
    assert all(one.file.isprintable() for one in verdict.set_aside)
    assert (tmp_path / "auditor" / "report" / "report.html").is_file()
    [kept] = (tmp_path / "auditor" / "verdicts").glob("*.json")
    assert json.loads(kept.read_text())["verdict"] == FAIL


def test_what_cannot_be_written_does_not_keep_a_fail_from_being_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise ConfigurationError("no space left")

    monkeypatch.setattr(document, "save", refuse)
    verdict, values = audited(bad(), tmp_path / "auditor", Terms(), monkeypatch)
    assert (verdict.verdict, verdict.unkept, values["not_kept"]) == (FAIL, ["no space left"], ["no space left"])
    [kept] = (tmp_path / "auditor" / "verdicts").glob("*.json")
    assert json.loads(kept.read_text())["verdict"] == FAIL
    assert Verdicts(tmp_path / "auditor", bad().signer.verifier).directory == kept.parent


def test_a_file_s_name_does_not_write_the_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log's own note, newer than the log that is served, in a file with a name for the terminal."""
    handed_in = tmp_path / "receipts"
    handed_in.mkdir()
    world = World.honest()
    late = world.answers[-1].receipt
    name = STEERING.replace("\ud800", "").replace("\n", "")
    (handed_in / name).write_bytes(late.encode())
    served = World.honest()
    del served.messages[-2:]
    given, _ = read_receipts(handed_in)
    verdict, values = audited(served, tmp_path / "auditor", Terms(receipts=given), monkeypatch)
    assert verdict.verdict == NO_VERDICT
    assert "\\x1b[2K" in verdict.line(), "it is named, but not obeyed"
    for said in (verdict.line(), *(step.message for step in verdict.steps), verdict.obstacle.way_out):
        assert printable(said) == said
    text = (tmp_path / "auditor" / "report" / "report.html").read_text()
    assert "\x1b" not in text + json.dumps(values, ensure_ascii=False)


@pytest.mark.parametrize("kind", [AuditError, LedgerError, errors.TransportError])
def test_an_error_s_text_is_printable(kind: type[AuditError]) -> None:
    said = str(kind(f"the provider says: {STEERING}"))
    assert said.replace("\n", "").isprintable()
    assert said.encode()
    assert "\\x1b[2K" in said
    assert str(kind(said)) == said, "quoted again it stays the same"
    _, text, _ = status_of(kind(STEERING))
    assert text.encode()


def test_text_that_is_printable_stays_as_it_is() -> None:
    for text in ("", "plain", "été ä € 日本 \N{GRINNING FACE}", r"a back\slash", "'quotes\""):
        assert printable(text) == text
    assert printable("a\tb\nc\x07", keep="\n\t") == "a\tb\nc\\x07"
    assert printable("\ud800\u202e\x1b\u2028") == "\\ud800\\u202e\\x1b\\u2028"


def test_a_report_with_half_a_surrogate_pair_is_written(tmp_path: Path) -> None:
    verdict = World.honest().audit(now=CLOSES + 60)
    verdict.set_aside += [audit.SetAside("\udcff", "no receipt")]
    values = document.build(replace(verdict))
    document.save(tmp_path, reports_of(values))
    assert json.loads((tmp_path / "report.json").read_text())["set_aside"]

# SPDX-License-Identifier: GPL-3.0-or-later
"""Each example does what its first line says; those of an account: tests/client/test_against_provider.py."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from examples import audit_offline
from ragseal.backends.group import available
from ragseal.kernel.errors import BudgetError
from ragseal.verifier.evidence.evidence import Undecided
from tests.simulator import NOW, SimulatedEvidence, World

ROOT = Path(__file__).resolve().parents[1]


def test_every_example_is_listed_and_tested() -> None:
    found = {path.stem for path in (ROOT / "examples").glob("*.py")}
    listed = (ROOT / "examples" / "README.md").read_text()
    assert all(f"({name}.py)" in listed for name in found)
    assert found == {"one_window", "in_memory", "parties", "ask", "langchain", "audit_offline", "private_answers"}


@pytest.mark.slow
@pytest.mark.skipif(not available(), reason="the native module is not installed")
def test_one_window_ends_in_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from examples.one_window import one_window

    verdict = one_window(tmp_path, "How do I rotate a log file?")
    assert verdict.verdict == "PASS", verdict.line()
    assert (verdict.records, verdict.proven, len(verdict.steps)) == (1, 1, 11)
    shown = capsys.readouterr().out
    assert "receipt   record 0" in shown
    assert shown.count(" ok\n") == 11


def test_private_answers_are_what_texts_agree_on_and_end_with_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    from examples import private_answers as example
    from examples.private_answers import POLICY, private_answers

    monkeypatch.setattr(example, "POLICY", replace(POLICY, documents=12, exact=False))  # the same, sooner
    texts = [f"Week {week}. Ada Tavner was in the chair." for week in range(14)]
    answers = private_answers([*texts, "Week 59. Bo Lindqvist was in the chair."])
    shown = {answers.answer("ann", "Who was in the chair?").text for _ in range(POLICY.n_max)}
    assert shown <= {"Nothing is known about this.", *("ada, tavner", "ada", "tavner", "ada, tavner, week")}
    with pytest.raises(BudgetError, match="ask again in the next one"):
        answers.answer("ann", "Who was in the chair?")


def test_an_audit_is_replayed_from_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World.honest()
    here = audit_offline.environment()
    monkeypatch.setattr(audit_offline, "environment", lambda: replace(here, now=NOW))
    first = audit_offline.keep(SimulatedEvidence(world), world.auditor(), tmp_path / "evidence.jsonl")
    assert first.verdict == "PASS", first.line()
    monkeypatch.setattr(audit_offline, "environment", lambda: replace(here, now=0))  # the file's clock counts
    again = audit_offline.replay(tmp_path / "evidence.jsonl", world.auditor())
    assert again.line() == first.line()
    assert [(s.number, s.status, s.evidence, s.seconds) for s in again.steps] == [
        (s.number, s.status, s.evidence, s.seconds) for s in first.steps
    ]

    lines = (tmp_path / "evidence.jsonl").read_text().splitlines()
    (tmp_path / "short.jsonl").write_text("\n".join(lines[:-4]))
    with pytest.raises(Undecided, match="the file has no more of"):
        audit_offline.replay(tmp_path / "short.jsonl", world.auditor())
    at = next(i for i, line in enumerate(lines) if line.startswith('["entries"'))
    changed = [*lines[:at], lines[at].replace("a", "b", 1), *lines[at + 1 :]]
    (tmp_path / "changed.jsonl").write_text("\n".join(changed))
    assert audit_offline.replay(tmp_path / "changed.jsonl", world.auditor()).verdict != "PASS"

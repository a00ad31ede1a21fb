# SPDX-License-Identifier: GPL-3.0-or-later
"""A verdict as OSCAL assessment results: read by NIST's model as compliance-trestle has it.  SPEC D.21."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ragseal.kernel.verdict import word
from ragseal.verifier.__main__ import main
from ragseal.verifier.outcome.outcome import Verdict
from ragseal.verifier.signed import envelope
from ragseal.verifier.signed.oscal import assessment_results, control_of
from ragseal.verifier.signed.statement import PAYLOAD_TYPE, read_verdict
from tests.simulator import World, asked
from tests.verifier.test_signed_verdict import KEY, PUBLIC, payload, signed


def rendered(verdict: Verdict) -> tuple[bytes, dict[str, Any]]:
    data, _ = signed(verdict)
    made = assessment_results(data, read_verdict(data, PUBLIC))
    return made, json.loads(made)["assessment-results"]


@pytest.fixture(scope="module")
def verdicts() -> dict[str, Verdict]:
    away = World.honest()
    away.messages.pop()  # the closing entry: the window is still open
    return {"PASS": World.honest().audit(), "FAIL": asked(sign_as="mallory").audit(), "NO VERDICT": away.audit()}


def all_ids(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["uuid"]] if "uuid" in value else []
        return own + [one for part in value.values() for one in all_ids(part)]
    return [one for part in value for one in all_ids(part)] if isinstance(value, list) else []


@pytest.mark.parametrize("word", ["PASS", "FAIL", "NO VERDICT"])
def test_one_observation_a_step_and_one_finding_a_failure(verdicts: dict[str, Verdict], word: str) -> None:
    verdict = verdicts[word]
    assert verdict.verdict == word
    made, values = rendered(verdict)
    [result] = values["results"]
    assert len(result["observations"]) == len(verdict.steps)
    assert {p["name"]: p["value"] for p in result["props"]}["line"] == " ".join(verdict.line().split())
    findings = result.get("findings", [])
    assert len(findings) == (word == "FAIL"), "a NO VERDICT found nothing"
    for one in findings:
        assert one["target"]["target-id"] == control_of(verdict.failure.number)  # type: ignore[union-attr]
        [related] = one["related-observations"]
        [seen] = [o for o in result["observations"] if o["uuid"] == related["observation-uuid"]]
        assert seen["props"][0]["value"] == "failed"
    if word == "NO VERDICT":
        assert any("What would decide it" in one.get("remarks", "") for one in result["observations"])
    assert rendered(verdict)[0] == made, "the same verdict, the same bytes"
    ids = all_ids(values)
    assert len(set(ids)) == len(ids)
    assert {uuid.UUID(one).version for one in ids} == {5}
    assert "does not say" in result["remarks"]


@pytest.mark.parametrize("word", ["PASS", "FAIL", "NO VERDICT"])
def test_trestle_loads_it(verdicts: dict[str, Verdict], word: str, tmp_path: Path) -> None:
    assessment = pytest.importorskip(
        "trestle.oscal.assessment_results", reason="compliance-trestle is not installed: pip install 'ragseal[oscal]'"
    )
    made, values = rendered(verdicts[word])
    (tmp_path / "results.json").write_bytes(made)
    found = assessment.AssessmentResults.oscal_read(tmp_path / "results.json")
    assert found.uuid == values["uuid"]
    assert len(found.results[0].observations) == len(values["results"][0]["observations"])
    spoiled = json.loads(made)
    del spoiled["assessment-results"]["import-ap"]
    (tmp_path / "spoiled.json").write_text(json.dumps(spoiled))
    with pytest.raises(Exception, match="import"):
        assessment.AssessmentResults.oscal_read(tmp_path / "spoiled.json")


def test_names_of_others_are_no_markup(verdicts: dict[str, Verdict]) -> None:
    """A provider chooses the window's name, and what a step says quotes accounts."""
    data, _ = signed(verdicts["FAIL"])
    said = payload(data)
    hostile = "x](javascript:alert(1))<img src=x onerror=y>\x1b[2K\u202e\r\n# PASS"
    said["predicate"]["steps"][0]["message"] = hostile
    said["predicate"]["window"] = hostile
    said["predicate"]["doesNotSay"] = [hostile]
    said["predicate"]["line"] = said["predicate"]["line"].replace(" window=w1@", f" window={word(hostile)}@")
    for one in said["subject"]:
        one["name"] = one["name"].replace("manifest of window w1", f"manifest of window {hostile}")
    changed = envelope.seal(PAYLOAD_TYPE, json.dumps(said).encode(), KEY)
    text = assessment_results(changed, read_verdict(changed, PUBLIC)).decode()
    assert text.replace("\n", "").isprintable()
    for bad in ("](", "<img", "\n# PASS"):
        assert bad not in json.loads(text)["assessment-results"]["results"][0]["remarks"].replace("\\]", "").replace(
            "\\<", ""
        )
    values = json.loads(text)["assessment-results"]
    assert "\\<img" in values["metadata"]["title"]


def test_bounds_are_those_of_the_line(verdicts: dict[str, Verdict]) -> None:
    data, _ = signed(verdicts["PASS"])
    found = read_verdict(data, PUBLIC)
    made = json.loads(assessment_results(data, found))["assessment-results"]["results"][0]["props"]
    (epsilon,) = [one["value"] for one in made if one["name"] == "epsilon"]
    assert f" epsilon_audit={epsilon} " in found.line
    assert found.claims and epsilon == found.claims[0].epsilon  # noqa: PT018


def test_the_command_writes_it(verdicts: dict[str, Verdict], tmp_path: Path) -> None:
    data, _ = signed(verdicts["FAIL"])
    (tmp_path / "v").write_bytes(data)
    run = ["verdict", "oscal", str(tmp_path / "v"), "--auditor", PUBLIC.hex()]
    shown = CliRunner().invoke(main, run)
    assert shown.exit_code == 0, shown.output
    assert shown.stdout_bytes == rendered(verdicts["FAIL"])[0]
    assert CliRunner().invoke(main, [*run, "--out", str(tmp_path / "o")]).exit_code == 0
    assert (tmp_path / "o").read_bytes() == shown.stdout_bytes
    refused = CliRunner().invoke(main, [*run[:-1], "00" * 31 + "09"])
    assert refused.exit_code == 1

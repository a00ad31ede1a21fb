# SPDX-License-Identifier: GPL-3.0-or-later
"""report.json and report.html: complete, self-contained, and safe against whatever evidence holds."""

from __future__ import annotations

import copy
import html
import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from ragseal.accounting.bands import BANDS, band_of
from ragseal.accounting.claims import named
from ragseal.accounting.claims.bound import right
from ragseal.accounting.claims.every_list import ListsBound
from ragseal.accounting.period import PeriodReport
from ragseal.kernel.claims import EVERY_LIST
from ragseal.kernel.errors import ConfigurationError
from ragseal.verifier.outcome import guess
from ragseal.verifier.report import board, claim, document, page
from ragseal.verifier.report.board import LIMITS
from ragseal.verifier.signed.entering import reports_of
from ragseal.verifier.steps.blocks import Effort
from ragseal.verifier.steps.sample import Sample
from tests.classes import TINY
from tests.simulator import World, asked, policy, pseudonym


@pytest.fixture(scope="module")
def honest() -> dict[str, Any]:
    world = World.honest()
    return document.build(world.audit(receipts=world.receipts()))


def test_report_holds_what_machines_ask_for(honest: dict[str, Any]) -> None:
    values = json.loads(document.to_json(honest))
    assert values["verdict"] == "PASS"
    assert values["line"].startswith("PASS epsilon_audit=")
    assert (values["mode"], values["keys"], values["records"], values["proven"]) == ("full", "auditor", 7, 7)
    assert 0 < values["epsilon_audit"] < 10
    assert values["delta"] == 1e-06
    assert [step["number"] for step in values["steps"]] == list(range(1, 12))
    assert all({"title", "status", "evidence", "seconds"} <= set(step) for step in values["steps"])
    assert values["does_not_say"] == named(EVERY_LIST).does_not_say()
    assert values["claim"].startswith(f"{named(EVERY_LIST).text()} Here k_max is 2, n_max 3, epsilon ")
    assert values["policy"]["k_max"] == 2
    assert values["tenants"][0] == {
        "tenant": "north",
        "total": 5,
        "checked": 5,
        "unchecked": 0,
        "acknowledged": 5,
    }
    assert {"truncation", "overflow", "grid"} <= set(values["epsilon"]["accounting"][TINY.name]["delta"])
    assert "total_seconds" in values["timings"]


def test_a_failure_carries_no_epsilon() -> None:
    for world in (asked(sign_as="mallory"), World.honest(policy_=policy(epsilon_account="1/2"))):
        values = document.build(world.audit())
        assert values["verdict"] == "FAIL"
        assert values["epsilon_audit"] is None
        assert values["failure"]["evidence"]


def test_qualified_verdicts_say_so() -> None:
    sampled = document.build(World.honest().audit(sample=Sample(2)))
    assert sampled["does_not_say"][0] == claim.SAMPLED
    world = World.honest()
    world.made_by = "provider"
    said = document.build(world.audit())["does_not_say"]
    assert said[:2] == [claim.NO_VERDICT, claim.UNSAFE]


def test_a_verdict_says_how_good_a_guess_is() -> None:
    """Also beside epsilon, rounded up, for one account and the coalition; a PASS is as green as epsilon is small."""
    verdict = World.honest().audit()
    values = document.build(verdict)
    guessed = values["attacker_guess"]
    assert verdict.budget is not None
    assert 50 < guessed["account_per_cent"] < guessed["coalition_per_cent"] <= 100
    epsilon, delta = verdict.budget.epsilon, verdict.budget.delta
    exact = 100 * (math.exp(epsilon) + delta) / (1 + math.exp(epsilon))
    assert exact <= guessed["coalition_per_cent"] < exact + 0.1001
    assert values["tone"] == ("good" if epsilon <= 4 else "mid")
    assert f"{guessed['coalition_per_cent']:g} %" in guessed["sentence"]


@pytest.mark.parametrize(
    ("epsilon", "per_cent", "tone"),
    [(0.0, 50.1, "good"), (3.0, 95.3, "good"), (4.0, 98.3, "good"), (4.1, 98.4, "mid"), (85.77, 100.0, "mid")],
)
def test_best_guess(epsilon: float, per_cent: float, tone: str) -> None:
    said = ListsBound(PeriodReport(epsilon, 2, 1, 6, {}), {}).guess(epsilon, 1e-6, 2)
    assert said["account_per_cent"] == said["coalition_per_cent"] == per_cent
    assert said["sentence"].count(f" {per_cent:g} % ") == 2
    assert guess.tone("PASS", epsilon) == tone
    assert guess.tone("SAMPLED-PASS", epsilon) == "mid"


def test_best_guess_at_the_ends() -> None:
    assert right(0.0, 0.0) == 0.5
    assert right(0.0, 1.0) == 1.0
    assert right(math.inf, 0.0) == right(math.nan, 0.0) == 1.0
    assert guess.tone("PASS", math.nan) == guess.tone("PASS", None) == "mid"
    assert (guess.tone("FAIL", 1.0), guess.tone("NO VERDICT", 1.0)) == ("bad", "open")


class Outline(HTMLParser):
    """Collects tags, and everything that would load something."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.loads: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        inside = {name for name, value in attrs if name == "href" and value == f"#{LIMITS}"}  # within the page
        names = {name for name, _ in attrs} - inside
        self.loads += [(tag, name) for name in names if name in ("src", "href", "action") or name.startswith("on")]


def outline(text: str) -> Outline:
    found = Outline()
    found.feed(text)
    return found


def test_page_is_self_contained(honest: dict[str, Any]) -> None:
    text = page.render(honest)
    found = outline(text)
    assert found.loads == []
    assert not {"script", "link", "img", "iframe"} & set(found.tags)
    assert "url(" not in text
    assert "@import" not in text
    assert found.tags.count("details") == 11 + 3, "a step each; epsilon's details, policy and timings"
    assert 'lang="en"' in text
    assert text.index("PASS") < text.index("Checklist") < text.index("Timings")


def test_page_escapes_everything(honest: dict[str, Any]) -> None:
    bad = '<script>alert(1)</script>"><img src=x onerror=y>'

    def poison(value: Any) -> Any:
        if isinstance(value, dict):
            return {(k if k in KEYS else bad): poison(v) for k, v in value.items()}
        if isinstance(value, list):
            return [poison(v) for v in value]
        return value if isinstance(value, int | float) else bad

    values = {key: poison(value) for key, value in honest.items()}
    values["steps"] = [{**poison(step), "seconds": 0.0, "evidence": {bad: bad}} for step in honest["steps"]]
    values["tenants"] = [dict.fromkeys(tenant, bad) for tenant in honest["tenants"]]
    values["estimate"] = poisoned_estimate(honest["estimate"], bad)
    values["epsilon"] = poisoned_epsilon(honest["epsilon"], bad)
    values["failure"] = {"step": bad, "message": bad, "evidence": {}}
    found = outline(page.render(values))
    assert found.loads == []
    assert "script" not in found.tags
    assert "img" not in found.tags


def poisoned_epsilon(values: dict[str, Any], bad: str) -> dict[str, Any]:
    """Every text replaced, classes renamed, the tables filled."""

    def poison(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: poison(entry) for key, entry in value.items()}
        if isinstance(value, list):
            return [poison(entry) for entry in value] or [{bad: bad}]
        return value if isinstance(value, int | float) else bad

    out = {key: poison(entry) for key, entry in values.items()}
    for name in ("accounting", "second_implementation"):
        out[name] = {bad: next(iter(out[name].values()))}
    return {**out, bad: bad}


def poisoned_estimate(value: Any, bad: str) -> Any:
    """Every text replaced, the account and link tables filled."""
    if isinstance(value, dict):
        out = {key: poisoned_estimate(entry, bad) for key, entry in value.items()}
        if "clusters" in out:
            out["clusters"] = [{"accounts": [bad], "records": bad}]
            out["listed"] = [{"seqs": [bad, bad], "accounts": [bad, bad]}]
        return out
    if isinstance(value, list):
        return [poisoned_estimate(entry, bad) for entry in value] or [bad]
    return value if isinstance(value, int | float) else bad


KEYS = {"number", "title", "status", "message", "evidence", "seconds"}


def test_values_become_plain() -> None:
    assert document.plain({"a": b"\x01", "b": 1 << 60, "c": float("inf"), 5: (True, None)}) == {
        "a": "01",
        "b": str(1 << 60),
        "c": "inf",
        "5": [True, None],
    }
    assert document.plain(policy())["message"] == "policy"


def test_saved_whole_or_refused(tmp_path: Path, honest: dict[str, Any]) -> None:
    document.save(tmp_path / "deep" / "out", {**reports_of(honest), "beside.txt": b"1"})
    assert json.loads((tmp_path / "deep" / "out" / "report.json").read_bytes())["verdict"] == "PASS"
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="cannot write the report"):
        document.save(tmp_path / "file", reports_of(honest))


def test_lines_never_hold_a_newline() -> None:
    verdict = World.honest().audit()
    assert verdict.failure is None
    failed = asked(sign_as="mallory").audit()
    assert failed.failure is not None
    failed.failure.message = "two\nlines"
    assert "\n" not in failed.line()
    assert replace(verdict).line() == verdict.line()


def test_the_page_shows_the_coalition() -> None:
    """Members, links and the picture; the report carries all that SPEC C.7 wants stated."""
    world = World()
    world.commit()
    for account, e in (("alice", [90, 90, 0, 0]), ("bob", [90, 90, 0, 0]), ("carol", [0, 0, 127, 0])):
        world.ask(account, e=e)
    world.close()
    values = document.build(world.audit())
    estimate = values["estimate"]
    assert {"c", "k_max", "theta", "tau", "members", "links", "certificate", "caught", "rates"} <= set(estimate)
    assert (estimate["c"], estimate["members"], estimate["links"]) == (
        2,
        sorted([pseudonym("alice"), pseudonym("bob")]),
        1,
    )
    assert estimate["caught"] == {"share": 0.0, "confidence": 1.0}
    assert estimate["tenants"][0]["listed"] == [{"seqs": [0, 1], "accounts": [pseudonym("alice"), pseudonym("bob")]}]
    text = page.render(values)
    assert "Coalition estimate" in text
    assert "2; k_max of the policy is 2" in text
    assert "0 and 1" in text
    assert "<svg" in text


def test_a_sampled_certificate_says_what_it_leaves_open() -> None:
    world = World.honest()
    values = document.build(world.audit(effort=Effort(full=0, sampled=2)))
    assert " estimate=sampled window=" in values["line"]
    assert values["estimate"]["certificate"] == "sampled"
    assert values["estimate"]["caught"]["confidence"] == 0.99
    said = values["does_not_say"][0]
    assert "2 random sets of records were checked" in said
    assert "99% confidence" in said


# --- the first page --------------------------------------------------------------------------------------------------


def first_page(values: dict[str, Any]) -> str:
    """What stands before the checklist, as text."""
    text = page.render(values)
    return re.sub(r"<[^>]*>", " ", text[text.index("<body>") : text.index("Checklist")])


def graded(values: dict[str, Any], epsilon: float) -> dict[str, Any]:
    out = copy.deepcopy(values)
    out["epsilon_audit"] = epsilon
    return out


@pytest.mark.parametrize(
    ("epsilon", "band"),
    [(0.0, "strong"), (1.0, "strong"), (1.001, "moderate"), (4.0, "moderate"), (4.001, "weak"), (10.0, "weak"),
     (10.001, "next to none"), (math.inf, "next to none"), (math.nan, "next to none")],
)  # fmt: skip
def test_a_band_ends_where_its_source_says(epsilon: float, band: str) -> None:
    assert band_of(epsilon).name == band


def test_claim_and_five_sentences_stand_above_everything_but_the_verdict(honest: dict[str, Any]) -> None:
    text = page.render(honest)
    order = [
        "<strong>PASS", "Audited by ", "What is claimed", "In five sentences", "What it does not say",
        "What the number means", "Who, when, with what", "Checklist", "Epsilon, in detail",
    ]  # fmt: skip
    assert [text.index(one) for one in order] == sorted(text.index(one) for one in order)
    assert "doi 10.1613/jair.1.14649" in first_page(honest)


@pytest.mark.parametrize(
    ("epsilon", "band"), [(0.7, "strong"), (2.5, "moderate"), (6.0, "weak"), (85.8, "next to none")]
)
def test_account_and_coalition_are_graded_apart(honest: dict[str, Any], epsilon: float, band: str) -> None:
    values = graded(honest, epsilon)
    alone, together = board.grades(values)
    assert (together[0], together[3].name) == ("2 accounts together, over the budget period", band)
    assert alone[0] == "one account, in this window"
    assert alone[3] == band_of(honest["epsilon"]["epsilon_of_one_account"])
    exact = 100 * (1 - (1 - values["delta"]) / (1 + math.exp(epsilon)))
    assert exact <= together[2] < exact + 0.1001, "rounded up"
    said = first_page(values)
    assert f"{together[2]:g} %" in said
    for who, _, _, own in (alone, together):
        assert re.search(rf"{own.name} +epsilon ((?!epsilon).)*Here: [^.]*{re.escape(who)}", said), (who, said)


def test_a_band_s_words_are_its_bound() -> None:
    for band in BANDS[:-1]:
        wrong = 1 / (1 + math.exp(band.upto))
        at_most, one_of = re.findall(r"[0-9][0-9.,]*", band.means)
        assert 0 <= float(at_most) / 100 - (1 - wrong) < 0.0011, "rounded up"
        assert 1 / int(one_of.replace(",", "")) <= wrong, "no more doubt than there is"


def test_bands_and_tones_agree() -> None:
    """A page is green exactly where every band that it shows as its own is."""
    for band in BANDS:
        for epsilon in (band.upto, math.nextafter(band.upto, 0)):
            assert (band.tone == "good") == (guess.tone("PASS", epsilon) == "good")


def test_what_a_pass_does_not_say_stands_on_page_one_and_below_nothing_else(honest: dict[str, Any]) -> None:
    said = first_page(honest)
    for one in named(EVERY_LIST).in_short():
        assert html.escape(one) in said
    sampled = document.build(World.honest().audit(sample=Sample(2)))
    assert claim.SAMPLED in first_page(sampled)
    assert "estimated, not known" in said
    failed = document.build(asked(sign_as="mallory").audit())
    assert board.grade(failed) == board.limits(failed) == ""
    assert "may the guess be right" not in page.render(failed)


def test_a_report_of_somebody_else_spoils_no_grade(honest: dict[str, Any]) -> None:
    for changes in ({"epsilon": None}, {"epsilon_audit": "<b>"}, {"delta": None}, {"epsilon_audit": "inf"}):
        text = page.render({**honest, **changes})
        assert "<b>" not in text

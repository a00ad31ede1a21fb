# SPDX-License-Identifier: GPL-3.0-or-later
"""Pages of all claims and outcomes: who, when and what; no program's spelling of a value; each fact once."""

from __future__ import annotations

import copy
import html
import re
from collections.abc import Callable
from typing import Any

import pytest

from ragseal.accounting.rounding import for_people
from ragseal.kernel.commitment import WindowClose, WindowOpen
from ragseal.runtime.face import when
from ragseal.verifier.outcome.outcome import Ending, Verdict
from ragseal.verifier.report import document, page
from ragseal.verifier.steps.blocks import Effort
from ragseal.verifier.steps.sample import Sample
from tests.simulator import CLOSES, OPENS, World, asked, policy, pseudonym
from tests.simulator.coined import CoinedWorld
from tests.simulator.coined import policy as coined_policy

#: What Python writes and people do not read.
SPELLINGS = re.compile(r"\d\.\d{7,}|\b(True|False|None|inf|nan|NaN|Infinity)\b")


def visible(values: dict[str, Any]) -> str:
    """A page's text, with what folded parts hold."""
    text = page.render(values)
    return html.unescape(re.sub(r"<[^>]*>", " ", re.sub(r"<style>.*?</style>", "", text, flags=re.S)))


def joined_world(questions: int = 4) -> World:
    """Two accounts ask the same questions, a third another one."""
    world = World()
    world.commit(policy_=policy(n_max=8))
    for at in range(questions):
        for account in ("alice", "bob"):
            world.ask(account, e=[127 if i == at else 0 for i in range(4)])
    world.close()
    return world


def delivered() -> Verdict:
    world = CoinedWorld()
    world.commit()
    world.ask("alice")
    world.close()
    return world.audit()


def carried() -> Verdict:
    """The second window carries on the first one's coins."""
    world = CoinedWorld()
    world.commit("w1")
    first = world.digest
    world.close()
    world.enter_manifest("w2", policy_=coined_policy(opens=CLOSES, closes=CLOSES + 3600), carries=first)
    world.enter_beacon()
    world.messages[-1] = WindowOpen(world.digest, world.beacon, CLOSES + 60)
    world.messages.append(WindowClose(world.digest, 0, CLOSES + 600))
    return world.audit(now=CLOSES + 7200)


def unsafe() -> Verdict:
    world = World.honest()
    world.made_by = "provider"
    return world.audit()


def still_open() -> Verdict:
    world = World.honest()
    world.messages.pop()
    return world.audit()


def nothing_found() -> Verdict:
    verdict = Verdict(origin="log")
    verdict.end(Ending(0, "a file is damaged", {}, "restore it"))
    return verdict


def with_receipts() -> Verdict:
    world = World.honest()
    return world.audit(receipts=world.receipts())


OUTCOMES: dict[str, Callable[[], Verdict]] = {
    "every-list": with_receipts,
    "joined": lambda: joined_world().audit(),
    "sampled": lambda: World.honest().audit(sample=Sample(2), effort=Effort(full=0, sampled=2)),
    "until-delivered": delivered,
    "carried": carried,
    "fail": lambda: asked(sign_as="mallory").audit(),
    "fail of the policy": lambda: World.honest(policy_=policy(epsilon_account="1/2")).audit(),
    "no verdict": still_open,
    "unsafe": unsafe,
    "nothing found": nothing_found,
}


@pytest.fixture(scope="module")
def reports() -> dict[str, dict[str, Any]]:
    return {name: document.build(make()) for name, make in OUTCOMES.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", OUTCOMES)
def test_no_value_is_spelt_as_python_spells_it(reports: dict[str, dict[str, Any]], name: str) -> None:
    text = visible(reports[name])
    found = [text[max(0, one.start() - 40) : one.end() + 20] for one in SPELLINGS.finditer(text)]
    assert found == []


def test_whatever_evidence_holds_is_written_for_people(reports: dict[str, dict[str, Any]]) -> None:
    """Wherever a value may stand: in evidence, in lists, in rows, in epsilon's details, in the policy."""
    odd = {
        "flag": True, "off": False, "missing": None, "third": 1 / 3, "sum": 5.999999966666666, "tiny": 1e-06,
        "endless": "inf", "none": "nan", "list": [0.1 + 0.2, True, None, "inf"], "deep": [{"a": {"b": 1 / 7}}],
        "epsilon_of_it": 2.0000000001, "return_by_two_routes": [5.999999966666666, 5.9999999],
    }  # fmt: skip
    for name in ("every-list", "until-delivered", "no verdict"):
        values = copy.deepcopy(reports[name])
        for step in values["steps"]:
            step["evidence"] = odd
        values["policy"] = {**values["policy"], **odd}
        values["timings"] = odd
        values["set_aside"] = [odd, odd]
        values["window_times"]["closed"] = None
        if values["epsilon"]:
            values["epsilon"] = {**values["epsilon"], **odd, "odometer": [odd]}
        assert not SPELLINGS.search(visible(values)), name
        assert "no bound" in visible(values)


def test_bounds_are_rounded_up_and_nothing_else_is() -> None:
    assert for_people(5.999999966666666, bound=True) == "6"
    assert for_people(1.0000001, bound=True) == "1.00001"
    assert for_people(1.0000001) == "1"
    assert [for_people(one) for one in (True, False, None, "")] == ["yes", "no", "none", "none"]
    assert [for_people(one) for one in (1e-06, 1.84273e-30, 1e20)] == ["1e-6", "1.84273e-30", "1e+20"]
    assert [for_people(one) for one in (float("inf"), float("-inf"), "nan")] == [
        "no bound", "minus infinity", "not a number",
    ]  # fmt: skip
    assert [for_people(one) for one in (7, "infinite", "a nan b", 1 << 60)] == [
        "7", "infinite", "a nan b", str(1 << 60),
    ]  # fmt: skip


# --- who, when, what --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(set(OUTCOMES) - {"nothing found"}))
def test_a_report_says_who_audited_when_and_with_what(reports: dict[str, dict[str, Any]], name: str) -> None:
    values, world = reports[name], World.honest()
    assert values["auditor"]["key"] == world.auditor().identity.hex()
    assert values["program"]["with"]["cryptography"]
    text = visible(values)
    banner = re.search(r'aria-label="Verdict">(.*?)</section>', page.render(values), re.S)
    assert banner is not None
    moment = values["issued"][:16].replace("T", " ") + " UTC"
    assert f"Audited by {values['auditor']['name']} (key {values['auditor']['key'][:12]}" in banner[1]
    assert f" on {moment} with ragseal-verifier {values['program']['version']}" in banner[1]
    assert values["auditor"]["key"] in text
    assert f"cryptography {values['program']['with']['cryptography']}" in text


def test_an_auditor_without_a_seat_has_no_name(reports: dict[str, dict[str, Any]]) -> None:
    assert reports["nothing found"]["auditor"] == {"name": None, "key": ""}
    assert "without a name in this window" in visible(reports["nothing found"])


def test_the_window_s_times_are_the_log_s_and_not_the_policy_s(reports: dict[str, dict[str, Any]]) -> None:
    """A window of an hour that was closed after two minutes was said to be usable until the hour's end."""
    world = World()
    world.commit()
    world.ask("alice")
    world.close()
    world.messages[-1] = WindowClose(world.digest, 1, OPENS + 240)
    values = document.build(world.audit())
    assert values["verdict"] == "PASS"
    times = values["window_times"]
    assert times == {
        "opened": OPENS + 60, "closed": OPENS + 240, "first_record": times["last_record"],
        "last_record": times["last_record"], "allowed_from": OPENS, "allowed_until": OPENS + 60 + CLOSES - OPENS,
    }  # fmt: skip
    assert OPENS + 60 <= times["last_record"] <= OPENS + 240
    text = visible(values)
    for moment in (OPENS + 60, OPENS + 240, times["last_record"], CLOSES + 60):
        assert when(moment) in text
    assert f"opened on {when(OPENS + 60)} and closed on {when(OPENS + 240)}" in text
    assert f"could be used from {when(OPENS)} to {when(CLOSES)}" not in text
    unclosed = reports["no verdict"]["window_times"]
    assert unclosed["closed"] is None
    assert "not closed in the log that was read" in visible(reports["no verdict"])


# --- order, and each fact once ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["every-list", "until-delivered", "carried", "sampled"])
def test_the_claim_stands_whole_and_above_every_number(reports: dict[str, dict[str, Any]], name: str) -> None:
    text = page.render(reports[name])
    claim = html.escape(reports[name]["claim"])
    assert claim in text, "a claim that is cut is another one"
    first = min(text.index(part) for part in ('class="facts"', "<table", "<details", "Checklist"))
    assert text.index('aria-label="Verdict"') < text.index(claim) < text.index('<ol class="plain">') < first
    for note in reports[name]["does_not_say"]:
        assert html.escape(note) in text
    detail = text.index("Epsilon, in detail")
    assert text[:detail].count("<details") == text[:detail].count("</details>") + 1, "epsilon's details are folded"


@pytest.mark.parametrize("name", ["no verdict", "unsafe", "fail", "fail of the policy"])
def test_what_ended_an_audit_is_said_once(reports: dict[str, dict[str, Any]], name: str) -> None:
    values = reports[name]
    ending = values["failure"] or values["no_verdict"]
    text = visible(values)
    assert text.count(ending["message"]) == 1
    if ending.get("way_out"):
        assert text.count(ending["way_out"].rstrip(".")) == 1
    assert values["claim"] not in text
    step = next(one for one in values["steps"] if one["number"] == ending["step"])
    assert step["status"] == ("failed" if values["failure"] else "no verdict"), "never ok where the verdict is not"


def test_accounts_that_are_joined_by_several_questions_are_shown_once() -> None:
    """One pair of accounts asked four questions: four pictures and eight rows said so."""
    values = document.build(joined_world(4).audit())
    assert values["estimate"]["tenants"][0]["c"] == 2
    assert len(values["estimate"]["tenants"][0]["clusters"]) == 4
    text = page.render(values)
    assert text.count("<circle") == 2
    assert text.count("2 accounts, 8 records") == 1
    shown = re.sub(r"<title>.*?</title>", "", text, flags=re.S)
    pair = ", ".join(sorted(one[:12] for one in (pseudonym("alice"), pseudonym("bob"))))
    shown = shown[shown.index("Coalition estimate") :]
    cells = [re.sub("\u2026", "", one) for one in re.findall(r"<td[^>]*>([^<]*)</td>", shown)]
    assert cells.count(pair) == 1
    assert "0 and 1; 2 and 3; 4 and 5; 6 and 7" in cells

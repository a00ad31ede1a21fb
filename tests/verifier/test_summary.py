# SPDX-License-Identifier: GPL-3.0-or-later
"""A report is not read wrong: five sentences, the guess in the banner, and a colour that follows it."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest

from ragseal.accounting.guess import STRONG, best_guess
from ragseal.accounting.rounding import per_cent
from ragseal.verifier.report import document, page, summary
from ragseal.verifier.steps.sample import Sample
from tests.verifier.simulator import World, asked, pseudonym


@pytest.fixture(scope="module")
def honest() -> dict[str, Any]:
    return document.build(World.honest().audit())


@pytest.fixture(scope="module")
def failed() -> dict[str, Any]:
    return document.build(asked(sign_as="mallory").audit())


def changed(values: dict[str, Any], epsilon: Any, **more: Any) -> dict[str, Any]:
    out = copy.deepcopy(values)
    out["epsilon_audit"] = out["epsilon"]["epsilon_audit"] = epsilon
    return {**out, **more}


def undecided(failed: dict[str, Any]) -> dict[str, Any]:
    ending = {**failed["failure"], "message": "the provider is away", "way_out": "start it and audit again."}
    steps = [
        {**step, "status": "no verdict" if step["status"] == "failed" else step["status"]} for step in failed["steps"]
    ]
    return {**failed, "verdict": "NO VERDICT", "failure": None, "no_verdict": ending, "steps": steps}


def banner(values: dict[str, Any]) -> tuple[str, str]:
    """(tone, text) of the page's banner."""
    found = re.search(r'<section class="verdict (\w+)" aria-label="Verdict">(.*?)</section>', page.render(values), re.S)
    assert found is not None
    return found.group(1), re.sub(r"<[^>]*>", " ", found.group(2))


@pytest.mark.parametrize(
    ("epsilon", "tone"), [(0.5, "good"), (4.0, "good"), (4.001, "mid"), (393.78, "mid"), ("inf", "mid")]
)
def test_green_is_for_what_bounds_somebody(honest: dict[str, Any], epsilon: Any, tone: str) -> None:
    values = changed(honest, epsilon)
    seen, text = banner(values)
    assert seen == tone == summary.tone(values)
    assert ("proven, but weak" in text) == (tone == "mid")
    if epsilon != "inf":
        assert f"in up to {per_cent(best_guess(float(epsilon), 1e-6))} of all cases with 2 accounts" in text
        assert f"in up to {per_cent(best_guess(values['epsilon']['epsilon_of_one_account'], 1e-6))} with one" in text


def test_less_than_full_is_not_green(honest: dict[str, Any]) -> None:
    sampled = document.build(World.honest().audit(sample=Sample(2)))
    assert sampled["epsilon_audit"] < STRONG
    assert summary.tone(sampled) == "mid"
    assert "weak" not in summary.heading(sampled)


def test_nothing_decided_looks_like_nothing_else(failed: dict[str, Any], honest: dict[str, Any]) -> None:
    values = undecided(failed)
    tone, text = banner(values)
    assert tone == "open"
    assert tone not in (banner(failed)[0], banner(honest)[0])
    assert "the provider is away" in text
    assert "guess" not in text
    said = summary.sentences(values)
    assert "nothing is held against the provider" in said[3]
    assert said[4] == "What would decide it: start it and audit again."
    assert values["claim"] not in page.render(values)


def test_what_was_not_looked_at_is_not_said_to_be_checked(failed: dict[str, Any]) -> None:
    unread = {**undecided(failed), "records": 0, "window": None, "manifest": None, "policy": None}
    who, _, which, _, _ = summary.sentences(unread)
    assert who == f"An auditor set out to check a window of the log {failed['origin']}; it did not come to any answers."
    assert which.startswith("It should have been the log ")
    early = {**undecided(failed), "records": 0}
    assert "set out to check window w1 of the log" in summary.sentences(early)[0]


def test_five_sentences_say_who_when_which_log_what_and_how_weak(
    honest: dict[str, Any], failed: dict[str, Any]
) -> None:
    for values in (honest, failed, undecided(failed), {**failed, "policy": None, "window": None, "manifest": None}):
        said = summary.sentences(values)
        assert len(said) == 5
        assert all(one.endswith(".") and not one.endswith("..") for one in said)
    who, span, which, bounded, weak = summary.sentences(changed(honest, 614.2571))
    assert "7 answers to the accounts of 2 tenants" in who
    assert re.search(r"from 20\d\d-\d\d-\d\d \d\d:\d\d UTC to 20\d\d-", span)
    assert honest["origin"] in which
    assert honest["manifest"][:12] in which
    assert "2 accounts that work together, each with at most 3 questions" in bounded
    assert weak.startswith("How weak: from even odds they may guess right in up to 100 %")
    assert "Do not rely" in summary.sentences(failed)[4]
    assert "Nothing is bounded: step 6" in summary.sentences(failed)[3]


def test_the_page_shows_dates_labels_and_shortened_pseudonyms() -> None:
    world = World()
    world.commit()
    for account in ("alice", "bob"):
        world.ask(account, e=[90, 90, 0, 0])
    world.close()
    long = {pseudonym("alice"): "3fd1c0a97be24c55b0d1", pseudonym("bob"): "9ab4470fe1c24a11aa02"}
    values = rename(document.build(world.audit()), long)
    values["other_windows_of_the_period"] = [{"window": "w0", "manifest": "ab" * 32, "verdict": "not audited"}]
    values["set_aside"] = [{"file": "junk.receipt", "why": "nobody signed it"}]
    text = page.render(values)
    visible = re.sub(r"<title>.*?</title>", "", text, flags=re.S)
    for name in long.values():
        assert name not in visible
        assert f"{name[:12]}\u2026" in visible
    assert "questions an account may ask (n_max)" in text
    assert not re.search(r">1[789]\d{8}<", text)  # seconds since 1970
    assert "not audited" in text
    assert "ab" * 32 not in re.sub(r'title="[^"]*"', "", text)
    assert "nobody signed it" in text


def rename(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: rename(entry, names) for key, entry in value.items()}
    if isinstance(value, list):
        return [rename(entry, names) for entry in value]
    return names.get(value, value) if isinstance(value, str) else value

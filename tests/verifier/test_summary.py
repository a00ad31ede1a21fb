# SPDX-License-Identifier: GPL-3.0-or-later
"""A report is not read wrong: five sentences, the guess in the banner, and a colour that follows it."""

from __future__ import annotations

import copy
import itertools
import re
import xml.etree.ElementTree as ElementTree
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragseal.accounting.guess import STRONG, best_guess
from ragseal.accounting.rounding import per_cent
from ragseal.kernel.commitment import WindowClose, WindowOpen
from ragseal.kernel.errors import TransportError
from ragseal.kernel.inquiry import ProofsAsk
from ragseal.verifier.report import document, page, summary
from ragseal.verifier.report.svg import MOST_ACCOUNTS, MOST_CLUSTERS, WIDTH, Group, clusters_svg
from ragseal.verifier.steps.sample import Sample
from tests.simulator import CLOSES, SimulatedEvidence, World, asked, policy, pseudonym


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
        assert "with 2 accounts over the period, in up to" in text
        assert "with one account in this window." in text


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
    time = r"20\d\d-\d\d-\d\d \d\d:\d\d UTC"
    assert re.match(
        rf"The window was opened on {time} and closed on {time}; its last answer was recorded on {time};", span
    )
    assert honest["origin"] in which
    assert honest["manifest"][:12] in which
    assert "2 accounts that work together, each with at most 3 questions" in bounded
    assert weak.startswith("How weak: from even odds they may guess right in up to 100 %")
    assert "Do not rely" in summary.sentences(failed)[4]
    assert "Nothing is bounded: step 6" in summary.sentences(failed)[3]


def test_one_account_s_bound_is_of_this_window_and_the_coalition_s_of_the_period() -> None:
    """Beside the period's coalition "one account" was read as the period's too; here it is the coalition."""
    world = World()
    world.commit("w1", policy_=policy(k_max=1))
    world.ask("alice")
    world.close()
    world.enter_manifest("w2", policy_=policy(k_max=1, opens=CLOSES, closes=CLOSES + 3600))
    world.enter_beacon()
    world.messages[-1] = WindowOpen(world.digest, world.beacon, CLOSES + 60)
    world.messages.append(WindowClose(world.digest, 0, CLOSES + 600))
    values = document.build(world.audit(now=CLOSES + 7200))
    found = summary.guesses(values)
    assert found is not None
    alone, together = found
    assert together != alone, "one account is the coalition here, and only the time is another"
    assert summary.guess_line(values).endswith(
        f"guesses right in up to {together} of all cases with 1 account over the period, in up to {alone} with one "
        "account in this window."
    )
    rows = dict(re.findall(r'<tr><th scope="row">([^<]*)</th><td class="figure">([^<]*)<', page.render(values)))
    assert rows == {"one account, in this window": alone, "1 account, over the budget period": together}
    bounded = summary.sentences(values)[3]
    assert "questions in this window and as many as the policy of the other window of the period allows," in bounded
    assert f"(one account in this window: {alone})" in summary.sentences(changed(values, 600.0))[4]


def test_as_many_accounts_as_a_coalition_may_have_need_no_word() -> None:
    assert summary.asking_as_one({"estimate": {"c": 2, "k_max": 2}}) == ""
    assert summary.asking_as_one({"estimate": None}) == ""
    assert "more than the k_max of 2" in summary.asking_as_one({"estimate": {"c": 3, "k_max": 2}})


def test_what_was_recorded_is_not_said_to_be_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was proven in an audit that ended at step 8, and the page said "answers checked 7"."""
    deliver = SimulatedEvidence.deliver

    def away(self: SimulatedEvidence, ask: Any, proof: bytes) -> bytes:
        if isinstance(ask, ProofsAsk):
            raise TransportError("no answer")
        return deliver(self, ask, proof)

    with monkeypatch.context() as patch:
        patch.setattr(SimulatedEvidence, "deliver", away)
        values = document.build(World.honest().audit())
    assert (values["no_verdict"]["step"], values["records"], values["proven"]) == (8, 7, 0)
    who = summary.sentences(values)[0]
    assert "checked" not in who
    assert who.endswith("7 answers to the accounts of 2 tenants are recorded there, none of them were proven.")
    assert "answers checked" not in page.render(values)


def test_a_sample_says_how_much_of_it_was_proven(honest: dict[str, Any]) -> None:
    sampled = document.build(World.honest().audit(sample=Sample(2)))
    assert summary.sentences(sampled)[0].endswith("7 answers to the accounts of 2 tenants, of which 2 were proven.")
    assert summary.sentences(honest)[0].endswith("7 answers to the accounts of 2 tenants.")
    assert "Only the sampled records were proven" in sampled["does_not_say"][0]
    whole = document.build(World.honest().audit(sample=Sample(99)))
    assert (whole["verdict"], whole["proven"], whole["records"]) == ("SAMPLED-PASS", 7, 7)
    assert whole["does_not_say"][0].startswith("A sample was asked for")
    assert "Only the sampled" not in " ".join(whole["does_not_say"])


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


@pytest.mark.parametrize(
    ("dates", "length"),
    [({"opens": 600, "closes": 4200}, "3600 s from then on"), ({"opens": 600, "closes": None}, "an unknown time")],
)
def test_a_window_whose_times_no_log_showed_is_told_by_its_policy(
    honest: dict[str, Any], dates: dict[str, Any], length: str
) -> None:
    """It may open later than `opens`, and lasts as long as from there to `closes`, whenever it opened."""
    read = honest["window_times"]
    assert read, "an audit that got so far shows when the window was used"
    assert "policy let it open" not in " ".join(summary.sentences(honest))
    values = {**honest, "window_times": None, "policy": {**honest["policy"], **dates}}
    said = " ".join(summary.sentences(values))
    assert f"The window's policy let it open from 1970-01-01 00:10 UTC on, and last {length}" in said


# The picture of clusters: well formed, complete, escaped, bounded, the same every time.


SVG = "{http://www.w3.org/2000/svg}"


def parse(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text)


def words(root: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in root.iter(f"{SVG}text")]


def test_two_colluding_accounts() -> None:
    root = parse(
        clusters_svg("one cluster", [Group(("ana", "ben"), 12)], [("ben", "ana"), ("ana", "ben"), ("ana", "ana")])
    )
    assert words(root) == ["ana", "ben", "2 accounts, 12 records"]
    assert len(list(root.iter(f"{SVG}circle"))) == 2
    (line,) = root.iter(f"{SVG}line")
    assert line[0].text == "ana and ben: 2 links"
    assert root.findtext(f"{SVG}title") == "one cluster"


def test_nothing_to_show() -> None:
    assert clusters_svg("none", [], []) == ""


def test_hostile_names_stay_text() -> None:
    evil = '"><script>alert(1)</script><image href="http://x"/>'
    text = clusters_svg(evil, [Group((evil, "b & c"), 2)], [(evil, "b & c")])
    assert "<script" not in text
    assert "<image" not in text
    root = parse(text)
    assert {element.tag for element in root.iter()} <= {
        f"{SVG}{t}" for t in ("svg", "title", "g", "line", "circle", "text")
    }
    assert words(root)[1] == "b & c"
    assert not re.search(r"(href|src|url\()", re.sub(r"<(title|text)[^>]*>[^<]*</", "", text))


def test_what_is_left_out_is_counted() -> None:
    many = [Group(tuple(f"c{i}a{j:03}" for j in range(MOST_ACCOUNTS + 5)), 99) for i in range(MOST_CLUSTERS + 3)]
    root = parse(clusters_svg("many", many, []))
    assert len(list(root.iter(f"{SVG}circle"))) == MOST_CLUSTERS * MOST_ACCOUNTS
    assert words(root)[-1] == "and 3 smaller clusters"
    assert sum("(5 accounts not drawn)" in word for word in words(root)) == MOST_CLUSTERS


NAMES = st.text(min_size=1, max_size=64).filter(lambda s: all(c.isprintable() for c in s))


@settings(max_examples=60)
@given(st.lists(st.lists(NAMES, min_size=2, max_size=30, unique=True), min_size=1, max_size=20))
def test_everything_lies_inside(clusters: list[list[str]]) -> None:
    groups = [Group(tuple(accounts), len(accounts)) for accounts in clusters]
    links = [(a, b) for accounts in clusters for a, b in itertools.pairwise(accounts)]
    text = clusters_svg("t", groups, links)
    assert text == clusters_svg("t", groups, links)
    root = parse(text)
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    assert width == WIDTH
    for frame in root.findall(f"{SVG}g"):
        x, y = map(float, re.findall(r"-?[\d.]+", frame.attrib["transform"]))
        for circle in frame.iter(f"{SVG}circle"):
            assert 0 <= x + float(circle.attrib["cx"]) <= width
            assert 0 <= y + float(circle.attrib["cy"]) <= height

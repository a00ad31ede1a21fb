# SPDX-License-Identifier: GPL-3.0-or-later
"""A signed claim has no free variables, and what rests on the provider's word is neither silent nor green.  D.12.5."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from typing import Any

import pytest

from ragseal.accounting.claims import CLAIMS, named
from ragseal.accounting.claims.until_delivered import CoinBound
from ragseal.accounting.guess import best_guess
from ragseal.accounting.rounding import per_cent, upward
from ragseal.kernel.commitment import SignedManifest, WindowClose, WindowOpen
from ragseal.kernel.errors import AuditError
from ragseal.kernel.params import SCORE_UNIT
from ragseal.kernel.policy import ANSWERS, EVERY_LIST, EXACT, UNSEEN, UNTIL_DELIVERED
from ragseal.kernel.verdict import LAST_MINUTE, WORD_OF_THE_PROVIDER, found
from ragseal.verifier.outcome.outcome import NOT_AUDITED, Neighbour, Verdict
from ragseal.verifier.report import board, document, page, rests, summary
from ragseal.verifier.signed.log import entry_of
from ragseal.verifier.signed.oscal import assessment_results
from ragseal.verifier.signed.statement import SignedVerdict, read_verdict
from ragseal.verifier.steps import epsilon
from tests.attacks import checks
from tests.attacks.answered import answers_policy
from tests.attacks.answered import window as answered
from tests.attacks.checks import without
from tests.attacks.test_carried_coins import carrying, two
from tests.attacks.test_coins_of_a_period import audited as audited_coins
from tests.attacks.test_coins_of_a_period import begun
from tests.attacks.test_coins_of_a_period import window as coined
from tests.attacks.world import accepted
from tests.simulator import NOW, OPENS, World
from tests.simulator.coined import CoinedWorld, queried_of
from tests.verifier.test_odometer import HOUR, audited, window
from tests.verifier.test_signed_verdict import PUBLIC, resigned, signed

pytestmark = pytest.mark.slow

DAYS = 6
#: What a claim's text leaves open: what a reader has to find beside it, and how the statement calls it.
SYMBOLS = {
    EVERY_LIST: {"k_max": "coalition", "n_max": "queries", "epsilon": "epsilon", "delta": "delta"},
    UNTIL_DELIVERED: {"unseen": "unseen", "return": "return", "delta": "delta"},
    ANSWERS: {"epsilon": "epsilon", "delta": "delta"},
    UNSEEN: {"unseen": "unseen"},
}
TEXTS = {name: one.text() for name, one in CLAIMS.items()}


def lists(days: int = DAYS) -> Verdict:
    """The last of several windows, each with a budget period of its own."""
    world = World()
    for day in range(days):
        window(world, day, period_start=OPENS + day * HOUR)
    return audited(world)


def until_delivered(days: int = DAYS) -> Verdict:
    world = CoinedWorld()
    for day in range(days):
        coined(world, day, period_start=OPENS + day * HOUR)
    return audited_coins(world)


def answers() -> Verdict:
    return accepted(answered())


def unseen() -> Verdict:
    return accepted(queried_of(UNSEEN))


def exact() -> Verdict:
    return accepted(queried_of(EXACT))


@pytest.fixture(scope="module")
def passes() -> dict[str, Verdict]:
    return {EVERY_LIST: lists(), UNTIL_DELIVERED: until_delivered(), ANSWERS: answers(), UNSEEN: unseen()}


def statement(verdict: Verdict) -> SignedVerdict:
    return read_verdict(signed(verdict)[0], PUBLIC)


@pytest.mark.parametrize("name", SYMBOLS)
def test_every_symbol_of_the_claim_has_its_value_in_the_signed_statement_alone(
    passes: dict[str, Verdict], name: str
) -> None:
    """Neither the report nor the manifest is looked at: they may not have been handed on."""
    said = statement(passes[name]).predicate
    text = TEXTS[name]
    assert said["claim"].startswith(text)
    assert said["claimName"] == name
    symbols = set(re.findall(r"\b(k_max|n_max|epsilon|delta|(?<=e\^)unseen|(?<=e\^)return)\b", text))
    assert symbols == set(SYMBOLS[name]), "a symbol that this test does not substitute"
    values = {symbol: said[member] for symbol, member in SYMBOLS[name].items()}
    assert all(isinstance(value, int | float) for value in values.values()), values
    for symbol in SYMBOLS[name]:
        assert re.search(rf"\b{symbol}(?: is)? [0-9]", said["claim"].removeprefix(text)), (
            f"{symbol} in the claim itself"
        )
    if name == UNTIL_DELIVERED:
        policy = passes[name].window.manifest.policy  # type: ignore[union-attr]
        assert f"lower end is cosine {policy.lo / SCORE_UNIT**2:.6g}" in said["claim"]
        assert (said["coalition"], said["queries"], said["epsilon"]) == ("any", "any", said["unseen"])
    if name == UNSEEN:
        assert (said["coalition"], said["queries"], said["epsilon"], said["return"]) == ("any", "any", "none", "inf")
    if name == EVERY_LIST:
        assert (said["coalition"], said["queries"]) == (2, 3)
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\dZ", said["periodFrom"])
    assert said["periodFrom"] in said["claim"]


def test_a_signed_verdict_of_exact_says_none_and_not_zero() -> None:
    found = statement(exact())
    said = found.predicate
    assert said["claim"].startswith(TEXTS[EXACT])
    assert [said[name] for name in ("claimName", "epsilon", "delta", "coalition", "queries")] == [EXACT, *["none"] * 4]
    beside = ("unseen", "return", "periodFrom", "leftOut", "epsilonOfTheLog")
    assert [said[name] for name in beside] == [None] * len(beside)
    assert found.line.startswith("PASS claim=exact epsilon=none private=nothing mode=full ")
    assert [one.epsilon for one in found.claims] == ["none"]


@pytest.mark.parametrize("name", [EVERY_LIST, UNTIL_DELIVERED])
def test_six_periods_of_a_day_do_not_print_one_days_epsilon_for_ever(passes: dict[str, Verdict], name: str) -> None:
    """Whoever reads one line sees how many windows it does not count, and what they come to together."""
    verdict = passes[name]
    found = statement(verdict).predicate
    assert found["leftOut"] == DAYS - 1
    assert found["epsilonOfTheLog"] > 2 * found["epsilon"]
    alone = (lists if name == EVERY_LIST else until_delivered)(1)
    assert found["epsilon"] == statement(alone).predicate["epsilon"], "a day's epsilon, as before"
    assert f" left_out={DAYS - 1} epsilon_log=" in verdict.line()
    assert " left_out=0 " in alone.line()
    assert "epsilon_log" not in alone.line()
    span = summary.sentences(document.build(verdict))[1]
    shown = verdict.line().partition(" epsilon_log=")[2].split()[0]
    assert f"Not counted: {DAYS - 1} windows of the log; with them epsilon is {shown}, not " in span
    sure = per_cent(best_guess(float(shown), 1e-6 if name == EVERY_LIST else 0.0))
    assert f" With the {DAYS - 1} windows of the log that the budget period does not count, it is {sure}." in (
        summary.guess_line(document.build(verdict))
    )
    whole = verdict.budget.whole_log  # type: ignore[union-attr]
    if name == UNTIL_DELIVERED:
        assert whole == pytest.approx(DAYS * found["unseen"])


def test_windows_that_were_opened_after_the_audited_one_stand_outside_too() -> None:
    """The statement names the log at its size, which has their queries in it."""
    world = begun(opened=True)
    given_up, beacon = world.digest, world.beacon
    coined(world, 1)
    assert " left_out=0 " in audited_coins(world, window="w1").line()
    world.messages += [WindowOpen(given_up, beacon, OPENS + 2 * HOUR), WindowClose(given_up, 0, OPENS + 2 * HOUR)]
    verdict = audited_coins(world, window="w1")
    assert " left_out=1 epsilon_log=2.90167 " in verdict.line()
    assert [one["window"] for one in document.build(verdict)["epsilon"]["later_windows"]] == ["w0"]


@pytest.mark.parametrize("lacks", ["nothing", "a signature"])
def test_a_window_that_came_and_opened_later_stands_outside_once(lacks: str) -> None:
    """What its manifest lacks is refused by an audit of that window: this one did not rest on it."""
    world = CoinedWorld()
    coined(world, 0)
    kept = {name: vars(world)[name] for name in ("digest", "manifest", "tenants", "files")}
    coined(world, 1)
    if lacks == "a signature":
        index = max(at for at, one in enumerate(world.messages) if isinstance(one, SignedManifest))
        world.messages[index] = SignedManifest(world.manifest, bytes(64))
    vars(world).update(kept)
    verdict = audited_coins(world, window="w0")
    assert " left_out=1 epsilon_log=2.90167 " in verdict.line()
    assert document.build(verdict)["epsilon"]["windows_left_out_that_never_opened"] == []


def test_a_period_begins_with_a_minute_that_a_line_can_write(passes: dict[str, Verdict]) -> None:
    budget = passes[ANSWERS].budget
    assert budget is not None
    for start, minute in ((60, 60), (119, 60), (LAST_MINUTE + 59, LAST_MINUTE), (1 << 60, LAST_MINUTE)):
        made = replace(budget, period=replace(budget.period, start=start)).claimed(False)
        assert made.period_from == minute
        made.validate()


@pytest.mark.parametrize("known", [True, False])
def test_coins_that_were_thrown_after_the_audited_window_and_given_up_are_of_the_whole_log(known: bool) -> None:
    """A provider looks at w1's coins, throws again for w2, and hands on the verdict of w0: the log has three throws."""
    world = CoinedWorld()
    coined(world, 0)
    kept = {name: vars(world)[name] for name in ("digest", "manifest", "tenants", "files")}
    world.enter_manifest("w1")
    world.enter_sealed(opened=known)
    if not known:
        del world.released[world.digest]
    vars(world).update(kept)
    verdict = audited_coins(world, window="w0")
    assert (" left_out=1 epsilon_log=2.90167 " if known else " left_out=0 periods=1 ") in verdict.line()
    never = document.build(verdict)["epsilon"]["windows_left_out_that_never_opened"]
    assert [one["window"] for one in never] == (["w1"] if known else [])


def test_answers_of_windows_outside_are_composed() -> None:
    world = answered()
    start = OPENS + 2 * HOUR
    world.commit("w2", policy_=answers_policy(world.tools, opens=start, closes=start + HOUR, period_start=start))
    world.messages[-1] = replace(world.messages[-1], time=start)  # type: ignore[type-var]
    world.messages.append(WindowClose(world.digest, 0, start + 600))
    with without(checks.SEED_ONCE):  # this simulator has one seed
        verdict = accepted(world, window="w2", now=NOW + 100 * HOUR)
    found = statement(verdict).predicate
    assert found["leftOut"] == 1
    assert verdict.budget is not None
    assert found["epsilonOfTheLog"] > found["epsilon"] == verdict.budget.epsilon


def test_what_has_no_finite_epsilon_with_the_windows_outside_says_so() -> None:
    world = CoinedWorld()
    coined(world, 0, claim=EVERY_LIST)
    coined(world, 1, period_start=OPENS + HOUR)
    verdict = audited_coins(world)
    assert " left_out=1 epsilon_log=inf " in verdict.line()
    values = document.build(verdict)
    assert verdict.tone == summary.tone(values) == "mid"
    assert "weak over the whole log" in summary.heading(values)
    assert " With the window of the log that the budget period does not count, nothing is bounded." in (
        summary.guess_line(values)
    )


def test_an_epsilon_of_the_log_that_is_not_known_is_not_left_out_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epsilon, "whole_log", lambda *_: "not known: no such class")
    verdict = until_delivered(2)
    assert " left_out=1 epsilon_log=unknown " in verdict.line()
    assert statement(verdict).predicate["epsilonOfTheLog"] == "unknown"
    assert verdict.tone == summary.tone(document.build(verdict)) == "mid"


# --- readers ---------------------------------------------------------------------------------------------------------

Change = Callable[[Any], object]
NEEDED = ("claimName", "coalition", "queries", "epsilon", "delta", "periodFrom", "leftOut")


def _without(name: str) -> Change:
    return lambda s: s["predicate"].update({name: None})


def _line(old: str, new: str) -> Change:
    def change(said: Any) -> None:
        line = said["predicate"]["line"]
        assert old in line
        said["predicate"]["line"] = line.replace(old, new)

    return change


REFUSED: dict[str, Change] = {
    **{f"no {name}": _without(name) for name in NEEDED},
    "no whole log": _without("epsilonOfTheLog"),
    "nothing left out": lambda s: s["predicate"].update(leftOut=0),
    "a small epsilon": lambda s: s["predicate"].update(epsilon=0.5),
    "a large coalition": lambda s: s["predicate"].update(coalition=1000),
    "any coalition": lambda s: s["predicate"].update(coalition="any"),
    "no accounts, in the line too": lambda s: s["predicate"].update(
        coalition=0, line=s["predicate"]["line"].replace(" coalition=2", " coalition=0")
    ),
    "a number in words": lambda s: s["predicate"].update(coalition="2"),
    "no accounts": lambda s: s["predicate"].update(coalition=0),
    "a later period": lambda s: s["predicate"].update(periodFrom="2020-01-01T00:00Z"),
    "a period in other words": lambda s: s["predicate"].update(periodFrom="yesterday"),
    "another claim": lambda s: s["predicate"].update(claimName=ANSWERS),
    "an unknown claim": lambda s: s["predicate"].update(claimName="everything"),
    "an unseen of every list": lambda s: s["predicate"].update(unseen=1.0),
    "a return of every list": lambda s: s["predicate"].update({"return": 1.0}),
    "word of nothing": lambda s: s["predicate"].update(providersWord=["late"]),
    "an unknown word": lambda s: s["predicate"].update(providersWord=["weather"]),
    "epsilon in words": lambda s: s["predicate"].update(epsilon="small"),
    "epsilon as text": lambda s: s["predicate"].update(epsilon=str(s["predicate"]["epsilon"])),
    "line of a longer number": lambda s: s["predicate"].update(
        line=re.sub(r" (epsilon_log=\S+)", r" \g<1>1", s["predicate"]["line"])
    ),
    "line without coalition": _line(" coalition=2", ""),
    "line without queries": _line(" queries=3", ""),
    "line of fewer queries": _line(" queries=3", " queries=1"),
    "line without period": lambda s: s["predicate"].update(
        line=re.sub(r" period_from=\S+", "", s["predicate"]["line"])
    ),
    "line that leaves nothing out": _line(f" left_out={DAYS - 1}", " left_out=0"),
    "line without the whole log": lambda s: s["predicate"].update(
        line=re.sub(r" epsilon_log=\S+", "", s["predicate"]["line"])
    ),
    "a number twice": _line(" mode=", " queries=1 mode="),
    "something that is no field": _line(" mode=", " (verified) mode="),
    "a name from right to left": _line(" mode=", " keys=\u202e mode="),
    "line of another window": _line(" window=w5@", " window=w4@"),
    "line of another manifest": lambda s: s["predicate"].update(
        line=re.sub(r"(window=w5@)[0-9a-f]{8}", r"\g<1>00000000", s["predicate"]["line"])
    ),
    "line of another log": _line(" log=test.example/log", " log=test.example/other"),
    "line that goes on": lambda s: s["predicate"].update(line=s["predicate"]["line"] + " note=audited"),
    "words of another claim": lambda s: s["predicate"].update(claim=named(UNTIL_DELIVERED).text()),
    "words of no claim": lambda s: s["predicate"].update(claim="All is well."),
    "a step that failed": lambda s: s["predicate"]["steps"][7].update(status="failed"),
    "a step without its status": lambda s: s["predicate"]["steps"][7].pop("status"),
    "a step that is none": lambda s: s["predicate"]["steps"].append(1),
    "about no manifest": lambda s: s.update(subject=[one for one in s["subject"] if "manifest" not in one["name"]]),
    "about no log": lambda s: s["predicate"]["log"].update(checkpoint=None),
    "a fail with numbers": lambda s: s["predicate"].update(verdict="FAIL", line="FAIL step=8"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_pass_that_leaves_something_open_is_refused(passes: dict[str, Verdict], name: str) -> None:
    data = signed(passes[EVERY_LIST])[0]
    read_verdict(data, PUBLIC)
    why = f"without {name.removeprefix('no ')} claims nothing" if name.removeprefix("no ") in NEEDED else None
    with pytest.raises(AuditError, match=why):
        read_verdict(resigned(data, REFUSED[name]), PUBLIC)


def test_a_second_number_beside_unseen_is_refused(passes: dict[str, Verdict]) -> None:
    data = signed(passes[UNTIL_DELIVERED])[0]
    with pytest.raises(AuditError, match="two numbers"):
        read_verdict(resigned(data, lambda s: s["predicate"].update(epsilon=6.0)), PUBLIC)


def test_the_version_before_this_one_is_refused(passes: dict[str, Verdict]) -> None:
    data = signed(passes[EVERY_LIST])[0]
    with pytest.raises(AuditError, match="of this version"):
        read_verdict(resigned(data, lambda s: s.update(predicateType="https://ragseal.example/verdict/v1")), PUBLIC)


@pytest.mark.parametrize("name", SYMBOLS)
def test_log_and_oscal_say_the_same(passes: dict[str, Verdict], name: str) -> None:
    data = signed(passes[name])[0]
    read = read_verdict(data, PUBLIC)
    entry = entry_of(data, read)
    assert read.line.startswith(f"{found(entry.outcome, entry.claimed)} ")
    (result,) = json.loads(assessment_results(data, read))["assessment-results"]["results"]
    props = {one["name"]: one["value"] for one in result["props"]}
    for member in ("claimName", "coalition", "queries", "periodFrom", "leftOut", "delta"):
        said = read.predicate[member]
        assert props[member] == (upward(said) if isinstance(said, float) else str(said))
    words = [one["value"] for one in result["props"] if one["name"] == "providersWord"]
    assert words == [WORD_OF_THE_PROVIDER[one] for one in read.predicate["providersWord"]]


# --- whose word ------------------------------------------------------------------------------------------------------


def banner(values: dict[str, Any]) -> tuple[str, str]:
    """(tone, text) of the page's banner."""
    shown = re.search(r'<section class="verdict (\w+)" aria-label="Verdict">(.*?)</section>', page.render(values), re.S)
    assert shown is not None
    return shown.group(1), unescape(re.sub(r"<[^>]*>", " ", shown.group(2)))


def test_late_documents_are_amber_and_counted_in_places() -> None:
    """How many came late no log shows, since that would tell how many are put: the places of their indices it does."""
    world = two()
    first = world.digest
    green = audited_coins(world)
    assert green.tone == "good"
    carrying(world, 1, first)
    verdict = audited_coins(world)
    values = document.build(verdict)
    assert verdict.tone == values["tone"] == banner(values)[0] == "mid"
    places = 2 * world.cls.N  # two tenants
    assert f"at most {places:,} documents" in banner(values)[1]
    assert "in part the provider's word" in banner(values)[1]
    bounded = summary.sentences(values)[3]
    assert f"at most {places:,} documents" in bounded
    assert f"at most {places:,} documents" in values["claim"]
    assert f"at most {places:,} documents" in board.limits(values)
    assert statement(verdict).predicate["providersWord"] == ["late"]
    assert "provider's word" not in " ".join(summary.sentences(document.build(green))[3:])


def test_answers_are_never_green(passes: dict[str, Verdict]) -> None:
    values = document.build(passes[ANSWERS])
    assert values["tone"] == banner(values)[0] == "mid"
    for phrase in ("histograms are of the tenant's documents", "vocabulary", "texts of answers", "takes part"):
        assert phrase in summary.sentences(values)[3]
        assert phrase in banner(values)[1]
    assert list(statement(passes[ANSWERS]).predicate["providersWord"]) == [
        "filter",
        "histograms",
        "texts",
        "vocabulary",
    ]


def test_embeddings_that_nobody_checked_are_amber_and_counted() -> None:
    verdict = lists(1)
    assert verdict.tone == "good"
    verdict.records = 7
    verdict.budget = replace(verdict.budget, unchecked=3)  # type: ignore[type-var]
    values = document.build(verdict)
    assert verdict.tone == summary.tone(values) == "mid"
    assert "embeddings of 3 of 7 answers, which their accounts did not check" in summary.sentences(values)[3]
    assert " embeddings=provider " in verdict.line()
    verdict.budget = replace(verdict.budget, unchecked=1)  # type: ignore[type-var]
    assert " embeddings=provider " in verdict.line()


@pytest.mark.parametrize("word", [NOT_AUDITED, "FAIL", "NO VERDICT"])
def test_windows_that_count_without_a_pass_are_amber(word: str) -> None:
    verdict = lists(1)
    verdict.neighbours = (Neighbour("w9", bytes(32), word), Neighbour("w8", bytes(32), "PASS"))
    values = document.build(verdict)
    assert verdict.tone == summary.tone(values) == banner(values)[0] == "mid"
    assert "that 1 other window of which no PASS is known here kept the rules" in summary.sentences(values)[3]
    assert " neighbours=provider " in verdict.line()


def test_another_auditors_word_and_a_guard_are_said_and_colour_nothing() -> None:
    verdict = lists(1)
    values = document.build(verdict)
    assert rests.on_others(values) == []
    other = copy.deepcopy(values)
    other |= {"keys": f"auditor:{'ab' * 32}", "beacon_of": "friend"}
    other["policy"] |= {"guard": "returned"}
    assert summary.tone(other) == "good"
    bounded = summary.sentences(other)[3]
    for phrase in ("made by another auditor", "rests on the auditor friend", "guard withholds is the provider's word"):
        assert phrase in bounded


def test_more_accounts_than_a_coalition_has_are_explained(passes: dict[str, Verdict]) -> None:
    values = document.build(passes[UNTIL_DELIVERED])
    assert summary.asking_as_one(values) == ""
    values["estimate"] = {**values["estimate"], "c": 3, "k_max": 2}
    (said,) = [one for one in summary.sentences(values) if "3 accounts ask so alike" in one]
    assert "more than the k_max of 2" in said
    assert "no number here changes" in said


# --- one number ------------------------------------------------------------------------------------------------------


def test_until_delivered_has_one_number_on_one_scale() -> None:
    """A return above unseen raises neither epsilon nor the band: it bounds what a slot's id says, and no document."""
    world = CoinedWorld()
    coined(world, 0, hidden=240)
    verdict = audited_coins(world)
    values = document.build(verdict)
    shown = values["epsilon"]
    assert values["epsilon_audit"] == shown["epsilon_audit"] == shown["unseen"] < 0.1 < 1 < shown["return"]
    assert verdict.line().startswith("PASS epsilon_audit=0.064539 ")
    assert (verdict.tone, summary.tone(values), banner(values)[0]) == ("good", "good", "good")
    assert [band.name for _, _, _, band in board.grades(values)] == ["strong"]
    assert "sure, from even odds, that a document which they were not handed is absent" in banner(values)[1]
    assert "no promise about reading" in summary.sentences(values)[4]


def test_a_loud_return_colours_nothing() -> None:
    loud = until_delivered(1)
    assert loud.budget is not None
    found = loud.budget.bound
    assert isinstance(found, CoinBound)
    loud.budget = replace(loud.budget, bound=replace(found, promise=replace(found.promise, returned=25.0)))
    shown = document.build(loud)
    assert " unseen=1.45084 return=25 " in loud.line()
    assert (loud.tone, summary.tone(shown), banner(shown)[0]) == ("good", "good", "good")

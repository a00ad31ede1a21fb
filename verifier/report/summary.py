# SPDX-License-Identifier: GPL-3.0-or-later
"""A report in five plain sentences, and how it is coloured: who, when, which log, what is bounded, how weak.

A verdict is read by people who never learnt what epsilon is.  So the attacker's best guess from even odds stands where
they look first, and a PASS is green only where that guess is worth something.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragseal.accounting.claims import CLAIMS
from ragseal.accounting.claims.claim import Claim, rounded
from ragseal.kernel.claims import EVERY_LIST
from ragseal.kernel.errors import AuditError
from ragseal.kernel.verdict import NOT_KNOWN
from ragseal.runtime.face import counted, when
from ragseal.verifier.outcome import guess
from ragseal.verifier.outcome.words import NO_VERDICT
from ragseal.verifier.report import rests
from ragseal.verifier.report.claim import listing


def passed(report: Mapping[str, Any]) -> bool:
    return guess.passes(str(report["verdict"]))


def claim_of(report: Mapping[str, Any]) -> Claim:
    """The claim that a report's numbers are of; of a report that was not made here and names none, the paper's."""
    said = report["epsilon"] or report["policy"] or {}
    return CLAIMS.get(str(said.get("claim")), CLAIMS[EVERY_LIST])


def of_each_claim(report: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """(its tenants, the report as far as it is about it) of each claim of a PASS; nothing where all have one."""
    if not passed(report):
        return []
    return [(listing(one["tenants"]), {**report, **one, "claims": []}) for one in report.get("claims") or ()]


def _worst(report: Mapping[str, Any]) -> Any:
    """The larger of that and of the whole log's epsilon; no number where that one is not known."""
    strength, whole = _strength_number(report), _whole(report)
    if not whole or not isinstance(strength, int | float):
        return strength
    return None if whole == NOT_KNOWN else max(float(strength), float(whole))


def _claimed(report: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = report.get("claimed") or {}
    return found


def _whole(report: Mapping[str, Any]) -> str:
    """Epsilon of the whole log where windows stand outside of the period, else empty."""
    return str(_claimed(report).get("epsilon_log") or "")


def tone(report: Mapping[str, Any]) -> str:
    if each := of_each_claim(report):  # green is for a page on which everything is
        return next((found for _, one in each if (found := tone(one)) != guess.GOOD), guess.GOOD)
    return guess.tone(str(report["verdict"]), _worst(report), bool(_claimed(report).get("word")))


def weak(report: Mapping[str, Any]) -> bool:
    return guess.weak(str(report["verdict"]), _strength_number(report))


def _strength_number(report: Mapping[str, Any]) -> Any:
    return claim_of(report).strength_number(report)


def heading(report: Mapping[str, Any]) -> str:
    """The banner's large words: the verdict, and why it is not green."""
    if each := of_each_claim(report):
        first = next((one for _, one in each if tone(one) != guess.GOOD), None)
        return str(report["verdict"]) if first is None else f"{heading(first)}, for some tenants"
    why = []
    if weak(report):
        why.append(claim_of(report).weak_is)
    elif guess.weak(str(report["verdict"]), _worst(report)):
        why.append("weak over the whole log")
    if passed(report) and _claimed(report).get("word"):
        why.append("in part the provider's word")
    return f"{report['verdict']}: {', '.join(why)}" if why else str(report["verdict"])


def guesses(report: Mapping[str, Any]) -> tuple[str, str] | None:
    """(one account, the coalition): how often an attacker guesses right at most, from even odds, in per cent."""
    if not passed(report):
        return None
    try:
        return claim_of(report).guesses(report)
    except (KeyError, TypeError, ValueError, AuditError):  # not a number: a report that was not made here
        return None


def guess_line(report: Mapping[str, Any]) -> str:
    """For the banner; nothing where no guess is bounded."""
    found = guesses(report)
    if found is None:
        return ""
    each = of_each_claim(report)
    if each:
        return " ".join(f"For {names}: {guess_line(one)}" for names, one in each)
    return " ".join(
        filter(None, (claim_of(report).headline(report, found), _over_the_log(report), rests.sentence(report)))
    )


def sentences(report: Mapping[str, Any]) -> list[str]:
    """Five: who, when, which log, what is bounded, how weak."""
    policy = report["policy"] or {}
    window, log = report["window"] or "that was not found", report["origin"] or "that was not found"
    tenants = len(report["tenants"])
    records, proven = report["records"], report["proven"]
    answers = counted(records, "answer")
    of = f" to the accounts of {tenants} {'tenant' if tenants == 1 else 'tenants'}" if tenants else ""
    if passed(report):
        who = f"An auditor checked what the provider of log {log} recorded in window {window}: {answers}{of}"
        who += "." if proven == records else f", of which {proven} were proven."
    elif records:
        there = f"{answers}{of} {'is' if records == 1 else 'are'} recorded"
        who = f"An auditor set out to check window {window} of the log {log}: {there} "
        who += f"there, {proven or 'none'} of them {'was' if proven == 1 else 'were'} proven."
    else:
        asked = f"window {report['window']} of the log {log}" if report["window"] else f"a window of the log {log}"
        who = f"An auditor set out to check {asked}; it did not come to any answers."
    if policy:
        span = _used(report.get("window_times") or {}, policy)
        each = of_each_claim(report)
        _, counted_ = each[-1] if each else ("", report)  # the highest claim, whose budget counts other windows
        budget = f"its privacy budget counts from {when(policy.get('period_start'))} on{_outside(counted_)}"
        bare = [names for names, one in each if not claim_of(one).form.private]
        exposed = "".join(f", and nothing is private for {names}" for names in bare)
        span += f"; {budget + exposed if claim_of(counted_).form.private else 'nothing in it is private'}."
    else:
        span = "The check did not come to the window's dates."
    which = (
        f"It was the log {log} as shown to this auditor, and in it the manifest {str(report['manifest'])[:12]}\u2026; "
        "whether others are shown the same log, their receipts and observers tell."
        if report["manifest"]
        else f"It should have been the log {log}; no manifest of the window was found in what was read of it."
    )
    bounded = [_bounded(report)]
    if passed(report):
        alike = asking_as_one(report) if claim_of(report).form.private else ""
        bounded += [alike, rests.sentence(report), *rests.on_others(report)]
    return [who, span, which, " ".join(filter(None, bounded)), _strength(report)]


def _outside(report: Mapping[str, Any]) -> str:
    """Windows that the period does not count, and what epsilon is with them; nothing where there are none."""
    count, whole = _claimed(report).get("left_out"), _whole(report)
    if not count or not whole:
        return ""
    those, with_them = ("1 window", "it") if count == 1 else (f"{count} windows", "them")
    if whole == NOT_KNOWN:
        known = "this auditor could not compute epsilon"
    elif whole == "inf":
        known = "no epsilon follows"
    else:
        name = "epsilon" if claim_of(report).form.numbered else "unseen"
        known = f"{name} is {whole}, not {rounded(_strength_number(report))}"
    return f". Not counted: {those} of the log; with {with_them} {known}"


def _over_the_log(report: Mapping[str, Any]) -> str:
    """The strength with the windows that the period does not count, as a sentence; nothing where there are none."""
    whole, count = _whole(report), _claimed(report).get("left_out")
    if not whole or not passed(report):
        return ""
    those = "the window" if count == 1 else f"the {count} windows"
    begin = f"With {those} of the log that the budget period does not count,"
    if whole == NOT_KNOWN:
        return f"{begin} this auditor could not compute a number."
    if whole == "inf":
        return f"{begin} nothing is bounded."
    return f"{begin} it is {claim_of(report).guessed(float(whole), report)}."


def asking_as_one(report: Mapping[str, Any]) -> str:
    """What it means that more accounts ask alike than a coalition may have; nothing where they do not."""
    found = report.get("estimate") or {}
    c, k_max = found.get("c"), found.get("k_max")
    if not isinstance(c, int) or not isinstance(k_max, int) or c <= k_max:
        return ""
    return (
        f"{c} accounts ask so alike that they may belong to one person, more than the k_max of {k_max} that the policy "
        "names; the claim holds for any number of accounts, so no number here changes."
    )


def in_three(report: Mapping[str, Any]) -> list[str]:
    """Of the five, for a terminal: what was checked, what is bounded, and how weak or what to do."""
    who, _, _, bounded, strength = sentences(report)
    return [who, bounded, strength]


def _length(policy: Mapping[str, Any]) -> str:
    opens, closes = policy.get("opens"), policy.get("closes")
    return (
        f"{closes - opens} s from then on" if isinstance(opens, int) and isinstance(closes, int) else "an unknown time"
    )


def _used(times: Mapping[str, Any], policy: Mapping[str, Any]) -> str:
    """When the window was used, as the log shows it; what its policy would have allowed, where nothing shows more."""
    if not times:
        return f"The window's policy let it open from {when(policy.get('opens'))} on, and last {_length(policy)}"
    closed, last = times.get("closed"), times.get("last_record")
    ended = f"closed on {when(closed)}" if closed else "not closed in the log that was read"
    recorded = f"its last answer was recorded on {when(last)}" if last else "no answer was recorded"
    return f"The window was opened on {when(times.get('opened'))} and {ended}; {recorded}"


def _bounded(report: Mapping[str, Any]) -> str:
    if each := of_each_claim(report):
        return " ".join(f"For {names}: {_bounded(one)}" for names, one in each)
    if passed(report):
        return claim_of(report).bounded(report)
    ending = _ending(report)
    step = f"step {ending.get('step')} of the checklist below"
    if report["verdict"] == NO_VERDICT:
        return f"Nothing is bounded, and nothing is held against the provider: {step} could not be decided."
    return f"Nothing is bounded: {step} failed, and what the provider signed shows it."


def _strength(report: Mapping[str, Any]) -> str:
    if each := of_each_claim(report):
        return " ".join(f"For {names}: {_strength(one)}" for names, one in each)
    found = guesses(report)
    if found is None:
        way_out = _ending(report).get("way_out")
        if report["verdict"] == NO_VERDICT:
            return (
                f"What would decide it: {str(way_out).rstrip('.')}."
                if way_out
                else "Ask again once the cause named below is gone."
            )
        return "Do not rely on this window; keep report.json, which holds the evidence."
    return claim_of(report).strength(report, found, weak(report))


def _ending(report: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = report["failure"] or report.get("no_verdict") or {}
    return found

# SPDX-License-Identifier: GPL-3.0-or-later
"""The report of an audit for machines: report.json.  The page for people is :mod:`ragseal.verifier.report.page`."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, fields
from datetime import UTC, datetime
from fractions import Fraction
from itertools import zip_longest
from pathlib import Path
from typing import Any

from ragseal.accounting.claims import claim_of, named
from ragseal.kernel.claims import EVERY_LIST
from ragseal.kernel.encoding import Message
from ragseal.kernel.errors import ConfigurationError
from ragseal.kernel.slot_text import Number
from ragseal.kernel.verdict import NONE
from ragseal.runtime.durable import write_durably
from ragseal.runtime.edges.filesystem import why
from ragseal.runtime.metadata import plain_value
from ragseal.verifier.base.programs import program
from ragseal.verifier.evidence.evidence import PROVIDER, UNKNOWN, is_anothers
from ragseal.verifier.outcome.outcome import NO_VERDICT, SAMPLED_PASS, Ending, Verdict
from ragseal.verifier.report import claim, rests
from ragseal.verifier.steps.epsilon import PeriodBudget
from ragseal.verifier.steps.estimate import SAMPLED
from ragseal.verifier.steps.sample import confidence_text

JSON_NAME, PAGE_NAME, SIGNED_NAME = "report.json", "report.html", "verdict.intoto.jsonl"
_LARGE = 1 << 53  # beyond this JSON readers lose digits: such integers are written as text


def plain(value: Any) -> Any:
    """A value as JSON carries it: bytes in hexadecimal, fractions and large integers as text, messages by field."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Message):
        return {"message": value.TAG, **{f.name: plain(getattr(value, f.name)) for f in fields(value)}}  # type: ignore[arg-type]
    if isinstance(value, Number):
        return plain_value(value)
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()  # half a surrogate pair has no bytes
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return value if abs(value) < _LARGE else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Fraction):
        return str(value)
    return str(value)


def build(verdict: Verdict) -> dict[str, Any]:
    """Everything the audit found, as plain values."""
    budget, window, claimed = verdict.budget, verdict.window, verdict.claimed
    manifest = window.manifest if window else None
    made = budget.claim if budget else claim_of(manifest.policy) if manifest else named(EVERY_LIST)
    budgets = () if budget is None else (budget, *verdict.higher)
    notes = made.does_not_say()
    for other in verdict.higher:
        notes += [note for note in other.claim.does_not_say() if note not in notes]
    lower = sorted({name for one in budgets for name in one.lower})
    if lower:
        notes.insert(0, claim.shared(lower))
    if manifest and manifest.policy.guarded:
        notes.insert(0, claim.GUARDED)
    if verdict.verdict == SAMPLED_PASS:
        some = claim.SAMPLED if made.form.numbered else claim.SAMPLED_NO_EPSILON
        notes.insert(0, some if verdict.proven < verdict.records else claim.SAMPLED_ALL)
    if verdict.estimation and verdict.estimation.certificate == SAMPLED:
        notes.insert(0, claim.sampled_estimate(verdict.estimation))
    makers = {verdict.keys, verdict.coin_keys, verdict.estimation.made_by if verdict.estimation else ""}
    if makers & {PROVIDER, UNKNOWN} and window:
        notes.insert(0, claim.UNSAFE)
    if any(map(is_anothers, makers)):
        notes.insert(0, claim.ANOTHERS_KEYS)
    if verdict.beacon_of:
        notes.insert(0, claim.anothers_beacon(verdict.beacon_of))
    if verdict.verdict == NO_VERDICT:
        notes.insert(0, claim.NO_VERDICT)
    numbers = _numbers(budget, verdict.passed)
    values: dict[str, Any] = {
        "verdict": verdict.verdict,
        "line": verdict.line(),
        "tone": verdict.tone,
        "auditor": {"name": _name(verdict), "key": verdict.auditor},
        "issued": issued(verdict.at),
        "program": program(),
        **{name: numbers[name] for name in ("epsilon_audit", "delta", "attacker_guess")},
        "mode": verdict.mode,
        "keys": verdict.keys,
        "beacon_of": verdict.beacon_of or None,
        "participants": verdict.participants,
        "records": verdict.records,
        "proven": verdict.proven,
        "beta": verdict.beta,
        "confidence": None if verdict.confidence is None else confidence_text(verdict.confidence),
        "window": verdict.about[0] if verdict.about else None,
        "origin": verdict.origin or None,
        "manifest": verdict.about[1] if verdict.about else None,
        "window_times": _times(verdict),
        "failure": _ending(verdict.failure),
        "no_verdict": _ending(verdict.obstacle),
        "other_windows_of_the_period": [
            {"window": one.window, "manifest": one.manifest, "verdict": one.verdict} for one in verdict.neighbours
        ],
        "not_kept": verdict.unkept,
        "probes": [one.details() for one in verdict.probes],
        "set_aside": [{"file": one.file, "why": one.why} for one in verdict.set_aside],
        "tenants": [
            {
                "tenant": tally.tenant,
                "total": tally.total,
                "checked": tally.checked,
                "unchecked": tally.unchecked,
                "acknowledged": tally.acknowledged,
            }
            for tally in verdict.tallies
        ],
        "estimate": verdict.estimation.details() if verdict.estimation else None,
        "epsilon": numbers["epsilon"],
        "claim": claim.of_tenants(budgets, verdict.claims, lower) if verdict.claims else made.text(),
        "claimed": claimed,
        "claims": [
            {
                "tenants": one.tenants,
                **_numbers(one, verdict.passed),
                "claim": claim.in_full(one, said) if said else one.claim.text(),
                "claimed": said,
            }
            for one, said in zip_longest(budgets, verdict.claims)
        ]
        if verdict.higher
        else [],
        "rests_on_the_providers_word": [],
        "does_not_say": notes,
        "policy": manifest.policy if manifest else None,
        "steps": [
            {
                "number": step.number,
                "title": step.title,
                "status": step.status,
                "message": step.message,
                "evidence": step.evidence,
                "seconds": round(step.seconds, 6),
            }
            for step in sorted(verdict.steps, key=lambda step: step.number)
        ],
        "timings": {
            "total_seconds": round(verdict.seconds, 6),
            **{step.title: round(step.seconds, 6) for step in verdict.steps},
        },
    }
    out = {key: plain(value) for key, value in values.items()}
    out["rests_on_the_providers_word"] = rests.on_the_provider(out)
    out["claim"] = f"{out['claim']} {rests.sentence(out)}".rstrip()
    return out


def issued(now: int) -> str:
    """Seconds since 1970 as a signed verdict has them: 2026-11-22T08:04:00Z."""
    return datetime.fromtimestamp(now, UTC).isoformat().replace("+00:00", "Z")


def _name(verdict: Verdict) -> str | None:
    """What the window's manifest calls this auditor; None where it has no seat there."""
    seats = () if verdict.window is None else verdict.window.manifest.auditors
    return next((one.owner for one in seats if one.public_key == verdict.auditor), None)


def _times(verdict: Verdict) -> dict[str, Any] | None:
    """When the window was used, and within which times its policy let it be; seconds since 1970."""
    if verdict.moments is None or verdict.window is None:
        return None
    policy, moments = verdict.window.manifest.policy, verdict.moments
    return {**asdict(moments), "allowed_from": policy.opens, "allowed_until": policy.ends(moments.opened)}


def _numbers(budget: PeriodBudget | None, passed: bool) -> dict[str, Any]:
    """What a report has of one claim's numbers."""
    found: dict[str, Any] = {
        "epsilon_audit": None,
        "delta": None,
        "attacker_guess": None,
        "epsilon": budget.details() if budget else None,
    }
    if budget is None or not passed:
        return found
    form = budget.claim.form
    found |= {
        "epsilon_audit": budget.epsilon if form.numbered else NONE,
        "delta": budget.delta if form.private else NONE,
    }
    if form.private:
        found["attacker_guess"] = budget.bound.guess(budget.epsilon_account, budget.delta, budget.k_max)
    return found


def _ending(ending: Ending | None) -> dict[str, Any] | None:
    if ending is None:
        return None
    more = {} if ending.failed else {"way_out": ending.way_out}
    return {"step": ending.number, "message": ending.message, **more, "evidence": ending.evidence}


def to_json(report: Mapping[str, Any]) -> bytes:
    """The report's bytes."""
    return json.dumps(report, indent=1, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def save(directory: Path, written: Mapping[str, bytes]) -> None:
    """Write report.json, report.html and what goes beside them, by name.

    Raises:
        ConfigurationError: the disk refuses.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, data in written.items():
            write_durably(directory / name, data)
    except OSError as error:
        raise ConfigurationError(f"cannot write the report to {directory}: {why(error, directory)}") from None

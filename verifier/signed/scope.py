# SPDX-License-Identifier: GPL-3.0-or-later
"""Whom, for what time and on whose word a signed PASS holds, as members of its predicate.  SPEC D.12.5."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from ragseal.accounting.rounding import upward
from ragseal.kernel.claims import Form, form_of
from ragseal.kernel.errors import EncodingError
from ragseal.kernel.verdict import ANY, NONE, NOT_KNOWN, Claimed, check_together, minute_text
from ragseal.verifier.outcome.words import PASS, SAMPLED_PASS

_MINUTE = "%Y-%m-%dT%H:%MZ"
TENANTS = "tenants"  #: the member that only a PASS of several claims has: one object for each, the weakest first
#: Of a claim: members of a predicate, and of each object of that one.
CLAIM_MEMBERS = ("epsilon", "delta", "unseen", "return", "claimName", "coalition", "queries", "periodFrom", "leftOut",
                 "epsilonOfTheLog", "providersWord")  # fmt: skip


def members(report: Mapping[str, Any], claimed: Claimed | None) -> dict[str, Any]:
    """The members of a predicate that a claim has; ``report``: as far as it is about that claim."""
    spent = report["epsilon"] if claimed is not None else {}
    return {
        "epsilon": report["epsilon_audit"],
        "delta": report["delta"],
        "unseen": spent.get("unseen"),
        "return": spent.get("return"),
        **scope(claimed, spent),
    }


def by_tenant(reports: Sequence[Mapping[str, Any]], claims: Sequence[Claimed]) -> dict[str, Any]:
    """What a predicate has of several claims; nothing where there is one."""
    if len(claims) < 2:
        return {}
    found = zip(reports, claims, strict=True)
    return {TENANTS: [{**members(report, one), TENANTS: list(one.tenants)} for report, one in found]}


def claims_of(predicate: Mapping[str, Any]) -> tuple[Claimed, ...]:
    """What the predicate of a PASS claims, the weakest claim first; none of what is none.

    Raises:
        EncodingError: as :func:`claimed_of`; or several claims that are not of this version's form.
    """
    first = claimed_of(predicate)
    if TENANTS not in predicate:
        return () if first is None else (first,)
    if first is None:
        raise EncodingError(f"a {predicate['verdict']} claims nothing, and this one has tenants with claims")
    found = predicate[TENANTS]
    if not isinstance(found, list) or len(found) < 2:
        raise EncodingError("the tenants of a signed verdict are a list of two claims at least, or left out")
    claims = tuple(_of_tenants(one, predicate["verdict"]) for one in found)
    if any(
        found[0][name] != predicate[name] or type(found[0][name]) is not type(predicate[name]) for name in CLAIM_MEMBERS
    ):
        raise EncodingError("the signed verdict's own claim is not the weakest of its tenants'")
    check_together(claims)
    return claims


def _of_tenants(found: Any, verdict: str) -> Claimed:
    """One object of the list."""
    if not isinstance(found, dict) or set(found) != {*CLAIM_MEMBERS, TENANTS}:
        raise EncodingError("a claim of tenants in the signed verdict has other members than this version's")
    tenants, word = found[TENANTS], found["providersWord"]
    if not all(isinstance(one, list) and all(isinstance(name, str) for name in one) for one in (tenants, word)):
        raise EncodingError("a claim in the signed verdict does not name its tenants")
    if any(isinstance(value, bool | dict) for value in found.values()):
        raise EncodingError("a member of a claim in the signed verdict is of a different type")
    made = claimed_of({"verdict": verdict, **found})
    if made is None:
        raise EncodingError("a claim in the signed verdict is none")
    return Claimed.decode(replace(made, tenants=tuple(tenants)).encode())


def scope(claimed: Claimed | None, spent: Mapping[str, Any]) -> dict[str, Any]:
    """Whom, for what time and on whose word a PASS's numbers hold; of what is none, nothing."""
    if claimed is None:
        names = ("claimName", "coalition", "queries", "periodFrom", "leftOut", "epsilonOfTheLog")
        return {**dict.fromkeys(names), "providersWord": []}
    name = "epsilon_of_the_whole_log" if form_of(claimed.claim).numbered else "unseen_of_the_whole_log"
    whole = spent[name] if claimed.left_out else None
    return {**_written(claimed), "epsilonOfTheLog": NOT_KNOWN if claimed.epsilon_log == NOT_KNOWN else whole}


def _written(claimed: Claimed) -> dict[str, Any]:
    """What of a claim is no bound, as the predicate has it."""
    private = form_of(claimed.claim).private
    return {
        "claimName": claimed.claim,
        "coalition": _count(claimed.coalition),
        "queries": _count(claimed.queries),
        "periodFrom": minute_text(claimed.period_from) if private else None,
        "leftOut": claimed.left_out if private else None,
        "providersWord": list(claimed.word),
    }


def _count(text: str) -> int | str:
    """A number, ANY or NONE."""
    return text if text in (ANY, NONE) else int(text)


def claimed_of(predicate: Mapping[str, Any]) -> Claimed | None:
    """What the predicate of a PASS claims; None of what is none.

    Raises:
        EncodingError: a PASS without claim, coalition, queries, delta, period or the epsilon of the whole log, or with
            values that these cannot have; or another outcome with one of them.
    """
    names = CLAIM_MEMBERS[:-1]
    if predicate["verdict"] not in (PASS, SAMPLED_PASS):
        if predicate["providersWord"] or any(predicate[name] is not None for name in names):
            raise EncodingError(f"a {predicate['verdict']} claims nothing, and this one has numbers of a claim")
        return None
    name = predicate["claimName"]
    form = form_of(name)
    period = () if form.private else ("periodFrom", "leftOut")
    optional = ("unseen", "return", "epsilonOfTheLog", *period)
    needed = [one for one in names if one not in optional]
    missing = [one for one in needed if predicate[one] is None]
    if missing:
        raise EncodingError(f"a {predicate['verdict']} without {', '.join(missing)} claims nothing")
    if not form.numbered and predicate["epsilon"] != NONE:
        raise EncodingError(f"the claim {name} has no epsilon, and this verdict has one")
    if form.numbered and form.returned and predicate["unseen"] != predicate["epsilon"]:
        raise EncodingError(f"epsilon of the claim {name} is unseen, and this verdict has two numbers")
    if not form.returned and predicate["unseen"] is not None:
        raise EncodingError(f"the claim {name} has no unseen")
    whole, back = predicate["epsilonOfTheLog"], predicate["return"]
    try:
        starts = predicate["periodFrom"] if form.private else minute_text(0)
        begins = datetime.strptime(starts, _MINUTE).replace(tzinfo=UTC)
        made = Claimed(
            claim=predicate["claimName"],
            epsilon=_bound(predicate["unseen" if form.coin else "epsilon"], form),
            returned="" if back is None else _bound(back),
            delta=_bound(predicate["delta"], form),
            coalition=str(predicate["coalition"]),
            queries=str(predicate["queries"]),
            period_from=int(begins.timestamp()),
            left_out=predicate["leftOut"] if form.private else 0,
            epsilon_log="" if whole is None else NOT_KNOWN if whole == NOT_KNOWN else _bound(whole),
            word=tuple(predicate["providersWord"]),
        )
        claimed = Claimed.decode(made.encode())
        if any(predicate[name] != value for name, value in _written(claimed).items()):
            raise ValueError("one value is written in two ways")
        return claimed
    except (ValueError, TypeError, OverflowError) as error:
        raise EncodingError(f"the signed verdict's claim is not of this version's form: {error}") from None


def _bound(value: float | str, form: Form | None = None) -> str:
    """As a line writes it.  Raises ValueError: text other than that of an infinite bound, or of a claim's that has
    none."""
    if form is not None and not form.private:
        if value != NONE:
            raise ValueError(f"the claim {form.name} has no number, and this is one: {str(value)[:40]!r}")
        return NONE
    if isinstance(value, str) and value != "inf":
        raise ValueError(f"a bound is a number or inf, not {value[:40]!r}")
    return upward(float(value))

# SPDX-License-Identifier: GPL-3.0-or-later
"""What a budget period has spent already, as an auditor will count it: before a provider commits to another window.

The verifier decides from its own copy of the log (step 11); this reads the provider's, so that nobody is surprised.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any

from ragseal.accounting.answers import Answering, answers_odometer, answers_period
from ragseal.accounting.delivered_period import Coined, delivered_odometer, delivered_period, one_claim
from ragseal.accounting.period import Spent, account_period, odometer
from ragseal.accounting.rounding import for_people
from ragseal.kernel.attestation import COARSE_TIME
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.enrolment import places
from ragseal.kernel.errors import AuditError
from ragseal.kernel.policy import ANSWERS, UNTIL_DELIVERED, Policy, rational
from ragseal.prover.storage.window import Stage, Window
from ragseal.runtime.face import when

Classes = Callable[[str], AttestationClass]  #: raises ConfigurationError where there is no such class


def period(windows: Iterable[Window], start: int, classes: Classes) -> list[Spent]:
    """The windows that opened and did not end before ``start``, in the ledger's order.

    Raises:
        ConfigurationError: a window's class is not there any more.
    """
    return [
        Spent(
            one.manifest.window,
            one.manifest.policy,
            classes(one.manifest.policy.class_name),
            max(one.manifest.policy.n_max, *one.counters.values(), 0),
        )
        for one in windows
        if _opened(one) and not (one.close is not None and one.close.time < start)
    ]


def coined(windows: Sequence[Window], begins: int, classes: Classes) -> list[Coined]:
    """The same under claim until-delivered: those included that threw coins and did not open.

    One that did not open is left out only if another one was opened after it and before the period, and if its policy
    names an earlier beginning: its coins could be carried on in this period.

    Args:
        begins: the period, seconds since 1970.

    Raises:
        ConfigurationError: a window's class is not there any more.
    """
    found, start = [], begins - begins % COARSE_TIME
    last = max((at for at, one in enumerate(windows) if _opened(one) and one.opened_at < start), default=0)
    for at, one in enumerate(windows):
        policy, opened = one.manifest.policy, _opened(one)
        if opened:
            before = one.close is not None and one.close.time < start
        else:
            before = at < last and policy.period_start < begins
        coins = _coins(one)
        thrown = policy.coined and coins == one.digest and one.stage is Stage.SEALED and not one.missing()
        if before or not (opened or thrown):
            continue
        queries = places(one.manifest) * max(policy.n_max, *one.counters.values(), 0) if opened else 0
        whole = policy.whole(classes(policy.class_name))
        found.append(Coined(one.manifest.window, policy, whole, queries, coins))
    return found


def _coins(window: Window) -> bytes:
    """What names the throw of a window's coins: its own digest, or that of the one whose coins it carries on."""
    named = [digest for coin in window.manifest.coins for digest in coin.thrown_by]
    return named[0] if named else window.digest


def _opened(window: Window) -> bool:
    return window.stage in (Stage.OPEN, Stage.CLOSED)


def spending(
    windows: Iterable[Window],
    classes: Classes,
    following: Policy | None = None,
    accounts: int = 1,
    coins: bytes = b"",
) -> dict[str, Any]:
    """The period's odometer, and its epsilon with a window that is about to be committed to.

    Args:
        windows: of the whole ledger, in its order.
        following: the policy of that window; its period, claim and delta count.  Without one, the newest window's.
        accounts: that may ask in that window; under until-delivered all their queries count for delta.
        coins: the coin period that it carries on; empty where it throws its own.

    Returns:
        period_start, claim, asked (records of the period), windows (rows of the odometer), and with ``following``
        epsilon and what it is made of after it; an ``error`` in their place where no epsilon follows.  Nothing before
        the first window.
    """
    known = list(windows)
    policy = following if following is not None else (known[-1].manifest.policy if known else None)
    if policy is None:
        return {}
    values: dict[str, Any] = {"period_start": policy.period_start, "claim": policy.claim, "windows": []}
    try:
        delta = rational(policy.delta, "delta")
        start = policy.period_start - policy.period_start % COARSE_TIME  # a window of that minute may reach into it
        spent = period(known, start, classes)
        values["asked"] = sum(
            len(one.records) for one in known if not (one.close is not None and one.close.time < start)
        )
        drawn = coined(known, policy.period_start, classes)
        one_claim([policy, *(one.policy for one in spent)])
        if policy.answers:
            _answers(values, known, start, classes, following, accounts, delta)
        elif policy.claim == UNTIL_DELIVERED:
            cls = policy.whole(classes(policy.class_name))
            queries = accounts * policy.n_max
            _delivered(values, drawn, None if following is None else Coined("", following, cls, queries, coins), delta)
        else:
            _every_list(values, spent, following, classes, delta)
    except AuditError as error:
        values["error"] = str(error)
    return values


def _every_list(
    values: dict[str, Any], spent: Sequence[Spent], following: Policy | None, classes: Classes, delta: Fraction
) -> None:
    """Adds rows and epsilon under claim every-list."""
    if spent:
        values["windows"] = [
            {"window": row.window, "coalition_queries": row.coalition_queries, "epsilon": _value(row.epsilon)}
            for row in odometer(spent, delta)
        ]
    if following is not None:
        cls = following.whole(classes(following.class_name))
        after = account_period([*spent, Spent("", following, cls, following.n_max)], delta)
        values["epsilon"] = _value(after.epsilon)
        values["coalition_queries"] = after.queries
        values["k_max"] = after.k_max


def _answers(
    values: dict[str, Any],
    windows: Sequence[Window],
    start: int,
    classes: Classes,
    following: Policy | None,
    accounts: int,
    delta: Fraction,
) -> None:
    """Adds rows and epsilon under claim answers: of what was answered so far, and of all that may be asked next."""
    spent = [
        Answering(
            one.manifest.window,
            one.manifest.policy,
            classes(one.manifest.policy.class_name),
            places(one.manifest) * max(one.manifest.policy.n_max, *one.counters.values(), 0),
            len(one.records),
        )
        for one in windows
        if _opened(one) and not (one.close is not None and one.close.time < start)
    ]
    if spent:
        values["windows"] = [
            {"window": row.window, "answers": row.answered, "epsilon": _value(row.epsilon)}
            for row in answers_odometer(spent, delta)
        ]
    if following is not None:
        most = accounts * following.n_max
        after = answers_period([*spent, Answering("", following, classes(following.class_name), most, most)], delta)
        values |= {
            "epsilon": _value(after.plain.epsilon), "epsilon_filtered": _value(after.filtered.epsilon),
            "answers": after.plain.answers, "participations": after.participations,
        }  # fmt: skip


def _delivered(values: dict[str, Any], drawn: Sequence[Coined], following: Coined | None, delta: Fraction) -> None:
    """Adds rows, epsilon, unseen and return under claim until-delivered."""
    if drawn:
        values["windows"] = [
            {
                "window": row.window, "coin_periods": row.periods, "queries": row.queries, "unseen": row.unseen,
                "return": _value(row.returned), "epsilon": _value(row.epsilon),
            }
            for row in delivered_odometer(drawn, delta)
        ]  # fmt: skip
    if following is not None:
        after = delivered_period([*drawn, following], delta)
        values |= {
            "epsilon": _value(after.epsilon), "unseen": after.unseen, "return": _value(after.returned),
            "coin_periods": after.periods, "hidden_share": after.hidden_share, "chance": after.chance,
            "listed_by_chance": after.listed_by_chance, "bounds_reading": after.bounds_reading,
            "queries": sum(one.queries for one in (*drawn, following)),
        }  # fmt: skip


def lines(values: dict[str, Any]) -> list[str]:
    """The same for people."""
    out = []
    rows = values.get("windows", [])
    if values.get("claim") == ANSWERS:
        return _lines_of_answers(values)
    delivered = values.get("claim") == UNTIL_DELIVERED
    if rows:
        last = rows[-1]
        what = (
            f"{_count(last['coin_periods'])} and unseen {_number(last['unseen'])} are spent; delta counts the "
            f"{last['queries']} queries that all accounts may ask, {values['asked']} were asked"
            if delivered
            else f"epsilon {_number(last['epsilon'])} is spent, of the {last['coalition_queries']} queries that a "
            f"coalition may ask; {values['asked']} were asked by all accounts"
        )
        out.append(f"budget period since {when(values['period_start'])}, up to window {last['window']}: {what}")
    if "epsilon" in values and delivered:
        out.append(
            f"with this window an auditor will certify epsilon {_number(values['epsilon'])} for any accounts, which is "
            f"unseen over {_count(values['coin_periods'])}; beside it stands return {_number(values['return'])}"
        )
    elif "epsilon" in values:
        out.append(
            f"with this window an auditor will certify epsilon {_number(values['epsilon'])} for "
            f"{values['coalition_queries']} queries of {values['k_max']} accounts; unused budget counts"
        )
    if "error" in values:
        out.append(f"no epsilon follows for this budget period: {values['error']}")
    return out


def _lines_of_answers(values: dict[str, Any]) -> list[str]:
    out = []
    rows = values.get("windows", [])
    if rows:
        out.append(
            f"budget period since {when(values['period_start'])}: {rows[-1]['answers']} answers and epsilon "
            f"{_number(rows[-1]['epsilon'])} are spent, up to window {rows[-1]['window']}"
        )
    if "epsilon" in values:
        out.append(
            f"if every account asks all it may in this window, an auditor will certify epsilon "
            f"{_number(values['epsilon'])} for all {values['answers']} answers, and print "
            f"{_number(values['epsilon_filtered'])} beside it, by this provider's word that a document takes part in "
            f"at most {values['participations']}"
        )
    if "error" in values:
        out.append(f"no epsilon follows for this budget period: {values['error']}")
    return out


def _count(periods: int) -> str:
    return f"{periods} coin period{'' if periods == 1 else 's'}"


def _value(epsilon: float) -> float | str:
    return epsilon if math.isfinite(epsilon) else "inf"


def _number(value: Any) -> str:
    return for_people(value, bound=True)

# SPDX-License-Identifier: GPL-3.0-or-later
"""What a budget period has spent already, as an auditor will count it: before a provider commits to another window.

The verifier decides from its own copy of the log (step 11); this reads the provider's, so that nobody is surprised.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from ragseal.accounting.claims import claim_of, named
from ragseal.accounting.claims.claim import one_claim
from ragseal.accounting.spent import Spent
from ragseal.kernel.attestation import COARSE_TIME
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.enrolment import places
from ragseal.kernel.errors import AuditError
from ragseal.kernel.policy import Policy, rational
from ragseal.prover.storage.window import Stage, Window

Classes = Callable[[str], AttestationClass]  #: raises ConfigurationError where there is no such class


def period(
    windows: Sequence[Window], begins: int, classes: Classes, claim: str, tenants: Collection[str] | None = None
) -> list[Spent]:
    """The windows that opened and did not end before the period, and those that threw coins and did not open.

    One that did not open is left out only if another one was opened after it and before the period, and if its policy
    names an earlier beginning: its coins could be carried on in this period.

    Args:
        windows: of the whole ledger, in its order.
        begins: the period, seconds since 1970.
        claim, tenants: whose budget it is, as :meth:`ragseal.kernel.commitment.Manifest.charged` takes them; by default
            every tenant's.

    Raises:
        ConfigurationError: a window's class is not there any more.
    """
    found, start = [], _minute(begins)
    last = max((at for at, one in enumerate(windows) if _opened(one) and one.opened_at < start), default=0)
    for at, one in enumerate(windows):
        opened = _opened(one)
        known = [line.tenant for line in one.manifest.tenants] if tenants is None else tenants
        policy = one.manifest.charged(claim, known if opened else ())
        before = _ended(one, start) if opened else at < last and policy.period_start < begins
        coins = _coins(one)
        thrown = bool(one.manifest.coins) and coins == one.digest and one.stage is Stage.SEALED and not one.missing()
        if before or not (opened or thrown):
            continue
        queries = max(policy.n_max, *one.counters.values(), 0) if opened else 0
        whole = policy.whole(classes(policy.class_name))
        found.append(Spent(one.manifest.window, policy, whole, queries, coins, places(one.manifest), len(one.records)))
    return found


def _minute(begins: int) -> int:
    """A window that ended in the minute in which the period begins may have run into it."""
    return begins - begins % COARSE_TIME


def _ended(window: Window, start: int) -> bool:
    return window.close is not None and window.close.time < start


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
    tenants: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The period's odometer, and its epsilon with a window that is about to be committed to.

    Args:
        windows: of the whole ledger, in its order.
        following: the policy of that window; its period, claim and delta count.  Without one, the newest window's.
        accounts: that may ask in that window.
        coins: the coin period that it carries on; empty where it throws its own.
        tenants: of that window, each with its claim, none above the policy's; by default all have the policy's.

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
    claim = claim_of(policy)
    if not claim.form.private:
        return {**values, "private": "nothing"}
    delta = rational(policy.delta, "delta")
    if tenants is None and following is None:
        tenants = {name: of for of, names in known[-1].manifest.claims.items() for name in names}
    own = None if tenants is None else [name for name, of in tenants.items() if of == policy.claim]
    try:
        spent = period(known, policy.period_start, classes, policy.claim, own)
        values["asked"] = sum(len(one.records) for one in known if not _ended(one, _minute(policy.period_start)))
        one_claim([policy, *(one.policy for one in spent if one.queries)])
        values["windows"] = [claim.spent_row(row) for row in claim.odometer(spent, delta)]
        if following is not None:
            whole = following.whole(classes(following.class_name))
            most = accounts * following.n_max
            after = claim.account([*spent, Spent("", following, whole, following.n_max, coins, accounts, most)], delta)
            for lower in sorted(set((tenants or {}).values()) - {policy.claim}):
                names = [name for name, of in (tenants or {}).items() if of == lower]
                _require_one_claim(known, following.under(lower), classes, names)
            values |= after.foreseen()
    except AuditError as error:
        values["error"] = str(error)
    return values


def _require_one_claim(known: Sequence[Window], policy: Policy, classes: Classes, tenants: Sequence[str]) -> None:
    """Raises PolicyError: tenants of a lower claim that has a number had a different one in this budget period."""
    if policy.form.private:
        spent = period(known, policy.period_start, classes, policy.claim, tenants)
        one_claim([policy, *(one.policy for one in spent if one.queries)])


def lines(values: dict[str, Any]) -> list[str]:
    """The same for people."""
    return named(values["claim"]).spent_lines(values) if values else []

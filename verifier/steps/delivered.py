# SPDX-License-Identifier: GPL-3.0-or-later
"""Step 11 where the claim is until-delivered: unseen and return of the period, of any accounts.  SPEC D.11.7.

Each throw of coins in the period counts, once for all windows that carry it on, also that of a window which never
opened: its provider knew the coins and may have begun again because it did not like them.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

from ragseal.accounting.delivered import Delivered
from ragseal.accounting.delivered_period import Coined, delivered_period, delivered_window
from ragseal.accounting.rounding import upward
from ragseal.kernel.classes import AttestationClass, places_suffice, table_of
from ragseal.kernel.enrolment import places
from ragseal.kernel.errors import AuditError, PolicyError
from ragseal.kernel.policy import UNTIL_DELIVERED, check_shards, rational
from ragseal.verifier.evidence.evidence import OWN_MISTAKE, Auditor, Refused, Undecided
from ragseal.verifier.steps.log import LogView
from ragseal.verifier.steps.manifest import Window, own_class
from ragseal.verifier.steps.period import Period, PeriodWindow, period
from ragseal.verifier.steps.recorder import Recorder, quiet

_NAMED = 8  #: windows that an error names


def coined_windows(auditor: Auditor, window: Window, span: Period) -> tuple[Coined, ...]:
    """The period's windows as its accounting takes them; of one that never opened only the coins count.

    Raises:
        Undecided: of an opened one, as :func:`known_class`.
    """
    opened = [
        Coined(one.window, one.policy, one.policy.whole(known_class(auditor, one)), one.all_queries, one.coin_period)
        for one in span.windows
    ]
    whole = window.manifest.policy.whole(window.cls)
    return (*opened, *(Coined(one.window, one.policy, whole, 0, one.coin_period) for one in span.abandoned))


def known_class(auditor: Auditor, one: PeriodWindow) -> AttestationClass:
    """The class that a window's policy names, if this auditor knows exactly that class and its noise.

    Raises:
        Undecided: this build has not exactly that class and table, places that prove too little, or too many shards.
    """
    try:
        cls, _ = own_class(auditor, one.policy)
    except Undecided as error:
        raise Undecided(
            f"window {one.window!r} of the period: {error}", error.way_out, ledger_index=one.ledger_index
        ) from None
    if not places_suffice(cls, table_of(cls, one.policy.table_digest)):
        raise Undecided(
            f"class {cls.name!r} of window {one.window!r}: its places are not proven enough",
            "restore the parameter files of circuits/",
        )
    try:
        check_shards(one.policy, cls)
    except PolicyError as error:
        raise Undecided(f"window {one.window!r} of the period: {error}", "audit that window") from None
    return cls


def check_delivered(log: LogView, window: Window, auditor: Auditor, span: Period, say: Recorder = quiet) -> Delivered:
    """Unseen, return and delta of the period.

    Raises:
        Refused: what the provider's manifests allow has no finite epsilon, or they make different claims.
        Undecided: two routes of this auditor's arithmetic disagree, an earlier window's class is unknown here, or only
            this auditor's own beginning of the period leaves no finite epsilon.
    """
    delta = rational(window.manifest.policy.delta, "delta")
    try:
        found = _account(auditor, window, span, delta)
    except PolicyError as error:
        raise _boundless(log, window, auditor, delta, str(error)) from None
    say(
        windows=[one.window for one in span.windows],
        windows_that_never_opened=[one.window for one in span.abandoned],
        windows_left_out=[one.window for one in span.left_out],
        windows_left_out_that_never_opened=[one.window for one in span.never_opened_outside],
        period_start=span.start,
        unseen=found.unseen,
        coin_periods=found.periods,
        returned=found.returned,
        epsilon_audit=found.epsilon,
        delta=float(delta),
        delta_items=dict(found.items),
        queries=sum(one.all_queries for one in span.windows),
        unseen_by_two_routes=list(found.routes.unseen),
        return_by_two_routes=list(found.routes.returned),
    )
    if not found.routes.agree:
        raise Undecided("the table's and the ideal law's numbers disagree", OWN_MISTAKE)
    return found


def _account(auditor: Auditor, window: Window, span: Period, delta: Fraction) -> Delivered:
    """The period's numbers.  Raises PolicyError: none follow."""
    other = [one.window for one in span.windows if not one.policy.coined]  # abandoned ones have coins
    if other:
        raise PolicyError(
            f"windows of this budget period make a claim other than {UNTIL_DELIVERED} and have no coin, so nothing "
            f"bounds what absence tells over the period: {', '.join(other[:_NAMED])}; begin a new period with "
            "period_start = the time at which the window opens, once those of the other claim have closed"
        )
    found = delivered_period(coined_windows(auditor, window, span), delta)
    if not math.isfinite(found.epsilon):
        raise PolicyError("no finite return follows for this noise and delta: a smaller gain, or fewer queries")
    return found


def _boundless(log: LogView, window: Window, auditor: Auditor, delta: Fraction, why: str) -> Refused | Undecided:
    """No finite epsilon: the provider's doing if the log and its policies alone give none.

    Which windows count may also rest on this auditor's own beginning of the period and on what its folder says of its
    nonces: when they were drawn, whether they were released, and that it has them.
    """
    kept = {signed.manifest.digest(): b"" for _, signed in log.manifests()}  # no nonce of its own was lost
    alone = period(log, window, replace(auditor, since=None, drawn={}, released={}, nonces=kept))
    try:
        _account(auditor, window, alone, delta)
    except PolicyError:
        return Refused(why)
    return Undecided(
        f"{why}; for the windows that the policy's period has by the log's own times one does follow",
        "leave --period-from out, and check this machine's clock",
    )


def check_delivered_advertised(window: Window, say: Recorder = quiet) -> float:
    """From the manifest alone: this window's own epsilon is no larger than what the policy advertises.

    Raises:
        Refused: coin and noise give more.
    """
    policy = window.manifest.policy
    delta = rational(policy.delta, "delta")
    alone = delivered_window(policy, window.cls, places(window.manifest), delta).epsilon
    say(epsilon_of_this_window=alone, advertised_to_one_account=policy.epsilon_account)
    if not alone <= rational(policy.epsilon_account, "epsilon_account"):
        raise Refused(f"the policy advertises epsilon {policy.epsilon_account}, its coin gives {upward(alone)}")
    return alone


def whole_log(auditor: Auditor, window: Window, span: Period, delta: Fraction) -> float | str | None:
    """Epsilon of all windows of the log, if some were left out; information, so it explains instead of failing."""
    if not span.outside:
        return None
    try:
        return _account(auditor, window, span.whole, delta).epsilon
    except PolicyError:
        return math.inf
    except AuditError as error:
        return f"not known: {error}"


def late_places(auditor: Auditor, span: Period) -> int:
    """Slots of the indices that were committed to when their coins were known: at most so many documents came late.

    How many of them are filled no log shows, and must not: it would tell how many documents are put (SPEC A.12.1).

    Raises:
        Undecided: as :func:`known_class`.
    """
    most: dict[str, int] = {}
    for one in span.windows:
        if one.late:
            size = one.policy.whole(known_class(auditor, one)).N
            most |= {name: max(size, most.get(name, 0)) for name in one.tenants}
    return sum(most.values())

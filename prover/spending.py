# SPDX-License-Identifier: GPL-3.0-or-later
"""What a budget period has spent already, as an auditor will count it: before a provider commits to another window.

The verifier decides from its own copy of the log (step 11); this reads the provider's, so that nobody is surprised.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from ragseal.accounting.period import Spent, account_period, odometer
from ragseal.accounting.rounding import upward
from ragseal.kernel.errors import AuditError
from ragseal.kernel.params import CircuitClass
from ragseal.kernel.policy import Policy, rational
from ragseal.prover.storage.history import Stage, Window

Classes = Callable[[str], CircuitClass]  #: raises ConfigurationError where there is no such class


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
        if one.stage in (Stage.OPEN, Stage.CLOSED) and not (one.close is not None and one.close.time < start)
    ]


def spending(windows: Iterable[Window], classes: Classes, following: Policy | None = None) -> dict[str, Any]:
    """The period's odometer, and its epsilon with a window that is about to be committed to.

    Args:
        windows: of the whole ledger, in its order.
        following: the policy of that window; its period and delta count.  Without one, the newest window's.

    Returns:
        period_start, windows (rows of the odometer), and with ``following`` epsilon and queries of the coalition after
        it; an ``error`` in their place where no epsilon follows.  Nothing before the first window.
    """
    known = list(windows)
    policy = following if following is not None else (known[-1].manifest.policy if known else None)
    if policy is None:
        return {}
    values: dict[str, Any] = {"period_start": policy.period_start, "windows": []}
    try:
        delta = rational(policy.delta, "delta")
        spent = period(known, policy.period_start, classes)
        if spent:
            values["windows"] = [
                {
                    "window": row.window,
                    "coalition_queries": row.coalition_queries,
                    "epsilon": row.epsilon if math.isfinite(row.epsilon) else "inf",
                }
                for row in odometer(spent, delta)
            ]
        if following is not None:
            cls = classes(following.class_name)
            after = account_period([*spent, Spent("", following, cls, following.n_max)], delta)
            values["epsilon"] = after.epsilon if math.isfinite(after.epsilon) else "inf"
            values["coalition_queries"] = after.queries
            values["k_max"] = after.k_max
    except AuditError as error:
        values["error"] = str(error)
    return values


def lines(values: dict[str, Any]) -> list[str]:
    """The same for people."""
    out = []
    rows = values.get("windows", [])
    if rows:
        last = rows[-1]
        out.append(
            f"budget period since {values['period_start']}: {last['coalition_queries']} queries of a coalition and "
            f"epsilon {_number(last['epsilon'])} are spent, up to window {last['window']}"
        )
    if "epsilon" in values:
        out.append(
            f"with this window an auditor will certify epsilon {_number(values['epsilon'])} for "
            f"{values['coalition_queries']} queries of {values['k_max']} accounts; unused budget counts"
        )
    if "error" in values:
        out.append(f"no epsilon follows for this budget period: {values['error']}")
    return out


def _number(value: Any) -> str:
    return upward(value) if isinstance(value, float) else str(value)

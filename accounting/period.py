# SPDX-License-Identifier: GPL-3.0-or-later
"""Epsilon of every list over a budget period: all of its windows together, and of its first ones.  SPEC D.11.

Budgets add up while documents persist, so opening many windows must not restart them.  A coalition of k_max accounts
asks in every window, each account its whole budget, whether it did or not; k_max and the slots of a document are the
largest that any window of the period names, for a coalition lives through all of them.  Windows of one circuit class
are accounted together at their largest shift: by the monotonicity of every bound in the shift that covers smaller ones.
Different classes are composed by adding their epsilons, delta split evenly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from ragseal.accounting.audit import EpsilonReport, ScorePolicy, audited_bound, epsilon_audit
from ragseal.accounting.spent import Spent
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.noise import build_table
from ragseal.kernel.noise_class import with_noise


@dataclass(frozen=True, slots=True)
class PeriodReport:
    """Outcome of :func:`account_period`."""

    epsilon: float  #: infinite where one class's is
    k_max: int  #: the largest of the period
    chunks: int  #: slots of a document, the largest of the period
    queries: int  #: of the coalition: k_max times what one account may have asked
    reports: Mapping[str, EpsilonReport]  #: by circuit class

    @property
    def accountant(self) -> str:
        """Whose bound it is; one name for each class where there are several."""
        return _names({name: report.accountant for name, report in self.reports.items()})

    @property
    def agree(self) -> bool:
        return all(report.agree for report in self.reports.values())


def account_period(windows: Sequence[Spent], delta: Fraction, k_max: int = 1) -> PeriodReport:
    """Epsilon of the windows together at ``delta``, for a coalition of at least ``k_max`` accounts.

    Raises:
        PolicyError: no window, numbers out of range, or a delta that named failures use up.
    """
    k_max, chunks, groups = _together(windows, k_max)
    reports = {
        name: epsilon_audit(
            with_noise(worst.cls),
            build_table(worst.cls.law),
            scores=ScorePolicy(gain=worst.policy.gain, lo=worst.policy.lo, hi=worst.policy.hi),
            k_max=k_max,
            n_max=queries,
            delta=delta / len(groups),
            chunks=chunks,
        )
        for name, (worst, queries) in groups.items()
    }
    epsilon = math.fsum(report.epsilon for report in reports.values())
    return PeriodReport(epsilon, k_max, chunks, k_max * sum(one.queries for one in windows), reports)


def _together(windows: Sequence[Spent], k_max: int) -> tuple[int, int, Mapping[str, tuple[Spent, int]]]:
    """(k_max, slots of a document, by class: the window of the largest shift and an account's queries)."""
    if not windows:
        raise PolicyError("a period has at least one window")
    other = [f"{one.window} ({one.policy.claim})" for one in windows if not one.policy.form.counted]
    if other:
        raise PolicyError(
            f"windows of other claims have no epsilon of every list: {', '.join(other[:8])}; begin a new period with "
            "period_start = the time at which the window opens, once they have closed"
        )
    groups: dict[str, list[Spent]] = {}
    for one in windows:
        groups.setdefault(one.cls.name, []).append(one)
    return (
        max(k_max, *(one.policy.k_max for one in windows)),
        max(one.policy.chunks_max for one in windows),
        {
            name: (max(group, key=lambda one: one.policy.width), sum(one.queries for one in group))
            for name, group in groups.items()
        },
    )


def bound_so_far(windows: Sequence[Spent], period: Sequence[Spent], delta: Fraction) -> tuple[float, str, int]:
    """What the first windows of a period had cost the coalition and the documents of the whole one.

    Returns:
        epsilon, whose bound it is, and the coalition's queries.

    Raises:
        PolicyError: as :func:`account_period`.
    """
    k_max, chunks, _ = _together(period, 1)
    _, _, groups = _together(windows, k_max)
    bounds = {
        name: audited_bound(
            with_noise(worst.cls), build_table(worst.cls.law), worst.policy.shift(worst.cls), k_max * queries, chunks,
            delta / len(groups),
        )
        for name, (worst, queries) in groups.items()
    }  # fmt: skip
    accountant = _names({name: bound.accountant for name, bound in bounds.items()})
    return math.fsum(bound.epsilon for bound in bounds.values()), accountant, k_max * sum(w.queries for w in windows)


def _names(accountants: Mapping[str, str]) -> str:
    """One accountant's name, or each class's."""
    if len(accountants) == 1:
        return next(iter(accountants.values()))
    return "; ".join(f"{name}: {accountant}" for name, accountant in accountants.items())

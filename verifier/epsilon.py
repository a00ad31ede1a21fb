# SPDX-License-Identifier: GPL-3.0-or-later
"""Step 11: epsilon of the coalition over the period, and what the policy advertised to one account.  SPEC D.11.

Budgets of windows add up while documents persist, so the queries of every opened window of the period count, as their
manifests in the log allow them (or as many as the log shows, should that be more).  Windows of one circuit class are
accounted together at their largest shift; different classes are composed by adding their epsilons, delta split evenly.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from decimal import ROUND_UP, Context, Decimal
from fractions import Fraction
from typing import Any

from ragseal.kernel.accounting import EpsilonReport, epsilon_audit
from ragseal.kernel.attestation import Record
from ragseal.kernel.commitment import SignedManifest, WindowClose, WindowOpen
from ragseal.kernel.errors import AuditError, PolicyError
from ragseal.kernel.noise import NoiseTable, build_table
from ragseal.kernel.params import CircuitClass
from ragseal.kernel.policy import Policy, rational
from ragseal.verifier.attestation import Tally
from ragseal.verifier.commitment import Say, Window, quiet
from ragseal.verifier.evidence import Auditor, Refused
from ragseal.verifier.log import LogView

DIGITS = 6


def upward(value: float) -> str:
    """A bound for people: six significant digits, rounded up."""
    if not math.isfinite(value):
        return "inf"
    rounded = Context(prec=DIGITS, rounding=ROUND_UP).create_decimal(Decimal(value))
    return f"{float(rounded):.{DIGITS}g}"


@dataclass(frozen=True, slots=True)
class Spent:
    """One window's part of the period's budget."""

    window: str
    ledger_index: int
    policy: Policy
    queries: int  #: an account may have asked: n_max, or what the log shows if that is more


@dataclass(frozen=True, slots=True)
class Budget:
    """What step 11 found."""

    epsilon: float  #: of k_max accounts over the period
    delta: float
    epsilon_account: float  #: of one account's n_max queries in this window
    advertised: str
    queries: int  #: k_max * (sum of n_max over the period)
    windows: tuple[Spent, ...]
    checked: int  #: records whose e the client checked: epsilon is claimed for them
    unchecked: int  #: for these it holds only if the provider's e did not depend on the index
    reports: Mapping[str, EpsilonReport] = field(default_factory=dict)  #: by circuit class

    def details(self) -> dict[str, Any]:
        """For the report."""
        return {
            "epsilon_audit": self.epsilon,
            "delta": self.delta,
            "form": "SIM-CDP",
            "coalition_queries": self.queries,
            "epsilon_of_one_account": self.epsilon_account,
            "advertised_to_one_account": self.advertised,
            "epsilon_claimed_for_checked_records": self.epsilon if self.checked else None,
            "checked_records": self.checked,
            "epsilon_of_unchecked_records_if_their_embeddings_ignore_the_index": (
                self.epsilon if self.unchecked else None
            ),
            "unchecked_records": self.unchecked,
            "windows_of_the_period": [
                {"window": s.window, "ledger_index": s.ledger_index, "queries": s.queries} for s in self.windows
            ],
            "accounting": {name: asdict(report) for name, report in self.reports.items()},
        }


def period(log: LogView, window: Window) -> tuple[Spent, ...]:
    """The windows opened up to this one that share its period's budget, whenever their manifests were entered.

    Raises:
        Refused: a manifest among them is not signed.
    """
    opened = {m.manifest: i for i, m in reversed(list(log.of(WindowOpen)))}
    closed = {m.manifest: m.time for _, m in log.of(WindowClose)}
    asked: Counter[tuple[bytes, str]] = Counter()
    for _, record in log.of(Record):
        asked[record.manifest, record.signed.request.account] += 1
    start = window.manifest.policy.period_start
    out: list[Spent] = []
    for index, signed in log.manifests():
        digest = signed.manifest.digest()
        if opened.get(digest, log.size) > opened[window.digest] or closed.get(digest, start) < start:
            continue
        _hold(signed, index)
        most = max((count for (of, _), count in asked.items() if of == digest), default=0)
        policy = signed.manifest.policy
        out.append(Spent(signed.manifest.window, index, policy, max(policy.n_max, most)))
    return tuple(out)


def _hold(signed: SignedManifest, index: int) -> None:
    try:
        signed.verify()
    except AuditError as error:
        raise Refused(f"an earlier window's manifest: {error}", ledger_index=index) from None


def check_epsilon(
    log: LogView, window: Window, auditor: Auditor, table: NoiseTable, tallies: Sequence[Tally], say: Say = quiet
) -> Budget:
    """Account the period, and check the advertised epsilon of one account against the noise.

    Raises:
        Refused: epsilon is infinite, the two routes disagree, or less was advertised than the noise gives.
        PolicyError: an earlier window's class is not in the auditor's build, or delta is used up.
    """
    policy = window.manifest.policy
    spent = period(log, window)
    delta = rational(policy.delta, "delta")
    groups: dict[str, list[Spent]] = {}
    for one in spent:
        groups.setdefault(one.policy.class_name, []).append(one)
    reports = {
        name: _account(group, _class(auditor, group), delta / len(groups), policy) for name, group in groups.items()
    }
    epsilon = math.fsum(report.epsilon for report in reports.values())
    queries = policy.k_max * sum(one.queries for one in spent)
    say(
        windows=[one.window for one in spent],
        period_start=policy.period_start,
        k_max=policy.k_max,
        queries=queries,
        epsilon_audit=epsilon,
        delta=policy.delta,
        **{f"delta_items[{name}]": asdict(report.delta) for name, report in reports.items()},
        **{f"shift[{name}]": report.shift for name, report in reports.items()},
        **{f"epsilon_by_loss_distribution[{name}]": report.epsilon_pld for name, report in reports.items()},
        **{f"epsilon_by_curve[{name}]": report.epsilon_second for name, report in reports.items()},
        **{f"largest_finite_n[{name}]": report.n_max_finite for name, report in reports.items()},
    )
    if not math.isfinite(epsilon):
        raise Refused("no finite epsilon follows for this coalition and period: fewer queries, or a smaller gain")
    if not all(report.agree for report in reports.values()):
        raise Refused("the loss distribution and the curve of the noise disagree")
    alone = epsilon_audit(
        window.cls,
        table,
        gain=policy.gain,
        lo=policy.lo,
        hi=policy.hi,
        k_max=1,
        n_max=policy.n_max,
        delta=delta,
        chunks=policy.chunks_max,
    ).epsilon
    say(epsilon_account=alone, advertised=policy.epsilon_account)
    if not alone <= rational(policy.epsilon_account, "epsilon_account"):
        raise Refused(
            f"the policy advertises epsilon {policy.epsilon_account} to one account, the noise gives {upward(alone)}"
        )
    checked = sum(tally.checked for tally in tallies)
    unchecked = sum(tally.unchecked for tally in tallies)
    say(checked=checked, unchecked=unchecked)
    return Budget(epsilon, float(delta), alone, policy.epsilon_account, queries, spent, checked, unchecked, reports)


def _class(auditor: Auditor, group: Sequence[Spent]) -> CircuitClass:
    name = group[0].policy.class_name
    own = auditor.classes.get(name)
    if own is None:
        raise PolicyError(f"an earlier window of the period used class {name!r}, which this auditor's build lacks")
    for one in group:
        if one.policy.class_digest != own[1]:
            raise Refused(
                f"window {one.window!r} of the period used another build of class {name!r}, its noise is unknown here",
                ledger_index=one.ledger_index,
            )
    return own[0]


def _account(group: Sequence[Spent], cls: CircuitClass, delta: Fraction, policy: Policy) -> EpsilonReport:
    """The group's windows together, each query at the largest shift among them."""
    worst = max(group, key=lambda one: one.policy.hmax).policy
    return epsilon_audit(
        cls,
        build_table(cls.law),
        gain=worst.gain,
        lo=worst.lo,
        hi=worst.hi,
        k_max=policy.k_max,
        n_max=sum(one.queries for one in group),
        delta=delta,
        chunks=max(policy.chunks_max, *(one.policy.chunks_max for one in group)),
    )

# SPDX-License-Identifier: GPL-3.0-or-later
"""Claim "every-list", the paper's: all lists of k_max accounts with n_max queries each.  SPEC Claims, D.11, D.14.

Epsilon grows with every query and account; :mod:`ragseal.accounting.period` has its arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Any

from ragseal.accounting.audit import FULL, ORDERED, EpsilonReport, ScorePolicy, epsilon_audit
from ragseal.accounting.claims import notes
from ragseal.accounting.claims.bound import (
    Around,
    Bound,
    Report,
    Values,
    best_guesses,
    finite,
    number,
    require_agreement,
    right,
)
from ragseal.accounting.claims.claim import Claim, largest
from ragseal.accounting.claims.planned import Planned, Row, Wanted
from ragseal.accounting.guess import STRONG, best_guess
from ragseal.accounting.period import PeriodReport, account_period, bound_so_far
from ragseal.accounting.pld import infinite_loss_mass
from ragseal.accounting.rounding import per_cent, upward
from ragseal.accounting.spent import Spent
from ragseal.kernel.claims import EVERY_LIST
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.noise import build_table
from ragseal.kernel.noise_class import with_noise
from ragseal.kernel.params import NOISE_LAWS
from ragseal.kernel.policy import Policy, listed, rational
from ragseal.kernel.verdict import Claimed

TEXT = (
    "For two histories of a tenant's index that differ at every moment in at most one slot, and any coalition of k_max "
    "accounts with n_max queries each that choose queries from everything received, the slot-id lists up to and "
    "including the first one containing that slot are (epsilon, delta)-indistinguishable, computationally (SIM-CDP). "
    "Once a slot is returned, its text is read."
)

_COALITIONS = (
    "More accounts than the coalition has, and how many accounts one person holds: that is estimated, not known."
)


@dataclass(frozen=True, slots=True)
class ListsBound(Bound):
    """Epsilon of all lists of a coalition."""

    report: PeriodReport
    classes: Mapping[str, AttestationClass]  #: of the windows, by name

    @property
    def epsilon(self) -> float:
        return self.report.epsilon

    @property
    def coalition(self) -> int:
        return self.report.k_max

    @property
    def queries(self) -> int:
        return self.report.queries

    @property
    def accountant(self) -> str:
        return self.report.accountant

    @property
    def disagreement(self) -> str:
        return "" if self.report.agree else "the loss distribution and the curve of the noise disagree"

    @property
    def boundless(self) -> str:
        if math.isfinite(self.epsilon):
            return ""
        return "no finite epsilon follows for this coalition and period: fewer queries, or a smaller gain"

    @property
    def every_list(self) -> PeriodReport:
        return self.report

    @property
    def confirmed(self) -> Sequence[tuple[str, AttestationClass, EpsilonReport]]:
        return [(name, self.classes[name], report) for name, report in self.report.reports.items()]

    def evidence(self, delta: Fraction) -> Values:
        reports = self.report.reports
        return {
            "k_max": self.report.k_max,
            "queries": self.queries,
            "epsilon_audit": self.epsilon,
            "accountant": self.accountant,
            "delta": str(delta),
            **{f"delta_items[{name}]": asdict(report.delta) for name, report in reports.items()},
            **{f"shift[{name}]": report.shift for name, report in reports.items()},
            **{f"epsilon_by_loss_distribution[{name}]": one.bound(FULL).certified for name, one in reports.items()},
            **{f"epsilon_by_curve[{name}]": report.bound(FULL).second for name, report in reports.items()},
            **{
                f"{bound.accountant} [{name}]": bound.unfit
                or upward(bound.epsilon) + ("" if bound.agree else ", not agreed")
                for name, report in reports.items()
                for bound in report.bounds
            },
            **{f"largest_finite_n[{name}]": report.n_max_finite for name, report in reports.items()},
        }

    def details(self, around: Around) -> Values:
        return {}

    def conditions(self, policies: Sequence[Policy], late: bool) -> list[Values]:
        """Each is necessary: without the clip at lo, for one, documents far below it make a released slot certain."""
        one = {
            "condition": "a document fills one slot",
            "holds": self.report.chunks == 1,
            "shown_by": f"the largest chunks_max of the period is {self.report.chunks}",
        }
        ranges = []
        for name, report in self.report.reports.items():
            unfit = report.bound(ORDERED).unfit
            shown = unfit or f"{report.n} queries at a shift of {report.shift} steps"
            what = f"class {name}: the theorems' numbers are in range"
            ranges.append({"condition": what, "holds": not unfit, "shown_by": shown})
        return [notes.empty_scores_lowest(policies), one, *notes.held(notes.BY_THE_CIRCUIT), *ranges]

    def guess(self, account: float, delta: float, k_max: int) -> Values:
        alone, together = right(account, delta), right(self.epsilon, delta)
        said = (
            f"an attacker who guesses from even odds (50 %) what one slot holds is right at most "
            f"{per_cent(together)} of the time with {k_max} accounts over the period, {per_cent(alone)} with one "
            "account in this window"
        )
        return best_guesses(account, delta, self, k_max, said)

    def foreseen(self) -> Values:
        return {"epsilon": finite(self.epsilon), "coalition_queries": self.queries, "k_max": self.report.k_max}


class ListsPlan(Planned):
    """Epsilon against answers."""

    bound = "epsilon"
    returned = (10, 50)
    cheaper = "ask fewer queries, "
    line = "--"

    def queries(self, n_max: int, k_max: int) -> int:
        return n_max * k_max

    def cost(self, wanted: Wanted) -> tuple[float, None]:
        cls = wanted.cls
        if cls.law not in NOISE_LAWS:
            return math.inf, None
        report = epsilon_audit(
            with_noise(cls.whole(wanted.shards)),
            build_table(cls.law),
            scores=ScorePolicy(gain=wanted.gain, lo=wanted.lo, hi=wanted.hi),
            k_max=1,  # epsilon depends on the product alone; what one account learns would be computed beside it
            n_max=wanted.queries,
            delta=wanted.delta,
        )
        return (report.epsilon if report.agree else math.inf), None

    def reasons(self) -> list[str]:
        return [
            f"windows of one period share one budget: under the claim {EVERY_LIST} n_max here is the sum over all "
            "windows of the period"
        ]

    def against(self, n_max: int, k_max: int, delta: Fraction) -> str:
        return (
            f"the coalition is {k_max} accounts of {n_max} queries each, {self.queries(n_max, k_max)} in all, at delta "
            f"{delta}"
        )

    def accounts(self, row: Row) -> str:
        return str(row["k_max"])

    def label(self, n_max: int, k_max: int) -> str:
        return f"{k_max} x {n_max}"

    def traded(self, row: Row) -> float:
        return float(row["epsilon"])

    def protects(self, row: Row) -> float:
        return float(row["epsilon"])

    def headline(self, row: Row) -> str:
        return f"The attacker's best guess from even odds: up to {self.guess(row)} (epsilon {upward(row['epsilon'])})."

    def guess(self, row: Row) -> str:
        return per_cent(best_guess(row["epsilon"], float(Fraction(row["delta"]))))

    def sentences(self, row: Row, which: str, quality: str) -> list[str]:
        who = f"{row['k_max']} {'account' if row['k_max'] == 1 else 'accounts'} with {row['n_max']} questions each"
        weak = "little" if row["epsilon"] > STRONG else "something"
        return [
            f"Bounded would be what {who} learn about any one document: epsilon {number(row['epsilon'])} at delta "
            f"{row['delta']}, under the policy that is {which}.",
            f"That promises {weak}: from even odds they may guess right in up to {self.guess(row)} of all cases; "
            f"{quality}",
        ]


class EveryList(Claim):
    """The paper's claim."""

    name = EVERY_LIST
    all_accounts_count = False
    planned = ListsPlan()

    def account(self, windows: Sequence[Spent], delta: Fraction) -> ListsBound:
        counted = self.counted(windows)
        return ListsBound(account_period(counted, delta), {one.cls.name: one.cls for one in counted})

    def alone(self, policy: Policy, cls: AttestationClass, accounts: int) -> ListsBound:
        if cls.law not in NOISE_LAWS:
            raise PolicyError(f"the law {cls.law} bounds nothing under the claim {policy.claim}")
        one = Spent("", replace(policy, k_max=1), policy.whole(cls), policy.n_max)
        return self.account([one], rational(policy.delta, "delta"))

    def row(self, so_far: Sequence[Spent], new: Sequence[Spent], period: Sequence[Spent], delta: Fraction) -> Values:
        epsilon, accountant, queries = bound_so_far(so_far, period, delta)
        return {
            "queries": sum(one.queries for one in new),
            "shift": max(one.policy.shift(one.cls) for one in new),
            "coalition_queries": queries,
            "epsilon": epsilon,
            "accountant": accountant,
        }

    # --- what a verdict says ---

    def text(self, slots: int = 1) -> str:
        return notes.several_slots(TEXT, slots, f"each query counts as {slots} queries (group privacy)")

    def symbols(self, claimed: Claimed, ends: str) -> str:
        return (
            f"k_max is {claimed.coalition}, n_max {claimed.queries}, epsilon {claimed.epsilon} and delta "
            f"{claimed.delta}"
        )

    def does_not_say(self) -> list[str]:
        return list(notes.DOES_NOT_SAY)

    def in_short(self) -> list[str]:
        return [notes.READ, _COALITIONS, *notes.SHORT]

    # --- how a report of it reads ---

    question = (
        "Somebody knows everything about an index but one document, is told that it is one of two with even odds "
        "(50 %), and guesses which from the lists of slots that were answered, up to the first that shows it: an "
        "account that is handed its text reads it. How often may the guess be right?"
    )

    def grades(self, report: Report) -> list[tuple[str, float, float]]:
        details, delta = report["epsilon"] or {}, float(report["delta"])
        count = details.get("k_max_of_the_period", "?")
        accounts = f"{count} account" if count == 1 else f"{count} accounts together"
        return [
            ("one account, in this window", float(details["epsilon_of_one_account"]), delta),
            (f"{accounts}, over the budget period", float(report["epsilon_audit"]), delta),
        ]

    def headline(self, report: Report, found: tuple[str, str]) -> str:
        return (
            f"An attacker who starts from even odds (50 %) guesses right in up to {found[1]} of all cases with "
            f"{_accounts(report)} over the period, in up to {found[0]} with one account in this window."
        )

    def bounded(self, report: Report) -> str:
        most = (report["policy"] or {}).get("n_max", "?")
        return (
            f"Bounded is what {_accounts(report)} that work together, each with at most {most} questions in this "
            f"window{_others(report)}, can tell from their answers about any one document of a tenant, until it is "
            "shown to them."
        )

    # --- what a provider is told ---

    def spent_row(self, row: Values) -> Values:
        epsilon = finite(row["epsilon"])
        return {"window": row["window"], "coalition_queries": row["coalition_queries"], "epsilon": epsilon}

    def spent_words(self, row: Values, asked: int) -> str:
        return (
            f", up to window {row['window']}: epsilon {number(row['epsilon'])} is spent, of the "
            f"{row['coalition_queries']} queries that a coalition may ask; {asked} were asked by all accounts"
        )

    def foreseen_words(self, values: Values) -> str:
        return (
            f"with this window an auditor will certify epsilon {number(values['epsilon'])} for "
            f"{values['coalition_queries']} queries of {values['k_max']} accounts; unused budget counts"
        )

    def terms_words(self, values: Report, policy: Policy, cls: AttestationClass, returned: Sequence[str]) -> list[str]:
        guess, account = values["attacker_guess"], float(Fraction(policy.epsilon_account))
        return [
            *returned,
            f"from even odds an attacker guesses right, whether a slot is one thing or another, in up to "
            f"{per_cent(guess['account'])} of all cases with one account (epsilon {upward(account)} advertised at "
            f"delta {policy.delta}), in up to {per_cent(guess['coalition'])} with {policy.k_max} that work together",
        ]

    def way_out(self, policy: Policy, cls: AttestationClass, accounts: int, found: Bound) -> str:
        return _way_out(self.alone(policy, cls, accounts), policy, cls, "an account's")

    def check_promise(self, policy: Policy, cls: AttestationClass, accounts: int, least: Fraction) -> None:
        if policy.k_max > 1:
            window = Spent("", policy, policy.whole(cls), policy.n_max)
            coalition = self.account([window], rational(policy.delta, "delta"))
            if coalition.boundless:
                raise PolicyError(_way_out(coalition, policy, cls, "the coalition's"))
            require_agreement(coalition)
        super().check_promise(policy, cls, accounts, least)

    def too_little(
        self, policy: Policy, cls: AttestationClass, accounts: int, declared: Fraction, least: Fraction
    ) -> str:
        def enough(**changes: Any) -> bool:
            return self.alone(replace(policy, **changes), cls, accounts).epsilon <= declared

        gain = largest(lambda x: enough(gain=x), policy.gain)
        queries = largest(lambda x: enough(n_max=x), policy.n_max)
        ways = [f'advertise at least {float(least):.6g} (or "auto")']
        ways += [f"use gain <= {gain}"] if gain else []
        ways += [f"n_max <= {queries}"] if queries else []
        ways += [] if gain or queries else ["use a narrower score window"]
        return (
            f"epsilon_account = {policy.epsilon_account} is less than the noise gives: {float(least):.6g} for "
            f"{policy.n_max} queries; {listed(ways)}"
        )


def _way_out(found: ListsBound, policy: Policy, cls: AttestationClass, whose: str) -> str:
    """Why no finite epsilon follows for so many queries, and what would do."""
    table, (report,) = build_table(cls.law), found.report.reports.values()

    def has_one(gain: int) -> bool:
        shift = replace(policy, gain=gain).shift(cls)
        return infinite_loss_mass(table, shift, report.compositions) < report.delta.table

    gain = largest(has_one, policy.gain)
    ways = [f"gain <= {gain}" if gain else "a narrower window"]
    if report.n_max_finite:
        ways.append(f"at most {report.n_max_finite} queries in all (k_max * n_max)")
    return (
        f"no finite epsilon for {whose} {report.n} queries at delta {policy.delta}: a query shifts the noise by "
        f"{report.shift} steps, and with probability {report.delta_inf:.3g} one of them shows a score that the other "
        f"index cannot give; use {listed(ways)}"
    )


def _accounts(report: Report) -> str:
    count = (report["epsilon"] or {}).get("k_max_of_the_period", "?")
    return f"{count} account" if count == 1 else f"{count} accounts"


def _others(report: Report) -> str:
    """The period's other windows, whose questions count as this one's do."""
    count = len((report["epsilon"] or {}).get("windows_of_the_period") or ()) - 1
    if count < 1:
        return ""
    others = "the other window" if count == 1 else f"each of the {count} other windows"
    return f" and as many as the policy of {others} of the period allows"

# SPDX-License-Identifier: GPL-3.0-or-later
"""Step 11: epsilon of the coalition over the period, and what the policy advertised to one account.  SPEC D.11.

Budgets of windows add up while documents persist, so the queries of every opened window of the period count, as their
manifests in the log allow them (or as many as the log shows, should that be more).  The arithmetic is
:mod:`ragseal.accounting.period`'s; which windows count is decided in :mod:`ragseal.verifier.steps.period`, here whether
what they name is known.  Of the claim until-delivered :mod:`ragseal.verifier.steps.delivered` has the numbers, which
know no number of accounts; those of every list stand beside them, where there are any.  Of the claim answers
:mod:`ragseal.verifier.steps.answers` has them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from typing import Any

from ragseal.accounting.answers import AnswersReport, AnswersRow
from ragseal.accounting.audit import FULL, EpsilonReport, ScorePolicy, epsilon_audit
from ragseal.accounting.delivered import Delivered
from ragseal.accounting.delivered_period import DeliveredRow, delivered_odometer
from ragseal.accounting.period import PeriodReport, Row, Spent, account_period, odometer
from ragseal.accounting.pld import ONE_SIDED_REASON
from ragseal.accounting.rounding import upward
from ragseal.kernel.attestation import COARSE_TIME
from ragseal.kernel.classes import AttestationClass, Table
from ragseal.kernel.errors import AuditError, PolicyError
from ragseal.kernel.noise import NoiseTable, one_sided
from ragseal.kernel.policy import EVERY_LIST, rational
from ragseal.kernel.verdict import ANY, LAST_MINUTE, NOT_KNOWN, WORD_OF_THE_PROVIDER, Claimed
from ragseal.verifier.evidence.evidence import OWN_MISTAKE, Auditor, Refused, Undecided
from ragseal.verifier.steps import answers, delivered
from ragseal.verifier.steps.conditions import conditions, conditions_of_answers, conditions_of_delivered
from ragseal.verifier.steps.dp_accounting_check import CrossCheck, second_opinion
from ragseal.verifier.steps.log import LogView
from ragseal.verifier.steps.manifest import Window
from ragseal.verifier.steps.period import Period, PeriodWindow, period
from ragseal.verifier.steps.receipts import Tally
from ragseal.verifier.steps.recorder import Recorder, quiet


@dataclass(frozen=True, slots=True)
class PeriodBudget:
    """What step 11 found."""

    claim: str  #: the policy's
    epsilon: float  #: over the period: of k_max accounts, or of any number of them, as the claim says
    delta: float
    epsilon_account: float  #: of one account's n_max queries in this window
    advertised: str
    queries: (
        int  #: k_max * (sum of n_max over the period); of all accounts where any number of them is bounded; answers
    )
    windows: tuple[PeriodWindow, ...]
    checked: int  #: records whose e the client checked: epsilon is claimed for them
    unchecked: int  #: for these it holds only if the provider's e did not depend on the index
    period: Period
    report: PeriodReport | None  #: of every list of k_max accounts; None where none follows
    rows: tuple[Row | DeliveredRow | AnswersRow, ...] = ()
    opinions: dict[str, CrossCheck] = field(default_factory=dict)
    whole_log: float | str | None = None  #: epsilon with the windows outside of the period, or why it is not known
    late_places: int = 0  #: slots of indices that were committed to when their coins were known
    delivered: Delivered | None = None  #: of the claim until-delivered
    answers: AnswersReport | None = None  #: of the claim answers

    @property
    def k_max(self) -> int:
        """The largest of the period: what the estimate is held against, and epsilon of every list is about."""
        return max(one.policy.k_max for one in self.windows)

    @property
    def slots(self) -> int:
        """The most slots that one document of the period may fill: all numbers here are for such a document whole."""
        return max(one.policy.chunks_max for one in self.windows)

    @property
    def queries_of_an_account(self) -> int:
        """The n_max of the claim: over all windows of the period."""
        return sum(one.queries for one in self.windows)

    def claimed(self, neighbours: bool) -> Claimed:
        """The claim with every number that it needs.

        Args:
            neighbours: whether a window that counts has no PASS.
        """
        promise, counted = self.delivered, self.claim == EVERY_LIST
        start, outside, whole = self.period.start - self.period.start % COARSE_TIME, len(self.period.outside), ""
        if outside:
            whole = upward(self.whole_log) if isinstance(self.whole_log, float) else NOT_KNOWN
        rests = {
            "late": promise is not None and self.period.late,
            **dict.fromkeys(("filter", "histograms", "texts", "vocabulary"), self.answers is not None),
            "embeddings": self.unchecked > 0,
            "neighbours": neighbours,
        }
        return Claimed(
            claim=self.claim,
            epsilon=upward(self.epsilon),
            returned=upward(promise.returned) if promise is not None else "",
            delta=upward(self.delta),
            coalition=str(self.k_max) if counted else ANY,
            queries=str(self.queries_of_an_account) if counted else ANY,
            period_from=min(start, LAST_MINUTE),
            left_out=outside,
            epsilon_log=whole,
            word=tuple(name for name in WORD_OF_THE_PROVIDER if rests[name]),
        )

    def details(self) -> dict[str, Any]:
        """For the report."""
        report, promise = self.report, self.delivered
        return {
            "claim": self.claim,
            "epsilon_audit": self.epsilon,
            **(_delivered_details(promise, self.period) if promise is not None else {}),
            **(answers.details(self.answers) if self.answers is not None else {}),
            "accountant": self._accountant(),
            "delta": self.delta,
            "form": "SIM-CDP",
            "coalition_queries": self.queries,
            "k_max_of_the_period": self.k_max,
            "slots_of_a_document": self.slots,
            "epsilon_of_one_account": self.epsilon_account,
            "advertised_to_one_account": self.advertised,
            "epsilon_claimed_for_checked_records": self.epsilon if self.checked else None,
            "checked_records": self.checked,
            "epsilon_of_unchecked_records_if_their_embeddings_ignore_the_index": (
                self.epsilon if self.unchecked else None
            ),
            "unchecked_records": self.unchecked,
            "epsilon_of_every_list": math.inf if report is None else report.epsilon,
            "period_start": self.period.start,
            "windows_of_the_period": [_named(one) for one in self.windows],
            "odometer": [asdict(row) for row in self.rows],
            "windows_left_out": [_named(one) for one in self.period.left_out],
            "later_windows": [_named(one) for one in self.period.later],
            "places_of_late_documents": self.late_places,
            "epsilon_of_the_whole_log": self.whole_log,
            "conditions": self._conditions(),
            "second_implementation": {name: asdict(opinion) for name, opinion in self.opinions.items()},
            "accounting": {} if report is None else {name: asdict(one) for name, one in report.reports.items()},
        }

    def _accountant(self) -> str:
        if self.answers is not None:
            return self.answers.plain.accountant
        return self.report.accountant if self.report is not None and self.delivered is None else self.claim

    def _conditions(self) -> list[dict[str, Any]]:
        policies = [one.policy for one in self.windows]
        if self.answers is not None:
            return conditions_of_answers(policies, self.answers.participations)
        if self.report is None or self.delivered is not None:
            return conditions_of_delivered(policies, self.period.late)
        return conditions(self.report, policies)


def _delivered_details(promise: Delivered, span: Period) -> dict[str, Any]:
    return {
        "unseen": promise.unseen,
        "unseen_of_one_coin_period": promise.unseen_once,
        "coin_periods": promise.periods,
        "return": promise.returned,
        "return_bounds_reading": promise.bounds_reading,
        "chance": promise.chance,
        "ids_listed_by_chance": promise.listed_by_chance,
        "share_of_documents_hidden": promise.hidden_share,
        "delta_items": dict(promise.items),
        "unseen_by_two_routes": list(promise.routes.unseen),
        "return_by_two_routes": list(promise.routes.returned),
        "late": "unproven" if span.late else None,
        "windows_that_never_opened": [_named(one) for one in span.abandoned],
        "windows_left_out_that_never_opened": [_named(one) for one in span.never_opened_outside],
    }


def _named(one: PeriodWindow) -> dict[str, Any]:
    return {"window": one.window, "ledger_index": one.ledger_index, "queries": one.queries}


@dataclass(frozen=True, slots=True)
class Accounted:
    """The period's epsilon."""

    span: Period
    spent: tuple[Spent, ...]
    delta: Fraction
    report: PeriodReport | None
    opinions: dict[str, CrossCheck]
    promise: Delivered | None = None
    answers: AnswersReport | None = None


def check_period(log: LogView, window: Window, auditor: Auditor, span: Period, say: Recorder = quiet) -> Accounted:
    """Step 11: account the period.

    Raises:
        Refused: what the provider's manifests allow has no finite epsilon.
        Undecided: two routes of this auditor's arithmetic disagree, an earlier window's noise is unknown here, or only
            this auditor's own beginning of the period leaves no finite epsilon.
    """
    policy = window.manifest.policy
    delta = rational(policy.delta, "delta")
    if policy.answers:
        told = answers.check_answers_period(log, window, auditor, span, say)
        return Accounted(span, (), delta, None, {}, answers=told)
    if policy.coined:
        promise = delivered.check_delivered(log, window, auditor, span, say)
        report, why = _beside(auditor, span, delta)
        say(epsilon_of_every_list=why if report is None else report.epsilon)
        return Accounted(span, (), delta, report, {}, promise)
    spent, unknown = _known(auditor, span.windows)
    if unknown is not None and not spent:
        raise unknown
    try:
        found = account_period(spent, delta)
    except PolicyError as error:  # the queries of all these windows use up delta
        raise _boundless(log, window, auditor, delta, str(error)) from None
    reports = found.reports
    say(
        windows=[one.window for one in span.windows],
        windows_left_out=[one.window for one in span.left_out],
        period_start=span.start,
        k_max=found.k_max,
        queries=found.queries,
        epsilon_audit=found.epsilon,
        accountant=found.accountant,
        delta=policy.delta,
        **{f"delta_items[{name}]": asdict(report.delta) for name, report in reports.items()},
        **{f"shift[{name}]": report.shift for name, report in reports.items()},
        **{f"epsilon_by_loss_distribution[{name}]": report.bound(FULL).certified for name, report in reports.items()},
        **{f"epsilon_by_curve[{name}]": report.bound(FULL).second for name, report in reports.items()},
        **{
            f"{bound.accountant} [{name}]": bound.unfit
            or upward(bound.epsilon) + ("" if bound.agree else ", not agreed")
            for name, report in reports.items()
            for bound in report.bounds
        },
        **{f"largest_finite_n[{name}]": report.n_max_finite for name, report in reports.items()},
    )
    if not math.isfinite(found.epsilon):
        raise _boundless(
            log,
            window,
            auditor,
            delta,
            "no finite epsilon follows for this coalition and period: "
            + (
                ONE_SIDED_REASON
                if any(one_sided(report.law) for report in reports.values())
                else "fewer queries, or a smaller gain"
            ),
        )
    if unknown is not None:  # only now: a window more never makes an infinite epsilon finite
        raise unknown
    opinions = {name: _agreed(_class_of(spent, name), report) for name, report in reports.items()}
    say(**{f"second_implementation[{name}]": asdict(opinion) for name, opinion in opinions.items()})
    return Accounted(span, spent, delta, found, opinions)


def check_advertised(window: Window, table: Table, say: Recorder = quiet) -> float:
    """Step 11, from the manifest alone: one account's epsilon is no larger than what the policy advertises.

    Raises:
        Refused: the noise gives more.
        Undecided: so this auditor's arithmetic says, whose routes disagree.
    """
    policy = window.manifest.policy
    if policy.answers:
        return answers.check_answers_advertised(window, say)
    if policy.coined:
        return delivered.check_delivered_advertised(window, say)
    if not isinstance(table, NoiseTable):
        raise Refused(f"the law {table.law} bounds nothing under the claim {policy.claim}")  # step 2 refused it before
    whole = policy.whole(window.cls)
    report = epsilon_audit(
        whole,
        table,
        scores=ScorePolicy(gain=policy.gain, lo=policy.lo, hi=policy.hi),
        k_max=1,
        n_max=policy.n_max,
        delta=rational(policy.delta, "delta"),
        chunks=policy.chunks_max,
    )
    alone = report.epsilon
    say(epsilon_of_one_account=alone, advertised_to_one_account=policy.epsilon_account)
    if not alone <= rational(policy.epsilon_account, "epsilon_account"):
        if math.isfinite(alone):
            _agreed(whole, report)
        raise Refused(
            f"the policy advertises epsilon {policy.epsilon_account} to one account, the noise gives {upward(alone)}"
        )
    return alone


def make_budget(
    log: LogView,
    window: Window,
    auditor: Auditor,
    found: Accounted,
    alone: float,
    tallies: Sequence[Tally],
    say: Recorder = quiet,
) -> PeriodBudget:
    """Step 11's result."""
    checked = sum(tally.checked for tally in tallies)
    unchecked = sum(tally.unchecked for tally in tallies)
    say(checked=checked, unchecked=unchecked)
    policy, promise, report = window.manifest.policy, found.promise, found.report
    rows: tuple[Row | DeliveredRow | AnswersRow, ...]
    if found.answers is not None:
        epsilon, queries = found.answers.plain.epsilon, found.answers.plain.answers
        rows = answers.rows(auditor, log, found.span, found.delta)
        whole = answers.whole_log(auditor, log, found.span, found.delta)
    elif promise is not None:
        epsilon, queries = promise.epsilon, sum(one.all_queries for one in found.span.windows)
        rows = delivered_odometer(delivered.coined_windows(auditor, window, found.span), found.delta)
        whole = delivered.whole_log(auditor, window, found.span, found.delta)
    else:
        assert report is not None  # of a claim without coins
        epsilon, queries = report.epsilon, report.queries
        rows, whole = odometer(found.spent, found.delta), _whole_log(auditor, found.span, found.delta)
    return PeriodBudget(
        claim=policy.claim,
        epsilon=epsilon,
        delta=float(found.delta),
        epsilon_account=alone,
        advertised=policy.epsilon_account,
        queries=queries,
        windows=found.span.windows,
        checked=checked,
        unchecked=unchecked,
        period=found.span,
        report=report,
        rows=rows,
        opinions=found.opinions,
        whole_log=whole,
        late_places=0 if promise is None else delivered.late_places(auditor, found.span),
        delivered=promise,
        answers=found.answers,
    )


def _beside(auditor: Auditor, span: Period, delta: Fraction) -> tuple[PeriodReport | None, str]:
    """Epsilon of every list where another claim is made: information, so it explains instead of failing."""
    try:
        spent = tuple(_spent(auditor, one) for one in span.windows)
        return account_period(spent, delta), ""
    except AuditError as error:
        return None, f"not known: {error}"


def _agreed(cls: AttestationClass, report: EpsilonReport) -> CrossCheck:
    """What the second implementation says of an epsilon on which this auditor's own routes agree.

    Raises:
        Undecided: somebody's arithmetic is wrong here; that is no fault of the provider's.
    """
    if not report.agree:
        raise Undecided("the loss distribution and the curve of the noise disagree", OWN_MISTAKE)
    opinion = second_opinion(cls, report)
    if opinion.agrees is False:
        raise Undecided(
            f"{opinion.implementation} computes epsilon {opinion.epsilon} for {opinion.accountant}", OWN_MISTAKE
        )
    return opinion


def _boundless(log: LogView, window: Window, auditor: Auditor, delta: Fraction, why: str) -> Refused | Undecided:
    """No finite epsilon: the provider's doing if the log and its policies alone give none.

    Which windows count may also rest on the auditor's own beginning of the period and on when it drew its nonces.
    """
    alone = period(log, window, replace(auditor, since=None, drawn={}))
    spent, unknown = _known(auditor, alone.windows)
    if unknown is not None and not spent:
        return unknown
    try:
        bounded = math.isfinite(account_period(spent, delta).epsilon)
    except PolicyError:
        bounded = False
    if not bounded:
        return Refused(why)
    return Undecided(
        f"{why}; for the windows that the policy's period has by the log's own times one does follow",
        "leave --period-from out, and check this machine's clock",
    )


def _known(auditor: Auditor, windows: Sequence[PeriodWindow]) -> tuple[tuple[Spent, ...], Undecided | None]:
    """Windows whose noise this auditor knows, and what it says of the first one whose noise it does not know."""
    spent, unknown = [], None
    for one in windows:
        try:
            spent.append(_spent(auditor, one))
        except Undecided as error:
            unknown = unknown or error
    return tuple(spent), unknown


def _class_of(spent: Sequence[Spent], name: str) -> AttestationClass:
    return next(one.cls for one in spent if one.cls.name == name)


def _whole_log(auditor: Auditor, span: Period, delta: Fraction) -> float | str | None:
    """Epsilon of all windows of the log, if some were left out; information, so it explains instead of failing."""
    if not span.outside:
        return None
    try:
        return account_period([_spent(auditor, one) for one in span.whole.windows], delta).epsilon
    except PolicyError:
        return math.inf
    except AuditError as error:
        return f"not known: {error}"


def _spent(auditor: Auditor, one: PeriodWindow) -> Spent:
    """A window with its class.  Raises Undecided: as :func:`ragseal.verifier.steps.delivered.known_class`."""
    return Spent(one.window, one.policy, one.policy.whole(delivered.known_class(auditor, one)), one.queries)

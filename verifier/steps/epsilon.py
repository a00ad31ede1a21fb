# SPDX-License-Identifier: GPL-3.0-or-later
"""Step 11: epsilon of the coalition over the period, and what the policy advertised to one account.  SPEC D.11.

Budgets of windows add up while documents persist, so the queries of every opened window of the period count, as their
manifests in the log allow them (or as many as the log shows, should that be more).  The arithmetic is
:mod:`ragseal.accounting.period`'s; here it is decided which windows count, and whether what they name is known.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from typing import Any

from ragseal.accounting.audit import FULL, EpsilonReport, epsilon_audit
from ragseal.accounting.period import PeriodReport, Row, Spent, account_period, odometer
from ragseal.accounting.pld import ONE_SIDED_REASON
from ragseal.accounting.rounding import upward
from ragseal.kernel.attestation import COARSE_TIME, Record
from ragseal.kernel.commitment import BeaconCommit, SignedManifest, WindowClose, WindowOpen
from ragseal.kernel.errors import AuditError, PolicyError
from ragseal.kernel.noise import NoiseTable, build_table
from ragseal.kernel.overflow import overflow_bound_holds
from ragseal.kernel.params import ONE_SIDED, CircuitClass
from ragseal.kernel.policy import Policy, rational
from ragseal.verifier.evidence import OWN_MISTAKE, OWNER, Auditor, Refused, Undecided, held
from ragseal.verifier.steps.conditions import conditions
from ragseal.verifier.steps.dp_accounting_check import CrossCheck, second_opinion
from ragseal.verifier.steps.log import LogView
from ragseal.verifier.steps.manifest import Entered, Window, own_class
from ragseal.verifier.steps.receipts import Tally
from ragseal.verifier.steps.recorder import Recorder, quiet


@dataclass(frozen=True, slots=True)
class PeriodWindow:
    """A window of the log as its budget is charged."""

    window: str
    ledger_index: int
    policy: Policy
    queries: int  #: an account may have asked: n_max, or what the log shows if that is more
    manifest: bytes  #: its digest


@dataclass(frozen=True, slots=True)
class Period:
    """Which windows of the log share the audited window's budget."""

    start: int  #: seconds since 1970
    windows: tuple[PeriodWindow, ...]
    left_out: tuple[PeriodWindow, ...]  #: opened before this window, ended before the period began


@dataclass(frozen=True, slots=True)
class PeriodBudget:
    """What step 11 found."""

    epsilon: float  #: of k_max accounts over the period
    delta: float
    epsilon_account: float  #: of one account's n_max queries in this window
    advertised: str
    queries: int  #: k_max * (sum of n_max over the period)
    windows: tuple[PeriodWindow, ...]
    checked: int  #: records whose e the client checked: epsilon is claimed for them
    unchecked: int  #: for these it holds only if the provider's e did not depend on the index
    period: Period
    report: PeriodReport
    rows: tuple[Row, ...] = ()
    opinions: dict[str, CrossCheck] = field(default_factory=dict)
    whole_log: float | str | None = None  #: epsilon with the windows left out, or why it is not known

    def details(self) -> dict[str, Any]:
        """For the report."""
        return {
            "epsilon_audit": self.epsilon,
            "accountant": self.report.accountant,
            "delta": self.delta,
            "form": "SIM-CDP",
            "coalition_queries": self.queries,
            "k_max_of_the_period": self.report.k_max,
            "slots_of_a_document": self.report.chunks,
            "epsilon_of_one_account": self.epsilon_account,
            "advertised_to_one_account": self.advertised,
            "epsilon_claimed_for_checked_records": self.epsilon if self.checked else None,
            "checked_records": self.checked,
            "epsilon_of_unchecked_records_if_their_embeddings_ignore_the_index": (
                self.epsilon if self.unchecked else None
            ),
            "unchecked_records": self.unchecked,
            "period_start": self.period.start,
            "windows_of_the_period": [_named(one) for one in self.windows],
            "odometer": [asdict(row) for row in self.rows],
            "windows_left_out": [_named(one) for one in self.period.left_out],
            "epsilon_of_the_whole_log": self.whole_log,
            "conditions": conditions(self.report, [one.policy for one in self.windows]),
            "second_implementation": {name: asdict(opinion) for name, opinion in self.opinions.items()},
            "accounting": {name: asdict(report) for name, report in self.report.reports.items()},
        }


def _named(one: PeriodWindow) -> dict[str, Any]:
    return {"window": one.window, "ledger_index": one.ledger_index, "queries": one.queries}


def period(log: LogView, window: Entered, auditor: Auditor) -> Period:
    """The windows opened up to this one that share its period's budget, whenever their manifests were entered.

    A window is left out only if it ended before the period began.  When it ended is not what its closing entry says
    but the latest time that the log had shown by its last entry, so that no closing entry with an old time hides it;
    nor does a log that is dated back as a whole: what follows a commitment of this auditor's is no older than its
    nonce.  The log's times are whole minutes, rounded down, so a window whose last minute is that in which the period
    began may have run into it and counts; the audited window always does.  The auditor's own beginning of the period
    counts if it is earlier than the policy's.

    Raises:
        Refused: a manifest among them is not signed, or the log holds records that no opening and manifest precede.
    """
    entered = {signed.manifest.digest() for _, signed in log.manifests()}
    opened = {m.manifest: i for i, m in reversed(list(log.of(WindowOpen)))}  # the first, if there are several
    closed = {m.manifest for _, m in log.of(WindowClose)}
    ended: dict[bytes, int] = {}
    asked: Counter[tuple[bytes, str]] = Counter()
    most: dict[bytes, int] = {}  # requests of the account that asked most, by window
    clock = 0
    for index, message in enumerate(log.messages):
        if isinstance(message, BeaconCommit) and message.owner == OWNER:
            clock = max(clock, auditor.drawn.get(message.manifest, 0))
        if not isinstance(message, Record | WindowOpen | WindowClose):
            continue
        clock = max(clock, message.time)
        ended[message.manifest] = clock
        if isinstance(message, Record):
            who = message.manifest, message.signed.request.account
            asked[who] += 1
            most[message.manifest] = max(most.get(message.manifest, 0), asked[who])
            if opened.get(message.manifest, log.size) > index or message.manifest not in entered:
                raise Refused(
                    "the log holds records of a window that was not opened before them or has no manifest in it, which "
                    "nobody can audit: no epsilon follows for this log",
                    ledger_index=index,
                )
    start = window.manifest.policy.period_start
    start = start if auditor.since is None else min(start, auditor.since)
    minute = start - start % COARSE_TIME
    inside: list[PeriodWindow] = []
    outside: list[PeriodWindow] = []
    for index, signed in log.manifests():
        digest = signed.manifest.digest()
        if opened.get(digest, log.size) > opened[window.digest]:
            continue
        _hold(signed, index)
        policy = signed.manifest.policy
        one = PeriodWindow(signed.manifest.window, index, policy, max(policy.n_max, most.get(digest, 0)), digest)
        before = digest in closed and ended[digest] < minute and digest != window.digest
        (outside if before else inside).append(one)
    return Period(start, tuple(inside), tuple(outside))


def _hold(signed: SignedManifest, index: int) -> None:
    with held("an earlier window's manifest: ", ledger_index=index):
        signed.verify()


@dataclass(frozen=True, slots=True)
class Accounted:
    """The period's epsilon."""

    span: Period
    spent: tuple[Spent, ...]
    delta: Fraction
    report: PeriodReport
    opinions: dict[str, CrossCheck]


def check_period(log: LogView, window: Window, auditor: Auditor, span: Period, say: Recorder = quiet) -> Accounted:
    """Step 11: account the period.

    Raises:
        Refused: what the provider's manifests allow has no finite epsilon.
        Undecided: two routes of this auditor's arithmetic disagree, an earlier window's noise is unknown here, or only
            this auditor's own beginning of the period leaves no finite epsilon.
    """
    policy = window.manifest.policy
    delta = rational(policy.delta, "delta")
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
        one_sided = any(report.law == ONE_SIDED for report in reports.values())
        raise _boundless(
            log,
            window,
            auditor,
            delta,
            "no finite epsilon follows for this coalition and period: "
            + (ONE_SIDED_REASON if one_sided else "fewer queries, or a smaller gain"),
        )
    if unknown is not None:  # only now: a window more never makes an infinite epsilon finite
        raise unknown
    opinions = {name: _agreed(_class_of(spent, name), report) for name, report in reports.items()}
    say(**{f"second_implementation[{name}]": asdict(opinion) for name, opinion in opinions.items()})
    return Accounted(span, spent, delta, found, opinions)


def check_advertised(window: Window, table: NoiseTable, say: Recorder = quiet) -> float:
    """Step 11, from the manifest alone: one account's epsilon is no larger than what the policy advertises.

    Raises:
        Refused: the noise gives more.
        Undecided: so this auditor's arithmetic says, whose routes disagree.
    """
    policy = window.manifest.policy
    report = epsilon_audit(
        window.cls,
        table,
        gain=policy.gain,
        lo=policy.lo,
        hi=policy.hi,
        k_max=1,
        n_max=policy.n_max,
        delta=rational(policy.delta, "delta"),
        chunks=policy.chunks_max,
    )
    alone = report.epsilon
    say(epsilon_of_one_account=alone, advertised_to_one_account=policy.epsilon_account)
    if not alone <= rational(policy.epsilon_account, "epsilon_account"):
        if math.isfinite(alone):
            _agreed(window.cls, report)
        raise Refused(
            f"the policy advertises epsilon {policy.epsilon_account} to one account, the noise gives {upward(alone)}"
        )
    return alone


def make_budget(
    window: Window, auditor: Auditor, found: Accounted, alone: float, tallies: Sequence[Tally], say: Recorder = quiet
) -> PeriodBudget:
    """Step 11's result."""
    checked = sum(tally.checked for tally in tallies)
    unchecked = sum(tally.unchecked for tally in tallies)
    say(checked=checked, unchecked=unchecked)
    return PeriodBudget(
        epsilon=found.report.epsilon,
        delta=float(found.delta),
        epsilon_account=alone,
        advertised=window.manifest.policy.epsilon_account,
        queries=found.report.queries,
        windows=found.span.windows,
        checked=checked,
        unchecked=unchecked,
        period=found.span,
        report=found.report,
        rows=odometer(found.spent, found.delta),
        opinions=found.opinions,
        whole_log=_whole_log(auditor, found.span, found.delta),
    )


def _agreed(cls: CircuitClass, report: EpsilonReport) -> CrossCheck:
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


def _class_of(spent: Sequence[Spent], name: str) -> CircuitClass:
    return next(one.cls for one in spent if one.cls.name == name)


def _whole_log(auditor: Auditor, span: Period, delta: Fraction) -> float | str | None:
    """Epsilon of all windows of the log, if some were left out; information, so it explains instead of failing."""
    if not span.left_out:
        return None
    try:
        everything = [_spent(auditor, one) for one in (*span.left_out, *span.windows)]
        return account_period(everything, delta).epsilon
    except AuditError as error:
        return f"not known: {error}"


def _spent(auditor: Auditor, one: PeriodWindow) -> Spent:
    """A window with the class that its policy names, if this auditor knows exactly that class and its noise.

    Raises:
        Undecided: this build has not exactly that class and table, or places that prove too little.
    """
    try:
        cls, _ = own_class(auditor, one.policy)
    except Undecided as error:
        raise Undecided(
            f"window {one.window!r} of the period: {error}", error.way_out, ledger_index=one.ledger_index
        ) from None
    if not overflow_bound_holds(cls, build_table(cls.law)):
        raise Undecided(
            f"class {cls.name!r} of window {one.window!r}: its places are not proven enough",
            "restore circuits/classes.toml",
        )
    return Spent(one.window, one.policy, cls, one.queries)

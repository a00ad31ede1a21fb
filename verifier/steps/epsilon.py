# SPDX-License-Identifier: GPL-3.0-or-later
"""Step 11: epsilon of the policy's claim over the period, and what the policy advertised.  SPEC D.11.

Budgets of windows add up while documents persist, so the queries of every opened window of the period count, as their
manifests in the log allow them (or as many as the log shows, should that be more).  Which windows count is decided in
:mod:`ragseal.verifier.steps.period`, here whether what they name is known.  The arithmetic, and all that is said of it,
is the claim's (:mod:`ragseal.accounting.claims`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from typing import Any

from ragseal.accounting.audit import EpsilonReport
from ragseal.accounting.claims import claim_of
from ragseal.accounting.claims.bound import Around, Bound, Values
from ragseal.accounting.claims.claim import Claim
from ragseal.accounting.period import PeriodReport
from ragseal.accounting.rounding import upward
from ragseal.accounting.spent import Spent
from ragseal.kernel.attestation import COARSE_TIME, Record
from ragseal.kernel.classes import AttestationClass, places_suffice
from ragseal.kernel.enrolment import places
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.noise_class import with_noise
from ragseal.kernel.policy import check_shards, rational
from ragseal.kernel.verdict import ANY, LAST_MINUTE, NONE, NOT_KNOWN, WORD_OF_THE_PROVIDER, Claimed
from ragseal.verifier.evidence.evidence import OWN_MISTAKE, Auditor, Refused, Undecided
from ragseal.verifier.steps.dp_accounting_check import CrossCheck, second_opinion
from ragseal.verifier.steps.log import LogView
from ragseal.verifier.steps.manifest import Tenancy, Window, own_class
from ragseal.verifier.steps.period import Period, PeriodWindow, period
from ragseal.verifier.steps.receipts import Tally
from ragseal.verifier.steps.recorder import Recorder, quiet


@dataclass(frozen=True, slots=True)
class PeriodBudget:
    """What step 11 found."""

    claim: Claim
    bound: Bound  #: over the period
    delta: float
    epsilon_account: float  #: of what the policy advertises: one account's queries, or this window's
    advertised: str
    checked: int  #: records whose e the client checked: epsilon is claimed for them
    unchecked: int  #: for these it holds only if the provider's e did not depend on the index
    period: Period
    lists: PeriodReport | None  #: epsilon of every list; None where none follows
    rows: tuple[Values, ...] = ()
    opinions: dict[str, CrossCheck] = field(default_factory=dict)
    whole_log: float | str | None = None  #: epsilon with the windows outside of the period, or why it is not known
    late_places: int = 0  #: slots of indices that were committed to when their coins were known
    tenants: tuple[str, ...] = ()  #: whose budget it is, where the window has tenants of several claims; else empty

    @property
    def epsilon(self) -> float:
        """Over the period."""
        return self.bound.epsilon

    @property
    def queries(self) -> int:
        """That epsilon is about, or its delta."""
        return self.bound.queries

    @property
    def windows(self) -> tuple[PeriodWindow, ...]:
        return self.period.windows

    @property
    def k_max(self) -> int:
        """The largest of the period: what the estimate is held against, and epsilon of every list is about."""
        return max(one.policy.k_max for one in self.windows)

    @property
    def lower(self) -> tuple[str, ...]:
        """Tenants that had a lower claim in a window of the log, counted or not: a document of theirs has that one.

        A window left out counts in epsilon of the whole log, and there by its coins alone where names are others.
        """
        return tuple(sorted({name for one in self.period.whole.windows for name in one.lower}))

    @property
    def slots(self) -> int:
        """The most slots that one document of the period may fill: all numbers here are for such a document whole."""
        return max(one.policy.chunks_max for one in self.windows)

    @property
    def queries_of_an_account(self) -> int:
        """The n_max of the claim: over all windows of the period."""
        return sum(one.queries for one in self.windows)

    @property
    def around(self) -> Around:
        """What the log shows beside the windows that the bound is of."""
        span = self.period
        unopened, outside = ([_named(one) for one in ones] for ones in (span.abandoned, span.never_opened_outside))
        return Around(span.late, unopened, outside, span.throws_left_out)

    def claimed(self, neighbours: bool) -> Claimed:
        """The claim with every number that it needs.

        Args:
            neighbours: whether a window that counts has no PASS.
        """
        found, counted = self.bound, self.bound.coalition is not None
        if not self.claim.form.private:
            word = ("embeddings",) if self.unchecked else ()
            return Claimed(self.claim.name, NONE, "", NONE, NONE, NONE, 0, 0, "", word, self.tenants)
        start, outside, whole = self.period.start - self.period.start % COARSE_TIME, len(self.period.outside), ""
        if outside:
            whole = upward(self.whole_log) if isinstance(self.whole_log, float) else NOT_KNOWN
        rests = {
            *self.claim.word(self.period.late),
            *(["embeddings"] if self.unchecked else []),
            *(["neighbours"] if neighbours else []),
        }
        return Claimed(
            claim=self.claim.name,
            epsilon=upward(self.epsilon),
            returned="" if found.returned is None else upward(found.returned),
            delta=upward(self.delta),
            coalition=str(found.coalition) if counted else ANY,
            queries=str(self.queries_of_an_account) if counted else ANY,
            period_from=min(start, LAST_MINUTE),
            left_out=outside,
            epsilon_log=whole,
            word=tuple(name for name in WORD_OF_THE_PROVIDER if name in rests),
            tenants=self.tenants,
        )

    def details(self) -> dict[str, Any]:
        """For the report."""
        if not self.claim.form.private:
            return {
                "claim": self.claim.name,
                **self.bound.details(self.around),
                "checked_records": self.checked,
                "unchecked_records": self.unchecked,
                "conditions": self.bound.conditions([one.policy for one in self.windows], self.period.late),
            }
        every = {} if self.lists is None else self.lists.reports
        found = {
            "claim": self.claim.name,
            "epsilon_audit": self.epsilon,
            **self.bound.details(self.around),
            "accountant": self.bound.accountant,
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
            "period_start": self.period.start,
            "windows_of_the_period": [_named(one) for one in self.windows],
            "odometer": list(self.rows),
            "windows_left_out": [_named(one) for one in self.period.left_out],
            "later_windows": [_named(one) for one in self.period.later],
            "places_of_late_documents": self.late_places,
            "epsilon_of_the_whole_log": self.whole_log,
            "conditions": self.bound.conditions([one.policy for one in self.windows], self.period.late),
            "second_implementation": {name: asdict(opinion) for name, opinion in self.opinions.items()},
            "accounting": {name: asdict(one) for name, one in every.items()},
        }
        if not self.claim.form.numbered:  # what is bounded has its own name, and no epsilon stands anywhere
            found = {name: value for name, value in found.items() if not name.startswith("epsilon")}
            found["unseen_of_the_whole_log"] = self.whole_log
        return found


def _named(one: PeriodWindow) -> dict[str, Any]:
    return {"window": one.window, "ledger_index": one.ledger_index, "queries": one.queries}


@dataclass(frozen=True, slots=True)
class Accounted:
    """The period's epsilon."""

    claim: Claim
    span: Period
    spent: tuple[Spent, ...]
    delta: Fraction
    bound: Bound
    lists: PeriodReport | None
    opinions: dict[str, CrossCheck]


def check_period(log: LogView, window: Window, auditor: Auditor, span: Period, say: Recorder = quiet) -> Accounted:
    """Step 11: account the period.

    Raises:
        Refused: what the provider's manifests allow has no finite epsilon, or they make claims that do not go together.
        Undecided: two routes of this auditor's arithmetic disagree, an earlier window's class is unknown here, or only
            this auditor's own beginning of the period leaves no finite epsilon.
    """
    policy = window.under(span.of)
    claim = claim_of(policy)
    delta = rational(policy.delta, "delta") if claim.form.private else Fraction(0)
    spent, unknown = _spent(log, window, auditor, span)
    if unknown is not None and not any(one.queries for one in spent):
        raise unknown
    if not claim.form.private:
        say(**claim.account(spent, delta).evidence(delta))
        return Accounted(claim, span, spent, delta, claim.account(spent, delta), None, {})
    try:
        found = claim.account(spent, delta)
    except PolicyError as error:
        raise _boundless(log, window, auditor, span, str(error)) from None
    told = {
        "windows": span.windows,
        "windows_that_never_opened": span.abandoned if claim.form.coin else None,
        "windows_left_out": span.left_out,
        "windows_left_out_that_never_opened": span.never_opened_outside if claim.form.coin else None,
    }
    say(**{name: [one.window for one in ones] for name, ones in told.items() if ones is not None})
    say(period_start=span.start, **found.evidence(delta))
    if found.boundless:
        raise _boundless(log, window, auditor, span, found.boundless)
    if unknown is not None:  # only now: a window more never makes an infinite epsilon finite
        raise unknown
    opinions = _agreed(found)
    say(**{f"second_implementation[{name}]": asdict(opinion) for name, opinion in opinions.items()})
    return Accounted(claim, span, spent, delta, found, found.every_list, opinions)


def check_advertised(window: Window, of: Tenancy | None = None, say: Recorder = quiet) -> float:
    """Step 11, from the manifest alone: epsilon of these tenants is no larger than what the policy advertises.

    Raises:
        Refused: coin and noise give more.
        Undecided: so this auditor's arithmetic says, whose routes disagree.
    """
    policy = window.under(of)
    claim = claim_of(policy)
    if not claim.form.private:
        return math.inf
    try:
        alone = claim.alone(policy, window.cls, places(window.manifest))
    except PolicyError as error:
        raise Refused(str(error)) from None
    say(**{claim.alone_is: alone.epsilon}, advertised_to_one_account=policy.epsilon_account)
    if not alone.epsilon <= rational(policy.epsilon_account, "epsilon_account"):
        if not alone.boundless:
            _agreed(alone)
        raise Refused(
            f"the policy advertises epsilon {policy.epsilon_account}{claim.advertised_to}, {claim.gives} "
            f"{upward(alone.epsilon)}"
        )
    return alone.epsilon


def make_budget(
    log: LogView,
    window: Window,
    auditor: Auditor,
    found: Accounted,
    alone: float,
    tallies: Sequence[Tally],
    say: Recorder = quiet,
) -> PeriodBudget:
    """Step 11's result for the tenants whose budget was accounted."""
    several, of = len(window.tenancies) > 1, found.span.of
    whose = of.tenants if several and of is not None else ()
    tallies = [tally for tally in tallies if not whose or tally.tenant in whose]
    checked = sum(tally.checked for tally in tallies)
    unchecked = sum(tally.unchecked for tally in tallies)
    say(checked=checked, unchecked=unchecked)
    return PeriodBudget(
        claim=found.claim,
        bound=found.bound,
        delta=float(found.delta),
        epsilon_account=alone,
        advertised=window.under(of).epsilon_account,
        checked=checked,
        unchecked=unchecked,
        period=found.span,
        lists=found.lists,
        rows=found.claim.odometer(found.spent, found.delta),
        opinions=found.opinions,
        whole_log=whole_log(log, window, auditor, found.span),
        late_places=late_places(auditor, found.span) if found.claim.form.coin else 0,
        tenants=whose,
    )


def whole_log(log: LogView, window: Window, auditor: Auditor, span: Period) -> float | str | None:
    """Epsilon of all windows of the log, if some were left out; information, so it explains instead of failing."""
    if not span.outside:
        return None
    policy = window.under(span.of)
    spent, unknown = _spent(log, window, auditor, span.whole)
    try:
        found = claim_of(policy).account(spent, rational(policy.delta, "delta")).epsilon
    except PolicyError:
        found = math.inf
    known = unknown is None or math.isinf(found)  # a window more never makes an infinite epsilon finite
    return found if known else f"not known: {unknown}"


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


def known_class(auditor: Auditor, one: PeriodWindow) -> AttestationClass:
    """The class that a window's policy names, if this auditor knows exactly that class and its noise.

    Raises:
        Undecided: this build has not exactly that class and table, places that prove too little, or too many shards.
    """
    try:
        cls, _ = own_class(auditor, one.stated)
    except Undecided as error:
        raise Undecided(
            f"window {one.window!r} of the period: {error}", error.way_out, ledger_index=one.ledger_index
        ) from None
    if not places_suffice(cls, one.stated.table(cls)):
        raise Undecided(
            f"class {cls.name!r} of window {one.window!r}: its places are not proven enough",
            "restore the parameter files of circuits/",
        )
    try:
        check_shards(one.policy, cls)
    except PolicyError as error:
        raise Undecided(f"window {one.window!r} of the period: {error}", "audit that window") from None
    return cls


def _spent(log: LogView, window: Window, auditor: Auditor, span: Period) -> tuple[tuple[Spent, ...], Undecided | None]:
    """The windows whose class this auditor knows, and what it says of the first one that it does not know.

    Of one that never opened only the coins count: it is taken to be of the audited window's class.
    """
    answered = Counter(record.manifest for _, record in log.of(Record))
    spent, unknown = [], None
    for one in span.windows:
        try:
            whole = one.policy.whole(known_class(auditor, one))
        except Undecided as error:
            unknown = unknown or error
            continue
        spent.append(
            Spent(one.window, one.policy, whole, one.queries, one.coin_period, one.accounts, answered[one.manifest])
        )
    whole = window.manifest.policy.whole(window.cls)
    return (*spent, *(Spent(one.window, one.policy, whole, 0, one.coin_period) for one in span.abandoned)), unknown


def _agreed(found: Bound) -> dict[str, CrossCheck]:
    """What the second implementation says of an epsilon on which this auditor's own routes agree, where it can.

    Raises:
        Undecided: somebody's arithmetic is wrong here; that is no fault of the provider's.
    """
    if found.disagreement:
        raise Undecided(found.disagreement, OWN_MISTAKE)
    return {name: _confirmed(cls, report) for name, cls, report in found.confirmed}


def _confirmed(cls: AttestationClass, report: EpsilonReport) -> CrossCheck:
    opinion = second_opinion(with_noise(cls), report)
    if opinion.agrees is False:
        raise Undecided(
            f"{opinion.implementation} computes epsilon {opinion.epsilon} for {opinion.accountant}", OWN_MISTAKE
        )
    return opinion


def _boundless(log: LogView, window: Window, auditor: Auditor, span: Period, why: str) -> Refused | Undecided:
    """No finite epsilon: the provider's doing if the log and its policies alone give none.

    Which windows count may also rest on this auditor's own beginning of the period and on what its folder says of its
    nonces: when they were drawn, whether they were released, and that it has them.
    """
    policy = window.under(span.of)
    kept = {signed.manifest.digest(): b"" for _, signed in log.manifests()}  # no nonce of its own was lost
    alone = period(log, window, replace(auditor, since=None, drawn={}, released={}, nonces=kept), span.of)
    spent, unknown = _spent(log, window, auditor, alone)
    if unknown is not None and not any(one.queries for one in spent):
        return unknown
    try:
        bounded = not claim_of(policy).account(spent, rational(policy.delta, "delta")).boundless
    except PolicyError:
        bounded = False
    if not bounded:
        return Refused(why)
    return Undecided(
        f"{why}; for the windows that the policy's period has by the log's own times one does follow",
        "leave --period-from out, and check this machine's clock",
    )

# SPDX-License-Identifier: GPL-3.0-or-later
"""Step 11 where the claim is answers: what the keywords of all answers tell of one document.  SPEC D.22.

The number that is proven counts every record that the log shows in the period.  The one with the filter counts the
answers that one document takes part in: how many those are the provider says, in its policy and nowhere else.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict, replace
from fractions import Fraction
from typing import Any

from ragseal.accounting.answers import (
    Answering,
    AnswersReport,
    AnswersRow,
    answers_odometer,
    answers_of_one_account,
    answers_period,
)
from ragseal.accounting.rounding import upward
from ragseal.kernel.attestation import Record
from ragseal.kernel.errors import AuditError, PolicyError
from ragseal.kernel.policy import ANSWERS, rational
from ragseal.verifier.evidence.evidence import OWN_MISTAKE, Auditor, Refused, Undecided
from ragseal.verifier.steps.delivered import known_class
from ragseal.verifier.steps.log import LogView
from ragseal.verifier.steps.manifest import Window
from ragseal.verifier.steps.period import Period, PeriodWindow, period
from ragseal.verifier.steps.recorder import Recorder, quiet

_NAMED = 8  #: windows that an error names


def check_answers_period(
    log: LogView, window: Window, auditor: Auditor, span: Period, say: Recorder = quiet
) -> AnswersReport:
    """Epsilon of the period, plain and with the filter.

    Raises:
        Refused: what the provider's manifests allow has no finite epsilon, or they make different claims.
        Undecided: table and ideal law disagree here, an earlier window's class is unknown here, or only this auditor's
            own beginning of the period leaves no finite epsilon.
    """
    delta = rational(window.manifest.policy.delta, "delta")
    try:
        found = _account(auditor, log, span.windows, delta)
    except PolicyError as error:
        raise _boundless(log, window, auditor, delta, str(error)) from None
    say(
        windows=[one.window for one in span.windows],
        windows_left_out=[one.window for one in span.left_out],
        period_start=span.start,
        answers=found.plain.answers,
        epsilon_audit=found.plain.epsilon,
        epsilon_filtered=found.filtered.epsilon,
        participations=found.participations,
        delta=float(delta),
        delta_items=dict(found.items),
        **{f"epsilon_of_one_answer[{name}]": value for name, value in _routes(found).items()},
    )
    if not found.agree:
        raise Undecided("the table's and the ideal law's numbers disagree", OWN_MISTAKE)
    return found


def _routes(found: AnswersReport) -> dict[str, float]:
    one = found.alone
    return {
        "present, table": one.present,
        "present, ideal law": one.ideal[0],
        "absent, table": one.absent,
        "absent, ideal law": one.ideal[1],
    }


def answering(auditor: Auditor, log: LogView, windows: tuple[PeriodWindow, ...]) -> tuple[Answering, ...]:
    """The period's windows as its accounting takes them.

    Raises:
        Undecided: as :func:`ragseal.verifier.steps.delivered.known_class`.
    """
    records = Counter(record.manifest for _, record in log.of(Record))
    return tuple(
        Answering(one.window, one.policy, known_class(auditor, one), one.all_queries, records[one.manifest])
        for one in windows
    )


def _account(auditor: Auditor, log: LogView, windows: tuple[PeriodWindow, ...], delta: Fraction) -> AnswersReport:
    """The period's numbers.  Raises PolicyError: none follow."""
    other = [one.window for one in windows if not one.policy.answers]
    if other:
        raise PolicyError(
            f"windows of this budget period make a claim other than {ANSWERS}, and hand out documents whose texts no "
            f"epsilon of answers covers: {', '.join(other[:_NAMED])}; begin a new period with period_start = the time "
            "at which the window opens, once those of the other claim have closed"
        )
    return answers_period(answering(auditor, log, windows), delta)


def _boundless(log: LogView, window: Window, auditor: Auditor, delta: Fraction, why: str) -> Refused | Undecided:
    """No finite epsilon: the provider's doing if the log and its policies alone give none."""
    alone = period(log, window, replace(auditor, since=None, drawn={}))
    try:
        _account(auditor, log, alone.windows, delta)
    except PolicyError:
        return Refused(why)
    return Undecided(
        f"{why}; for the windows that the policy's period has by the log's own times one does follow",
        "leave --period-from out, and check this machine's clock",
    )


def check_answers_advertised(window: Window, say: Recorder = quiet) -> float:
    """From the manifest alone: one account's n_max answers tell no more than the policy advertises.

    Raises:
        Refused: the noise gives more.
    """
    policy = window.manifest.policy
    try:
        alone = answers_of_one_account(policy, window.cls)
    except PolicyError as error:
        raise Refused(str(error)) from None
    say(epsilon_of_one_account=alone, advertised_to_one_account=policy.epsilon_account)
    if not alone <= rational(policy.epsilon_account, "epsilon_account"):
        raise Refused(
            f"the policy advertises epsilon {policy.epsilon_account} to one account, the noise gives {upward(alone)}"
        )
    return alone


def rows(auditor: Auditor, log: LogView, span: Period, delta: Fraction) -> tuple[AnswersRow, ...]:
    """How the period's epsilon grew."""
    return answers_odometer(answering(auditor, log, span.windows), delta)


def whole_log(auditor: Auditor, log: LogView, span: Period, delta: Fraction) -> float | str | None:
    """Epsilon of all windows of the log, if some were left out; information, so it explains instead of failing."""
    if not span.outside:
        return None
    try:
        return _account(auditor, log, span.whole.windows, delta).plain.epsilon
    except PolicyError:
        return math.inf
    except AuditError as error:
        return f"not known: {error}"


def details(found: AnswersReport) -> dict[str, Any]:
    """For the report; beside each number whose word it rests on."""
    return {
        "answers": found.plain.answers,
        "epsilon_filtered": found.filtered.epsilon,
        "participations": found.participations,
        "epsilon_of_all_answers_rests_on": "the log's records and their proofs; that each histogram is of documents "
        "that add at most one to a count, that texts are written from question and keywords alone, and that the "
        "vocabulary is public, is the provider's word",
        "epsilon_filtered_rests_on": "besides, on the provider's word that a document takes part in no more answers",
        "plain": asdict(found.plain),
        "filtered": asdict(found.filtered),
        "one_answer": _routes(found),
        "delta_items": dict(found.items),
    }

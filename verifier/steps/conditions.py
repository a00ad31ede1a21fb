# SPDX-License-Identifier: GPL-3.0-or-later
"""The conditions of the top-K accountants, and what of this audit shows each of them.  SPEC D.14.4.

Each one is necessary: without the clip at lo, for one, other documents far below the window make a released slot
certain and the bounds fail.  What is arithmetic is checked in the accounting itself (an accountant that does not apply
says why); the rest is what earlier steps have checked or the circuit proves, named here so that a reader can follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ragseal.accounting.audit import ORDERED
from ragseal.accounting.period import PeriodReport
from ragseal.kernel.policy import Policy

_PROVEN = "step 8, for the records proven: "
_BY_THE_CIRCUIT = (
    ("every score of the capacity is clipped from below", _PROVEN + "no slot is left out whose noise alone wins"),
    ("every slot carries noise, empty ones too", _PROVEN + "noise of all N slots of the class"),
    ("the noise of every query is fresh", "steps 2 and 6: seed never used before; account and ctr in the noise's key"),
    ("always exactly K ids, as a set in slot order", _PROVEN + "K winners, strictly increasing"),
    ("nothing else depends on the noisy scores", "step 10: overflow and grid are in delta; proofs reveal nothing"),
)


def conditions(report: PeriodReport, policies: Sequence[Policy]) -> list[dict[str, Any]]:
    """One line a condition: what, whether it holds, and where that was checked.

    Those that steps 2 to 10 refuse a window for are true here: a verdict gets this far only with them.
    """
    out = [
        {
            "condition": "an empty slot scores lowest: 0 <= lo < hi in every window",
            "holds": all(0 <= policy.lo < policy.hi for policy in policies),
            "shown_by": f"the policies of {len(policies)} windows",
        },
        {
            "condition": "a document fills one slot",
            "holds": report.chunks == 1,
            "shown_by": f"the largest chunks_max of the period is {report.chunks}",
        },
    ]
    out += [{"condition": what, "holds": True, "shown_by": where} for what, where in _BY_THE_CIRCUIT]
    for name, one in report.reports.items():
        unfit = one.bound(ORDERED).unfit
        out.append(
            {
                "condition": f"class {name}: the theorems' numbers are in range",
                "holds": not unfit,
                "shown_by": unfit or f"{one.n} queries at a shift of {one.shift} steps",
            }
        )
    return out


_COIN = (
    ("one coin for each slot, the same for everybody", "step 4: hidden slots are empty in the columns of all records"),
    ("nobody chose the coins", "steps 2 and 5: C_coin before the beacon that threw them, this auditor's nonce last"),
    ("every throw of the period counts", "step 11: windows that never opened are counted if their coins were known"),
    ("texts are opened for flagged ids only", "flags are proven with the ids (step 8); what is opened, accounts check"),
)


def conditions_of_delivered(policies: Sequence[Policy], late: bool) -> list[dict[str, Any]]:
    """As :func:`conditions`, of the claim until-delivered (docs/proofs/until-delivered.md).

    Args:
        late: a window of the period carries on coins of an earlier one, or took documents while it was open; a line
            whose ``holds`` is None then says what no log shows.
    """
    out: list[dict[str, Any]] = [
        {
            "condition": "an empty slot scores lowest: 0 <= lo < hi in every window",
            "holds": all(0 <= policy.lo < policy.hi for policy in policies),
            "shown_by": f"the policies of {len(policies)} windows",
        }
    ]
    if late:
        out.append(
            {
                "condition": "where a document stands does not depend on coins that are known already",
                "holds": None,
                "shown_by": "the provider's word, for what was put after a coin period's coins were thrown (A.11.6)",
            }
        )
    return out + [{"condition": what, "holds": True, "shown_by": where} for what, where in (*_COIN, *_BY_THE_CIRCUIT)]


_OF_ANSWERS = (
    ("a count is clipped, and every keyword has the flag", _PROVEN + "digits are clipped; the step is this auditor's"),
    ("a histogram changes no other input of its proof", "step 8: C_y opens over the score bases of the key"),
    (
        "every keyword carries noise, and the noise of every answer is fresh",
        _PROVEN + "noise of all N slots; steps 2, 6",
    ),
    ("always exactly K keywords, as a set", _PROVEN + "K winners, strictly increasing"),
    ("every answer counts", "step 6: records without gaps; step 11 counts those of all windows of the period"),
)


def conditions_of_answers(policies: Sequence[Policy], often: int) -> list[dict[str, Any]]:
    """As :func:`conditions`, of the claim answers (docs/proofs/answers.md).

    A line whose ``holds`` is None says what rests on the provider's word.

    Args:
        often: answers that a document may take part in, over all filters of the period.
    """
    words, parts = (max(values) for values in zip(*((p.words_max, p.chunks_max) for p in policies), strict=True))
    one = "one document" if parts == 1 else f"each of up to {parts} parts of one document"
    said = (
        f"{one} adds at most one to a count and to at most {words} counts",
        f"{one} takes part in at most {often} answers of the period (only the epsilon with the filter needs it)",
        "an answer's text is written from the question and the keywords alone, and how long it takes tells nothing",
        "the vocabulary's words come from public data",
    )
    return [{"condition": what, "holds": True, "shown_by": where} for what, where in _OF_ANSWERS] + [
        {"condition": what, "holds": None, "shown_by": "the provider's word (SPEC A.14.5)"} for what in said
    ]

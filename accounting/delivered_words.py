# SPDX-License-Identifier: GPL-3.0-or-later
"""What coin and return of the claim until-delivered come to, for those who choose a policy."""

from __future__ import annotations

import math

from ragseal.accounting import guess
from ragseal.accounting.guess import absence_in_words
from ragseal.accounting.rounding import upward
from ragseal.kernel.classes import AttestationClass


def hidden_in_words(share: float) -> str:
    """ "1 document in 20 is not found this period, by anybody"."""
    return f"1 document in {round(1 / share)} is not found this period, by anybody: a secret coin hides {share:.1%}"


def unseen_in_words(unseen: float) -> str:
    """What the odds of a document come to for those who were not handed it."""
    return f"unseen {upward(unseen)}: any number of accounts, with any number of queries, {absence_in_words(unseen)}"


def return_in_words(returned: float) -> str:
    """What the return bounds, and what it does not."""
    if math.isinf(returned):
        return "return inf: how often the id of a document comes back is not bounded"
    return (
        f"{guess.return_in_words(returned)}: an account that knows what to ask for is handed the document, unless its "
        "coin hides it"
    )


def chance_in_words(listed: float, n_max: int, cls: AttestationClass) -> str:
    """What comes back without a score."""
    return (
        f"chance 0: {cls.by_chance} alone hands over no text of a document that scores lo or less; it shows ids with "
        f"nothing to read, up to {listed:.0%} of all in {n_max} queries of an account. Documents that score above lo "
        "may be handed over by chance"
    )

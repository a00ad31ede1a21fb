# SPDX-License-Identifier: GPL-3.0-or-later
"""How strong a PASS is, as a colour: by the attacker's best guess (:mod:`ragseal.accounting.guess`).

The claim being computational (SIM-CDP), it bounds efficient attackers up to the terms that the report names.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ragseal.accounting.guess import STRONG
from ragseal.kernel.verdict import NONE, NOT_KNOWN, Claimed
from ragseal.verifier.outcome.words import NO_VERDICT, PASS, SAMPLED_PASS

GOOD, MID, BAD, OPEN = "good", "mid", "bad", "open"  #: tones: the colour class of a verdict


def passes(verdict: str) -> bool:
    return verdict in (PASS, SAMPLED_PASS)


def weak(verdict: str, epsilon: Any) -> bool:
    """Whether the bound of a PASS says next to nothing; also where epsilon is no number."""
    return passes(verdict) and not (isinstance(epsilon, int | float) and epsilon <= STRONG)


def worst(claims: Sequence[Claimed]) -> float | None:
    """The largest of each claim's epsilon and that of the whole log; infinite where one is not known or there is none,
    and None of no claim.

    A provider says itself when a period begins: green is not for a small number of one day beside a large one of all.
    """
    known = [text for one in claims for text in (one.epsilon, one.epsilon_log or "0")]
    return max((math.inf if text in (NOT_KNOWN, NONE) else float(text) for text in known), default=None)


def tone(verdict: str, epsilon: Any, rests: bool = False) -> str:
    """The colour class: good is kept for a full PASS that bounds somebody, open is for what nobody decided.

    Args:
        epsilon: :func:`worst` of what the verdict claims.
        rests: whether any of it rests on the provider's word.
    """
    if passes(verdict):
        return GOOD if verdict == PASS and not rests and not weak(verdict, epsilon) else MID
    return OPEN if verdict == NO_VERDICT else BAD

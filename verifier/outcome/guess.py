# SPDX-License-Identifier: GPL-3.0-or-later
"""How strong a PASS is, in words that need no training: the attacker's best guess (:mod:`ragseal.accounting.guess`).

Of two indices that differ in one slot an attacker is told one, each with probability 1/2, and says which.  The claim
being computational (SIM-CDP), the bound holds for efficient attackers up to the terms that the report names.
"""

from __future__ import annotations

import math
from typing import Any

from ragseal.accounting.guess import STRONG, absence_in_words, best_guess, presence_odds
from ragseal.accounting.rounding import per_cent, per_cent_number
from ragseal.kernel.verdict import NOT_KNOWN, Claimed
from ragseal.verifier.outcome.bands import band_of
from ragseal.verifier.outcome.words import NO_VERDICT, PASS, SAMPLED_PASS

GOOD, MID, BAD, OPEN = "good", "mid", "bad", "open"  #: tones: the colour class of a verdict
FORMULA = "(e^epsilon + delta) / (1 + e^epsilon): Kairouz, Oh, Viswanath 2015, theorem 2.1"


def passes(verdict: str) -> bool:
    return verdict in (PASS, SAMPLED_PASS)


def weak(verdict: str, epsilon: Any) -> bool:
    """Whether the bound of a PASS says next to nothing; also where epsilon is no number."""
    return passes(verdict) and not (isinstance(epsilon, int | float) and epsilon <= STRONG)


def worst(claimed: Claimed | None) -> float | None:
    """The larger of a claim's epsilon and that of the whole log; infinite where that is not known, None of no claim.

    A provider says itself when a period begins: green is not for a small number of one day beside a large one of all.
    """
    if claimed is None:
        return None
    known = [claimed.epsilon, claimed.epsilon_log or "0"]
    return max(math.inf if text == NOT_KNOWN else float(text) for text in known)


def tone(verdict: str, epsilon: Any, rests: bool = False) -> str:
    """The colour class: good is kept for a full PASS that bounds somebody, open is for what nobody decided.

    Args:
        epsilon: :func:`worst` of what the verdict claims.
        rests: whether any of it rests on the provider's word.
    """
    if passes(verdict):
        return GOOD if verdict == PASS and not rests and not weak(verdict, epsilon) else MID
    return OPEN if verdict == NO_VERDICT else BAD


def right(epsilon: float, delta: float) -> float:
    """The best guess; 1 where no epsilon follows."""
    return best_guess(epsilon, delta) if math.isfinite(epsilon) else 1.0


def details_of_delivered(unseen: float) -> dict[str, Any]:
    """As :func:`details`, of the claim until-delivered: the guess of whoever was not handed the document."""
    absent, _ = presence_odds(unseen)
    return {
        "account_per_cent": absent,
        "coalition_per_cent": absent,
        "account_band": band_of(unseen).name,
        "coalition_band": band_of(unseen).name,
        "coalition_accounts": None,
        "even_odds_per_cent": 50.0,
        "formula": "1 / (1 + e^-unseen): docs/proofs/until-delivered.md, theorems 1 and 2",
        "sentence": sentence_of_delivered(unseen),
    }


def sentence_of_delivered(unseen: float) -> str:
    """The same for people."""
    said = f"over the period any number of accounts, whatever they ask, {absence_in_words(unseen)}"
    if unseen > STRONG:
        said += f"; above unseen {STRONG:g} such a bound hardly protects anybody"
    return said


def details_of_answers(epsilon: float, filtered: float, epsilon_account: float, delta: float) -> dict[str, Any]:
    """As :func:`details`, of the claim answers: of all answers of the period, whoever got them."""
    return {
        "account_per_cent": per_cent_number(right(epsilon_account, delta)),
        "coalition_per_cent": per_cent_number(right(epsilon, delta)),
        "filtered_per_cent": per_cent_number(right(filtered, delta)),
        "account_band": band_of(epsilon_account).name,
        "coalition_band": band_of(epsilon).name,
        "coalition_accounts": None,
        "even_odds_per_cent": 50.0,
        "formula": FORMULA,
        "sentence": sentence_of_answers(epsilon, filtered, delta),
    }


def sentence_of_answers(epsilon: float, filtered: float, delta: float) -> str:
    """The same for people."""
    plain, by_word = per_cent(right(epsilon, delta)), per_cent(right(filtered, delta))
    said = (
        f"whoever guesses from even odds (50 %) whether a document is there is right at most {plain} of the time with "
        f"all answers of the period, texts included, and at most {by_word} if the provider keeps its word on how many "
        "answers a document takes part in"
    )
    if epsilon > STRONG:
        said += f"; above epsilon {STRONG:g} such a bound hardly protects anybody"
    return said


def details(epsilon: float, epsilon_account: float, delta: float, k_max: int) -> dict[str, Any]:
    """As report.json carries it."""
    return {
        "account_per_cent": per_cent_number(right(epsilon_account, delta)),
        "coalition_per_cent": per_cent_number(right(epsilon, delta)),
        "account_band": band_of(epsilon_account).name,
        "coalition_band": band_of(epsilon).name,
        "coalition_accounts": k_max,
        "even_odds_per_cent": 50.0,
        "formula": FORMULA,
        "sentence": sentence(epsilon, epsilon_account, delta, k_max),
    }


def sentence(epsilon: float, epsilon_account: float, delta: float, k_max: int) -> str:
    """The same for people."""
    alone, together = per_cent(right(epsilon_account, delta)), per_cent(right(epsilon, delta))
    said = (
        f"whoever guesses from even odds (50 %) what one slot holds is right at most {together} of the time with "
        f"{k_max} accounts over the period, {alone} with one account in this window"
    )
    if epsilon > STRONG:
        said += f"; above epsilon {STRONG:g} such a bound hardly protects anybody"
    return said

# SPDX-License-Identifier: GPL-3.0-or-later
"""How strong a PASS is, in words that need no training: the attacker's best guess (:mod:`ragseal.kernel.guess`).

Of two indices that differ in one slot an attacker is told one, each with probability 1/2, and says which.  The claim
being computational (SIM-CDP), the bound holds for efficient attackers up to the terms that the report names.
"""

from __future__ import annotations

import math
from typing import Any

from ragseal.kernel.guess import STRONG, best_guess

GOOD, MID, WEAK, BAD, NONE = "good", "mid", "weak", "bad", "none"  #: tones: the colour class of a verdict

FORMULA = "(e^epsilon + delta) / (1 + e^epsilon): Kairouz, Oh, Viswanath 2015, theorem 2.1"
_PLACES = 100  # per cent are given in hundredths, rounded up


def per_cent(epsilon: float, delta: float) -> float:
    """The best guess in per cent, rounded up to two places; 100 where no epsilon follows."""
    known = best_guess(epsilon, delta) if math.isfinite(epsilon) else 1.0
    return min(100.0, math.ceil(_PLACES * 100 * known) / _PLACES)


def tone(epsilon: float) -> str:
    """The colour class of a PASS: green is kept for what bounds somebody."""
    return GOOD if epsilon <= STRONG else WEAK


def details(epsilon: float, epsilon_account: float, delta: float, k_max: int) -> dict[str, Any]:
    """As report.json carries it."""
    return {
        "account_per_cent": per_cent(epsilon_account, delta),
        "coalition_per_cent": per_cent(epsilon, delta),
        "coalition_accounts": k_max,
        "even_odds_per_cent": 50.0,
        "formula": FORMULA,
        "sentence": sentence(epsilon, epsilon_account, delta, k_max),
    }


def sentence(epsilon: float, epsilon_account: float, delta: float, k_max: int) -> str:
    """The same for people."""
    alone, together = per_cent(epsilon_account, delta), per_cent(epsilon, delta)
    said = (
        f"whoever guesses from even odds (50 %) what one slot holds is right at most {together:.2f} % of the time with "
        f"{k_max} accounts over the period, {alone:.2f} % with one account in this window"
    )
    if epsilon > STRONG:
        said += f"; above epsilon {STRONG:g} such a bound hardly protects anybody"
    return said

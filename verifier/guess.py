# SPDX-License-Identifier: GPL-3.0-or-later
"""How strong a PASS is, in words that need no training: the best guess of an attacker who began at even odds.

Of two indices that differ in one slot an attacker is told one, each with probability 1/2, and says which.  Under
(epsilon, delta)-indistinguishability every test has P(says 1 | 1) <= e^epsilon P(says 1 | 0) + delta, and the same with
the two exchanged, so no attacker is right more often than

    (e^epsilon + delta) / (1 + e^epsilon),

and some mechanism with these numbers lets one be (Kairouz, Oh, Viswanath, "The composition theorem for differential
privacy", ICML 2015: theorem 2.1's region of errors, whose best sum gives total variation
(e^epsilon - 1 + 2 delta) / (e^epsilon + 1); Wasserman and Zhou 2010 for delta = 0).  The claim being computational
(SIM-CDP), it holds for efficient attackers up to the terms that the report names.
"""

from __future__ import annotations

import math
from typing import Any

DECORATION = 4.0  #: above this epsilon the number is decoration: the attacker may be right 98.2 times of 100
HONEST = 3.0  #: up to here a bound says something to the account it is about: 95.3 times of 100
GOOD, MID, WEAK, BAD, NONE = "good", "mid", "weak", "bad", "none"  #: tones: the colour class of a verdict

FORMULA = "(e^epsilon + delta) / (1 + e^epsilon): Kairouz, Oh, Viswanath 2015, theorem 2.1"
_PLACES = 100  # per cent are given in hundredths, rounded up


def best_guess(epsilon: float, delta: float) -> float:
    """The largest probability, between 1/2 and 1, to tell the two apart from even odds; 1 where nothing is known."""
    if not (math.isfinite(epsilon) and epsilon >= 0 and 0 <= delta <= 1):
        return 1.0
    small = math.exp(-epsilon)
    return min(1.0, math.nextafter((1 + delta * small) / (1 + small), math.inf))


def per_cent(epsilon: float, delta: float) -> float:
    """:func:`best_guess` in per cent, rounded up to two places."""
    return min(100.0, math.ceil(_PLACES * 100 * best_guess(epsilon, delta)) / _PLACES)


def tone(epsilon: float) -> str:
    """The colour class of a PASS: green is kept for what bounds somebody."""
    return GOOD if epsilon <= HONEST else MID if epsilon <= DECORATION else WEAK


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
    if epsilon > DECORATION:
        said += f"; above epsilon {DECORATION:g} such a bound hardly protects anybody"
    return said

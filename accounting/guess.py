# SPDX-License-Identifier: GPL-3.0-or-later
"""What an (epsilon, delta) bound leaves of an attacker's doubt: the best guess from even odds.  SPEC D.11.

Somebody who must tell two histories apart, each as likely as the other, and sees what the mechanism released, is wrong
with probability at least (1 - delta) / (1 + e^epsilon): the sum of the two errors of a test under (epsilon, delta) is
at least 2 (1 - delta) / (1 + e^epsilon) (Kairouz, Oh and Viswanath 2015, Theorem 2.1), and a mechanism reaches it.
"""

from __future__ import annotations

import math

from ragseal.accounting.rounding import per_cent_number, upward
from ragseal.kernel.errors import PolicyError

MOST_TIMES = 30.0  #: nats; a return above it is no bound that means anything
STRONG = 4.0  #: epsilon up to which a bound is worth a green page: above it more than 98.2 of 100 guesses may be right


def best_guess(epsilon: float, delta: float) -> float:
    """Largest probability of a right guess, between 1/2 and 1: (e^epsilon + delta) / (1 + e^epsilon).

    Args:
        epsilon: at least 0; infinite where nothing is bounded, which leaves certainty.
        delta: between 0 and 1.

    Raises:
        PolicyError: out of range, or no number.
    """
    if not epsilon >= 0 or not 0 <= delta <= 1:
        raise PolicyError(f"no guess follows from epsilon {epsilon} and delta {delta}: at least 0, and from 0 to 1")
    kept = math.exp(-epsilon)  # no overflow, whatever epsilon
    return 1 - (1 - delta) * kept / (1 + kept)


def presence_odds(unseen: float) -> tuple[float, float]:
    """What even odds become for somebody who was never handed the document: (absent, present), per cent, sum 100.

    Absence may have become e^unseen times likelier than presence, and no more (``docs/proofs/until-delivered.md``):
    1 / (1 + e^-unseen), rounded up to one decimal.  unseen = 3: (95.3, 4.7).

    Raises:
        PolicyError: below 0, or no number.
    """
    absent = per_cent_number(best_guess(unseen, 0.0))
    return absent, round(100 - absent, 1)


def absence_in_words(unseen: float) -> str:
    """The headline of claim until-delivered, behind a subject such as "any number of accounts".

    Raises:
        PolicyError: as :func:`presence_odds`.
    """
    absent, _ = presence_odds(unseen)
    return (
        f"may become {absent:g} % sure, from even odds, that a document which they were not handed is absent, and "
        "learn nothing of its presence"
    )


def times(returned: float) -> str:
    """e^return, rounded up: how often a slot's id comes back at most, against an empty slot's.  ``any number of``:
    no bound, or none that says anything."""
    if not 0 <= returned < MOST_TIMES:
        return "any number of"
    return f"{math.ceil(math.exp(returned)):,}"


def return_in_words(returned: float, reading: str = "that is no promise about reading") -> str:
    """What the return is, wherever it stands; ``reading``: what follows from it of reading."""
    return (
        f"return {upward(returned)}, no part of epsilon: the id of a slot is returned at most {times(returned)} times "
        f"as often as that of an empty slot is by chance; {reading}"
    )

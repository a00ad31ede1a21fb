# SPDX-License-Identifier: GPL-3.0-or-later
"""What an (epsilon, delta) bound leaves of an attacker's doubt: the best guess from even odds.  SPEC D.11.

Somebody who must tell two histories apart, each as likely as the other, and sees what the mechanism released, is wrong
with probability at least (1 - delta) / (1 + e^epsilon): the sum of the two errors of a test under (epsilon, delta) is
at least 2 (1 - delta) / (1 + e^epsilon) (Kairouz, Oh and Viswanath 2015, Theorem 2.1), and a mechanism reaches it.
"""

from __future__ import annotations

import math

from ragseal.kernel.errors import PolicyError

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

# SPDX-License-Identifier: GPL-3.0-or-later
"""How bounds are written for people: rounded up, by one rule for everybody, so that no two programs disagree.

A bound that is rounded to the nearest claims too much half of the time.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal

DIGITS = 6  #: significant ones of a bound


def upward(value: float) -> str:
    """A bound from above for people: six significant digits, rounded up; ``inf`` for what is no number."""
    if not math.isfinite(value):
        return "inf"
    rounded = Context(prec=DIGITS, rounding=ROUND_CEILING).create_decimal(Decimal(value))
    return f"{float(rounded):.{DIGITS}g}"


def per_cent_number(probability: float) -> float:
    """A probability that is a bound from above, in per cent with one decimal, rounded up: 73.2, 100."""
    return math.ceil(Decimal(probability) * 1000) / 10


def per_cent(probability: float) -> str:
    """The same for people: ``73.2 %``, ``100 %``."""
    return f"{per_cent_number(probability):g} %"

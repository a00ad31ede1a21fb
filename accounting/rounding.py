# SPDX-License-Identifier: GPL-3.0-or-later
"""How numbers are written for people: bounds rounded up, by one rule for everybody, so that no two programs disagree.

A bound that is rounded to the nearest claims too much half of the time.
"""

from __future__ import annotations

import math
import re
from decimal import ROUND_CEILING, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction

DIGITS = 6  #: significant ones of a bound


_PLAIN = 1e-4  #: below it a number is written with an exponent
#: Numbers that JSON has no form for, as a report carries them.
_UNLIMITED = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
_EXPONENT = re.compile(r"e([+-])0*([1-9])")


def least_float(x: Fraction) -> float:
    """The least float that is not below x >= 0."""
    y = float(x)
    return y if Fraction(y) >= x else math.nextafter(y, math.inf)


def upward(value: float) -> str:
    """A bound from above for people: at most six significant digits and decimals, rounded up; ``inf`` for no number."""
    if not math.isfinite(value):
        return "inf"
    return _written(value, ROUND_CEILING)


def _written(value: float, rounding: str) -> str:
    """At most six significant digits, and six decimals where the number is written without an exponent."""
    exact = Decimal(value)
    rounded = Context(prec=DIGITS, rounding=rounding).create_decimal(exact)
    if _PLAIN <= abs(value) < 1:
        rounded = exact.quantize(Decimal(1).scaleb(-DIGITS), rounding)
    return f"{float(rounded):.{DIGITS}g}"


def per_cent_number(probability: float) -> float:
    """A probability that is a bound from above, in per cent with one decimal, rounded up: 73.2, 100."""
    return math.ceil(Decimal(probability) * 1000) / 10


def per_cent(probability: float) -> str:
    """The same for people: ``73.2 %``, ``100 %``."""
    return f"{per_cent_number(probability):g} %"


def for_people(value: object, bound: bool = False) -> str:
    """One value for people: yes, no and none, and numbers with at most six digits, as no program spells them.

    Args:
        bound: the value is a bound from above and is rounded up, any other to the nearest.
    """
    if value is None or value == "":
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    number = value if isinstance(value, float) else _UNLIMITED.get(value) if isinstance(value, str) else None
    if number is None:
        return str(value)
    if math.isnan(number):
        return "not a number"
    if math.isinf(number):
        return "no bound" if number > 0 else "minus infinity"
    text = upward(number) if bound else _written(number, ROUND_HALF_EVEN)
    return _EXPONENT.sub(r"e\1\2", text)

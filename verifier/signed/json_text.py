# SPDX-License-Identifier: GPL-3.0-or-later
"""JSON of signed texts: each number in one of two kinds, as it is written, and no member twice.  SPEC D.18.2.

Two readers of one signed text must read the same: ``web/verify/src/json.ts`` draws the same lines.
"""

from __future__ import annotations

import json
import math
from typing import Any

from ragseal.kernel.errors import EncodingError

MAX_DEPTH = 32
MAX_DIGITS = 32  #: characters of a number


def parse(data: bytes) -> Any:
    """One JSON value: a number without fraction and exponent as int, any other one as a finite float.

    Raises:
        EncodingError: not JSON in UTF-8, a member twice, nested deeper than MAX_DEPTH, a number of more than MAX_DIGITS
            characters or beyond what a float holds, NaN, or half a character (a lone surrogate).
    """
    try:
        found = json.loads(
            data.decode(),
            object_pairs_hook=_no_twins,
            parse_constant=_no_number,
            parse_int=_whole,
            parse_float=_finite,
        )
        json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise EncodingError(f"not one JSON value: {error}") from None
    level = [found]
    for _ in range(MAX_DEPTH + 1):
        lists = [one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list)]
        level = [one for members in lists for one in members]
    if level:
        raise EncodingError(f"JSON that is nested deeper than {MAX_DEPTH}")
    return found


def _no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object has a member twice")
    return found


def _no_number(text: str) -> Any:
    raise ValueError(f"{text[:MAX_DIGITS]} is not a number of JSON")


def _whole(text: str) -> int:
    return int(text) if len(text) <= MAX_DIGITS else _no_number(text)


def _finite(text: str) -> float:
    found = float(text)
    return found if len(text) <= MAX_DIGITS and math.isfinite(found) else _no_number(text)

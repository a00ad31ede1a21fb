# SPDX-License-Identifier: GPL-3.0-or-later
"""JSON that people and their programs write, read so that nothing of it is dropped.

Python's parser keeps the last of two members of one name, takes NaN, and recurses as deep as a text nests.
"""

from __future__ import annotations

import json
import re
from typing import Any

from ragseal.kernel.errors import AuditError, EncodingError

MAX_DEPTH = 64  #: nesting of arrays and objects


def parse_json(text: str, where: str, *, error: type[AuditError] = EncodingError, kind: str = "JSON") -> Any:
    """A JSON value.

    Args:
        where: what errors begin with.
        kind: what was expected, as errors call it.

    Raises:
        error: not JSON, a member that occurs twice, NaN or infinity, or nested deeper than MAX_DEPTH.
    """
    if text.count("[") + text.count("{") > MAX_DEPTH and _depth(text) > MAX_DEPTH:
        raise error(f"{where}: not {kind} (nested deeper than {MAX_DEPTH})")
    try:
        return json.loads(text, object_pairs_hook=_no_twins, parse_constant=_no_constant)
    except ValueError as wrong:
        reason = wrong.msg if isinstance(wrong, json.JSONDecodeError) else str(wrong)
        if reason.startswith("Exceeds the limit"):  # Python's own, with advice for programmers
            reason = "a whole number of more than 4300 digits"
        raise error(f"{where}: not {kind} ({reason[:80]})") from None


def parse_object(text: str, where: str, *, error: type[AuditError] = EncodingError) -> dict[str, Any]:
    """A JSON object.  Raises ``error``: as :func:`parse_json`, or another value."""
    value = parse_json(text, where, error=error, kind="a JSON object")
    if not isinstance(value, dict):
        raise error(f"{where}: not a JSON object but a {type(value).__name__}")
    return value


def _no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        names = [name for name, _ in pairs]
        twin = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the member {twin[:40]!r} occurs twice")
    return out


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _depth(text: str) -> int:
    """How deep arrays and objects nest.  The parser recurses, and a host program may have lifted Python's guard."""
    deepest = depth = 0
    for token in re.findall(r'"(?:[^"\\]|\\.)*"?|[\[{\]}]', text):  # a string, closed or not, is one token
        if token in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif token in "]}":
            depth -= 1
    return deepest

# SPDX-License-Identifier: GPL-3.0-or-later
"""The face of the three pages: one style sheet and one skeleton; how people read times, numbers and pseudonyms."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from html import escape
from importlib import resources

MARK = "/* face */"  #: stands in a static page where the style sheet goes
SHORT = 12  #: characters of a pseudonym that are shown

_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


@lru_cache(maxsize=1)
def style() -> str:
    """The style sheet."""
    return resources.files("ragseal.ledger").joinpath("web/face.css").read_text("utf-8")


def document(title: str, body: str) -> str:
    """A page that needs nothing from outside and runs nothing.

    Args:
        title: plain text.
        body: HTML; whoever made it has escaped what came from elsewhere.
    """
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style()}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n</body>\n"
        "</html>\n"
    )


def sentences(said: Sequence[str]) -> str:
    """What everybody should read first, numbered; plain text."""
    return f'<ol class="plain">{"".join(f"<li>{escape(one)}</li>" for one in said)}</ol>'


def issued(moment: object) -> str:
    """A time such as ``2026-11-22T08:04:09Z`` as :func:`when` writes it; what is no such time, as it is."""
    text = str(moment)
    return f"{text[:10]} {text[11:16]} UTC" if _MOMENT.fullmatch(text) else text


def counted(count: int, one: str, many: str = "") -> str:
    """ "1 record", "2 records"; ``many`` where the plural is no s behind ``one``."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def when(seconds: object) -> str:
    """Seconds since 1970 as day and time in UTC, such as ``2026-11-22 08:04 UTC``; what is no time, as it is."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return str(seconds)
    try:
        return f"{datetime.fromtimestamp(int(seconds), UTC):%Y-%m-%d %H:%M} UTC"
    except (ValueError, OverflowError, OSError):
        return str(seconds)


def shortened(name: str) -> str:
    """The beginning of a pseudonym, as much as tells a few of them apart."""
    return name if len(name) <= SHORT else f"{name[:SHORT]}\u2026"

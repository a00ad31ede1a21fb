# SPDX-License-Identifier: GPL-3.0-or-later
"""What a look at this machine showed is for those who sit at it: others get the error without it.

An error of a file may cross the wire as the status of a call, or stand in a report.  Owners, mounts, processes and
free space are nobody else's, so each text that a look made is remembered, and cut out of what leaves.  SPEC G.7.15.
"""

from __future__ import annotations

from ragseal.kernel.printable import printable

MOST = 4096  #: texts that are remembered; one that is made again counts once

_made: dict[str, None] = {}  #: the newest last


def here(text: str) -> str:
    """A text that :func:`for_others` cuts; gives it back."""
    for form in {text, printable(text)}:
        _made.pop(form, None)
        _made[form] = None
    while len(_made) > MOST:
        _made.pop(next(iter(_made)), None)
    return text


def for_others(text: str) -> str:
    """An error's text without what looks at this machine showed."""
    for made in sorted(_made, key=len, reverse=True):
        text = text.replace(made, "")
    return text

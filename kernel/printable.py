# SPDX-License-Identifier: GPL-3.0-or-later
"""Text of others, made fit for a terminal, a log and a page."""

from __future__ import annotations


def printable(text: str, keep: str = "") -> str:
    r"""``text`` with everything escaped that could steer a terminal or that no encoding carries.

    Control and formatting characters, half surrogate pairs (a file name that is no UTF-8) and odd spaces become
    ``\x1b``, ``\u202e`` and the like; those in ``keep`` stay.
    """
    if text.isprintable():
        return text
    return "".join(ch if ch.isprintable() or ch in keep else ascii(ch)[1:-1] for ch in text)

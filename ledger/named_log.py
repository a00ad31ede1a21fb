# SPDX-License-Identifier: GPL-3.0-or-later
"""The key of a log or of a witness, as an option names it: the key itself, or a file that holds it."""

from __future__ import annotations

import os
import re
from pathlib import Path

from ragseal.kernel.errors import EncodingError
from ragseal.ledger.note import NoteVerifier
from ragseal.runtime import texts

_KEY = re.compile(r"[^+\s]+\+[0-9a-f]{8}\+[A-Za-z0-9+/]+={0,2}")


def named_log(text: str, what: str = "the log key") -> NoteVerifier:
    """A verifier key ``name+id+base64``, or the one in a file.

    What has a key's form is a key, and never a file's name: a file could otherwise put another key in its place.

    Raises:
        ConfigurationError: a file that cannot be read, or that holds more than a line.
        EncodingError: no key, and no file of this name.
    """
    given = texts.line_of(text, what)
    if _KEY.fullmatch(given):
        return NoteVerifier.from_vkey(given)
    if os.path.exists(text):
        return NoteVerifier.from_vkey(texts.read_line(Path(text), f"{what} {text}"))
    try:
        return NoteVerifier.from_vkey(given)
    except EncodingError as error:
        raise EncodingError(f"{error}; and there is no file {texts.shown(given)}") from None

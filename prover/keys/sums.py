# SPDX-License-Identifier: GPL-3.0-or-later
"""The SHA-256 that is kept of a proving key when it is taken in: its digest is of the verifying half alone."""

from __future__ import annotations

import hashlib
from pathlib import Path

from ragseal.groth16.keys import ZKEY
from ragseal.runtime.durable import write_durably

SUM = "proving_key.sha256"  #: as sha256sum writes it, beside the key


def keep_sum(folder: Path) -> None:
    """Keep the SHA-256 of a key that was just taken in.  OSError: the disk refuses."""
    with (folder / ZKEY).open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    write_durably(folder / SUM, f"{digest}  {ZKEY}\n".encode())


def kept_sum(folder: Path) -> str | None:
    """The SHA-256 that is kept of a key, in hexadecimal; None: what stands there is no such line.

    OSError: it is not there, or cannot be read.
    """
    words = (folder / SUM).read_bytes().split()
    return words[0].decode("latin-1") if len(words) == 2 and words[1] == ZKEY.encode() else None

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

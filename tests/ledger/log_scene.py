# SPDX-License-Identifier: GPL-3.0-or-later
"""A log on disk, filled, and opened behind its back."""

from __future__ import annotations

import os
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.ledger.log import Appended, Log
from ragseal.ledger.note import NoteSigner

KEY = NoteSigner("log.example/w", Ed25519PrivateKey.from_private_bytes(bytes(31) + b"\x01"))
CHILD = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}


def fill(log: Log, count: int) -> list[Appended]:
    outcomes = log.append_now([lambda index: f"entry {index}".encode()] * count)
    return [outcome for outcome in outcomes if isinstance(outcome, Appended)]

# SPDX-License-Identifier: GPL-3.0-or-later
"""A writer that is killed: appends for ever and prints what was acknowledged.  Started by test_log.py."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.ledger.log import Log
from ragseal.ledger.note import NoteSigner


async def main(directory: Path) -> None:
    log = Log.open(directory, NoteSigner("log.example/w", Ed25519PrivateKey.from_private_bytes(bytes(31) + b"\x01")))
    print("open", log.size, flush=True)

    async def caller() -> None:
        while True:
            done = await log.append(lambda index: f"entry {index}".encode() + bytes(300))
            print(done.index, done.bundle.checkpoint.hex(), flush=True)

    await asyncio.gather(*(caller() for _ in range(8)))


asyncio.run(main(Path(sys.argv[1])))

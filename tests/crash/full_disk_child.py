# SPDX-License-Identifier: GPL-3.0-or-later
"""A provider on a file system that fills up: mounted here, in a namespace of its own.  Started by test_storage.py."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from ragseal.kernel.attestation import Answer
from ragseal.kernel.errors import AuditError
from tests.crash.crash_scene import examine
from tests.crash.test_storage import asker, serving_copy
from tests.simulator import provider as scene

SOURCE, MOUNT = Path(sys.argv[1]), Path(sys.argv[2])
ROOM = 4 * 1024 * 1024


def fill(directory: Path) -> Path:
    """A file that leaves nothing."""
    ballast = directory / "ballast"
    with open(ballast, "wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while True:
                    file.write(os.urandom(size))
            except OSError:
                continue
    return ballast


async def ask(serving: object, account: scene.Asker, text: str) -> Answer:
    message = account.message(text)
    signed = account.request(message, await account.prepare(message)).encode()
    answer = scene.opened(await scene.retrieved(serving, signed))  # type: ignore[arg-type]
    account.ctr, account.last_receipt = account.ctr + 1, answer.receipt.digest()
    return answer


async def main() -> None:
    used = sum(path.stat().st_size for path in SOURCE.rglob("*") if path.is_file() and not path.is_symlink())
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={used + ROOM}", "none", str(MOUNT)], check=True)
    state = MOUNT / "state"
    shutil.copytree(SOURCE, state, symlinks=True)
    acknowledged, refused, said = 0, 0, []
    for _ in range(3):  # filled while it runs, emptied before the next start
        async with serving_copy(state) as serving:
            account = asker("alice", serving)
            await ask(serving, account, "report about topic 1")
            acknowledged += 1
            ballast = fill(MOUNT)
            for number in range(40):
                try:
                    await ask(serving, account, f"report about topic {number % 13}")
                except AuditError as error:
                    refused += 1
                    said.append(f"{type(error).__name__}: {error}")
                    break
                acknowledged += 1
            ballast.unlink()
    with_room = False
    async with serving_copy(state) as serving:
        account = asker("bob", serving)
        with_room = (await ask(serving, account, "report about topic 1")).record.seq > 0
        acknowledged += 1
        records = len(serving.journal.history.newest.records) + 2
    report = examine(state)
    found = {
        "acknowledged": acknowledged, "refused": refused, "said": said, "answered_with_room": with_room,
        "records": records, "findings": report.findings,
    }  # fmt: skip
    print(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(main())

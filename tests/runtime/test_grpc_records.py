# SPDX-License-Identifier: GPL-3.0-or-later
"""Records of gRPC that somebody keeps must not hold freed memory: a process of its own, for it dies otherwise."""

from __future__ import annotations

import subprocess
import sys

KEEPER = """
import asyncio, gc, logging
from ragseal.runtime.rpc import new_server

kept = []


class Keeper(logging.Handler):
    def emit(self, record):
        kept.append(record)


logging.getLogger().addHandler(Keeper())
logging.getLogger().setLevel(logging.DEBUG)


async def dropped():
    new_server()  # as where its port is taken


asyncio.run(dropped())
gc.collect()  # frees the server
filled = [bytearray(200) for _ in range(10000)]
for record in kept:
    print(record.getMessage())
"""


def test_a_server_dropped_unstopped_is_in_no_record() -> None:
    done = subprocess.run([sys.executable, "-c", KEEPER], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    assert "Using selector" in done.stdout, "records were kept"

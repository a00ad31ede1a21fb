# SPDX-License-Identifier: GPL-3.0-or-later
"""How a server ends a connection: without a descriptor, without a lock, and again where it was not found."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel.errors import BudgetError
from ragseal.ledger.log import Log
from ragseal.ledger.note import NoteSigner
from ragseal.runtime import gate
from ragseal.runtime.limits import Limits
from ragseal.runtime.peers import end_connections
from ragseal.v1 import ledger_pb2
from tests.attacks.raw import RawCaller
from tests.attacks.test_exhaustion import no_descriptors
from tests.attacks.unread_scene import SERVICE, _answered, _serving
from tests.simulator import provider as scene

pytestmark = pytest.mark.slow
LOG = NoteSigner("log.example/w", Ed25519PrivateKey.from_private_bytes(bytes(31) + b"\x01"))


def test_ending_a_connection_takes_no_descriptor(tmp_path: Path) -> None:
    """Every file and pipe was duplicated for good: each search doubled them, and the sixteenth took all that were."""
    names = [f"ipv4:192.0.2.7:{number}" for number in (1, 2)]
    with (tmp_path / "file").open("wb"), socket.create_server(("127.0.0.1", 0)) as listening:
        pipe = os.pipe()
        mine = socket.create_connection(listening.getsockname())
        theirs, _ = listening.accept()
        before = sorted(os.listdir("/proc/self/fd"))
        assert [end_connections(names) for _ in range(3)] == [0, 0, 0]
        assert end_connections([*names, f"ipv4:127.0.0.1:{mine.getsockname()[1]}"]) == 1
        assert sorted(os.listdir("/proc/self/fd")) == before
        mine.settimeout(5)
        assert mine.recv(1) == b"", "the connection has ended, and its descriptor is still its owner's"
        theirs.close()
        mine.close()
        for descriptor in pipe:
            os.close(descriptor)


def test_a_connection_is_ended_where_no_descriptor_is_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        mine = socket.create_connection(listening.getsockname())
        theirs, _ = listening.accept()
        with no_descriptors():
            assert end_connections([f"ipv4:127.0.0.1:{mine.getsockname()[1]}"]) == 1
        theirs.close()
        mine.close()


@pytest.mark.parametrize("what", ["answers", "statuses"])
def test_a_connection_that_was_not_found_is_looked_for_again(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its calls kept their places for as long as their caller pleased."""
    looked: list[int] = []
    seeing = False

    def look(peers: Any) -> int:
        looked.append(len(peers))
        return end_connections(peers) if seeing else 0

    monkeypatch.setattr(gate, "end_connections", look)

    async def run() -> None:
        nonlocal seeing
        given = Limits(calls_of_one=8, send=1.0, slowest=1 << 30 if what == "answers" else 1)
        async with _serving(given) as (port, _, _):
            caller = RawCaller(port, buffer=2304, window=0 if what == "answers" else 1 << 30, room=1 << 30)
            wide = ledger_pb2.GetEntriesRequest(count=32).SerializeToString()
            caller.call(f"{SERVICE}/GetEntries", wide)
            await asyncio.sleep(0.5)  # which fills every buffer
            for _ in range(7):
                caller.call(f"{SERVICE}/{'GetEntries' if what == 'answers' else 'GetInclusionProof'}")
            await asyncio.sleep(1.9)
            assert looked
            with pytest.raises(BudgetError):
                await _answered(port, 5)
            seeing = True
            await asyncio.sleep(1.5)
            await _answered(port, 5)
            caller.close()

    asyncio.run(run())


def test_ending_a_connection_leaves_databases_their_locks(tmp_path: Path) -> None:
    """POSIX drops a process's locks on a file when it closes any descriptor of it, a duplicate too."""
    state = scene.new_state(tmp_path / "state")
    with state.transaction() as db:
        db.execute("INSERT INTO ask_floors VALUES (?, ?)", (b"a" * 32, 1))
    try:
        with Log.create(tmp_path / "log", LOG) as log:
            log.append_now([lambda _: b"an entry"])
            end_connections(["ipv4:192.0.2.7:1"])
            assert "database is locked" in _outside(tmp_path / "log" / "log.sqlite")
            assert "is locked" not in _outside(tmp_path / "state" / "state.db")
            assert (tmp_path / "state" / "state.db-wal").stat().st_size
            log.append_now([lambda _: b"another one"])
            log.fsck()
    finally:
        state.close()


def _outside(path: Path) -> str:
    """What another process says that opens and closes a database."""
    code = (
        "import sqlite3, sys\ndb = sqlite3.connect(sys.argv[1], timeout=0.2)\n"
        "try:\n  print(db.execute('SELECT COUNT(*) FROM sqlite_master').fetchall())\n"
        "except sqlite3.Error as error:\n  print(error)\ndb.close()"
    )
    return subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True).stdout

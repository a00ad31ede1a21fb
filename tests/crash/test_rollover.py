# SPDX-License-Identifier: GPL-3.0-or-later
"""kill -9 at every step of a roll-over: the next start goes on from what the folder holds."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bench.process import child_environment
from ragseal.kernel.commitment import WindowClose, WindowOpen
from ragseal.kernel.encoding import peek_tag
from tests.simulator import provider as scene
from tests.simulator.rolling import Running, rolling, schedule, until_open

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
STEPS = [
    "at prepared", "before SignedManifest", "after SignedManifest", "after BeaconCommit", "before BeaconSeal",
    "after BeaconSeal", "after BeaconOpening", "before WindowClose", "before WindowOpen", "after WindowOpen",
]  # fmt: skip
COINED = ["before Thinning", "after Thinning"]


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Path]:
    """Folders in which w1 is open and has a record, with and without coins."""
    found = {}
    for coins in (False, True):
        folder = tmp_path_factory.mktemp("base")

        async def run(coins: bool = coins, folder: Path = folder) -> None:
            async with scene.window_on(folder / "provider", coins=coins) as serving:
                await scene.Asker("alice", serving).ask("report about topic 3")

        asyncio.run(run())
        found[coins] = folder
    return found


@pytest.mark.parametrize("step", STEPS + COINED)
def test_a_provider_that_is_killed_in_a_roll_over_goes_on(bases: dict[bool, Path], tmp_path: Path, step: str) -> None:
    coins = step in COINED
    folder = tmp_path / "copy"
    shutil.copytree(bases[coins], folder, symlinks=True)
    line = [
        sys.executable,
        "-m",
        "tests.crash.dying",
        "roll-over",
        str(folder),
        "coins" if coins else "plain",
        *step.split(),
    ]
    child = subprocess.run(line, cwd=ROOT, env={**os.environ, **child_environment()}, capture_output=True, timeout=90)
    assert child.returncode == -signal.SIGKILL, child.stderr.decode()[-2000:]

    async def run() -> None:
        provider = scene.open_provider(folder / "provider", Running(), coins=coins)
        async with rolling(provider, schedule(folder, 3.0, coins=coins)) as server:
            window = await until_open(server, "w2")
            await scene.Asker("bob", server.serving).ask("report about topic 5")
            assert len(window.records) == 1
            names = [one.manifest.window for one in provider.journal.history.windows.values()]
            assert names[:2] == ["w1", "w2"]
            entries = [peek_tag(provider.ledger.entry(at)) for at in range(provider.ledger.size)]
            closed = entries.index(WindowClose.TAG)
            assert entries.index(WindowOpen.TAG, entries.index(WindowOpen.TAG) + 1) > closed

    asyncio.run(run())

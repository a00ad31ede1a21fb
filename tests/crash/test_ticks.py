# SPDX-License-Identifier: GPL-3.0-or-later
"""kill -9 at any moment of a tick: nothing is lost, nothing is forked, and the version is made."""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ragseal.kernel.proofs import ProofBatch
from ragseal.prover.fsck import fsck
from tests.simulator import provider as scene
from tests.simulator.keys import ROOT
from tests.simulator.provider import Asker

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an open window, one version, and a record over it."""
    folder = tmp_path_factory.mktemp("base") / "provider"

    async def open_one() -> None:
        async with scene.window_on(folder, version_every=60) as serving:
            await Asker("alice", serving).ask("topic 1")

    asyncio.run(open_one())
    return folder


@pytest.mark.parametrize("step", ["rows", "durable", "built", "entered"])
def test_a_provider_that_is_killed_in_a_tick_goes_on(base: Path, tmp_path: Path, step: str) -> None:
    folder = tmp_path / "provider"
    shutil.copytree(base, folder, symlinks=True)
    child = [sys.executable, "-m", "tests.crash.dying", "tick", str(folder), step]
    done = subprocess.run(child, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr

    async def go_on() -> None:
        clock = scene.Clock(scene.NOW + 60)
        provider = scene.open_provider(folder, clock)
        known = provider.ledger.size
        async with scene.serving_on(provider) as serving:
            window = scene.newest(serving)
            assert len(window.updates) == (2 if step == "entered" else 1)
            await serving.ticks.step()
            assert [one.number for _, one in window.updates] == [1, 2]
            assert provider.ledger.size == known + (step != "entered")
            bob = Asker("bob", serving)
            answer = await bob.ask("topic 2")
            assert window.number_of(answer.record.signed.request.index_digest) == 2
            batch = ProofBatch.decode(await scene.batch(serving, window.digest, []))
            assert [link.number for link in batch.links] == [1, 2]
            report = fsck.examine(provider, True)
            assert not report.findings, report.findings

    asyncio.run(go_on())

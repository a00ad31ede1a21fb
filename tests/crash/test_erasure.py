# SPDX-License-Identifier: GPL-3.0-or-later
"""kill -9 at every step of an erasure: the next start finishes it, and what is half done is never used."""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bench.process import child_environment
from ragseal.kernel.errors import AttestationError
from ragseal.prover.commitment import erasure
from ragseal.prover.storage.retirement import is_retired
from tests.crash.crash_scene import examine
from tests.simulator import provider as scene
from tests.simulator.marked import found_in, marks, texts

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
STEPS = [
    "after erase", "after prove", "before begin", "after begin", "before purge_rows", "after purge_rows",
    "after purge_coins", "before unlink", "after unlink", "after purge_leftovers",
    "before forget_ids", "after forget_ids", "before scrub", "after scrub", "after end", "after _end",
]  # fmt: skip


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Path]:
    """Folders in which w1 is closed and has a record of the marked document, with and without coins."""
    found = {}
    for coins in (False, True):
        folder = tmp_path_factory.mktemp("base") / "p"

        async def run(coins: bool = coins, folder: Path = folder) -> None:
            scene.new_state(folder, texts=texts).close()
            async with scene.window_on(folder, coins=coins, estimate=True) as serving:
                await scene.Asker("alice", serving).ask("report about topic 3")
                window = scene.newest(serving)
                proof = scene.signature.sign(serving.provider.state.key, "close", window.digest)
                await serving.close_window(window.digest, proof)

        asyncio.run(run())
        found[coins] = folder
    return found


@pytest.mark.parametrize("step", STEPS)
def test_an_erasure_that_is_killed_is_finished_by_the_next_start(
    bases: dict[bool, Path], tmp_path: Path, step: str
) -> None:
    coins = step in ("after begin", "after purge_rows", "before scrub")
    folder = tmp_path / "p"
    shutil.copytree(bases[coins], folder, symlinks=True)
    assert {needle for _, needle in found_in(folder, *marks())} == set(marks())
    line = [sys.executable, "-m", "tests.crash.dying", "erase", str(folder), "coins" if coins else "plain"]
    done = subprocess.run(
        [*line, *step.split()], cwd=ROOT, env=child_environment(), capture_output=True, timeout=300, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()[-2000:]
    report = examine(folder, whole=False)
    assert report.findings == []
    provider = scene.open_provider(folder, coins=coins, estimate=True)
    try:
        window = provider.journal.history.named("w1")
        (asked,) = erasure.erasures(provider.state)
        begun = is_retired(provider.state, window.digest)
        assert begun == (STEPS.index(step) > STEPS.index("before begin"))
        assert (asked.purged is None) == (step != "after _end")
        if begun:  # nothing that is half purged is answered or proven from
            with pytest.raises(AttestationError, match="is retired"):
                provider.window_secrets(window.digest)
    finally:
        provider.close()

    async def go_on() -> None:
        provider = scene.open_provider(folder, scene.Clock(scene.NOW + 15 * 86400), coins=coins, estimate=True)
        async with scene.serving_on(provider) as serving:
            while await serving.purging(
                lambda: serving.retiring.pending or not is_retired(provider.state, window.digest)
            ):
                await asyncio.sleep(0.05)
            (asked,) = erasure.erasures(provider.state)
            assert asked.purged is not None
            assert asked.document is None

    asyncio.run(asyncio.wait_for(go_on(), 120))
    assert found_in(folder, *marks()) == []
    assert examine(folder).findings == []

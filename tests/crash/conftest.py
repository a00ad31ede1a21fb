# SPDX-License-Identifier: GPL-3.0-or-later
"""A sound provider's folder with records and a proof, copied for every damage."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

from tests.simulator import provider as scene  # noqa: E402


@pytest.fixture(scope="session")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two windows: w1 closed with two records, a proof and signed links, w2 open with two records."""
    directory = tmp_path_factory.mktemp("sound") / "p"

    async def run() -> None:
        async with scene.window_on(directory) as serving:
            provider = serving.provider
            window = scene.newest(serving)
            alice = scene.Asker("alice", serving)
            await alice.ask("report about topic 3")
            await alice.ask("report about topic 5")
            serving.proofs.prove(window.digest, 0)
            proof = scene.signature.sign(provider.state.key, "close", window.digest)
            await serving.close_window(window.digest, proof)
            await scene.links(serving, window.digest)
        clock = scene.Clock(scene.NOW + 120)
        async with scene.window_on(directory, clock, name="w2", opens=scene.NOW + 120) as serving:
            await scene.Asker("bob", serving).ask("report about topic 3")
            await scene.Asker("carol", serving).ask("report about topic 5")

    asyncio.run(run())
    return directory


@pytest.fixture
def copy(sound: Path, tmp_path: Path) -> Callable[[str], Path]:
    """A fresh copy of the sound folder."""

    def make(name: str = "state") -> Path:
        shutil.copytree(sound, tmp_path / name, symlinks=True)
        return tmp_path / name

    return make

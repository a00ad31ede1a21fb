# SPDX-License-Identifier: GPL-3.0-or-later
"""A sound provider's folder with records and a proof, copied for every damage."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ragseal.circuits.build import DEFAULT_CACHE, build
from ragseal.circuits.circuit import class_digest, load_classes
from ragseal.groth16.keys import KeyPaths, make_keys
from ragseal.kernel.params import CircuitClass

ROOT = Path(__file__).resolve().parents[2]

from tests.prover import provider_scene as scene  # noqa: E402


@pytest.fixture(scope="session")
def tiny() -> CircuitClass:
    return load_classes()["tiny"]


@pytest.fixture(scope="session")
def keys(tiny: CircuitClass) -> KeyPaths:
    return make_keys(build(tiny, DEFAULT_CACHE).r1cs, tiny, class_digest(tiny), scene.KEYS_CACHE)


@pytest.fixture(scope="session")
def sound(tmp_path_factory: pytest.TempPathFactory, tiny: CircuitClass, keys: KeyPaths) -> Path:
    """Two windows: w1 closed with two records, a proof and signed links, w2 open with two records."""
    directory = tmp_path_factory.mktemp("sound") / "p"

    async def run() -> None:
        provider = scene.open_provider(directory, tiny, keys, scene.Clock())
        provider.commit(scene.make_policy(tiny), "w1")
        async with scene.serving_on(provider) as serving:
            window = await scene.open_window(serving)
            alice = scene.Asker("alice", serving)
            await alice.ask("report about topic 3")
            await alice.ask("report about topic 5")
            serving.proofs.prove(window.digest, 0)
            proof = scene.signature.sign(provider.state.key, "close", window.digest)
            await serving.close_window(window.digest, proof)
            await scene.links(serving, window.digest)
        clock = scene.Clock(scene.NOW + 120)
        provider = scene.open_provider(directory, tiny, keys, clock)
        provider.commit(scene.make_policy(tiny, opens=scene.NOW + 120), "w2")
        async with scene.serving_on(provider) as serving:
            await scene.open_window(serving)
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

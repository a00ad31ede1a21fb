# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures of the provider's tests: class TINY with its real circuit and key, made once, and a provider that serves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ragseal.circuits.build import BuiltCircuit, build
from ragseal.groth16.keys import KeyPaths
from ragseal.kernel.noise_class import NoiseClass
from tests.classes import TINY
from tests.simulator.keys import keys_of
from tests.simulator.live import Live, live


@pytest.fixture(scope="session")
def tiny() -> NoiseClass:
    return TINY


@pytest.fixture(scope="session")
def built(tiny: NoiseClass) -> BuiltCircuit[NoiseClass]:
    return build(tiny)


@pytest.fixture(scope="session")
def keys() -> KeyPaths:
    return keys_of(TINY)


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Live]:
    with live(tmp_path) as made:
        yield made

# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures of the provider's tests: the real circuit of class TINY and a real key for it, made once."""

from __future__ import annotations

import pytest

from ragseal.circuits.build import BuiltCircuit, build
from ragseal.groth16.keys import KeyPaths
from ragseal.kernel.noise_class import NoiseClass
from tests.classes import TINY
from tests.simulator.keys import keys_of


@pytest.fixture(scope="session")
def tiny() -> NoiseClass:
    return TINY


@pytest.fixture(scope="session")
def built(tiny: NoiseClass) -> BuiltCircuit[NoiseClass]:
    return build(tiny)


@pytest.fixture(scope="session")
def keys() -> KeyPaths:
    return keys_of(TINY)

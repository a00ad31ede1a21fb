# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures of the provider's tests: the real circuit of class tiny and a real key for it, made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragseal.circuits.build import DEFAULT_CACHE, BuiltCircuit, build
from ragseal.circuits.circuit import class_digest, load_classes
from ragseal.groth16.keys import KeyPaths, make_keys
from ragseal.kernel.params import CircuitClass

KEYS_CACHE = Path("var/keys")


@pytest.fixture(scope="session")
def tiny() -> CircuitClass:
    return load_classes()["tiny"]


@pytest.fixture(scope="session")
def built(tiny: CircuitClass) -> BuiltCircuit:
    return build(tiny, DEFAULT_CACHE)


@pytest.fixture(scope="session")
def keys(tiny: CircuitClass, built: BuiltCircuit) -> KeyPaths:
    return make_keys(built.r1cs, tiny, class_digest(tiny), KEYS_CACHE)

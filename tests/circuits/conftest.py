# SPDX-License-Identifier: GPL-3.0-or-later
"""Shared by the circuit tests: compiled circuits (cached under var/build), read once a session."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # r1cs.py and drafts.py lie beside the tests

from drafts import Setting
from r1cs import R1cs, read

from ragseal.circuits.build import build, load_classes

CACHE = Path(__file__).resolve().parents[2] / "var" / "build"


@cache
def compiled(name: str) -> R1cs:
    built = build(load_classes()[name], CACHE)
    return read(built.r1cs, built.sym)


@pytest.fixture(scope="session")
def tiny() -> Setting:
    return Setting(load_classes()["tiny"], compiled("tiny"))


@pytest.fixture(scope="session", params=["tiny", "tiny-geo"])
def setting(request: pytest.FixtureRequest) -> Setting:
    return Setting(load_classes()[request.param], compiled(request.param))

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
from ragseal.circuits.search import complete
from ragseal.kernel.params import CircuitClass

CACHE = Path(__file__).resolve().parents[2] / "var" / "build"


def probe() -> CircuitClass:
    """A class for tests whose ids need more than one chunk, the highest of them narrow."""
    return complete("probe", "geometric", N=270, K=3, m=8, q=18, c=8, s=3)


@cache
def compiled(cls: CircuitClass) -> R1cs:
    built = build(cls, CACHE)
    return read(built.r1cs, built.sym)


@pytest.fixture(scope="session")
def tiny() -> Setting:
    cls = load_classes()["tiny"]
    return Setting(cls, compiled(cls))


@pytest.fixture(scope="session", params=["tiny", "tiny-geo", "probe"])
def setting(request: pytest.FixtureRequest) -> Setting:
    cls = probe() if request.param == "probe" else load_classes()[request.param]
    return Setting(cls, compiled(cls))

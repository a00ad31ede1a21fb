# SPDX-License-Identifier: GPL-3.0-or-later
"""Shared by the circuit tests."""

from __future__ import annotations

import pytest

from ragseal.circuits.circuit import load_classes
from tests.circuits.drafts import Setting
from tests.circuits.scene import compiled, probe


@pytest.fixture(scope="session")
def tiny() -> Setting:
    cls = load_classes()["tiny"]
    return Setting(cls, compiled(cls))


@pytest.fixture(scope="session", params=["tiny", "tiny-geo", "tiny-one", "probe"])
def setting(request: pytest.FixtureRequest) -> Setting:
    cls = probe() if request.param == "probe" else load_classes()[request.param]
    return Setting(cls, compiled(cls))

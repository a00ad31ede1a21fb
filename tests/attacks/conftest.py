# SPDX-License-Identifier: GPL-3.0-or-later
"""Removes one check for a whole run where :mod:`tests.attacks.liveness` asks for it."""

from __future__ import annotations

import os

import pytest

from tests.attacks.checks import CHECKS

REMOVED = "RAGSEAL_REMOVED_CHECK"


@pytest.fixture(autouse=True)
def removed_check(monkeypatch: pytest.MonkeyPatch) -> None:
    name = os.environ.get(REMOVED)
    if name:
        CHECKS[name].remove(monkeypatch)

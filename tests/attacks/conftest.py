# SPDX-License-Identifier: GPL-3.0-or-later
"""For every attack: step 11's numbers are computed once, one check is removed where ``liveness`` asks for it, and what
the audit refuses is read a second time, as a visitor's browser does (:mod:`tests.web.second_reader`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest

from ragseal.accounting import period
from ragseal.accounting.audit import EpsilonReport, epsilon_audit
from tests.attacks import world
from tests.attacks.checks import CHECKS
from tests.web.second_reader import reading

REMOVED = "RAGSEAL_REMOVED_CHECK"
_KNOWN: dict[Any, EpsilonReport] = {}


def _once(cls: Any, table: Any, **terms: Any) -> EpsilonReport:
    """epsilon_audit, a pure function of a policy that all worlds share."""
    at = (cls, table.law, *sorted(terms.items()))
    if at not in _KNOWN:
        _KNOWN[at] = epsilon_audit(cls, table, **terms)
    return _KNOWN[at]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(period, "epsilon_audit", _once)
    name = os.environ.get(REMOVED)
    if name:
        CHECKS[name].remove(monkeypatch)


@pytest.fixture(scope="session", autouse=True)
def second_reader() -> Iterator[None]:
    """Ends in an error where the auditor refused something public that the browser's checks let pass."""
    with nullcontext() if REMOVED in os.environ else reading(world.READERS):
        yield

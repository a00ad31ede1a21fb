# SPDX-License-Identifier: GPL-3.0-or-later
"""Cases of one test of which the fast suite runs the first alone: each takes a second or more."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def first_is_fast(cases: Iterable[Any]) -> list[Any]:
    """Parameters for ``parametrize``: all but the first are marked slow.  A tuple is one value for each argument."""
    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow if number else ())
        for number, case in enumerate(cases)
    ]

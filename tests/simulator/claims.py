# SPDX-License-Identifier: GPL-3.0-or-later
"""What a verdict claims, for tests that need no audit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ragseal.kernel.policy import EVERY_LIST
from ragseal.kernel.verdict import Claimed

_LIST = Claimed(EVERY_LIST, "85.8", "", "1e-06", "2", "20", 1_800_000_000, 0, "", ())


def claimed(epsilon: str = "85.8", **changes: Any) -> Claimed:
    """Of every list: 2 accounts of 20 queries each."""
    return replace(_LIST, epsilon=epsilon, **changes)

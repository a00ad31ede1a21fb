# SPDX-License-Identifier: GPL-3.0-or-later
"""What every test shares: Python's own recursion limit, which py_ecc lifts when it is imported."""

from __future__ import annotations

import contextlib
import sys

_LIMIT = sys.getrecursionlimit()
with contextlib.suppress(ImportError):
    import py_ecc.optimized_bn128  # noqa: F401 - its import changes the limit
sys.setrecursionlimit(_LIMIT)

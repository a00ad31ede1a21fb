# SPDX-License-Identifier: GPL-3.0-or-later
"""What an audit's numbers were computed with: this program and the distributions under it, by version."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Any

import ragseal

NAME = "ragseal-verifier"
#: By name of the distribution.
DISTRIBUTIONS = ("ragseal", "cryptography", "numpy", "grpcio", "protobuf", "ragseal-native")


def program() -> dict[str, Any]:
    """Name, version, and ``with``: version by distribution, of those that are installed."""
    found = {}
    for name in DISTRIBUTIONS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return {"name": NAME, "version": ragseal.__version__, "with": found}

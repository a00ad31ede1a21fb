# SPDX-License-Identifier: GPL-3.0-or-later
"""Compiled circuits (cached under var/build), read once per session."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from ragseal.circuits.build import build
from ragseal.circuits.search import complete
from ragseal.kernel.params import CircuitClass
from tests.circuits.r1cs import R1cs, read

CACHE = Path(__file__).resolve().parents[2] / "var" / "build"


def probe() -> CircuitClass:
    """A class for tests whose ids need more than one chunk, the highest of them narrow."""
    return complete("probe", "geometric", N=270, K=3, m=8, q=18, c=8, s=3)


@cache
def compiled(cls: CircuitClass) -> R1cs:
    built = build(cls, CACHE)
    return read(built.r1cs, built.sym)

# SPDX-License-Identifier: GPL-3.0-or-later
"""Compiled circuits (cached under var/build), read once per session."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from ragseal.circuits.build import build
from ragseal.circuits.circuit import load_classes
from ragseal.circuits.search import complete_noise
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.noise_class import NoiseClass
from ragseal.kernel.params import GAUSSIAN, GEOMETRIC
from tests.circuits.r1cs import R1cs, read

TINY = {
    GEOMETRIC: "noise-tiny-two",
    GAUSSIAN: "noise-tiny-gaussian",
}
CACHE = Path(__file__).resolve().parents[2] / "var" / "build"


@cache
def compiled(cls: AttestationClass) -> R1cs:
    built = build(cls, CACHE)
    return read(built.r1cs, built.sym)


def noise_tiny(law: str = GEOMETRIC) -> NoiseClass:
    """The noise class of a law that is for tests; an id has two chunks, the highest narrow."""
    cls = load_classes()[TINY[law]]
    assert isinstance(cls, NoiseClass)
    return cls


def noise_probe() -> NoiseClass:
    """A noise class for one shard, with more than one block."""
    return complete_noise("noise-probe", GEOMETRIC, N=2060, K=4, m=9, q=20, c=11, S=1)

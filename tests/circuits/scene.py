# SPDX-License-Identifier: GPL-3.0-or-later
"""Compiled circuits (cached under var/build), read once per session."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from ragseal.circuits.build import build
from ragseal.circuits.circuit import load_classes
from ragseal.circuits.search import complete_ranked
from ragseal.kernel.lottery_class import LotteryClass
from ragseal.kernel.params import RANKED_GAUSSIAN, RANKED_GEOMETRIC, RANKED_ONE_SIDED
from ragseal.kernel.ranked_class import RankedClass
from tests.circuits.r1cs import R1cs, read

TINY = {
    RANKED_GEOMETRIC: "ranked-tiny-two",
    RANKED_ONE_SIDED: "ranked-tiny-one",
    RANKED_GAUSSIAN: "ranked-tiny-gaussian",
}
CACHE = Path(__file__).resolve().parents[2] / "var" / "build"


@cache
def compiled(cls: RankedClass | LotteryClass) -> R1cs:
    built = build(cls, CACHE)
    return read(built.r1cs, built.sym)


def ranked_tiny(law: str = RANKED_GEOMETRIC) -> RankedClass:
    """The ranked class of a law that is for tests; ids fit a chunk."""
    cls = load_classes()[TINY[law]]
    assert isinstance(cls, RankedClass)
    return cls


def ranked_probe() -> RankedClass:
    """A ranked class whose ids need two chunks, with more than one block."""
    return complete_ranked("ranked-probe", RANKED_ONE_SIDED, N=2060, K=4, m=9, q=20, c=11)

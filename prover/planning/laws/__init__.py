# SPDX-License-Identifier: GPL-3.0-or-later
"""The laws that a plan compares, one file each: :func:`planned_law` is the one place that tells them apart."""

from __future__ import annotations

from typing import Any

from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.decoys.decoys_class import DecoysClass
from ragseal.kernel.noise_class import NoiseClass
from ragseal.prover.planning.laws.decoys import DecoysPlan
from ragseal.prover.planning.laws.interface import PlannedLaw
from ragseal.prover.planning.laws.noise import NoisePlan

#: By the class's kind, in the order in which a plan names them.
LAWS: dict[str, type[PlannedLaw]] = {NoiseClass.kind: NoisePlan, DecoysClass.kind: DecoysPlan}
PLANNED_LAWS = tuple(law for kind in LAWS.values() for law in kind.laws)  #: names of those that a plan compares


def planned_law(cls: AttestationClass) -> PlannedLaw:
    """What a plan asks of a class."""
    made: Any = LAWS[cls.kind]
    found: PlannedLaw = made(cls)
    return found


def law_named(law: str) -> type[PlannedLaw]:
    """The kind of a law by its name."""
    return next(kind for kind in LAWS.values() if law in kind.laws)

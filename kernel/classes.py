# SPDX-License-Identifier: GPL-3.0-or-later
"""The classes that a policy may name: of the statement with a dither and of the ranked one.  SPEC M.9.

What both have in common: ``name``, ``law``, ``N``, ``K``, ``R``, ``m``, ``q``, ``c``, ``L``, ``step_bits``,
``window_of``, ``shift_of``, and how T is packed.
"""

from __future__ import annotations

from typing import Any

from ragseal.kernel import overflow, ranked_class
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.lottery_class import LOTTERY, LotteryClass
from ragseal.kernel.noise import NoiseTable
from ragseal.kernel.params import RANKED_LAWS, CircuitClass, class_from_mapping
from ragseal.kernel.ranked_class import RankedClass, ranked_class_from_mapping

AttestationClass = CircuitClass | RankedClass | LotteryClass


def attestation_class(values: dict[str, Any]) -> AttestationClass:
    """A class from a parameter file's table; its law says which kind it is of.

    Raises:
        PolicyError: an unknown or missing key, a value of the wrong kind, parameters that contradict each other, or a
            class for shards (SPEC M.9.3).
    """
    if values.get("law") == LOTTERY:
        raise PolicyError("no circuit proves the lottery yet, so no class may have that law; choose a ranked one")
    if "S" in values:
        raise PolicyError(no_window_yet(str(values.get("name", ""))))
    return ranked_class_from_mapping(values) if values.get("law") in RANKED_LAWS else class_from_mapping(values)


def no_window_yet(name: str) -> str:
    """Why no policy may name a sharded class (SPEC M.9.3)."""
    return (
        f"{name!r} is a class for shards, and no window runs on those yet: its circuit, answers and proofs are there, "
        "records and audits of several shards are not; name a class of one index"
    )


def places_suffice(cls: AttestationClass, table: NoiseTable) -> bool:
    """Whether the class's R, a, b prove P(overflow) <= 2^-64 a query for this table.  Exact, no floats.

    Raises:
        PolicyError: the table's law is not the class's.
    """
    if isinstance(cls, CircuitClass):
        return overflow.overflow_bound_holds(cls, table)
    if table.law != cls.law:
        raise PolicyError(f"class {cls.name!r} has the law {cls.law!r}, the table {table.law!r}")
    return ranked_class.overflow_bound_holds(cls)

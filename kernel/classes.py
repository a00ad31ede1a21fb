# SPDX-License-Identifier: GPL-3.0-or-later
"""The classes that a policy may name: of the ranked statement and of the lottery.  SPEC M.9.

What all have in common: ``name``, ``law``, ``N``, ``K``, ``R``, ``m``, ``q``, ``c``, ``L``, ``step_bits``,
``window_of``, ``shift_of``, and how T is packed.
"""

from __future__ import annotations

from typing import Any

from ragseal.kernel import lottery_class, ranked_class, sharded_class
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.lottery_class import LOTTERY, LotteryClass, PrizeTable, lottery_class_from_mapping
from ragseal.kernel.noise import NoiseTable, build_table
from ragseal.kernel.ranked_class import RankedClass, ranked_class_from_mapping
from ragseal.kernel.sharded_class import ShardedClass, sharded_class_from_mapping

AttestationClass = RankedClass | LotteryClass
Table = NoiseTable | PrizeTable  #: of a law


def attestation_class(values: dict[str, Any]) -> AttestationClass:
    """A class from a parameter file's table; its law says which kind it is of.

    Raises:
        PolicyError: an unknown or missing key, a value of the wrong kind, or parameters that contradict each other.
    """
    if "S" in values:
        return sharded_class_from_mapping(values)
    if values.get("law") == LOTTERY:
        return lottery_class_from_mapping(values)
    return ranked_class_from_mapping(values)


def tables_of(cls: AttestationClass) -> tuple[Table, ...]:
    """What a policy of a class may bind as its law: one noise table, or of the lottery every number of prizes."""
    if isinstance(cls, LotteryClass):
        return tuple(PrizeTable(cls.m, j) for j in range(1, cls.prizes + 1))
    return (build_table(cls.law),)


def usual_table(cls: AttestationClass) -> Table:
    """What a policy binds that says nothing else: of the lottery as many prizes as the class has."""
    return tables_of(cls)[-1]


def table_of(cls: AttestationClass, digest: bytes) -> Table:
    """The one that a policy binds.

    Raises:
        PolicyError: none of them has this digest.
    """
    found = next((table for table in tables_of(cls) if table.digest() == digest), None)
    if found is None:
        which = "prize table" if isinstance(cls, LotteryClass) else "noise table"
        raise PolicyError(f"the policy's {which} is not the canonical {cls.law} table")
    return found


def places_suffice(cls: AttestationClass, table: Table) -> bool:
    """Whether the class's R, a, b prove P(overflow) <= 2^-64 a query for this table.  Exact, no floats.

    Raises:
        PolicyError: the table's law is not the class's.
    """
    if table.law != cls.law:
        raise PolicyError(f"class {cls.name!r} has the law {cls.law!r}, the table {table.law!r}")
    if isinstance(cls, ShardedClass):
        return sharded_class.shards_overflow_bound_holds(cls)
    if isinstance(cls, LotteryClass):
        return lottery_class.overflow_bound_holds(cls)
    return ranked_class.overflow_bound_holds(cls)

# SPDX-License-Identifier: GPL-3.0-or-later
"""The classes that a policy may name: with noise, and of the lottery.  SPEC M.9.

What all have in common: ``name``, ``law``, ``N``, ``K``, ``R``, ``m``, ``q``, ``c``, ``L``, ``step_bits``,
``window_of``, ``shift_of``, and how T is packed.
"""

from __future__ import annotations

import re
from typing import Any

from ragseal.kernel import lottery_class, noise_class
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.lottery_class import LOTTERY, LotteryClass, PrizeTable, lottery_class_from_mapping
from ragseal.kernel.noise import NoiseTable, build_table
from ragseal.kernel.noise_class import NoiseClass, noise_class_from_mapping

AttestationClass = NoiseClass | LotteryClass
Table = NoiseTable | PrizeTable  #: of a law

#: Names of classes that no release after 0.3.0 has: how two families' begin, those whose noise was finer than a step
#: of its table, and one of the lottery's.
_STARTS = ("ranked-", "sharded-")
_OTHERS = re.compile(r"(tiny|small|base|large)(-geo|-one)?|small-one-32|base-one-50|large-one-50|lottery-small-50")


def last_release_of(name: str) -> str:
    """The last release that had a class of this name; nothing where this one has it, or none had it."""
    return "0.3.0" if name.startswith(_STARTS) or _OTHERS.fullmatch(name) else ""


def removed(name: str) -> str:
    """What to do about a class of an older release, as the end of a refusal; nothing of any other name."""
    last = last_release_of(name)
    return f"; ragseal {last} was the last that had it: close and audit its windows with that release" * bool(last)


def attestation_class(values: dict[str, Any]) -> AttestationClass:
    """A class from a parameter file's table; its law says which kind it is of.

    Raises:
        PolicyError: an unknown or missing key, a value of the wrong kind, or parameters that contradict each other.
    """
    if values.get("law") == LOTTERY:
        return lottery_class_from_mapping(values)
    return noise_class_from_mapping(values)


def shards_at_most(cls: AttestationClass) -> int:
    """Shards that an index of a class has at most."""
    return cls.S if isinstance(cls, NoiseClass) else 1


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
    if isinstance(cls, LotteryClass):
        return lottery_class.overflow_bound_holds(cls)
    return noise_class.overflow_bound_holds(cls)

# SPDX-License-Identifier: GPL-3.0-or-later
"""The classes that a policy may name: with noise, and of decoys.  SPEC M.9.

What all have in common is :class:`ragseal.kernel.law.AttestationClass`.
"""

from __future__ import annotations

import re
from typing import Any

from ragseal.kernel.decoys.decoys_class import DecoysClass
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.law import Asked as Asked
from ragseal.kernel.law import AttestationClass as AttestationClass
from ragseal.kernel.law import Table as Table
from ragseal.kernel.law import bound_table
from ragseal.kernel.noise_class import NoiseClass

#: Every kind of law.
KINDS: tuple[type[AttestationClass], ...] = (NoiseClass, DecoysClass)

#: Names of classes that no release after 0.3.0 has: how two families' begin, those whose noise was finer than a step
#: of its table, and the lottery's.
_STARTS = ("ranked-", "sharded-", "lottery-")
_OTHERS = re.compile(r"(tiny|small|base|large)(-geo|-one)?|small-one-32|base-one-50|large-one-50")


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
    return kind_of(values.get("law")).from_mapping(values)


def kind_of(law: object) -> type[AttestationClass]:
    """The kind of a law by its name; of what names no law the first, which refuses it."""
    return next((kind for kind in KINDS if law in kind.laws), KINDS[0])


def table_of(cls: AttestationClass, digest: bytes, decoy_rate: int) -> Table:
    """The one that a policy binds.

    Raises:
        PolicyError: none of the class's tables has this digest, or none has this rate.
    """
    return bound_table(cls, cls.tables(decoy_rate), digest)


def places_suffice(cls: AttestationClass, table: Table) -> bool:
    """Whether the class's sizes prove P(overflow) <= 2^-64 a query for this table.  Exact, no floats.

    Raises:
        PolicyError: the table's law is not the class's.
    """
    if table.law != cls.law:
        raise PolicyError(f"class {cls.name!r} has the law {cls.law!r}, the table {table.law!r}")
    return cls.overflow_bound_holds()

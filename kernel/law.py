# SPDX-License-Identifier: GPL-3.0-or-later
"""What a class of any law says of itself: everything that a policy, a record and an accountant ask of it.  SPEC M.9.

A kind of law is a subclass.  Nothing asks which kind a class is of: it asks the class.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar, Protocol, Self, TypeVar

from ragseal.kernel.errors import PolicyError
from ragseal.kernel.params import ClassSizes, class_values


class Table(Protocol):
    """What a policy binds of its class's law."""

    @property
    def law(self) -> str:
        """The law's name."""

    def digest(self) -> bytes:
        """32 bytes."""

    def check(self) -> None:
        """Raises PolicyError: the table breaks a rule."""

    def evidence(self) -> Mapping[str, object]:
        """What an auditor's report says of it."""


_Table = TypeVar("_Table", bound=Table)


def bound_table(cls: AttestationClass, tables: Sequence[_Table], digest: bytes) -> _Table:
    """The one of a class's tables that a policy binds.

    Raises:
        PolicyError: none of them has this digest.
    """
    found = next((table for table in tables if table.digest() == digest), None)
    if found is None:
        raise PolicyError(f"the policy's {cls.table_kind} is not the canonical {cls.law} table")
    return found


class AttestationClass(ClassSizes, ABC):
    """A class that a policy may name.  Sizes are counts of slots, places or bits, as the subclass's fields say."""

    kind: ClassVar[str]  #: names its circuit, its parameter file, its engines
    laws: ClassVar[tuple[str, ...]]  #: what ``law`` may be
    table_kind: ClassVar[str]  #: what a policy binds, for people
    by_chance: ClassVar[str]  #: what returns ids without a score, for people
    coin_only: ClassVar[str] = ""  #: why a policy without a coin cannot name it; nothing where it can
    #: An index may have several shards, which share one threshold: every record commits to it in C_v.
    sharded: ClassVar[bool] = False

    name: str
    law: str
    R: int

    @classmethod
    def from_mapping(cls, values: dict[str, Any]) -> Self:
        """A class from a parameter file's table.

        Raises:
            PolicyError: an unknown or missing key, a value of the wrong kind, or parameters that contradict each other.
        """
        return cls(**class_values(cls, values, f"{cls.kind} class"))

    # --- scores ---

    @property
    @abstractmethod
    def step_bits(self) -> int:
        """A step of the law is 2^step_bits units of a score."""

    @abstractmethod
    def window_of(self, width: int) -> int:
        """H as a statement has it, for a score window of ``width`` units of w."""

    @abstractmethod
    def shift_of(self, width: int) -> int:
        """The worst shift of one query, at least 1."""

    @abstractmethod
    def widest(self, shift: int) -> int:
        """The largest width whose shift is at most ``shift``."""

    @property
    @abstractmethod
    def hmax_range(self) -> tuple[int, int]:
        """The least and the largest H that an engine compares."""

    @abstractmethod
    def check_range(self, hmax: int, least: int, most: int) -> None:
        """Whether every query of a policy is provable in the class, whatever the data.

        Args:
            hmax: H, as :meth:`window_of` has it.
            least, most: w that any score may have.

        Raises:
            PolicyError: says which bound does not hold.
        """

    @abstractmethod
    def tried_range(self) -> tuple[int, int]:
        """(H, w): a window that the class compares, and a score at its upper end, for made-up statements."""

    @property
    def counts(self) -> bool:
        """Whether counts of keywords may be what it is about: its noise falls alike at every count."""
        return False

    # --- the law's table ---

    @abstractmethod
    def tables(self) -> tuple[Table, ...]:
        """What a policy of the class may bind; the last is what one binds that says nothing else."""

    @property
    def most_prizes(self) -> int:
        """Prizes that a policy may let slots win at most; 0 where the law has none."""
        return 0

    def prizes_of(self, table_digest: bytes) -> int:
        """How many a policy lets win that binds this table; 0 where the law has none.

        Raises:
            PolicyError: the class has no table of this digest.
        """
        return 0

    # --- shards and statements ---

    @property
    def shards_at_most(self) -> int:
        """Shards that an index of the class has at most."""
        return 1

    def whole(self, shards: int) -> AttestationClass:
        """The class as an accountant sees an index of so many shards: of all the slots that a list is chosen among.

        Raises:
            PolicyError: the class has no index of so many.
        """
        if shards != 1:
            raise PolicyError(f"class {self.name!r} has one shard: shards must be 1, not {shards}")
        return self

    def stated(self, prizes: int) -> tuple[int, ...]:
        """Clear inputs of a record's proofs behind those that every law has."""
        return ()

    def stated_of_shard(self, shard: int, shards: int) -> tuple[int, ...]:
        """Clear inputs of one shard's proof behind those of the record."""
        return ()

    # --- failures ---

    @abstractmethod
    def overflow_bound_holds(self) -> bool:
        """Whether the class's R proves P(overflow) <= 2^-64 a query, for every table.  Exact."""

    @abstractmethod
    def overflow_without(self, chunks: int) -> Fraction:
        """How likely at most a query overflows by the noise of all slots but ``chunks``.

        Raises:
            PolicyError: the law bounds no list.
        """

    @abstractmethod
    def outside_grid(self, chunks: int) -> Fraction:
        """How likely at most the noise of all slots but ``chunks`` leaves it open whether theta is in the grid."""

# SPDX-License-Identifier: GPL-3.0-or-later
"""What a class of any law says of itself: everything that a policy, a record and an accountant ask of it.  SPEC M.9.

A kind of law is a subclass.  Nothing asks which kind a class is of: it asks the class.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Protocol, Self, TypeVar

from ragseal.kernel.errors import PolicyError
from ragseal.kernel.params import class_values


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


@dataclass(frozen=True, slots=True)
class Asked:
    """What a policy asks of its law in every query."""

    inputs: tuple[int, ...]  #: clear inputs behind ctx: H of a class with noise; lo and K of decoys
    table: tuple[int, ...] = ()  #: clear inputs from the policy's table; none where the circuit has the table


class AttestationClass(ABC):
    """A class that a policy may name.  Sizes are counts of slots, places or bits, as the subclass's fields say."""

    kind: ClassVar[str]  #: names its circuit, its parameter file, its engines
    laws: ClassVar[tuple[str, ...]]  #: what ``law`` may be
    table_kind: ClassVar[str]  #: what a policy binds, for people
    by_chance: ClassVar[str]  #: what returns ids without a score, for people
    noisy: ClassVar[bool] = True  #: whether every score has noise, which claims about every list need
    #: Whether a policy says how much a unit of score counts for: hi and gain.
    scaled: ClassVar[bool] = True

    name: str
    law: str
    N: int  #: slots of a shard
    S: int  #: shards of an index at most

    @classmethod
    def from_mapping(cls, values: dict[str, Any]) -> Self:
        """A class from a parameter file's table.

        Raises:
            PolicyError: an unknown or missing key, a value of the wrong kind, or parameters that contradict each other.
        """
        return cls(**class_values(cls, values, f"{cls.kind} class"))

    @abstractmethod
    def to_mapping(self) -> dict[str, Any]:
        """Inverse of :meth:`from_mapping`: plain values, rationals as "p/q"."""

    @property
    @abstractmethod
    def L(self) -> int:
        """Bits of a returned id."""

    @property
    @abstractmethod
    def sizes(self) -> str:
        """Its other sizes, for people."""

    # --- lists ---

    @abstractmethod
    def least_ids(self, shards: int) -> int:
        """The fewest ids of a list, whatever a policy says."""

    @abstractmethod
    def most_ids(self, shards: int) -> int:
        """The most."""

    def most_listed(self, ids: int, shards: int, decoy_rate: int) -> int:
        """The most ids of a list of a policy with these: a query that would have more is refused (M.8)."""
        return self.most_ids(shards)

    def length_in_words(self, shards: int) -> str:
        """How many ids a list has, for people."""
        least, most = self.least_ids(shards), self.most_ids(shards)
        return f"exactly {most}" if least == most else f"{least} to {most}"

    @abstractmethod
    def check_lists(self, ids: int, shards: int, decoy_rate: int) -> None:
        """Whether an index of so many shards returns lists of so many ids, and refuses a query with 2^-64 at most.

        Raises:
            PolicyError: says what would do.
        """

    @abstractmethod
    def asked(self, hmax: int, lo: int, ids: int, decoy_rate: int) -> Asked:
        """What statements and engines have of a policy's numbers.

        Raises:
            PolicyError: the law has no table of this rate.
        """

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
    def check_asked(self, asked: Asked, shards: int) -> None:
        """Whether an engine takes what is asked.  AttestationError says what it holds."""

    @abstractmethod
    def check_range(self, hmax: int, lo: int, least: int, most: int) -> None:
        """Whether every query of a policy is provable in the class, whatever the data.

        Args:
            hmax: H, as :meth:`window_of` has it.
            lo: of the policy.
            least, most: w that any score may have.

        Raises:
            PolicyError: says which bound does not hold.
        """

    @abstractmethod
    def tried(self) -> tuple[Asked, int, int]:
        """Of made-up statements: what is asked; a score at the window's upper end; how many slots match of few."""

    @property
    def counts(self) -> bool:
        """Whether counts of keywords may be what it is about: its noise falls alike at every count."""
        return False

    # --- the law's table ---

    @abstractmethod
    def tables(self, decoy_rate: int) -> tuple[Table, ...]:
        """What a policy of the class may bind that names this rate.

        Raises:
            PolicyError: the law has no table of this rate.
        """

    # --- shards and statements ---

    def whole(self, shards: int) -> AttestationClass:
        """The class as an accountant sees an index of so many shards: of all the slots that a list is chosen among.

        Raises:
            PolicyError: the class has no index of so many.
        """
        if not 1 <= shards <= self.S:
            raise PolicyError(f"an index of {shards} shards, but class {self.name!r} is for 1 to {self.S} together")
        return self

    @abstractmethod
    def stated_of_shard(self, shard: int, shards: int) -> tuple[int, ...]:
        """Clear inputs of one shard's proof behind t_commit."""

    # --- failures ---

    @abstractmethod
    def overflow_bound_holds(self) -> bool:
        """Whether the class's sizes prove P(overflow) <= 2^-64 a query, for every table.  Exact."""

    @abstractmethod
    def overflow_without(self, chunks: int) -> Fraction:
        """How likely at most a query overflows by the noise of all slots but ``chunks``.

        Raises:
            PolicyError: the law bounds no list.
        """

    @abstractmethod
    def outside_grid(self, chunks: int) -> Fraction:
        """How likely at most the noise of all slots but ``chunks`` leaves it open whether theta is in the grid."""

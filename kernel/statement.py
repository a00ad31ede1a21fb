# SPDX-License-Identifier: GPL-3.0-or-later
"""What circuits of an attestation state alike: public inputs in their order, and the commitments among them.  SPEC B.

An :class:`InputTable` names them in the order of the circuit's public signals.  From it scripts/layout.py writes the
circuit's signals, the native engine's arrays of hints, and the tables of SPEC B.5.  A :class:`HintLayout` is the table
for one class, which hints and the verifier's slices of the key follow.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any, Protocol

from ragseal.kernel.params import TAG_SEED, ClassSizes, R
from ragseal.kernel.poseidon import poseidon

CHALLENGES = 2  #: alpha and beta, the last clear inputs
_SIZE = re.compile(r"(2 \*\* )?(\w+)(?: ([+-]) (\d+))?")


@dataclass(frozen=True, slots=True)
class Size:
    """A number that a circuit's template is given, or computes."""

    name: str  #: in the circuit
    attribute: str  #: of the class; of one that the circuit is given maybe a constant of the class's module
    meaning: str


@dataclass(frozen=True, slots=True)
class Input:
    """The public inputs of one name: one of them, a row, or a matrix."""

    name: str
    shape: str  #: sizes, with commas between: a number, a Size, a Size plus or minus a number, or 2 to the power of one
    meaning: str

    @property
    def lengths(self) -> tuple[str, ...]:
        """Of each dimension; of a single input none."""
        return tuple(self.shape.split(", ")) if self.shape else ()


@dataclass(frozen=True, slots=True)
class InputTable:
    """All public inputs of a circuit but the blinder and the scores, which stand between clear ones and hints."""

    given: tuple[Size, ...]  #: what the template's arguments or its first lines give
    derived: tuple[Size, ...]  #: what follows from those, as the class's properties say
    clear: tuple[Input, ...]  #: what a verifier knows
    hints: tuple[Input, ...]  #: h
    behind: tuple[Input, ...]  #: what follows the hints

    @property
    def stated(self) -> tuple[str, ...]:
        """Names of the clear inputs but for the challenges, which stand behind them."""
        return tuple(one.name for one in self.clear[:-CHALLENGES])

    def shapes(self, cls: Any, inputs: Sequence[Input]) -> list[tuple[str, tuple[int, ...]]]:
        """Every array among inputs for one class; a single input is an array of one."""
        attributes = {size.name: size.attribute for size in (*self.given, *self.derived)}

        def value(text: str) -> int:
            found = _SIZE.fullmatch(text)
            assert found is not None, text
            power, name, sign, more = found.groups()
            number = int(name) if name.isdecimal() else int(attrgetter(attributes[name])(cls))
            return (1 << number if power else number) + int(f"{sign or '+'}{more or 0}")

        return [(one.name, tuple(map(value, one.lengths)) or (1,)) for one in inputs]


@dataclass(frozen=True)
class HintGroup:
    """One named array of hints, row-major."""

    name: str
    shape: tuple[int, ...]
    offset: int  #: of its first element inside h

    @property
    def count(self) -> int:
        return math.prod(self.shape)


class Slots(Protocol):
    """A class whose circuit has hints for every slot."""

    @property
    def N(self) -> int:
        """Slots."""


class HintLayout:
    """Order and offsets of a hint vector h, and of the public inputs around it.  Arrays of size 0 are left out.

    In order: clear inputs, the blinder, scores of every slot, hints, one array behind them, what all shards share.
    """

    def __init__(self, cls: Slots, table: InputTable, scores: str = "w") -> None:
        """
        Args:
            scores: their name in the circuit.
        """
        groups: list[HintGroup] = []
        offset = 0
        for name, shape in table.shapes(cls, table.hints):
            group = HintGroup(name, shape, offset)
            if group.count:
                groups.append(group)
                offset += group.count
        self.groups = tuple(groups)
        self.size = offset
        self.clear_names = tuple(one.name for one in table.clear)  #: alpha and beta are the last two
        self.scores_name = scores
        self.shared_names = tuple(one.name for one in table.behind[1:])  #: what C_v holds, equal in all shards
        self.clear_counts = tuple(math.prod(shape) for _, shape in table.shapes(cls, table.clear))
        self.clear = sum(self.clear_counts)  #: public inputs that a verifier knows
        ((self.behind_name, shape),) = table.shapes(cls, table.behind[:1])
        self.behind = math.prod(shape)  #: inputs between hints and what shards share
        self._slots = cls.N
        every = (*table.clear, *table.hints, *table.behind)
        self._arrays = frozenset((scores, *(one.name for one in every if one.shape)))

    @cached_property
    def by_name(self) -> dict[str, HintGroup]:
        return {g.name: g for g in self.groups}

    @property
    def names(self) -> tuple[str, ...]:
        """Signals of the circuit that are public, in order."""
        groups = (group.name for group in self.groups)
        return (*self.clear_names, "blind", self.scores_name, *groups, self.behind_name, *self.shared_names)

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Of each of them; (1,) of a single input."""
        clear = ((count,) for count in self.clear_counts)
        shared = ((1,) for _ in self.shared_names)
        return (*clear, (1,), (self._slots,), *(group.shape for group in self.groups), (self.behind,), *shared)

    @property
    def arrays(self) -> frozenset[str]:
        """Those of them that are arrays in the circuit, maybe of one entry."""
        return self._arrays

    @property
    def blind_at(self) -> int:
        """Index of the blinder among the public inputs (IC index is one more)."""
        return self.clear

    @property
    def scores_at(self) -> int:
        """Index of the first slot's score."""
        return self.blind_at + 1

    @property
    def hints_at(self) -> int:
        return self.scores_at + self._slots

    @property
    def behind_at(self) -> int:
        """Index of the first input behind the hints."""
        return self.hints_at + self.size

    @property
    def shared_at(self) -> int:
        """Index of the first input that C_v holds."""
        return self.behind_at + self.behind

    @property
    def public(self) -> int:
        """All public inputs of the circuit."""
        return self.shared_at + len(self.shared_names)


def seed_commitment(seed: tuple[int, int]) -> int:
    """C_seed = Poseidon(tag, s_hi, s_lo) (SPEC A.5)."""
    return poseidon(TAG_SEED, *seed)


@dataclass(frozen=True, slots=True, order=True)
class Returned:
    """One slot of T (SPEC M.5)."""

    slot: int
    flag: bool  #: its clipped score is above 0: its text is opened; else there is nothing to read

    @property
    def packed(self) -> int:
        """The id with the flag as its lowest bit: what the circuit compares and the commitment to T holds."""
        return 2 * self.slot + self.flag


def unpacked(value: int) -> Returned:
    """The slot whose :attr:`Returned.packed` this is, for a value of at least 0."""
    return Returned(value >> 1, bool(value & 1))


def pack_returned(cls: ClassSizes, returned: Sequence[Returned]) -> list[int]:
    """Ids with flags, L + 1 bits each, packed lowest first into field elements of at most PACKED_BITS bits."""
    per, width = cls.ids_per_element, cls.L + 1
    return [
        sum(one.packed << (width * j) for j, one in enumerate(returned[at : at + per]))
        for at in range(0, len(returned), per)
    ]


def canonical_limit(position: int) -> int:
    """The modulus' bits from ``position`` up; a canonical element's top stays strictly below."""
    return R >> position

# SPDX-License-Identifier: GPL-3.0-or-later
"""What circuits of an attestation state alike: public inputs in their order, and the commitments among them.  SPEC B.

A :class:`HintLayout` lists every committed hint in the order of its circuit's public signals; the circuit, the native
engine and the verifier's slices of the key all follow it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ragseal.kernel.params import TAG_PLACES, TAG_SEED, ClassSizes, R
from ragseal.kernel.poseidon import poseidon

CLEAR_NAMES = ("c_seed", "beacon", "ctx", "hmax", "t_commit", "alpha", "beta")
CLEAR = len(CLEAR_NAMES)


@dataclass(frozen=True)
class HintGroup:
    """One named array of hints, row-major."""

    name: str
    shape: tuple[int, ...]
    offset: int  #: of its first element inside h

    @property
    def count(self) -> int:
        total = 1
        for n in self.shape:
            total *= n
        return total


class HintLayout:
    """Order and offsets of a hint vector h, and of the public inputs around it.  Arrays of size 0 are left out."""

    def __init__(self, slots: int, shapes: Sequence[tuple[str, tuple[int, ...]]]) -> None:
        groups: list[HintGroup] = []
        offset = 0
        for name, shape in shapes:
            group = HintGroup(name, shape, offset)
            if group.count:
                groups.append(group)
                offset += group.count
        self.groups = tuple(groups)
        self.size = offset
        self._slots = slots

    @cached_property
    def by_name(self) -> dict[str, HintGroup]:
        return {g.name: g for g in self.groups}

    @property
    def clear(self) -> int:
        """Public inputs that a verifier knows."""
        return CLEAR

    @property
    def public(self) -> int:
        """All public inputs of the circuit: clear, blinder, scores, hints."""
        return self.hints_at + self.size

    @property
    def blind_at(self) -> int:
        """Index of the blinder among the public inputs (IC index is one more)."""
        return self.clear

    @property
    def scores_at(self) -> int:
        """Index of w_0."""
        return self.blind_at + 1

    @property
    def hints_at(self) -> int:
        return self.scores_at + self._slots


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


def places_commitment(cls: ClassSizes, salt: int, returned: Sequence[Returned]) -> int:
    """Commitment to the returned slots T: Poseidon(tag, salt, packed ids with flags ...)."""
    return poseidon(TAG_PLACES, salt, *pack_returned(cls, returned))


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

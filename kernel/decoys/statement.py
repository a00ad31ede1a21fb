# SPDX-License-Identifier: GPL-3.0-or-later
"""What the decoys' circuit states: its public inputs in their order, and the commitments among them.

Clear inputs are :data:`CLEAR_NAMES`; ``table`` is F(0) .. F(draws) of the policy's table of draws, which a verifier
fills in, as it fills in the shard's number.  Then come the blinder; x and z, which the verifier makes of commitments
(below); hints; the shard's number of returned ids, held by C_n; and what all shards share, held by C_v.

    x_i = -y_i + (beta + 2^c beta^4) m_i + beta^2 i m_i + b_i + beta^3 (b_(i+1) - b_i)
    z_i = hi_i + beta^4 m_i                                       of classes with two chunks a distance

m_i: bit, slot i is returned.  b_i: bit, an element before slot i is the last winner; b_0 has no base, so it is 0.
X_i = entry - 1 + b_i - y_i, hi_i its high chunk.  Of classes with one chunk there are no z, hi and beta^4.

Legend of the hints:

high[i]             hi_i; the verifier's wire is z_i
value               all ids in the outputs of permutations, lowest first: u of the uniform, draws, what is left
valueLow, rest      lower chunks of ids; filler, canonical top and its room of an output
act[j]              bit: draw j counts
uniformLow, uniformHigh     lower chunks of the uniform's distances to its row's ends
void, voidLow       bit: a draw is no slot; lower chunks of what it exceeds the slots by
used, id, idLow     bit: an element is one; its slot, increasing; lower chunks of the distance to the next
distance            X of an element's slot
behind              b behind an element
hits, inverse, drawn        how often its slot was drawn; the inverse of that, or 0 of 0; bit: it was
flag                bit: y > lo
winLow, flagLow     lower chunks of -1 - X of what was not drawn, and of y - lo - 1 or lo - y
past, pastLow       bit: i* lies before the shard; lower chunks of its distance to the shard's first id
thresholdLow        lower chunk of v* - lo - 1
totalLow            lower chunks of what the list's length exceeds K by, or falls short of it
rangeCount          multiplicities of the range table
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragseal.kernel.decoys.decoys_class import HASH_INPUTS, TAG_LIST, DecoysClass
from ragseal.kernel.errors import EncodingError
from ragseal.kernel.params import R
from ragseal.kernel.poseidon import poseidon
from ragseal.kernel.statement import HintLayout, Returned

CLEAR_NAMES = ("c_seed", "beacon", "ctx", "lo", "k", "t_commit", "shard", "table", "alpha", "beta")
SHARED = ("threshold", "thresholdSlot", "short", "over", "total")  #: held by C_v
HIGH = "high"


class DecoysLayout(HintLayout):
    """Order of the public inputs of a class.  Where a distance has two chunks, its high ones are the first hints."""

    def __init__(self, cls: DecoysClass) -> None:
        self.cls = cls
        draws, room, c = cls.draws, cls.room, cls.c
        voids = 0 if cls.full else draws
        ids, rest = cls.id_chunks - 1, cls.filler + 2 * (cls.top - 1)
        super().__init__(cls.N, [
            (HIGH, (cls.N * (cls.chunks - 1),)),
            ("value", (cls.elements, cls.per_element)),
            ("valueLow", (cls.elements, cls.per_element * ids)),
            ("rest", (cls.elements, rest)),
            ("act", (draws,)),
            ("uniformLow", (cls.uniform_chunks - 1,)), ("uniformHigh", (cls.uniform_chunks - 1,)),
            ("void", (voids,)), ("voidLow", (voids, ids)),
            ("used", (room,)), ("id", (room,)), ("idLow", (room - 1, ids)),
            ("distance", (room,)), ("behind", (room,)), ("hits", (room,)),
            ("inverse", (room,)), ("drawn", (room,)), ("flag", (room,)),
            ("winLow", (room, cls.chunks - 1)), ("flagLow", (room, cls.chunks - 1)),
            ("past", (1,)), ("pastLow", (cls.whole_chunks - 1,)),
            ("thresholdLow", (cls.chunks - 1,)), ("totalLow", (cls.total_chunks - 1,)),
            ("rangeCount", (1 << c,)),
        ])  # fmt: skip

    @property
    def clear(self) -> int:
        return len(CLEAR_NAMES) + self.cls.draws

    @property
    def count_at(self) -> int:
        """Index of the shard's number of ids."""
        return self.hints_at + self.size

    @property
    def shared_at(self) -> int:
        """Index of v*; what all shards share follows."""
        return self.count_at + 1

    @property
    def public(self) -> int:
        return self.shared_at + len(SHARED)


@dataclass(frozen=True, slots=True)
class DecoysStatement:
    """The clear inputs of one shard's proof without the challenges."""

    c_seed: int
    beacon: int
    ctx: int
    lo: int
    k: int
    t_commit: int  #: of this shard's list
    shard: int
    table: tuple[int, ...]  #: F(0) .. F(draws)

    def clear(self) -> list[int]:
        """Numbers in the circuit's order, alpha and beta left out."""
        return [self.c_seed, self.beacon, self.ctx, self.lo, self.k, self.t_commit, self.shard, *self.table]


def pack_list(cls: DecoysClass, returned: Sequence[Returned]) -> list[int]:
    """Ids with flags, L + 1 bits each, lowest first, as many as fit PACKED_BITS; 0 where a list has no more.

    Raises:
        EncodingError: more ids than the class has room for.
    """
    if len(returned) > cls.room:
        raise EncodingError(f"{len(returned)} ids; class {cls.name!r} has room for {cls.room}")
    per, width = cls.ids_per_element, cls.L + 1
    packed = [one.packed for one in returned] + [0] * (cls.room - len(returned))
    return [sum(one << (width * j) for j, one in enumerate(packed[at : at + per])) for at in range(0, len(packed), per)]


def list_commitment(cls: DecoysClass, salt: int, returned: Sequence[Returned], shard: int = 0) -> int:
    """Commitment to one shard's list: Poseidon over salt, length, shard and packed ids, in a chain of hashes.

    The length is part of it: packed ids alone are the same for no slot and for slot 0 without a flag.  So is the shard:
    under one salt, equal commitments would say that two shards return the same slots, or none.
    """
    state, rest, own = [salt, len(returned) + (shard << 32)], pack_list(cls, returned), HASH_INPUTS - 2
    while True:
        state = [poseidon(TAG_LIST, *state, *rest[:own])]
        rest, own = rest[own:], HASH_INPUTS - 1
        if not rest:
            return state[0]


def slot_wires(
    cls: DecoysClass, y: Sequence[int], opened: tuple[Sequence[int], Sequence[int], Sequence[int]], beta: int
) -> tuple[list[int], list[int]]:
    """x and z as the verifier's combination of commitments opens: :data:`slot_weights` says which.

    Args:
        y: scores, of C_y.
        opened: m_0 .. m_(N-1), b_1 .. b_N, and hi_0 .. hi_(N-1) of classes with two chunks.
    """
    members, behind, high = opened
    scale = beta + (beta**4 << cls.c if cls.chunks == 2 else 0)
    before = [0, *behind[:-1]]
    x = [
        (-y[i] + scale * m + beta**2 * i * m + b + beta**3 * (after - b)) % R
        for i, (m, b, after) in enumerate(zip(members, before, behind, strict=True))
    ]
    z = [(hi + beta**4 * m) % R for hi, m in zip(high, members, strict=False)]
    return x, z

# SPDX-License-Identifier: GPL-3.0-or-later
"""What the decoys' circuit states: its public inputs in their order, and the commitments among them.

Clear inputs are :data:`CLEAR_NAMES`; ``table`` is F(0) .. F(draws) of the policy's table of draws, which a verifier
fills in, as it fills in the shard's number.  Then come the blinder; x and z, which the verifier makes of commitments
(below); hints; the shard's number of returned ids, held by C_n; and what all shards share, held by C_v.

    x_i = -y_i + (beta + 2^c beta^4) m_i + beta^2 i m_i + b_i + beta^3 (b_(i+1) - b_i)
    z_i = hi_i + beta^4 m_i                                       of classes with two chunks a distance

m_i: bit, slot i is returned.  b_i: bit, an element before slot i is the last winner; b_0 has no base, so it is 0.
X_i = entry - 1 + b_i - y_i, hi_i its high chunk.  Of classes with one chunk there are no z, hi and beta^4.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragseal.kernel.decoys.decoys_class import HASH_INPUTS, DecoysClass
from ragseal.kernel.errors import EncodingError
from ragseal.kernel.params import TAG_LIST, R
from ragseal.kernel.poseidon import poseidon
from ragseal.kernel.stated import Poseidon
from ragseal.kernel.statement import HintLayout, Input, InputTable, Returned

CLEAR_NAMES = ("c_seed", "beacon", "ctx", "lo", "k", "t_commit", "shard", "table", "alpha", "beta")
SHARED = ("threshold", "thresholdSlot", "short", "over", "total")  #: held by C_v
HIGH = "high"


def input_table(cls: DecoysClass) -> InputTable:
    """The public inputs of a class's circuit but the blinder and what the verifier makes of commitments."""
    draws, room, ids = cls.draws, cls.room, cls.id_chunks - 1
    voids = 0 if cls.full else draws
    hints: list[tuple[str, tuple[int, ...], str]] = [
        (HIGH, (cls.N * (cls.chunks - 1),), "hi_i of a slot; the verifier's wire is z_i"),
        ("value", (cls.elements, cls.per_element), "all ids in an output, lowest first: u of the uniform, draws, rest"),
        ("valueLow", (cls.elements, cls.per_element * ids), "lower chunks of ids"),
        ("rest", (cls.elements, cls.filler + 2 * (cls.top - 1)), "filler, canonical top of an output, and its room"),
        ("act", (draws,), "bit: the draw counts"),
        ("uniformLow", (cls.uniform_chunks - 1,), "lower chunks of the uniform's distance to its row's lower end"),
        ("uniformHigh", (cls.uniform_chunks - 1,), "lower chunks of its distance to the upper end"),
        ("void", (voids,), "bit: the draw is no slot"),
        ("voidLow", (voids, ids), "lower chunks of what it exceeds the slots by"),
        ("used", (room,), "bit: an element is one"),
        ("id", (room,), "its slot, increasing"),
        ("idLow", (room - 1, ids), "lower chunks of the distance to the next"),
        ("distance", (room,), "X of its slot"),
        ("behind", (room,), "b behind it"),
        ("hits", (room,), "how often its slot was drawn"),
        ("inverse", (room,), "the inverse of that, or 0 of 0"),
        ("drawn", (room,), "bit: it was drawn"),
        ("flag", (room,), "bit: y > lo"),
        ("winLow", (room, cls.chunks - 1), "lower chunks of -1 - X of what was not drawn"),
        ("flagLow", (room, cls.chunks - 1), "lower chunks of y - lo - 1 or lo - y"),
        ("past", (), "bit: i* lies before the shard"),
        ("pastLow", (cls.whole_chunks - 1,), "lower chunks of its distance to the shard's first id"),
        ("thresholdLow", (cls.chunks - 1,), "lower chunk of v* - lo - 1"),
        ("totalLow", (cls.total_chunks - 1,), "lower chunks of the distance of the list's length and K"),
        ("rangeCount", (1 << cls.c,), "multiplicities of the range table"),
    ]
    return InputTable(
        given=(),
        derived=(),
        clear=tuple(Input(name, str(draws + 1) if name == "table" else "", "") for name in CLEAR_NAMES),
        hints=tuple(Input(name, ", ".join(map(str, shape)), meaning) for name, shape, meaning in hints),
        behind=tuple(Input(name, "", "") for name in ("count", *SHARED)),
    )


class DecoysLayout(HintLayout):
    """Order of the public inputs of a class.  Where a distance has two chunks, its high ones are the first hints."""

    def __init__(self, cls: DecoysClass) -> None:
        self.cls = cls
        super().__init__(cls, input_table(cls), scores="x")


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


def list_commitment(
    cls: DecoysClass, salt: int, returned: Sequence[Returned], shard: int = 0, hashed: Poseidon = poseidon
) -> int:
    """Commitment to one shard's list: Poseidon over salt, length, shard and packed ids, in a chain of hashes.

    The length is part of it: packed ids alone are the same for no slot and for slot 0 without a flag.  So is the shard:
    under one salt, equal commitments would say that two shards return the same slots, or none.
    """
    state, rest, own = [salt, len(returned) + (shard << 32)], pack_list(cls, returned), HASH_INPUTS - 2
    while True:
        state = [hashed(TAG_LIST, *state, *rest[:own])]
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

# SPDX-License-Identifier: GPL-3.0-or-later
"""Finding the parameters of a circuit class: rows by formula, places by the proven bound, capacity to fill a domain.

:func:`count_rows` says what the compiler will say, without compiling; tests hold it to the compiler's own numbers.
:func:`search` takes a capacity, or looks for the largest one that fits a domain, and finds R, a and b for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch

from ragseal.circuits.bound import find_bound
from ragseal.circuits.circuit import Shape, layout_of
from ragseal.kernel import noise
from ragseal.kernel.decoys.decoys_class import HASH_INPUTS, DecoysClass
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.estimate_class import EstimateClass
from ragseal.kernel.noise_class import PLACES_PER_ELEMENT, NoiseClass
from ragseal.kernel.params import (
    COARSE_CANONICAL_BITS,
    ELEMENTS_PER_BLOCK,
    MODULUS_BITS,
)
from ragseal.kernel.poseidon import PARTIAL_ROUNDS
from ragseal.kernel.thinning_class import PAIRS, TOPS, ThinningClass

TOTAL_CHUNK = 128  #: wires that lib/logup.circom adds up in one row
COARSE_BITS_MAX = 208  #: q * m at most


@dataclass(frozen=True, slots=True)
class Rows:
    """What one class costs.  Groth16's domain holds constraints and a row each of constant, clear inputs, blinder."""

    constraints: int
    public: int  #: clear inputs, blinder, scores (placed and thinned ones), hints
    hidden: int  #: public inputs that nobody publishes
    clear: int
    scaling: int  #: rows that grow with N: see :func:`count_rows`

    @property
    def rows(self) -> int:
        return self.constraints + self.clear + 2

    @property
    def domain(self) -> int:
        """The power of two that a Groth16 key of this class has."""
        return 1 << (self.rows - 1).bit_length()


def _permute(width: int) -> int:
    return 3 * (7 * width + PARTIAL_ROUNDS[width - 2])


def _total(n: int) -> int:
    """Linear rows of a sum of n wires: partial sums, and their sum if there are several; a part of one wire is it."""
    parts = -(-n // TOTAL_CHUNK)
    return parts + (parts > 1) * (1 - (n % TOTAL_CHUNK == 1))


def _increasing(differences: int, chunks: int) -> int:
    """The look-ups of every difference's chunks, and their sum."""
    return differences * chunks + _total(differences * chunks)


def _poseidon(inputs: int) -> int:
    """One tagged hash into a wire of its own; the first S-boxes of 0 and of the tag cost nothing."""
    return 3 * inputs + _permute(inputs + 2) + 1


@singledispatch
def count_rows(cls: Shape) -> Rows:
    """Constraints and public inputs of a class's circuit."""
    raise TypeError(f"no rows of a {type(cls).__name__}")


@count_rows.register
def _thinning_rows(cls: ThinningClass) -> Rows:
    """Scaling rows are those of slots, elements, bytes and blocks, and of sums; fixed ones are seed, key and tables."""
    tables = 2 * PAIRS, len(TOPS), PAIRS
    fixed = _poseidon(2) + _poseidon(3) + 3 + 1 + sum(size + _total(size) for size in tables)
    blocks = -(-cls.elements // ELEMENTS_PER_BLOCK)
    looked = cls.N, cls.elements, cls.bytes
    scaling = cls.N + cls.elements + sum(size + _total(size) for size in looked) + _permute(17) * blocks
    return Rows(fixed + scaling, cls.public, cls.public - cls.clear, cls.clear, scaling)


@count_rows.register
def _estimate_rows(cls: EstimateClass) -> Rows:
    """18 constraints per pair (distance, 16 bits, product with r), 36 per record, one for s."""
    return Rows(18 * cls.pairs + 36 * cls.n + 1, cls.public, cls.public - cls.clear, cls.clear, 0)


def _exact_range(bits: int, c: int) -> int:
    """Look-ups of a value in [0, 2^bits) and their sum; a single fraction is its own."""
    rows = -(-bits // c) + (bits % c != 0)
    return rows + (rows > 1)


def _packing(cls: NoiseClass) -> int:
    """Linear rows of T's elements, of several ids each; one that holds a single id is that id."""
    return cls.packed_elements - (cls.K % cls.ids_per_element == 1)


@count_rows.register
def _noise_rows(cls: NoiseClass) -> Rows:
    """Of the circuit with noise.

    Scaling rows are those of slots, coarse elements and blocks.  Everything else is fixed for given K, R, m, c.
    """
    layout = layout_of(cls)
    n, r, c = cls.N, cls.R, cls.c
    slots = 5 * n + 2 * _total(n) + _total(2 * n)
    elements = cls.elements * (cls.coarse_filler + 2 * cls.coarse_top)
    blocks = cls.blocks * (_permute(17) + 1)

    secrets = _poseidon(2) + _poseidon(4) + _poseidon(1 + cls.packed_elements) + _packing(cls)
    fine = cls.fine_elements * (cls.fine_filler + 2 * cls.fine_top) + cls.fine_blocks * (_permute(17) + 1)
    place = 2 + 2 + 1 + 1 + 1  # coarse row; X's bit, full; e, inverse, opening
    place += 4 + 1  # clip; what a place that is not full reaches
    place += 6  # noise row and its products; sign, fold, sign times magnitude
    place += 2 + 1 + 2  # wins: bit and fold; the winner's fraction; counted: bit and fold
    place += cls.fine_chunks + (cls.fine_last_bits < c) + 2 * cls.uniform_chunks + cls.compare_chunks + 4  # look-ups
    place += 1  # their sum
    order = _increasing(r + 1, cls.returned_chunks) + (r - 1) + 1
    inside = cls.K * (4 + 2 * cls.returned_chunks + 1)  # of an id: its bits and folds, chunks, their sum
    increasing = _increasing(cls.K + 1, cls.returned_chunks)
    grid = cls.grid
    limits = grid + (grid - 1) + 1 + 2 + 3  # choice, products, one choice; theta and reach; range
    tables = sum(size + _total(size) for size in (1 << cls.m, 1 << c, cls.table.cut + 1))
    closing = 3 + 3 + 1  # first S-boxes of the key and the shard; i* as the shard counts slots
    closing += 1 + cls.K + 1 + 5  # beta^2; T's fractions; counted; identities
    fixed = secrets + fine + r * place + order + increasing + inside + limits + _exact_range(cls.L, c) + tables
    fixed += closing
    scaling = slots + elements + blocks
    return Rows(fixed + scaling, layout.public, layout.public - layout.clear, layout.clear, scaling)


@count_rows.register
def _decoys_rows(cls: DecoysClass) -> Rows:
    """Constraints and public inputs of a class's circuit; scaling rows are those of slots."""
    layout, nl = layout_of(cls), cls.id_chunks
    draws, room = cls.draws, cls.room
    secrets = _poseidon(2) + _poseidon(4) + 3 + 3  # seed and key; first S-boxes of key and shard
    output = cls.per_element * (nl + (cls.L % cls.c != 0)) + cls.filler + 2 * cls.top
    own = [min(ELEMENTS_PER_BLOCK, cls.elements - at) for at in range(0, cls.elements, ELEMENTS_PER_BLOCK)]
    blocks = sum(_permute(17) + count * output + _total(count * output) for count in own)
    number = 3 * draws + 2 + 2 * cls.uniform_chunks + 1  # steps, two products each; look-ups and their sum
    each = draws + _total(draws)
    if not cls.full:  # bit, what it exceeds N by, whether it is a slot; look-ups, and their sum if there are several
        each += draws * (3 + nl + (nl > 1)) + _total(draws)
    limits = 1 + 1 + 2 + 3 + cls.whole_chunks + cls.chunks + cls.total_chunks + 1
    slots = cls.N * cls.chunks + _total(cls.N * cls.chunks)
    element = 3 + 2 + 5 + 2 + 1 + 2 * cls.chunks + 1  # slot; step; draw; folds and flag; what is hashed; look-ups
    elements = room * (element + 1) + 3 * _total(room) + _increasing(room - 1, nl)
    packed = cls.packed_elements
    first = min(packed, HASH_INPUTS - 2)
    links = [2 + first, *(1 + min(HASH_INPUTS - 1, packed - at) for at in range(first, packed, HASH_INPUTS - 1))]
    hashes = sum(_poseidon(inputs) for inputs in links) + packed - (room % cls.ids_per_element == 1)
    closing = 2 + 2 * (cls.chunks - 1) + 3 + 2  # powers of beta; high chunks; length twice, decoys; identities
    table = (1 << cls.c) + _total(1 << cls.c)
    fixed = secrets + blocks + number + each + limits + elements + hashes + closing + table
    return Rows(fixed + slots, layout.public, layout.public - layout.clear, layout.clear, slots)


def largest_q(m: int, c: int) -> int:
    """Slots a coarse element: as many as fit 208 bits and leave the canonical top whole."""
    return min(COARSE_BITS_MAX, MODULUS_BITS - COARSE_CANONICAL_BITS) // m


def complete_noise(name: str, law: str, N: int, K: int, m: int, q: int, c: int, S: int) -> NoiseClass:
    """The noise class with the fewest places that are proven enough for S shards, and the rationals that prove it.

    Raises:
        PolicyError: no number of places is enough, or the shape is not a class.
    """
    flagged, a, b = find_bound(N, K, m, noise.build_table(law), S * S)
    R = flagged + 1  # the places that reach the entry are R - 1
    return NoiseClass(name, law, N, K, R + R % PLACES_PER_ELEMENT, m, q, c, a, b, S)


def fill_noise(name: str, law: str, K: int, m: int, c: int, S: int, domain: int) -> NoiseClass:
    """The largest noise class of this shape, in whole coarse elements, whose rows fit a domain.

    Raises:
        PolicyError: not even one element fits.
    """
    q = largest_q(m, c)
    low, high = 0, domain // (6 * q) + 1  # a slot costs more than six rows
    best: NoiseClass | None = None
    while high - low > 1:
        middle = (low + high) // 2
        try:
            cls = complete_noise(name, law, middle * q, K, m, q, c, S)
            fits = count_rows(cls).rows <= domain
        except PolicyError:
            low = middle  # few slots for K: larger ones may do
            continue
        if fits:
            low, best = middle, cls
        else:
            high = middle
    if best is None:
        raise PolicyError(f"no noise class of m={m}, c={c}, K={K} fits a domain of {domain} rows")
    return best

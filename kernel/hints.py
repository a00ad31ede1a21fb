# SPDX-License-Identifier: GPL-3.0-or-later
"""The hidden public inputs of the attestation circuit: their order, and a reference prover's values.  SPEC B.

:class:`Layout` lists every committed hint in the order of the circuit's public signals; the circuit, the native engine
and the verifier's slices of the key all follow it.  :func:`select` is the mechanism with lazily opened noise (SPEC
M.6 and M.7) and :func:`reference_hints` fills the layout, both in plain integers: what the native engine
computes is compared with them.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ragseal.kernel import noise, overflow
from ragseal.kernel.errors import AttestationError, UnprovableError
from ragseal.kernel.params import (
    ELEMENTS_PER_BLOCK,
    TAG_COARSE,
    TAG_FINE,
    TAG_KEY,
    TAG_PLACES,
    TAG_SEED,
    UNIFORM_BITS,
    CircuitClass,
    R,
)
from ragseal.kernel.poseidon import permute, poseidon

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


class Layout:
    """Order and offsets of the hint vector h of a class.  Arrays of size 0 are left out."""

    def __init__(self, cls: CircuitClass) -> None:
        self.cls = cls
        table = noise.build_table(cls.law)
        self.grid = overflow.grid_size(cls, table)
        n, r, k = cls.N, cls.R, cls.K
        ids = cls.id_chunks - 1
        shapes: list[tuple[str, tuple[int, ...]]] = [
            ("u", (n,)), ("b", (n,)), ("x0", (n,)), ("x1", (n,)),
            ("cf", (cls.elements, cls.coarse_filler)),
            ("ct", (cls.elements, cls.coarse_top - 1)),
            ("cd", (cls.elements, cls.coarse_top - 1)),
            ("mc", (1 << cls.m,)), ("mr", (1 << cls.c,)), ("mz", (table.cut + 1,)),
            ("pi", (r,)), ("pw", (r,)), ("pu", (r,)), ("pb", (r,)), ("px0", (r,)), ("px1", (r,)),
            ("pcl", (r,)), ("pch", (r,)), ("pa1", (r,)), ("pa2", (r,)),
            ("pf", (r, cls.fine_chunks)), ("pd", (r,)),
            ("pff", (r, cls.place_filler)), ("pft", (r, cls.place_top - 1)), ("pfd", (r, cls.place_top - 1)),
            ("psg", (r,)), ("pz", (r,)), ("plo", (r,)), ("phi", (r,)),
            ("pd1", (r, cls.uniform_chunks - 1)), ("pd2", (r, cls.uniform_chunks - 1)),
            ("pwin", (r,)), ("pcnt", (r,)), ("pcm", (r, cls.compare_chunks - 1)), ("pth", (r, cls.count_chunks - 1)),
            ("pid", (r + 1, ids)),
            ("vs", (1,)), ("is", (1,)), ("isc", (ids,)), ("sel", (self.grid,)), ("vt", (1,)),
            ("t", (k,)), ("tdc", (k - 1, ids)),
        ]  # fmt: skip
        groups: list[HintGroup] = []
        offset = 0
        for name, shape in shapes:
            group = HintGroup(name, shape, offset)
            if group.count:
                groups.append(group)
                offset += group.count
        self.groups = tuple(groups)
        self.size = offset

    @cached_property
    def by_name(self) -> dict[str, HintGroup]:
        return {g.name: g for g in self.groups}

    @property
    def public(self) -> int:
        """All public inputs of the circuit: clear, scores, hints, blinder."""
        return CLEAR + self.cls.N + self.size + 1

    @property
    def scores_at(self) -> int:
        """Index of w_0 among the public inputs (IC index is one more)."""
        return CLEAR

    @property
    def hints_at(self) -> int:
        return CLEAR + self.cls.N

    @property
    def blind_at(self) -> int:
        return CLEAR + self.cls.N + self.size


# --- the committed noise ---------------------------------------------------------------------------------------------


def seed_commitment(seed: tuple[int, int]) -> int:
    """C_seed = Poseidon(tag, s_hi, s_lo) (SPEC A.5)."""
    return poseidon(TAG_SEED, *seed)


def noise_key(seed: tuple[int, int], beacon: int, ctx: int) -> int:
    """The key of one request's noise; ctx hashes exactly the bytes that the client signed."""
    return poseidon(TAG_KEY, *seed, beacon, ctx)


def coarse_elements(cls: CircuitClass, key: int) -> list[int]:
    """The field elements that hold the coarse bits of q slots each."""
    out: list[int] = []
    for block in range(cls.blocks):
        state = permute([0, key, block + (TAG_COARSE << 32)] + [0] * 14)
        out += state[1 : 1 + ELEMENTS_PER_BLOCK]
    return out[: cls.elements]


def fine_element(key: int, slot: int) -> int:
    return poseidon(key, slot + (TAG_FINE << 32))


def canonical_limit(position: int) -> int:
    """The modulus' bits from ``position`` up; a canonical element's top stays strictly below."""
    return R >> position


def places_commitment(cls: CircuitClass, salt: int, ids: Sequence[int]) -> int:
    """Commitment to the returned slots T: Poseidon(tag, salt, packed ids ...)."""
    return poseidon(TAG_PLACES, salt, *pack_ids(cls, ids))


def pack_ids(cls: CircuitClass, ids: Sequence[int]) -> list[int]:
    """Slot ids, L bits each, packed lowest first into field elements of at most 248 bits."""
    per = cls.ids_per_element
    return [sum(slot << (cls.L * j) for j, slot in enumerate(ids[at : at + per])) for at in range(0, len(ids), per)]


@dataclass(frozen=True, slots=True)
class Place:
    """One opened slot."""

    slot: int
    w: int
    u: int
    element: int  #: the fine element
    fine: int
    dither: int
    z: int  #: table noise z_b
    v: int  #: exact noisy score


@dataclass(frozen=True, slots=True)
class Selection:
    """What the mechanism computes for one query: the set T and all that the proof opens."""

    elements: tuple[int, ...]
    coarse: tuple[int, ...]  #: u_i of every slot
    bounds: tuple[int, ...]  #: b_i of every slot
    places: tuple[Place, ...]  #: R of them, by slot
    threshold: int  #: v*
    threshold_slot: int  #: i*
    theta: int
    ids: tuple[int, ...]  #: T, increasing


def exact_noise(cls: CircuitClass, u: int, element: int) -> tuple[int, int, int]:
    """(fine bits, dither, z_b) of a slot from its coarse bits and its fine element.

    Raises:
        UnprovableError: the element is outside the canonical decomposition (2^-72).
    """
    if element >> cls.place_top_position >= canonical_limit(cls.place_top_position):
        raise UnprovableError("a fine element is outside the canonical decomposition; the record cannot be proven")
    fine = element & ((1 << cls.fine_bits) - 1)
    dither = (element >> cls.fine_bits) & ((1 << cls.s) - 1)
    return fine, dither, noise.inverse_cdf(noise.build_table(cls.law), (u << cls.fine_bits) | fine)


def select(cls: CircuitClass, key: int, w: Sequence[int], hmax: int) -> Selection:
    """Noise over every slot, exact top-K by (v_i, -i), opening exactly R slots (SPEC M.5 to M.8).

    Args:
        w: N integers gain * (y_i - lo), unclipped.
        hmax: H = gain * (hi - lo).

    Raises:
        UnprovableError: one of the named completeness failures (more than R slots could win, grid, canonical form).
    """
    if len(w) != cls.N:
        raise AttestationError(f"{len(w)} scores for a capacity of {cls.N}")
    table = noise.build_table(cls.law)
    bound_of = noise.coarse_bounds(table, cls.m, cls.s)
    elements = coarse_elements(cls, key)
    limit = canonical_limit(cls.coarse_top_position)
    mask = (1 << cls.m) - 1
    coarse: list[int] = []
    for element in elements:
        if element >> cls.coarse_top_position >= limit:
            raise UnprovableError(
                "a coarse element is outside the canonical decomposition; the record cannot be proven"
            )
        coarse += [(element >> (cls.m * j)) & mask for j in range(cls.q)]
    bounds = [bound_of[u] for u in coarse]
    reach = [min(max(x, 0), hmax) + b for x, b in zip(w, bounds, strict=True)]
    order = sorted(range(cls.N), key=lambda i: (-reach[i], i))
    places = []
    for i in order[: cls.R]:
        opened = fine_element(key, i)
        fine, dither, z = exact_noise(cls, coarse[i], opened)
        v = min(max(w[i], 0), hmax) + (z << cls.s) + dither
        places.append(Place(i, w[i], coarse[i], opened, fine, dither, z, v))
    ranked = sorted(places, key=lambda p: (-p.v, p.slot))
    last = ranked[cls.K - 1]
    if cls.R < cls.N and reach[order[cls.R]] >= last.v:
        raise UnprovableError(f"more than R = {cls.R} slots could win; the record cannot be proven (2^-64 a query)")
    grid = overflow.grid_size(cls, table)
    first = (1 << cls.m) - grid + 1
    theta = next((t for t in range(1 << cls.m, first - 1, -1) if bound_of[t - 1] < last.v), None)
    if theta is None:
        raise UnprovableError("the threshold lies below the grid of theta; the record cannot be proven (2^-80 a query)")
    return Selection(
        elements=tuple(elements),
        coarse=tuple(coarse),
        bounds=tuple(bounds),
        places=tuple(sorted(places, key=lambda p: p.slot)),
        threshold=last.v,
        threshold_slot=last.slot,
        theta=theta,
        ids=tuple(sorted(p.slot for p in ranked[: cls.K])),
    )


# --- the hint vector -------------------------------------------------------------------------------------------------


class _Chunks:
    """Splits range-checked values into chunks and counts every look-up in the range table."""

    def __init__(self, c: int) -> None:
        self.c = c
        self.seen: Counter[int] = Counter()

    def look(self, value: int) -> int:
        if not 0 <= value < 1 << self.c:
            raise AttestationError("a chunk is out of range: the policy overflows its circuit class")
        self.seen[value] += 1
        return value

    def split(self, value: int, count: int) -> list[int]:
        """All ``count`` chunks of a value in [0, 2^(c count)); AttestationError outside."""
        if not 0 <= value < 1 << (self.c * count):
            raise AttestationError("a comparison is out of range: the policy overflows its circuit class")
        return [self.look((value >> (self.c * j)) & ((1 << self.c) - 1)) for j in range(count)]

    def low(self, value: int, count: int) -> list[int]:
        """The committed chunks of a comparison: all but the highest, which the circuit derives."""
        return self.split(value, count)[:-1]

    def exact(self, value: int, bits: int) -> list[int]:
        """Chunks of a value in [0, 2^bits) exactly: a narrow highest chunk is looked up scaled as well."""
        count = -(-bits // self.c)
        chunks = self.split(value, count)
        last = bits - self.c * (count - 1)
        if last < self.c:
            self.look(chunks[-1] << (self.c - last))
        return chunks


def _multiplier(w: int, bound: int, threshold: int, hmax: int, x: int) -> int:
    y = x + bound - threshold + 1
    return (y + w) * (y + hmax)


def reference_hints(cls: CircuitClass, selection: Selection, w: Sequence[int], hmax: int) -> list[int]:
    """The hint vector h (signed integers, in :class:`Layout` order) of an honest prover.

    Raises:
        AttestationError: a value leaves its range, that is the policy overflows the class.
    """
    layout = Layout(cls)
    table = noise.build_table(cls.law)
    bound_of = noise.coarse_bounds(table, cls.m, cls.s)
    folded = noise.folded_rows(table)
    ch = _Chunks(cls.c)
    h: dict[str, list[int]] = {g.name: [] for g in layout.groups}

    def put(name: str, values: Sequence[int]) -> None:
        if values:
            h[name] += values

    vs, i_star, theta = selection.threshold, selection.threshold_slot, selection.theta
    opened = {p.slot for p in selection.places}
    x_of: list[int] = []
    for i in range(cls.N):
        bound = selection.bounds[i]
        if i in opened:
            x = next(x for x in range(3) if _multiplier(w[i], bound, vs, hmax, x) != 0)
        else:
            x = vs - 1 - bound - w[i]
            if not 0 <= x < 1 << (2 * cls.c):
                x = vs - 1 - bound - hmax
        x_of.append(x)
        low, high = ch.split(x, 2)
        h["u"].append(selection.coarse[i])
        h["b"].append(bound)
        h["x0"].append(low)
        h["x1"].append(high)

    for element in selection.elements:
        position = cls.q * cls.m
        for _ in range(cls.coarse_filler):
            put("cf", [ch.look((element >> position) & ((1 << cls.c) - 1))])
            position += cls.c
        top = element >> position
        put("ct", ch.low(top, cls.coarse_top))
        put("cd", ch.low(canonical_limit(position) - 1 - top, cls.coarse_top))

    coarse_seen = Counter(selection.coarse)
    noise_seen: Counter[int] = Counter()
    previous = -1
    for place in selection.places:
        coarse_seen[place.u] += 1
        put("pi", [place.slot])
        put("pw", [place.w])
        put("pu", [place.u])
        put("pb", [bound_of[place.u]])
        low, high = ch.split(x_of[place.slot], 2)
        put("px0", [low])
        put("px1", [high])
        below, above = int(place.w < 0), int(place.w > hmax)
        put("pcl", [below])
        put("pch", [above])
        put("pa1", ch.low(-1 - place.w if below else place.w, 2))
        put("pa2", ch.low(place.w - hmax - 1 if above else hmax - place.w, 2))
        put("pf", ch.exact(place.fine, cls.fine_bits))
        put("pd", ch.exact(place.dither, cls.s))
        position = cls.fine_bits + cls.s
        for _ in range(cls.place_filler):
            put("pff", [ch.look((place.element >> position) & ((1 << cls.c) - 1))])
            position += cls.c
        top = place.element >> position
        put("pft", ch.low(top, cls.place_top))
        put("pfd", ch.low(canonical_limit(position) - 1 - top, cls.place_top))
        uniform = (place.u << cls.fine_bits) | place.fine
        sign = int(uniform < 1 << (UNIFORM_BITS - 1))
        folded_uniform = (1 << UNIFORM_BITS) - 1 - uniform if sign else uniform
        magnitude = -place.z if sign else place.z
        noise_seen[magnitude] += 1
        before, upto = folded[magnitude]
        put("psg", [sign])
        put("pz", [magnitude])
        put("plo", [before])
        put("phi", [upto])
        put("pd1", ch.low(folded_uniform - before, cls.uniform_chunks))
        put("pd2", ch.low(upto - 1 - folded_uniform, cls.uniform_chunks))
        win = int(place.slot in selection.ids)
        difference = ((place.v - vs) << cls.L) - (place.slot - i_star)
        put("pwin", [win])
        put("pcm", ch.low(difference if win else -1 - difference, cls.compare_chunks))
        counted = int(place.u >= theta)
        put("pcnt", [counted])
        put("pth", ch.low(place.u - theta if counted else theta - 1 - place.u, cls.count_chunks))
        put("pid", ch.low(place.slot - previous - 1, cls.id_chunks))
        previous = place.slot
    put("pid", ch.low(cls.N - 1 - previous, cls.id_chunks))
    put("vs", [vs])
    put("is", [i_star])
    put("isc", ch.exact(i_star, cls.L)[:-1])
    first = (1 << cls.m) - layout.grid + 1
    put("sel", [int(first + g == theta) for g in range(layout.grid)])
    put("vt", ch.low(vs - 1 - bound_of[theta - 1], 2))
    put("t", selection.ids)
    for a, b in itertools.pairwise(selection.ids):
        put("tdc", ch.low(b - a - 1, cls.id_chunks))
    h["mc"] = [coarse_seen[k] for k in range(1 << cls.m)]
    h["mr"] = [ch.seen[j] for j in range(1 << cls.c)]
    h["mz"] = [noise_seen[x] for x in range(table.cut + 1)]
    return [v for g in layout.groups for v in h[g.name]]

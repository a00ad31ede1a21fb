# SPDX-License-Identifier: GPL-3.0-or-later
"""The mechanism in plain integers: the noise of one request, and the top K with lazily opened noise.  SPEC B, M.

What the native engine computes is compared with this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragseal.kernel import noise, overflow
from ragseal.kernel.errors import AttestationError, UnprovableError
from ragseal.kernel.params import ELEMENTS_PER_BLOCK, TAG_COARSE, TAG_FINE, TAG_KEY, CircuitClass
from ragseal.kernel.poseidon import permute, poseidon
from ragseal.kernel.statement import Returned, canonical_limit


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


@dataclass(frozen=True, slots=True)
class OpenedSlot:
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
    places: tuple[OpenedSlot, ...]  #: R of them, by slot
    threshold: int  #: v*
    threshold_slot: int  #: i*
    theta: int
    returned: tuple[Returned, ...]  #: T, by slot

    @property
    def ids(self) -> tuple[int, ...]:
        """The slots of T, increasing."""
        return tuple(one.slot for one in self.returned)


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
    """Noise over every slot, exact top-K by (v_i, -i), opening exactly R slots (SPEC M.6 and M.7).

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
        places.append(OpenedSlot(i, w[i], coarse[i], opened, fine, dither, z, v))
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
        returned=tuple(sorted(Returned(p.slot, p.w > 0) for p in ranked[: cls.K])),
    )

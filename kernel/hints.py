# SPDX-License-Identifier: GPL-3.0-or-later
"""A reference prover's values of the circuit's committed inputs, in :class:`ragseal.kernel.statement.Layout` order.

SPEC B.  What the native engine computes is compared with this.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence

from ragseal.kernel import noise
from ragseal.kernel.chunks import Chunks
from ragseal.kernel.mechanism import Selection
from ragseal.kernel.params import CircuitClass
from ragseal.kernel.statement import Layout, canonical_limit


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
    ch = Chunks(cls.c)
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
        below, above = int(place.w <= 0), int(place.w > hmax)
        put("pcl", [below])
        put("pch", [above])
        put("pa1", ch.low(-place.w if below else place.w - 1, 2))
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
        sign, folded_uniform = noise.reflect(table, uniform)
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
    put("t", [one.packed for one in selection.returned])
    for a, b in itertools.pairwise(h["t"]):
        put("tdc", ch.low(b - a - 1, cls.returned_chunks))
    h["mc"] = [coarse_seen[k] for k in range(1 << cls.m)]
    h["mr"] = [ch.seen[j] for j in range(1 << cls.c)]
    h["mz"] = [noise_seen[x] for x in range(table.cut + 1)]
    return [v for g in layout.groups for v in h[g.name]]

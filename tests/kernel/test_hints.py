# SPDX-License-Identifier: GPL-3.0-or-later
"""The mechanism against brute force, and the hint vector against the identities that the circuit proves.  SPEC B."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from ragseal.kernel import hints, mechanism, noise, statement
from ragseal.kernel.errors import AttestationError, UnprovableError
from ragseal.kernel.params import CircuitClass, R
from ragseal.kernel.poseidon import poseidon


def toy(law: str, **changes: int) -> CircuitClass:
    values: dict[str, int] = {"N": 120, "K": 3, "R": 30, "m": 8, "q": 20, "c": 9, "s": 4, **changes}
    return CircuitClass(name="toy", law=law, a=Fraction(3), b=Fraction(1, 2), **values)


def noisy_scores(cls: CircuitClass, key: int, w: list[int], hmax: int) -> list[int]:
    """Every v_i from the definitions alone: U_i, inverse CDF by linear search over the table, dither."""
    table = noise.build_table(cls.law)
    elements = mechanism.coarse_elements(cls, key)
    out = []
    for i in range(cls.N):
        u = (elements[i // cls.q] >> (cls.m * (i % cls.q))) & ((1 << cls.m) - 1)
        fine = poseidon(key, i + (4 << 32))
        uniform = (u << (128 - cls.m)) | (fine & ((1 << (128 - cls.m)) - 1))
        dither = (fine >> (128 - cls.m)) & ((1 << cls.s) - 1)
        total, z = 0, table.least
        while True:
            total += table.half[abs(z)]
            if uniform < total:
                break
            z += 1
        out.append(min(max(w[i], 0), hmax) + (z << cls.s) + dither)
    return out


@pytest.mark.parametrize("law", ["gaussian", "geometric", "one-sided"])
def test_select_is_the_exact_noisy_top_k(law: str) -> None:
    cls = toy(law)
    rng = random.Random(3)
    for key, hmax in enumerate((6000, 6000, 200, 60_000, 60_000, 60_000)):  # noise decides, or scores do
        w = [rng.randrange(-3000, hmax + 3000) for _ in range(cls.N)]
        v = noisy_scores(cls, key, w, hmax)
        best = sorted(range(cls.N), key=lambda i: (-v[i], i))[: cls.K]
        chosen = mechanism.select(cls, key, w, hmax)
        assert chosen.ids == tuple(sorted(best))
        assert chosen.threshold == v[best[-1]]
        assert all(p.v == v[p.slot] for p in chosen.places)


def named(cls: CircuitClass, h: list[int]) -> dict[str, list[int]]:
    return {g.name: h[g.offset : g.offset + g.count] for g in statement.Layout(cls).groups}


def instances(cls: CircuitClass) -> list[tuple[list[int], int]]:
    rng = random.Random(5)
    return [
        ([rng.randrange(-4000, 9000) for _ in range(cls.N)], 6000),
        ([-20000] * cls.N, 6000),
        ([20000] * cls.N, 6000),
        ([0] * cls.N, 1),
        ([6000 if i == 7 else -1 for i in range(cls.N)], 6000),
    ]


@pytest.mark.parametrize("law", ["gaussian", "geometric", "one-sided"])
def test_look_ups_balance(law: str) -> None:
    """Coarse, noise, opening and winners identities at a random point, and the counting rule of theta."""
    cls = toy(law)
    table = noise.build_table(law)
    bounds = noise.coarse_bounds(table, cls.m, cls.s)
    alpha, beta = 0x1234567890ABCDEF1234567890ABCDEF, 0xFEDCBA0987654321FEDCBA09

    def fraction(numerator: int, denominator: int) -> int:
        return numerator * pow(denominator % R, R - 2, R) % R

    for key, (w, hmax) in enumerate(instances(cls)):
        chosen = mechanism.select(cls, key, w, hmax)
        h = named(cls, hints.reference_hints(cls, chosen, w, hmax))
        rows = list(zip(h["u"] + h["pu"], h["b"] + h["pb"], strict=True))
        left = sum(fraction(1, alpha - u - beta * b) for u, b in rows)
        right = sum(fraction(count, alpha - k - beta * bounds[k]) for k, count in enumerate(h["mc"]) if count)
        assert (left - right) % R == 0
        left = sum(
            fraction(1, alpha - z - beta * lo - beta * beta * hi)
            for z, lo, hi in zip(h["pz"], h["plo"], h["phi"], strict=True)
        )
        folded = noise.folded_rows(table)
        right = sum(
            fraction(count, alpha - z - beta * folded[z][0] - beta * beta * folded[z][1])
            for z, count in enumerate(h["mz"])
            if count
        )
        assert (left - right) % R == 0
        vs = h["vs"][0]

        def term(i: int, u: int, b: int, x: int, score: int, vs: int = vs, hmax: int = hmax) -> tuple[int, int]:
            y = x + b - vs + 1
            e = (y + score) * (y + hmax)
            return e, fraction(e, alpha - (i << cls.m) - u - (x << (cls.L + cls.m)))

        x = [a + (b << cls.c) for a, b in zip(h["x0"], h["x1"], strict=True)]
        slots = [term(i, h["u"][i], h["b"][i], x[i], w[i]) for i in range(cls.N)]
        px = [a + (b << cls.c) for a, b in zip(h["px0"], h["px1"], strict=True)]
        places = [term(h["pi"][r], h["pu"][r], h["pb"][r], px[r], h["pw"][r]) for r in range(cls.R)]
        assert all(e for e, _ in places)
        assert sum(e != 0 for e, _ in slots) == cls.R
        assert (sum(f for _, f in slots) - sum(f for _, f in places)) % R == 0
        winners = [i for i, win in zip(h["pi"], h["pwin"], strict=True) if win]
        flags = [1 - low for low, win in zip(h["pcl"], h["pwin"], strict=True) if win]
        assert flags == [int(w[i] > 0) for i in winners]
        assert h["t"] == [2 * i + flag for i, flag in zip(winners, flags, strict=True)]
        assert winners == list(chosen.ids)
        theta = chosen.theta
        assert bounds[theta - 1] < vs
        assert sum(h["mc"][theta:]) == 2 * sum(h["pcnt"])
        assert sum(h["sel"]) == 1


def test_elements_at_the_edge_of_the_canonical_decomposition(monkeypatch: pytest.MonkeyPatch) -> None:
    """One draw in 2^72 is refused: the first that is, and the last that is not."""
    cls = toy("gaussian")
    w, drawn = [0] * cls.N, mechanism.coarse_elements(cls, 1)
    limit = statement.canonical_limit(cls.coarse_top_position)
    for top, fits in ((limit - 1, True), (limit, False)):
        element = top << cls.coarse_top_position
        monkeypatch.setattr(mechanism, "coarse_elements", lambda cls, key, e=element: [e, *drawn[1:]])
        if fits:
            assert mechanism.select(cls, 1, w, 6000).elements[0] == element
        else:
            with pytest.raises(UnprovableError, match="a coarse element is outside"):
                mechanism.select(cls, 1, w, 6000)
    limit = statement.canonical_limit(cls.place_top_position)
    mechanism.exact_noise(cls, 1, (limit - 1) << cls.place_top_position)
    with pytest.raises(UnprovableError, match="a fine element is outside"):
        mechanism.exact_noise(cls, 1, limit << cls.place_top_position)


def test_named_completeness_failures() -> None:
    with pytest.raises(UnprovableError, match="more than R"):
        mechanism.select(toy("gaussian", R=4, m=2), 1, [0] * 120, 1)
    with pytest.raises(AttestationError, match="capacity"):
        mechanism.select(toy("gaussian"), 1, [0], 1)
    cls = toy("gaussian")
    w = [-(1 << 20)] * cls.N
    with pytest.raises(AttestationError, match="overflows its circuit class"):
        hints.reference_hints(cls, mechanism.select(cls, 1, w, 6000), w, 6000)


def test_layout_is_contiguous_and_named_once() -> None:
    layout = statement.Layout(toy("gaussian"))
    at = 0
    for group in layout.groups:
        assert group.offset == at
        at += group.count
    assert at == layout.size
    assert len(layout.by_name) == len(layout.groups)


def test_packing_of_ids() -> None:
    cls = toy("gaussian", K=40, R=60)
    ids = list(range(0, 120, 3))
    returned = [statement.Returned(slot, slot % 2 == 0) for slot in ids]
    packed = statement.pack_returned(cls, returned)
    assert len(packed) == cls.packed_elements == 2
    back = [statement.unpacked((packed[j // 31] >> (8 * (j % 31))) & 255) for j in range(40)]
    assert back == returned
    commitment = statement.places_commitment(cls, 1, returned)
    assert commitment != statement.places_commitment(cls, 2, returned)
    other = [*returned[:-1], statement.Returned(ids[-1], not returned[-1].flag)]
    assert commitment != statement.places_commitment(cls, 1, other)

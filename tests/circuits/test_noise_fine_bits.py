# SPDX-License-Identifier: GPL-3.0-or-later
"""Cheats against the statement with noise's noise: elements, their bits, the noise table, the last winner's slot.

As in test_noise_winners, one rule stands against each forged statement.
"""

from __future__ import annotations

import pytest

from ragseal.kernel import statement
from ragseal.kernel.params import NOISE_LAWS
from tests.circuits.noise_drafts import PLACES, NoiseDraft, NoiseSetting, finish
from tests.circuits.noise_forgeries import check, first, losers, of_place, requests
from tests.circuits.r1cs import P
from tests.circuits.rules import assert_only_rule, fractions, linear_row
from tests.circuits.scene import compiled, noise_tiny

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=[(law, place) for law in NOISE_LAWS for place in PLACES], ids=str)
def tiny(request: pytest.FixtureRequest) -> NoiseSetting:
    law, place = request.param
    return NoiseSetting(noise_tiny(law), compiled(noise_tiny(law)), *place)


def test_a_coarse_element_above_the_modulus(tiny: NoiseSetting) -> None:
    """The integer o + r has the same residue and other bits; its top is in range, and leaves less than 0."""

    def forge(d: NoiseDraft) -> list[str] | None:
        most = 1 << (d.cls.coarse_top_position + d.cls.c * d.cls.coarse_top)
        at = next((at for at, element in enumerate(d.coarse_elements) if element + P < most), None)
        if at is None:
            return None
        d.coarse_elements[at] += P
        d.read_elements()
        finish(d)
        return [rf"block\[{at // 16}\]\.f\[{at % 16}\]\[{d.cls.coarse_filler + 2 * d.cls.coarse_top - 1}\]"]

    check(tiny, forge)


def test_a_fine_element_above_the_modulus(tiny: NoiseSetting) -> None:
    def forge(d: NoiseDraft) -> list[str]:
        rank = next(rank for rank, p in enumerate(d.places) if p.win)
        d.fine_elements[rank // 2] += P
        finish(d)
        return [rf"fineBlock\[0\]\.f\[{rank // 2}\]\[{d.cls.fine_filler + 2 * d.cls.fine_top - 1}\]"]

    check(tiny, forge)


def below_zero(d: NoiseDraft, elements: list[int], position: int, chunks: int) -> int | None:
    """The first of the elements whose integer o - r leaves its room in range; it is put in."""
    for at, element in enumerate(elements):
        room = (P >> position) - 1 - ((element - P) >> position)
        if not room >> (d.cls.c * chunks):
            elements[at] -= P
            return at
    return None


def test_a_coarse_element_below_zero(tiny: NoiseSetting) -> None:
    """The integer o - r: what it leaves to the modulus is in range, its top is not."""

    def forge(d: NoiseDraft) -> list[str] | None:
        at = below_zero(d, d.coarse_elements, d.cls.coarse_top_position, d.cls.coarse_top)
        if at is None:
            return None
        d.read_elements()
        finish(d)
        return [rf"block\[{at // 16}\]\.f\[{at % 16}\]\[{d.cls.coarse_filler + d.cls.coarse_top - 1}\]"]

    check(tiny, forge)


def test_a_fine_element_below_zero(tiny: NoiseSetting) -> None:
    def forge(d: NoiseDraft) -> list[str] | None:
        at = below_zero(d, d.fine_elements, d.cls.fine_top_position, d.cls.fine_top)
        if at is None:
            return None
        finish(d)
        return [rf"fineBlock\[0\]\.f\[{at}\]\[{d.cls.fine_filler + d.cls.fine_top - 1}\]"]

    check(tiny, forge, same=True)


def test_one_coarse_bit_changed(tiny: NoiseSetting) -> None:
    def forge(d: NoiseDraft) -> list[str]:
        p = next(p for p in d.places if p.win)
        d.u[p.slot] ^= 128
        d.b[p.slot] = d.cls.bounds[d.u[p.slot]]
        finish(d)
        return [rf"block\[0\]\.f\[{p.slot // d.cls.q}\]\[\d+\]"]

    check(tiny, forge)


def test_fine_bits_of_no_element(tiny: NoiseSetting) -> None:
    """A rank's fine bits at will: the element's canonical rest takes up the difference, and is out of range."""

    def forge(d: NoiseDraft) -> list[str]:
        rank, p = next((rank, p) for rank, p in enumerate(d.places) if p.win)
        p.fine ^= 0b11 << (d.cls.fine_bits - 2)
        d.noise(p)
        d.settle()
        return [rf"fineBlock\[0\]\.f\[{rank // 2}\]\[\d+\]"]

    check(tiny, forge)


def test_fine_bits_that_carry_into_the_next_rank(tiny: NoiseSetting) -> None:
    """2^fine bits more in one half of an element and 1 less in the other; the first noise rises by a coarse cell."""

    def forge(d: NoiseDraft) -> list[str] | None:
        for rank in range(0, d.cls.R, 2):
            p, partner = d.places[rank : rank + 2]
            if p.full and not p.win and p.u < (1 << d.cls.m) - 1 and partner.fine:
                p.fine += 1 << d.cls.fine_bits
                partner.fine -= 1
                d.noise(p)
                d.noise(partner)
                d.settle()
                return of_place(d, rf"f\[{d.cls.fine_chunks}\]", p)
        return None

    check(tiny, forge, same=True)


def test_noise_of_another_request(tiny: NoiseSetting) -> None:
    d, other = tiny.draft(1), tiny.draft(2)
    d.coarse_elements, d.fine_elements = list(other.coarse_elements), list(other.fine_elements)
    d.read_elements()
    finish(d)
    assert_only_rule(tiny, d.inputs(), *fractions(tiny.r1cs, r"(block|fineBlock)\[\d+\]\.f\[.*"))


def test_a_seed_that_was_not_committed(tiny: NoiseSetting) -> None:
    d = tiny.honest(1)
    inputs = d.inputs()
    inputs[tiny.r1cs.wire_of["c_seed"]] = statement.seed_commitment((1, 2))
    assert_only_rule(tiny, inputs, linear_row(tiny.r1cs, "c_seed"))


def test_noise_of_zero(tiny: NoiseSetting) -> None:
    def forge(d: NoiseDraft) -> list[str] | None:
        p = max((p for p in d.places if p.win), key=lambda p: (1 - 2 * p.sign) * p.z)
        p.sign, p.z, p.before, p.upto = 0, 0, d.cls.table.cdf(-1), d.cls.table.cdf(0)
        d.settle()
        return of_place(d, r"noise\.f\[\d+\]", p) if d.threshold >= d.entry else None

    check(tiny, forge)


def test_noise_raised(tiny: NoiseSetting) -> None:
    """A row of the table further up: its distance from the row's lower limit is below 0."""

    def forge(d: NoiseDraft) -> list[str] | None:
        p = max(losers(d), key=lambda p: (1 - 2 * p.sign) * p.z)
        if p.sign:
            return None
        p.z += d.threshold - d.score(p) + 1
        table = d.cls.table
        if p.z > table.cut:
            return None
        p.before, p.upto = table.cdf(p.z - 1), table.cdf(p.z)
        d.settle()
        return of_place(d, rf"noise\.f\[{d.cls.uniform_chunks - 1}\]", p)

    check(tiny, forge)


def test_noise_lowered(tiny: NoiseSetting) -> None:
    """A row of the table further down: its distance to the row's upper limit is below 0, and a winner loses."""

    def forge(d: NoiseDraft) -> list[str] | None:
        p = next((p for p in d.places if p.win and not p.sign and p.z > 0), None)
        if p is None:
            return None
        others = sorted((d.score(q) for q in d.places if q is not p), reverse=True)
        p.z -= d.score(p) - others[d.cls.K - 1] + 1
        table = d.cls.table
        if p.z < 0:
            return None
        p.before, p.upto = table.cdf(p.z - 1), table.cdf(p.z)
        d.settle()
        return of_place(d, rf"noise\.f\[{2 * d.cls.uniform_chunks - 1}\]", p) if d.threshold >= d.entry else None

    check(tiny, forge)


def test_noise_scaled(tiny: NoiseSetting) -> None:
    def forge(d: NoiseDraft) -> list[str] | None:
        p = max(losers(d), key=lambda p: (1 - 2 * p.sign) * p.z)
        if p.sign or 3 * p.z > d.cls.table.cut:
            return None
        p.z *= 3
        d.settle()
        return of_place(d, "fNoise", p)

    check(tiny, forge)


def test_noise_through_a_forged_table_row(tiny: NoiseSetting) -> None:
    """Any z with limits right around U: the table has no such row."""

    def forge(d: NoiseDraft) -> list[str]:
        p = losers(d)[0]
        uniform = p.u << d.cls.fine_bits | p.fine
        folded = uniform + p.sign * (d.cls.table.total - 1 - 2 * uniform)
        p.z, p.before, p.upto = 900, folded, folded + 1
        d.settle()
        return of_place(d, "fNoise", p)

    d, patterns = first(tiny, forge, same=True)
    assert_only_rule(tiny, d.inputs(), *fractions(tiny.r1cs, *patterns))


def test_the_last_winners_slot_beyond_its_bits(tiny: NoiseSetting) -> None:
    """i* + 2^L with v* + 1 compares alike, but v* is not what it says."""
    d = next(requests(tiny))
    d.threshold += 1
    d.threshold_slot += 1 << d.cls.L
    one_chunk = d.cls.c == d.cls.L  # the look-up of the slot itself, which is the whole sum
    exact = r"lastWinner\.range" if one_chunk else rf"lastWinner\.f\[{-(-d.cls.L // d.cls.c)}\]"
    assert_only_rule(tiny, d.inputs(), *fractions(tiny.r1cs, exact))

# SPDX-License-Identifier: GPL-3.0-or-later
"""Cheats with the noise against the statement, at the level of the compiled rows; as ``test_attacks.py``.  SPEC B."""

from __future__ import annotations

import pytest

from ragseal.circuits.circuit import load_classes
from ragseal.kernel import mechanism, noise, statement
from tests.circuits.drafts import Draft, Setting
from tests.circuits.forgeries import bit_patterns, check, first, losers, requests, spare, swap
from tests.circuits.r1cs import P
from tests.circuits.rules import assert_only_rule, boolean_row, fractions, linear_row
from tests.circuits.scene import compiled

pytestmark = pytest.mark.slow


# --- the one-sided law ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def one_sided() -> Setting:
    cls = load_classes()["tiny-one"]
    return Setting(cls, compiled(cls))


def test_noise_of_a_one_sided_class_has_no_sign(one_sided: Setting) -> None:
    """Sign 1 would take the noise of the reflected uniform, negated: everything else about it holds."""
    r1cs, tried = one_sided.r1cs, 0
    for d in requests(one_sided):
        for p in d.places:
            uniform = (p.u << d.cls.fine_bits) | (p.element & ((1 << d.cls.fine_bits) - 1))
            before = d.score(p)
            p.sign = 1
            p.z = noise.inverse_cdf(d.table, (1 << 128) - 1 - uniform)
            p.before, p.upto = d.table.cdf(p.z - 1), d.table.cdf(p.z)
            assert d.score(p) <= before
            d.settle()
            sign = r1cs.wire_of[f"psg[{d.places.index(p)}]"]
            only = {i for i in r1cs.rows_of[sign] if {x for form in r1cs.rows[i] for x, _ in form} <= {0, sign}}
            assert len(only) == 1
            assert_only_rule(one_sided, d.inputs(), only)
            tried += 1
            break
        if tried == 3:
            return
    raise AssertionError("no request offers this attack")


def test_negative_noise_is_no_row_of_a_one_sided_table(one_sided: Setting) -> None:
    """z = -5 with limits right around the uniform: the noise table has no such row."""

    def forge(d: Draft) -> list[str]:
        p = d.place(d.ids[0])
        uniform = (p.u << d.cls.fine_bits) | (p.element & ((1 << d.cls.fine_bits) - 1))
        p.z, p.before, p.upto = -2000, uniform, uniform + 1
        d.settle()
        return bit_patterns(d, "fNoise", p)

    check(one_sided, forge)


# --- the noise --------------------------------------------------------------------------------------------------------


def test_noise_of_zero(tiny: Setting) -> None:
    def forge(d: Draft) -> list[str]:
        p = max((p for p in d.places if p.win), key=lambda p: (1 - 2 * p.sign) * p.z)
        p.z, p.before, p.upto = 0, d.table.cdf(-1), d.table.cdf(0)
        d.settle()
        return bit_patterns(d, r"noise\.f\[\d+\]", p)

    check(tiny, forge)


def test_noise_scaled(tiny: Setting) -> None:
    def forge(d: Draft) -> list[str] | None:
        p = max(losers(d), key=lambda p: (1 - 2 * p.sign) * p.z)
        if p.sign or 2 * p.z > d.table.cut:
            return None
        p.z *= 2
        d.settle()
        return bit_patterns(d, "fNoise", p)

    check(tiny, forge)


def test_noise_through_a_forged_table_row(tiny: Setting) -> None:
    """Any z with limits right around U: the columns are committed, and only the look-up ties them to z."""

    def forge(d: Draft) -> list[str]:
        p = losers(d)[0]
        _, folded = noise.reflect(d.table, (p.u << d.cls.fine_bits) | (p.element & ((1 << d.cls.fine_bits) - 1)))
        p.sign, p.z, p.before, p.upto = p.sign, 1000, folded, folded + 1
        d.settle()
        return bit_patterns(d, "fNoise", p)

    check(tiny, forge)


def test_sign_that_is_no_bit(tiny: Setting) -> None:
    """sign = 2 folds U in (1/3, 1/2) to another uniform and gives the noise -3 z."""

    def forge(d: Draft) -> list[str] | None:
        for p in (p for p in d.places if p.win):
            uniform = (p.u << d.cls.fine_bits) | (p.element & ((1 << d.cls.fine_bits) - 1))
            folded = uniform + 2 * ((1 << 128) - 1 - 2 * uniform)
            if 1 << 127 <= folded < 1 << 128:
                p.sign, p.z = 2, noise.inverse_cdf(d.table, folded)
                p.before, p.upto = d.table.cdf(p.z - 1), d.table.cdf(p.z)
                d.settle()
                return [f"psg[{d.places.index(p)}]"]
        return None

    d, (name,) = first(tiny, forge, hmax=40000, span=40000)
    assert_only_rule(tiny, d.inputs(), boolean_row(tiny.r1cs, name))


def test_noise_of_another_request(tiny: Setting) -> None:
    """Coarse and fine bits of a request that the cheat likes better, under this request's ctx."""
    d, other = tiny.draft(1), tiny.draft(2)
    d.elements = list(other.elements)
    d.read_coarse()
    tiny.choose(d)
    for p in d.places:
        p.element = mechanism.fine_element(other.key, p.slot)
        d.with_noise(p)
    d.settle()
    assert_only_rule(tiny, d.inputs(), *fractions(tiny.r1cs, r"block\[\d+\]\.f\[.*|place\[\d+\]\.element\.f\[\d+\]"))


def test_one_coarse_bit_changed(tiny: Setting) -> None:
    def forge(d: Draft) -> list[str] | None:
        top = 1 << (d.cls.m - 1)
        outside = set(range(d.cls.N)) - {p.slot for p in d.places}
        i = max((i for i in outside if not d.u[i] & top), key=lambda i: min(d.w[i], d.hmax) + d.bounds[d.u[i] | top])
        d.u[i] |= top
        d.b[i] = d.bounds[d.u[i]]
        swap(d, spare(d), d.open(i))
        d.settle()
        element = i // d.cls.q
        return [rf"block\[{element // 16}\]\.f\[{element % 16}\]\[\d+\]"]

    check(tiny, forge)


def test_a_coarse_element_above_the_modulus(tiny: Setting) -> None:
    """The integer o + r has the same residue and other bits."""

    def forge(d: Draft) -> list[str]:
        d.elements[0] += P
        d.read_coarse()
        tiny.choose(d)
        d.settle()
        return [rf"block\[0\]\.f\[0\]\[{d.cls.coarse_filler + 2 * d.cls.coarse_top - 1}\]"]

    check(tiny, forge)


def test_a_fine_element_above_the_modulus(tiny: Setting) -> None:
    def forge(d: Draft) -> list[str] | None:
        p = min((p for p in d.places if p.win), key=d.score)
        p.element += P
        d.with_noise(p)
        d.settle()
        last = d.cls.fine_chunks + d.cls.place_filler + 2 * d.cls.place_top
        return bit_patterns(d, rf"element\.f\[{last}\]", p)

    check(tiny, forge)


def test_a_seed_that_was_not_committed(tiny: Setting) -> None:
    d = tiny.honest(1)
    inputs = d.inputs()
    inputs[tiny.r1cs.wire_of["c_seed"]] = statement.seed_commitment((1, 2))
    assert_only_rule(tiny, inputs, linear_row(tiny.r1cs, "c_seed"))

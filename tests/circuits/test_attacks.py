# SPDX-License-Identifier: GPL-3.0-or-later
"""Cheats against the statement, at the level of the compiled rows.  SPEC B.

Each forged statement is completed as well as it can be, quotients and multiplicities included, so that exactly one rule
stands against it.  The R1CS must reject it, and must accept it once the rows of that rule are dropped: the rule is
what rejects.  (Inputs determine every other wire, so rejecting the completed witness rejects the statement.)
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
from collections.abc import Callable, Iterator

import pytest

from ragseal.circuits.circuit import load_classes
from ragseal.kernel import mechanism, noise, statement
from ragseal.kernel.errors import UnprovableError
from tests.circuits.drafts import Draft, DraftPlace, Setting, multiplier
from tests.circuits.r1cs import P, R1cs
from tests.circuits.rules import assert_only_rule, boolean_row, fractions, linear_row
from tests.circuits.scene import compiled

pytestmark = pytest.mark.slow


def requests(setting: Setting, hmax: int = 4000, span: int = 9000) -> Iterator[Draft]:
    """Honest statements of many requests, scores up to ``span``."""
    for number in range(1000, 1100):
        rng = random.Random(number)
        try:
            yield setting.honest(number, [rng.randrange(-6000, span) for _ in range(setting.cls.N)], hmax)
        except UnprovableError:
            continue


def first(setting: Setting, forge: Callable[[Draft], list[str] | None], **options: int) -> tuple[Draft, list[str]]:
    """The first request for which a forgery is possible and changes T, and the fractions of the attacked rule."""
    for d in requests(setting, **options):
        honest = list(d.ids)
        patterns = forge(d)
        if patterns is not None and d.ids != honest:
            return d, patterns
    raise AssertionError("no request offers this attack")


def losers(d: Draft) -> list[DraftPlace]:
    return [p for p in d.places if not p.win]


def spare(d: Draft) -> DraftPlace:
    """The place that is needed least: its slot stays below the threshold by far."""
    return min(losers(d), key=lambda p: min(max(p.w, 0), d.hmax) + p.b)


def unneeded(d: Draft, *but: DraftPlace) -> int:
    """A slot outside of the places, the first to be opened next."""
    inside = {p.slot for p in (*d.places, *but)}
    return max(set(range(d.cls.N)) - inside, key=lambda i: min(max(d.w[i], 0), d.hmax) + d.b[i])


def swap(d: Draft, old: DraftPlace, new: DraftPlace) -> None:
    d.places = sorted([p for p in d.places if p is not old] + [new], key=lambda p: p.slot)


def bit_patterns(d: Draft, name: str, *places: DraftPlace) -> list[str]:
    return [rf"place\[{d.places.index(p)}\]\.{name}" for p in places]


def check(setting: Setting, forge: Callable[[Draft], list[str] | None], **options: int) -> None:
    d, patterns = first(setting, forge, **options)
    assert_only_rule(setting, d.inputs(), *fractions(setting.r1cs, "|".join(patterns)))


# --- the top K --------------------------------------------------------------------------------------------------------


def test_a_loser_is_returned_instead_of_a_winner(tiny: Setting) -> None:
    def forge(d: Draft) -> list[str]:
        ranked = sorted(d.places, key=lambda p: (-d.score(p), p.slot))
        winner, loser = ranked[d.cls.K - 1], ranked[d.cls.K]
        winner.win, loser.win = 0, 1
        d.ids = sorted(p.slot for p in d.places if p.win)
        return bit_patterns(d, r"win\.f\[\d+\]", winner, loser)

    check(tiny, forge)


def test_the_committed_set_is_not_the_winners(tiny: Setting) -> None:
    def forge(d: Draft) -> list[str]:
        d.ids[-1] = max(d.ids) + 1
        return [rf"fSet\[{d.cls.K - 1}\]"]

    check(tiny, forge)


def test_a_winner_twice_in_the_set(tiny: Setting) -> None:
    """T with a repeated id is no set: increasing order forbids it, the winners' fractions too."""
    d = tiny.honest(1000)
    d.ids[1] = d.ids[0]
    assert_only_rule(tiny, d.inputs(), *fractions(tiny.r1cs, r"fSet\[1\]", r"increasing\.f\[0\]\[\d+\]"))


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


# --- flags ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("w", [-40, -1, 0, 1, 2, 40])
def test_a_flag_is_set_exactly_above_the_lower_end(tiny: Setting, w: int) -> None:
    """All slots at one score: the honest flag holds; the other one, with whatever it does to v, is refused."""
    tried = 0
    for d in requests_at(tiny, w):
        assert all(one.flag == (w > 0) for one in d.returned())
        assert not tiny.r1cs.violations(tiny.r1cs.solve(d.inputs()))
        p = max(d.places, key=d.score)
        p.low = 1 - p.low
        d.settle()
        if not p.win:  # v has moved by w, below the threshold
            continue
        assert statement.Returned(p.slot, w <= 0) in d.returned()
        assert_only_rule(tiny, d.inputs(), *fractions(tiny.r1cs, "|".join(bit_patterns(d, r"clip\.f\[\d+\]", p))))
        tried += 1
        if tried == 2:
            return
    raise AssertionError("no request offers this attack")


def requests_at(setting: Setting, w: int) -> Iterator[Draft]:
    for number in range(1000, 1040):
        with contextlib.suppress(UnprovableError):
            yield setting.honest(number, [w] * setting.cls.N)


@pytest.mark.parametrize("raised", [True, False])
def test_t_states_another_flag_than_its_place(tiny: Setting, raised: bool) -> None:
    for d in requests(tiny):
        returned = d.returned()
        at = next((k for k, one in enumerate(returned) if one.flag != raised), None)
        if at is not None:
            break
    d.stated = [dataclasses.replace(one, flag=raised) if k == at else one for k, one in enumerate(returned)]
    assert_only_rule(tiny, d.inputs(), *fractions(tiny.r1cs, rf"fSet\[{at}\]"))


def test_one_slot_with_both_flags_in_t(tiny: Setting) -> None:
    """(i, 0) and (i, 1) increase strictly; that places differ keeps them from being two winners."""
    d = tiny.honest(1000)
    i = d.ids[0]
    d.stated = [statement.Returned(i, False), statement.Returned(i, True), d.returned()[2]]
    unproven = 1 if d.returned()[0] == d.stated[0] else 0
    patterns = [rf"fSet\[{k}\]" for k in range(2) if k in (unproven, 1)]
    assert_only_rule(tiny, d.inputs(), *fractions(tiny.r1cs, "|".join(patterns)))


def test_the_threshold_slot_reaches_beyond_its_bits(tiny: Setting) -> None:
    """i* in a chunk wider than L bits lowers the threshold for winners but not for what must be opened."""

    def forge(d: Draft) -> list[str] | None:
        cls = d.cls
        assert cls.c > cls.L
        for i in range(cls.N):
            victim = d.open(i)
            exact = d.score(victim) - min(max(victim.w, 0), d.hmax)
            slack = victim.b - exact
            if slack > 4:
                continue
            # A slot whose bound is almost its exact noise gets the score that makes it the last winner.
            d.w[i] = -(10**5)
            tiny.choose(d)
            d.settle()
            last = d.place(d.threshold_slot)
            value, set_without = d.score(last), list(d.ids)
            d.w[i] = value + 1 - exact
            tiny.choose(d)
            d.settle()
            if not 0 <= d.w[i] <= d.hmax or i not in d.ids or d.u[i] >= d.theta:
                return None
            # Leave it out, with the threshold above its bound; i* makes up for the difference.
            swap(d, d.place(i), d.open(unneeded(d)))
            d.threshold = d.w[i] + d.b[i] + 1
            d.threshold_slot = ((d.threshold - value) << cls.L) + last.slot
            assert 1 << cls.L <= d.threshold_slot < 1 << cls.c
            for p in d.places:
                distance = ((d.score(p) - d.threshold) << cls.L) - p.slot + d.threshold_slot
                p.win = int(distance >= 0)
            d.ids = sorted(p.slot for p in d.places if p.win)
            assert d.ids == set_without
            d.settle_slots()
            return [r"thresholdSlot\.f\[1\]"]
        return None

    check(tiny, forge, hmax=30000)


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


# --- which slots are opened -------------------------------------------------------------------------------------------


def leave_out(d: Draft, victim: DraftPlace) -> None:
    swap(d, victim, d.open(unneeded(d)))
    d.settle()


def test_a_place_left_out(tiny: Setting) -> None:
    """X below 0 makes the slot fail: the range check of its chunks stands against it."""

    def forge(d: Draft) -> list[str]:
        victim = next(p for p in d.places if p.win)
        leave_out(d, victim)
        return [rf"slots\.f[01]\[{victim.slot}\]"]

    check(tiny, forge)


def test_a_slot_that_passes_but_is_not_opened(tiny: Setting) -> None:
    """X in range, e not 0: the slot's own fraction has no partner."""

    def forge(d: Draft) -> list[str] | None:
        victim = next(p for p in d.places if p.win)
        leave_out(d, victim)
        d.x[victim.slot] = 5
        return [rf"slots\.fOpen\[{victim.slot}\]"]

    check(tiny, forge)


def test_a_place_with_another_score(tiny: Setting) -> None:
    """e of the place comes from its own w; it must be the slot's."""

    def forge(d: Draft) -> list[str] | None:
        p = next((p for p in losers(d) if p.w < d.hmax), None)
        if p is None:
            return None
        p.w = d.hmax
        d.with_noise(p)
        d.settle()
        return bit_patterns(d, "fOpen", p)

    check(tiny, forge)


def test_a_place_with_another_x(tiny: Setting) -> None:
    """X is part of the key: another X would let another score give the same e, (Y + w)(Y + H) = (Y' + w')(Y' + H)."""

    def forge(d: Draft) -> list[str] | None:
        for p in losers(d):
            if p.w >= d.hmax:
                continue
            p.w = d.hmax
            d.with_noise(p)
            d.settle()
            if not p.win:
                return None
            least = p.b - d.threshold + 1 + d.hmax  # Y' + H at X' = 0
            short = d.hmax - d.w[p.slot]
            small = max(least, short)
            d.x[p.slot], p.x = 2 * small - least, small - least
            p.w = d.hmax + 2 * (2 * small - short) - small
            d.with_noise(p)
            one = multiplier(d.w[p.slot], p.b, d.x[p.slot], d.threshold, d.hmax)
            assert one
            assert one == multiplier(p.w, p.b, p.x, d.threshold, d.hmax)
            return []
        return None

    d, _ = first(tiny, forge)
    r1cs, inputs = tiny.r1cs, d.inputs()
    assert r1cs.violations(r1cs.solve(inputs))
    # Live: the same rows with X taken out of the keys accept it.
    opening = r1cs.factor_rows(r1cs.named(r"slots\.fOpen.*|place\[\d+\]\.fOpen"))
    chunks = r1cs.named(r"p?x[01]\[\d+\]")
    rows = list(r1cs.rows)
    for i in opening:
        a, b, c = ([(w, k) for w, k in form if w not in chunks] for form in rows[i])
        rows[i] = (tuple(a), tuple(b), tuple(c))
    weaker = dataclasses.replace(r1cs, rows=tuple(rows), _plans={})
    assert not weaker.violations(weaker.solve(inputs))


def test_a_slot_placed_twice(tiny: Setting) -> None:
    """Two places of one slot share its multiplicity: w1 + w2 + Y = w, so one may score what it likes."""

    def forge(d: Draft) -> list[str] | None:
        for p in losers(d):
            if p.w >= d.hmax:
                continue
            gone = spare(d)
            if gone is p:
                continue
            kept, slots = list(d.places), (p.w, p.low, p.high)
            twin = DraftPlace(**{name: getattr(p, name) for name in DraftPlace.__dataclass_fields__})
            d.places = sorted([x for x in d.places if x is not gone] + [twin], key=lambda x: x.slot)
            p.w = d.hmax
            d.with_noise(p)
            d.settle()
            x = d.x[p.slot]
            y = x + p.b - d.threshold + 1
            twin.w = d.w[p.slot] - y - p.w
            d.with_noise(twin)
            d.settle_bits()
            d.ids = sorted(q.slot for q in d.places if q.win)
            one = multiplier(p.w, p.b, x, d.threshold, d.hmax)
            two = multiplier(twin.w, twin.b, x, d.threshold, d.hmax)
            if p.win and not twin.win and one and two and len(d.ids) == d.cls.K:
                p.x = twin.x = x
                return [rf"order\.f\[{min(d.places.index(p), d.places.index(twin)) + 1}\]\[\d+\]"]
            d.places = kept
            p.w, p.low, p.high = slots
            d.settle()
        return None

    check(tiny, forge)


def test_an_id_beyond_the_capacity(tiny: Setting) -> None:
    """i + 2^L with X - 1 has the slot's key, draws new fine bits, and puts a wrong id into T."""

    def forge(d: Draft) -> list[str] | None:
        for p in sorted((p for p in d.places if p.win), key=lambda p: p.slot):
            slot, w = p.slot, d.hmax - 1
            d.w[slot] = p.w = w
            moved = DraftPlace(**{name: getattr(p, name) for name in DraftPlace.__dataclass_fields__})
            moved.slot = slot + (1 << d.cls.L)
            moved.w = d.hmax + 1
            moved.element = mechanism.fine_element(d.key, moved.slot)
            d.with_noise(moved)
            swap(d, p, moved)
            d.settle()
            d.x[slot], moved.x = 2, 1
            one = multiplier(w, p.b, 2, d.threshold, d.hmax)
            two = multiplier(moved.w, moved.b, 1, d.threshold, d.hmax)
            if moved.win and one and one == two:
                return [rf"order\.f\[{d.cls.R}\]\[\d+\]"]
            return None
        return None

    check(tiny, forge)


# --- the clip ---------------------------------------------------------------------------------------------------------


def test_a_score_above_the_window_is_not_clipped(tiny: Setting) -> None:
    def forge(d: Draft) -> list[str] | None:
        p = max((p for p in losers(d) if p.w > d.hmax), key=lambda p: p.w, default=None)
        if p is None:
            return None
        p.high = 0
        d.settle()
        return bit_patterns(d, r"clip\.f\[3\]", p)

    check(tiny, forge, hmax=2000)


def test_a_score_below_the_window_is_not_clipped(tiny: Setting) -> None:
    def forge(d: Draft) -> list[str] | None:
        p = min((p for p in d.places if p.win and p.w < 0), key=lambda p: p.w, default=None)
        if p is None:
            return None
        p.low = 0
        d.settle()
        return bit_patterns(d, r"clip\.f\[1\]", p)

    check(tiny, forge, hmax=2000)


def test_a_clip_case_that_is_no_bit(tiny: Setting) -> None:
    """-1 for "below the window" counts a score twice."""

    def forge(d: Draft) -> list[str] | None:
        p = max((p for p in losers(d) if 0 < p.w <= d.hmax), key=lambda p: p.w, default=None)
        if p is None:
            return None
        p.low = -1
        d.settle()
        return [f"pcl[{d.places.index(p)}]"]

    d, (name,) = first(tiny, forge)
    assert_only_rule(tiny, d.inputs(), boolean_row(tiny.r1cs, name))


# --- the count of slots above theta -----------------------------------------------------------------------------------


def hidden_by_low_score(d: Draft, count: int) -> list[int] | None:
    """Leave out slots whose noise alone wins, through scores far below the window that only the clip at 0 raises."""
    victims = [p for p in d.places if p.win and p.u >= d.theta and p.w < -10000][:count]
    if len(victims) < count:
        return None
    for victim in victims:
        swap(d, victim, d.open(unneeded(d, *victims)))
    d.settle()
    inside = {p.slot for p in d.places}
    hidden = {i for i in range(d.cls.N) if d.u[i] >= d.theta and i not in inside}
    if any(not 0 <= x < 1 << (2 * d.cls.c) for x in d.x) or hidden != {p.slot for p in victims}:
        return None
    return [p.slot for p in victims]


def low_scores(setting: Setting) -> Iterator[Draft]:
    for number in range(2000, 2200):
        try:
            yield setting.honest(number, [-20000 - i for i in range(setting.cls.N)], 5)
        except UnprovableError:
            continue


def hide(setting: Setting, count: int, then: Callable[[Draft, list[int]], object]) -> tuple[Draft, object]:
    for d in low_scores(setting):
        honest = list(d.ids)
        victims = hidden_by_low_score(d, count)
        if victims is None or d.ids == honest:
            continue
        found = then(d, victims)
        if found is not None:
            return d, found
    raise AssertionError("no request offers this attack")


def count_row(r1cs: R1cs) -> set[int]:
    return linear_row(r1cs, "pcnt[0]", "pcnt[1]")


def test_a_slot_whose_noise_alone_wins_is_left_out(tiny: Setting) -> None:
    d, _ = hide(tiny, 1, lambda d, victims: victims)
    assert_only_rule(tiny, d.inputs(), count_row(tiny.r1cs))


def test_a_wrong_multiplicity_hides_it(tiny: Setting) -> None:
    d, victims = hide(tiny, 1, lambda d, victims: victims)
    assert isinstance(victims, list)
    d.mc_edit = {d.u[victims[0]]: -1}
    assert_only_rule(tiny, d.inputs(), *fractions(tiny.r1cs, rf"slots\.fCoarse\[{victims[0]}\]"))


def test_a_higher_theta_hides_it(tiny: Setting) -> None:
    def then(d: Draft, victims: list[int]) -> list[int]:
        d.theta = 1 << d.cls.m  # "none"
        for p in d.places:
            p.counted = 0
        return victims

    d, _ = hide(tiny, 1, then)
    assert_only_rule(tiny, d.inputs(), *fractions(tiny.r1cs, r"threshold\.f\[\d+\]"))


def test_a_wrong_count_bit_hides_two(tiny: Setting) -> None:
    def then(d: Draft, victims: list[int]) -> list[str] | None:
        low = [p for p in d.places if not p.counted][:2]
        if len(low) < 2 or len(victims) != 2:
            return None
        low[0].counted = 1
        return bit_patterns(d, r"counted\.f\[\d+\]", low[0])

    d, patterns = hide(tiny, 2, then)
    assert isinstance(patterns, list)
    assert_only_rule(tiny, d.inputs(), *fractions(tiny.r1cs, *patterns))


def test_a_count_bit_of_two_hides_two(tiny: Setting) -> None:
    def then(d: Draft, victims: list[int]) -> str | None:
        p = next((p for p in d.places if p.counted), None)
        if p is None:
            return None
        p.counted = 2
        return f"pcnt[{d.places.index(p)}]"

    d, name = hide(tiny, 2, then)
    assert_only_rule(tiny, d.inputs(), boolean_row(tiny.r1cs, str(name)))


def test_a_place_without_a_slot_hides_one(tiny: Setting) -> None:
    """A place with e = 0 is tied to no slot; it would count as one above theta."""

    def then(d: Draft, victims: list[int]) -> str | None:
        inside = {p.slot for p in d.places}
        fake = d.open(next(i for i in range(d.cls.N) if i not in inside and i not in victims))
        # The lowest coarse value that counts: it must not win by itself.
        fake.u, fake.b = d.theta, d.bounds[d.theta] if d.theta < len(d.bounds) else 0
        if d.theta >= len(d.bounds):
            return None
        d.with_noise(fake)
        swap(d, spare(d), fake)
        threshold = d.threshold
        d.settle()
        if d.threshold != threshold or fake.win or not fake.counted:
            return None
        fake.x = d.threshold - 1 - fake.b - fake.w
        # Its slot is none of the opened ones: it fails like any other.
        i = fake.slot
        d.x[i] = d.threshold - 1 - d.b[i] - d.w[i]
        if not (0 <= fake.x < 1 << (2 * d.cls.c) and 0 <= d.x[i] < 1 << (2 * d.cls.c)):
            return None
        return f"place[{d.places.index(fake)}].fInverse"

    d, name = hide(tiny, 1, then)
    wire = tiny.r1cs.wire_of[str(name)]
    assert_only_rule(tiny, d.inputs(), set(tiny.r1cs.rows_of[wire]), {wire})


@pytest.mark.parametrize("group", ["pcl", "pch", "psg", "pwin", "pcnt", "sel"])
def test_bits_are_bits(setting: Setting, group: str) -> None:
    if group == "psg" and setting.cls.law == "one-sided":
        return  # 0 and nothing else: test_noise_of_a_one_sided_class_has_no_sign
    count = statement.Layout(setting.cls).by_name[group].count
    for k in range(count):
        boolean_row(setting.r1cs, f"{group}[{k}]")

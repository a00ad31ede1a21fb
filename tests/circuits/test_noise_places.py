# SPDX-License-Identifier: GPL-3.0-or-later
"""Cheats against the statement with noise's places: which slots they are, their order and their ranks.

As in test_noise_winners, one rule stands against each forged statement.
"""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from tests.circuits.noise_drafts import PLACES, DraftPlace, NoiseDraft, NoiseSetting, copied, multiplier
from tests.circuits.noise_forgeries import (
    check,
    first,
    losers,
    of_place,
    replace_last_edge,
    rising_winner,
)
from tests.circuits.rules import assert_only_rule, boolean_row, fractions, linear_row
from tests.circuits.scene import compiled, noise_tiny

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=PLACES, ids=str)
def tiny(request: pytest.FixtureRequest) -> NoiseSetting:
    return NoiseSetting(noise_tiny(), compiled(noise_tiny()), *request.param)


def test_one_slot_as_full_and_as_edge(tiny: NoiseSetting) -> None:
    """Two records of one slot with split digits: their distances differ, a slot has one, so one key meets no slot."""

    def forge(d: NoiseDraft) -> list[str] | None:
        p = rising_winner(d)
        twin = d.clip(DraftPlace(p.slot, d.entry - 1 - p.b, p.u, p.b, 0))
        if not 0 < twin.k <= d.steps:
            return None
        at = replace_last_edge(d, twin)
        p.k = max(1, d.entry - p.b)  # the least score of a full place
        d.clip(p)
        d.draw()
        distances = list(d.x)
        d.settle()
        d.x = distances
        p.shift, twin.shift = d.x[p.slot], 0
        return [rf"place\[({at}|{d.places.index(p)})\]\.fOpen"]

    check(tiny, forge)


def test_one_slot_as_full_and_as_edge_with_one_key(tiny: NoiseSetting) -> None:
    """With one distance twice, k1 + k2 + Y = k would do: that X has two bits, one of them fixed, forbids it."""

    def forge(d: NoiseDraft) -> list[str] | None:
        p = rising_winner(d)
        twin = d.clip(DraftPlace(p.slot, d.entry - 1 - p.b, p.u, p.b, 0))
        x = p.k - (d.entry - p.b)  # the first record then has the least score of a full place
        if not 0 < twin.k <= d.steps or not x >= 3 or p.k > d.steps:
            return None
        at = replace_last_edge(d, twin)
        p.k -= x
        d.draw()
        d.settle()
        d.x[p.slot] = x
        p.shift, twin.shift = x, x - 2
        assert p.k + twin.k + x + p.b - d.entry + 1 == d.digit(p.slot)
        if not multiplier(p.k, p.b, x, d.entry, d.steps) or not multiplier(twin.k, p.b, x, d.entry, d.steps):
            return None
        return [str(at), str(d.places.index(p))]

    d, ats = first(tiny, forge, low=0, high=300, steps=300)
    rows = set.union(*(boolean_row(tiny.r1cs, f"placeShift[{at}]") for at in ats))
    assert_only_rule(tiny, d.inputs(), rows)


def test_an_entry_one_higher(tiny: NoiseSetting) -> None:
    """Fewer full places, other ranks; too few slots are one step below, and a lower one must be shown as one."""

    def forge(d: NoiseDraft) -> list[str] | None:
        entry = d.entry + 1
        full = [d.open(i, 1) for i in range(d.cls.N) if d.reach(i) >= entry]
        edge = [d.open(i, 0) for i in range(d.cls.N) if d.reach(i) == entry - 1]
        fill = [d.open(i, 0) for i in range(d.cls.N) if d.reach(i) == entry - 2]
        d.entry, d.places = entry, full + edge
        missing = d.cls.R - len(d.places)
        if not edge or missing != 1 or not fill:
            return None
        d.places = full + sorted(edge + fill[:1], key=lambda p: p.slot)
        d.draw()
        d.settle()
        return [str(d.places.index(fill[0]))]

    d, (at,) = first(tiny, forge, same=True, low=0, high=100)
    full, entry = tiny.r1cs.wire_of[f"placeFull[{at}]"], tiny.r1cs.wire_of["entry"]
    products = {i for i in tiny.r1cs.rows_of[full] if not tiny.r1cs.rows[i][2] and i in tiny.r1cs.rows_of[entry]}
    assert len(products) == 1
    rows, zero = fractions(tiny.r1cs, rf"place\[{at}\]\.f\[\d+\]")
    assert_only_rule(tiny, d.inputs(), rows | products, zero)


def test_an_entry_one_higher_with_places_of_no_slot(tiny: NoiseSetting) -> None:
    """What is missing one step below is made up: e = 0 there, so that no slot would have to be it."""

    def forge(d: NoiseDraft) -> list[str] | None:
        entry = d.entry + 1
        full = [d.open(i, 1) for i in range(d.cls.N) if d.reach(i) >= entry]
        edge = [d.open(i, 0) for i in range(d.cls.N) if d.reach(i) == entry - 1]
        missing = d.cls.R - len(full) - len(edge)
        inside = {p.slot for p in (*full, *edge)}
        fake = [
            d.clip(DraftPlace(i, -2, d.cls.bounds.index(entry - 1), entry - 1, 0))
            for i in range(d.cls.N)
            if i not in inside and entry - 1 in d.cls.bounds
        ][:missing]
        if missing < 1 or len(fake) < missing:
            return None
        d.entry, d.places = entry, full + sorted(edge + fake, key=lambda p: p.slot)
        d.draw()
        real = d.places
        d.places = [p for p in real if p not in fake]
        d.settle_distances()
        d.places = real
        last = sorted(full, key=lambda p: (-d.score(p), p.slot))[d.cls.K - 1]
        d.threshold, d.threshold_slot = d.score(last), last.slot
        d.settle_bits()
        d.ids = sorted(p.slot for p in d.places if p.win)
        if any(p.counted for p in fake):
            return None
        return [str(d.places.index(p)) for p in fake]

    d, ats = first(tiny, forge, low=-60, high=20)
    wires = {tiny.r1cs.wire_of[f"place[{at}].fInverse"] for at in ats}
    rows = {i for w in wires for i in tiny.r1cs.rows_of[w]}
    assert len(rows) == len(wires)
    assert_only_rule(tiny, d.inputs(), rows, wires)


def test_an_entry_one_lower(tiny: NoiseSetting) -> None:
    """Slots one step below the entry become full; they are more than R - 1, and the one left out is one too many."""

    def forge(d: NoiseDraft) -> list[str] | None:
        entry = d.entry - 1
        full = [d.open(i, 1) for i in range(d.cls.N) if d.reach(i) >= entry]
        edge = [d.open(i, 0) for i in range(d.cls.N) if d.reach(i) == entry - 1]
        if len(full) != d.cls.R or not edge:
            return None
        gone = next(p for p in full if d.reach(p.slot) == entry and p.u < d.theta)
        d.entry, d.places = entry, [p for p in full if p is not gone] + edge[:1]
        d.draw()
        d.settle()
        if gone.u >= d.theta:
            return None
        return [rf"slots\.fDistance\[{gone.slot}\]"]

    check(tiny, forge, same=True, low=0, high=100)


def test_an_entry_one_lower_with_all_places_full(tiny: NoiseSetting) -> None:
    def forge(d: NoiseDraft) -> list[str] | None:
        entry = d.entry - 1
        full = [d.open(i, 1) for i in range(d.cls.N) if d.reach(i) >= entry]
        if len(full) != d.cls.R:
            return None
        d.entry, d.places = entry, full
        d.draw()
        d.settle()
        return []

    d, _ = first(tiny, forge, same=True, low=0, high=100)
    last = tiny.r1cs.wire_of[f"placeFull[{tiny.cls.R - 1}]"]
    rows = {i for i in tiny.r1cs.rows_of[last] if {w for form in tiny.r1cs.rows[i] for w, _ in form} <= {0, last}}
    assert len(rows) == 2  # a bit, and 0
    assert_only_rule(tiny, d.inputs(), rows - boolean_row(tiny.r1cs, f"placeFull[{tiny.cls.R - 1}]"))


def test_an_edge_slot_shown_as_full(tiny: NoiseSetting) -> None:
    """It would take a rank, and move those after it: its distance to the entry is below 0."""

    def forge(d: NoiseDraft) -> list[str] | None:
        edge = [p for p in d.places if not p.full]
        if len(edge) < 2:
            return None
        edge[0].full = 1
        d.places.sort(key=d.position)
        d.draw()
        d.settle()
        return of_place(d, r"f\[\d+\]", edge[0])

    check(tiny, forge, low=0, high=10)


def test_fine_bits_exchanged(tiny: NoiseSetting) -> None:
    """Two ranks' fine bits in each other's place: the element splits in one order only."""

    def forge(d: NoiseDraft) -> list[str] | None:
        one, two = d.places[0], d.places[1]
        one.fine, two.fine = two.fine, one.fine
        d.noise(one)
        d.noise(two)
        d.settle()
        return [r"fineBlock\[0\]\.f\[0\]\[\d+\]"]

    check(tiny, forge)


def test_ranks_exchanged(tiny: NoiseSetting) -> None:
    """Full places in another order than that of their slots."""

    def forge(d: NoiseDraft) -> list[str] | None:
        d.places[0], d.places[1] = d.places[1], d.places[0]
        d.draw()
        d.settle()
        return [r"order\.f\[[012]\]\[\d+\]"]

    check(tiny, forge)


def test_an_edge_place_before_a_full_one(tiny: NoiseSetting) -> None:
    """It would take the full one's rank."""

    def forge(d: NoiseDraft) -> list[str] | None:
        n = sum(p.full for p in d.places)
        if n == d.cls.R - 1:
            return None  # the last place is not full by a rule of its own
        d.places[n - 1], d.places[n] = d.places[n], d.places[n - 1]
        d.draw()
        d.settle()
        return [str(n)]

    d, (at,) = first(tiny, forge, same=True)
    n = int(at)
    rows, zero = fractions(tiny.r1cs, rf"order\.f\[({n - 1}|{n}|{n + 1})\]\[\d+\]")
    one, two = (tiny.r1cs.wire_of[f"placeFull[{k}]"] for k in (n - 1, n))
    kinds = {i for i in tiny.r1cs.rows_of[one] if {w for side in tiny.r1cs.rows[i] for w, _ in side} == {0, one, two}}
    assert len(kinds) == 1
    assert_only_rule(tiny, d.inputs(), rows | kinds, zero)


def test_a_place_with_another_digit(tiny: NoiseSetting) -> None:
    def forge(d: NoiseDraft) -> list[str] | None:
        p = losers(d)[0]
        p.k = d.steps
        d.clip(p)
        d.settle()
        return of_place(d, "fOpen", p)

    check(tiny, forge)


def test_a_place_with_another_bound(tiny: NoiseSetting) -> None:
    """A key has no bound: with another one another digit gives the same e, (Y + t + k')(Y + t + H) = (Y + k)(Y + H)."""

    def forge(d: NoiseDraft) -> list[str] | None:
        for p, x in itertools.product(losers(d), range(2)):
            y, e = x + p.b - d.entry + 1, multiplier(p.k, p.b, x, d.entry, d.steps)
            for t in range(-60, 61):
                divisor = y + t + d.steps
                if not t or not e or not divisor or e % divisor:
                    continue
                k = e // divisor - y - t
                if not max(p.k, d.entry - p.b - t) < k <= d.steps:
                    continue
                p.k, p.b = k, p.b + t
                d.clip(p)
                d.settle()
                d.x[p.slot] = p.shift = x
                return of_place(d, "fCoarse", p)
        return None

    check(tiny, forge)


def test_a_place_with_other_coarse_bits(tiny: NoiseSetting) -> None:
    def forge(d: NoiseDraft) -> list[str] | None:
        p = losers(d)[0]
        p.u, p.b = 255, d.cls.bounds[255]
        d.noise(p)
        d.settle()
        return of_place(d, "fOpen", p)

    d, patterns = first(tiny, forge)
    # One more place has u >= theta than slots.
    rows, zero = fractions(tiny.r1cs, *patterns)
    assert_only_rule(tiny, d.inputs(), rows | linear_row(tiny.r1cs, "placeCounted[0]", "placeCounted[1]"), zero)


def test_two_places_of_no_slot_that_cancel(tiny: NoiseSetting) -> None:
    """An edge place with slot -a, u = 0 and a full one with slot 2^(L+1) - a, u = 2^m - 1 have one key.

    Their digits make their numerators opposite.  The second counts as one above theta, and hides a slot whose noise
    alone reaches the entry: all ranks after it move, and T changes.  Slots increase as they should; only that an edge
    place stands before a full one gives them away.
    """
    cls = tiny.cls
    entry, top = 400, cls.bounds[-1]
    steps = entry - 1 - cls.bounds[0]

    def forged(number: int) -> NoiseDraft | None:
        d = tiny.draft(number, [0] * cls.N, steps)
        highest = [i for i, u in enumerate(d.u) if u == 255]
        full = [i for i in range(90) if d.b[i] >= 0 and i not in highest][: cls.R - 3]
        if len(highest) != 1 or highest[0] >= 110 or len(full) != cls.R - 3:
            return None
        digits = [-200] * cls.N
        for j, i in enumerate(full):
            digits[i] = entry + j - d.b[i]
        for i in (110, 111):
            digits[i] = entry - 1 - d.b[i]
        digits[highest[0]] = -1000
        d = tiny.honest(number, digits, steps)
        assert d.entry == entry
        assert not tiny.r1cs.violations(tiny.r1cs.solve(d.inputs()))
        honest = list(d.ids)
        assert d.place(highest[0]).full
        a = (1 << cls.L) - max(full) - 1
        span = steps + top - entry + 2  # Y + H of the full one
        one = DraftPlace(-a, steps - 2 + span, 0, cls.bounds[0], 0)
        two = DraftPlace((2 << cls.L) - a, -2 - (top - entry + 2), 255, top, 1, shift=1)
        assert multiplier(one.k, one.b, 2, entry, steps) == -multiplier(two.k, two.b, 1, entry, steps) != 0
        d.places = [*(d.open(i, 1) for i in full), d.clip(one), d.clip(two), d.open(111, 0)]
        d.draw()
        d.settle()
        return d if honest != d.ids else None

    d = next(found for number in range(4000, 4200) if (found := forged(number)))
    first_full, second_full = (tiny.r1cs.wire_of[f"placeFull[{cls.R - k}]"] for k in (3, 2))
    rows = {
        i
        for i in tiny.r1cs.rows_of[first_full]
        if {w for side in tiny.r1cs.rows[i] for w, _ in side} == {0, first_full, second_full}
    }
    assert len(rows) == 1
    assert_only_rule(tiny, d.inputs(), rows)


def test_a_slot_placed_twice(tiny: NoiseSetting) -> None:
    """Two full places of one slot share its numerator, k1 + k2 + Y = k: its score falls, and another slot wins."""

    def forge(d: NoiseDraft) -> list[str] | None:
        p, x = rising_winner(d), 0
        if not 0 < p.k <= d.steps or d.places[-2].full:  # a place that is not full stays
            return None
        twin = copied(p)
        d.places = sorted([*d.places[:-1], twin], key=d.position)
        p.k, twin.k = d.entry - p.b, p.k - x - 1
        if twin.k + twin.b < d.entry:
            return None
        d.draw()
        d.clip(p)
        d.clip(twin)
        d.settle()
        d.x[p.slot] = p.shift = twin.shift = x
        multipliers = [multiplier(k, p.b, x, d.entry, d.steps) for k in (p.k, twin.k, d.digit(p.slot))]
        assert multipliers[0] + multipliers[1] == multipliers[2]
        if not all(multipliers) or p.win + twin.win == 2:
            return None
        return [rf"order\.f\[{max(d.places.index(p), d.places.index(twin))}\]\[\d+\]"]

    check(tiny, forge, low=0, high=300, steps=300)


def test_a_place_with_another_distance(tiny: NoiseSetting) -> None:
    """X is part of the key: another one would let another digit give the same e, (Y + k)(Y + H) = (Y' + k')(Y' + H)."""

    def forge(d: NoiseDraft) -> list[str] | None:
        p = next((p for p in losers(d) if p.k == d.steps - 1), None)
        if p is None:
            return None
        d.x[p.slot], p.shift, p.k = 1, 0, d.steps + 1
        d.clip(p)
        one = multiplier(d.digit(p.slot), p.b, 1, d.entry, d.steps)
        assert one
        assert one == multiplier(p.k, p.b, 0, d.entry, d.steps)
        last = sorted(d.places, key=lambda q: (-d.score(q), q.slot))[d.cls.K - 1]
        d.threshold, d.threshold_slot = d.score(last), last.slot
        d.settle_bits()
        d.ids = sorted(q.slot for q in d.places if q.win)
        return []

    d, _ = first(tiny, forge, same=True, low=127, high=128)
    r1cs, inputs = tiny.r1cs, d.inputs()
    assert r1cs.violations(r1cs.solve(inputs))
    # Live: the same rows with X taken out of the keys accept it.
    of_slots = {r1cs.wire_of[f"slot[{i}][3]"] for i in range(d.cls.N)}
    of_places = {0, *r1cs.named(r"place(Shift|Full)\[\d+\]")}  # 2 (1 - full) + shift
    rows = list(r1cs.rows)
    for name, distances in ((r"slots\.fOpen\[\d+\]", of_slots), (r"place\[\d+\]\.fOpen", of_places)):
        for i in r1cs.factor_rows(r1cs.named(name)):
            a, b, c = (tuple((w, k) for w, k in form if w not in distances) for form in rows[i])
            rows[i] = (a, b, c)
    weaker = dataclasses.replace(r1cs, rows=tuple(rows), _plans={})
    assert not weaker.violations(weaker.solve(inputs))

# SPDX-License-Identifier: GPL-3.0-or-later
"""Forged statements of the circuit, each an edit of one honest query's draft.

tests/circuits shows for every rule of the compiled circuit that it alone stands against such an edit; here the edits
go through the whole system.
"""

from __future__ import annotations

from dataclasses import replace

from ragseal.kernel import mechanism, noise
from ragseal.kernel.statement import Returned
from tests.attacks.world import Draft, setting


def _ranked(d: Draft) -> list[int]:
    """Slots of the places, best first."""
    return [p.slot for p in sorted(d.places, key=lambda p: (-d.score(p), p.slot))]


def _swap(d: Draft, old: int, new: int) -> None:
    d.places = sorted([p for p in d.places if p.slot != old] + [d.open(new)], key=lambda p: p.slot)


def _reach(d: Draft, slot: int) -> int:
    return min(max(d.w[slot], 0), d.hmax) + d.b[slot]


def _unopened(d: Draft) -> int:
    """The slot outside of the places that would be opened next."""
    inside = {p.slot for p in d.places}
    return max((i for i in range(d.cls.N) if i not in inside), key=lambda i: _reach(d, i))


def noise_of_another_request(d: Draft) -> None:
    """Coarse and fine bits of a ctx that the cheat likes better, under the request's own."""
    key = mechanism.noise_key(d.seed, d.beacon, 12345)
    d.elements = mechanism.coarse_elements(d.cls, key)
    d.read_coarse()
    setting().choose(d)
    for p in d.places:
        p.element = mechanism.fine_element(key, p.slot)
        d.with_noise(p)
    d.settle()


def noise_of_zero(d: Draft) -> None:
    """A winner's noise is set to the table's row of 0."""
    p = d.place(_ranked(d)[0])
    p.z, p.before, p.upto = 0, d.table.cdf(-1), d.table.cdf(0)
    d.settle()


def noise_scaled(d: Draft) -> None:
    """The best loser's noise is doubled."""
    p = d.place(_ranked(d)[d.cls.K])
    p.z *= 2
    d.settle()


def winner_with_chosen_noise(d: Draft) -> None:
    """A loser wins with a noise of the cheat's choice, with limits right around its uniform."""
    p = d.place(_ranked(d)[d.cls.K])
    _, folded = noise.reflect(d.table, (p.u << d.cls.fine_bits) | (p.element & ((1 << d.cls.fine_bits) - 1)))
    p.z, p.before, p.upto = 2500 if not p.sign else 0, folded, folded + 1
    d.settle()


def loser_returned(d: Draft) -> None:
    """The runner-up takes the last winner's place, win bits and commitment to T included."""
    ranked = _ranked(d)
    d.place(ranked[d.cls.K - 1]).win, d.place(ranked[d.cls.K]).win = 0, 1
    d.ids = sorted(p.slot for p in d.places if p.win)


def other_set_committed(d: Draft) -> None:
    """T commits to a set that is not the winners."""
    d.ids = sorted({*d.ids[:-1], _ranked(d)[d.cls.K]})


def id_beyond_the_capacity(d: Draft) -> None:
    """A winner under the id of a slot that does not exist."""
    p = d.place(max(d.ids))
    p.slot += 1 << d.cls.L
    p.element = mechanism.fine_element(d.key, p.slot)
    d.with_noise(p)
    p.win = 1
    d.ids = sorted(q.slot for q in d.places if q.win)


def slot_placed_twice(d: Draft) -> None:
    """The winner in two places, the last place gone."""
    ranked = _ranked(d)
    _swap(d, ranked[-1], ranked[0])
    d.settle_bits()
    d.ids = sorted(p.slot for p in d.places if p.win)[: d.cls.K]


def left_out(d: Draft) -> None:
    """A winner is not opened; the threshold moves down to what is left, and one slot above theta is not counted."""
    victim = d.threshold_slot
    _swap(d, victim, _unopened(d))
    d.settle()
    if d.u[victim] >= d.theta:
        d.mc_edit = {d.u[victim]: -1}


def coarse_bit_changed(d: Draft) -> None:
    """A slot's highest coarse bit is set."""
    top = 1 << (d.cls.m - 1)
    inside = {p.slot for p in d.places}
    i = max((i for i in range(d.cls.N) if i not in inside and not d.u[i] & top), key=lambda i: d.w[i])
    d.u[i] |= top
    d.b[i] = d.bounds[d.u[i]]
    d.settle_slots()


def multiplicity_wrong(d: Draft) -> None:
    """One look-up less is claimed for a row of the coarse table, one more for another."""
    d.mc_edit = {d.u[0]: -1, (d.u[0] + 1) % len(d.bounds): 1}


def noise_through_a_multiplicity(d: Draft) -> None:
    """The runner-up's noise is another row of the table than its uniform's, and that row is claimed once more."""
    p = d.place(_ranked(d)[d.cls.K])
    p.z = 2400 if not p.sign else 0
    p.before, p.upto = d.table.cdf(p.z - 1), d.table.cdf(p.z)
    d.settle()
    d.mc_edit = {p.u: 1}


def flag_raised(d: Draft) -> None:
    """A slot that came by the noise is said to have a score: its text would be opened."""
    p = next(p for p in d.places if p.win and p.low)
    p.low = 0


def flag_lowered(d: Draft) -> None:
    """A slot with a score is said to have come by the noise: its text would be withheld."""
    p = next(p for p in d.places if p.win and not p.low)
    p.low = 1


def another_flag_committed(d: Draft) -> None:
    """T commits to a flag that is not its place's."""
    d.stated = [replace(one, flag=True) for one in d.returned()]
    assert d.stated != [Returned(p.slot, not p.low) for p in d.places if p.win]


def both_flags_committed(d: Draft) -> None:
    """T holds one slot twice, with the flag and without, and one winner less."""
    first, second, *rest = d.returned()
    d.stated = sorted([replace(first, flag=False), replace(first, flag=True), *rest])
    assert len(d.stated) == d.cls.K
    assert second not in d.stated


def ids_in_another_order(d: Draft) -> None:
    """T commits to the winners by falling score."""
    d.ids = [slot for slot in _ranked(d) if slot in d.ids]
    if d.ids == sorted(d.ids):
        d.ids.reverse()

# SPDX-License-Identifier: GPL-3.0-or-later
"""Forged statements of the circuit, each an edit of one honest query's draft; False where this query does not offer it.

tests/circuits shows for every rule of the compiled circuit that it alone stands against such an edit; here the edits
go through the whole system.
"""

from __future__ import annotations

from dataclasses import replace

from ragseal.kernel import mechanism
from ragseal.kernel.noise_mechanism import wide_elements
from ragseal.kernel.params import TAG_COARSE, TAG_FINE
from ragseal.kernel.statement import Returned
from tests.circuits.noise_drafts import DraftPlace, NoiseDraft, copied, finish
from tests.circuits.noise_forgeries import without

FAR = 900  #: steps of noise, as good as any score


def _best_first(d: NoiseDraft) -> list[DraftPlace]:
    return sorted(d.places, key=lambda p: (-d.score(p), p.slot))


def _winners(d: NoiseDraft) -> list[int]:
    return sorted(p.slot for p in d.places if p.win)


def noise_of_another_request(d: NoiseDraft) -> bool:
    """Coarse and fine bits of a ctx that the cheat likes better, under the request's own."""
    key = mechanism.noise_key(d.seed, d.beacon, 12345)
    d.coarse_elements = wide_elements(key, TAG_COARSE, d.cls.elements, d.shard)
    d.fine_elements = wide_elements(key, TAG_FINE, d.cls.fine_elements, d.shard)
    d.read_elements()
    finish(d)
    return d.threshold >= d.entry


def noise_of_zero(d: NoiseDraft) -> bool:
    """A winner's noise is set to the table's row of 0."""
    p = _best_first(d)[0]
    p.sign, p.z, p.before, p.upto = 0, 0, d.cls.table.cdf(-1), d.cls.table.cdf(0)
    d.settle()
    return d.threshold >= d.entry


def noise_scaled(d: NoiseDraft) -> bool:
    """The best loser's noise is doubled."""
    p = _best_first(d)[d.cls.K]
    noise, p.z = p.z, 2 * p.z
    d.settle()
    return noise > 0


def winner_with_chosen_noise(d: NoiseDraft) -> bool:
    """A loser wins with a noise of the cheat's choice, with limits right around its uniform."""
    p = _best_first(d)[d.cls.K]
    uniform = (p.u << d.cls.fine_bits) + p.fine
    folded = uniform + p.sign * (d.cls.table.total - 1 - 2 * uniform)
    p.z, p.before, p.upto = 0 if p.sign else FAR, folded, folded + 1
    before = list(d.ids)
    d.settle()
    return d.ids != before


def loser_returned(d: NoiseDraft) -> bool:
    """The runner-up takes the last winner's place, win bits and commitment to T included."""
    ranked = _best_first(d)
    ranked[d.cls.K - 1].win, ranked[d.cls.K].win = 0, 1
    d.ids = _winners(d)
    return True


def other_set_committed(d: NoiseDraft) -> bool:
    """T commits to a set that is not the winners."""
    d.ids = sorted({*d.ids[:-1], _best_first(d)[d.cls.K].slot})
    return True


def id_beyond_the_capacity(d: NoiseDraft) -> bool:
    """A winner under the id of a slot that does not exist."""
    d.place(max(d.ids)).slot += 1 << d.cls.L
    d.ids = _winners(d)
    return True


def slot_placed_twice(d: NoiseDraft) -> bool:
    """The winner in two places, the last place gone."""
    d.places = sorted([*d.places[:-1], copied(_best_first(d)[0])], key=d.position)
    d.settle_bits()
    d.ids = _winners(d)[: d.cls.K]
    return True


def left_out(d: NoiseDraft) -> bool:
    """A winner is not opened; the threshold moves down to what is left, and one slot above theta is not counted."""
    victim, before = d.place(d.threshold_slot), list(d.ids)
    if not victim.full or not without(d, victim) or d.threshold < d.entry:
        return False
    if victim.u >= d.theta:
        d.count_edit = {victim.u: -1}
    return d.ids != before


def coarse_bit_changed(d: NoiseDraft) -> bool:
    """A slot's highest coarse bit is set."""
    top = 1 << (d.cls.m - 1)
    inside = {p.slot for p in d.places}
    i = max((i for i in range(d.cls.N) if i not in inside and not d.u[i] & top), key=lambda i: d.w[i])
    d.u[i] |= top
    d.b[i] = d.cls.bounds[d.u[i]]
    d.settle_distances()
    return True


def multiplicity_wrong(d: NoiseDraft) -> bool:
    """One look-up less is claimed for a row of the coarse table, one more for another."""
    d.count_edit = {d.u[0]: -1, (d.u[0] + 1) % len(d.cls.bounds): 1}
    return True


def noise_through_a_multiplicity(d: NoiseDraft) -> bool:
    """The runner-up's noise is another row of the table than its uniform's, and that row is claimed once more."""
    p, table = _best_first(d)[d.cls.K], d.cls.table
    p.z = 0 if p.sign else table.cut - 1
    p.before, p.upto = table.cdf(p.z - 1), table.cdf(p.z)
    d.settle()
    d.count_edit = {p.u: 1}
    return True


def flag_raised(d: NoiseDraft) -> bool:
    """A slot that came by the noise is said to have a score: its text would be opened."""
    next(p for p in d.places if p.win and not p.positive).positive = 1
    return True


def flag_lowered(d: NoiseDraft) -> bool:
    """A slot with a score is said to have come by the noise: its text would be withheld."""
    next(p for p in d.places if p.win and p.positive).positive = 0
    return True


def another_flag_committed(d: NoiseDraft) -> bool:
    """T commits to a flag that is not its place's."""
    d.stated = [replace(one, flag=True) for one in d.returned()]
    return d.stated != [Returned(p.slot, bool(p.positive)) for p in d.places if p.win]


def both_flags_committed(d: NoiseDraft) -> bool:
    """T holds one slot twice, with the flag and without, and one winner less."""
    first, second, *rest = d.returned()
    d.stated = sorted([replace(first, flag=False), replace(first, flag=True), *rest])
    assert len(d.stated) == d.cls.K
    assert second not in d.stated
    return True


def ids_in_another_order(d: NoiseDraft) -> bool:
    """T commits to the winners by falling score."""
    d.ids = [p.slot for p in _best_first(d) if p.slot in d.ids]
    if d.ids == sorted(d.ids):
        d.ids.reverse()
    return True

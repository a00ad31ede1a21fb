# SPDX-License-Identifier: GPL-3.0-or-later
"""What forged statements of the lottery have in common: who has a prize, who is left out, which rows count."""

from __future__ import annotations

from tests.circuits.lottery_drafts import (
    WIDTH,
    LotteryDraft,
)
from tests.circuits.r1cs import R1cs
from tests.circuits.rules import linear_row

EMPTY = {"low": -4 * WIDTH, "high": -2 * WIDTH}  #: scores of empty slots: far below the window


def prizes_of(d: LotteryDraft) -> list[int]:
    """Slots that win a prize."""
    return [i for i, u in enumerate(d.u) if u >= d.first_prize]


def without(d: LotteryDraft, *victims: int) -> None:
    """Slots left out of the places; the next best ones come into T."""
    last = [i for i in d.ranked() if i not in victims][d.cls.K - 1]
    d.threshold, d.threshold_slot = d.value(last), last
    must = {i for i in range(d.cls.N) if d.u[i] >= d.first_prize or d.value(i) >= d.threshold}
    d.fill(must - set(victims), victims)
    d.settle()


def hidden_well(d: LotteryDraft) -> bool:
    """Whether every slot that is no place has a distance in range: then its own rows say nothing."""
    opened = {p.slot for p in d.places}
    return all(0 <= d.x[i] < d.cls.room for i in range(d.cls.N) if i not in opened)


def count_row(r1cs: R1cs) -> set[int]:
    return linear_row(r1cs, "placeCounted[0]", "placeCounted[1]")


def one_row(r1cs: R1cs, choice: list[int]) -> set[int]:
    """The linear row in which these wires, each once, add up to 1."""
    rows = {i for i in r1cs.rows_of[choice[0]] if {w for form in r1cs.rows[i] for w, _ in form} == {0, *choice}}
    return {i for i in rows if len({c for form in r1cs.rows[i] for w, c in form if w}) == 1}

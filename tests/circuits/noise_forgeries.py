# SPDX-License-Identifier: GPL-3.0-or-later
"""What forgeries of the statement with noise share: requests to forge, and the commonest edits."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from ragseal.kernel.errors import UnprovableError
from tests.circuits.noise_drafts import DraftPlace, NoiseDraft, NoiseSetting
from tests.circuits.rules import assert_only_rule, fractions

Forge = Callable[[NoiseDraft], list[str] | None]


def requests(setting: NoiseSetting, low: int = -200, high: int = 150, steps: int = 128) -> Iterator[NoiseDraft]:
    """Honest statements of many requests, digits in [low, high)."""
    for number in range(1000, 1600):
        rng = random.Random(number)
        try:
            yield setting.honest(number, [rng.randrange(low, high) for _ in range(setting.cls.N)], steps)
        except UnprovableError:
            continue


def first(setting: NoiseSetting, forge: Forge, same: bool = False, **options: int) -> tuple[NoiseDraft, list[str]]:
    """The first request for which a forgery is possible and changes T (or need not), and the attacked fractions."""
    for d in requests(setting, **options):
        honest = d.returned()
        patterns = forge(d)
        if patterns is not None and (same or d.returned() != honest):
            return d, patterns
    raise AssertionError("no request offers this attack")


def check(setting: NoiseSetting, forge: Forge, same: bool = False, **options: int) -> None:
    d, patterns = first(setting, forge, same, **options)
    assert_only_rule(setting, d.inputs(), *fractions(setting.r1cs, "|".join(patterns)))


def losers(d: NoiseDraft) -> list[DraftPlace]:
    return [p for p in d.places if p.full and not p.win]


def of_place(d: NoiseDraft, name: str, *places: DraftPlace) -> list[str]:
    return [rf"place\[{d.places.index(p)}\]\.{name}" for p in places]


def rising_winner(d: NoiseDraft) -> DraftPlace:
    """A winner that does not win by noise alone, so that no count of slots stands beside the attacked rule."""
    return next(p for p in d.places if p.win and p.u < d.theta)


def edges(d: NoiseDraft) -> list[int]:
    """Slots one step below the entry that are no places."""
    inside = {p.slot for p in d.places}
    return [i for i in range(d.cls.N) if i not in inside and d.reach(i) == d.entry - 1]


def without(d: NoiseDraft, victim: DraftPlace) -> bool:
    """Leave a full place out; another slot, one step below the entry, comes in at the end.  Ranks move up."""
    spare = edges(d)
    if not spare:
        return False
    kept = [p for p in d.places if p is not victim]
    full = [p for p in kept if p.full]
    edge = sorted([p for p in kept if not p.full] + [d.open(spare[0], 0)], key=lambda p: p.slot)
    d.places = full + edge
    d.draw()
    d.settle()
    return True


def replace_last_edge(d: NoiseDraft, place: DraftPlace) -> int:
    """A further edge place instead of the last one; its index."""
    d.places = sorted([*d.places[:-1], place], key=d.position)
    return d.places.index(place)

# SPDX-License-Identifier: GPL-3.0-or-later
"""Parts of forged statements: requests that offer an attack, and places to exchange."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from ragseal.kernel.errors import UnprovableError
from tests.circuits.drafts import Draft, DraftPlace, Setting
from tests.circuits.rules import assert_only_rule, fractions


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

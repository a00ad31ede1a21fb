# SPDX-License-Identifier: GPL-3.0-or-later
"""Where attack contexts enter: into the index, into what was retrieved, or into what a filter has let through.

The paper has three stages.  In its code the last two are one, before the filter; here the third is after it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bench.saferag.data import Item, Task
from ragseal.kernel.errors import ConfigurationError

CLEAN, INDEX, RETRIEVED, FILTERED = "none", "index", "retrieved", "filtered"
STAGES = (INDEX, RETRIEVED, FILTERED)


@dataclass(frozen=True, slots=True)
class Strength:
    """How many contexts a question gets, and which part of them the attacker writes."""

    top: int  #: N
    share: float  #: the attack intensity

    @property
    def injected(self) -> int:
        """Attack contexts of one question: ceil(N share)."""
        return math.ceil(self.top * self.share)

    def check(self) -> None:
        if self.top < 1 or not 0 < self.share <= 1:
            raise ConfigurationError(
                f"{self.top} contexts, a share of {self.share} of them the attacker's: at least one context and a "
                "share above 0, at most 1"
            )


#: SafeRAG's own: silver noise writes three of six contexts, every other attack one of two.
DEFAULT = {"SN": Strength(6, 0.5), "ICC": Strength(2, 0.5), "SA": Strength(2, 0.5), "WDoS": Strength(2, 0.5)}


@dataclass(frozen=True, slots=True)
class Passage:
    """A context on its way to the generator."""

    text: str
    origin: str  #: the context it was before a filter shortened it


def injected(item: Item, strength: Strength) -> tuple[str, ...]:
    """What the attacker writes for one question: fewer where the data have no more."""
    return item.attacks[: strength.injected]


def index_of(task: Task, stage: str, strength: Strength) -> list[str]:
    """The contexts that are retrieved from: the clean index; behind it every question's attack contexts if the index is
    the stage."""
    added = [text for item in task.items for text in injected(item, strength)] if stage == INDEX else []
    return list(dict.fromkeys([*task.base, *added]))


def put_in_front(passages: Sequence[Passage], item: Item, strength: Strength) -> list[Passage]:
    """Attack contexts first, and no more than N in all."""
    return [*(Passage(text, text) for text in injected(item, strength)), *passages][: strength.top]

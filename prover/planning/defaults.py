# SPDX-License-Identifier: GPL-3.0-or-later
"""The policy that `ragseal-provider policy` prints: claim until-delivered, from public numbers alone.

A document matches from the lower end of the embedder's public score range on
(:mod:`ragseal.prover.planning.public_score_ranges`), or from 0; the return is RETURN.  No corpus, query or tenant is
looked at, so the choice tells nothing; a plan on a corpus finds a better one.  What it gives and costs stands in the
file.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from fractions import Fraction

from ragseal.accounting.delivered import Delivered
from ragseal.accounting.delivered_words import hidden_in_words
from ragseal.accounting.guess import presence_odds, times
from ragseal.accounting.rounding import upward
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.errors import ConfigurationError
from ragseal.kernel.policy import EVERY_LIST, UNTIL_DELIVERED
from ragseal.prover.commitment.policy_file import TEMPLATE
from ragseal.prover.planning.budgets import RETURN, UNSEEN, Budget, cost
from ragseal.prover.planning.candidates import Candidate, Shape, Window
from ragseal.prover.planning.chance import at
from ragseal.prover.planning.laws import planned_law
from ragseal.prover.planning.public_score_ranges import WHOLE, PublicWindow

N_MAX, K_MAX, DELTA = 25, 2, Fraction(1, 10**6)  #: the template's limits: small, for a first window
BUDGET = Budget(N_MAX, K_MAX, DELTA, UNSEEN)
WIDTH = 118  #: of a comment


@dataclass(frozen=True, slots=True)
class Default:
    """A policy to start from, and what it gives and costs."""

    cls: AttestationClass
    chosen: Candidate
    shares: tuple[float, ...]  #: how often a document at the law's shown scores comes back, the coin included
    delivered: Delivered


def default_policy(cls: AttestationClass, dimension: int, public: PublicWindow | None, shards: int = 1) -> Default:
    """Of return RETURN, or the least that the class has room for, and with ids for RESULTS results.

    Raises:
        ConfigurationError: the class's law is for other claims, or has no room for such lists.
    """
    if cls.noisy:
        raise ConfigurationError(
            f"class {cls.name!r} has the law {cls.law!r}, which bounds nothing under the claim {UNTIL_DELIVERED} of "
            f"this file: `ragseal-provider policy --claim {EVERY_LIST}` prints one of the claim that it holds; or "
            "take a class of decoys (`ragseal-provider change`)"
        )
    law = planned_law(cls)
    window = Window.of(*(WHOLE if public is None else (public.lo, public.hi)))
    dial = law.dial(Shape(cls, True, 0, shards=shards), window, BUDGET, dimension)
    if dial.least > dial.most:
        raise ConfigurationError(f"class {cls.name!r} has no room for lists of any return")
    chosen = dial.at(max(dial.least, dial.of_return(RETURN) or 0))
    found = cost(cls, chosen.terms, BUDGET).delivered
    assert found is not None  # the claim has a return
    policy = BUDGET.draft(cls, dimension, chosen.terms)
    shares = tuple(at(policy, cls, y) for y in law.shown_scores(policy.lo, policy.hi))
    return Default(cls=cls, chosen=chosen, shares=shares, delivered=found)


def policy_text(
    cls: AttestationClass, dimension: int, embedder: str, public: PublicWindow | None, shards: int = 1
) -> str:
    """The file, for indices of so many shards: every shard draws its own decoys."""
    made = default_policy(cls, dimension, public, shards)
    if public is None:
        whence = f"embedder {embedder} has none chosen on public texts: 0 needs no choice"
    else:
        whence = f"the public one of embedder {public.embedder}, chosen on {public.chosen_on}"
    return TEMPLATE.format(
        class_name=cls.name,
        unseen=UNSEEN,
        lo=f"{made.chosen.window.cosines[0]:.2f}",
        ids=made.chosen.ids,
        returned=made.chosen.target,
        n_max=N_MAX,
        k_max=K_MAX,
        delta=DELTA,
        about=_about(made, whence),
    )


def _about(made: Default, whence: str) -> str:
    """What the policy gives and costs, as comments."""
    law, window, found = planned_law(made.cls), made.chosen.window, made.delivered
    absent, _ = presence_odds(found.unseen)
    lines = [
        f"Lower end of scores: {whence}.",
        *textwrap.wrap(f"As printed here, {law.comes_back_in_words(made.shares, window.lo, window.hi)};", WIDTH),
        f"{hidden_in_words(found.hidden_share)}.",
        f"What that costs: epsilon {upward(found.epsilon)}, which is unseen, against any accounts and queries.",
        f"From even odds they may become {absent:g} % sure that a document which they were not handed is absent, and",
        "learn nothing of its presence.  Windows of one period share their coins: unseen counts once for all of them.",
        f"Return {upward(found.returned)} is no part of epsilon: the id of a slot is returned at most "
        f"{times(found.returned)} times as often as",
        "an empty slot's by chance.  An account that knows what to ask for is handed the text.",
        "`ragseal-provider plan` measures on texts like yours what answers cost.",
    ]
    return "\n".join(f"# {line}" for line in lines)

# SPDX-License-Identifier: GPL-3.0-or-later
"""The policy that `ragseal-provider policy` prints: claim until-delivered, from public tables alone.

The score range is the embedder's public one (:mod:`ragseal.prover.planning.public_score_ranges`), or [0, 1]; the gain
is the largest whose return is at most RETURN, by the class's own noise table, and of decoys the return is RETURN.  No
corpus, query or tenant is looked at, so the choice tells nothing; a plan on a corpus finds a better one.  What it gives
and costs stands in the file.
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
from ragseal.prover.commitment.policy_file import TEMPLATE
from ragseal.prover.planning.budgets import RETURN, UNSEEN, Budget, cost, most_gain
from ragseal.prover.planning.candidates import Candidate, Shape, Window
from ragseal.prover.planning.chance import at
from ragseal.prover.planning.laws import planned_law
from ragseal.prover.planning.public_score_ranges import WHOLE, PublicWindow

N_MAX, K_MAX, DELTA = 25, 2, Fraction(1, 10**6)  #: the template's limits: small, for a first window
BUDGET = Budget(N_MAX, K_MAX, DELTA, UNSEEN)
WIDTH = 118  #: of a comment
USEFUL = 0.5  #: of all queries: where a document as good as answers are comes back less often, the file says so


@dataclass(frozen=True, slots=True)
class Default:
    """A policy to start from, and what it gives and costs."""

    cls: AttestationClass
    chosen: Candidate
    public: PublicWindow | None
    shares: tuple[float, ...]  #: how often a document at the law's shown scores comes back, the coin included
    delivered: Delivered

    @property
    def useful(self) -> bool:
        """Whether answers come back: at the upper end of a window that was chosen on public texts; of [0, 1], which
        nobody chose, in the middle, for no embedder puts answers at cosine 1."""
        return self.shares[-1 if self.public is None else 0] >= USEFUL


def default_policy(cls: AttestationClass, dimension: int, public: PublicWindow | None, shards: int = 1) -> Default:
    """The largest gain that can be compared and whose return is at most RETURN; the least of a class too coarse for it.
    Of decoys those with that return, and ids for RESULTS results.

    Raises:
        ConfigurationError: the class compares no score of this window, or has no room for such lists.
    """
    law = planned_law(cls)
    window = Window.of(*(WHOLE if public is None else (public.lo, public.hi)))
    shape = Shape(cls, True, cls.most_ids(1) if cls.scaled else 0, shards=shards)
    dial = law.dial(shape, window, BUDGET, lambda one: most_gain(cls, dimension, one.lo, one.hi))
    if dial.least > dial.most:
        raise ConfigurationError(f"class {cls.name!r} has no policy of the score window {window.cosines}")
    chosen = dial.at(max(dial.least, min(dial.most, dial.of_return(RETURN))))
    found = cost(cls, chosen.terms, BUDGET).delivered
    assert found is not None  # the claim has a return
    policy = BUDGET.draft(cls, dimension, chosen.terms)
    shares = tuple(at(policy, cls, y) for y in law.shown_scores(policy.lo, policy.hi))
    return Default(cls=cls, chosen=chosen, public=public, shares=shares, delivered=found)


def policy_text(cls: AttestationClass, dimension: int, embedder: str, public: PublicWindow | None) -> str:
    """The file."""
    made = default_policy(cls, dimension, public)
    lo, hi = made.chosen.window.cosines
    if public is None:
        whence = f"embedder {embedder} has no window chosen on public texts: [0, 1] needs no choice"
    else:
        whence = f"the public window of embedder {public.embedder}, chosen on {public.chosen_on}"
    text = TEMPLATE.format(
        class_name=cls.name,
        unseen=UNSEEN,
        lo=f"{lo:.2f}",
        hi=f"{hi:.2f}",
        gain=made.chosen.gain,
        n_max=N_MAX,
        k_max=K_MAX,
        delta=DELTA,
        about=_about(made, whence),
    )
    return planned_law(cls).policy_text(text, made.chosen)


def _about(made: Default, whence: str) -> str:
    """What the policy gives and costs, as comments."""
    law, window, found = planned_law(made.cls), made.chosen.window, made.delivered
    absent, _ = presence_odds(found.unseen)
    lines = [
        f"Score window: {whence}.",
        *textwrap.wrap(f"As printed here, {law.comes_back_in_words(made.shares, window.lo, window.hi)};", WIDTH),
        f"{hidden_in_words(found.hidden_share)}.",
        f"What that costs: epsilon {upward(found.epsilon)}, which is unseen, against any accounts and queries.",
        f"From even odds they may become {absent:g} % sure that a document which they were not handed is absent, and",
        "learn nothing of its presence.  Windows of one period share their coins: unseen counts once for all of them.",
        f"Return {upward(found.returned)} is no part of epsilon: the id of a slot is returned at most "
        f"{times(found.returned)} times as often as",
        "an empty slot's by chance.  An account that knows what to ask for is handed the text.",
    ]
    if not made.useful:
        lines += [
            f"THESE ANSWERS ARE OF LITTLE USE: with {made.cls.law} noise, or a score window as wide as this, a return",
            f"of {RETURN:g} drowns good documents.  Use a class with one-sided noise, a window chosen on public texts,",
            "or more gain.",
        ]
    lines.append("`ragseal-provider plan` measures on texts like yours what answers cost.")
    return "\n".join(f"# {line}" for line in lines)

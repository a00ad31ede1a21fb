# SPDX-License-Identifier: GPL-3.0-or-later
"""The policy of claim every-list that `ragseal-provider policy` prints: the paper's, from public numbers alone.

Its gain is about the largest whose epsilon, against K_MAX accounts of N_MAX queries each, is at most EPSILON.  What
that leaves of answers stands in the file: the noise of every slot has to hide each document from all lists together.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from functools import cache

from ragseal.accounting.claims.claim import largest
from ragseal.accounting.guess import best_guess
from ragseal.accounting.rounding import per_cent, upward
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.errors import ConfigurationError
from ragseal.kernel.noise_class import NoiseClass, with_noise
from ragseal.kernel.policy import EVERY_LIST, check_law
from ragseal.prover.planning.budgets import Budget, Cost, cost
from ragseal.prover.planning.candidates import Candidate, Shape, Window
from ragseal.prover.planning.chance import at
from ragseal.prover.planning.defaults import DELTA, K_MAX, N_MAX, WIDTH
from ragseal.prover.planning.laws import planned_law
from ragseal.prover.planning.public_score_ranges import WHOLE, PublicWindow

EPSILON = 6.0  #: of a coalition, at most: as much as the default's return, so that the two can be compared

TEMPLATE = """\
# A window's policy.  Everything the guarantee depends on; printed in the verdict and bound by the manifest.
{about}
class = "{class_name}"
claim = "every-list"      # what epsilon is about: all lists of k_max accounts with n_max queries each
lo = {lo:<21}# cosine from which on a score counts: a public choice, no quantile of a tenant's scores
hi = {hi:<21}# cosine from which on it counts no more
gain = {gain:<19}# signal against the noise: epsilon grows with it
n_max = {n_max:<18}# queries an account may ask in this window; epsilon is spent on k_max times as many
k_max = {k_max:<18}# accounts of a coalition
estimate = "gate"         # where more than k_max accounts ask as one, the auditor gives no verdict
delta = "{delta}"       # of the claim
epsilon_account = "auto"  # advertised to an account; "auto" computes it, a number is checked against the noise
theta = "9/10"            # estimator: cosine that links two queries; `ragseal-provider calibrate` finds one
tau = 1000                # estimator: how many records apart they may be
chunks_max = 1            # slots one document may fill; each query counts as so many
duration = 86400          # seconds the window takes queries, from its opening on; or opens = ... and closes = ...
# period_start = ...      # windows from then on share one budget; left out, the period of the window before goes on
"""


@dataclass(frozen=True, slots=True)
class ListsPolicy:
    """A policy to start from, and what it gives and costs."""

    chosen: Candidate
    cost: Cost
    shares: tuple[float, ...]  #: how often a document at the law's shown scores comes back


def lists_policy(
    cls: NoiseClass, dimension: int, window: Window, budget: Budget, shards: int = 1, epsilon: float = EPSILON
) -> ListsPolicy:
    """Of about the largest gain with at most that epsilon.

    Raises:
        ConfigurationError: even the least gain costs more.
    """
    dial = planned_law(cls).dial(Shape(cls, True, cls.K, shards=shards), window, budget, dimension)

    @cache  # the one that is chosen was asked for in the search: each takes a second or two
    def costs(turned: int) -> Cost:
        return cost(cls, dial.at(turned).terms, budget)

    # Epsilon follows from the shift alone: gains are compared whose shifts lie 2^(1/8) apart, the largest of each.
    steps = sorted({round(2 ** (i / 8)) for i in range(8 * cls.c)})
    gains = [
        gain for shift in steps if dial.least <= (gain := cls.widest(shift) // (window.hi - window.lo)) <= dial.most
    ]
    found = largest(lambda x: costs(gains[x - 1]).epsilon <= epsilon, len(gains))
    if not found:
        raise ConfigurationError(
            f"class {cls.name!r} has no gain whose epsilon is at most {epsilon:g} for {budget.k_max} accounts of "
            f"{budget.n_max} queries each: ask fewer queries, or use fewer accounts"
        )
    chosen = dial.at(gains[found - 1])
    policy = budget.draft(cls, dimension, chosen.terms)
    shares = tuple(at(policy, cls, y) for y in planned_law(cls).shown_scores(policy.lo, policy.hi))
    return ListsPolicy(chosen, costs(chosen.gain), shares)


def policy_text(
    cls: AttestationClass, dimension: int, embedder: str, public: PublicWindow | None, shards: int = 1
) -> str:
    """The file, for indices of so many shards: noise hides a document among more slots where there are more.

    Raises:
        PolicyError: a class without noise.
    """
    check_law(EVERY_LIST, cls)
    window = Window.of(*(WHOLE if public is None else (public.lo, public.hi)))
    made = lists_policy(with_noise(cls), dimension, window, Budget(N_MAX, K_MAX, DELTA), shards)
    lo, hi = (f"{one:.2f}" for one in made.chosen.window.cosines)
    about = _about(made, embedder, public)
    return TEMPLATE.format(
        about=about, class_name=cls.name, lo=lo, hi=hi, gain=made.chosen.gain, n_max=N_MAX, k_max=K_MAX, delta=DELTA
    )


def _about(made: ListsPolicy, embedder: str, public: PublicWindow | None) -> str:
    """What the policy gives and costs, as comments."""
    cls = made.chosen.cls
    whence = f"embedder {embedder} has none chosen on public texts: [0, 1] needs no choice"
    if public is not None:
        whence = f"the public one of embedder {public.embedder}, chosen on {public.chosen_on}"
    high, middle = made.shares
    chance = made.chosen.ids / made.chosen.capacity
    lines = [
        *textwrap.wrap(f"Score window: {whence}.", WIDTH),
        *textwrap.wrap(
            f"What it costs: epsilon {upward(made.cost.epsilon)} at delta {DELTA}, for {K_MAX} accounts of {N_MAX} "
            f"queries each.  From even odds they guess right what one slot holds in up to "
            f"{per_cent(best_guess(made.cost.epsilon, float(DELTA)))} of all cases.",
            WIDTH,
        ),
        *textwrap.wrap(
            f"What it gives: a list has {made.chosen.ids} of {made.chosen.capacity:,} slots.  A document at cosine "
            f"{made.chosen.window.cosines[1]:.2f} or more is among them in {per_cent(high)} of all answers, one in the "
            f"middle of the window in {per_cent(middle)}, one that does not match in {per_cent(chance)}.",
            WIDTH,
        ),
        *textwrap.wrap(
            "Noise on every slot hides little where it is small, and finds little where it is large.  A larger gain "
            "finds more; `commit` says what it costs.  The claim until-delivered, of a class of decoys, finds more at "
            f"the same number and promises something else.  Law: {cls.law}.",
            WIDTH,
        ),
    ]
    return "\n".join(f"# {line}" for line in lines)

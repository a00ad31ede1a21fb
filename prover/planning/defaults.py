# SPDX-License-Identifier: GPL-3.0-or-later
"""The policy that `ragseal-provider policy` prints: from public tables alone, and with useful answers.

The score range is the embedder's public one (:mod:`ragseal.prover.planning.public_score_ranges`), or [0, 1]; the gain
is computed from the class's noise, capacity and K (:mod:`ragseal.prover.planning.chance`).  No corpus, query or tenant
is looked at, so the choice tells nothing; a plan on a corpus finds a better one.  What it costs stands in the file.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from ragseal.accounting.guess import best_guess
from ragseal.accounting.rounding import per_cent, upward
from ragseal.circuits.circuit import class_digest
from ragseal.kernel import noise
from ragseal.kernel.errors import ConfigurationError
from ragseal.kernel.params import CircuitClass
from ragseal.kernel.policy import EVERY_LIST, Policy, max_gain
from ragseal.prover.commitment.policy_file import TEMPLATE
from ragseal.prover.planning.chance import at, comes_back
from ragseal.prover.planning.frontier import Budget, Window, audited
from ragseal.prover.planning.public_score_ranges import WHOLE, PublicWindow

USEFUL = Fraction(9, 10)  #: of all queries in which a document at the aim comes back: what the default gain is for
N_MAX, K_MAX, DELTA = 25, 2, Fraction(1, 10**6)  #: the template's budget: small, for a first window


@dataclass(frozen=True, slots=True)
class Default:
    """A policy to start from, and what it gives and costs."""

    window: Window
    gain: int
    public: PublicWindow | None
    at_hi: float  #: how often a document at the window's upper end comes back
    at_middle: float
    epsilon: float  #: of the coalition
    epsilon_account: float


def aim(window: Window, public: PublicWindow | None) -> int:
    """Where answers are expected, in units of y.

    The upper end of a window that was chosen on public texts.  Of [0, 1], which nobody chose, the middle above the
    texts that have nothing to do with the query: no embedder puts answers at cosine 1.
    """
    return window.hi if public is not None else (window.lo + window.hi) // 2


def default_policy(cls: CircuitClass, dimension: int, public: PublicWindow | None) -> Default:
    """The least gain that is useful (:data:`USEFUL`); where none is, the largest that can be compared and has a finite
    epsilon.

    Raises:
        ConfigurationError: the class compares no score of this window.
    """
    window = Window.of(*(WHOLE if public is None else (public.lo, public.hi)))
    wanted = aim(window, public) - window.lo
    most = max_gain(_policy(cls, dimension, window, 1), cls)
    if not most:
        raise ConfigurationError(f"class {cls.name!r} compares no score of the window {window.cosines}")
    gain = _least(lambda g: comes_back(cls, g * wanted) >= USEFUL, most)
    coalition = Budget(N_MAX, K_MAX, DELTA)
    if not math.isfinite(audited(cls, window, gain, coalition)):
        gain = _least(lambda g: not math.isfinite(audited(cls, window, g, coalition)), gain) - 1
        if not gain:
            raise ConfigurationError(f"class {cls.name!r} has no gain with a finite epsilon in {window.cosines}")
    policy = _policy(cls, dimension, window, gain)
    return Default(
        window,
        gain,
        public,
        at(policy, cls, window.hi),
        at(policy, cls, (window.lo + window.hi) // 2),
        audited(cls, window, gain, coalition),
        audited(cls, window, gain, Budget(N_MAX, 1, DELTA)),
    )


def _least(holds: Callable[[int], bool], most: int) -> int:
    """The least x in 1..most for which a property holds that begins somewhere and stays; ``most`` if there is none."""
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _policy(cls: CircuitClass, dimension: int, window: Window, gain: int) -> Policy:
    table = noise.build_table(cls.law).digest()
    return Policy(
        cls.name, class_digest(cls), table, dimension, EVERY_LIST, 0, window.lo, window.hi, gain, N_MAX, K_MAX,
        str(DELTA), "1", "9/10", 1, True, "slot", 1, 0, 0, 1,
    )  # fmt: skip


def policy_text(cls: CircuitClass, dimension: int, embedder: str, public: PublicWindow | None) -> str:
    """The file."""
    made = default_policy(cls, dimension, public)
    lo, hi = made.window.cosines
    if public is None:
        whence = f"embedder {embedder} has no window chosen on public texts: [0, 1] needs no choice"
    else:
        whence = f"the public window of embedder {public.embedder}, chosen on {public.chosen_on}"
    return TEMPLATE.format(
        class_name=cls.name,
        lo=f"{lo:.2f}",
        hi=f"{hi:.2f}",
        gain=made.gain,
        n_max=N_MAX,
        k_max=K_MAX,
        delta=DELTA,
        about=_about(made, whence),
    )


def _about(made: Default, whence: str) -> str:
    """What the policy gives and costs, as comments."""
    lo, hi = made.window.cosines
    middle = (lo + hi) / 2
    delta = float(DELTA)
    guess = {who: per_cent(best_guess(x, delta)) for who, x in (("k", made.epsilon), ("1", made.epsilon_account))}
    lines = (
        f"Score window: {whence}.",
        f"As printed here, a document at cosine {hi:g} comes back in {made.at_hi:.0%} of all queries, one at "
        f"{middle:g} in {made.at_middle:.0%},",
        f"where nothing else scores above {lo:g}.  What that costs: {K_MAX} accounts that work together reach epsilon",
        f"{upward(made.epsilon)} (from even odds they guess right in up to {guess['k']}), one alone "
        f"{upward(made.epsilon_account)} (up to {guess['1']}).",
        "Less gain or fewer queries cost less, and above 20 `commit` asks for your consent; `ragseal-provider plan`",
        "measures what answers cost on texts like yours.",
    )
    return "\n".join(f"# {line}" for line in lines)

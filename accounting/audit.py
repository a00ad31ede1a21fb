# SPDX-License-Identifier: GPL-3.0-or-later
"""The epsilon audit: what a coalition can learn at most, every number computed twice, every term of delta named.

The claim: for two histories of a tenant's index that differ at every moment in at most one slot, and any coalition of
k_max accounts with n_max queries each, the lists of slot ids up to and including the first that contains the slot are
(epsilon, delta)-indistinguishable, computationally.  Epsilon depends on the noise and the budgets only, never on an
epsilon that somebody declares: a formula in the advertised per-account epsilon can be far too small.  SPEC D.14.

Four accountants bound the same thing, and the smallest valid bound is reported by name: all N noisy scores released
("full vector"), the released slots with their scores (Theorem A), and the set alone (Theorem B) by its losses or by its
Renyi moments.  Each has two routes that have to agree: the actual integer table, rounded against the mechanism
(:mod:`ragseal.accounting.pld`, :mod:`ragseal.accounting.topk`), and the ideal law
(:mod:`ragseal.accounting.ideal_curves`, :mod:`ragseal.accounting.ideal_channel`); the larger of the two counts.
Routes part company, rightly, where the probability of an infinite loss of the finite table comes near delta; from delta
on, epsilon is infinite and no number is given.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from ragseal.accounting import closed_forms, failures, ideal_curves, pld, topk
from ragseal.accounting.failures import Failures
from ragseal.accounting.ideal_channel import ideal_channel
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.noise import NoiseTable, check_table, scale_of
from ragseal.kernel.noise_class import NoiseClass
from ragseal.kernel.params import GAUSSIAN

AGREEMENT = 1e-3  #: largest relative difference of the two routes
AGREEMENT_APPLIES = 1000  #: they must agree while delta_inf < delta / this
MOST_QUERIES = 10**8  #: compositions the audit accepts

FULL, ORDERED, SET_LOSSES, SET_RENYI = "full vector", "Theorem A", "Theorem B, losses", "Theorem B, Renyi"

#: Assumptions whose advantage is not in delta: the claim is SIM-CDP, "indistinguishable from an (epsilon, delta)
#: mechanism", because the other form, delta + (1 + e^epsilon) advantage, says nothing above epsilon = 50.
COMPUTATIONAL_TERMS = (
    "Poseidon is a pseudorandom function of the window's secret seed",
    "Poseidon and SHA-256 commitments with secret salts are hiding",
    "Groth16 proofs are zero-knowledge under the verified key",
    "proofs of opening are zero-knowledge in the random-oracle model",
)


@dataclass(frozen=True, slots=True)
class DeltaShares:
    """Where delta goes: probabilities over all n queries.  A verdict prints ``total``, which is the policy's delta."""

    policy: float  #: delta_policy
    table: float  #: left for the noise: epsilon is computed at this
    truncation: float  #: delta_inf, the part of ``table`` that the end of the table uses up
    overflow: float  #: n a^chunks 2^-64: more slots to open than places (:mod:`ragseal.accounting.failures`)
    grid: float  #: n g, g about 2^-80: threshold below the grid

    @property
    def total(self) -> float:
        return self.policy


@dataclass(frozen=True, slots=True)
class Bound:
    """One accountant's epsilon."""

    accountant: str
    certified: float  #: integer table, an upper bound
    second: float  #: ideal law
    agree: bool  #: within 1e-3 of each other, or delta_inf >= delta / 1000 where they need not be
    unfit: str = ""  #: the condition of its theorem that does not hold; such a bound is never reported

    @property
    def epsilon(self) -> float:
        return max(self.certified, self.second)


@dataclass(frozen=True, slots=True)
class Published:
    """The origin's numbers for the same policy; information, never a bound (:mod:`ragseal.accounting.closed_forms`)."""

    closed_form: float  #: sqrt(k_max) times epsilon_account
    closed_form_in_full: float  #: with its second-order term; not at this delta but at (1 + k_max) times it
    closed_form_renyi: float  #: with a quarter of that term: the paper's Renyi analysis, equation (3.6)
    renyi_grid: float  #: orders 2 to 64, all scores released: a loose bound of the ideal law, which has no end
    renyi_order: int  #: 0 where a shift is beyond the table, and the grid infinite


@dataclass(frozen=True, slots=True)
class EpsilonReport:
    """Outcome of :func:`epsilon_audit`.  Where epsilon is infinite, every epsilon here is ``math.inf``."""

    law: str
    shift: int  #: Delta_b, table steps
    n: int  #: k_max * n_max queries
    compositions: int  #: n * chunks
    mu: float | None  #: of the Gaussian: Delta_b sqrt(compositions) / sigma
    epsilon: float  #: the smallest bound whose conditions hold and whose routes agree
    accountant: str  #: whose bound that is
    bounds: tuple[Bound, ...]
    agree: bool  #: the routes of the full vector do, on which everything else rests
    epsilon_account: float  #: of one account's n_max queries, same delta
    delta: DeltaShares
    delta_inf: float  #: probability of infinite loss over all queries
    n_max_finite: int  #: largest number of queries for which epsilon is finite
    auc: float  #: no attack has a larger area under the ROC curve
    advantage: float  #: no membership attack has a larger advantage
    published: Published
    computational: tuple[str, ...] = COMPUTATIONAL_TERMS

    def bound(self, accountant: str) -> Bound:
        """One accountant's bound by name."""
        return next(bound for bound in self.bounds if bound.accountant == accountant)


@dataclass(frozen=True, slots=True)
class ScorePolicy:
    """A score window and what scores in it are multiplied by; integers, score units of 127^2 for cosine 1."""

    gain: int
    lo: int
    hi: int


def worst_shift(cls: NoiseClass, gain: int, lo: int, hi: int) -> int:
    """Delta_b of a score policy in a class, in table steps: floor(gain (hi - lo) / 2^c).

    A window of less than one step, which nobody should open and which says nothing, counts as one.

    Raises:
        PolicyError: gain below 1, or not 0 <= lo < hi (an empty slot scores 0 only if lo >= 0).
    """
    if gain < 1 or not 0 <= lo < hi:
        raise PolicyError("accounting needs gain >= 1 and a score window with 0 <= lo < hi")
    return cls.shift_of(gain * (hi - lo))


def _shares(cls: NoiseClass, delta: Fraction, n: int, chunks: int) -> tuple[Fraction, Failures]:
    """(left for the table, named failures); delta_real(eps) <= delta_table(eps) + failures."""
    found = failures.every_list(cls, chunks, n)
    left = delta - found.total
    if left <= 0:
        fewer = delta * n // found.total
        raise PolicyError(
            f"delta {float(delta):.3g} is used up by named failures of {n} queries ({float(found.total):.3g}); allow "
            + (
                "a delta above that" + (f", or at most {fewer} queries in all" if fewer else "")
                if found.total < 1
                else f"a document fewer slots than {chunks}"
            )
        )
    return left, found


def _float_down(x: Fraction) -> float:
    """A float not above x >= 0."""
    y = float(x)
    return y if Fraction(y) <= x else math.nextafter(y, 0.0)


def _agree(certified: float, second: float, infinite: float, delta: float) -> bool:
    apart = math.isfinite(certified) and not abs(certified - second) <= AGREEMENT * max(certified, second)
    return not apart or infinite * AGREEMENT_APPLIES >= delta


@lru_cache(maxsize=256)
def full_bound(table: NoiseTable, shift: int, n: int, delta: float) -> Bound:
    """All N noisy scores; both routes are infinite iff delta_inf >= delta."""
    endless = Bound(FULL, math.inf, math.inf, True)
    infinite = pld.infinite_loss_mass(table, shift, n)
    if infinite >= delta:
        return endless
    composed = pld.compose(table, shift, n, delta).epsilon(delta)
    first = min(composed, pld.truncated_pure_epsilon(table, shift, n, delta))
    if math.isinf(first):
        return endless
    if table.law == GAUSSIAN:
        second = ideal_curves.gaussian_epsilon(shift * math.sqrt(n) / scale_of(table.law), delta)
    else:
        second = ideal_curves.GeometricCurve(shift, n, scale_of(table.law)).epsilon(delta)
    return Bound(FULL, first, second, _agree(first, second, infinite, delta))


@lru_cache(maxsize=256)
def topk_bounds(table: NoiseTable, N: int, K: int, shift: int, n: int, delta: float) -> tuple[Bound, ...]:
    """Theorems A and B."""
    infinite = pld.infinite_loss_mass(table, shift, n)
    if infinite >= delta:
        return tuple(Bound(name, math.inf, math.inf, True) for name in (ORDERED, SET_LOSSES, SET_RENYI))
    found = topk.topk_epsilon(table, N=N, K=K, shift=shift, n=n, delta=delta)
    ideal = ideal_channel(table.law, N, K, shift)
    second = (
        (ORDERED, found.ordered, ideal.ordered(n, delta)),
        (SET_LOSSES, found.set_curve, ideal.set_losses(n, delta)),
        (SET_RENYI, found.set_renyi, ideal.set_renyi(n, delta, found.order) if found.order < math.inf else math.inf),
    )
    return tuple(Bound(name, a, b, _agree(a, b, infinite, delta)) for name, a, b in second)


def _bounds(
    cls: NoiseClass, table: NoiseTable, shift: int, n: int, chunks: int, delta: Fraction
) -> tuple[tuple[Bound, ...], float]:
    """(every accountant's bound of n queries, the table's share of delta)."""
    share = _float_down(_shares(cls, delta, n, chunks)[0])
    found = [full_bound(table, shift, n * chunks, share)]
    unfit = _unfit(cls, table, chunks)
    if unfit:
        found += [Bound(name, math.inf, math.inf, True, unfit) for name in (ORDERED, SET_LOSSES, SET_RENYI)]
    else:
        found += topk_bounds(table, cls.N, cls.K, shift, n, share)
    return tuple(found), share


def _unfit(cls: NoiseClass, table: NoiseTable, chunks: int) -> str:
    """Why Theorems A and B do not apply, or nothing.  The rest of their conditions is what the circuit proves."""
    if chunks > 1:
        return f"a document may fill {chunks} slots: the theorems are for one"
    if not 1 <= cls.K < cls.N:
        return "K ids of more than K slots are needed"
    return ""


def reported_bound(bounds: tuple[Bound, ...]) -> Bound:
    """The smallest bound that is valid and whose routes agree; the full vector's if none is."""
    fit = [bound for bound in bounds if not bound.unfit and bound.agree]
    return min(fit, key=lambda bound: bound.epsilon, default=bounds[0])


def audited_bound(cls: NoiseClass, table: NoiseTable, shift: int, n: int, chunks: int, delta: Fraction) -> Bound:
    """The bound that :func:`epsilon_audit` reports for n queries at a shift in table steps, without anything else.

    Raises:
        PolicyError: a delta that the named failures alone use up, or numbers out of range.
    """
    return reported_bound(_bounds(cls, table, shift, n, chunks, delta)[0])


def epsilon_audit(
    cls: NoiseClass,
    table: NoiseTable,
    *,
    scores: ScorePolicy,
    k_max: int,
    n_max: int,
    delta: Fraction,
    chunks: int = 1,
) -> EpsilonReport:
    """Epsilon of a policy for k_max accounts with n_max queries each, at total delta.

    Args:
        cls: the circuit class (capacity, K, places).
        table: the noise table; checked here against T1 to T4.
        k_max: accounts that may collude.
        n_max: queries an account may ask, summed over all windows of the declared period.
        delta: delta_policy, the probability that covers every term.
        chunks: slots that one document may occupy (c_max); above 1 only the full vector is accounted.

    Raises:
        PolicyError: a table that breaks its rules or belongs to another law, numbers out of range, or a delta that the
            named failures alone use up.
    """
    check_table(table)
    if table.law != cls.law:
        raise PolicyError(f"class {cls.name!r} has the law {cls.law!r}, the table {table.law!r}")
    if k_max < 1 or n_max < 1 or chunks < 1 or not 0 < delta < 1:
        raise PolicyError("accounting needs k_max, n_max and chunks of at least 1 and delta strictly between 0 and 1")
    shift = worst_shift(cls, scores.gain, scores.lo, scores.hi)
    n = k_max * n_max
    compositions = n * chunks
    if compositions > MOST_QUERIES:
        raise PolicyError(f"{compositions} queries in one period are beyond what is accounted ({MOST_QUERIES})")
    bounds, share = _bounds(cls, table, shift, n, chunks, delta)
    _, lost = _shares(cls, delta, n, chunks)
    infinite = pld.infinite_loss_mass(table, shift, compositions)
    best = reported_bound(bounds)
    account = (
        best.epsilon if k_max == 1 else reported_bound(_bounds(cls, table, shift, n_max, chunks, delta)[0]).epsilon
    )
    mu, auc, advantage = _attacks(table, shift, compositions)
    return EpsilonReport(
        law=table.law,
        shift=shift,
        n=n,
        compositions=compositions,
        mu=mu,
        epsilon=best.epsilon,
        accountant=best.accountant,
        bounds=bounds,
        agree=bounds[0].agree,
        epsilon_account=account,
        delta=DeltaShares(
            policy=float(delta),
            table=share,
            truncation=infinite,
            overflow=float(lost.overflow),
            grid=float(lost.grid),
        ),
        delta_inf=infinite,
        n_max_finite=pld.largest_finite_n(table, shift, share) // chunks,
        auc=auc,
        advantage=advantage,
        published=_published(table, shift, compositions, share, k_max, account),
    )


def _published(table: NoiseTable, shift: int, n: int, delta: float, k_max: int, account: float) -> Published:
    within = shift <= 2 * table.cut  # a larger one leaves no output in common, and the grid costs work for every step
    grid, order = closed_forms.renyi_grid(table.law, shift, n, delta) if within else (math.inf, 0)
    in_full = closed_forms.joint_epsilon_in_full(account, k_max, delta)
    renyi = closed_forms.renyi_in_full(account, k_max, delta)
    return Published(closed_forms.joint_epsilon(account, k_max), in_full, renyi, grid, order)


def _attacks(table: NoiseTable, shift: int, n: int) -> tuple[float | None, float, float]:
    """(mu, AUC, advantage) of the best attack: bounds, for the Gaussian laws hardly above what is reached.

    Gaussian: a sum of n draws lies on the lattice of steps.  Its area under the ROC curve is a trapezoid sum of the
    curve's, which is smaller.  Its total variation is a midpoint sum where n * shift is odd, and so larger than the
    curve's by 1/24 of the second derivative a step, less than 1 / (48 n sigma^2) in all.

    Geometric: total variation <= sqrt(1 - BC^(2n)), BC the Bhattacharyya coefficient of one query, and a ROC curve
    whose distance from the diagonal never exceeds t has at most the area 1 - (1 - t)^2 / 2.
    """
    if table.law == GAUSSIAN:
        sigma = scale_of(table.law)
        mu = shift * math.sqrt(n) / sigma
        advantage = ideal_curves.gaussian_advantage(mu) + 1 / (48 * n * sigma * sigma)
        return mu, ideal_curves.gaussian_auc(mu), min(1.0, advantage)
    common = range(shift - table.cut, table.cut + 1)
    overlap = math.fsum(math.isqrt(table.mass(x - shift) * table.mass(x)) for x in common) / table.total
    advantage = math.sqrt(max(0.0, -math.expm1(2 * n * math.log(min(1.0, overlap))))) if overlap > 0 else 1.0
    return None, 1 - (1 - advantage) ** 2 / 2, advantage

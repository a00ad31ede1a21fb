# SPDX-License-Identifier: GPL-3.0-or-later
"""The epsilon audit: what a coalition can learn at most, computed twice, every term of delta named.  SPEC: epsilon.

The claim: for two histories of a tenant's index that differ at every moment in at most one slot, and any coalition of
k_max accounts with n_max queries each, the lists of slot ids up to and including the first that contains the slot are
(epsilon, delta)-indistinguishable, computationally.  Epsilon depends on the noise and the budgets only, never on an
epsilon that somebody declares: a formula in the advertised per-account epsilon can be far too small.

Two routes have to agree: the privacy-loss distribution of the actual integer table
(:mod:`ragseal.kernel.privacyloss`, an upper bound rounded against the mechanism), and the exact curve of the ideal law
(:mod:`ragseal.kernel.curves`).  The larger one is reported.  They part company, rightly, where the probability of an
infinite loss of the finite table comes near delta; from delta on, epsilon is infinite and no number is given.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from ragseal.kernel import curves, privacyloss, topk
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.noise import GAUSSIAN_SIGMA, GEOMETRIC_SCALE, TOTAL, NoiseTable, check_table
from ragseal.kernel.params import GRID_EXPONENT, OVERFLOW_EXPONENT, PLACE_CANONICAL_BITS, CircuitClass
from ragseal.kernel.params import R as FIELD_ORDER

AGREEMENT = 1e-3  #: largest relative difference of the two routes
AGREEMENT_APPLIES = 1000  #: they must agree while delta_inf < delta / this
MOST_QUERIES = 10**8  #: compositions the audit accepts

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
    overflow: float  #: n 2^-64: more slots to open than places
    grid: float  #: n 2^-80: threshold below the grid
    places: float  #: n R 2^-71: a place's hash outside the canonical decomposition
    bias: float  #: (e^eta - 1) table: bits of field elements are not exactly uniform

    @property
    def total(self) -> float:
        return self.policy


@dataclass(frozen=True, slots=True)
class EpsilonReport:
    """Outcome of :func:`epsilon_audit`.  Where epsilon is infinite, every epsilon here is ``math.inf``."""

    law: str
    shift: int  #: Delta_b, table steps
    n: int  #: k_max * n_max queries
    compositions: int  #: n * chunks
    mu: float | None  #: Gaussian law: Delta_b sqrt(compositions) / 256
    epsilon: float  #: the larger of the two routes, bias included
    epsilon_pld: float  #: integer table, upper bound
    epsilon_second: float  #: exact curve of the ideal law
    second_route: str
    agree: bool  #: within 1e-3 of each other, or delta_inf >= delta / 1000 where they need not be
    epsilon_account: float  #: of one account's n_max queries, same delta
    delta: DeltaShares
    delta_inf: float  #: probability of infinite loss over all queries
    n_max_finite: int  #: largest number of queries for which epsilon is finite
    field_bias: float  #: eta: 2 eta of epsilon
    auc: float  #: no attack has a larger area under the ROC curve (exact for the Gaussian law, else a bound)
    advantage: float  #: no membership attack has a larger advantage (exact for the Gaussian law, else a bound)
    closed_form: float  #: sqrt(k_max) times epsilon_account: the origin's formula, not a bound; information only
    computational: tuple[str, ...] = COMPUTATIONAL_TERMS


def worst_shift(gain: int, lo: int, hi: int, s: int) -> int:
    """Delta_b = ceil(gain (hi - lo) / 2^s), in table steps.

    Raises:
        PolicyError: gain below 1, or not 0 <= lo < hi (an empty slot scores 0 only if lo >= 0).
    """
    if gain < 1 or not 0 <= lo < hi or s < 0:
        raise PolicyError("accounting needs gain >= 1 and a score window with 0 <= lo < hi")
    return -(-gain * (hi - lo) >> s)


def field_bias(cls: CircuitClass) -> Fraction:
    """Eta of one query: how far (in log-ratio) one slot's uniform and dither are from uniform, given everything else.

    The low w bits of a uniform element below r take each value floor(r / 2^w) or one more times.
    """
    return Fraction(1, FIELD_ORDER >> (cls.q * cls.m)) + Fraction(1, FIELD_ORDER >> (cls.fine_bits + cls.s))


def _shares(cls: CircuitClass, delta: Fraction, n: int, eta: Fraction) -> tuple[Fraction, Fraction, Fraction, Fraction]:
    """(left for the table, overflow, grid, places); delta_real(eps) <= e^eta delta_table(eps - 2 eta) + the rest."""
    overflow = Fraction(n, 1 << OVERFLOW_EXPONENT)
    grid = Fraction(n, 1 << GRID_EXPONENT)
    places = Fraction(n * cls.R, 1 << (PLACE_CANONICAL_BITS - 1))
    left = (delta - overflow - grid - places) * (1 - eta)  # 1 - eta <= e^-eta
    if left <= 0:
        raise PolicyError(
            f"delta {float(delta):.3g} is used up by named failures of {n} queries "
            f"({float(overflow + grid + places):.3g}); allow a delta above that, or at most "
            f"{delta * n // (overflow + grid + places)} queries in all"
        )
    return left, overflow, grid, places


def _float_down(x: Fraction) -> float:
    """A float not above x >= 0."""
    y = float(x)
    return y if Fraction(y) <= x else math.nextafter(y, 0.0)


def _routes(table: NoiseTable, shift: int, n: int, delta: float) -> tuple[float, float]:
    """(table's loss distribution, ideal curve) without the field bias; both infinite iff delta_inf >= delta."""
    if privacyloss.infinite_loss_mass(table, shift, n) >= delta:
        return math.inf, math.inf
    composed = privacyloss.compose(table, shift, n, delta).epsilon(delta)
    first = min(composed, privacyloss.truncated_pure_epsilon(table, shift, n, delta))
    if math.isinf(first):
        return math.inf, math.inf
    if table.law == "gaussian":
        return first, curves.gaussian_epsilon(shift * math.sqrt(n) / GAUSSIAN_SIGMA, delta)
    return first, curves.GeometricCurve(shift, n, GEOMETRIC_SCALE).epsilon(delta)


def epsilon_audit(
    cls: CircuitClass,
    table: NoiseTable,
    *,
    gain: int,
    lo: int,
    hi: int,
    k_max: int,
    n_max: int,
    delta: Fraction,
    chunks: int = 1,
) -> EpsilonReport:
    """Epsilon of a policy for k_max accounts with n_max queries each, at total delta.

    Args:
        cls: the circuit class (dither bits, places, field layout).
        table: the noise table; checked here against T1 to T4.
        gain, lo, hi: score policy, integers (score units of 127^2 for cosine 1).
        k_max: accounts that may collude.
        n_max: queries an account may ask, summed over all windows of the declared period.
        delta: delta_policy, the probability that covers every term.
        chunks: slots that one document may occupy (c_max).

    Raises:
        PolicyError: a table that breaks its rules or belongs to another law, numbers out of range, or a delta that the
            named failures alone use up.
    """
    check_table(table)
    if table.law != cls.law:
        raise PolicyError(f"class {cls.name!r} has the law {cls.law!r}, the table {table.law!r}")
    if k_max < 1 or n_max < 1 or chunks < 1 or not 0 < delta < 1:
        raise PolicyError("accounting needs k_max, n_max and chunks of at least 1 and delta strictly between 0 and 1")
    shift = worst_shift(gain, lo, hi, cls.s)
    n = k_max * n_max
    compositions = n * chunks
    if compositions > MOST_QUERIES:
        raise PolicyError(f"{compositions} queries in one period are beyond what is accounted ({MOST_QUERIES})")
    eta = field_bias(cls) * compositions
    left, overflow, grid, places = _shares(cls, delta, n, eta)
    share = _float_down(left)
    first, second = _routes(table, shift, compositions, share)
    bias = float(2 * eta) * (1 + 1e-12)
    infinite = privacyloss.infinite_loss_mass(table, shift, compositions)
    apart = abs(first - second) > AGREEMENT * max(first, second) if math.isfinite(first) else False
    account = max(first, second) + bias
    if k_max > 1:
        account_eta = field_bias(cls) * n_max * chunks
        account_share = _float_down(_shares(cls, delta, n_max, account_eta)[0])
        account = max(_routes(table, shift, n_max * chunks, account_share)) + float(2 * account_eta) * (1 + 1e-12)
    mu, auc, advantage = _attacks(table, shift, compositions)
    return EpsilonReport(
        law=table.law,
        shift=shift,
        n=n,
        compositions=compositions,
        mu=mu,
        epsilon=max(first, second) + bias,
        epsilon_pld=first + bias,
        epsilon_second=second + bias,
        second_route=(
            "Gaussian curve, closed form" if mu is not None else "two-sided geometric curve, saddle-line inversion"
        ),
        agree=not apart or infinite * AGREEMENT_APPLIES >= share,
        epsilon_account=account,
        delta=DeltaShares(
            policy=float(delta),
            table=share,
            truncation=infinite,
            overflow=float(overflow),
            grid=float(grid),
            places=float(places),
            bias=math.expm1(float(eta)) * share,
        ),
        delta_inf=infinite,
        n_max_finite=privacyloss.largest_finite_n(table, shift, share) // chunks,
        field_bias=float(eta),
        auc=auc,
        advantage=advantage,
        closed_form=math.sqrt(k_max) * account,
    )


def topk_audit(
    cls: CircuitClass,
    table: NoiseTable,
    *,
    gain: int,
    lo: int,
    hi: int,
    k_max: int,
    n_max: int,
    delta: Fraction,
) -> topk.TopKReport:
    """The same claim accounted for what is released, K ids of N slots; every number valid at total ``delta``.

    Arguments and errors as in :func:`epsilon_audit`, for documents of one slot.  The other slots' noise has a law that
    is common to both indices but biased by at most eta a slot: that multiplies delta by exp(n (N - 1) eta).
    """
    check_table(table)
    if table.law != cls.law:
        raise PolicyError(f"class {cls.name!r} has the law {cls.law!r}, the table {table.law!r}")
    if k_max < 1 or n_max < 1 or not 0 < delta < 1 or k_max * n_max > MOST_QUERIES:
        raise PolicyError(f"accounting needs 1 <= k_max * n_max <= {MOST_QUERIES} and delta strictly between 0 and 1")
    shift = worst_shift(gain, lo, hi, cls.s)
    n = k_max * n_max
    eta = field_bias(cls) * n
    common = eta * (cls.N - 1)
    if common >= 1:
        raise PolicyError(f"{n} queries over {cls.N} slots are beyond what the top-K accountant covers")
    share = _float_down(_shares(cls, delta, n, eta)[0] * (1 - common))
    report = topk.topk_epsilon(table, N=cls.N, K=cls.K, shift=shift, n=n, delta=share)
    bias = float(2 * eta) * (1 + 1e-12)
    return topk.TopKReport(
        full=report.full + bias,
        ordered=report.ordered + bias,
        set_curve=report.set_curve + bias,
        set_renyi=report.set_renyi + bias,
    )


def _attacks(table: NoiseTable, shift: int, n: int) -> tuple[float | None, float, float]:
    """(mu, AUC, advantage) of the best attack; for the geometric law the last two are bounds.

    The bounds: total variation <= sqrt(1 - BC^(2n)), BC the Bhattacharyya coefficient of one query, and a ROC curve
    whose distance from the diagonal never exceeds t has at most the area 1 - (1 - t)^2 / 2.
    """
    if table.law == "gaussian":
        mu = shift * math.sqrt(n) / GAUSSIAN_SIGMA
        return mu, curves.gaussian_auc(mu), curves.gaussian_advantage(mu)
    common = range(shift - table.cut, table.cut + 1)
    overlap = math.fsum(math.isqrt(table.mass(x - shift) * table.mass(x)) for x in common) / TOTAL
    advantage = math.sqrt(max(0.0, -math.expm1(2 * n * math.log(min(1.0, overlap))))) if overlap > 0 else 1.0
    return None, 1 - (1 - advantage) ** 2 / 2, advantage

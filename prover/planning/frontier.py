# SPDX-License-Identifier: GPL-3.0-or-later
"""Privacy against answers: every point is an audited epsilon and a measured nDCG@10.  SPEC A.6, D.11.

Epsilon of a point is the auditor's own number (:mod:`ragseal.prover.planning.budgets`), so a plan and an audit cannot
differ.  Quality is measured under the served mechanism (:mod:`ragseal.prover.planning.quality`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

from ragseal.accounting.delivered import Delivered
from ragseal.circuits.circuit import class_digest
from ragseal.circuits.search import complete, complete_lottery, complete_ranked, count_rows
from ragseal.kernel import noise
from ragseal.kernel.classes import AttestationClass, usual_table
from ragseal.kernel.errors import ConfigurationError, PolicyError
from ragseal.kernel.lottery_class import LotteryClass
from ragseal.kernel.noise import kind_of, scale_of
from ragseal.kernel.params import SCORE_UNIT
from ragseal.kernel.policy import EVERY_LIST, Policy, check_policy, max_gain
from ragseal.kernel.ranked_class import RankedClass
from ragseal.prover.planning.budgets import Budget, Cost, cost, gain_of_return, least_gain
from ragseal.prover.planning.quality import Measurement, Quality, Setting
from ragseal.prover.planning.workload import Workload
from ragseal.runtime.progress import Progress, nothing

COSINE_ONE = SCORE_UNIT * SCORE_UNIT


@dataclass(frozen=True, slots=True)
class Shape:
    """A circuit class that a plan may use."""

    cls: AttestationClass
    available: bool  #: in the class file; others have to be built and get keys first


@dataclass(frozen=True, slots=True)
class Window:
    """A score window in units of y."""

    lo: int
    hi: int

    @classmethod
    def of(cls, lo: float, hi: float) -> Window:
        """From cosines."""
        return cls(round(lo * COSINE_ONE), round(hi * COSINE_ONE))

    @property
    def cosines(self) -> tuple[float, float]:
        return round(self.lo / COSINE_ONE, 4), round(self.hi / COSINE_ONE, 4)


@dataclass(frozen=True, slots=True)
class Point:
    """One policy, what a coalition can learn under it, and how good its answers are."""

    shape: Shape
    window: Window
    gain: int
    budget: Budget
    epsilon: float
    quality: Quality
    delivered: Delivered | None = None  #: under claim until-delivered

    @property
    def scale(self) -> float:
        """What one query can shift a score by, in units of the noise (sigma of the Gaussian, b of the geometric)."""
        cls = self.shape.cls
        return self.gain * (self.window.hi - self.window.lo) / (scale_of(cls.law) << cls.step_bits)

    def row(self) -> dict[str, Any]:
        """As `plan --json` prints it."""
        cls, q, found = self.shape.cls, self.quality, self.delivered
        return {
            "claim": self.budget.claim,
            "law": cls.law,
            "scale": round(self.scale, 4),
            "window": list(self.window.cosines),
            "K": cls.K,
            "n_max": self.budget.n_max,
            "k_max": self.budget.k_max,
            "epsilon": self.epsilon,
            "unseen": None if found is None else found.unseen,
            "return": None if found is None else found.returned,
            "hidden_share": None if found is None else found.hidden_share,
            "bounds_reading": None if found is None else found.bounds_reading,
            "listed_by_chance": None if found is None else found.listed_by_chance,
            "delta": str(self.budget.delta),
            "ndcg10": round(q.ndcg10, 4),
            "ndcg10_se": round(q.ndcg10_se, 4),
            "recall": round(q.recall, 4),
            "recall_se": round(q.recall_se, 4),
            "top1": round(q.top1, 4),
            "top1_se": round(q.top1_se, 4),
            "class": cls.name,
            "class_available": self.shape.available,
            "gain": self.gain,
            "lo": self.window.lo,
            "hi": self.window.hi,
        }

    def policy_file(self, version_every: int = 0) -> str:
        """policy.toml of this point, for `commit`; ``version_every``: seconds between versions of a live index."""
        lo, hi = self.window.lo, self.window.hi
        coin = "" if self.budget.unseen is None else f'unseen = {self.budget.unseen!r}\nestimate = "report"\n'
        return (
            f'class = "{self.shape.cls.name}"\nclaim = "{self.budget.claim}"\n{coin}'
            f"lo = {lo}\nhi = {hi}\ngain = {self.gain}\nn_max = {self.budget.n_max}\n"
            f'k_max = {self.budget.k_max}\ndelta = "{self.budget.delta}"\nepsilon_account = "auto"\n'
            + (f'version_every = "{version_every}s"\n' if version_every else "")
        )


def audited(cls: AttestationClass, window: Window, gain: int, budget: Budget) -> float:
    """The epsilon that an audit of this policy reports; infinite where the auditor would refuse the window."""
    return cost(cls, window.lo, window.hi, gain, budget).epsilon


def shapes(
    classes: Iterable[AttestationClass], laws: Sequence[str], returned: Sequence[int], documents: int
) -> list[Shape]:
    """For every kind of noise and K the class that holds the documents in the fewest rows, which proves fastest; for a
    K that no class has, what it would be.

    Args:
        laws: those that may be used; "geometric" and "geometric-16" are one kind, of which one class is taken.

    Raises:
        ConfigurationError: the corpus fits no class.
    """
    known, found = list(classes), []
    for kind in dict.fromkeys(kind_of(law) for law in laws):
        own = [cls for cls in known if cls.law in laws and kind_of(cls.law) == kind]
        roomy = sorted((cls for cls in own if documents <= cls.N), key=lambda cls: (_rows(cls), cls.N))
        if not roomy:
            most = max((cls.N for cls in own), default=0)
            raise ConfigurationError(
                f"{documents} documents fit no class with {kind} noise, the largest holds {most}: split the corpus "
                "into tenants"
            )
        for K in returned:
            like = next((cls for cls in roomy if cls.K == K), None)
            found.append(Shape(_returning(roomy[0], K), False) if like is None else Shape(like, True))
    return found


@lru_cache(maxsize=256)
def _rows(cls: AttestationClass) -> int:
    """Of the class's circuit: what a proof takes grows with them."""
    return count_rows(cls).rows


def _returning(like: AttestationClass, K: int) -> AttestationClass:
    """A class of the same slots that returns so many.

    Raises:
        ConfigurationError: there is none.
    """
    name = f"{like.name}-k{K}"
    try:
        if isinstance(like, RankedClass):
            return complete_ranked(name, like.law, like.N, K, like.m, like.q, like.c)
        if isinstance(like, LotteryClass):
            return complete_lottery(name, like.N, K, like.m, like.q, like.c, like.prizes)
        return complete(name, like.law, like.N, K, like.m, like.q, like.c, like.s)
    except PolicyError as error:
        raise ConfigurationError(f"no class of {like.N} slots can return {K}: {error}") from None


@dataclass
class Planner:
    """Points of one workload: costs and quality are computed once each."""

    work: Workload
    dimension: int
    draws: int
    seed: int = 1
    progress: Progress = nothing
    _cost: dict[tuple[AttestationClass, int, int, Fraction, float | None], Cost] = field(default_factory=dict)
    _quality: dict[tuple[str, int, int, int, Setting], Quality] = field(default_factory=dict)

    # --- epsilon ---

    def cost(self, cls: AttestationClass, window: Window, gain: int, budget: Budget) -> Cost:
        """:func:`ragseal.prover.planning.budgets.cost`, of shift, number of queries, delta and coin only."""
        shift = cls.shift_of(gain * (window.hi - window.lo))
        key = (cls, shift, budget.queries, budget.delta, budget.unseen)
        if key not in self._cost:
            self._cost[key] = cost(cls, window.lo, window.hi, gain, budget)
        return self._cost[key]

    def most_gain(self, cls: AttestationClass, window: Window) -> int:
        """The largest gain that the class compares; 0 if none."""
        least = least_gain(cls, window.lo, window.hi)
        return max_gain(self._policy(cls, window, least, Budget(1, 1, Fraction(1, 2))), cls)

    def _policy(self, cls: AttestationClass, window: Window, gain: int, budget: Budget) -> Policy:
        table = usual_table(cls).digest()
        return Policy(
            cls.name, class_digest(cls), table, self.dimension, budget.claim, budget.hidden, window.lo, window.hi, gain,
            budget.n_max, budget.k_max, str(budget.delta), "1", "9/10", 1, budget.claim == EVERY_LIST, "slot", 1, 0, 0,
            1,
        )  # fmt: skip

    def most_finite_gain(self, cls: AttestationClass, window: Window, budget: Budget) -> int:
        """The largest gain that the class compares and that has a finite epsilon; 0 if none."""
        return self._gain_within(1e300, cls, window, budget)

    # --- quality ---

    def qualities(
        self, wanted: Sequence[tuple[AttestationClass, Window, int, int]], seed: int | None = None
    ) -> list[Quality]:
        """Of (class, window, gain, j of the coin): measured together, classes of one capacity and law under the same
        noise."""
        seed = self.seed if seed is None else seed
        groups: dict[tuple[str, int, int], list[Setting]] = {}
        keys = []
        for cls, window, gain, hidden in wanted:
            setting = Setting(window.lo, window.hi, gain, cls.K, hidden)
            keys.append((cls.law, cls.N, cls.step_bits, seed, setting))
            if keys[-1] not in self._quality:
                groups.setdefault((cls.law, cls.N, cls.step_bits), []).append(setting)
        for (law, capacity, s), settings in groups.items():
            measure = Measurement(self.work, noise.build_table(law), s, capacity, self.draws, seed)
            for setting, found in zip(settings, measure.quality(settings, self.progress), strict=True):
                self._quality[law, capacity, s, seed, setting] = found
        return [self._quality[key] for key in keys]

    def noise_free(self, K: int) -> Quality:
        """Of the same embeddings without noise."""
        return Measurement(self.work, noise.build_table("gaussian"), 1, self.work.documents, 1, 1).noise_free(K)

    # --- points ---

    def points(self, wanted: Sequence[tuple[Shape, Window, int, Budget]], seed: int | None = None) -> list[Point]:
        """With their quality and epsilon; those without a finite epsilon are left out."""
        finite = []
        for done, (shape, window, gain, budget) in enumerate(wanted):
            found = self.cost(shape.cls, window, gain, budget)
            if math.isfinite(found.epsilon):
                check_policy(self._policy(shape.cls, window, gain, budget), shape.cls, class_digest(shape.cls))
                finite.append((shape, window, gain, budget, found))
            self.progress("accounting", done + 1, len(wanted))
        measured = self.qualities([(s.cls, window, gain, b.hidden) for s, window, gain, b, _ in finite], seed)
        return [
            Point(shape, window, gain, budget, found.epsilon, quality, found.delivered)
            for (shape, window, gain, budget, found), quality in zip(finite, measured, strict=True)
        ]

    def grid(
        self, used: Sequence[Shape], windows: Sequence[Window], scales: Mapping[str, Sequence[float]],
        budgets: Sequence[Budget],
    ) -> list[Point]:  # fmt: skip
        """The frontier's points: every class, window, scale (by the kind of noise) and budget."""
        wanted = []
        for shape in used:
            cls = shape.cls
            for window in windows:
                unit = (scale_of(cls.law) << cls.step_bits) / (window.hi - window.lo)
                least = least_gain(cls, window.lo, window.hi)
                gains = {max(least, round(scale * unit)) for scale in scales[kind_of(cls.law)]}
                most = self.most_gain(cls, window)
                wanted += [(shape, window, g, budget) for g in sorted(gains) if g <= most for budget in budgets]
        return self.points(wanted)

    # --- targets ---

    def for_epsilon(
        self, target: float, used: Sequence[Shape], windows: Sequence[Window], budget: Budget
    ) -> list[Point]:
        """For every class and window the largest gain whose audited epsilon is at most ``target``, best answers first;
        empty if even the least gain exceeds it everywhere."""
        wanted = []
        for done, shape in enumerate(used):
            for window in windows:
                gain = self._gain_within(target, shape.cls, window, budget)
                if gain:
                    wanted.append((shape, window, gain, budget))
            self.progress("looking for the gain", done + 1, len(used))
        return sorted(self.points(wanted), key=lambda p: -p.quality.ndcg10)

    def _gain_within(self, target: float, cls: AttestationClass, window: Window, budget: Budget) -> int:
        least = least_gain(cls, window.lo, window.hi)
        if budget.unseen is not None:
            found = self.cost(cls, window, least, budget).delivered
            if found is None or found.unseen > target:
                return 0
            return min(self.most_gain(cls, window), gain_of_return(cls, window.lo, window.hi, target, budget))
        low, high = least - 1, self.most_gain(cls, window) + 1
        while high - low > 1:
            # Epsilon grows about like gain to gain squared: the geometric mean gets there in few steps.
            middle = min(max(math.isqrt(max(1, low) * high), low + 1), high - 1)
            if high < 4 * max(1, low):
                middle = (low + high) // 2
            fits = self.cost(cls, window, middle, budget).epsilon <= target
            low, high = (middle, high) if fits else (low, middle)
        return low if low >= least else 0

    def for_ndcg(self, target: float, used: Sequence[Shape], windows: Sequence[Window], budget: Budget) -> list[Point]:
        """For every class and window the smallest gain whose nDCG@10 reaches ``target``, least epsilon first; empty if
        no gain that the class compares reaches it with a finite epsilon."""
        ends = {
            (shape, window): [least_gain(shape.cls, window.lo, window.hi) - 1, self.most_gain(shape.cls, window)]
            for shape in used
            for window in windows
        }
        tops = self.qualities(
            [(shape.cls, window, high, budget.hidden) for (shape, window), (_, high) in ends.items() if high]
        )
        reach = [end for end in ends if ends[end][1]]
        open_ = [end for end, q in zip(reach, tops, strict=True) if q.ndcg10 >= target]
        found = {end: ends[end] for end in open_}
        rounds = max((high.bit_length() for _, high in found.values()), default=0)
        for done in range(rounds):
            asked = [end for end, (low, high) in found.items() if high - low > max(1, high // 64)]
            if not asked:
                break
            middles = [(s.cls, window, sum(found[s, window]) // 2, budget.hidden) for s, window in asked]
            for end, (_, _, gain, _), quality in zip(asked, middles, self.qualities(middles), strict=True):
                found[end][quality.ndcg10 >= target] = gain
            self.progress("looking for the gain", done + 1, rounds)
        wanted = [(shape, window, high, budget) for (shape, window), (_, high) in found.items()]
        return sorted(self.points(wanted), key=lambda p: p.epsilon)

    def again(self, point: Point, other: int = 1) -> Point:
        """The same policy under noise that had no part in choosing it; ``other`` tells such noises apart."""
        cls = point.shape.cls
        wanted = (cls, point.window, point.gain, point.budget.hidden)
        return replace(point, quality=self.qualities([wanted], self.seed + other)[0])

    def confirmed(self, point: Point, target: float) -> Point | None:
        """The point, or one with more gain, that reaches the target under fresh noise too; measured by yet another."""
        cls, window, gain = point.shape.cls, point.window, point.gain
        most = self.most_gain(cls, window)
        while gain <= most:
            found = self.points([(point.shape, window, gain, point.budget)], self.seed + 1)
            if not found:  # no finite epsilon from here on
                return None
            if found[0].quality.ndcg10 >= target:
                return self.again(found[0], 2)
            gain += max(1, gain // 16)
        return None

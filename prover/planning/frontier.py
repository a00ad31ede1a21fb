# SPDX-License-Identifier: GPL-3.0-or-later
"""Privacy against answers: every point is an audited epsilon and a measured nDCG@10.  SPEC A.6, D.11.

Epsilon of a point is the auditor's own number (:func:`audited`), so a plan and an audit cannot differ.  Quality is
measured under the served mechanism (:mod:`ragseal.prover.planning.quality`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from ragseal.accounting.audit import epsilon_audit
from ragseal.circuits.circuit import class_digest
from ragseal.circuits.search import complete
from ragseal.kernel import noise
from ragseal.kernel.errors import ConfigurationError, PolicyError
from ragseal.kernel.noise import GAUSSIAN_SIGMA, GEOMETRIC_SCALE
from ragseal.kernel.params import ONE_SIDED, SCORE_UNIT, CircuitClass
from ragseal.kernel.policy import Policy, check_policy, max_gain
from ragseal.prover.planning.quality import Measurement, Quality, Setting
from ragseal.prover.planning.workload import Workload

COSINE_ONE = SCORE_UNIT * SCORE_UNIT
#: Table steps of one unit of scale.
UNITS = {"gaussian": GAUSSIAN_SIGMA, "geometric": GEOMETRIC_SCALE, ONE_SIDED: GEOMETRIC_SCALE}

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Shape:
    """A circuit class that a plan may use."""

    cls: CircuitClass
    available: bool  #: in the class file; others have to be built and get keys first


@dataclass(frozen=True, slots=True)
class Budget:
    """Whom the guarantee holds against."""

    n_max: int
    k_max: int
    delta: Fraction

    @property
    def queries(self) -> int:
        return self.n_max * self.k_max


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

    @property
    def scale(self) -> float:
        """What one query can shift a score by, in units of the noise (sigma of the Gaussian, b of the geometric)."""
        cls = self.shape.cls
        return self.gain * (self.window.hi - self.window.lo) / (UNITS[cls.law] << cls.s)

    def row(self) -> dict[str, Any]:
        """As `plan --json` prints it."""
        cls, q = self.shape.cls, self.quality
        return {
            "law": cls.law,
            "scale": round(self.scale, 4),
            "window": list(self.window.cosines),
            "K": cls.K,
            "n_max": self.budget.n_max,
            "k_max": self.budget.k_max,
            "epsilon": self.epsilon,
            "delta": str(self.budget.delta),
            "ndcg10": round(q.ndcg10, 4),
            "ndcg10_se": round(q.ndcg10_se, 4),
            "recall": round(q.recall, 4),
            "recall_se": round(q.recall_se, 4),
            "class": cls.name,
            "class_available": self.shape.available,
            "gain": self.gain,
            "lo": self.window.lo,
            "hi": self.window.hi,
        }

    def policy_file(self) -> str:
        """policy.toml of this point, for `commit`."""
        lo, hi = self.window.lo, self.window.hi
        return (
            f'class = "{self.shape.cls.name}"\nlo = {lo}\nhi = {hi}\ngain = {self.gain}\nn_max = {self.budget.n_max}\n'
            f'k_max = {self.budget.k_max}\ndelta = "{self.budget.delta}"\nepsilon_account = "auto"\n'
        )


def audited(cls: CircuitClass, window: Window, gain: int, budget: Budget) -> float:
    """The epsilon that an audit of this policy reports; infinite where the auditor would refuse the window."""
    report = epsilon_audit(
        cls,
        noise.build_table(cls.law),
        gain=gain,
        lo=window.lo,
        hi=window.hi,
        k_max=1,  # epsilon depends on the product alone; what one account learns would be computed beside it
        n_max=budget.queries,
        delta=budget.delta,
    )
    return report.epsilon if report.agree else math.inf


def shapes(
    classes: Iterable[CircuitClass], laws: Sequence[str], returned: Sequence[int], documents: int
) -> list[Shape]:
    """For every law and K the smallest class that holds the documents; for a K that no class has, what it would be.

    Raises:
        ConfigurationError: the corpus fits no class.
    """
    known, found = sorted(classes, key=lambda cls: cls.N), []
    for law in laws:
        roomy = [cls for cls in known if cls.law == law and documents <= cls.N]
        if not roomy:
            most = max((cls.N for cls in known if cls.law == law), default=0)
            raise ConfigurationError(
                f"{documents} documents fit no class with {law} noise, the largest holds {most}: split the corpus into "
                "tenants"
            )
        for K in returned:
            own = [cls for cls in roomy if cls.K == K]
            if own:
                found.append(Shape(own[0], True))
                continue
            like = roomy[0]
            try:
                made = complete(f"{like.name}-k{K}", law, like.N, K, like.m, like.q, like.c, like.s)
            except PolicyError as error:
                raise ConfigurationError(f"no class of {like.N} slots can return {K}: {error}") from None
            found.append(Shape(made, False))
    return found


@dataclass
class Planner:
    """Points of one workload: epsilon and quality are computed once each."""

    work: Workload
    dimension: int
    draws: int
    seed: int = 1
    progress: Progress = lambda what, done, total: None
    _epsilon: dict[tuple[CircuitClass, int, int, Fraction], float] = field(default_factory=dict)
    _quality: dict[tuple[str, int, int, Setting], Quality] = field(default_factory=dict)

    # --- epsilon ---

    def epsilon(self, cls: CircuitClass, window: Window, gain: int, budget: Budget) -> float:
        """:func:`audited`, which depends on the shift and on the number of queries only."""
        shift = -(-gain * (window.hi - window.lo) >> cls.s)
        key = (cls, shift, budget.queries, budget.delta)
        if key not in self._epsilon:
            self._epsilon[key] = audited(cls, window, gain, budget)
        return self._epsilon[key]

    def most_gain(self, cls: CircuitClass, window: Window) -> int:
        """The largest gain that the class compares; 0 if none."""
        return max_gain(self._policy(cls, window, 1, Budget(1, 1, Fraction(1, 2))), cls)

    def _policy(self, cls: CircuitClass, window: Window, gain: int, budget: Budget) -> Policy:
        table = noise.build_table(cls.law).digest()
        return Policy(
            cls.name, class_digest(cls), table, self.dimension, window.lo, window.hi, gain, budget.n_max, budget.k_max,
            str(budget.delta), "1", "9/10", 1, "slot", 1, 0, 0, 1,
        )  # fmt: skip

    def most_finite_gain(self, cls: CircuitClass, window: Window, budget: Budget) -> int:
        """The largest gain that the class compares and that has a finite epsilon; 0 if none."""
        return self._gain_within(1e300, cls, window, budget)

    # --- quality ---

    def qualities(self, wanted: Sequence[tuple[CircuitClass, Window, int]], seed: int | None = None) -> list[Quality]:
        """Of (class, window, gain): measured together, classes of one capacity and law under the same noise."""
        seed = self.seed if seed is None else seed
        groups: dict[tuple[str, int, int], list[Setting]] = {}
        keys = []
        for cls, window, gain in wanted:
            setting = Setting(window.lo, window.hi, gain, cls.K)
            keys.append((cls.law, cls.N, seed, setting))
            if keys[-1] not in self._quality:
                groups.setdefault((cls.law, cls.N, cls.s), []).append(setting)
        for (law, capacity, s), settings in groups.items():
            measure = Measurement(self.work, noise.build_table(law), s, capacity, self.draws, seed)
            for setting, found in zip(settings, measure.quality(settings, self.progress), strict=True):
                self._quality[law, capacity, seed, setting] = found
        return [self._quality[key] for key in keys]

    def noise_free(self, K: int) -> Quality:
        """Of the same embeddings without noise."""
        return Measurement(self.work, noise.build_table("gaussian"), 1, self.work.documents, 1, 1).noise_free(K)

    # --- points ---

    def points(self, wanted: Sequence[tuple[Shape, Window, int, Budget]], seed: int | None = None) -> list[Point]:
        """With their quality and epsilon; those without a finite epsilon are left out."""
        finite = []
        for done, (shape, window, gain, budget) in enumerate(wanted):
            epsilon = self.epsilon(shape.cls, window, gain, budget)
            if math.isfinite(epsilon):
                check_policy(self._policy(shape.cls, window, gain, budget), shape.cls, class_digest(shape.cls))
                finite.append((shape, window, gain, budget, epsilon))
            self.progress("accounting", done + 1, len(wanted))
        measured = self.qualities([(shape.cls, window, gain) for shape, window, gain, _, _ in finite], seed)
        return [
            Point(shape, window, gain, budget, epsilon, quality)
            for (shape, window, gain, budget, epsilon), quality in zip(finite, measured, strict=True)
        ]

    def grid(
        self, used: Sequence[Shape], windows: Sequence[Window], scales: Mapping[str, Sequence[float]],
        budgets: Sequence[Budget],
    ) -> list[Point]:  # fmt: skip
        """The frontier's points: every class, window, scale and budget."""
        wanted = []
        for shape in used:
            cls = shape.cls
            for window in windows:
                unit = (UNITS[cls.law] << cls.s) / (window.hi - window.lo)
                gains = {max(1, round(scale * unit)) for scale in scales[cls.law]}
                most = self.most_gain(cls, window)
                wanted += [(shape, window, g, budget) for g in sorted(gains) if g <= most for budget in budgets]
        return self.points(wanted)

    # --- targets ---

    def for_epsilon(
        self, target: float, used: Sequence[Shape], windows: Sequence[Window], budget: Budget
    ) -> list[Point]:
        """For every class and window the largest gain whose audited epsilon is at most ``target``, best answers first;
        empty if even gain 1 exceeds it everywhere."""
        wanted = []
        for done, shape in enumerate(used):
            for window in windows:
                gain = self._gain_within(target, shape.cls, window, budget)
                if gain:
                    wanted.append((shape, window, gain, budget))
            self.progress("looking for the gain", done + 1, len(used))
        return sorted(self.points(wanted), key=lambda p: -p.quality.ndcg10)

    def _gain_within(self, target: float, cls: CircuitClass, window: Window, budget: Budget) -> int:
        low, high = 0, self.most_gain(cls, window) + 1
        while high - low > 1:
            # Epsilon grows about like gain to gain squared: the geometric mean gets there in few steps.
            middle = min(max(math.isqrt(max(1, low) * high), low + 1), high - 1)
            if high < 4 * max(1, low):
                middle = (low + high) // 2
            fits = self.epsilon(cls, window, middle, budget) <= target
            low, high = (middle, high) if fits else (low, middle)
        return low

    def for_ndcg(self, target: float, used: Sequence[Shape], windows: Sequence[Window], budget: Budget) -> list[Point]:
        """For every class and window the smallest gain whose nDCG@10 reaches ``target``, least epsilon first; empty if
        no gain that the class compares reaches it with a finite epsilon."""
        ends = {(shape, window): [0, self.most_gain(shape.cls, window)] for shape in used for window in windows}
        tops = self.qualities([(shape.cls, window, high) for (shape, window), (_, high) in ends.items() if high])
        reach = [end for end in ends if ends[end][1]]
        open_ = [end for end, q in zip(reach, tops, strict=True) if q.ndcg10 >= target]
        found = {end: ends[end] for end in open_}
        rounds = max((high.bit_length() for _, high in found.values()), default=0)
        for done in range(rounds):
            asked = [end for end, (low, high) in found.items() if high - low > max(1, high // 64)]
            if not asked:
                break
            middles = [(shape.cls, window, sum(found[shape, window]) // 2) for shape, window in asked]
            for end, (_, _, gain), quality in zip(asked, middles, self.qualities(middles), strict=True):
                found[end][quality.ndcg10 >= target] = gain
            self.progress("looking for the gain", done + 1, rounds)
        wanted = [(shape, window, high, budget) for (shape, window), (_, high) in found.items()]
        return sorted(self.points(wanted), key=lambda p: p.epsilon)

    def again(self, point: Point, other: int = 1) -> Point:
        """The same policy under noise that had no part in choosing it; ``other`` tells such noises apart."""
        cls = point.shape.cls
        return replace(point, quality=self.qualities([(cls, point.window, point.gain)], self.seed + other)[0])

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

# SPDX-License-Identifier: GPL-3.0-or-later
"""Privacy against answers: every point is an audited epsilon and a measured nDCG@10.  SPEC A.6, D.11.

Epsilon of a point is the auditor's own number (:mod:`ragseal.prover.planning.budgets`), so a plan and an audit cannot
differ.  Quality is measured under the served mechanism (:mod:`ragseal.prover.planning.quality`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ragseal.accounting.delivered import Delivered
from ragseal.accounting.rounding import upward
from ragseal.circuits.circuit import class_digest
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.policy import check_policy
from ragseal.prover.commitment.policy_file import cosine_text
from ragseal.prover.planning.budgets import Budget, Cost, Terms, cost
from ragseal.prover.planning.candidates import Candidate, Shape, Window
from ragseal.prover.planning.laws import law_named, planned_law
from ragseal.prover.planning.laws.interface import Dial
from ragseal.prover.planning.quality import Quality, Setting, noise_free
from ragseal.prover.planning.workload import Workload
from ragseal.runtime.progress import Progress, nothing

_Law = tuple[str, int, int]  # what is drawn: law, capacity, and step bits or slots of a shard


@dataclass(frozen=True, slots=True)
class Point:
    """One policy, what a coalition can learn under it, and how good its answers are."""

    candidate: Candidate
    epsilon: float
    quality: Quality
    delivered: Delivered | None = None  #: under claim until-delivered

    @property
    def bound(self) -> float:
        """What was traded for the answers: :attr:`ragseal.prover.planning.budgets.Cost.bound`."""
        return Cost(self.epsilon, self.delivered).bound

    @property
    def bound_in_words(self) -> str:
        """The same with its name."""
        return f"{self.budget.planned.bound} {upward(self.bound)}"

    @property
    def cls(self) -> AttestationClass:
        return self.candidate.cls

    @property
    def budget(self) -> Budget:
        return self.candidate.budget

    @property
    def scale(self) -> float | None:
        """What one query can shift a score by, in units of the noise: sigma of the Gaussian, b of the geometric laws.

        None of decoys, which have none.
        """
        return planned_law(self.cls).scale(self.candidate.gain, self.candidate.window)

    def row(self) -> dict[str, Any]:
        """As `plan --json` prints it."""
        cls, budget, chosen = self.cls, self.budget, self.candidate
        q, found, scale = self.quality, self.delivered, self.scale
        return {
            "claim": budget.claim,
            "law": cls.law,
            "scale": None if scale is None else round(scale, 4),
            **planned_law(cls).row(chosen),
            "window": list(chosen.window.cosines),
            "K": chosen.ids,
            "n_max": budget.n_max,
            "k_max": budget.k_max,
            "epsilon": self.epsilon,
            "unseen": None if found is None else found.unseen,
            "return": None if found is None else found.returned,
            "hidden_share": None if found is None else found.hidden_share,
            "listed_by_chance": None if found is None else found.listed_by_chance,
            "delta": str(budget.delta),
            "ndcg10": round(q.ndcg10, 4),
            "ndcg10_se": round(q.ndcg10_se, 4),
            "recall": round(q.recall, 4),
            "recall_se": round(q.recall_se, 4),
            "top1": round(q.top1, 4),
            "top1_se": round(q.top1_se, 4),
            "class": cls.name,
            "class_available": chosen.shape.available,
            "shards": chosen.shape.shards,
            "gain": chosen.gain if cls.scaled else None,
            "lo": chosen.window.lo,
            "hi": chosen.window.hi,
        }

    def policy_file(self, version_every: int = 0) -> str:
        """policy.toml of this point, for `commit`; ``version_every``: seconds between versions of a live index."""
        chosen, budget = self.candidate, self.budget
        coin = budget.planned.policy_lines(budget.unseen)
        named = f'class = "{self.cls.name}"\n' if self.cls.scaled else ""  # of decoys it follows from the index
        return (
            f'{named}claim = "{budget.claim}"\n{coin}'
            f"lo = {cosine_text(chosen.window.lo)}\n{planned_law(self.cls).policy_lines(chosen)}"
            f"n_max = {budget.n_max}\n"
            f'k_max = {budget.k_max}\ndelta = "{budget.delta}"\nepsilon_account = "auto"\n'
            + (f'version_every = "{version_every}s"\n' if version_every else "")
        )


@dataclass
class Planner:
    """Points of one workload: costs and quality are computed once each."""

    work: Workload
    dimension: int
    draws: int
    seed: int = 1
    progress: Progress = nothing
    _cost: dict[tuple[AttestationClass, Terms, Budget], Cost] = field(default_factory=dict)
    _quality: dict[tuple[_Law, int, Setting], Quality] = field(default_factory=dict)

    # --- epsilon ---

    def cost(self, one: Candidate) -> Cost:
        """:func:`ragseal.prover.planning.budgets.cost`, of shift, lists, number of queries, delta and coin only."""
        cls, terms = one.cls, one.terms
        shift = cls.shift_of(terms.gain * (terms.hi - terms.lo))
        key = (cls, replace(terms, lo=0, hi=shift, gain=1), one.budget)
        if key not in self._cost:
            self._cost[key] = cost(cls, terms, one.budget)
        return self._cost[key]

    def dial(self, shape: Shape, window: Window, budget: Budget) -> Dial:
        """The policies of a class, from the least bound to the largest that the class compares."""
        return planned_law(shape.cls).dial(shape, window, budget, self.dimension)

    def dials(self, used: Sequence[Shape], windows: Sequence[Window], budget: Budget) -> list[Dial]:
        """Of every class and score window that has a policy, each once."""
        found = dict.fromkeys(self.dial(shape, window, budget) for shape in used for window in windows)
        return [dial for dial in found if dial.least <= dial.most]

    # --- quality ---

    def qualities(self, wanted: Sequence[Candidate], seed: int | None = None) -> list[Quality]:
        """Measured together, classes of one capacity and law under the same draws."""
        seed = self.seed if seed is None else seed
        groups: dict[_Law, list[Setting]] = {}
        keys = []
        for one in wanted:
            cls, window = one.cls, one.window
            law = cls.law, one.capacity, planned_law(cls).bits
            setting = Setting(window.lo, window.hi, one.gain, one.ids, one.budget.hidden, one.decoy_rate)
            keys.append((law, seed, setting))
            if keys[-1] not in self._quality:
                groups.setdefault(law, []).append(setting)
        for law, settings in groups.items():
            name, capacity, bits = law
            sampled = law_named(name).measurement(self.work, name, bits, capacity, self.draws, seed)
            measured = sampled.quality(settings, self.progress)
            for setting, found in zip(settings, measured, strict=True):
                self._quality[law, seed, setting] = found
        return [self._quality[key] for key in keys]

    def noise_free(self, K: int) -> Quality:
        """Of the same embeddings without noise."""
        return noise_free(self.work, K)

    # --- points ---

    def points(self, wanted: Sequence[Candidate], seed: int | None = None) -> list[Point]:
        """With their quality and epsilon; those without a finite epsilon are left out."""
        finite = []
        for done, one in enumerate(wanted):
            found = self.cost(one)
            if math.isfinite(found.epsilon):
                policy = one.budget.draft(one.cls, self.dimension, one.terms)
                check_policy(policy, one.cls, class_digest(one.cls))
                finite.append((one, found))
            self.progress("accounting", done + 1, len(wanted))
        measured = self.qualities([one for one, _ in finite], seed)
        return [
            Point(one, found.epsilon, quality, found.delivered)
            for (one, found), quality in zip(finite, measured, strict=True)
        ]

    def grid(
        self, used: Sequence[Shape], windows: Sequence[Window], scales: Mapping[str, Sequence[float]],
        budgets: Sequence[Budget],
    ) -> list[Point]:  # fmt: skip
        """The frontier's points: every class, window, scale (by law) and budget."""
        wanted = []
        for dial in (dial for budget in budgets for dial in self.dials(used, windows, budget)):
            wanted += [dial.at(place) for place in dial.places(scales) if place <= dial.most]
        return self.points(wanted)

    # --- targets ---

    def for_bound(self, target: float, used: Sequence[Shape], windows: Sequence[Window], budget: Budget) -> list[Point]:
        """For every class and window the policy of the largest bound that an audit finds at most ``target``, best
        answers first; empty if even the least exceeds it everywhere."""
        wanted, dials = [], self.dials(used, windows, budget)
        for done, dial in enumerate(dials):
            place = self._within(target, dial)
            if place:
                wanted.append(dial.at(place))
            self.progress("looking for the gain", done + 1, len(dials))
        return sorted(self.points(wanted), key=lambda p: -p.quality.ndcg10)

    def _within(self, target: float, dial: Dial) -> int:
        """The largest place whose bound is at most ``target``; 0 if none."""
        direct = dial.of_return(target)
        if direct is not None:
            return direct if direct >= dial.least else 0
        low, high = dial.least - 1, dial.most + 1
        while high - low > 1:
            # Epsilon grows about like gain to gain squared: the geometric mean gets there in few steps.
            middle = min(max(math.isqrt(max(1, low) * high), low + 1), high - 1)
            if high < 4 * max(1, low):
                middle = (low + high) // 2
            fits = self.cost(dial.at(middle)).epsilon <= target
            low, high = (middle, high) if fits else (low, middle)
        return low if low >= dial.least else 0

    def for_ndcg(self, target: float, used: Sequence[Shape], windows: Sequence[Window], budget: Budget) -> list[Point]:
        """For every class and window the policy of least bound whose nDCG@10 reaches ``target``, least bound first;
        empty if nothing that the class compares reaches it with a finite epsilon."""
        dials = self.dials(used, windows, budget)
        tops = self.qualities([dial.at(dial.most) for dial in dials])
        found = {
            dial: [dial.least - 1, dial.most]
            for dial, q in zip(dials, tops, strict=True)
            if q.ndcg10 >= target
        }  # fmt: skip
        rounds = max((high.bit_length() for _, high in found.values()), default=0)
        for done in range(rounds):
            asked = [dial for dial, (low, high) in found.items() if high - low > max(1, high // 64)]
            if not asked:
                break
            middles = [sum(found[dial]) // 2 for dial in asked]
            measured = self.qualities([dial.at(place) for dial, place in zip(asked, middles, strict=True)])
            for dial, place, quality in zip(asked, middles, measured, strict=True):
                found[dial][quality.ndcg10 >= target] = place
            self.progress("looking for the gain", done + 1, rounds)
        return sorted(self.points([dial.at(high) for dial, (_, high) in found.items()]), key=lambda p: p.bound)

    def least(self, used: Sequence[Shape], windows: Sequence[Window], budget: Budget) -> list[Point]:
        """Of every class and window the policy of least bound."""
        return self.points([dial.at(dial.least) for dial in self.dials(used, windows, budget)])

    def most_finite(self, used: Sequence[Shape], windows: Sequence[Window], budget: Budget) -> list[Point]:
        """Of every class and window the policy of the largest bound, as long as epsilon is finite."""
        places = [(dial, self._within(1e300, dial)) for dial in self.dials(used, windows, budget)]
        return self.points([dial.at(place) for dial, place in places if place])

    def again(self, point: Point, other: int = 1) -> Point:
        """The same policy under draws that had no part in choosing it; ``other`` tells such draws apart."""
        return replace(point, quality=self.qualities([point.candidate], self.seed + other)[0])

    def confirmed(self, point: Point, target: float) -> Point | None:
        """The point, or one with a larger bound, that reaches the target under fresh draws too; measured by others."""
        chosen = point.candidate
        dial = self.dial(chosen.shape, chosen.window, chosen.budget)
        place = dial.place_of(chosen)
        while place <= dial.most:
            found = self.points([dial.at(place)], self.seed + 1)
            if not found:  # no finite epsilon from here on
                return None
            if found[0].quality.ndcg10 >= target:
                return self.again(found[0], 2)
            place += max(1, place // 16)
        return None

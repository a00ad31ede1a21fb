# SPDX-License-Identifier: GPL-3.0-or-later
"""From a target to a policy, or to the plain statement that it cannot be met and what the nearest is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragseal.accounting.delivered_words import chance_in_words, hidden_in_words, return_in_words, unseen_in_words
from ragseal.circuits.circuit import class_file
from ragseal.prover.planning.budgets import Budget
from ragseal.prover.planning.candidates import Shape, Window
from ragseal.prover.planning.frontier import Planner, Point
from ragseal.prover.planning.laws import planned_law
from ragseal.prover.planning.levels import few_levels

DEFAULT_SHARE = 0.9  #: of the noise-free nDCG@10, where no target is given under claim every-list
CONFIRMED = 3  #: candidates that are measured again before one is recommended
USELESS_SHARE = 0.5  #: of the noise-free nDCG@10: below it a reason says so


@dataclass(frozen=True, slots=True)
class Target:
    """What a provider asks for; with a bound and nDCG@10, the bound is the limit and nDCG@10 what it has to reach."""

    epsilon: float | None = None  #: of every-list
    returned: float | None = None  #: of until-delivered, whose epsilon is the policy's unseen
    ndcg10: float | None = None

    def limit(self, budget: Budget) -> float | None:
        """Of the bound that the claim's dial changes."""
        return {"epsilon": self.epsilon, "return": self.returned}[budget.planned.bound]


@dataclass(frozen=True, slots=True)
class Advice:
    """A recommended point, or the nearest one; never both."""

    recommended: Point | None
    nearest: Point | None
    reasons: tuple[str, ...]


def efficient(points: Sequence[Point]) -> list[bool]:
    """Which points no other point of the same budget beats in both bound and nDCG@10."""

    def beats(a: Point, b: Point) -> bool:
        least = (a.bound <= b.bound, a.quality.ndcg10 >= b.quality.ndcg10)
        return a.budget == b.budget and all(least) and (a.bound, a.quality.ndcg10) != (b.bound, b.quality.ndcg10)

    return [not any(beats(other, point) for other in points) for point in points]


def advise(
    planner: Planner, target: Target, used: Sequence[Shape], windows: Sequence[Window], budget: Budget
) -> Advice:
    """The best policy for a target: the least epsilon (of until-delivered, return) for an nDCG@10, or the best answers
    within one."""
    ceiling = planner.noise_free(max(shape.most for shape in used)).ndcg10
    against = budget.planned.against(budget.n_max, budget.k_max, budget.delta)
    reasons = [f"without noise these embeddings reach nDCG@10 {ceiling:.3f}; {against}"]
    if target.limit(budget) is None and target.ndcg10 is None:
        target, why = _default(budget, ceiling)
        reasons.append(f"no target was given: {why} is taken")
    if target.limit(budget) is not None:
        return _within(planner, target, used, windows, budget, ceiling, reasons)
    assert target.ndcg10 is not None
    return _reaching(planner, target.ndcg10, used, windows, budget, ceiling, reasons)


def _default(budget: Budget, ceiling: float) -> tuple[Target, str]:
    """What is aimed at without a target, and how it is said."""
    usual = budget.planned.usual
    if usual is None:
        wanted = DEFAULT_SHARE * ceiling
        return Target(ndcg10=wanted), f"{DEFAULT_SHARE:.0%} of the noise-free nDCG@10, {wanted:.3f},"
    return Target(returned=usual), f"{budget.planned.bound} {usual:g} beside unseen {budget.unseen:g}"


def _reaching(
    planner: Planner, wanted: float, used: Sequence[Shape], windows: Sequence[Window], budget: Budget, ceiling: float,
    reasons: list[str],
) -> Advice:  # fmt: skip
    found = planner.for_ndcg(wanted, used, windows, budget)
    sure = [point for point in (planner.confirmed(p, wanted) for p in found[:CONFIRMED]) if point]
    if sure:
        best = min(sure, key=lambda p: p.bound)
        reasons.append(
            f"{best.bound_in_words} is the least, of what was compared, that reaches nDCG@10 {wanted:.3f}: "
            f"{describe(best)}"
        )
        return Advice(best, None, (*reasons, *_remeasured(best, ceiling), *in_words(best)))
    points = planner.most_finite(used, windows, budget)
    nearest = max(points, key=lambda p: p.quality.ndcg10, default=None)
    why = (
        "even without noise it is not reached" if wanted > ceiling else "no finite epsilon of these classes reaches it"
    )
    if budget.hidden and wanted <= ceiling:
        why += ", what the coin hides included"
    near = (
        f"; the nearest is {nearest.quality.ndcg10:.3f} at {nearest.bound_in_words}: {describe(nearest)}"
        if nearest
        else ""
    )
    reasons.append(f"nDCG@10 {wanted:.3f} CANNOT be met: {why}{near}")
    return Advice(None, nearest, tuple(reasons))


def _within(
    planner: Planner, target: Target, used: Sequence[Shape], windows: Sequence[Window], budget: Budget, ceiling: float,
    reasons: list[str],
) -> Advice:  # fmt: skip
    limit, name = target.limit(budget), budget.planned.bound
    assert limit is not None
    found = planner.for_bound(limit, used, windows, budget)
    if not found:
        nearest = min(planner.least(used, windows, budget), key=lambda p: p.bound, default=None)
        reasons.append(
            f"{name} {limit:g} CANNOT be met: even {planned_law(used[0].cls).least_setting} exceeds it in every class "
            "and window" + (f"; the nearest is {nearest.bound_in_words}: {describe(nearest)}" if nearest else "")
        )
        return Advice(None, nearest, tuple(reasons))
    best = planner.again(found[0])
    if target.ndcg10 is not None and best.quality.ndcg10 < target.ndcg10:
        reasons.append(
            f"{name} {limit:g} and nDCG@10 {target.ndcg10:.3f} CANNOT be met together: within this {name} the best "
            f"is nDCG@10 {best.quality.ndcg10:.3f}: {describe(best)}"
        )
        other = planner.for_ndcg(target.ndcg10, used, windows, budget)
        if other:
            reasons.append(f"that nDCG@10 takes {other[0].bound_in_words}: {describe(other[0])}")
        return Advice(None, best, tuple(reasons))
    reasons.append(f"of {len(found)} ways to stay within {name} {limit:g} these answers are best: {describe(best)}")
    return Advice(best, None, (*reasons, *_remeasured(best, ceiling), *in_words(best)))


def in_words(point: Point) -> list[str]:
    """What the numbers of claim until-delivered say of a point, and what they do not; nothing under every-list."""
    found = point.delivered
    if found is None:
        return []
    return [
        *planned_law(point.cls).about(point.candidate),
        hidden_in_words(found.hidden_share),
        unseen_in_words(found.unseen),
        return_in_words(found.returned),
        chance_in_words(found.listed_by_chance, point.budget.n_max, point.cls),
    ]


def _remeasured(point: Point, ceiling: float) -> list[str]:
    q = point.quality
    reasons = [
        f"nDCG@10 {q.ndcg10:.3f} +- {q.ndcg10_se:.3f} and recall {q.recall:.3f} +- {q.recall_se:.3f} were measured "
        "again under draws that had no part in the choice (one standard error over the queries); the first answer is "
        f"that without noise in {q.top1:.0%} of the queries"
    ]
    if q.ndcg10 < USELESS_SHARE * ceiling:
        reasons.append(
            f"these answers are of little use: {q.ndcg10 / ceiling:.0%} of the noise-free nDCG@10; "
            f"{point.budget.planned.cheaper}allow a larger {point.budget.planned.bound}, or plan with --ndcg to see "
            "what useful answers cost"
        )
    chosen = point.candidate
    few = few_levels(chosen.cls, chosen.window.lo, chosen.window.hi, chosen.gain)
    if few is not None:
        reasons.append(few.in_words)
    if not point.candidate.shape.available:
        cls = point.cls
        reasons.append(
            f"class {cls.name!r} is not in circuits/{class_file(type(cls)).name}: add it "
            "there and make its keys first, or plan with the --returned of a class that exists"
        )
    return reasons


def describe(point: Point) -> str:
    """A policy in one line."""
    cls, chosen = point.cls, point.candidate
    coin = point.budget.planned.described(point.budget.unseen)
    law = planned_law(cls)
    return (
        f"{coin}class {cls.name} ({cls.law}, K = {chosen.ids}, client re-ranks), window "
        f"{law.window_in_words(chosen.window)}, {law.setting(chosen)}"
    )

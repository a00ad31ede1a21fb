# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan: what privacy costs in answers, measured before a window is opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragseal.accounting.claims import planned
from ragseal.circuits.circuit import load_classes
from ragseal.embedder import DEFAULT, load_embedder
from ragseal.kernel.claims import form_of
from ragseal.kernel.classes import AttestationClass, kind_of
from ragseal.kernel.decoys.table import DECOYS
from ragseal.kernel.errors import ConfigurationError
from ragseal.kernel.params import GAUSSIAN, GEOMETRIC
from ragseal.prover.planning import tick_costs
from ragseal.prover.planning.budgets import Budget
from ragseal.prover.planning.candidates import RESULTS, Sizes, Window
from ragseal.prover.planning.frontier import Planner, Point
from ragseal.prover.planning.public_score_ranges import WHOLE, public_window
from ragseal.prover.planning.recommendation import Advice, Target, advise, describe, efficient
from ragseal.prover.planning.shapes import left_out, ready, shapes
from ragseal.prover.planning.workload import load_workload

CostOf = Callable[[AttestationClass, int, bool], tick_costs.TickCost]
#: By law, in units of its scale; of decoys returns, in nats.
SCALES = {
    GAUSSIAN: (0.25, 0.5, 1.0, 2.0, 4.0),
    GEOMETRIC: (1.0, 2.0, 4.0, 6.0, 8.0, 16.0),
    DECOYS: (4.0, 5.0, 6.0, 7.0, 8.0, 10.0),
}
QUICK_SCALES = {GAUSSIAN: (0.5, 2.0), GEOMETRIC: (2.0, 6.0), DECOYS: (5.0, 7.0)}
QUERIES, QUICK_QUERIES = 300, 60
DRAWS, QUICK_DRAWS = 3, 1
#: What --public chooses among, in cosines, besides [0, 1].
CANDIDATES = ((0.2, 0.4), (0.2, 0.6), (0.3, 0.5), (0.3, 0.7), (0.35, 0.5), (0.4, 0.6), (0.4, 0.8), (0.5, 0.7))


def _window(text: str) -> Window:
    low, colon, high = text.partition(":")
    try:
        lo, hi = float(low), float(high)
    except ValueError:
        lo, hi = 1.0, 0.0
    if not colon or not 0 <= lo < hi <= 1:
        raise ConfigurationError(f"--window takes two cosines such as 0.3:0.7 with 0 <= lo < hi <= 1, not {text!r}")
    return Window.of(lo, hi)


def _windows(digest: bytes, name: str, given: Sequence[str], public: bool) -> tuple[list[Window], str]:
    """The windows of a plan, and why they may be used."""
    if given:
        why = "the score windows were given: a policy may use one only if it was chosen without looking at private data"
        return [_window(text) for text in given], why
    if public:
        why = "the score window was chosen on this very corpus, which --public declares to be public"
        return [Window.of(*WHOLE), *(Window.of(*one) for one in CANDIDATES)], why
    entry = public_window(digest)
    if entry is None:
        why = (
            f"no score window of embedder {name!r} was chosen on public data, so [0, 1] is used, which needs no "
            "choice; plan on a public corpus with --public, and give the window that it recommends with --window"
        )
        return [Window.of(*WHOLE)], why
    why = (
        f"the score window [{entry.lo:g}, {entry.hi:g}] is the public one of embedder {entry.embedder}, chosen on "
        f"{entry.chosen_on}; nothing of this corpus chose it"
    )
    return [Window.of(entry.lo, entry.hi), Window.of(*WHOLE)], why


@dataclass(frozen=True, slots=True)
class Trial:
    """What answers are measured on, and how closely."""

    corpus: str  #: beir:FOLDER, jsonl:FILE or text:FOLDER
    embedder: str = DEFAULT
    split: str = "test"  #: of a BEIR folder's judgements
    pseudo: bool = False  #: queries are made from the documents even of a BEIR folder
    public: bool = False  #: the score window may be chosen on it
    queries: int = QUERIES  #: measured at most
    draws: int = DRAWS  #: noise samples a query
    cache: Path | None = None  #: where embeddings are kept by content


@dataclass(frozen=True, slots=True)
class Choices:
    """What a plan chooses among."""

    laws: Sequence[str]
    budgets: Sequence[Budget]  #: of one claim or of both; the first is the one that the recommendation is for
    returned: Sequence[int] = ()  #: K, with or without a class; none: those that have one, of decoys by ``results``
    given: Sequence[str] = ()  #: score windows that were chosen elsewhere, such as 0.3:0.7
    scales: Mapping[str, Sequence[float]] = field(default_factory=lambda: SCALES)
    results: int = RESULTS  #: places for results in a list with decoys, where no K is given


@dataclass(frozen=True, slots=True)
class LiveIndex:
    """What the versions of a live index take."""

    cost_of: CostOf
    tenants: int = 1  #: of the provider, each with an index of this size


def make_plan(
    trial: Trial,
    choices: Choices,
    target: Target,
    progress: Any = lambda what, done, total: None,
    live: LiveIndex | None = None,
) -> dict[str, Any]:
    """The plan as `--json` prints it; without ``live`` the policy has no ticks."""
    model, budgets, laws, returned = load_embedder(trial.embedder), choices.budgets, choices.laws, choices.returned
    windows, why = _windows(model.identity().digest(), trial.embedder, choices.given, trial.public)
    classes = tuple(load_classes().values())
    work = load_workload(
        trial.corpus,
        model,
        split=trial.split,
        pseudo=trial.pseudo,
        most=trial.queries,
        cache=trial.cache,
        progress=progress,
    )
    claims = list(dict.fromkeys(budget.claim for budget in budgets))
    used = {}
    for claim in claims:
        sizes = Sizes(returned, planned(claim).returned, choices.results)
        found = shapes(classes, _laws(claim, laws), sizes, work.documents)
        used[claim] = found if returned else ready(found)
    planner = Planner(work, model.dimension, trial.draws, progress=progress)
    points, advices = [], {}
    for claim in claims:
        own = [budget for budget in budgets if budget.claim == claim]
        points += planner.grid(used[claim], windows, choices.scales, own)
        advices[claim] = advise(planner, target, used[claim], windows, own[0])
    advice = advices[claims[0]]
    good = efficient(points)
    free = planner.noise_free(max(shape.most for shape in used[claims[0]]))
    reasons = [*advice.reasons, *(_instead(claim, advices[claim]) for claim in claims[1:]), why]
    reasons += dict.fromkeys(one for claim in claims for one in left_out(classes, _laws(claim, laws), used[claim]))
    if not trial.public:
        reasons.append(
            "K, gain and return were compared on this corpus: who publishes the policy that did best tells a "
            f"little about it, up to which of {len(points)} won, and no epsilon covers that; plan on a public corpus "
            "like yours (--public) to tell nothing"
        )
    if "pseudo" in work.source:
        reasons.append(f"measured with {work.source}")
    reasons += [one for claim in claims for one in planned(claim).reasons()]
    every = 0
    best = advice.recommended or advice.nearest
    if best is not None and live is not None:
        progress("measuring a version of the index", 0, 0)
        cls = best.cls
        cost = live.cost_of(cls, model.dimension, best.budget.hidden > 0)
        every, said = tick_costs.advice(cls, cost, live.tenants)
        reasons.append(said)
    return {
        "workload": f"{work.documents} documents, {work.queries} {work.source}",
        "documents": work.documents,
        "queries": work.queries,
        "noise_free": {"ndcg10": round(free.ndcg10, 4), "recall": round(free.recall, 4)},
        "frontier": [{**point.row(), "efficient": best} for point, best in zip(points, good, strict=True)],
        "recommended": _full(advice.recommended, every),
        "nearest": _full(advice.nearest, every),
        "version_every": every,
        "reasons": reasons,
    }


def _laws(claim: str, laws: Sequence[str]) -> list[str]:
    """Those that bound anything under a claim.

    Raises:
        ConfigurationError: none does.
    """
    found = [law for law in laws if kind_of(law).noisy == form_of(claim).noisy]
    if not found:
        raise ConfigurationError(
            f"the law {laws[0]} bounds nothing under the claim {claim}: plan with another --claim, or another --law"
        )
    return found


def _instead(claim: str, advice: Advice) -> str:
    """What another claim gives for the same target, in one line."""
    point = advice.recommended or advice.nearest
    if point is None:
        return f"under the claim {claim} no policy was found"
    met = "" if advice.recommended else "the target cannot be met; the nearest is "
    return (
        f"under the claim {claim}, for {point.budget.k_max} accounts of {point.budget.n_max} queries: {met}nDCG@10 "
        f"{point.quality.ndcg10:.3f} at {point.bound_in_words}: {describe(point)}"
    )


def _full(point: Point | None, version_every: int) -> dict[str, Any] | None:
    return None if point is None else {**point.row(), "policy": point.policy_file(version_every)}

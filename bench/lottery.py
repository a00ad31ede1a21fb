# SPDX-License-Identifier: GPL-3.0-or-later
"""What answers would be worth under the lottery, prizes before exact scores (docs/decisions/0010-lottery.md).

``python -m bench.lottery --corpus beir:PATH``  nDCG@10 under claim until-delivered, by return and K, three ways

*Offline*, from the decision's text alone: a slot has u, m coarse bits, and v = 2^m s + u, where s is its clipped score,
0 of a hidden or empty one.  It wins a prize if u >= 2^m - j, and then comes before every slot without one, whatever
their scores.  The K largest (v, -slot) are returned.  So an empty slot is returned with probability p_0 = j / 2^m at
least, unless K others with prizes come first in both worlds, and one return has the log ratio
R = ln((1 - eta) / p_0 + eta) at most, without a delta.  There are no whole steps and no gain: s is as fine as scores.

*Planned*: what `ragseal-provider plan` measures of a class with as many slots, its gain and prizes included.

*Served*: lists of the engine that providers answer with, Poseidon and all, for one class.

Writes bench/results/lottery.json.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import click
import numpy as np
import numpy.typing as npt

from bench.claims import CACHE
from bench.experiment import RESULTS, ROOT, machine, save, table
from ragseal.backends.mechanism import open_engine
from ragseal.circuits.circuit import load_classes
from ragseal.circuits.search import complete_lottery
from ragseal.embedder import load_embedder
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.lottery_class import LotteryClass
from ragseal.kernel.params import COIN_BITS
from ragseal.prover.planning.budgets import UNSEEN, Budget
from ragseal.prover.planning.candidates import Candidate, Shape, Window
from ragseal.prover.planning.frontier import Planner
from ragseal.prover.planning.quality import Judge, clipped
from ragseal.prover.planning.workload import Workload, load_workload
from ragseal.runtime.terminal import progress_bars

TIE_BITS = 11  #: m
RETURNS = (4.0, 5.0, 6.0, 8.0)
RETURNED = (10, 20, 32, 50, 128)  #: K
WINDOWS = ((0.3, 0.5), (0.35, 0.55))  #: cosines
UP_TO_ONE = ((0.3, 1.0),)  #: as a plan has it
SLOTS = 5184
CLASS = "lottery-small-32"
DIMENSION = 384
BUDGET = Budget(25, 2, Fraction(1, 10**6), UNSEEN)
HIDDEN = math.ceil(2**COIN_BITS * math.exp(-UNSEEN))  #: numerator of eta

Integers = npt.NDArray[np.int64]


def return_of(prizes: int, eta: Fraction) -> float:
    """R = ln((1 - eta) / p_0 + eta) of j = ``prizes`` in 2^m."""
    return math.log((1 - eta) * Fraction(2**TIE_BITS, prizes) + eta)


def prizes_for(target: float, eta: Fraction) -> int:
    """The least j whose return is at most ``target``."""
    return next(j for j in range(1, 2**TIE_BITS + 1) if return_of(j, eta) <= target)


def largest(scores: Integers, ties: Integers, prizes: int, most: int) -> Integers:
    """Slots of the ``most`` largest (v, -slot) of every row, largest first.

    Args:
        scores: s, shape (rows, slots); below 2^30.
        ties: u, the same shape.
    """
    slots = scores.shape[1]
    won = ties >= 2**TIE_BITS - prizes
    v = (np.where(won, 1 << 30, scores) << TIE_BITS) + ties
    key = v * slots - np.arange(slots)
    found = np.argpartition(key, slots - most, axis=1)[:, slots - most :]
    order = np.argsort(-np.take_along_axis(key, found, axis=1), axis=1)
    return np.asarray(np.take_along_axis(found, order, axis=1), dtype=np.int64)


def measure(
    work: Workload, slots: int, draws: int, seed: int, returned: Sequence[int],
    windows: Sequence[tuple[float, float]] = WINDOWS,
) -> list[dict[str, Any]]:  # fmt: skip
    """Mean nDCG@10 over all queries for each window, return and K; ``share``: of the same without noise and coin."""
    judge, eta = Judge(work), Fraction(HIDDEN, 2**COIN_BITS)
    free = _ndcg(judge, np.argsort(-work.scores, axis=1, kind="stable")[:, : max(returned)], -1, None)
    rows = []
    with progress_bars() as bars:
        task = bars.add_task("lottery", total=len(windows) * len(RETURNS) * draws)
        for window in (Window.of(*cosines) for cosines in windows):
            scores = np.zeros((work.queries, slots), dtype=np.int64)
            for target in RETURNS:
                prizes = prizes_for(target, eta)
                found: dict[int, list[npt.NDArray[np.float64]]] = {K: [] for K in returned}
                for draw in range(draws):
                    rng = np.random.default_rng([seed, draw])
                    hidden = rng.integers(0, 1 << COIN_BITS, size=work.documents) < HIDDEN
                    scores[:, : work.documents] = np.where(hidden, 0, clipped(work.scores, window.lo, window.hi))
                    ties = rng.integers(0, 1 << TIE_BITS, size=scores.shape)
                    came = largest(scores, ties, prizes, max(returned))
                    for K in returned:
                        found[K].append(_ndcg(judge, came[:, :K], window.lo, hidden))
                    bars.advance(task)
                for K, values in found.items():
                    mean = np.mean(values, axis=0)
                    rows.append({
                        "window": list(window.cosines), "unseen": UNSEEN, "return": return_of(prizes, eta),
                        "target": target, "prizes": prizes, "N": slots, "K": K, "ndcg10": float(mean.mean()),
                        "ndcg10_se": float(mean.std(ddof=1) / math.sqrt(len(mean))),
                        "share": float(mean.mean() / free.mean()),
                    })  # fmt: skip
    return rows


def candidate(slots: int, K: int, prizes: int, lo: float) -> Candidate | None:
    """What a plan takes of a class of so many slots; None if there is none with so many prizes."""
    own = load_classes()[CLASS]
    assert isinstance(own, LotteryClass)
    try:
        cls = complete_lottery(f"of-{K}", slots - slots % own.q, K, own.m, own.q, own.c, max(prizes, own.prizes))
    except PolicyError:
        return None
    window = Window.of(lo, 1.0)
    dial = Planner(Workload("", 0, np.zeros((0, 0)), ()), DIMENSION, 1).dial(Shape(cls, False), window, BUDGET)
    return dial.at(cls.prizes + 1 - prizes)


def planned(work: Workload, slots: int, draws: int, seed: int, returned: Sequence[int]) -> list[dict[str, Any]]:
    """The same by the planner's measurement, where there is a class."""
    eta, (lo, _) = Fraction(HIDDEN, 2**COIN_BITS), UP_TO_ONE[0]
    prizes = [prizes_for(target, eta) for target in RETURNS]
    asked = [(K, j, found) for K in returned for j in prizes if (found := candidate(slots, K, j, lo))]
    planner = Planner(work, DIMENSION, draws, seed)
    qualities = planner.qualities([one for _, _, one in asked])
    free = planner.noise_free(max(returned)).ndcg10
    return [
        {
            "prizes": j, "N": one.cls.N, "K": K, "gain": one.gain, "window": list(one.window.cosines),
            "ndcg10": q.ndcg10, "ndcg10_se": q.ndcg10_se, "share": q.ndcg10 / free,
        }
        for (K, j, one), q in zip(asked, qualities, strict=True)
    ]  # fmt: skip


def served(work: Workload, prizes: int, draws: int, seed: int) -> dict[str, Any]:
    """The same by the engine that answers, in class CLASS: one fresh key a query and draw."""
    cls = load_classes()[CLASS]
    one = candidate(cls.N, cls.K, prizes, UP_TO_ONE[0][0])
    assert one is not None
    engine, judge, rng = open_engine(cls), Judge(work), np.random.default_rng(seed)
    width, lo = one.gain * (one.window.hi - one.window.lo), one.window.lo
    sums = np.zeros(work.queries)
    for _ in range(draws):
        hidden = rng.integers(0, 1 << COIN_BITS, size=work.documents) < HIDDEN
        for query in range(work.queries):
            w = np.full(cls.N, -one.gain * lo, dtype=np.int64)
            w[: work.documents] = np.where(hidden, w[0], one.gain * (work.scores[query].astype(np.int64) - lo))
            key = int.from_bytes(rng.bytes(31), "big")
            came = [slot.slot for slot in engine.answer(key, w, width, prizes)]
            sums[query] += judge.score(query, np.array(came), lo, hidden)[0]
    mean = sums / draws
    error = float(mean.std(ddof=1) / math.sqrt(len(mean)))
    return {"class": cls.name, "prizes": prizes, "K": cls.K, "ndcg10": float(mean.mean()), "ndcg10_se": error}


def _ndcg(judge: Judge, slots: Integers, lo: int, hidden: npt.NDArray[np.bool_] | None) -> npt.NDArray[np.float64]:
    of = [judge.score(q, row) if hidden is None else judge.score(q, row, lo, hidden) for q, row in enumerate(slots)]
    return np.array([one[0] for one in of])


@click.command()
@click.option("--corpus", required=True, help="A public BEIR folder, beir:PATH.")
@click.option("--draws", default=6, show_default=True, help="Of ties and coins, a query.")
@click.option("--most", default=300, show_default=True, help="Queries.")
def main(corpus: str, draws: int, most: int) -> None:
    """Measure, print and write bench/results/lottery.json."""
    work = load_workload(corpus, load_embedder(), most=most, cache=CACHE, progress=lambda *_: None)
    slots = max(SLOTS, work.documents)
    rows = measure(work, slots, draws, 7, RETURNED)
    up_to_one = measure(work, slots, draws, 7, RETURNED, UP_TO_ONE)
    by_planner = planned(work, slots, draws, 8, RETURNED)
    by_engine = [served(work, prizes, draws, 9) for prizes in (1, 5)]
    out = RESULTS / "lottery.json"
    save(out, {
        "points": rows, "up_to_one": up_to_one, "planned": by_planner, "served": by_engine, "queries": work.queries,
        "documents": work.documents, "machine": machine(),
    })  # fmt: skip
    names = ("window", "unseen", "return", "prizes", "K", "ndcg10", "ndcg10_se", "share")
    click.echo(table(names, [[row[name] for name in names] for row in [*rows, *up_to_one]]))
    few = ("prizes", "K", "ndcg10", "ndcg10_se")
    click.echo(table(("way", *few), [
        (way, *(row[name] for name in few))
        for way, found in (("planned", by_planner), ("served", by_engine)) for row in found
    ]))  # fmt: skip
    click.echo(f"written: {out.relative_to(ROOT)}")


if __name__ == "__main__":
    main()

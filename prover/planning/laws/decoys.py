# SPDX-License-Identifier: GPL-3.0-or-later
"""What a plan sets of a policy with decoys, and what it says of it.  SPEC M.3.2, D.11.8; docs/proofs/decoys.md.

No number of the claim depends on scores, gain or queries: scores are compared as they are, and lo says from which on a
document matches.  The return is what epsilon is traded with: a larger one takes fewer draws, and leaves more places of
a list to results.  Numbers of ids and draws, and the class, follow from it and from the results that a list should have
room for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from ragseal.accounting.decoys_curve import drawn_for, ids_needed, least_by_chance, most_drawn, return_of_ids
from ragseal.accounting.delivered_decoys import RARE, ByChance, Lists, by_chance, rate_of_return, refused
from ragseal.circuits.sizes import HEAD_ROOM, SIZES, size_for
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.decoys.decoys_class import DecoysClass
from ragseal.kernel.decoys.table import DECOYS, smallest_draws
from ragseal.kernel.errors import ConfigurationError, PolicyError
from ragseal.kernel.policy import Policy
from ragseal.prover.planning.binomial import at_most
from ragseal.prover.planning.budgets import Budget
from ragseal.prover.planning.candidates import COSINE_ONE, RESULTS, Candidate, Shape, Sizes, Window
from ragseal.prover.planning.laws.interface import Dial, PlannedLaw
from ragseal.prover.planning.quality import DecoysMeasurement
from ragseal.prover.planning.workload import Workload

STEPS = 100  #: places of the dial in a nat of return
LEAST_RETURN, MOST_RETURN = 1, 12  #: beyond, decoys are nearly all ids, or hardly any


@dataclass(frozen=True, slots=True)
class ReturnDial(Dial):
    """A place is a return of that many hundredths of a nat."""

    law: DecoysPlan

    def at(self, turned: int) -> Candidate:
        """Raises PolicyError: the class has no room for it."""
        target, shape, hidden, cls = turned / STEPS, self.shape, self.budget.hidden, self.law.cls
        if cls.N * drawn_for(target, hidden) > cls.draws:  # before a table of so many is built
            raise PolicyError(f"class {cls.name!r} draws {cls.draws} ids of a shard at most")
        ids = shape.ids or ids_needed(shape.shards * cls.N, target, hidden, shape.results)
        rate = rate_of_return(cls.N, ids, shape.shards, hidden, target)
        cls.check_lists(ids, shape.shards, rate)
        return Candidate(shape, self.window, 1, self.budget, ids, rate, target)

    def fits(self, turned: int) -> bool:
        """Whether the class has room for it."""
        try:
            self.at(turned)
        except PolicyError:
            return False
        return True

    def may_fit(self, turned: int) -> bool:
        """Whether it may have: ids that one shard draws, by the law uncut, without a table."""
        target, cls = turned / STEPS, self.law.cls
        drawn = drawn_for(target, self.budget.hidden)
        draws = Fraction(-math.log1p(-drawn) * (1 << cls.L)).limit_denominator(1 << 16)
        if cls.N * drawn > cls.draws or smallest_draws(draws) > cls.draws:
            return False
        ids = self.shape.ids or ids_needed(self.shape.shards * cls.N, target, self.budget.hidden, self.shape.results)
        return ids <= cls.most_ids(self.shape.shards) and most_drawn(cls.N, drawn, 66) <= cls.room

    def place_of(self, candidate: Candidate) -> int:
        return round(candidate.target * STEPS)

    def of_return(self, target: float) -> int:
        return min(self.most, math.floor(min(target, MOST_RETURN) * STEPS + 1e-9))

    def places(self, scales: Mapping[str, Sequence[float]]) -> list[int]:
        return sorted({max(self.least, round(scale * STEPS)) for scale in scales[DECOYS]})


@dataclass(frozen=True, slots=True)
class DecoysPlan(PlannedLaw):
    """A class of decoys in a plan."""

    laws: ClassVar[tuple[str, ...]] = DecoysClass.laws
    least_setting: ClassVar[str] = "as many decoys as a class has room for"

    cls: DecoysClass

    @staticmethod
    def in_words(law: str) -> str:
        return law

    @staticmethod
    def capacity(cls: AttestationClass) -> int:
        """Of all its shards, with head-room."""
        return cls.S * cls.N * HEAD_ROOM.denominator // HEAD_ROOM.numerator

    @staticmethod
    def shapes(classes: Sequence[AttestationClass], sizes: Sizes, documents: int) -> list[Shape]:
        """Of the class that an index of so many documents gets by itself: one shape for every K; without a K one with
        as many ids as results need."""
        cls, shards = size_for(documents, [cls for cls in classes if cls.name in SIZES] or classes)
        for K in sizes.returned:
            if cls.most_ids(shards) < K:
                raise ConfigurationError(
                    f"an index of {shards * cls.N} slots returns {cls.most_ids(shards)} ids, not {K}"
                )
        return [Shape(cls, True, K, sizes.results, shards) for K in sizes.returned or (0,)]

    def dial(self, shape: Shape, window: Window, budget: Budget, dimension: int) -> ReturnDial:
        """From the least return that a class has room for, which is none where the claim has no coin."""
        lo = Window(window.lo, window.lo + 1)
        whole = ReturnDial(shape, lo, budget, LEAST_RETURN * STEPS, MOST_RETURN * STEPS, self)
        if not budget.hidden or not whole.fits(whole.most):
            return replace(whole, most=whole.least - 1)
        low, high = whole.least - 1, whole.most
        while high - low > 1:  # a larger return takes less room
            middle = (low + high) // 2
            low, high = (low, middle) if whole.may_fit(middle) else (middle, high)
        while not whole.fits(high):
            high = min(whole.most, high + max(1, high // 64))
        return replace(whole, least=high)

    @property
    def bits(self) -> int:
        """Slots of a shard: among as many as the next power of two ids are drawn."""
        return self.cls.N

    @staticmethod
    def measurement(work: Workload, law: str, bits: int, capacity: int, draws: int, seed: int) -> DecoysMeasurement:
        return DecoysMeasurement(work, bits, capacity, draws, seed)

    def comes_back(self, policy: Policy, y: int) -> float:
        """Always, unless more than K others are drawn; one that does not match as often as it is drawn itself."""
        lists = _lists(policy, self.cls)
        drawn = by_chance(lists).drawn
        if y <= policy.lo:
            return drawn
        left = at_most(lists.K - 1, lists.slots - 1, np.array([drawn]))[0]
        return float(1 - (1 - drawn) * (1 - left))

    def shown_scores(self, lo: int, hi: int) -> tuple[int, ...]:
        """Of any that matches."""
        return (lo + 1,)

    def window_in_words(self, window: Window) -> str:
        return f"above {window.cosines[0]:g}"

    def setting(self, chosen: Candidate) -> str:
        found = by_chance(_chosen(chosen))
        return f"return {chosen.target:g} ({found.mean:.3g} decoys a list)"

    def row(self, chosen: Candidate) -> dict[str, Any]:
        found = by_chance(_chosen(chosen))
        return {
            "decoys": round(found.mean, 4), "results_mean": round(found.results_mean, 4),
            "results_least": found.results_least,
        }  # fmt: skip

    def about(self, chosen: Candidate) -> list[str]:
        """What is different from a law with noise, and the curve that no law beats."""
        found, cls = by_chance(_chosen(chosen)), self.cls
        per_query = float(refused(cls.elements, chosen.shape.shards))
        index = f"{chosen.capacity:,} slots" + (f" in {chosen.shape.shards} shards" if chosen.shape.shards > 1 else "")
        return [
            f"answers are exact: {found.in_words()}. All other places go to the documents that match, the best first",
            f"class {cls.name} holds {index}, with head-room: it is the one that an index of so many documents gets",
            "its return follows from coin and decoys alone: neither scores, nor the number of queries is part of it. A "
            f"document matches above cosine {chosen.window.cosines[0]:g}; a question that none matches gets decoys "
            f"without a text. A query is refused with probability {per_query:.1g}, whatever the data are",
            curve_in_words(chosen),
            "it bounds one return and nothing of every list: two lists can differ for certain by what a slot holds, so "
            "it goes with no other claim",
        ]

    def comes_back_in_words(self, shares: Sequence[float], lo: int, hi: int) -> str:
        return (
            f"a document above cosine {lo / COSINE_ONE:.3g} comes back in {shares[0]:.0%} of all queries, where no "
            "others are above it"
        )

    def terms(self, policy: Policy) -> dict[str, Any]:
        """What decoys take of a list; nothing where there are none."""
        if not policy.decoy_rate:
            return {"decoys": None}
        return {"decoys": asdict(by_chance(_lists(policy, self.cls)))}

    def terms_in_words(self, terms: Mapping[str, Any]) -> list[str]:
        if "decoys" not in terms:
            return []
        if terms["decoys"] is None:
            return ["lists have no decoys: they are the best documents that match, and no other"]
        return [ByChance(**terms["decoys"]).in_words()]

    def policy_lines(self, chosen: Candidate) -> str:
        """A policy that names no ids has those that RESULTS results need, whatever the size of its index is."""
        own = f"ids = {chosen.ids}\n" if chosen.shape.ids or chosen.shape.results != RESULTS else ""
        return f"{own}return = {chosen.target:g}\n"


def curve_in_words(chosen: Candidate) -> str:
    """K, return and size of an index: what each of a few returns would take."""
    hidden, slots, results = chosen.budget.hidden, chosen.capacity, chosen.shape.results
    own = ""
    if chosen.shape.ids:
        least = return_of_ids(slots, chosen.ids, hidden, results)
        own = f"; {chosen.ids:,} ids have them from return {least:.2f} on" if math.isfinite(least) else ""
    near = [chosen.target + more for more in (-1, 0, 1) if chosen.target + more >= LEAST_RETURN]
    needed = ", ".join(f"{ids_needed(slots, one, hidden, results):,} at return {one:g}" for one in near)
    return (
        f"no law lists fewer than {least_by_chance(slots, chosen.target, hidden):.3g} ids by chance on average, of an "
        f"index of {slots:,} slots at return {chosen.target:g}; for {results} results but once in 2^{RARE} lists, a "
        f"list needs {needed} ids{own}"
    )


def _chosen(chosen: Candidate) -> Lists:
    return Lists(chosen.cls.N, chosen.ids, chosen.decoy_rate, chosen.shape.shards)


def _lists(policy: Policy, cls: AttestationClass) -> Lists:
    return Lists(cls.N, policy.ids, policy.decoy_rate, policy.shards)

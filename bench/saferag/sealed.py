# SPDX-License-Identifier: GPL-3.0-or-later
"""ragseal's own retrieval in place of the dense retriever: noise over every slot, then the K largest, by the engine
that serves accounts.

Only what a prover needs besides is left out: no record, no proof.  Noise keys come from the bench's generator instead
of the window's seed, coins too; scores, clip, noise table, selection, flags and the account's own ranking of the texts
that it may read are those of an answer (SPEC M.5).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from bench.classes import smallest_with_noise
from bench.saferag.retrievers import check_count, check_index, rows_of
from ragseal.backends.mechanism import Engine, open_engine
from ragseal.backends.scores import score_matrix
from ragseal.embedder import Embedder
from ragseal.kernel.classes import Asked
from ragseal.kernel.errors import ConfigurationError, UnprovableError
from ragseal.kernel.noise_class import NoiseClass
from ragseal.kernel.params import COIN_BITS, SCORE_UNIT, R
from ragseal.prover.planning.budgets import RETURN, UNSEEN, Budget
from ragseal.prover.planning.laws.noise import NoisePlan

N_MAX, K_MAX, DELTA = 25, 2, Fraction(1, 10**6)
LEAST_DOCUMENTS = 1000  #: the class is that of an index of production size, however few contexts are in it


@dataclass(frozen=True)
class Mechanism:
    """A policy's numbers under claim until-delivered."""

    cls: NoiseClass
    lo: int
    hi: int
    gain: int
    hidden: int  #: of 2^COIN_BITS
    returned: float  #: the claim's return, at most

    def describe(self) -> str:
        window = ", ".join(f"{x / SCORE_UNIT**2:.2f}" for x in (self.lo, self.hi))
        return (
            f"claim until-delivered, class {self.cls.name} ({self.cls.N} slots, K = {self.cls.K}), window [{window}], "
            f"return {self.returned:g}, unseen {UNSEEN:g}, delta {DELTA}"
        )


@lru_cache(maxsize=4)
def mechanism(documents: int, window: tuple[float, float], returned: float = RETURN) -> Mechanism:
    """The demo's policy for an index: the recommended numbers, in the cheapest class that holds it.

    Raises:
        ConfigurationError: no class holds the documents, or the window is no interval of cosines.
    """
    lo, hi = (round(x * SCORE_UNIT**2) for x in window)
    if not -(SCORE_UNIT**2) <= lo < hi <= SCORE_UNIT**2:
        raise ConfigurationError(f"a score window is two cosines, the lower one first, not {window}")
    cls = smallest_with_noise(max(LEAST_DOCUMENTS, documents))
    budget = Budget(N_MAX, K_MAX, DELTA, UNSEEN)
    gain = NoisePlan(cls).gain_of_return(lo, hi, returned, budget)
    if not gain:
        raise ConfigurationError(f"no gain gives return {returned:g} in the window {window}: take a wider one")
    return Mechanism(cls, lo, hi, gain, budget.hidden, returned)


@lru_cache(maxsize=2)
def _engine(cls: NoiseClass) -> Engine:
    return open_engine(cls)


class SealedIndex:
    """Contexts in the slots 0, 1, 2, ... of an index; the others are empty."""

    def __init__(self, contexts: Sequence[str], embedder: Embedder, made: Mechanism) -> None:
        if len(check_index(contexts)) > made.cls.N:
            raise ConfigurationError(f"{len(contexts)} contexts, class {made.cls.name} has {made.cls.N} slots")
        self.contexts, self.made = contexts, made
        self.matrix: npt.NDArray[np.int8] = np.zeros((made.cls.N, embedder.dimension), dtype=np.int8)
        self.matrix[: len(contexts)] = rows_of(embedder, contexts)
        self._embedder, self._scored = embedder, score_matrix(self.matrix)

    def window(self, rng: np.random.Generator) -> OpenWindow:
        """With coins thrown anew."""
        hidden = rng.integers(0, 1 << COIN_BITS, size=self.made.cls.N) < self.made.hidden
        return OpenWindow(self, np.asarray(hidden), rng)

    def scores(self, question: str) -> npt.NDArray[np.int64]:
        """y of every slot for the account's own embedding."""
        e = rows_of(self._embedder, [question], "query")[0]
        return self._scored.scores(e.tolist()).astype(np.int64)


@dataclass(frozen=True)
class OpenWindow:
    """A retriever: one throw of coins, fresh noise for every question; a question asked again gets the same answer."""

    index: SealedIndex
    hidden: npt.NDArray[np.bool_]
    rng: np.random.Generator
    answered: dict[str, list[int]] = field(default_factory=dict)

    def slots(self, question: str) -> list[int]:
        """Slots whose text the account may read, in its own order: best product first."""
        if question not in self.answered:
            self.answered[question] = self._slots(question)
        return self.answered[question]

    def _slots(self, question: str) -> list[int]:
        made = self.index.made
        y = np.where(self.hidden, 0, self.index.scores(question))
        w = made.gain * (y - made.lo)
        asked = Asked((made.cls.window_of(made.gain * (made.hi - made.lo)),))
        while True:
            key = int.from_bytes(self.rng.bytes(48), "big") % R
            try:
                returned = _engine(made.cls).answer(key, w, asked)
                break
            except UnprovableError:  # a named failure: the account gets nothing and asks again
                continue
        found = [one.slot for one in returned if one.flag and one.slot < len(self.index.contexts)]
        return sorted(found, key=lambda slot: (-int(y[slot]), slot))

    def top(self, question: str, count: int) -> list[str]:
        check_count(self.index.contexts, count)
        return [self.index.contexts[slot] for slot in self.slots(question)[:count]]

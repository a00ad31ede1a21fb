# SPDX-License-Identifier: GPL-3.0-or-later
"""ragseal's own retrieval in place of the dense retriever: decoys, and the best of all other slots that match, by the
engine that serves accounts.

Only what a prover needs besides is left out: no record, no proof.  Keys of draws come from the bench's generator
instead of the window's seed, coins too; scores, table of draws, selection, flags and the account's own ranking of the
texts that it may read are those of an answer (SPEC M.5.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from bench.saferag.retrievers import check_count, check_index, rows_of
from ragseal.accounting.decoys_curve import ids_needed
from ragseal.accounting.delivered_decoys import rate_of_return
from ragseal.backends.mechanism import Engine, open_engine
from ragseal.backends.scores import score_matrix
from ragseal.circuits.sizes import size_for
from ragseal.embedder import Embedder
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.errors import ConfigurationError, UnprovableError
from ragseal.kernel.params import COIN_BITS, SCORE_UNIT, R
from ragseal.prover.planning.budgets import RETURN, UNSEEN, Budget
from ragseal.prover.planning.candidates import RESULTS

N_MAX, K_MAX, DELTA = 25, 2, Fraction(1, 10**6)
LEAST_DOCUMENTS = 1000  #: the class is that of an index of production size, however few contexts are in it


@dataclass(frozen=True)
class Mechanism:
    """A policy's numbers under claim until-delivered."""

    cls: AttestationClass
    lo: int
    ids: int  #: K
    rate: int  #: draws on average, times 2^16
    hidden: int  #: of 2^COIN_BITS
    returned: float  #: the claim's return, at most

    def describe(self) -> str:
        return (
            f"claim until-delivered, class {self.cls.name} ({self.cls.N} slots, K = {self.ids}), matches above "
            f"{self.lo / SCORE_UNIT**2:.2f}, return {self.returned:g}, unseen {UNSEEN:g}, delta {DELTA}"
        )


@lru_cache(maxsize=4)
def mechanism(documents: int, lo: float, returned: float = RETURN) -> Mechanism:
    """The demo's policy for an index: the recommended numbers, in the class that holds it.

    Raises:
        ConfigurationError: no class holds the documents, or lo is no cosine.
    """
    if not 0 <= lo < 1:
        raise ConfigurationError(f"a document matches above a cosine from 0 to 1, not {lo}")
    cls, shards = size_for(max(LEAST_DOCUMENTS, documents))
    if shards > 1:
        raise ConfigurationError(f"{documents} documents take {shards} shards: this bench has one")
    hidden = Budget(N_MAX, K_MAX, DELTA, UNSEEN).hidden
    ids = ids_needed(cls.N, returned, hidden, RESULTS)
    return Mechanism(
        cls, round(lo * SCORE_UNIT**2), ids, rate_of_return(cls.N, ids, 1, hidden, returned), hidden, returned
    )


@lru_cache(maxsize=2)
def _engine(cls: AttestationClass) -> Engine:
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
    """A retriever: one throw of coins, fresh draws for every question; a question asked again gets the same answer."""

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
        asked = made.cls.asked(0, made.lo, made.ids, made.rate)
        while True:
            key = int.from_bytes(self.rng.bytes(48), "big") % R
            try:
                returned = _engine(made.cls).answer(key, y, asked)
                break
            except UnprovableError:  # a named failure: the account gets nothing and asks again
                continue
        found = [one.slot for one in returned if one.flag and one.slot < len(self.index.contexts)]
        return sorted(found, key=lambda slot: (-int(y[slot]), slot))

    def top(self, question: str, count: int) -> list[str]:
        check_count(self.index.contexts, count)
        return [self.index.contexts[slot] for slot in self.slots(question)[:count]]

# SPDX-License-Identifier: GPL-3.0-or-later
"""One cell of the bench: an attack, a stage, a retriever and a filter, over every question of the attack."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean, stdev
from typing import Any

import numpy as np

from bench.experiment import Cell, generator
from bench.measured import code_of
from bench.saferag.commitments import Served, commit, forged, stream
from bench.saferag.data import Dataset, Item, Task
from bench.saferag.filters import FILTERS, Filter, clauses
from bench.saferag.injection import (
    CLEAN,
    FILTERED,
    INDEX,
    RETRIEVED,
    STAGES,
    Passage,
    Strength,
    index_of,
    injected,
    put_in_front,
)
from bench.saferag.judge import Judge
from bench.saferag.metrics import Outcome, published, repaired
from bench.saferag.retrievers import PUBLIC, Reranker, Retriever, public
from bench.saferag.sealed import Mechanism, OpenWindow, SealedIndex
from bench.saferag.words import sentences
from ragseal.embedder import Embedder
from ragseal.generators import Generator
from ragseal.generators.extractive import sentences_of
from ragseal.kernel.attestation import TextOpening
from ragseal.kernel.errors import TransportError
from ragseal.kernel.slot_text import SlotText
from ragseal.prover.commitment.index import Version

SEALED = "ragseal"  #: noise, then selection, over whatever is in the index
COMMITTED = "ragseal, committed"  #: the same over an index that was committed and opened before the poisoning
RETRIEVERS = (*PUBLIC, SEALED, COMMITTED)


@dataclass
class Pipeline:
    """Everything that a cell is measured with."""

    dataset: Dataset
    embedder: Embedder
    generator: Generator
    judge: Judge
    filters: dict[str, Filter]
    reranker: Reranker
    mechanism: Mechanism
    strengths: dict[str, Strength]
    draws: int  #: of noise and coins, for the two retrievers that have them
    seed: int = 1
    _retrievers: dict[tuple[str, bool, str, int], Retriever] = field(default_factory=dict)
    _indices: dict[tuple[str, bool], SealedIndex] = field(default_factory=dict)
    _versions: dict[str, Version] = field(default_factory=dict)
    _answers: dict[tuple[str, tuple[str, ...]], str] = field(default_factory=dict)

    def cells(self) -> list[dict[str, Any]]:
        """Every attack, clean and at its three stages, with every retriever and filter."""
        return [
            {"attack": task.name, "stage": stage, "retriever": retriever, "filter": one}
            for task in self.dataset.tasks for stage in (CLEAN, *STAGES) for retriever in RETRIEVERS for one in FILTERS
        ]  # fmt: skip

    def setting(self) -> dict[str, Any]:
        """What a result depends on."""
        return {
            "seed": self.seed, "data": self.dataset.source, "data_digest": self.dataset.digest,
            "items": {task.name: len(task.items) for task in self.dataset.tasks},
            "contexts": {task.name: len(task.base) for task in self.dataset.tasks},
            "strays": {task.name: task.strays for task in self.dataset.tasks},
            "embedder": self.embedder.identity().digest().hex()[:16], "generator": self.generator.name,
            "judge": self.judge.name, "filters": {name: one.name for name, one in self.filters.items()},
            "reranker": self.reranker.name, "mechanism": self.mechanism.describe(), "draws": self.draws,
            "strength": {name: asdict(one) for name, one in self.strengths.items()}, "sources": code_of("saferag"),
        }  # fmt: skip

    def warm(self) -> None:
        """Embed in two calls what cells would embed text by text."""
        tasks = self.dataset.tasks
        texts = [text for task in tasks for text in task.base]
        texts += [text for task in tasks for item in task.items for text in injected(item, self.strengths[task.name])]
        parts = [part for text in texts for part in (*sentences(text), *clauses(text), *sentences_of(text))]
        self.embedder.embed([*texts, *parts])
        self.embedder.embed([item.question for task in tasks for item in task.items], role="query")

    # --- one cell ---

    def measure(self, cell: Cell, rng: np.random.Generator | None = None) -> dict[str, Any]:
        """Both sets of metrics, and what each item contributed.  Noise is that of the retriever's draws, not of the
        cell: filters and stages are compared under the same noise."""
        outcomes = self.outcomes(cell)
        rows = []
        for item in self.task(cell["attack"]).items:
            own = [one for one in outcomes if one.item is item]
            before, after = published(own), repaired(own)
            rows.append([item.id, _short(before.ra), _short(after.ra), _short(after.f1_avg), _short(after.asr)])
        columns = list(zip(*rows, strict=True))
        return {
            "published": _rounded(asdict(published(outcomes))),
            "repaired": _rounded(asdict(repaired(outcomes))),
            "se": {name: _error(column) for name, column in zip(("ra", "f1_avg", "asr"), columns[2:], strict=True)},
            "unjudged": sum(one.judgement is None for one in outcomes),
            "answers": len(outcomes),
            "items": [" ".join(map(str, row)) for row in rows],  # id, published RA, repaired RA, F1(avg), ASR
        }

    def outcomes(self, cell: Cell) -> list[Outcome]:
        """What becomes of every item, once for each draw of noise and coins."""
        task, noised = self.task(cell["attack"]), cell["retriever"] in (SEALED, COMMITTED)
        found = []
        for draw in range(self.draws if noised else 1):
            retriever = self._retriever(task, cell["stage"], cell["retriever"], draw)
            found += [self._outcome(task, item, cell, retriever) for item in task.items]
        return found

    def task(self, name: str) -> Task:
        return next(task for task in self.dataset.tasks if task.name == name)

    def _outcome(self, task: Task, item: Item, cell: Cell, retriever: Retriever) -> Outcome:
        strength, stage = self.strengths[task.name], cell["stage"]
        texts = retriever.top(item.question, strength.top)
        passages = [Passage(text, text) for text in texts]
        if stage == RETRIEVED:
            # an account throws an answer away as a whole if one of its texts does not open
            refused = cell["retriever"] == COMMITTED and self._refused(task, item, retriever, strength)
            passages = [] if refused else put_in_front(passages, item, strength)
        passages = self.filters[cell["filter"]].keep(item.question, passages)
        if stage == FILTERED:
            passages = put_in_front(passages, item, strength)
        answer = self._answer(item.question, tuple(p.text for p in passages))
        return Outcome(
            item=item,
            injected=() if stage == CLEAN else injected(item, strength),
            read=tuple(p.origin for p in passages),
            answer=answer,
            judgement=self.judge.judge(item, answer),
        )

    def _answer(self, question: str, texts: tuple[str, ...]) -> str:
        if (question, texts) not in self._answers:
            answer = self.generator.answer(question, texts)
            if not answer.strip():
                raise TransportError(
                    f"{self.generator.name} returns nothing to {question[:80]!r}: take another model, or give it room"
                )
            self._answers[question, texts] = answer
        return self._answers[question, texts]

    # --- indices ---

    def _retriever(self, task: Task, stage: str, name: str, draw: int) -> Retriever:
        poisoned = stage == INDEX and name != COMMITTED  # a version that was opened before holds no attack text
        kind = SEALED if name == COMMITTED else name
        key = (task.name, poisoned, kind, draw)
        if key not in self._retrievers:
            contexts = index_of(task, INDEX if poisoned else CLEAN, self.strengths[task.name])
            if kind == SEALED:
                if key[:2] not in self._indices:
                    self._indices[key[:2]] = SealedIndex(contexts, self.embedder, self.mechanism)
                rng = generator(self.seed, {"attack": task.name, "poisoned": poisoned, "draw": draw})
                self._retrievers[key] = self._indices[key[:2]].window(rng)
            else:
                self._retrievers[key] = public(name, contexts, self.embedder, self.reranker)
        return self._retrievers[key]

    def _refused(self, task: Task, item: Item, retriever: Retriever, strength: Strength) -> bool:
        """Whether an account refuses an answer into which the attacker has put a text: it is given another text with
        salt and path of a slot that was returned, or without one of a slot of its own choice."""
        if task.name not in self._versions:
            secret = hashlib.sha256(task.name.encode()).digest()
            self._versions[task.name] = commit(
                index_of(task, CLEAN, strength), self.embedder, len(task.base), stream(secret)
            )
        version = self._versions[task.name]
        assert isinstance(retriever, OpenWindow)
        slots = retriever.slots(item.question)[: strength.top] or [0]
        served = Served(version)
        return not any(
            served.accepts(slot, opening)
            for text in injected(item, strength) for slot in slots
            for opening in (forged(version, slot, text), _alone(version, slot, text))
        )  # fmt: skip


def _alone(version: Version, slot: int, text: str) -> TextOpening:
    """An opening that the attacker made up, with the slot's real path."""
    real = version.open_text(slot)
    return TextOpening(SlotText("attack", text, real.content.metadata), bytes(32), real.path)


def _short(x: float | None) -> float | None:
    return None if x is None else round(x, 4)


def _rounded(values: dict[str, float | None]) -> dict[str, float | None]:
    return {name: None if x is None else round(x, 6) for name, x in values.items()}


def _error(values: Sequence[Any]) -> float | None:
    """Standard error of the mean over items; None where fewer than two are valid."""
    valid = [float(x) for x in values if x is not None]
    return round(stdev(valid) / math.sqrt(len(valid)), 6) if len(valid) > 1 else None


def mean(values: Sequence[float | None]) -> float | None:
    """Of what is there."""
    found = [x for x in values if x is not None]
    return fmean(found) if found else None

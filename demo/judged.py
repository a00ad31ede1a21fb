# SPDX-License-Identifier: GPL-3.0-or-later
"""What the demo's answers are worth where a corpus has judgements, beside plain search by the same embeddings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ragseal.client.result import Result
from ragseal.demo.corpus import DemoQuery
from ragseal.embedder import Embedder, quantise
from ragseal.prover.commitment.corpora import read_beir_qrels, read_beir_queries
from ragseal.prover.planning.quality import RANKS, Judge
from ragseal.prover.planning.workload import Workload
from ragseal.prover.storage.state import State

SPLIT = "test"

Grades = Mapping[str, int]  #: above 0, by document


@dataclass(frozen=True, slots=True)
class Worth:
    """Means over the distinct judged queries that were asked."""

    queries: int
    ndcg10: float  #: of what accounts were given, as their clients rank it
    noise_free: float  #: of the best ten documents by the same embeddings
    kept: float  #: share of those ten that accounts were given
    found: float  #: share of queries with a judged document among the first ten
    plainly_found: float  #: the same of plain search

    @property
    def sentence(self) -> str:
        share = f" ({self.ndcg10 / self.noise_free:.0%})" if self.noise_free else ""
        return (
            f"nDCG@10 of {self.queries} judged queries: {self.ndcg10:.3f}; without noise and coin "
            f"{self.noise_free:.3f}{share}. Of plain search's first ten documents {self.kept:.0%} came back; a judged "
            f"document is among the first ten of {self.found:.0%} of queries, of plain search {self.plainly_found:.0%}"
        )


def judgements(folder: Path) -> dict[str, Grades]:
    """Of a BEIR folder's test split by the text of the query; empty where it has none.

    Raises:
        ConfigurationError, EncodingError: as the readers say.
    """
    if not (folder / "qrels" / f"{SPLIT}.tsv").exists():
        return {}
    texts, qrels = read_beir_queries(folder), read_beir_qrels(folder, SPLIT)
    found = {query: {d: g for d, g in grades.items() if g > 0} for query, grades in qrels.items()}
    return {texts[query]: grades for query, grades in found.items() if grades and query in texts}


def worth(
    provider: Path,
    tenant: str,
    answers: Sequence[tuple[DemoQuery, Result]],
    judged: Mapping[str, Grades],
    embedder: Embedder,
) -> Worth | None:
    """Hold answers against the index in the provider's folder, once its process has ended.  None: nothing was judged.

    A query that several accounts asked counts once, with the mean of their answers.
    """
    given: dict[str, list[Result]] = {}
    for query, result in answers:
        if query.text in judged:
            given.setdefault(query.text, []).append(result)
    if not given:
        return None
    with State(provider) as state:
        rows = state.rows("SELECT document, row FROM documents WHERE tenant = ? ORDER BY slot", (tenant,))
    place_of_document = {document: at for at, (document, _) in enumerate(rows)}
    matrix = np.stack([np.frombuffer(row, dtype=np.int8) for *_, row in rows]).astype(np.int32)
    vectors = quantise(embedder.embed(list(given), role="query")).astype(np.int32)
    relevant = tuple(
        {
            place_of_document[document]: grade
            for document, grade in judged[text].items()
            if document in place_of_document
        }
        for text in given
    )
    work = Workload("the demo's own queries", len(rows), vectors @ matrix.T, relevant)
    judge = Judge(work)
    measured = []
    for at, results in enumerate(given.values()):
        if not relevant[at]:
            continue
        order = np.lexsort((np.arange(len(rows)), -work.scores[at]))
        plain, wanted = order[:RANKS].tolist(), relevant[at].keys()
        lists = [[place_of_document[one.id] for one in result.ranked or ()] for result in results]
        measured.append(
            (
                float(np.mean([judge.ndcg(at, places[:RANKS]) for places in lists])),
                judge.ndcg(at, plain),
                float(np.mean([len(set(plain).intersection(places)) / len(plain) for places in lists])),
                float(np.mean([not wanted.isdisjoint(places[:RANKS]) for places in lists])),
                float(not wanted.isdisjoint(plain)),
            )
        )
    return Worth(len(measured), *map(float, np.mean(measured, axis=0))) if measured else None

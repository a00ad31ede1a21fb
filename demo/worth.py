# SPDX-License-Identifier: GPL-3.0-or-later
"""What the demo's answers are worth beside plain search by the same embeddings, and by a corpus' judgements."""

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
class Judged:
    """Means over the distinct judged queries that were asked."""

    queries: int
    ndcg10: float  #: of what accounts were given, as their clients rank it
    noise_free: float  #: of the best ten documents by the same embeddings
    found: float  #: share of queries with a judged document among the first ten
    plainly_found: float  #: the same of plain search

    @property
    def sentence(self) -> str:
        share = f" ({self.ndcg10 / self.noise_free:.0%})" if self.noise_free else ""
        return (
            f"nDCG@10 of {self.queries} judged queries: {self.ndcg10:.3f}; without noise and coin "
            f"{self.noise_free:.3f}{share}. A judged document is among the first ten of {self.found:.0%} of queries, "
            f"of plain search {self.plainly_found:.0%}"
        )


@dataclass(frozen=True, slots=True)
class Worth:
    """Means over the distinct queries that were asked."""

    queries: int
    kept: float  #: share of plain search's first ten documents that accounts were given
    judged: Judged | None = None  #: where the corpus has judgements


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
    provider: Path, answers: Sequence[tuple[DemoQuery, Result]], judged: Mapping[str, Grades], embedder: Embedder
) -> Worth:
    """Hold answers against the indices in the provider's folder, once its process has ended.

    A query that several accounts of a tenant asked counts once, with the mean of their answers.
    """
    given: dict[str, dict[str, list[Result]]] = {}
    for query, result in answers:
        given.setdefault(query.tenant, {}).setdefault(query.text, []).append(result)
    kept, rated = [], []
    with State(provider) as state:
        for tenant, results in given.items():
            rows = state.rows("SELECT document, row FROM documents WHERE tenant = ? ORDER BY slot", (tenant,))
            of_tenant = _measured(rows, results, judged, embedder)
            kept += [one for one, _ in of_tenant]
            rated += [one for _, one in of_tenant if one is not None]
    found = Judged(len(rated), *map(float, np.mean(rated, axis=0))) if rated else None
    return Worth(len(kept), float(np.mean(kept)), found)


def _measured(
    rows: Sequence[tuple[str, bytes]],
    given: Mapping[str, Sequence[Result]],
    judged: Mapping[str, Grades],
    embedder: Embedder,
) -> list[tuple[float, tuple[float, float, float, float] | None]]:
    """Of each query of a tenant: the share that was kept, and where it is judged the numbers of :class:`Judged`."""
    places = {document: at for at, (document, _) in enumerate(rows)}
    matrix = np.stack([np.frombuffer(row, dtype=np.int8) for *_, row in rows]).astype(np.int32)
    vectors = quantise(embedder.embed(list(given), role="query")).astype(np.int32)
    relevant = tuple(
        {places[document]: grade for document, grade in judged.get(text, {}).items() if document in places}
        for text in given
    )
    work = Workload("the demo's own queries", len(rows), vectors @ matrix.T, relevant)
    judge = Judge(work)
    out: list[tuple[float, tuple[float, float, float, float] | None]] = []
    for at, results in enumerate(given.values()):
        order = np.lexsort((np.arange(len(rows)), -work.scores[at]))
        plain, wanted = order[:RANKS].tolist(), relevant[at].keys()
        lists = [[places[one.id] for one in result.ranked or ()] for result in results]
        kept = float(np.mean([len(set(plain).intersection(found)) / len(plain) for found in lists]))
        rated = None
        if wanted:
            rated = (
                float(np.mean([judge.ndcg(at, found[:RANKS]) for found in lists])),
                judge.ndcg(at, plain),
                float(np.mean([not wanted.isdisjoint(found[:RANKS]) for found in lists])),
                float(not wanted.isdisjoint(plain)),
            )
        out.append((kept, rated))
    return out

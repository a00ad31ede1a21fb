# SPDX-License-Identifier: GPL-3.0-or-later
"""What is asked of a gateway and how its results look: its own form, and that of OpenAI's vector stores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ragseal.client.filters import Filter, noting, parse_filter
from ragseal.client.result import Opened, Ranked, Result
from ragseal.kernel.attestation import MAX_QUERY_BYTES
from ragseal.kernel.errors import EncodingError
from ragseal.runtime.face import counted
from ragseal.runtime.metadata import Plain

MOST_RESULTS = 50
RANKERS = ("auto", "none", "default-2024-11-15")  #: of OpenAI's; the order here is that of the cosines
MOST_QUERIES = 8  #: texts of one search; each costs a query of the account's budget


@dataclass(frozen=True, slots=True)
class Search:
    """One search."""

    queries: tuple[str, ...]
    most: int = 10  #: results
    least_score: float = 0.0  #: cosine below which a result is left out; nothing is where there is no embedder
    keep: Filter | None = None

    @classmethod
    def of(cls, body: object, known: frozenset[str]) -> Search:
        """From a request's JSON.

        Args:
            known: members that it may have.

        Raises:
            EncodingError: says which member is wrong; nothing was asked, and no budget used.
        """
        if not isinstance(body, dict):
            raise EncodingError("expected a JSON object")
        if strange := set(body) - known:
            raise EncodingError(f"unknown member {sorted(map(str, strange))[0][:40]!r}: known are {sorted(known)}")
        if body.get("rewrite_query"):
            raise EncodingError("rewrite_query: no model rewrites queries here; leave it out")
        given = body.get("query")
        listed = given if isinstance(given, list) else [given]
        queries = [one for one in listed if isinstance(one, str) and one.strip()]
        if not 1 <= len(listed) <= MOST_QUERIES or len(queries) < len(listed):
            raise EncodingError(f"query: a text that is not empty, or at most {MOST_QUERIES} of them")
        if any("\ud800" <= ch <= "\udfff" for q in queries for ch in q):
            raise EncodingError("query: half of a surrogate pair is not text")
        if any(len(q.encode()) > MAX_QUERY_BYTES for q in queries):
            raise EncodingError(f"query: at most {MAX_QUERY_BYTES} bytes")
        most = body.get("max_num_results", 10)
        if isinstance(most, bool) or not isinstance(most, int) or not 1 <= most <= MOST_RESULTS:
            raise EncodingError(f"max_num_results: a whole number from 1 to {MOST_RESULTS}")
        ranking = {} if body.get("ranking_options") is None else body["ranking_options"]
        if not isinstance(ranking, dict) or set(ranking) - {"ranker", "score_threshold"}:
            raise EncodingError('ranking_options: an object with "score_threshold" ("ranker" changes nothing)')
        if ranking.get("ranker", "auto") not in RANKERS:
            raise EncodingError(f"ranking_options.ranker: one of {', '.join(RANKERS)}, none of which changes the order")
        least = ranking.get("score_threshold", 0.0)
        if isinstance(least, bool) or not isinstance(least, int | float) or not 0 <= least <= 1:
            raise EncodingError("ranking_options.score_threshold: a number from 0 to 1")
        keep = None if body.get("filters") is None else parse_filter(body["filters"])
        return cls(tuple(queries), most, float(least), keep)

    def chosen(self, results: list[Result]) -> list[tuple[Opened, Result]]:
        """Of all that came back: what passes the filters, each document once, best first where there are scores.

        An answer in words brings no document: what it opens are keywords.
        """
        found: dict[str, tuple[Opened, Result]] = {}
        for result in results:
            if result.answer is not None:
                continue
            for one in result.opened if result.ranked is None else result.ranked:
                if self.keep is not None and not self.keep(one.metadata):
                    continue
                if isinstance(one, Ranked) and one.cosine < self.least_score:
                    continue
                if one.id not in found or score_of(one) > score_of(found[one.id][0]):
                    found[one.id] = (one, result)
        ordered = sorted(found.values(), key=lambda pair: -score_of(pair[0]))  # stable: slot order without scores
        return ordered[: self.most]


def score_of(one: Opened) -> float:
    """Cosine, in [0, 1] as OpenAI has it; 0 without an embedder."""
    return min(1.0, max(0.0, one.cosine)) if isinstance(one, Ranked) else 0.0


def place(result: Result) -> dict[str, Any]:
    """Where an answer is recorded."""
    request = result.record.signed.request
    return {
        "window": request.window,
        "seq": result.record.seq,
        "ledger_index": result.receipt.body.index,
        "receipt": result.receipt.digest().hex(),
        "checked": result.checked,
        "claim": result.claim,
    }


def own_form(search: Search, results: list[Result]) -> dict[str, Any]:
    """``POST /v1/search``: documents, each query's record, and notes on what filters could not compare."""
    with noting() as noted:
        chosen = search.chosen(results)
    return {
        "results": [
            {
                "id": one.id, "text": one.text, "metadata": dict(one.metadata),
                "score": score_of(one) if isinstance(one, Ranked) else None, "seq": result.record.seq,
            }
            for one, result in chosen
        ],
        "notes": _lines(noted),
        "answers": [
            {
                "query": query, "returned": len(result.returned),
                "documents": len(result.opened) if result.answer is None else 0,
                "unanswered_windows": list(result.unanswered), "answer": result.answer,
                "keywords": list(result.keywords), **place(result),
            }
            for query, result in zip(search.queries, results, strict=True)
        ],
    }  # fmt: skip


def openai_form(search: Search, results: list[Result]) -> dict[str, Any]:
    """``POST /v1/vector_stores/{tenant}/search``: a page of vector_store.search_results.

    An answer in words stands where documents would: a result of its own, without a score.
    """
    answers = [one for one in results if one.answer is not None]
    with noting() as noted:
        chosen = search.chosen(results)
    return {
        "object": "vector_store.search_results.page",
        "search_query": list(search.queries),
        "data": [
            *(_page_row("answer", one.answer or "", 0.0, {}, one) for one in answers),
            *(_page_row(one.id, one.text, score_of(one), one.metadata, made) for one, made in chosen),
        ],
        **({"ragseal_notes": lines} if (lines := _lines(noted)) else {}),
        "has_more": False,
        "next_page": None,
    }  # fmt: skip


def _lines(noted: Counter[str]) -> list[str]:
    return [f"{said} ({counted(count, 'document')})" for said, count in noted.items()]


def _page_row(name: str, text: str, score: float, metadata: Mapping[str, Plain], result: Result) -> dict[str, Any]:
    where = place(result)
    return {
        "file_id": name, "filename": name, "score": score,
        "attributes": {**metadata, "ragseal_window": where["window"], "ragseal_seq": where["seq"],
                       "ragseal_checked": result.checked},
        "content": [{"type": "text", "text": text}],
    }  # fmt: skip

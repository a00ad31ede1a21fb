# SPDX-License-Identifier: GPL-3.0-or-later
"""The Haystack component in Haystack's pipelines: saved, loaded, run, awaited, joined, traced."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("haystack")

from haystack import Document, Pipeline, tracing
from haystack.components.joiners import DocumentJoiner
from haystack.tracing import Span, Tracer
from haystack.utils.filters import document_matches_filter

from ragseal.client.adapters import Account
from ragseal.client.adapters.haystack import RagsealRetriever, parse_filters
from ragseal.kernel.errors import ConfigurationError, EncodingError, TransportError

pytestmark = pytest.mark.slow
Make = Callable[..., Account]
TRUSTED = ["ragseal.client.adapters.haystack"]
QUESTION = "acme report number 7 about topic 10"


def pipeline_of(*retrievers: RagsealRetriever) -> Pipeline:
    """Their documents joined."""
    pipeline = Pipeline()
    pipeline.add_component("joiner", DocumentJoiner(join_mode="concatenate"))
    for n, one in enumerate(retrievers):
        pipeline.add_component(f"retriever{n}", one)
        pipeline.connect(f"retriever{n}.documents", "joiner.documents")
    return pipeline


def test_a_pipeline_is_saved_loaded_run_and_awaited(account: Make) -> None:
    one = account()
    filters = {"field": "meta.draft", "operator": "!=", "value": True}
    made = pipeline_of(RagsealRetriever(one, top_k=2, score_threshold=0.1, filters=filters))
    text = made.dumps()
    assert one.folder in text
    for line in (Path(one.folder) / "account.pem").read_text().splitlines():
        assert line not in text
    again = Pipeline.loads(text, allowed_modules=TRUSTED)
    assert again.dumps() == text
    first = made.run({"retriever0": {"query": QUESTION}})["joiner"]["documents"]
    second = asyncio.run(again.run_async({"retriever0": {"query": QUESTION}}))["joiner"]["documents"]
    assert len(first) == len(second) == 2
    assert [d.meta["ragseal"]["seq"] + 1 for d in first] == [d.meta["ragseal"]["seq"] for d in second]
    assert first[0].score >= first[1].score > 0
    asyncio.run(again.run_async({"retriever0": {"query": QUESTION, "top_k": 1}}))


def test_a_component_comes_back_from_its_dictionary(account: Make) -> None:
    made = RagsealRetriever(account(), top_k=1)
    again = RagsealRetriever.from_dict(made.to_dict())
    assert again.to_dict() == made.to_dict()
    (found,) = again.run(QUESTION)["documents"]
    assert isinstance(found, Document)


def test_many_are_awaited_at_once(account: Make) -> None:
    made = RagsealRetriever(account())

    async def run() -> list[Any]:
        return list(await asyncio.gather(*(made.run_async(f"topic {i}") for i in range(8))))

    assert len({one["documents"][0].meta["ragseal"]["seq"] for one in asyncio.run(run())}) == 8


def test_answers_are_joined_by_id(bench: Any) -> None:
    client = bench.client()
    made = pipeline_of(RagsealRetriever(client), RagsealRetriever(client))
    found = made.run({"retriever0": {"query": "json"}, "retriever1": {"query": "json"}})["joiner"]["documents"]
    ids = [d.id for d in found]
    assert len(ids) == len(set(ids))
    assert all(one.startswith("d") for one in ids), "the documents' own ids, not hashes of what is in them"


class Recorded(Tracer):
    """Keeps the spans of components."""

    def __init__(self) -> None:
        self.components: list[str] = []

    @contextmanager
    def trace(self, operation_name: str, tags: Any = None, parent_span: Any = None) -> Iterator[Span]:
        self.components.append((tags or {}).get("haystack.component.name", operation_name))

        class Nothing(Span):
            def set_tag(self, key: str, value: Any) -> None:
                pass

        yield Nothing()

    def current_span(self) -> Span | None:
        return None


def test_tracers_see_the_component(bench: Any) -> None:
    made, tracer = pipeline_of(RagsealRetriever(bench.client())), Recorded()
    tracing.enable_tracing(tracer)
    try:
        made.run({"retriever0": {"query": "json"}})
        asyncio.run(made.run_async({"retriever0": {"query": "json"}}))
    finally:
        tracing.disable_tracing()
    assert tracer.components.count("retriever0") == 2


FILTERS: list[dict[str, Any]] = [
    {"field": "meta.n", "operator": operator, "value": value} for operator, value in (
        ("==", 3), ("!=", 3), (">", 2), (">=", 4), ("<", 4), ("<=", 2), ("in", [1, 3]), ("not in", [1, 3]),
    )
]  # fmt: skip
FILTERS += [
    {"operator": operator, "conditions": [FILTERS[i], FILTERS[j]]}
    for operator in ("AND", "OR", "NOT")
    for i, j in ((0, 1), (0, 2), (1, 3))
]
FILTERS += [{"operator": "NOT", "conditions": [FILTERS[-1]]}, {"field": "n", "operator": "==", "value": 3}]
FILTERS += [{"field": "meta.gone", "operator": operator, "value": 3} for operator in ("==", "!=", ">", "<=")]


@pytest.mark.parametrize("filters", FILTERS, ids=str)
def test_filters_mean_what_they_mean_in_haystack(filters: dict[str, Any]) -> None:
    kept = document_matches_filter(filters, Document(content="a", meta={"n": 3}))
    assert parse_filters(filters)({"n": 3}) is kept


def test_a_run_may_choose_otherwise(bench: Any) -> None:
    nowhere = {"field": "meta.source", "operator": "==", "value": "nowhere"}
    made = RagsealRetriever(bench.client(), filters=nowhere)
    assert made.run("json") == {"documents": []}
    found = made.run("json", filters={"field": "meta.source", "operator": "!=", "value": "nowhere"}, top_k=1)
    assert len(found["documents"]) == 1
    assert made.run("json", filters={}, score_threshold=1.0) == {"documents": []}


def test_what_is_wrong_is_said_before_anything_is_asked(bench: Any) -> None:
    client = bench.client()
    before = bench.snapshot()
    deep: dict[str, Any] = FILTERS[0]
    for _ in range(9):
        deep = {"operator": "AND", "conditions": [deep]}
    for given, why in (
        ({"top_k": 0}, "whole number"),
        ({"score_threshold": -2}, "least score"),
        ({"filters": {"field": "meta.a", "operator": "like", "value": "b"}}, "'like' is none of"),
        ({"filters": {"field": "content", "operator": "==", "value": "b"}}, "is not metadata"),
        ({"filters": {"field": "meta.a", "operator": "=="}}, "a value is"),
        ({"filters": {"operator": "AND", "conditions": []}}, "a group has"),
        ({"filters": [1]}, "expected"),
        ({"filters": deep}, "deep"),
    ):
        with pytest.raises(EncodingError, match=why):
            RagsealRetriever(client, **given)
        with pytest.raises(EncodingError, match=why):
            RagsealRetriever(client).run("json", **given)
    with pytest.raises(ConfigurationError, match="cannot be saved"):
        pipeline_of(RagsealRetriever(client)).dumps()
    with pytest.raises(ConfigurationError, match="nothing was sent"):
        RagsealRetriever(Account("a", "b:1", embedder=None), score_threshold=0.5)
    assert bench.snapshot() == before


def test_a_closed_window_leaves_the_component(bench: Any) -> None:
    bench.provider.stage = "closed"
    made = RagsealRetriever(bench.client())
    with pytest.raises(TransportError, match="is closed"):
        made.run("json")
    with pytest.raises(TransportError, match="is closed"):
        asyncio.run(made.run_async("json"))

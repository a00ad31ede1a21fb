# SPDX-License-Identifier: GPL-3.0-or-later
"""The LlamaIndex retriever: async, duplicates, prompts, filters, events, files; on a live provider and a small one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("llama_index.core")

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.callbacks import CallbackManager, CBEventType, LlamaDebugHandler
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events.retrieval import RetrievalEndEvent, RetrievalStartEvent
from llama_index.core.schema import IndexNode, MetadataMode, NodeWithScore
from llama_index.core.vector_stores import FilterCondition, MetadataFilter, MetadataFilters

from ragseal.client.adapters import Account
from ragseal.client.adapters.llama_index import RagsealRetriever, parse_filters
from ragseal.kernel.errors import ConfigurationError, EncodingError, TransportError

pytestmark = pytest.mark.slow
Make = Callable[..., Account]


def of(*filters: Any, condition: str = "and") -> MetadataFilters:
    return MetadataFilters(filters=list(filters), condition=FilterCondition(condition))


def where(key: str, operator: str, value: Any) -> MetadataFilter:
    return MetadataFilter(key=key, operator=operator, value=value)


def test_nodes_have_ids_sources_and_scores(account: Make) -> None:
    found = RagsealRetriever(account(), similarity_top_k=2).retrieve("acme report number 7 about topic 10")
    assert len(found) == 2
    for one in found:
        assert one.node.node_id.startswith("acme-")
        assert one.node.ref_doc_id == one.node.node_id
        assert one.node.metadata["ragseal"]["window"] == "w1"
    assert found[0].score >= found[1].score > 0


def test_a_saved_retriever_asks_the_same_account(account: Make) -> None:
    filters = of(where("draft", "!=", "yes"), of(where("n", "in", ["1"]), condition="not"))
    made = RagsealRetriever(account(), similarity_top_k=2, similarity_cutoff=0.1, filters=filters)
    text = json.dumps(made.to_dict())
    again = RagsealRetriever.from_dict(json.loads(text), callback_manager=CallbackManager())
    assert json.dumps(again.to_dict()) == text
    seqs = [one.retrieve("topic 3")[0].node.metadata["ragseal"]["seq"] for one in (made, again)]
    assert seqs[1] == seqs[0] + 1


def test_many_are_awaited_at_once(account: Make) -> None:
    made = RagsealRetriever(account())

    async def run() -> list[list[NodeWithScore]]:
        return list(await asyncio.gather(*(made.aretrieve(f"topic {i}") for i in range(8))))

    found = asyncio.run(run())
    assert len({nodes[0].node.metadata["ragseal"]["seq"] for nodes in found}) == 8


def test_duplicates_of_two_answers_are_removed_by_id(bench: Any) -> None:
    """LlamaIndex removes duplicates where one retriever hands on what others found."""
    inner = RagsealRetriever(bench.client())

    class Twice(BaseRetriever):
        def _retrieve(self, query_bundle: Any) -> list[NodeWithScore]:
            return [NodeWithScore(node=IndexNode(text=name, index_id=name, obj=inner), score=1.0) for name in "ab"]

    for found in (Twice().retrieve("json"), asyncio.run(Twice().aretrieve("json"))):
        ids = [one.node.node_id for one in found]
        assert len(ids) == len(set(ids)) < 6, "three of each, some of them in both"


def test_a_prompt_has_the_metadata_and_not_the_record(bench: Any) -> None:
    found = RagsealRetriever(bench.client()).retrieve("json")
    assert found
    for one in found:
        for mode in (MetadataMode.LLM, MetadataMode.EMBED):
            said = one.node.get_content(metadata_mode=mode)
            assert "source: notes-" in said
            assert "ragseal" not in said


def test_those_who_listen_are_told(bench: Any) -> None:
    debug = LlamaDebugHandler(print_trace_on_end=False)
    made = RagsealRetriever(bench.client(), similarity_top_k=1, callback_manager=CallbackManager([debug]))
    heard: list[Any] = []

    class Listens(BaseEventHandler):
        def handle(self, event: Any, **_: Any) -> None:
            heard.append(event)

    listener, root = Listens(), get_dispatcher()
    root.add_event_handler(listener)
    try:
        (first,) = made.retrieve("json")
        (second,) = asyncio.run(made.aretrieve("json"))
    finally:
        root.event_handlers.remove(listener)
    kinds = [type(one) for one in heard]
    assert kinds == [RetrievalStartEvent, RetrievalEndEvent] * 2
    assert [heard[i].nodes for i in (1, 3)] == [[first], [second]]
    assert len(debug.get_event_pairs(CBEventType.RETRIEVE)) == 2


@pytest.mark.parametrize(
    ("filters", "kept"),
    [
        (of(where("n", "==", 3)), True),
        (of(where("n", "!=", 3)), False),
        (of(where("n", ">", 2), where("n", "<", 4)), True),
        (of(where("n", ">=", 4), where("n", "<=", 3)), False),
        (of(where("n", ">=", 4), where("n", "<=", 3), condition="or"), True),
        (of(where("s", "in", ["a", "b"]), where("s", "nin", ["c"])), True),
        (of(where("s", "==", "c"), condition="not"), True),
        (of(where("s", "==", "c"), where("n", "==", 3), condition="not"), False),
        (of(of(where("s", "==", "c")), where("n", "==", 3), condition="or"), True),
        (of(where("gone", ">", 1)), False),
        (of(where("s", ">", 1)), False),
    ],
    ids=str,
)
def test_filters(filters: MetadataFilters, kept: bool) -> None:
    assert parse_filters(filters)({"n": 3, "s": "a"}) is kept


def test_filters_are_applied_to_an_answer(bench: Any) -> None:
    made = RagsealRetriever(bench.client(), filters=of(where("source", "==", "nowhere")))
    assert made.retrieve("json") == []
    assert asyncio.run(made.aretrieve("json")) == []


def test_what_is_wrong_is_said_before_anything_is_asked(bench: Any) -> None:
    client = bench.client()
    before = bench.snapshot()
    deep = of(where("n", "==", 3))
    for _ in range(9):
        deep = of(deep)
    for given, why in (
        ({"similarity_top_k": -1}, "whole number"),
        ({"similarity_cutoff": 9}, "least score"),
        ({"filters": of(where("s", "text_match", "a"))}, "'text_match' is none of"),
        ({"filters": of(where("s", "==", None))}, "a value is"),
        ({"filters": deep}, "deep"),
    ):
        with pytest.raises(EncodingError, match=why):
            RagsealRetriever(client, **given)
    with pytest.raises(ConfigurationError, match="cannot be saved"):
        RagsealRetriever(client).to_dict()
    with pytest.raises(ConfigurationError, match="nothing was sent"):
        RagsealRetriever(Account("a", "b:1", embedder=None), similarity_cutoff=0.5)
    assert bench.snapshot() == before


def test_a_closed_window_leaves_the_pipeline(bench: Any) -> None:
    bench.provider.stage = "closed"
    made = RagsealRetriever(bench.client())
    with pytest.raises(TransportError, match="is closed"):
        made.retrieve("json")
    with pytest.raises(TransportError, match="is closed"):
        asyncio.run(made.aretrieve("json"))

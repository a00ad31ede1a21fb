# SPDX-License-Identifier: GPL-3.0-or-later
"""Adapters: real frameworks where they are installed, a clear refusal where not."""

from __future__ import annotations

import dataclasses
import importlib
import json
import sys
from typing import Any

import pytest

from ragseal.client.adapters.passages import passages, witnessed
from ragseal.client.result import Opened
from ragseal.kernel.errors import AttestationError, ConfigurationError, TransportError
from ragseal.runtime.metadata import mapping_of
from tests.client.test_witnesses import KEYS, POLICY, asked, cosigned, newest

FRAMEWORKS = {"langchain": "langchain_core", "llamaindex": "llama_index.core", "haystack": "haystack"}


def retrieved(name: str, client: Any, **options: Any) -> list[tuple[str, str, dict[str, Any]]]:
    """Id, text and metadata of what the framework hands on."""
    made = importlib.import_module(f"ragseal.client.adapters.{name}").make_retriever(client, **options)
    if name == "langchain":
        return [(d.id, d.page_content, d.metadata) for d in made.invoke("json")]
    if name == "llamaindex":
        return [(n.node.node_id, n.node.text, n.node.metadata) for n in made.retrieve("json")]
    return [(d.id, d.content, d.meta) for d in made.run(query="json")["documents"]]


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_documents_have_their_own_ids_and_metadata(bench: Any, name: str) -> None:
    pytest.importorskip(FRAMEWORKS[name])
    client = bench.client()
    found = retrieved(name, client)
    answer = client.state.windows()[0].answer(1)
    opened = {s.content.id: s.content for s in answer.openings.slots if s.content is not None}
    assert opened
    assert {document for document, _, _ in found} == set(opened)
    for document, text, metadata in found:
        assert text == opened[document].text
        place = metadata.pop("ragseal")
        assert place == {"window": "w1", "seq": answer.receipt.body.seq, "checked": True}
        assert metadata == mapping_of(opened[document].metadata)
        json.dumps(metadata)


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_document_has_one_id_at_every_query(bench: Any, name: str) -> None:
    """So pipelines that join results or remove duplicates can."""
    pytest.importorskip(FRAMEWORKS[name])
    client = bench.client()
    seen: dict[str, str] = {}
    for _ in range(3):
        for document, text, _ in retrieved(name, client):
            assert seen.setdefault(text, document) == document
    assert len(set(seen.values())) == len(seen)


def test_haystack_joins_answers_by_id(bench: Any) -> None:
    pytest.importorskip("haystack")
    joiners = importlib.import_module("haystack.components.joiners")
    made = importlib.import_module("ragseal.client.adapters.haystack").make_retriever(bench.client())
    first, second = (made.run(query="json")["documents"] for _ in range(2))
    joined = joiners.DocumentJoiner(join_mode="concatenate").run(documents=[first, second])["documents"]
    assert sorted(d.id for d in joined) == sorted({d.id for d in (*first, *second)})


def test_a_prompt_of_llamaindex_has_the_metadata_and_not_the_record(bench: Any) -> None:
    schema = pytest.importorskip("llama_index.core.schema")
    made = importlib.import_module("ragseal.client.adapters.llamaindex").make_retriever(bench.client())
    found = made.retrieve("json")
    assert found
    for one in found:
        said = one.node.get_content(metadata_mode=schema.MetadataMode.LLM)
        assert "source: notes-" in said
        assert "ragseal" not in said


def test_a_document_cannot_say_where_its_answer_was_recorded(bench: Any) -> None:
    """A provider may commit to whatever it likes under the adapters' own key."""
    result = bench.client().ask("json")
    claimed = {"ragseal": "seq 7, checked", "source": "a"}
    liar = Opened(3, "d3", "text", claimed)
    (found,) = passages(dataclasses.replace(result, opened=(liar,), ranked=None))
    assert found.metadata == {
        "source": "a",
        "ragseal": {"window": "w1", "seq": result.record.seq, "checked": result.checked},
    }


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_failed_check_leaves_the_pipeline(bench: Any, name: str) -> None:
    pytest.importorskip(FRAMEWORKS[name])
    bench.provider.stage = "closed"
    with pytest.raises(AttestationError, match="is closed"):
        retrieved(name, bench.client())


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_pipeline_waits_for_the_witnesses_that_it_names(bench: Any, name: str) -> None:
    pytest.importorskip(FRAMEWORKS[name])
    with pytest.raises(TransportError, match="no witness has cosigned"):
        retrieved(name, bench.client(), witness_policy=POLICY)
    assert not asked(bench)
    bench.provider.witnessed = cosigned(newest(bench), *KEYS[:2])
    assert retrieved(name, bench.client(), witness_policy=POLICY)


def test_a_policy_reaches_the_client_whatever_framework_asks(bench: Any) -> None:
    with pytest.raises(TransportError, match="no witness has cosigned"):
        witnessed(bench.client(), POLICY).ask("json")
    assert witnessed(bench.client(), None).ask("json").checked


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_missing_package_is_named(bench: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in list(sys.modules):
        if module.split(".")[0] == FRAMEWORKS[name].split(".")[0]:
            monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, FRAMEWORKS[name].split(".")[0], None)
    with pytest.raises(ConfigurationError, match="pip install"):
        retrieved(name, bench.client())


def test_without_an_embedder_there_is_no_score(bench: Any) -> None:
    found = passages(bench.client(embedder=None).ask("json"))
    assert found
    assert all(p.score is None for p in found)
    slots = [int(p.id.removeprefix("d")) for p in found]
    assert slots == sorted(slots)

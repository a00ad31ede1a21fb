# SPDX-License-Identifier: GPL-3.0-or-later
"""What adapters hand on of an answer, and what they leave out; without any framework."""

from __future__ import annotations

import dataclasses
import importlib
import json
import sys
from typing import Any

import pytest

from ragseal.client.adapters.passages import Choice, passages
from ragseal.client.filters import parse_filter
from ragseal.client.result import Opened
from ragseal.kernel.errors import AuditError, ConfigurationError, EncodingError, TransportError
from ragseal.runtime.metadata import mapping_of


def told(result: Any, **document: Any) -> dict[str, Any]:
    """What is recorded under ``ragseal`` of a result with this document alone."""
    one = Opened(**{"slot": 3, "id": "d3", "text": "text", "metadata": {}} | document)
    (found,) = passages(dataclasses.replace(result, opened=(one,), ranked=None))
    recorded: dict[str, Any] = found.metadata["ragseal"]
    return recorded


def test_documents_have_their_own_ids_metadata_and_scores(bench: Any) -> None:
    client = bench.client()
    result = client.ask("json")
    opened = {s.content.id: s.content for s in client.state.windows()[0].answer(1).openings.slots if s.content}
    found = passages(result)
    assert {one.id for one in found} == set(opened)
    assert [one.score for one in found] == sorted((one.cosine for one in result.ranked), reverse=True)
    for one in found:
        assert (one.text, one.own) == (opened[one.id].text, mapping_of(opened[one.id].metadata))
        assert one.metadata["ragseal"] == {
            "window": "w1", "seq": 0, "checked": True, "claim": result.claim, "id": one.id,
            "source": one.own["source"], "score": one.score,
        }  # fmt: skip
        json.dumps(one.metadata)
    assert result.claim


def test_a_document_cannot_say_where_its_answer_was_recorded(bench: Any) -> None:
    """A provider may commit to whatever it likes under the adapters' own key."""
    result = bench.client().ask("json")
    claimed = {"ragseal": "seq 7, checked", "source": "a"}
    assert told(result, metadata=claimed) == {
        "window": "w1", "seq": result.record.seq, "checked": result.checked, "claim": result.claim, "id": "d3",
        "source": "a",
    }  # fmt: skip


def test_a_citation_names_the_source_the_url_the_title_or_the_id(bench: Any) -> None:
    result = bench.client().ask("json")
    both = {"title": "Notes", "url": "https://example.org/notes"}
    assert told(result, metadata=both | {"source": "notes"})["source"] == "notes"
    assert told(result, metadata=both | {"source": 7})["source"] == both["url"]
    assert told(result, metadata={"title": "Notes", "source": " "})["source"] == "Notes"
    assert told(result)["source"] == "d3"


def test_without_an_embedder_there_is_no_score(bench: Any) -> None:
    found = passages(bench.client(embedder=None).ask("json"))
    assert found
    assert all(one.score is None and "score" not in one.metadata["ragseal"] for one in found)
    slots = [int(one.id.removeprefix("d")) for one in found]
    assert slots == sorted(slots)


def test_the_best_are_kept(bench: Any) -> None:
    result = bench.client().ask("json")
    everything = passages(result)
    assert len(everything) == 3
    assert Choice().of(result) == everything
    assert Choice(2).of(result) == everything[:2]
    assert Choice(50).of(result) == everything, "never more than came"
    middle = everything[1].score
    assert middle is not None
    assert Choice(least_score=middle).of(result) == everything[:2], "the bound belongs to what is kept"
    assert Choice(1, least_score=middle).of(result) == everything[:1]
    assert Choice(least_score=1.0).of(result) == []


def test_filters_are_on_what_the_provider_committed_to(bench: Any) -> None:
    result = bench.client().ask("json")
    wanted = passages(result)[-1].own["line"]
    (found,) = Choice(1, keep=parse_filter({"type": "eq", "key": "line", "value": wanted})).of(result)
    assert found.own["line"] == wanted, "chosen before the best are counted"
    assert Choice(keep=lambda metadata: "ragseal" in metadata).of(result) == []


WRONG: list[dict[str, Any]] = [
    {"most": 0}, {"most": True}, {"most": 2.0}, {"most": "2"}, {"least_score": 1.5}, {"least_score": "high"},
    {"least_score": True}, {"least_score": float("nan")},
]  # fmt: skip


@pytest.mark.parametrize("given", WRONG, ids=str)
def test_a_number_that_is_none_is_told_so(given: dict[str, Any]) -> None:
    with pytest.raises(EncodingError, match="or None for"):
        Choice(**given)


def test_a_least_score_needs_scores(bench: Any) -> None:
    choice = Choice(least_score=0.2)
    choice.check(embeds=True)
    with pytest.raises(ConfigurationError, match="nothing was sent"):
        choice.check(embeds=False)
    unranked = dataclasses.replace(bench.client().ask("json"), ranked=None)
    with pytest.raises(TransportError, match="no scores to choose by"):
        choice.of(unranked)


def test_an_answer_in_words_has_no_documents(bench: Any) -> None:
    result = dataclasses.replace(bench.client().ask("json"), answer="In words.")
    with pytest.raises(AuditError, match="answers in words"):
        Choice().of(result)


# An adapter whose framework is not installed says which extra brings it.


FRAMEWORKS = {
    "langchain": ("langchain_core", "langchain"),
    "llama_index": ("llama_index", "llama-index"),
    "haystack": ("haystack", "haystack"),
}


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_missing_package_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    package, extra = FRAMEWORKS[name]
    for module in list(sys.modules):
        if module.split(".")[0] == package or module == f"ragseal.client.adapters.{name}":
            monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"pip install 'ragseal\[{extra}\]'"):
        importlib.import_module(f"ragseal.client.adapters.{name}")

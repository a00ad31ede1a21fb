# SPDX-License-Identifier: GPL-3.0-or-later
"""LangChain's own tests of a retriever on a live provider, and what they do not ask: callbacks, files, citations."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langchain_core")
pytest.importorskip("langchain_tests")

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.load import dumps, loads
from langchain_core.runnables import ConfigurableField, RunnableLambda
from langchain_tests.integration_tests import RetrieversIntegrationTests

from examples import langchain as example
from ragseal.client.adapters import Account
from ragseal.client.adapters.langchain import RagsealRetriever
from ragseal.kernel.errors import ConfigurationError, EncodingError, TransportError

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:.*in beta", "ignore:.*not an async function")]
Make = Callable[..., Account]


class Heard(BaseCallbackHandler):
    """What a tracer is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Any]] = []

    def on_retriever_start(self, serialized: Any, query: str, **more: Any) -> None:
        self.told.append(("start", (query, more["metadata"]["ls_retriever_name"])))

    def on_retriever_end(self, documents: Any, **_: Any) -> None:
        self.told.append(("end", [one.id for one in documents]))

    def on_retriever_error(self, error: BaseException, **_: Any) -> None:
        self.told.append(("error", type(error).__name__))


@pytest.mark.asyncio
class TestLangChainsOwn(RetrieversIntegrationTests):
    """Their tests as they are."""

    @pytest.fixture(autouse=True)
    def _live(self, account: Make) -> None:
        self._account = account()

    @property
    def retriever_constructor(self) -> type[RagsealRetriever]:
        return RagsealRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"account": self._account}

    @property
    def retriever_query_example(self) -> str:
        return "acme report number 7 about topic 10"


def test_a_retriever_comes_back_from_its_text_and_asks(account: Make) -> None:
    one = account()
    filters = {"type": "ne", "key": "draft", "value": True}
    made = RagsealRetriever(account=one, k=2, score_threshold=0.1, filters=filters, tags=["mine"])
    text = dumps(made)
    assert one.folder in text
    again = loads(text, allowed_objects=[RagsealRetriever], valid_namespaces=["ragseal"])
    assert (again.account, again.k, again.score_threshold, again.filters, again.tags) == (
        one, 2, 0.1, filters, ["mine"],
    )  # fmt: skip
    assert dumps(again) == text
    first, second = made.invoke("topic 3"), again.invoke("topic 3")
    assert [d.metadata["ragseal"]["seq"] + 1 for d in first] == [d.metadata["ragseal"]["seq"] for d in second]


def test_no_key_is_in_the_text(account: Make) -> None:
    one = account()
    retriever = RagsealRetriever(account=one)
    retriever.invoke("topic 3")
    text = dumps(retriever) + repr(retriever)
    for line in (Path(one.folder) / "account.pem").read_text().splitlines():
        assert line not in text


def test_a_retriever_over_a_client_says_that_it_cannot_be_saved(bench: Any) -> None:
    made = RagsealRetriever(account=bench.client())
    assert made.to_json()["type"] == "not_implemented"
    assert [d.id for d in (made | RunnableLambda(lambda found: found)).invoke("json")], "chains ask for it all the same"


def test_a_copy_with_another_k_shares_the_account(account: Make) -> None:
    made = RagsealRetriever(account=account()).configurable_fields(k=ConfigurableField(id="k"))
    assert len(made.invoke("topic 3")) == 3
    assert len(made.with_config(configurable={"k": 1}).invoke("topic 3")) == 1


def test_a_batch_is_asked_one_after_another(account: Make) -> None:
    made = RagsealRetriever(account=account())
    seqs = [
        {d.metadata["ragseal"]["seq"] for d in found}
        for found in (*made.batch([f"topic {i}" for i in range(3)]), *asyncio.run(made.abatch(["topic 4", "topic 5"])))
    ]
    assert len(set.union(*seqs)) == 5


def test_tracers_are_told_of_questions_documents_and_errors(bench: Any) -> None:
    made, heard = RagsealRetriever(account=bench.client(), k=1), Heard()
    (first,) = made.invoke("json", {"callbacks": [heard]})
    (second,) = asyncio.run(made.ainvoke("xml", {"callbacks": [heard]}))
    bench.provider.stage = "closed"
    made = RagsealRetriever(account=bench.client())
    with pytest.raises(TransportError, match="is closed"):
        made.invoke("yaml", {"callbacks": [heard]})
    with pytest.raises(TransportError, match="is closed"):
        asyncio.run(made.ainvoke("yaml", {"callbacks": [heard]}))
    assert heard.told == [
        ("start", ("json", "ragseal")), ("end", [first.id]), ("start", ("xml", "ragseal")), ("end", [second.id]),
        *[("start", ("yaml", "ragseal")), ("error", "TransportError")] * 2,
    ]  # fmt: skip


def test_documents_carry_what_a_citation_needs(bench: Any) -> None:
    found = RagsealRetriever(account=bench.client()).invoke("json")
    assert found
    for one in found:
        recorded = one.metadata["ragseal"]
        assert (recorded["id"], recorded["source"]) == (one.id, one.metadata["source"])
        assert (recorded["window"], recorded["seq"], recorded["checked"]) == ("w1", 0, True)
    assert [d.metadata["ragseal"]["score"] for d in found] == sorted(
        (d.metadata["ragseal"]["score"] for d in found), reverse=True
    )


def test_a_call_may_choose_otherwise(bench: Any) -> None:
    made = RagsealRetriever(account=bench.client(), filters={"type": "eq", "key": "source", "value": "nowhere"})
    assert made.invoke("json") == []
    anything = {"type": "ne", "key": "source", "value": "nowhere"}
    assert len(made.invoke("json", filters=anything)) == 3
    assert asyncio.run(made.ainvoke("json", filters=anything, score_threshold=1.0)) == []


def test_what_is_set_later_counts(bench: Any) -> None:
    made = RagsealRetriever(account=bench.client())
    made.k = 1
    assert len(made.invoke("json")) == 1
    with pytest.raises(ValueError, match="frozen"):
        made.account = Account("a", "b:1")


def test_what_is_wrong_is_said_before_anything_is_asked(bench: Any) -> None:
    client = bench.client()
    before = bench.snapshot()
    with pytest.raises(EncodingError, match="whole number"):
        RagsealRetriever(account=client, k=0)
    with pytest.raises(EncodingError, match="none of eq"):
        RagsealRetriever(account=client, filters={"type": "like", "key": "a", "value": "b"})
    with pytest.raises(ConfigurationError, match="expected an Account"):
        RagsealRetriever(account="folder")
    with pytest.raises(ValueError, match="top_k"):
        RagsealRetriever(account=client, top_k=3)
    made = RagsealRetriever(account=client)
    with pytest.raises(EncodingError, match="least score"):
        made.invoke("json", score_threshold=7)
    with pytest.raises(TypeError, match="not 'top_k'"):
        made.invoke("json", top_k=3)
    blind = bench.client(embedder=None)
    with pytest.raises(ConfigurationError, match="nothing was sent"):
        RagsealRetriever(account=blind, score_threshold=0.5)
    assert bench.snapshot() == before


def test_the_example_asks(account: Make, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    one = account()
    monkeypatch.setattr(example, "Account", lambda *given: Account(*given, embedder="trigrams"))
    assert one.log_key is not None
    example.main(one.folder, one.provider, one.log_key, "acme report number 7")
    shown = capsys.readouterr().out
    assert shown.count("of window w1): acme report number") == 3

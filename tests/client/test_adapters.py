# SPDX-License-Identifier: GPL-3.0-or-later
"""Adapters: real frameworks where they are installed, a clear refusal where not."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import pytest

from ragseal.client.adapters.passages import passages
from ragseal.kernel.attestation import Receipt, Record
from ragseal.kernel.errors import AttestationError, ConfigurationError

FRAMEWORKS = {"langchain": "langchain_core", "llamaindex": "llama_index.core", "haystack": "haystack"}


def retrieved(name: str, client: Any) -> list[tuple[str, dict[str, Any]]]:
    made = importlib.import_module(f"ragseal.client.adapters.{name}").make_retriever(client)
    if name == "langchain":
        return [(d.page_content, d.metadata) for d in made.invoke("json")]
    if name == "llamaindex":
        return [(n.node.text, n.node.metadata) for n in made.retrieve("json")]
    return [(d.content, d.meta) for d in made.run(query="json")["documents"]]


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_documents_carry_their_receipt(bench: Any, name: str) -> None:
    pytest.importorskip(FRAMEWORKS[name])
    client = bench.client()
    found = retrieved(name, client)
    answer = client.state.windows()[0].answer(1)
    assert sorted(text for text, _ in found) == sorted(s.text for s in answer.openings.slots if s.text is not None)
    for _, metadata in found:
        proof = metadata["ragseal"]
        assert Receipt.decode(bytes.fromhex(proof["receipt"])) == answer.receipt
        assert Record.decode(bytes.fromhex(proof["record"])) == answer.record
        assert proof["checked"] is True


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_failed_check_leaves_the_pipeline(bench: Any, name: str) -> None:
    pytest.importorskip(FRAMEWORKS[name])
    bench.provider.stage = "closed"
    with pytest.raises(AttestationError, match="is closed"):
        retrieved(name, bench.client())


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
    assert all(p.score is None for p in found)
    assert [p.metadata["ragseal"]["slot"] for p in found] == sorted(p.metadata["ragseal"]["slot"] for p in found)

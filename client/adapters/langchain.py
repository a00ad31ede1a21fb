# SPDX-License-Identifier: GPL-3.0-or-later
"""A LangChain retriever over a Client (langchain-core)."""

from __future__ import annotations

from typing import Any

from ragseal.client.adapters.passages import Asks, WitnessPolicy, framework, passages, witnessed


def make_retriever(client: Asks, witness_policy: WitnessPolicy | None = None) -> Any:
    """A ``langchain_core.retrievers.BaseRetriever``; ``invoke(query)`` gives Documents.

    Args:
        witness_policy: as :meth:`ragseal.client.Client.require_witnesses` takes it: from now on this client uses only
            windows that a quorum of these witnesses was shown.

    Raises:
        ConfigurationError: as there, or langchain-core is not installed.
    """
    base = framework("langchain_core.retrievers", "langchain-core").BaseRetriever
    document = framework("langchain_core.documents", "langchain-core").Document
    asks = witnessed(client, witness_policy)

    class RagsealRetriever(base):  # type: ignore[misc, valid-type]
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Any]:
            return [document(id=p.id, page_content=p.text, metadata=p.metadata) for p in passages(asks.ask(query))]

    return RagsealRetriever()

# SPDX-License-Identifier: GPL-3.0-or-later
"""A LangChain retriever over a Client (langchain-core)."""

from __future__ import annotations

from typing import Any

from ragseal.client.adapters.passages import Asks, framework, passages


def make_retriever(client: Asks) -> Any:
    """A ``langchain_core.retrievers.BaseRetriever``; ``invoke(query)`` gives Documents.

    Raises:
        ConfigurationError: langchain-core is not installed.
    """
    base = framework("langchain_core.retrievers", "langchain-core").BaseRetriever
    document = framework("langchain_core.documents", "langchain-core").Document

    class RagsealRetriever(base):  # type: ignore[misc, valid-type]
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Any]:
            return [document(id=p.id, page_content=p.text, metadata=p.metadata) for p in passages(client.ask(query))]

    return RagsealRetriever()

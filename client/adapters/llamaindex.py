# SPDX-License-Identifier: GPL-3.0-or-later
"""A LlamaIndex retriever over a Client (llama-index-core)."""

from __future__ import annotations

from typing import Any

from ragseal.client.adapters.passages import Asks, framework, passages


def make_retriever(client: Asks) -> Any:
    """A ``llama_index.core.base.base_retriever.BaseRetriever``; ``retrieve(query)`` gives NodeWithScore.

    Where an answer is recorded is kept from prompts and embeddings: it is for programs.

    Raises:
        ConfigurationError: llama-index-core is not installed.
    """
    base = framework("llama_index.core.base.base_retriever", "llama-index-core").BaseRetriever
    schema = framework("llama_index.core.schema", "llama-index-core")

    class RagsealRetriever(base):  # type: ignore[misc, valid-type]
        def _retrieve(self, query_bundle: Any) -> list[Any]:
            return [
                schema.NodeWithScore(
                    node=schema.TextNode(
                        id_=p.id,
                        text=p.text,
                        metadata=p.metadata,
                        excluded_llm_metadata_keys=["ragseal"],
                        excluded_embed_metadata_keys=["ragseal"],
                    ),
                    score=p.score,
                )
                for p in passages(client.ask(query_bundle.query_str))
            ]

    return RagsealRetriever()

# SPDX-License-Identifier: GPL-3.0-or-later
"""A LlamaIndex retriever over a Client (llama-index-core)."""

from __future__ import annotations

from typing import Any

from ragseal.client.adapters.passages import Asks, WitnessPolicy, framework, passages, witnessed


def make_retriever(client: Asks, witness_policy: WitnessPolicy | None = None) -> Any:
    """A ``llama_index.core.base.base_retriever.BaseRetriever``; ``retrieve(query)`` gives NodeWithScore.

    Where an answer is recorded is kept from prompts and embeddings: it is for programs.

    Args:
        witness_policy: as :meth:`ragseal.client.Client.require_witnesses` takes it: from now on this client uses only
            windows that a quorum of these witnesses was shown.

    Raises:
        ConfigurationError: as there, or llama-index-core is not installed.
    """
    base = framework("llama_index.core.base.base_retriever", "llama-index-core").BaseRetriever
    schema = framework("llama_index.core.schema", "llama-index-core")
    asks = witnessed(client, witness_policy)

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
                for p in passages(asks.ask(query_bundle.query_str))
            ]

    return RagsealRetriever()

# SPDX-License-Identifier: GPL-3.0-or-later
"""A Haystack component over a Client (haystack-ai, version 2)."""

from __future__ import annotations

from types import GenericAlias
from typing import Any

from ragseal.client.adapters.passages import Asks, WitnessPolicy, framework, passages, witnessed


def make_retriever(client: Asks, witness_policy: WitnessPolicy | None = None) -> Any:
    """A component with ``run(query=...)`` that gives ``{"documents": [...]}``.

    Args:
        witness_policy: as :meth:`ragseal.client.Client.require_witnesses` takes it: from now on this client uses only
            windows that a quorum of these witnesses was shown.

    Raises:
        ConfigurationError: as there, or haystack-ai is not installed.
    """
    haystack = framework("haystack", "haystack-ai")
    asks = witnessed(client, witness_policy)

    class RagsealRetriever:
        def run(self, query: str) -> dict[str, list[Any]]:
            found = passages(asks.ask(query))
            made = [haystack.Document(id=p.id, content=p.text, meta=p.metadata, score=p.score) for p in found]
            return {"documents": made}

    declare = haystack.component.output_types(documents=GenericAlias(list, (haystack.Document,)))
    RagsealRetriever.run = declare(RagsealRetriever.run)  # type: ignore[method-assign]
    return haystack.component(RagsealRetriever)()

# SPDX-License-Identifier: GPL-3.0-or-later
"""A LlamaIndex retriever; ``pip install 'ragseal[llama-index]'``.

    retriever = RagsealRetriever(Account("account", "localhost:7800"), similarity_top_k=2)
    nodes = await retriever.aretrieve("How do I parse JSON?")

A node has its document's id, also as the source of citations.  Where its answer is recorded is kept from prompts and
embeddings: it is for programs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ragseal.client.adapters.asking import Asked, Asking
from ragseal.client.adapters.passages import RECORDED, Choice, Passage, needs
from ragseal.client.filters import MAX_DEPTH, Filter, parse_filter
from ragseal.kernel.errors import EncodingError

try:
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.schema import NodeRelationship, NodeWithScore, ObjectType, RelatedNodeInfo, TextNode
    from llama_index.core.vector_stores import FilterCondition, FilterOperator, MetadataFilters
except ImportError as error:
    raise needs("llama-index-core", "llama-index", error) from None


class RagsealRetriever(BaseRetriever):  # type: ignore[misc]  # where LlamaIndex is not installed
    """Checked documents of one account's provider, as nodes with scores."""

    def __init__(
        self,
        account: Asked | Mapping[str, Any],
        *,
        similarity_top_k: int | None = None,
        similarity_cutoff: float | None = None,
        filters: MetadataFilters | None = None,
        **rest: Any,
    ) -> None:
        """
        Args:
            account: an :class:`ragseal.client.adapters.Account`; or a Client, or to be awaited an AsyncClient or a
                Pool.
            similarity_top_k: the best so many nodes; by default all that came, never more than the window's K.
            similarity_cutoff: the least cosine, from -1 to 1.
            filters: on metadata; applied to what came back.
            rest: as of BaseRetriever, ``callback_manager`` among them.

        Raises:
            ConfigurationError, EncodingError: an argument that is none of these; nothing is opened yet.
        """
        super().__init__(**rest)
        self._asking, self._filters = Asking(account), filters
        keep = None if filters is None else parse_filters(filters)
        self._choice = Choice(similarity_top_k, similarity_cutoff, keep)
        self._choice.check(self._asking.embeds)

    def _retrieve(self, query_bundle: Any) -> list[NodeWithScore]:
        result = self._asking.ask(query_bundle.query_str, self._choice.scored)
        return [_node(one) for one in self._choice.of(result)]

    async def _aretrieve(self, query_bundle: Any) -> list[NodeWithScore]:
        return [
            _node(one)
            for one in self._choice.of(await self._asking.ask_async(query_bundle.query_str, self._choice.scored))
        ]

    def to_dict(self) -> dict[str, Any]:
        """What :meth:`from_dict` takes: the account's folder is named there, its key stays in the folder.

        Raises:
            ConfigurationError: this was made from a client.
        """
        values = {
            "similarity_top_k": self._choice.most,
            "similarity_cutoff": self._choice.least_score,
            "filters": None if self._filters is None else self._filters.model_dump(mode="json"),
        }
        given = {name: value for name, value in values.items() if value is not None}
        return {"account": self._asking.to_dict(), **given}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], **rest: Any) -> RagsealRetriever:
        """From :meth:`to_dict`; ``rest`` as of BaseRetriever.  Raises as the class itself."""
        given = dict(data)
        if given.get("filters") is not None:
            given["filters"] = MetadataFilters.model_validate(given["filters"])
        return cls(**given, **rest)

    def close(self) -> None:
        """Release the account's folder; the next question opens it again.  A client that was given stays open."""
        self._asking.close()


def _node(one: Passage) -> NodeWithScore:
    source = RelatedNodeInfo(node_id=one.id, node_type=ObjectType.DOCUMENT, metadata=one.own)
    node = TextNode(
        id_=one.id,
        text=one.text,
        metadata=one.metadata,
        relationships={NodeRelationship.SOURCE: source},
        excluded_llm_metadata_keys=[RECORDED],
        excluded_embed_metadata_keys=[RECORDED],
    )
    return NodeWithScore(node=node, score=one.score)


_OPERATORS = {
    FilterOperator.EQ: "eq", FilterOperator.NE: "ne", FilterOperator.GT: "gt", FilterOperator.GTE: "gte",
    FilterOperator.LT: "lt", FilterOperator.LTE: "lte", FilterOperator.IN: "in", FilterOperator.NIN: "nin",
}  # fmt: skip


def parse_filters(given: MetadataFilters, depth: int = 0) -> Filter:
    """LlamaIndex's filters as a :data:`ragseal.client.filters.Filter`, which says what a missing key means.

    Raises:
        EncodingError: an operator on lists or parts of texts, which committed metadata have none of; or too deep.
    """
    if depth > MAX_DEPTH:
        raise EncodingError(f"filters: nested at most {MAX_DEPTH} deep")
    parts: list[Filter] = []
    for one in given.filters:
        if isinstance(one, MetadataFilters):
            parts.append(parse_filters(one, depth + 1))
        elif one.operator in _OPERATORS:
            parts.append(parse_filter({"type": _OPERATORS[one.operator], "key": one.key, "value": one.value}))
        else:
            known = ", ".join(operator.value for operator in _OPERATORS)
            raise EncodingError(f"filters: {one.operator.value!r} is none of {known}")
    both: Callable[..., bool] = any if given.condition is FilterCondition.OR else all
    if given.condition is FilterCondition.NOT:
        return lambda metadata: not any(part(metadata) for part in parts)
    return lambda metadata: both(part(metadata) for part in parts)

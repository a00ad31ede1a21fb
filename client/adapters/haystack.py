# SPDX-License-Identifier: GPL-3.0-or-later
"""A Haystack component; ``pip install 'ragseal[haystack]'``.

    pipeline.add_component("retriever", RagsealRetriever(Account("account", "localhost:7800"), top_k=2))
    found = await pipeline.run_async({"retriever": {"query": "How do I parse JSON?"}})

``Pipeline.dumps`` names the account's folder, and its key stays there; ``Pipeline.loads(text,
allowed_modules=["ragseal.client.adapters.haystack"])`` brings it back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragseal.client.adapters.asking import Asked, Asking
from ragseal.client.adapters.passages import Choice, Passage, needs
from ragseal.client.filters import MAX_DEPTH, Filter, parse_filter
from ragseal.kernel.errors import EncodingError

try:
    from haystack import Document, component, default_from_dict, default_to_dict
except ImportError as error:
    raise needs("haystack-ai", "haystack", error) from None


@component
class RagsealRetriever:
    """Checked documents of one account's provider."""

    def __init__(
        self,
        account: Asked | Mapping[str, Any],
        top_k: int | None = None,
        score_threshold: float | None = None,
        filters: dict[str, Any] | None = None,
    ) -> None:
        """
        Args:
            account: an :class:`ragseal.client.adapters.Account`; or a Client, or for ``run_async`` an AsyncClient or a
                Pool.
            top_k: the best so many documents; by default all that came, never more than the window's K.
            score_threshold: the least cosine, from -1 to 1.
            filters: on metadata, as Haystack writes them; applied to what came back.

        Raises:
            ConfigurationError, EncodingError: an argument that is none of these; nothing is opened yet.
        """
        self._asking = Asking(account)
        self._top_k, self._score_threshold, self._filters = top_k, score_threshold, filters
        self._choice(None, None, None)

    def _choice(self, top_k: int | None, score_threshold: float | None, filters: dict[str, Any] | None) -> Choice:
        filters = self._filters if filters is None else filters
        choice = Choice(
            self._top_k if top_k is None else top_k,
            self._score_threshold if score_threshold is None else score_threshold,
            parse_filters(filters) if filters else None,
        )
        choice.check(self._asking.embeds)
        return choice

    @component.output_types(documents=list[Document])  # type: ignore[untyped-decorator]
    def run(
        self,
        query: str,
        top_k: int | None = None,
        score_threshold: float | None = None,
        filters: dict[str, Any] | None = None,
    ) -> dict[str, list[Document]]:
        """Ask one question; what is given here takes the place of what the component was made with.

        Raises: as :meth:`ragseal.client.Client.ask`.
        """
        choice = self._choice(top_k, score_threshold, filters)
        return {"documents": [_document(one) for one in choice.of(self._asking.ask(query, choice.scored))]}

    @component.output_types(documents=list[Document])  # type: ignore[untyped-decorator]
    async def run_async(
        self,
        query: str,
        top_k: int | None = None,
        score_threshold: float | None = None,
        filters: dict[str, Any] | None = None,
    ) -> dict[str, list[Document]]:
        """As :meth:`run`, awaited."""
        choice = self._choice(top_k, score_threshold, filters)
        return {"documents": [_document(one) for one in choice.of(await self._asking.ask_async(query, choice.scored))]}

    def to_dict(self) -> dict[str, Any]:
        """For a pipeline's file.  Raises ConfigurationError: this was made from a client."""
        made: dict[str, Any] = default_to_dict(
            self,
            account=self._asking.to_dict(),
            top_k=self._top_k,
            score_threshold=self._score_threshold,
            filters=self._filters,
        )
        return made

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> RagsealRetriever:
        """From :meth:`to_dict`.  Raises as the class itself."""
        made: RagsealRetriever = default_from_dict(cls, data)
        return made

    def close(self) -> None:
        """Release the account's folder; the next question opens it again.  A client that was given stays open."""
        self._asking.close()


def _document(one: Passage) -> Document:
    return Document(id=one.id, content=one.text, meta=one.metadata, score=one.score)


_OPERATORS = {"==": "eq", "!=": "ne", ">": "gt", ">=": "gte", "<": "lt", "<=": "lte", "in": "in", "not in": "nin"}
_OF_A_DOCUMENT = ("id", "content", "score", "blob", "embedding", "sparse_embedding", "dataframe")


def parse_filters(given: object, depth: int = 0) -> Filter:
    """Haystack's filters as a :data:`ragseal.client.filters.Filter`, which says what a missing key means.

    Raises:
        EncodingError: no filter, an operator that there is not, a field that is none of metadata, or too deep.
    """
    if not isinstance(given, dict) or depth > MAX_DEPTH:
        raise EncodingError(f'filters: expected {{"field" or "conditions": ...}}, nested at most {MAX_DEPTH} deep')
    operator = given.get("operator")
    if "field" not in given:
        conditions = given.get("conditions")
        if operator not in ("AND", "OR", "NOT") or not isinstance(conditions, list) or not conditions:
            raise EncodingError('filters: a group has "operator" (AND, OR, NOT) and a list "conditions"')
        parts = [parse_filters(one, depth + 1) for one in conditions]
        if operator == "OR":
            return lambda metadata: any(part(metadata) for part in parts)
        wanted = operator == "AND"  # NOT is what not all of them hold of, as Haystack has it
        return lambda metadata: all(part(metadata) for part in parts) == wanted
    field = given["field"]
    if not isinstance(field, str) or field in _OF_A_DOCUMENT:
        raise EncodingError(f'filters: {field!r} is not metadata: expected "meta.NAME"')
    if operator not in _OPERATORS:
        raise EncodingError(f"filters: {operator!r} is none of {', '.join(_OPERATORS)}, AND, OR, NOT")
    return parse_filter({"type": _OPERATORS[operator], "key": field.removeprefix("meta."), "value": given.get("value")})

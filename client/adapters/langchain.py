# SPDX-License-Identifier: GPL-3.0-or-later
"""A LangChain retriever; ``pip install 'ragseal[langchain]'``.

    retriever = RagsealRetriever(account=Account("account", "localhost:7800"), k=2)
    documents = await retriever.ainvoke("How do I parse JSON?")

It is saved with ``langchain_core.load.dumps`` and comes back with ``loads(text, allowed_objects=[RagsealRetriever],
valid_namespaces=["ragseal"])``: the account's folder is named there, its key stays in the folder.
"""

from __future__ import annotations

from typing import Any

from ragseal.client.adapters.asking import Asking
from ragseal.client.adapters.passages import Choice, Passage, needs
from ragseal.client.filters import parse_filter
from ragseal.kernel.errors import AuditError

try:
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever, LangSmithRetrieverParams
    from pydantic import ConfigDict, Field, PrivateAttr, field_validator
except ImportError as error:
    raise needs("langchain-core", "langchain", error) from None


class RagsealRetriever(BaseRetriever):  # type: ignore[misc]  # where LangChain is not installed
    """Checked documents of one account's provider.

    Callbacks and tracers see questions and documents, as with every retriever; they go where you send them.
    """

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)  # a misspelt bound is no bound

    account: Any = Field(repr=False, frozen=True)
    """An :class:`ragseal.client.adapters.Account`; or a Client, or to be awaited an AsyncClient or a Pool."""
    k: int | None = None
    """The best so many documents; by default all that came, never more than the window's K."""
    score_threshold: float | None = None
    """The least cosine, from -1 to 1."""
    filters: dict[str, Any] | None = None
    """On metadata, in the form of :func:`ragseal.client.filters.parse_filter`."""

    _asking: Asking = PrivateAttr()

    @field_validator("account", mode="before")
    @classmethod
    def _known(cls, given: object) -> object:
        return Asking(given).asked

    def model_post_init(self, context: Any, /) -> None:
        """Raises ConfigurationError, EncodingError: an argument that is none of these; nothing is opened yet."""
        self._asking = Asking(self.account)
        self._chosen()

    def _chosen(self, **given: Any) -> Choice:
        filters = given.get("filters", self.filters)
        choice = Choice(
            given.get("k", self.k),
            given.get("score_threshold", self.score_threshold),
            None if filters is None else parse_filter(filters),
        )
        choice.check(self._asking.embeds)
        return choice

    def _get_relevant_documents(self, query: str, *, run_manager: Any, **given: Any) -> list[Document]:
        """``given``: k, score_threshold or filters of this call alone."""
        choice = self._of_call(given)
        return [_document(one) for one in choice.of(self._asking.ask(query, choice.scored))]

    async def _aget_relevant_documents(self, query: str, *, run_manager: Any, **given: Any) -> list[Document]:
        choice = self._of_call(given)
        return [_document(one) for one in choice.of(await self._asking.ask_async(query, choice.scored))]

    def _of_call(self, given: dict[str, Any]) -> Choice:
        given.pop("verbose", None)  # of the callbacks
        if strange := sorted(set(given) - {"k", "score_threshold", "filters"}):
            raise TypeError(f"this retriever takes k, score_threshold and filters, not {strange[0]!r}")
        return self._chosen(**given)

    def _get_ls_params(self, **_: Any) -> LangSmithRetrieverParams:
        return LangSmithRetrieverParams(ls_retriever_name="ragseal")

    @classmethod
    def is_lc_serializable(cls) -> bool:
        return True

    def to_json(self) -> Any:
        """As :func:`langchain_core.load.dumpd` has it; a retriever made from a client says that it cannot be saved."""
        try:
            account = self._asking.to_dict()
        except AuditError:
            return self.to_json_not_implemented()
        made = super().to_json()
        made["kwargs"]["account"] = account
        return made

    def close(self) -> None:
        """Release the account's folder; the next question opens it again.  A client that was given stays open."""
        self._asking.close()


def _document(one: Passage) -> Document:
    return Document(id=one.id, page_content=one.text, metadata=one.metadata)

# SPDX-License-Identifier: GPL-3.0-or-later
"""The same search as a tool of the Model Context Protocol, for agents: over HTTP beside the other routes, or stdio."""

from __future__ import annotations

from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import ToolAnnotations
from pydantic import BaseModel, ConfigDict, Field, model_validator

from ragseal.client.gateway.app import OWN, Gateway
from ragseal.client.gateway.search import Search, own_form
from ragseal.kernel.errors import AuditError


class Document(BaseModel):
    """A document that came back."""

    id: str
    text: str
    score: float | None = Field(description="cosine with the query, computed on this machine")
    metadata: dict[str, Any]
    seq: int = Field(description="the record that returned it")


class Answer(BaseModel):
    """Where a query's answer is recorded."""

    query: str
    window: str
    seq: int
    ledger_index: int
    receipt: str = Field(description="digest of the signed receipt that this machine keeps")
    checked: bool = Field(description="the provider used this machine's embedding of the query")
    returned: int
    documents: int
    unanswered_windows: list[str]
    answer: str | None = Field(description="of a window that answers in words: the provider's text; no documents then")
    keywords: list[str] = Field(description="of such an answer, some of them by the noise alone")


class Found(BaseModel):
    """What `search` returns."""

    results: list[Document]
    answers: list[Answer]


def make_tools(gateway: Gateway) -> MCPServer[Any]:
    """An MCP server with one tool, ``search``."""

    async def search(query: str, max_num_results: int = 10) -> Found:
        """Documents for a question, best first; each call costs one query of the account's budget."""
        try:
            asked = Search.of({"query": query, "max_num_results": max_num_results}, OWN)
            return Found.model_validate(own_form(asked, await gateway.search(asked)))
        except AuditError as error:
            kept = f" [evidence {error.bundle}]" if error.bundle else ""
            raise ToolError(f"{type(error).__name__}: {gateway.told(error)}{kept}") from None

    tool = Tool.from_function(
        search,
        # No read: every call spends budget, which a program that asks its user only before changes must not hide.
        annotations=ToolAnnotations(
            read_only_hint=False, destructive_hint=False, open_world_hint=False, idempotent_hint=False
        ),
        structured_output=True,
    )
    return MCPServer(
        "ragseal",
        tools=[_strict(tool)],
        instructions=(
            f"Searches the documents of {gateway.tenant!r} through a provider whose answers are noised for privacy and "
            "checked on this machine. Each search spends the account's budget; a document may be missing by chance."
        ),
    )


def _strict(tool: Tool) -> Tool:
    """The tool, which refuses arguments that it does not know: the library drops them, and the query is spent."""
    known = sorted(tool.parameters["properties"])

    class Arguments(tool.fn_metadata.arg_model):  # type: ignore[misc,name-defined]
        model_config = ConfigDict(extra="forbid")

        @model_validator(mode="before")
        @classmethod
        def _known(cls, given: Any) -> Any:
            if isinstance(given, dict) and (strange := sorted(map(str, set(given) - set(known)))):
                raise ValueError(f"unknown argument {strange[0][:40]!r}: known are {known}; nothing was asked")
            if isinstance(given, dict) and (yes := [name for name, one in given.items() if isinstance(one, bool)]):
                raise ValueError(f"argument {yes[0]!r} is true or false, which is neither text nor a number")
            return given

    tool.fn_metadata.arg_model = Arguments
    tool.parameters = {**tool.parameters, "additionalProperties": False}
    return tool


def mcp_app(gateway: Gateway, hosts: frozenset[str]) -> tuple[Any, Any]:
    """The application behind ``/mcp``, and what has to be open while it serves.

    Stateless: any request can follow any other, and no session of a caller that went away is kept.
    """
    server = make_tools(gateway)
    app = server.streamable_http_app(
        stateless_http=True,
        json_response=True,
        transport_security=TransportSecuritySettings(allowed_hosts=sorted(hosts)),
    )
    return app, server.session_manager.run

# SPDX-License-Identifier: GPL-3.0-or-later
"""The gateway's routes (Starlette) and who may call them.

Every request shows the gateway's key (``Authorization: Bearer``), names this machine as its host and comes from no web
page: else any page that is open in a browser on this machine could ask with the account's key.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import logging
import math
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ragseal.client.gateway.search import Search, openai_form, own_form
from ragseal.client.receipts import KeptReceipt
from ragseal.client.result import Result
from ragseal.kernel.errors import AuditError, BudgetError, ConfigurationError, EncodingError, TransportError
from ragseal.kernel.printable import printable
from ragseal.runtime.json_text import parse_json
from ragseal.runtime.texts import text_of

MAX_BODY = 1 << 20  #: bytes of a request
BODY_SECONDS = 10.0  #: until all of them are there
MOST_WAITING = 64  #: searches under way; a further one is told to come back
MOST_UNFINISHED = 16  #: searches that failed after an answer, whose answers are kept
SOON = 5  #: seconds after which to come back where nothing better is known

OWN = frozenset({"query", "max_num_results", "filters", "ranking_options"})
OPENAI = OWN | {"rewrite_query"}

log = logging.getLogger("ragseal.gateway")


class Asks(Protocol):
    """An AsyncClient, or a pool of them."""

    async def ask(self, text: str, timeout: float | None = None) -> Result: ...


class Gateway:
    """What the routes need of the account."""

    def __init__(
        self,
        asks: Asks,
        tenant: str,
        receipts: Callable[[str | None], list[KeptReceipt]],
        timeout: float,
        folder: Path,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """
        Args:
            tenant: of the account; the only vector store that there is.
            receipts: the kept answers of a window, of every window where it is None.
            timeout: seconds that one query may take, beside those that its window's policy puts before an answer.
            folder: the account's; callers are not told where it lies.
        """
        self.asks, self.tenant, self.receipts, self.timeout, self.clock = asks, tenant, receipts, timeout, clock
        self._folder = printable(str(folder), keep="\n") if folder.is_absolute() else None  # as errors show it
        self._waiting = 0
        self._unfinished: dict[tuple[str, ...], list[Result]] = {}  #: answers of searches that failed, by their queries

    async def search(self, search: Search) -> list[Result]:
        """Ask its queries, one after another.

        What was answered before one of them failed is kept for who asks the same again: it is paid for.
        """
        if self._waiting >= MOST_WAITING:
            raise TransportError(f"{MOST_WAITING} searches are under way: try again in {SOON} s")
        self._waiting += 1
        done = self._unfinished.pop(search.queries, [])
        try:
            for query in search.queries[len(done) :]:
                done.append(await self.asks.ask(query, self.timeout))
            return done
        except BaseException:
            if done:
                self._unfinished[search.queries] = done
            while len(self._unfinished) > MOST_UNFINISHED:
                del self._unfinished[next(iter(self._unfinished))]
            raise
        finally:
            self._waiting -= 1

    def told(self, error: AuditError) -> str:
        """What callers are told of an error: not how this machine is set up, which is in the log."""
        if isinstance(error, ConfigurationError):
            log.error("a request was not answered: %s", error)
            return "the gateway cannot answer now: its operator finds the reason in its log"
        if error.bundle:
            log.error("a check failed: %s", error)
        return str(error) if self._folder is None else str(error).replace(self._folder, "the account's folder")

    def refusal(self, error: AuditError) -> JSONResponse:
        """An error in OpenAI's form, which this gateway's own routes use as well."""
        status, kind, headers = 502, "check_failed", {}
        if isinstance(error, EncodingError) and not error.bundle:
            status, kind = 400, "invalid_request_error"
        elif isinstance(error, ConfigurationError):
            status, kind = 500, "configuration_error"
        elif isinstance(error, BudgetError):
            wait = SOON if error.renews_at is None else max(1, int(error.renews_at - self.clock()) + 1)
            status, kind = 429, "insufficient_quota"
            if error.retry_after_ms is not None:  # only time is missing
                wait, kind = math.ceil(error.retry_after_ms / 1000) or 1, "rate_limit_exceeded"
            headers = {"Retry-After": str(wait)}
        elif isinstance(error, TransportError):
            status, kind, headers = 503, "provider_unreachable", {"Retry-After": str(SOON)}
        body = {"message": self.told(error), "type": kind, "code": type(error).__name__, "param": None}
        if error.bundle:
            body["evidence"] = error.bundle
        return JSONResponse({"error": body}, status, headers)


async def _json(request: Request) -> object:
    body = text_of(await request.body(), "the body", error=EncodingError)
    return parse_json(body, "the body")


async def _whole(receive: Receive) -> bytes | None:
    """A request's body; None: its caller is gone.

    Raises:
        EncodingError: more than MAX_BODY bytes, or not there after BODY_SECONDS.
    """
    data, more = bytearray(), True
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while more:
                part = await receive()
                if part["type"] == "http.disconnect":
                    return None
                data += part.get("body", b"")
                more = part.get("more_body", False)
                if len(data) > MAX_BODY:
                    raise EncodingError(f"a request has at most {MAX_BODY} bytes")
    except TimeoutError:
        raise EncodingError(f"a request's body has to come within {BODY_SECONDS:g} s") from None
    return bytes(data)


def _again(data: bytes, receive: Receive) -> Receive:
    """A body that was read already, for whoever reads it next."""
    told = False

    async def body() -> Message:
        nonlocal told
        if told:
            return await receive()
        told = True
        return {"type": "http.request", "body": data, "more_body": False}

    return body


class Guard:
    """Refuses who may not ask, before anything is read, and reads a bounded body of everybody else."""

    def __init__(self, app: ASGIApp, key: str, hosts: frozenset[str]) -> None:
        """``hosts``: values of the Host header under which this gateway is called."""
        self._app, self._key, self._hosts = app, key.encode(), hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            raise ConfigurationError("this gateway speaks HTTP only")
        refused = self._refused(Headers(scope=scope))
        if refused is None:
            try:
                data = await _whole(receive)
            except EncodingError as error:
                refused = 400, str(error)
            else:
                if data is not None:
                    await self._app(scope, _again(data, receive), send)
                return
        status, message = refused
        challenge = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
        body = {"message": message, "type": "invalid_request_error", "code": "refused", "param": None}
        await JSONResponse({"error": body}, status, challenge)(scope, receive, send)

    def _refused(self, headers: Headers) -> tuple[int, str] | None:
        if headers.get("host", "").lower() not in self._hosts:
            return 421, "this gateway does not go by that name: call it as it was told to listen, or add --host NAME"
        if "origin" in headers or headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return 403, "this gateway answers programs, not web pages"
        kind, _, shown = headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not hmac.compare_digest(shown.strip().encode(), self._key):
            return 401, "show the gateway's key, in gateway.key of the account's folder: Authorization: Bearer KEY"
        return None


class Strict:
    """In front of an application whose JSON parser keeps the last of two members: such a body is refused, unasked."""

    def __init__(self, app: ASGIApp, refusal: Callable[[AuditError], JSONResponse]) -> None:
        self._app, self._refusal = app, refusal

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        data = await _whole(receive) if scope["type"] == "http" and scope["method"] == "POST" else b""
        if data is None:
            return
        if data:
            try:
                parse_json(text_of(data, "the body", error=EncodingError), "the body")
            except EncodingError as error:
                await self._refusal(error)(scope, receive, send)
                return
        await self._app(scope, _again(data, receive) if data else receive, send)


def _absent(message: str, which: str) -> JSONResponse:
    body = {"message": message, "type": "invalid_request_error", "code": "not_found", "param": which}
    return JSONResponse({"error": body}, 404)


def make_app(
    gateway: Gateway,
    key: str,
    hosts: frozenset[str],
    mcp: tuple[ASGIApp, Callable[[], AbstractAsyncContextManager[Any]]] | None = None,
) -> ASGIApp:
    """The application.

    Args:
        key: that every request has to show.
        hosts: Host headers that are served.
        mcp: the application behind ``/mcp``, and what has to be open while it serves.
    """

    async def refusing(call: Callable[[Request], Any], request: Request, *known: str) -> JSONResponse:
        """The answer of a route that takes the query parameters ``known``, each once."""
        try:
            named = [name for name, _ in request.query_params.multi_items()]
            for name in named:
                if name not in known or named.count(name) > 1:
                    wrong = "stands there twice" if name in known else f"is unknown: known are {sorted(known)}"
                    raise EncodingError(f"the query parameter {name[:40]!r} {wrong}; nothing was asked")
            found = await call(request)
            return found if isinstance(found, JSONResponse) else JSONResponse(found)
        except AuditError as error:
            return gateway.refusal(error)
        except Exception as error:  # what is asked and answered stays out of logs
            log.error("a request failed: %s", type(error).__name__)
            return gateway.refusal(ConfigurationError("the gateway failed: see its log"))

    async def own(request: Request) -> dict[str, Any]:
        search = Search.of(await _json(request), OWN)
        return own_form(search, await gateway.search(search))

    async def openai(request: Request) -> dict[str, Any]:
        search = Search.of(await _json(request), OPENAI)
        return openai_form(search, await gateway.search(search))

    async def search(request: Request) -> JSONResponse:
        return await refusing(own, request)

    async def store(request: Request) -> JSONResponse:
        if request.path_params["tenant"] != gateway.tenant:
            return _absent(f"this account searches {gateway.tenant!r} alone", "vector_store_id")
        answer = await refusing(openai, request)
        # said where OpenAI's clients show it: these options choose among what came back, and find nothing else
        answer.headers["Ragseal-Filters"] = "applied-to-the-answer"
        return answer

    async def receipt(request: Request) -> JSONResponse:
        return await refusing(kept, request, "window")

    async def kept(request: Request) -> dict[str, Any] | JSONResponse:
        seq, window = request.path_params["seq"], request.query_params.get("window")
        all_of_it = await asyncio.to_thread(gateway.receipts, window)  # they are files
        found = [one for one in all_of_it if str(one.answer.receipt.body.seq) == seq]
        if not found:
            return _absent("no such receipt", "seq")
        one = found[-1]
        return {
            "window": one.window.manifest.window,
            "seq": one.answer.receipt.body.seq,
            "ledger_index": one.answer.receipt.body.index,
            "digest": one.answer.receipt.digest().hex(),
            **{
                name: base64.b64encode(data).decode()
                for name, data in (
                    ("receipt", one.answer.receipt.encode()),
                    ("record", one.answer.record.encode()),
                    ("manifest", one.window.signed.encode()),
                )
            },
        }

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        if mcp is None:
            yield
            return
        async with mcp[1]():
            yield

    routes: list[BaseRoute] = [
        Route("/v1/search", search, methods=["POST"]),
        Route("/v1/vector_stores/{tenant}/search", store, methods=["POST"]),
        Route("/v1/receipts/{seq}", receipt, methods=["GET"]),
    ]
    if mcp is not None:
        routes.append(Mount("/", app=Strict(mcp[0], gateway.refusal)))
    return Guard(Starlette(routes=routes, lifespan=lifespan), key, hosts)

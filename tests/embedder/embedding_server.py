# SPDX-License-Identifier: GPL-3.0-or-later
"""A server of embeddings on this machine that speaks the real protocol over real HTTP, and breaks it where told to."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from ragseal.embedder.declared import DeclaredModel, declared
from ragseal.embedder.endpoint import Endpoint, Pauses

KEY = "sk-test-1234567890"
Vectors = Sequence[Sequence[float]]


@dataclass
class Asked:
    """A request as it came."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


@dataclass
class Reply:
    """An answer, whatever it is."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    announced: int | None = None  #: length, where it is not that of the body
    drip: float = 0.0  #: seconds between two bytes
    wait: float = 0.0  #: seconds before the first


def listed(rows: Vectors) -> dict[str, Any]:
    """An honest answer."""
    data = [{"object": "embedding", "index": i, "embedding": [float(x) for x in row]} for i, row in enumerate(rows)]
    return {"object": "list", "data": data, "model": "m", "usage": {"prompt_tokens": 1, "total_tokens": 1}}


class EmbeddingServer:
    """``replies`` are used up one a request; behind them every answer is an honest one."""

    def __init__(self, vectors: Callable[[list[str]], Vectors], certificate: tuple[Path, Path] | None = None) -> None:
        self.vectors = vectors
        self.replies: list[Reply] = []
        self.asked: list[Asked] = []
        self.away = False
        self._ending = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.asked.append(Asked(self.path, {k.lower(): v for k, v in self.headers.items()}, body))
                reply = outer._reply(body)
                if reply is None:
                    self.connection.close()
                    return
                if outer._ending.wait(reply.wait):
                    return
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                size = len(reply.body) if reply.announced is None else reply.announced
                self.send_header("Content-Length", str(size))
                self.end_headers()
                pieces = [reply.body] if not reply.drip else [reply.body[i : i + 1] for i in range(len(reply.body))]
                for piece in pieces:
                    if reply.drip and outer._ending.wait(reply.drip):
                        return
                    self.wfile.write(piece)
                    self.wfile.flush()

            def log_message(self, *_: Any) -> None:
                pass

            def handle(self) -> None:
                with suppress(OSError):  # the client hung up, as it should
                    super().handle()

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            # the handshake is a handler's, so that one that is refused does not end the server
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self.base = f"http{'s' if certificate else ''}://127.0.0.1:{self._server.server_address[1]}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def _reply(self, body: dict[str, Any]) -> Reply | None:
        if self.away:
            return None
        if self.replies:
            return self.replies.pop(0)
        return Reply(body=json.dumps(listed(self.vectors(body["input"]))).encode())

    def model(self, name: str, sleep: Callable[[float], None] = lambda seconds: None) -> DeclaredModel:
        """An embedder that asks here."""
        return DeclaredModel(declared(name), Endpoint(self.base, KEY, pauses=Pauses(sleep)))

    def end(self) -> None:
        self._ending.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def serving(
    vectors: Callable[[list[str]], Vectors], certificate: tuple[Path, Path] | None = None
) -> Iterator[EmbeddingServer]:
    """A server that ends with the block; over TLS with files of a certificate and its key."""
    made = EmbeddingServer(vectors, certificate)
    try:
        yield made
    finally:
        made.end()

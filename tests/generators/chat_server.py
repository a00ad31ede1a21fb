# SPDX-License-Identifier: GPL-3.0-or-later
"""A server of chat completions on this machine, over real HTTP: the server of embeddings with other honest answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any

from ragseal.embedder.endpoint import Patience, Pauses
from ragseal.generators import ChatGenerator
from ragseal.generators.chat import PATIENT
from tests.embedder.embedding_server import EmbeddingServer, Reply

Say = Callable[[str, str], str]  #: from the messages of system and user to what the model says


def chosen(content: Any) -> dict[str, Any]:
    """An honest answer."""
    message = {"role": "assistant", "content": content}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}


def reply(content: Any) -> Reply:
    return Reply(body=json.dumps(chosen(content)).encode())


class ChatServer(EmbeddingServer):
    """``replies`` are used up one a request; behind them ``say`` answers."""

    def __init__(self, say: Say) -> None:
        super().__init__(lambda texts: [])
        self._say = say

    def _reply(self, body: dict[str, Any]) -> Reply | None:
        if self.away:
            return None
        if self.replies:
            return self.replies.pop(0)
        system, user = (message["content"] for message in body["messages"])
        return reply(self._say(system, user))

    def generator(self, **options: Any) -> ChatGenerator:
        """``options`` of ChatGenerator, of its patience and of its pauses; by default nothing is waited for."""
        patience = {one.name: options.pop(one.name) for one in fields(Patience) if one.name in options}
        pauses = {one.name: options.pop(one.name) for one in fields(Pauses) if one.name in options}
        waited = Pauses(**{"sleep": lambda _: None, **pauses})
        return ChatGenerator(self.base, "small", patience=replace(PATIENT, **patience), pauses=waited, **options)


@contextmanager
def chatting(say: Say = lambda system, user: f"{len(user)} letters") -> Iterator[ChatServer]:
    """A server that ends with the block."""
    made = ChatServer(say)
    try:
        yield made
    finally:
        made.end()

# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers by a model that is served over HTTP, behind the chat API that OpenAI's has become the pattern of.

A server of one's own (vLLM, llama.cpp, Ollama and others offer the same API) keeps the texts at home; with any other,
question, texts and keywords are sent to somebody else.
"""

from __future__ import annotations

import copy
import json
import os
import random
import re
import ssl
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ragseal.embedder.endpoint import Endpoint, Patience, Pauses
from ragseal.generators.interface import MAX_CONTEXTS, check_asked, check_text
from ragseal.kernel.errors import ConfigurationError, TransportError
from ragseal.kernel.transcript import tagged_hash

#: ``progress(asked, answered)`` counts the requests of one generator: the two differ while one is under way.
Progress = Callable[[int, int], None]

PATIENT = Patience(seconds=120.0, attempts=5, quotes=True)
APART = Pauses(spread=random.random)
MAX_REPLY = 1 << 20  #: bytes of a server's reply, all its bookkeeping included
MAX_ANSWER = 20_000  #: characters of the answer in it

SYSTEM = "You answer questions in as few words as possible, without explanation."

_MODEL = re.compile(r"[!-~]{1,128}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


class ChatGenerator:
    """One model of one server.  Implements :class:`ragseal.generators.Generator`; may be called from many threads.

    Temperature is 0 and the seed follows from what is asked, so that an answer depends on its own request alone as far
    as the server keeps to it; one that computes in batches may differ in the last bits of its floats, and so in a word.
    """

    def __init__(
        self,
        base: str,
        model: str,
        *,
        key_variable: str | None = None,
        max_tokens: int = 64,
        patience: Patience = PATIENT,
        progress: Progress | None = None,
        pauses: Pauses = APART,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Nothing is asked yet.

        Args:
            base: the part of the URL before ``/chat/completions``, such as ``http://localhost:8000/v1``.
            model: what the server calls it.
            key_variable: name of the environment variable that holds the key; None sends no key.
            max_tokens: of an answer.
            patience: how often at most one request is made, where the server is away, busy or answers with a status
                that may pass, and how long each attempt may take.  Its errors quote the server, which may quote what
                it was asked: not where somebody else asked.
            progress: called when a request goes out and when its answer is there.
            tls: whom to trust; None is the system's authorities.

        Raises:
            ConfigurationError: a URL, model, key or number that cannot be used.
        """
        if not _MODEL.fullmatch(model):
            raise ConfigurationError(
                f"{model[:200]!r} is not the name of a model: at most 128 characters without spaces"
            )
        if max_tokens < 1 or patience.attempts < 1 or not 0 < patience.seconds <= 3600:
            raise ConfigurationError("max_tokens and attempts are at least 1, seconds above 0 and at most 3600")
        self._model = model
        self._max_tokens = max_tokens
        self._patience = patience
        self._counts = threading.Lock()
        self._progress = progress
        self._asked = self._answered = 0
        key = None if key_variable is None else _key(key_variable)
        self._endpoint = Endpoint(base, key, pauses=pauses, tls=tls, kind="chat")

    @property
    def name(self) -> str:
        return f"chat:{self._model}"

    def within(self, seconds: float) -> ChatGenerator:
        """See :meth:`ragseal.generators.Limited.within`: the connection is hung up then."""
        made = copy.copy(self)
        made._patience = replace(self._patience, total=seconds)
        return made

    def answer(self, question: str, contexts: Sequence[str], keywords: Sequence[str] = ()) -> str:
        """See :meth:`ragseal.generators.Generator.answer`.  With neither texts nor keywords the model answers from what
        it has learnt."""
        check_asked(question, contexts, keywords)
        parts = [f"Text {i}:\n{text}" for i, text in enumerate(contexts, 1)]
        if keywords:
            parts.append(f"The answer is likely to hold some of these words: {', '.join(keywords)}")
        parts.append(f"Question: {question}")
        return self.complete(SYSTEM, "\n\n".join(parts))

    def complete(self, system: str, user: str) -> str:
        """What the model says to a user's message under a system message, without the space around it; never blank.

        Raises:
            TransportError: the server cannot be reached, is busy, or gives no answer that can be read.
            EncodingError: a message that is blank, too long or no valid Unicode, or that the server does not take.
            ConfigurationError: it does not take the key, has no such path, or wants to send us elsewhere.
        """
        for what, text in (("the system's message", system), ("the user's message", user)):
            check_text(what, text, 2 * MAX_CONTEXTS)
        body = {
            "model": self._model,
            "messages": [{"role": "system", "content": system}, {"role": "user", "content": user}],
            "temperature": 0,
            "seed": seed_of(self._model, system, user),
            "max_tokens": self._max_tokens,
            "n": 1,
            "stream": False,
        }
        self._tell(1, 0)
        data = self._endpoint.post("chat/completions", json.dumps(body).encode(), MAX_REPLY, self._patience)
        said = self._said(data)
        self._tell(0, 1)
        return said

    def _tell(self, asked: int, answered: int) -> None:
        with self._counts:
            self._asked, self._answered = self._asked + asked, self._answered + answered
            if self._progress is not None:
                self._progress(self._asked, self._answered)

    def _said(self, data: bytes) -> str:
        try:
            reply: Any = json.loads(data)
        except (ValueError, RecursionError):
            raise self._broken("what is no JSON") from None
        choices = reply.get("choices") if isinstance(reply, dict) else None
        if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
            raise self._broken("something other than one choice")
        message = choices[0].get("message")
        content = message.get("content") if isinstance(message, dict) else None
        if content is None:
            raise self._broken("a message without content")
        if not isinstance(content, str):
            raise self._broken("a content that is no text")
        if len(content) > MAX_ANSWER:
            raise self._broken(f"{len(content)} characters, of which at most {MAX_ANSWER} are taken")
        try:
            content.encode("utf-8")
        except UnicodeEncodeError:
            raise self._broken("a lone surrogate") from None
        if not content.strip():
            raise TransportError(
                f"{self._endpoint.host}: model {self._model!r} returns nothing: ask for more tokens (max_tokens is "
                f"{self._max_tokens}), or take another model"
            )
        return content.strip()

    def _broken(self, what: str) -> TransportError:
        return TransportError(
            f"{self._endpoint.host} answers with {what}: is it a server of the chat API, and {self._model!r} a chat "
            "model of it?"
        )


def seed_of(model: str, system: str, user: str) -> int:
    """The seed that a request carries, below 2^31: of what is asked, and of nothing else."""
    digest = tagged_hash("chat-seed", model.encode(), system.encode(), user.encode())
    return int.from_bytes(digest[:4], "big") >> 1


def _key(variable: str) -> str:
    if not _VARIABLE.fullmatch(variable):
        raise ConfigurationError(
            "the key is given by the name of an environment variable that holds it, so that it stands in no command; "
            "a name has letters, digits and underscores"  # what was given may be the key itself: it is not repeated
        )
    key = os.environ.get(variable)
    if not key:
        raise ConfigurationError(f"the environment variable {variable} is not set: it should hold the key")
    return key

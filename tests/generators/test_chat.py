# SPDX-License-Identifier: GPL-3.0-or-later
"""A served model, over real HTTP: what is sent, what comes back, and every way in which nothing usable does."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from ragseal.generators import ChatGenerator, within
from ragseal.generators.chat import MAX_ANSWER, MAX_REPLY, PATIENT, SYSTEM, seed_of
from ragseal.kernel.errors import AuditError, ConfigurationError, EncodingError, TransportError
from tests.embedder.embedding_server import KEY, Reply
from tests.generators.chat_server import ChatServer, chatting, chosen, reply


@pytest.fixture(scope="module")
def running() -> Iterator[ChatServer]:
    with chatting() as made:
        yield made


@pytest.fixture
def server(running: ChatServer) -> ChatServer:
    running.replies.clear()
    running.asked.clear()
    running.away = False
    return running


# --- what is refused before anything is sent ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "base", ["", "localhost:8000", "ftp://localhost", "http://example.org/v1", "https://u:p@h/v1", "https://h/v1?x=1"]
)
def test_a_url_that_cannot_be_used_is_refused(base: str) -> None:
    with pytest.raises(ConfigurationError, match=r"chat URL|unencrypted"):
        ChatGenerator(base, "small")


@pytest.mark.parametrize("model", ["", "a b", "x" * 129, "\x1b[2J"])
def test_a_model_without_a_name_is_refused(model: str) -> None:
    with pytest.raises(ConfigurationError, match="not the name of a model"):
        ChatGenerator("http://localhost:1/v1", model)


@pytest.mark.parametrize(
    "options",
    [
        {"max_tokens": 0},
        *({"patience": replace(PATIENT, **one)} for one in ({"attempts": 0}, {"seconds": 0.0}, {"seconds": 1e9})),
    ],
)
def test_numbers_that_ask_for_nothing_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="at least 1"):
        ChatGenerator("http://localhost:1/v1", "small", **options)


def test_the_key_is_named_and_not_given(server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match="name of an environment variable") as caught:
        server.generator(key_variable=KEY)
    assert KEY not in str(caught.value)
    monkeypatch.delenv("MY_KEY", raising=False)
    with pytest.raises(ConfigurationError, match="MY_KEY is not set"):
        server.generator(key_variable="MY_KEY")
    monkeypatch.setenv("MY_KEY", KEY)
    server.generator(key_variable="MY_KEY").answer("q", [])
    server.generator().answer("q", [])
    assert server.asked[0].headers["authorization"] == f"Bearer {KEY}"
    assert "authorization" not in server.asked[1].headers


@pytest.mark.parametrize(
    ("question", "contexts", "keywords"),
    [("", [], []), (" ", [], []), ("q", [""], []), ("q", [], [" "]), ("q", "text", []), ("q", [], "word"), (1, [], []),
     ("\ud800", [], []), ("q", ["\ud800"], []), ("q", [], ["x" * 257]), ("q", [], ["x"] * 1025),
     ("q" * ((1 << 14) + 1), [], []), ("q", ["x" * (1 << 19)] * 3, [])],
)  # fmt: skip
def test_what_no_model_should_see_is_not_sent(server: ChatServer, question: Any, contexts: Any, keywords: Any) -> None:
    with pytest.raises(EncodingError):
        server.generator().answer(question, contexts, keywords)
    assert not server.asked


@pytest.mark.parametrize("messages", [("", "u"), ("s", "\ud800"), ("s", " ")])
def test_messages_of_ones_own_are_checked_too(server: ChatServer, messages: tuple[str, str]) -> None:
    with pytest.raises(EncodingError, match="message"):
        server.generator().complete(*messages)
    assert not server.asked


# --- the protocol ----------------------------------------------------------------------------------------------------


def test_texts_keywords_and_question_are_one_message(server: ChatServer) -> None:
    server.replies.append(reply("  the Imperial Family \n"))
    said = server.generator(max_tokens=7).answer("who lives there?", ["One.", "Two."], ["family", "imperial"])
    assert said == "the Imperial Family"
    (asked,) = server.asked
    user = (
        "Text 1:\nOne.\n\nText 2:\nTwo.\n\nThe answer is likely to hold some of these words: family, imperial\n\n"
        "Question: who lives there?"
    )
    assert asked.path == "/v1/chat/completions"
    assert asked.body == {
        "model": "small",
        "messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": user}],
        "temperature": 0,
        "seed": seed_of("small", SYSTEM, user),
        "max_tokens": 7,
        "n": 1,
        "stream": False,
    }


def test_a_seed_follows_from_what_is_asked_and_from_nothing_else(server: ChatServer) -> None:
    one = server.generator()
    for question in ("a", "b", "a"):
        one.answer(question, [])
    server.generator().answer("a", [])
    seeds = [asked.body["seed"] for asked in server.asked]
    assert seeds[0] == seeds[2] == seeds[3] != seeds[1]
    assert all(0 <= seed < 1 << 31 for seed in seeds)
    assert len({seed_of("m", "ab", "c"), seed_of("m", "a", "bc"), seed_of("ma", "b", "c")}) == 3


def test_progress_shows_a_request_under_way(server: ChatServer) -> None:
    told: list[tuple[int, int]] = []
    one = server.generator(progress=lambda *at: told.append(at))
    one.complete("s", "u")
    server.replies.append(Reply(body=b"?"))
    with pytest.raises(TransportError):
        one.complete("s", "u")
    assert told == [(1, 0), (1, 1), (2, 1)]


# --- what goes wrong -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "match"),
    [
        (b"", "no JSON"), (b"<html>", "no JSON"), (b"\xff", "no JSON"), (b"[" * 100_000, "no JSON"),
        (b"9" * 10_000, "no JSON|one choice"), (b"[]", "one choice"), (b"{}", "one choice"),
        (b'{"choices": []}', "one choice"),
        (b'{"choices": [1]}', "one choice"), (b'{"choices": [{}]}', "without content"),
        (b'{"choices": [{"message": []}]}', "without content"),
        (json.dumps(chosen(None)).encode(), "without content"), (json.dumps(chosen(["x"])).encode(), "no text"),
        (json.dumps(chosen("")).encode(), "returns nothing"), (json.dumps(chosen(" \n")).encode(), "returns nothing"),
        (json.dumps(chosen("\ud800")).encode(), "surrogate"),
        (json.dumps(chosen("x" * (MAX_ANSWER + 1))).encode(), "20001"),
        (b" " * (MAX_REPLY + 1), "more than 1048576 bytes"),
    ],
)  # fmt: skip
def test_replies_that_are_no_answer_are_named_and_not_asked_for_again(
    server: ChatServer, body: bytes, match: str
) -> None:
    server.replies.append(Reply(body=body))
    with pytest.raises(TransportError, match=match):
        server.generator().answer("q", [])
    assert len(server.asked) == 1


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_a_status_that_may_pass_is_waited_for(server: ChatServer, status: int) -> None:
    pauses: list[float] = []
    server.replies += [Reply(status), Reply(status, headers={"Retry-After": "3"}), reply("yes")]
    assert server.generator(sleep=pauses.append, spread=lambda: 0.5).answer("q", []) == "yes"
    assert pauses == [0.75, 3.5]
    server.replies += [Reply(status)] * 2
    with pytest.raises(TransportError, match=f"status {status}, 2 times: ask again later"):
        server.generator(attempts=2).answer("q", [])


@pytest.mark.parametrize(
    ("status", "error", "match"),
    [(301, ConfigurationError, "redirects"), (400, EncodingError, "no such length"),
     (401, ConfigurationError, "the key"), (403, ConfigurationError, "the key"),
     (404, ConfigurationError, "status 404"), (422, EncodingError, "these texts")],
)  # fmt: skip
def test_a_status_that_will_not_pass_ends_at_once(
    server: ChatServer, status: int, error: type[AuditError], match: str
) -> None:
    server.replies.append(Reply(status, b"no such length", headers={"Location": "http://example.org"}))
    with pytest.raises(error, match=match):
        server.generator().answer("q", [])
    assert len(server.asked) == 1


def test_a_server_that_is_away_is_tried_again_and_named(server: ChatServer) -> None:
    server.away = True
    with pytest.raises(TransportError, match=r"cannot be reached .*, 3 times: ask again later"):
        server.generator(attempts=3).answer("q", [])
    assert len(server.asked) == 3


def test_a_server_that_trickles_is_hung_up_on(server: ChatServer) -> None:
    server.replies.append(Reply(body=b"x" * 1000, drip=0.05))
    with pytest.raises(TransportError, match=r"within 0\.2 s"):
        server.generator(seconds=0.2, attempts=1).answer("q", [])


def test_a_call_that_is_told_when_to_give_up_counts_its_repetitions(server: ChatServer) -> None:
    """Somebody who takes no answer any more lets the server go: the attempt under way, and those that would follow."""
    server.replies.append(Reply(body=b"x" * 1000, drip=0.05))
    began = time.monotonic()
    with pytest.raises(TransportError, match=r"did not answer within 0\.[23]\d* s: ask again later"):
        within(server.generator(attempts=5), 0.3).answer("q", [])
    assert time.monotonic() - began < 2
    assert len(server.asked) == 1
    server.replies.append(Reply(503, headers={"Retry-After": "30"}))
    with pytest.raises(TransportError, match="status 503: ask again later"):
        within(server.generator(attempts=5), 5.0).answer("q", [])
    assert len(server.asked) == 2
    assert within(server.generator(), 5.0).answer("q", []) == server.generator().answer("q", [])


def test_a_generator_that_cannot_be_told_is_itself() -> None:
    class Plain:
        name = "plain"

        def answer(self, question: str, contexts: Any, keywords: Any = ()) -> str:
            return "yes"

    plain = Plain()
    assert within(plain, 1.0) is plain

# SPDX-License-Identifier: GPL-3.0-or-later
"""Embedders on somebody else's machine, over real HTTP: what they answer is checked, what goes wrong is named."""

from __future__ import annotations

import json
import math
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragseal.embedder import declared as module
from ragseal.embedder import load_embedder
from ragseal.embedder.declared import BATCH_TEXTS, DeclaredModel, declared
from ragseal.embedder.endpoint import Endpoint, Patience, Pauses
from ragseal.embedder.interface import DeclaredIdentity
from ragseal.kernel.errors import AuditError, ConfigurationError, EncodingError, TransportError
from tests.embedder.embedding_server import KEY, EmbeddingServer, Reply, listed, serving
from tests.runtime.certificates import Authority

NAME = "acme/small@3"
ONCE = Patience(seconds=5.0, attempts=1, quotes=True)


def vectors(texts: list[str]) -> list[list[float]]:
    return [[float(len(text)), 2.0, -1.0] for text in texts]


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with serving(vectors) as made:
        yield made


# --- what is declared ------------------------------------------------------------------------------------------------


def test_a_name_declares_provider_model_and_dimension() -> None:
    made = declared("openai/text-embedding-3-small@1536")
    assert (made.provider, made.model, made.dimension, made.shortened) == (
        "openai",
        "text-embedding-3-small",
        1536,
        False,
    )
    assert declared("x/BAAI/bge-m3@1024").model == "BAAI/bge-m3"
    assert declared("openai/text-embedding-3-large@256+shortened").shortened
    assert DeclaredIdentity.decode(made.encode()) == made


def test_c_emb_differs_with_each_of_them() -> None:
    names = ["a/m@8", "b/m@8", "a/n@8", "a/m@9", "a/m@8+shortened"]
    assert len({declared(name).digest() for name in names}) == len(names)


@pytest.mark.parametrize(
    "name",
    ["", "openai", "openai/m", "openai/m@", "openai/m@0", "openai/m@x", "openai/m@08", "/m@8", "openai/@8", "o/m m@8",
     "o/m@8+", "o/m@8+short", "o/m@8\n", "o/\x1b[2J@8", "ö/m@8", "o/" + "m" * 129 + "@8"],
)  # fmt: skip
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="PROVIDER/MODEL@DIMENSION"):
        declared(name)


def test_dimensions_that_no_policy_has_are_refused() -> None:
    assert declared("o/m@4096").dimension == 4096
    with pytest.raises(ConfigurationError, match="4097 dimensions: at most 4096"):
        declared("o/m@4097")


@pytest.mark.parametrize(
    "changes", [{"normalisation": "none"}, {"quantisation": "int4"}, {"dimension": 0}, {"dimension": 65536}]
)
def test_identities_that_mean_nothing_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(EncodingError, match="declared embedder"):
        DeclaredIdentity.decode(replace(declared(NAME), **changes).encode())


def test_url_and_key_come_from_the_environment(server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(module.URL, raising=False)
    with pytest.raises(ConfigurationError, match=rf"where does 'acme' answer\? Set {module.URL}"):
        load_embedder(f"declared:{NAME}")
    load_embedder("declared:openai/text-embedding-3-small@1536")  # whose address is known
    monkeypatch.setenv(module.URL, server.base)
    monkeypatch.setenv(module.KEY, KEY)
    assert load_embedder(f"declared:{NAME}").embed(["x"]).shape == (1, 3)
    assert server.asked[0].headers["authorization"] == f"Bearer {KEY}"
    monkeypatch.delenv(module.KEY)
    load_embedder(f"declared:{NAME}").embed(["x"])
    assert "authorization" not in server.asked[1].headers


# --- the protocol ----------------------------------------------------------------------------------------------------


def test_vectors_are_unit_rows_in_the_order_of_the_texts(server: EmbeddingServer) -> None:
    texts = [f"{'x' * (i + 1)} é" for i in range(5)]
    answer = listed(vectors(texts))
    answer["data"] = answer["data"][::-1]
    server.replies.append(Reply(body=json.dumps(answer, indent=4).encode()))
    found = server.model(NAME).embed(texts)
    assert found.dtype == np.float32
    assert np.allclose(found, [np.array(row) / math.hypot(*row) for row in vectors(texts)], atol=1e-7)
    (asked,) = server.asked
    assert asked.path == "/v1/embeddings"
    assert asked.body == {"model": "small", "input": texts, "encoding_format": "float"}


def test_a_shortened_model_is_asked_for_its_dimension(server: EmbeddingServer) -> None:
    server.model(f"{NAME}+shortened").embed(["x"])
    assert server.asked[0].body["dimensions"] == 3


def test_texts_go_in_batches(server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[int, int]] = []
    count = 2 * BATCH_TEXTS + 1
    found = server.model(NAME).embed(["x" * (i + 1) for i in range(count)], progress=lambda *at: told.append(at))
    assert [len(one.body["input"]) for one in server.asked] == [BATCH_TEXTS, BATCH_TEXTS, 1]
    assert told == [(BATCH_TEXTS, count), (2 * BATCH_TEXTS, count), (count, count)]
    assert np.array_equal(found[-1], server.model(NAME).embed(["x" * count])[0])
    server.asked.clear()
    monkeypatch.setattr(module, "BATCH_CHARACTERS", 10)
    server.model(NAME).embed(["x" * 4, "x" * 6, "x", "x" * 50, "x"])
    assert [[len(text) for text in one.body["input"]] for one in server.asked] == [[4, 6], [1], [50], [1]]
    assert server.model(NAME).embed([]).shape == (0, 3)


@pytest.mark.parametrize("text", ["", " \n", "\ud800", "x" * ((1 << 20) + 1)])
def test_texts_that_no_server_should_see_are_refused_here(server: EmbeddingServer, text: str) -> None:
    with pytest.raises(EncodingError, match="text 1"):
        server.model(NAME).embed(["x", text])
    assert server.asked == []


def _with(**changes: Any) -> bytes:
    answer = listed(vectors(["x", "yy"]))
    answer["data"][1].update(changes)
    return json.dumps(answer).encode()


@pytest.mark.parametrize(
    ("body", "error", "why"),
    [
        (b"", TransportError, "what is no JSON"),
        (b"<html>", TransportError, "what is no JSON"),
        (b"[" * 60_000, TransportError, "what is no JSON"),
        (b'{"data": ' + b"1" * 5000 + b"}", TransportError, "what is no JSON"),
        (b"\xff", TransportError, "what is no JSON"),
        (b"[]", TransportError, "no list of embeddings"),
        (b'{"data": {}}', TransportError, "no list of embeddings"),
        (b'{"error": "no"}', TransportError, "no list of embeddings"),
        (json.dumps(listed(vectors(["x"]))).encode(), TransportError, "1 embeddings for 2 texts"),
        (json.dumps(listed(vectors(["x"] * 3))).encode(), TransportError, "3 embeddings for 2 texts"),
        (b'{"data": [1, 2]}', TransportError, "do not name their texts, each once"),
        (_with(index=0), TransportError, "do not name their texts, each once"),
        (_with(index=2), TransportError, "do not name their texts, each once"),
        (_with(index=-1), TransportError, "do not name their texts, each once"),
        (_with(index=True), TransportError, "do not name their texts, each once"),
        (_with(index="1"), TransportError, "do not name their texts, each once"),
        (_with(embedding="AAAA"), TransportError, "no list of numbers"),
        (_with(embedding=[1, "2", 3]), TransportError, "no list of numbers"),
        (_with(embedding=[1, True, 3]), TransportError, "no list of numbers"),
        (_with(embedding=[1, None, 3]), TransportError, "no list of numbers"),
        (_with(embedding=[1, 2]), ConfigurationError, "2 dimensions of 'small', declared are 3"),
        (_with(embedding=[1, 2, 3, 4]), ConfigurationError, "4 dimensions of 'small', declared are 3"),
        (_with(embedding=[1, float("nan"), 3]), TransportError, "what is no JSON"),
        (_with(embedding=[1, float("inf"), 3]), TransportError, "what is no JSON"),
        (_with(embedding=[1, 2, 3]).replace(b"[1, 2, 3]", b"[1, 1e400, 3]"), TransportError, "not finite"),
        (_with(embedding=[1, 10**400, 3]), TransportError, "not finite"),
        (_with(embedding=[0, 0.0, 0]), TransportError, "without direction"),
    ],
)
def test_answers_that_are_none_are_refused(
    server: EmbeddingServer, body: bytes, error: type[AuditError], why: str
) -> None:
    server.replies.append(Reply(body=body))
    with pytest.raises(error, match=why):
        server.model(NAME).embed(["x", "yy"])
    assert len(server.asked) == 1  # asking again would bring the same


def test_tiny_and_huge_vectors_have_a_direction(server: EmbeddingServer) -> None:
    server.replies.append(Reply(body=_with(embedding=[3e-200, 0, 4e-200])))
    assert np.allclose(server.model(NAME).embed(["x", "yy"])[1], [0.6, 0, 0.8])
    server.replies.append(Reply(body=_with(embedding=[3e200, 0, 4e200])))
    assert np.allclose(server.model(NAME).embed(["x", "yy"])[1], [0.6, 0, 0.8])


# --- what goes wrong on the way --------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_a_busy_server_is_asked_again(server: EmbeddingServer, status: int) -> None:
    pauses: list[float] = []
    server.replies += [Reply(status), Reply(status, headers={"Retry-After": "7"})]
    assert server.model(NAME, pauses.append).embed(["x"]).shape == (1, 3)
    assert pauses == [0.5, 7.0]
    assert len({json.dumps(one.body) for one in server.asked}) == 1


def test_a_server_that_stays_busy_is_given_up(server: EmbeddingServer) -> None:
    pauses: list[float] = []
    server.replies += [Reply(503, headers={"Retry-After": "99999"})] * 9
    with pytest.raises(TransportError, match="answers with status 503, 5 times: ask again later"):
        server.model(NAME, pauses.append).embed(["x"])
    assert pauses == [20.0] * 4
    server.asked.clear()
    with pytest.raises(TransportError, match="2 times"):
        server.model(NAME).embed(["x"], role="query")  # an account is waiting
    assert len(server.asked) == 2


def test_a_pause_that_is_no_number_is_our_own(server: EmbeddingServer) -> None:
    pauses: list[float] = []
    server.replies += [Reply(429, headers={"Retry-After": said}) for said in ("tomorrow", "-1", "1e9", "²")]
    server.model(NAME, pauses.append).embed(["x"])
    assert pauses == [0.5, 1.0, 2.0, 4.0]


def test_a_lost_connection_is_made_again(server: EmbeddingServer) -> None:
    server.away = True

    def back(seconds: float) -> None:
        server.away = False

    assert server.model(NAME, back).embed(["x"]).shape == (1, 3)


def test_nobody_at_the_address() -> None:
    with serving(vectors) as server:
        model = server.model(NAME)
    with pytest.raises(TransportError, match=r"127\.0\.0\.1:\d+ cannot be reached .*, 5 times"):
        model.embed(["x"])


@pytest.mark.parametrize("reply", [Reply(wait=30.0), Reply(body=b" " * 500, drip=0.05)])
def test_a_slow_answer_is_waited_for_only_so_long(server: EmbeddingServer, reply: Reply) -> None:
    """Also one that lets a byte through before every time-out of the socket."""
    server.replies.append(reply)
    began = time.monotonic()
    with pytest.raises(TransportError, match=r"did not answer within 0\.4 s"):
        Endpoint(server.base, None).post("embeddings", b"{}", 1000, Patience(0.4, 1, True))
    assert time.monotonic() - began < 5.0


def test_an_oversized_answer_is_not_read(server: EmbeddingServer) -> None:
    limit = module.FIXED_BYTES + 3 * module.BYTES_A_NUMBER
    server.replies.append(Reply(body=b" " * (limit + 1)))
    with pytest.raises(TransportError, match=f"more than {limit} bytes"):
        server.model(NAME).embed(["x"])
    server.replies.append(Reply(body=b" " * 100, announced=1 << 40))
    with pytest.raises(TransportError, match="more than 99 bytes"):
        Endpoint(server.base, None).post("embeddings", b"{}", 99, ONCE)


def test_an_answer_that_breaks_off_is_asked_for_again(server: EmbeddingServer) -> None:
    whole = json.dumps(listed(vectors(["x"]))).encode()
    server.replies.append(Reply(body=whole[:-5], announced=len(whole)))
    server.replies[0].headers["Connection"] = "close"
    assert server.model(NAME).embed(["x"]).shape == (1, 3)
    assert len(server.asked) == 2


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed(server: EmbeddingServer, status: int) -> None:
    with serving(vectors) as elsewhere:
        server.replies.append(Reply(status, headers={"Location": f"{elsewhere.base}/embeddings"}))
        with pytest.raises(ConfigurationError, match="redirects are not followed"):
            server.model(NAME).embed(["x"])
        assert elsewhere.asked == []


@pytest.mark.parametrize(
    ("status", "error", "why"),
    [
        (400, EncodingError, "does not take these texts"),
        (413, EncodingError, "does not take these texts"),
        (422, EncodingError, "does not take these texts"),
        (401, ConfigurationError, "does not take the key"),
        (403, ConfigurationError, "does not take the key"),
        (404, ConfigurationError, "answers with status 404"),
        (204, ConfigurationError, "answers with status 204"),
    ],
)
def test_refusals_are_not_repeated(server: EmbeddingServer, status: int, error: type[AuditError], why: str) -> None:
    server.replies.append(Reply(status))
    with pytest.raises(error, match=why):
        server.model(NAME).embed(["x"])
    assert len(server.asked) == 1


def test_a_refusal_is_quoted_to_the_operator_only_and_never_with_the_key(server: EmbeddingServer) -> None:
    said = f"\x1b[2Jtoo long: secret text, key {KEY}".encode()
    for status in (400, 401, 404):
        server.replies += [Reply(status, said), Reply(status, said)]
        with pytest.raises(AuditError) as to_operator:
            server.model(NAME).embed(["secret text"])
        assert "too long" in str(to_operator.value)
        assert "\x1b" not in str(to_operator.value)
        with pytest.raises(AuditError) as to_account:
            server.model(NAME).embed(["secret text"], role="query")
        assert "too long" not in str(to_account.value)
        assert "secret" not in str(to_account.value)
        for error in (to_operator, to_account):
            assert KEY not in str(error.value)
    assert KEY not in repr(server.model(NAME)._endpoint)


@pytest.mark.parametrize(
    ("base", "why"),
    [
        ("ftp://example.org", "of the form https"),
        ("example.org/v1", "of the form https"),
        ("https://", "of the form https"),
        ("https://example.org/v1?key=1", "of the form https"),
        ("https://example.org/v1#x", "of the form https"),
        ("https://exämple.org", "of the form https"),
        ("https://example.org:port", "malformed"),
        ("https://[::1", "malformed"),
        ("http://localhost.:8000", "leave out the dot"),
        ("http://127.1:8000", "four numbers from 0 to 255"),
        ("http://localhost:0", "port 0"),
        ("https://h..x/v1", "no host name"),
        ("https://name:word@example.org", "name or password"),
        ("https://example.org/a b", "space"),
        ("https://example.org/\x7f", "space or control"),
        ("http://example.org/v1", "unencrypted: use https"),
        ("http://192.0.2.1", "unencrypted: use https"),
        ("http://localhost.example.org", "unencrypted: use https"),
    ],
)
def test_urls_that_cannot_be_used_are_refused(base: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why) as error:
        Endpoint(base, KEY)
    assert "word" not in str(error.value).replace("password", "")
    for fine in ("http://localhost:1", "http://127.0.0.9", "http://[::1]:8080/v1", "https://example.org/v1/"):
        Endpoint(fine, KEY)


@pytest.mark.parametrize("key", ["", "a b", "a\nHost: evil", "é"])
def test_keys_that_are_none_are_refused(key: str) -> None:
    with pytest.raises(ConfigurationError, match="embedding key") as error:
        Endpoint("https://example.org", key)
    assert not key.strip() or key not in str(error.value)


def test_a_stranger_s_certificate_is_refused_and_a_known_one_taken(tmp_path: Path) -> None:
    """Over real TLS: where the authority is none that is trusted here, neither key nor text leaves."""
    authority = Authority(tmp_path, "authority")
    trusted = ssl.create_default_context(cafile=str(authority.path))
    with serving(vectors, authority.certificate("server")) as server:
        with pytest.raises(ConfigurationError, match=r"is of no authority trusted here: .*SSL_CERT_FILE"):
            DeclaredModel(declared(NAME), Endpoint(server.base, KEY, pauses=Pauses(lambda _: None))).embed(["x"])
        assert server.asked == []
        assert DeclaredModel(declared(NAME), Endpoint(server.base, KEY, tls=trusted)).embed(["x"]).shape == (1, 3)
        server.replies.append(Reply(body=b" " * 500, drip=0.05))
        with pytest.raises(TransportError, match="did not answer within"):
            Endpoint(server.base, None, tls=trusted).post("embeddings", b"{}", 1000, Patience(0.4, 1, True))
    with serving(vectors, authority.certificate("other", "127.0.0.2")) as server:
        with pytest.raises(ConfigurationError, match="certificate"):
            DeclaredModel(declared(NAME), Endpoint(server.base, KEY, tls=trusted)).embed(["x"])
        assert server.asked == []


def test_a_handshake_that_never_ends_is_hung_up() -> None:
    """A server that lets a byte through now and then never lets the socket's own time-out come."""
    over = threading.Event()

    def drip(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection, suppress(OSError):
            connection.sendall(b"\x16\x03\x03\x40\x00")  # a record of 16 KiB begins
            while not over.wait(0.05):
                connection.sendall(b"\x02")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=drip, args=(listener,), daemon=True).start()
        endpoint = Endpoint(f"https://127.0.0.1:{listener.getsockname()[1]}", KEY)
        began = time.monotonic()
        with pytest.raises(TransportError, match=r"did not answer within 0\.4 s"):
            endpoint.post("embeddings", b"{}", 1000, Patience(0.4, 1, True))
        assert time.monotonic() - began < 5.0
    over.set()

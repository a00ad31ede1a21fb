# SPDX-License-Identifier: GPL-3.0-or-later
"""An answer that was paid for reaches its account, whatever fails after it came: terminal, embedder, disk."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ragseal.client import Client
from ragseal.client.__main__ import main
from ragseal.client.repeat import main as repeat
from ragseal.client.settings import Environment
from ragseal.client.window import windows_of
from ragseal.kernel.errors import ConfigurationError, EncodingError, TransportError
from ragseal.runtime import streams
from tests.client import small_provider
from tests.client.small_provider import LetterEmbedder
from tests.client.test_commands import address as address

SMILE = "\U0001f600"


def run(*arguments: object, charset: str = "utf-8", status: int = 0) -> str:
    done = CliRunner(charset=charset).invoke(main, [str(a) for a in arguments], catch_exceptions=False)
    assert done.exit_code == status, done.output
    return done.output


@pytest.fixture
def smiling(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Any:
    """The scene with a letter in every document that Latin-1 does not have."""
    monkeypatch.setattr(small_provider, "TEXTS", [f"{text} {SMILE}" for text in small_provider.TEXTS])
    monkeypatch.setattr(
        "ragseal.client.client.Environment", lambda: Environment(class_of=lambda _: small_provider.CLASS)
    )
    return request.getfixturevalue("bench")


@pytest.fixture
def asking(smiling: Any, request: pytest.FixtureRequest) -> tuple[object, ...]:
    """What `ask` and `resume` are given."""
    vkey = smiling.provider.log_signer.verifier.vkey()
    where = request.getfixturevalue("address")
    return "--state", smiling.state, "--provider", where, "--embedder", "none", "--log-key", vkey


@pytest.mark.parametrize("charset", ["latin-1", "cp1252"])
def test_a_terminal_without_the_letter_gets_the_answer_with_an_escape(asking: Any, charset: str) -> None:
    said = run("ask", "json", *asking, charset=charset)
    assert "\\U0001f600" in said
    assert "window w1, query 1" in said


def test_an_answer_whose_print_failed_is_shown_from_the_folder(
    smiling: Any, asking: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is asked for it again, and no query is spent."""
    full = lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device"))  # noqa: E731
    with monkeypatch.context() as patched:
        patched.setattr(streams._Written, "_now", full)
        assert SMILE not in run("ask", "json", *asking, status=streams.NOT_WRITTEN)
    calls = len(smiling.provider.calls)
    assert "`ragseal-client receipts show` prints those that came" in run("resume", *asking)
    listed = run("receipts", "list", "--state", smiling.state)
    assert "`ragseal-client receipts show WINDOW NUMBER`" in listed
    shown = run("receipts", "show", "w1", 1, "--state", smiling.state)
    assert shown.startswith("-- question: json\n")
    told = json.loads(run("receipts", "show", "w1", 1, "--state", smiling.state, "--json"))
    (memory,) = windows_of(smiling.state)
    texts = [one.content.text for one in memory.answer(1).openings.slots if one.content is not None]
    assert texts
    assert [one["text"] for one in told["texts"]] == texts
    assert all(text in shown for text in texts)
    assert [call for call in smiling.provider.calls[calls:] if call in ("prepare", "retrieve")] == []


def test_an_answer_is_shown_before_older_windows_are_looked_at(smiling: Any, asking: Any) -> None:
    smiling.provider.on_call = lambda call: (
        (_ for _ in ()).throw(TransportError("lost")) if call == "retrieve" else None
    )
    with pytest.raises(TransportError):
        smiling.client().ask("json")
    smiling.close()
    smiling.provider.on_call = lambda _: None
    (memory,) = windows_of(smiling.state)
    smiling.provider.open("w2")
    (memory.folder / "refused").mkdir()
    said = run("ask", "csv", *asking)
    assert SMILE in said
    assert "window w2, query 1" in said
    assert "cannot read" in said


def test_no_further_query_is_spent_once_nobody_gets_the_answers(
    smiling: Any, asking: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = lambda *_: (_ for _ in ()).throw(OSError(32, "Broken pipe"))  # noqa: E731
    monkeypatch.setattr(streams._Written, "_now", full)
    done = CliRunner().invoke(repeat, ["ask", "json", "--times", "3", *map(str, asking)])
    assert done.exit_code == streams.NOT_WRITTEN
    assert smiling.provider.records == 1


@pytest.mark.parametrize("name", ["00000001.answer", "00000001.exchange", "checkpoint", "pending"])
def test_an_error_after_the_query_was_signed_says_how_its_answer_comes(
    smiling: Any, asking: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a full disk it says that the file was not changed: the query is spent all the same."""
    real: Callable[..., None] = os.replace

    def full(source: Any, target: Any) -> None:
        signed = name == "pending" or bool(smiling.provider.records)
        if Path(target).name == name and Path(target).is_relative_to(smiling.state) and signed:
            raise OSError(28, "No space left on device")
        real(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", full)
        said = run("ask", "json", *asking, status=1)
    owed = "a query of window w1 is signed and may be paid; its answer is owed: `ragseal-client resume` fetches it"
    assert (owed in said) == (name in ("00000001.answer", "checkpoint"))
    assert ("`ragseal-client receipts show w1 1` prints it" in said) == (name == "00000001.exchange")
    assert smiling.provider.records == (name != "pending")
    if name != "pending":
        run("resume", *asking)
        assert SMILE in run("receipts", "show", "w1", 1, "--state", smiling.state)


@pytest.mark.parametrize(("window", "number"), [("w1", 2), ("w2", 1)])
def test_an_answer_that_is_not_kept_is_named(smiling: Any, window: str, number: int) -> None:
    smiling.client().ask("json")
    smiling.close()
    said = run("receipts", "show", window, number, "--state", smiling.state, status=1)
    assert f"no answer to query {number} of window '{window}' is kept here" in said


@pytest.mark.parametrize("trouble", [EncodingError("text 1 is blank"), ConfigurationError("another dimension")])
def test_an_embedder_that_takes_no_document_leaves_the_answer_unranked(bench: Any, trouble: Exception) -> None:
    """It is asked for the documents after the query was spent."""

    class OnlyQueries(LetterEmbedder):
        def embed(self, texts: Any, *, role: Any = "document", **more: Any) -> Any:
            if role == "document":
                raise trouble
            return super().embed(texts, role=role, **more)

    result = bench.client(embedder=OnlyQueries()).ask("json")
    assert result.ranked is None
    assert result.opened
    with pytest.raises(type(trouble)):
        result.rank()


@pytest.mark.parametrize("name", ["00000001.answer", "00000001.exchange", "checkpoint"])
def test_a_disk_that_takes_no_answer_loses_none(bench: Any, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The next try brings the same bytes, or finds that they are kept; no second query is spent."""
    real: Callable[..., None] = os.replace

    def full(source: Any, target: Any) -> None:
        if Path(target).name == name and Path(target).is_relative_to(bench.state) and bench.provider.records:
            raise OSError(28, "No space left on device")
        real(source, target)

    client: Client = bench.client()
    monkeypatch.setattr(os, "replace", full)
    kept = "; the answer is kept: `ragseal-client receipts show w1 1` prints it" if "exchange" in name else ""
    with pytest.raises(ConfigurationError, match=f"No space left on device.*{kept}"):
        client.ask("json")
    monkeypatch.setattr(os, "replace", real)
    again = bench.client().resume()
    assert [len(again.results), list(again.owed)] == [int(name != "00000001.exchange"), []]
    bench.close()
    assert not windows_of(bench.state)[0].owes
    assert len(windows_of(bench.state)[0].answer(1).openings.slots) == 3
    assert "query 1" in run("receipts", "show", "w1", 1, "--state", bench.state)
    assert bench.provider.records == 1


def test_a_kept_answer_is_shown_while_another_process_asks(bench: Any) -> None:
    client = bench.client()
    client.ask("json")
    assert "query 1" in run("receipts", "show", "w1", 1, "--state", bench.state)

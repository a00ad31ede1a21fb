# SPDX-License-Identifier: GPL-3.0-or-later
"""A model in two places: no document reaches the second one, and none is waited for there."""

from __future__ import annotations

import threading

import pytest

from ragseal.generators import named_generator
from ragseal.generators.alone import AloneGenerator
from ragseal.generators.interface import Limited, within
from ragseal.kernel.errors import ConfigurationError, TransportError
from tests.generators.chat_server import chatting


def test_what_is_asked_without_documents_does_not_wait_for_those(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY_OF_BOTH", "k")
    go, asked = threading.Event(), threading.Event()

    def busy(system: str, user: str) -> str:
        asked.set()
        assert go.wait(20)
        return "of a document"

    with chatting(busy) as first, chatting(lambda system, user: f"alone: {user}") as second:
        names = f"chat:big@{first.base}", f"chat:big@{second.base}"
        generator = named_generator(names[0], "KEY_OF_BOTH", alone=names[1], quotes=False)
        said: list[str] = []
        about = threading.Thread(target=lambda: said.append(generator.answer("What?", ["a secret document"])))
        about.start()
        assert asked.wait(20)
        assert "What?" in generator.answer("What?", [])
        assert "copper" in generator.answer("What?", [], ["copper"])
        assert said == []
        go.set()
        about.join(20)
        assert said == ["of a document"]
        assert "secret" not in repr(second.asked)
        assert len(second.asked) == 2
    assert "without documents chat:big" in generator.name


def test_both_places_give_up_in_time() -> None:
    go = threading.Event()

    def stuck(system: str, user: str) -> str:
        go.wait(20)
        return "late"

    with chatting(stuck) as first, chatting(stuck) as second:
        generator = named_generator(f"chat:big@{first.base}", alone=f"chat:big@{second.base}")
        assert isinstance(generator, AloneGenerator)
        assert isinstance(generator, Limited)
        for contexts in ([], ["a document"]):
            with pytest.raises(TransportError):
                within(generator, 0.3).answer("What?", contexts)
        go.set()


@pytest.mark.parametrize(
    "names", [("extractive", "chat:m@http://localhost:1/v1"), ("chat:m@http://localhost:1/v1", "extractive")]
)
def test_the_generator_of_sentences_has_no_second_server(names: tuple[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="second server"):
        named_generator(names[0], alone=names[1])

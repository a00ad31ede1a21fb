# SPDX-License-Identifier: GPL-3.0-or-later
"""A generator by the name that an operator gives it."""

from __future__ import annotations

from dataclasses import replace

from ragseal.generators.alone import AloneGenerator
from ragseal.generators.chat import PATIENT, ChatGenerator
from ragseal.generators.interface import Generator
from ragseal.generators.sentences import SentenceGenerator
from ragseal.kernel.errors import ConfigurationError

EXTRACTIVE = "extractive"
_CHAT = "chat:"


def named_generator(
    name: str, key_variable: str | None = None, *, alone: str | None = None, quotes: bool = True
) -> Generator:
    """The generator of a name; nothing is asked of it yet.

    Args:
        name: "extractive", the best sentence of each text, or "chat:MODEL@URL", a served model.
        key_variable: the environment variable that holds a served model's key.
        alone: a second server of a served model, named likewise, which no document reaches; it gets the same key.
        quotes: its errors may quote its server, which may quote what it was asked.

    Raises:
        ConfigurationError: no such name, or a model or URL that cannot be used.
    """
    if alone is not None:
        if EXTRACTIVE in (name, alone):
            raise ConfigurationError(f"only a served model has a second server: {EXTRACTIVE!r} asks nobody")
        first, second = (named_generator(one, key_variable, quotes=quotes) for one in (name, alone))
        return AloneGenerator(first, second)
    if name == EXTRACTIVE:
        return SentenceGenerator()
    model, at, url = name.removeprefix(_CHAT).partition("@")
    if not name.startswith(_CHAT) or not at:
        raise ConfigurationError(
            f'{name[:200]!r} is not a generator: write "{EXTRACTIVE}", or chat:MODEL@URL such as '
            "chat:llama3@http://localhost:8000/v1"
        )
    return ChatGenerator(url, model, key_variable=key_variable, patience=replace(PATIENT, quotes=quotes))

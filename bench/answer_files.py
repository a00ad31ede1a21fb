# SPDX-License-Identifier: GPL-3.0-or-later
"""Questions with their answers: from a file in the layout of NQ-open, or made up together with a corpus about them.

NQ-open's layout is one JSON object a line, with a member ``question`` and a member ``answer``, a list of references.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ragseal.kernel.errors import ConfigurationError

MAX_FILE = 256 << 20  #: bytes
MAX_TEXT = 10_000  #: characters of a question or a reference


@dataclass(frozen=True, slots=True)
class Asked:
    """A question and the answers that count as right, at least one."""

    question: str
    answers: tuple[str, ...]


def read_questions(path: Path, most: int | None = None) -> tuple[Asked, ...]:
    """The first ``most`` questions of a file that have a reference; the others are passed over, as in the paper.

    Raises:
        ConfigurationError: no such file, one that is too long, or a line that is not of this layout (says which).
    """
    try:
        if path.stat().st_size > MAX_FILE:
            raise ConfigurationError(f"{path} has more than {MAX_FILE >> 20} MiB: split it")
        found: list[Asked] = []
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if most is not None and len(found) == most:
                    break
                if line.strip() and (one := _asked(line, f"{path}, line {number}")) is not None:
                    found.append(one)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} cannot be read as UTF-8 text: {error}") from None
    if not found:
        raise ConfigurationError(f"{path} has no question with an answer")
    return tuple(found)


def _asked(line: str, where: str) -> Asked | None:
    layout = 'expected {"question": "...", "answer": ["...", ...]}'
    try:
        value: Any = json.loads(line)
    except (ValueError, RecursionError):
        raise ConfigurationError(f"{where} is no JSON: {layout}") from None
    question, answers = (value.get("question"), value.get("answer")) if isinstance(value, dict) else (None, None)
    if not isinstance(question, str) or not question.strip():
        raise ConfigurationError(f"{where} names no question: {layout}")
    if not isinstance(answers, list) or not all(isinstance(one, str) for one in answers):
        raise ConfigurationError(f"{where} has no list of answers: {layout}")
    if any(len(text) > MAX_TEXT for text in (question, *answers)):
        raise ConfigurationError(f"{where} holds a text of more than {MAX_TEXT} characters")
    if any("\ud800" <= ch <= "\udfff" for text in (question, *answers) for ch in text):
        raise ConfigurationError(f"{where} holds a lone surrogate")
    right = tuple(one for one in answers if one.strip())
    return Asked(question, right) if right else None


# --- a made-up world -------------------------------------------------------------------------------------------------

_SYLLABLES = ("ba", "cor", "del", "fi", "gan", "hol", "jin", "ka", "lum", "mer", "nor", "pel", "qua", "ros", "sel",
              "tav", "ul", "ven", "wix", "yar", "zem")  # fmt: skip

#: What is asked, and five ways to say it; of a place, and of a person.
_RELATIONS = (
    ("who is the mayor of {}?", ("{1} is the mayor of {0}.", "The mayor of {0} is called {1}.",
     "Since the last vote {1} has been mayor of {0}.", "In {0} the office of mayor is held by {1}.",
     "Mayor {1} opened the market of {0}.")),
    ("who built the bridge of {}?", ("{1} built the bridge of {0}.", "The bridge of {0} was built by {1}.",
     "It was {1} who planned and built the bridge of {0}.", "The old bridge in {0} is a work of {1}.",
     "For the bridge of {0} the town paid its builder, {1}.")),
    ("who founded the school of {}?", ("{1} founded the school of {0}.", "The school of {0} was founded by {1}.",
     "The founder of the school in {0} was {1}.", "A school in {0} goes back to {1}, its founder.",
     "Pupils of {0} remember {1}, who founded their school.")),
)  # fmt: skip
_FILLERS = (
    "The weather there is mild for most of the year.", "Many visitors come by boat.",
    "A train leaves every other hour.",
    "There is a market on Saturdays.", "The harbour freezes in some winters.", "Local bread is known for its crust.",
    "Old maps spell the name in several ways.", "The library keeps a record of it.",
)  # fmt: skip


def made_up(count: int, documents: int, seed: int = 1) -> tuple[tuple[Asked, ...], tuple[str, ...]]:
    """Questions about a world of made-up names, and so many documents about each.

    Of the documents about question i a share that rises from 30 to 95 per cent over the questions says what is right;
    the others name somebody else each.  So the gap between right keywords and others is known, as in no real corpus.
    """
    random = np.random.default_rng([seed, count, documents])
    names = _names(random)
    asked, texts = [], []
    for i in range(count):
        relation, ways = _RELATIONS[i % len(_RELATIONS)]
        place, right = next(names), f"{next(names)} {next(names)}"
        share = 0.3 + 0.65 * (i / (count - 1) if count > 1 else 1.0)
        asked.append(Asked(relation.format(place), (right,)))
        for _ in range(documents):
            person = right if random.random() < share else f"{next(names)} {next(names)}"
            said = ways[random.integers(len(ways))].format(place, person)
            first, second = (_FILLERS[j] for j in random.choice(len(_FILLERS), 2, replace=False))
            texts.append(" ".join((first, said, second)))
    order = random.permutation(len(texts))
    return tuple(asked), tuple(texts[j] for j in order)


def _names(random: np.random.Generator) -> Iterator[str]:
    """Names of three or four syllables, no two alike."""
    seen: set[str] = set()
    while True:
        parts: Sequence[int] = random.integers(len(_SYLLABLES), size=int(random.integers(3, 5))).tolist()
        name = "".join(_SYLLABLES[j] for j in parts).capitalize()
        if name not in seen:
            seen.add(name)
            yield name

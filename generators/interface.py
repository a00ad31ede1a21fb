# SPDX-License-Identifier: GPL-3.0-or-later
"""What every generator offers, and what none of them is asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from ragseal.kernel.errors import EncodingError

#: What a generator without a model of its own says where it has neither texts nor keywords.
NOTHING = "Nothing is known about this."

MAX_QUESTION = 1 << 14  #: characters
MAX_CONTEXTS = 1 << 20  #: characters of all texts of one call together
MAX_KEYWORDS = 1 << 10
MAX_KEYWORD = 1 << 8  #: characters of one


class Generator(Protocol):
    """May be called from many threads.  Turns a question, with texts or keywords beside it, into an answer.

    An answer depends on the generator and on the arguments of its own call alone: neither on earlier calls nor on a
    document's rank nor on what is computed in the same batch.  Mechanisms that answer each of N documents by itself
    rest on that: with one document changed, one answer changes.
    """

    @property
    def name(self) -> str:
        """Which generator this is, as reports print it: its kind, and the model where there is one."""
        ...

    def answer(self, question: str, contexts: Sequence[str], keywords: Sequence[str] = ()) -> str:
        """An answer, never blank.

        Args:
            question: as it was asked; not blank.
            contexts: texts to answer from, best first; may be empty.
            keywords: words that the answer is likely to hold, in an order without meaning; may be empty.

        Raises:
            EncodingError: a question, text or keyword that is blank, too long or no valid Unicode.
            ConfigurationError: the model cannot be used as it is set up.
            TransportError: (of a served model) it cannot be reached, or gives no answer.
        """
        ...


@runtime_checkable
class Limited(Generator, Protocol):
    """A generator whose calls can be told when to give up."""

    def within(self, seconds: float) -> Generator:
        """The same, of which a call that has not ended after so many seconds, repetitions included, gives up."""
        ...


def within(generator: Generator, seconds: float) -> Generator:
    """The generator with calls of so many seconds at most, if it offers that: who takes no answer any more frees it."""
    return generator.within(seconds) if isinstance(generator, Limited) else generator


def check_asked(question: str, contexts: Sequence[str], keywords: Sequence[str]) -> None:
    """Refuse what no generator should see.

    Raises:
        EncodingError: says which argument, and what to do.
    """
    if isinstance(contexts, str) or isinstance(keywords, str):
        raise EncodingError("contexts and keywords are sequences of texts; put a single text in a list")
    if len(keywords) > MAX_KEYWORDS:
        raise EncodingError(f"{len(keywords)} keywords: an answer takes at most {MAX_KEYWORDS}")
    check_text("the question", question, MAX_QUESTION)
    for i, text in enumerate(contexts):
        check_text(f"context {i}", text, MAX_CONTEXTS)
    if sum(map(len, contexts)) > MAX_CONTEXTS:
        raise EncodingError(f"contexts of more than {MAX_CONTEXTS} characters: give fewer or shorter ones")
    for i, word in enumerate(keywords):
        check_text(f"keyword {i}", word, MAX_KEYWORD)


def check_text(what: str, text: str, most: int) -> None:
    """Refuse one text.  Raises EncodingError: no string, blank, longer than ``most`` characters or no valid Unicode."""
    if not isinstance(text, str):
        raise EncodingError(f"{what} is a {type(text).__name__}, not a string")
    if not text.strip():
        raise EncodingError(f"{what} is blank: leave it out, or say something")
    if len(text) > most:
        raise EncodingError(f"{what} has {len(text)} characters, at most {most} are taken: shorten it")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise EncodingError(f"{what} holds a lone surrogate at character {error.start}") from None

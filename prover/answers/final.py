# SPDX-License-Identifier: GPL-3.0-or-later
"""The last step: from the keywords that were released, and nothing else of the index, to an answer."""

from __future__ import annotations

from collections.abc import Iterable

from ragseal.generators import Generator


def zero_shot(generator: Generator, question: str) -> str:
    """The answer without any document.

    It is asked for before documents are: an endpoint that is away, a model that returns nothing or a question that is
    refused ends the query here, whatever the index holds and before any budget is spent.

    Raises:
        AuditError: as :meth:`ragseal.generators.Generator.answer`.
        TypeError: it gives something other than a text.
    """
    said = generator.answer(question, [])
    if not isinstance(said, str):
        raise TypeError(f"the generator gives a {type(said).__name__}, not a text")
    return said


def final_answer(generator: Generator, question: str, keywords: Iterable[str], without: str) -> str:
    """The answer that the account gets.

    Args:
        keywords: what was released; their order and number of mentions are left out here, too.
        without: the answer of :func:`zero_shot`, for where nothing was released, and where the generator fails now: an
            error in its place would say that something was.
    """
    words = tuple(sorted(set(keywords)))
    if not words:
        return without
    try:
        return generator.answer(question, [], words)
    except Exception:  # whatever it is, as in answer_each
        return without

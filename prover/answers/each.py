# SPDX-License-Identifier: GPL-3.0-or-later
"""An answer from each of N documents by itself, of which one document changes one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ragseal.generators import Generator
from ragseal.kernel.errors import AuditError

Progress = Callable[[int, int], None]  #: documents answered from, and their number


@dataclass(frozen=True, slots=True)
class Answers:
    """One text a document, in the order given; "" where the generator gave none."""

    texts: tuple[str, ...]
    #: The documents without an answer, and why: for the operator, not for the account, who would learn from it what
    #: no noise hides.
    failed: tuple[tuple[int, str], ...]


def answer_each(
    generator: Generator, question: str, documents: Sequence[str], progress: Progress | None = None
) -> Answers:
    """Ask about one document after the other.

    A document from which no answer comes, for whatever reason, has the empty answer: a refusal in its place would tell
    the account that it was retrieved.  Whether the generator works at all is to be found out without documents.
    """
    texts, failed = [], []
    for i, document in enumerate(documents):
        text = ""
        try:
            text = generator.answer(question, [document])
        except Exception as error:  # whatever it is: a fault that only this document meets is one of this document
            failed.append((i, str(error) if isinstance(error, AuditError) else type(error).__name__))
        texts.append(text)
        if progress is not None:
            progress(i + 1, len(documents))
    return Answers(tuple(texts), tuple(failed))

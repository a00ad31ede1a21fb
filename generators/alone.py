# SPDX-License-Identifier: GPL-3.0-or-later
"""A served model in two places: one is asked about documents, the other without any.

Calls about documents of some requests can then not hold up the call without documents of another one, whose lateness
its account sees (SPEC A.14.7.3): no document reaches the second server.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragseal.generators.interface import Generator, within


class AloneGenerator:
    """Implements :class:`ragseal.generators.Limited`."""

    def __init__(self, documents: Generator, alone: Generator) -> None:
        """
        Args:
            documents: asked where there are texts to answer from.
            alone: asked where there are none: the question alone, or with keywords.
        """
        self._documents, self._alone = documents, alone

    @property
    def name(self) -> str:
        return f"{self._documents.name}, without documents {self._alone.name}"

    def within(self, seconds: float) -> Generator:
        """See :meth:`ragseal.generators.Limited.within`."""
        return AloneGenerator(within(self._documents, seconds), within(self._alone, seconds))

    def answer(self, question: str, contexts: Sequence[str], keywords: Sequence[str] = ()) -> str:
        """See :meth:`ragseal.generators.Generator.answer`."""
        return (self._documents if contexts else self._alone).answer(question, contexts, keywords)

# SPDX-License-Identifier: GPL-3.0-or-later
"""Texts of which an embedder reads the beginning alone: they are found by that, and their owner is told."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ragseal.embedder.interface import Cutting, Embedder
from ragseal.kernel.errors import EncodingError
from ragseal.kernel.printable import printable

NAMED = 10  #: texts that a message names
BEGINNING = 60  #: characters of a text that stand for it where it has no id yet
WAY_OUT = "split them into several documents (--chunk does it for text folders)"


class Lengths:
    """Which of the texts that are embedded are longer than the embedder reads."""

    def __init__(self, embedder: Embedder, strict: bool) -> None:
        """``strict``: such a text is refused.  Embedders that cannot tell, since they run elsewhere, let all pass."""
        self._embedder = embedder if isinstance(embedder, Cutting) else None
        self._strict = strict
        self._cut: set[str] = set()

    def look(self, texts: Sequence[str]) -> None:
        """Texts that are to be embedded.

        Raises:
            EncodingError: one is too long, and all of each must be read.
        """
        if self._embedder is None:
            return
        found = [texts[at] for at in self._embedder.cut(texts)]
        if found and self._strict:
            begin = [repr(printable(text.strip()[:BEGINNING])) for text in found]
            raise EncodingError(f"{self._said(len(found))} begin with {_listed(begin)}. Nothing was put: {WAY_OUT}")
        self._cut.update(found)

    def notes(self, stored: Iterable[tuple[str, str]]) -> list[str]:
        """A line about those of the ``stored`` ids and texts, at most."""
        if not self._cut:
            return []
        named = [repr(printable(name)[:BEGINNING]) for name, text in stored if text in self._cut]
        return [f"{self._said(len(named))} are {_listed(named)}: questions find them by their beginnings; {WAY_OUT}"]

    def _said(self, count: int) -> str:
        most = self._embedder.most_tokens if self._embedder is not None else 0
        return f"{count} texts are longer than the embedder reads, {most} word pieces; they"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")

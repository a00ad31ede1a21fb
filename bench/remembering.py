# SPDX-License-Identifier: GPL-3.0-or-later
"""An embedder for experiments, which ask for the vectors of the same texts in hundreds of cells."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ragseal.embedder import Embedder
from ragseal.embedder.interface import Identity, Progress, Role, Vectors


class Remembering:
    """An embedder that embeds no text twice.  Implements :class:`ragseal.embedder.Embedder`."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._held: dict[tuple[Role, str], Vectors] = {}

    @property
    def dimension(self) -> int:
        return self._embedder.dimension

    def identity(self) -> Identity:
        return self._embedder.identity()

    def embed(self, texts: Sequence[str], *, role: Role = "document", progress: Progress | None = None) -> Vectors:
        new = [text for text in dict.fromkeys(texts) if (role, text) not in self._held]
        for at in range(0, len(new), 256):
            some = new[at : at + 256]
            for text, row in zip(some, self._embedder.embed(some, role=role), strict=True):
                self._held[role, text] = row
            if progress is not None:
                progress(at + len(some), len(new))
        return np.array([self._held[role, text] for text in texts], dtype=np.float32).reshape(
            len(texts), self.dimension
        )

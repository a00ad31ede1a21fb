# SPDX-License-Identifier: GPL-3.0-or-later
"""Vectors that a source brings along: taken only where enough of them, drawn at random, are what the embedder gives.

A vector of another model, or of another text, ranks its document wherever it likes.  The claim holds for any vectors;
answers are worth something only with the right ones, so N of them are embedded anew.  A source in which a share p of
the vectors is wrong passes with probability (1 - p)^N.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ragseal.embedder import Embedder, quantise
from ragseal.kernel.errors import ConfigurationError, EncodingError
from ragseal.prover.commitment.documents import Row
from ragseal.prover.sources.interface import Item

LEAST_COSINE = 0.999
LEAST_NORM, LARGEST_NORM = 1e-6, 1e6  #: outside of it a vector is damaged, whatever its direction
MOST_CHECKED = 100_000


@dataclass(frozen=True, slots=True)
class VectorRule:
    """``--vectors``: embed all texts anew, or take vectors and check so many of them."""

    check: int | None = None  #: None: embed

    @classmethod
    def parse(cls, text: str) -> VectorRule:
        """ "embed" or "check:N"; ConfigurationError for anything else."""
        if text == "embed":
            return cls()
        found = re.fullmatch(r"check:([0-9]{1,6})", text)
        if found is None or not 1 <= int(found[1]) <= MOST_CHECKED:
            raise ConfigurationError(f"--vectors takes embed, or check:N with N from 1 to {MOST_CHECKED}")
        return cls(int(found[1]))


EMBED = VectorRule()


class VectorCheck:
    """Takes a read's vectors, and embeds a uniform sample of them anew at its end."""

    def __init__(self, embedder: Embedder, count: int, below: Callable[[int], int] = secrets.randbelow) -> None:
        """
        Args:
            count: how many to embed anew; all where there are fewer.
            below: n -> a uniform number in [0, n); secret, or a source could know where to lie.
        """
        self._embedder = embedder
        self._count = count
        self._below = below
        self._sample: list[Item] = []
        self._met = 0

    def rows(self, items: Sequence[Item]) -> list[Row]:
        """The quantised vectors of items, each (d,) int8.

        Raises:
            EncodingError: no vector, another dimension, NaN, infinity, or a length that no embedder gives.
        """
        dimension = self._embedder.dimension
        for item in items:
            if item.vector is None or item.vector.shape != (dimension,):
                has = "no vector" if item.vector is None else f"a vector of {len(item.vector)} entries"
                raise EncodingError(f"{item.where}: {has}, the provider's embedder gives {dimension}")
        if not items:
            return []
        vectors = np.stack([item.vector for item in items if item.vector is not None]).astype(np.float64)
        finite = np.isfinite(vectors).all(axis=1)
        if not finite.all():
            raise EncodingError(f"{items[int(np.argmin(finite))].where}: its vector holds NaN or infinity")
        norms = np.linalg.norm(vectors, axis=1)
        sound = (norms >= LEAST_NORM) & (norms <= LARGEST_NORM)
        if not sound.all():
            at = int(np.argmin(sound))
            raise EncodingError(f"{items[at].where}: its vector has length {norms[at]:.3g}")
        for item in items:
            self._draw(item)
        return list(quantise(vectors))

    def finish(self) -> None:
        """Embed the sample anew; to be called before anything is written.

        Raises:
            EncodingError: a vector is not what the embedder gives for its text.
        """
        if not self._sample:
            return
        anew = self._embedder.embed([item.text for item in self._sample]).astype(np.float64)
        taken = np.stack([item.vector for item in self._sample if item.vector is not None]).astype(np.float64)
        lengths = np.linalg.norm(anew, axis=1) * np.linalg.norm(taken, axis=1)
        cosines = (anew * taken).sum(axis=1) / lengths
        good = cosines >= LEAST_COSINE  # false for NaN
        if not good.all():
            at = int(np.argmin(good))
            raise EncodingError(
                f"{self._sample[at].where}: its vector has cosine {cosines[at]:.4f} with what the provider's embedder "
                f"gives for its text, less than {LEAST_COSINE} ({int((~good).sum())} of {len(good)} that were drawn). "
                "Another model or another text made them: embed anew (--vectors embed)"
            )

    def _draw(self, item: Item) -> None:
        """Reservoir sampling: of the items met so far every subset of the sample's size is equally likely."""
        self._met += 1
        if len(self._sample) < self._count:
            self._sample.append(item)
        else:
            at = self._below(self._met)
            if at < self._count:
                self._sample[at] = item

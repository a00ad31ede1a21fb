# SPDX-License-Identifier: GPL-3.0-or-later
"""What every source offers: a snapshot of all its rows, and where its engine has a feed, what changed since a mark."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from ragseal.kernel.errors import EncodingError, TransportError
from ragseal.prover.commitment.corpora import Document
from ragseal.prover.commitment.documents import Delete
from ragseal.runtime.metadata import Plain, committed

Vector = npt.NDArray[np.float32]  #: (d,), as the source keeps it; its length does not matter


class StaleMark(TransportError):
    """The source no longer knows what changed since a mark: only a snapshot tells."""


@dataclass(frozen=True, slots=True)
class Item:
    """One row of a source."""

    id: str
    text: str
    metadata: Mapping[str, Plain] = field(default_factory=dict)
    vector: Vector | None = None  #: where vectors were asked for
    where: str = ""  #: the row, as an error names it

    def document(self) -> Document:
        """What the index takes of it.  This is the one place through which a source's metadata enters the index."""
        try:
            return Document(self.id, self.text, committed(self.metadata))
        except EncodingError as error:
            raise EncodingError(f"{self.where}: {error}") from None


@dataclass(frozen=True, slots=True)
class Refused:
    """A row that cannot be a document.  Its source goes on behind it: what else the source has must be known."""

    id: str | None  #: where the row has one
    error: EncodingError  #: names the row


class Source(Protocol):
    """A table, collection or corpus.  Reading blocks; one thread at a time.

    Every method may raise:
        ConfigurationError: a table, column or file that is not there, or no right to read it.
        EncodingError: a file or table that cannot be read.
        TransportError: the engine cannot be reached or was lost; trying again may help.
    """

    def identity(self) -> str:
        """Which rows these are, in one line without passwords: the same for the same ones."""
        ...

    def snapshot(self) -> tuple[Iterator[Item | Refused], str]:
        """All rows, and the mark of this moment; the iterator reads as it advances."""
        ...

    def close(self) -> None:
        """Let go of connections and files."""
        ...


@runtime_checkable
class Versioned(Protocol):
    """A source that can tell, without reading its rows, whether they are those of a mark."""

    def version(self) -> str:
        """The mark that a snapshot would have now."""
        ...


@runtime_checkable
class Feed(Protocol):
    """A source whose engine tells what changed."""

    def ready(self) -> None:
        """From now on no change goes unnoticed; before anything is read.

        Raises:
            ConfigurationError: the feed was never set up; says how to.
        """
        ...

    def changes(self, mark: str) -> tuple[Iterator[Item | Refused | Delete], str]:
        """Rows that were put or deleted since ``mark``, as they are now, and the mark up to which they are.

        At most some thousand rows at a time; the same mark again where there is nothing new.

        Raises:
            StaleMark: nobody can tell any more.
        """
        ...

    def wait(self, seconds: float, stop: threading.Event) -> None:
        """Until something may have changed, at most so long, or until ``stop`` is set (noticed within a second)."""
        ...


@runtime_checkable
class Installable(Protocol):
    """A source whose feed has to be set up in its engine."""

    def install_trigger(self) -> None:
        """Set it up.  ConfigurationError: no right to; says which it takes."""
        ...

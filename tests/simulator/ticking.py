# SPDX-License-Identifier: GPL-3.0-or-later
"""A whole provider behind gRPC whose index changes on a tick, and its audit with real keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ragseal.kernel.versions import IndexUpdate
from ragseal.prover.administration.documents import shape_of
from ragseal.prover.commitment.corpora import Document
from ragseal.prover.commitment.documents import Applied, Delete, Put, apply
from ragseal.prover.provider.backends import Environment
from tests.simulator import provider as scene
from tests.simulator.live import Live

EVERY = 60


class Ticking(Live):
    """A provider with a window whose index changes every minute of a clock that tests move."""

    def __init__(self, folder: Path, **options: Any) -> None:
        """``options`` as for :class:`Live`."""
        super().__init__(folder, **{"version_every": EVERY, **options})

    @property
    def updates(self) -> list[IndexUpdate]:
        """Of the window, in order."""
        return [one for _, one in self.window.updates]

    def put(self, *texts: tuple[str, str], tenant: str = "acme") -> Applied:
        """Put documents, (id, text) each."""
        changes = [Put(Document(name, text)) for name, text in texts]
        return self.change(*changes, tenant=tenant)

    def delete(self, *names: str, tenant: str = "acme") -> Applied:
        return self.change(*map(Delete, names), tenant=tenant)

    def change(self, *changes: Put | Delete, tenant: str = "acme") -> Applied:
        state, embed = self.provider.state, scene.embed_with(scene.TrigramEmbedder())
        return apply(state, tenant, changes, embed, Environment().draw, shape_of(state, scene.TRIGRAMS))

    def tick(self, minutes: int = 1) -> IndexUpdate:
        """Let so many minutes pass, make the version that is due then, and enter it."""
        self.clock.now += 60 * minutes
        self.call(self.server.serving.ticks.step())
        if self.window.updates[-1][1].time <= self.clock.now - EVERY:
            self.call(self.server.serving.ticks.publish())
        self.provider.journal.public.reveal()
        return self.updates[-1]

    def restarted(self) -> None:
        """After a restart the window is another object of the same ledger."""
        self.restart()
        self.window = self.provider.journal.history.windows[self.window.digest]


@contextmanager
def ticking(folder: Path, **options: Any) -> Iterator[Ticking]:
    """A provider that ends with the block; ``options`` as for :class:`Live`."""
    made = Ticking(folder, **options)
    try:
        yield made
    finally:
        made.end()


def texts_of(found: Any) -> Sequence[str]:
    """Ids of the documents that a client's result shows."""
    return [one.id for one in found.returned if one.text]

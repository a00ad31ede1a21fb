# SPDX-License-Identifier: GPL-3.0-or-later
"""Texts of versions, read for the generator of sentences before anybody may ask over them.  SPEC A.14.7.5.

How long it takes tells of documents, so nothing is read where a request is answered.  It is kept in memory alone.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from weakref import WeakValueDictionary

from ragseal.generators.sentences import ReadText, Sentences
from ragseal.kernel.errors import CommitmentError
from ragseal.prover.commitment.index import Version
from ragseal.prover.storage.history import History
from ragseal.prover.storage.window import Window


class Readings:
    """Of one provider.  From any thread."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._kept: dict[bytes, dict[bytes, Sentences]] = {}  #: by manifest, by digest of the version
        self._known: dict[str, WeakValueDictionary[bytes, ReadText]] = {}  #: by tenant: what any version kept has
        self._mutex = threading.Lock()  #: never held while something is read

    def read(self, window: Window, versions: Collection[Version]) -> None:
        """Read versions of a window, one of a tenant.  Blocks for as long as the texts are long that none kept has.

        These are kept, those that the window answers from now, and of other windows what may still be asked over.
        """
        made = {}
        for one in versions:
            known = self._known.setdefault(one.tenant, WeakValueDictionary())
            made[one.digest] = Sentences(map(one.document_text, one.documents.values()), known)
        answering = {digest for one in versions for digest in window.answering(one.tenant)}
        with self._mutex:
            own = {digest: found for digest, found in self._kept.get(window.digest, {}).items() if digest in answering}
            others = {
                manifest: found
                for manifest, found in self._kept.items()
                if manifest != window.digest and self._may_be_asked(manifest, window)
            }
            self._kept = {**others, window.digest: own | made}

    def _may_be_asked(self, manifest: bytes, newest: Window) -> bool:
        """Whether a window may be asked over.  One that is not entered may, unless a later one is not entered either:
        one is made after the other."""
        found = self._history.windows.get(manifest)
        if found is None:
            return newest.digest in self._history.windows
        return found.close is None and not self._history.passed_over(found)

    def of(self, manifest: bytes, digest: bytes) -> Sentences:
        """The sentences of a version.  Does not block.

        Raises:
            CommitmentError: they were not read; to do it now would tell of documents.
        """
        with self._mutex:
            found = self._kept.get(manifest, {}).get(digest)
        if found is None:
            raise CommitmentError("the texts of this version of the index are not read: start `serve` anew")
        return found

    def forget(self, manifest: bytes) -> None:
        """Hold nothing of a window any more."""
        with self._mutex:
            self._kept.pop(manifest, None)

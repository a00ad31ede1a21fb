# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring a tenant's documents to what a source holds: once, all or nothing, or again and again as the source changes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice

from ragseal.embedder import Embedder
from ragseal.kernel.errors import CommitmentError, EncodingError, TransportError
from ragseal.prover.base.randomness import Draw
from ragseal.prover.commitment import document_rows, documents
from ragseal.prover.commitment.corpora import DEFAULT_LIMITS
from ragseal.prover.commitment.corpus_files import Limits
from ragseal.prover.commitment.document_rows import ChangedMeanwhile
from ragseal.prover.commitment.documents import Applied, Change, Delete, Embed, Mark, Put
from ragseal.prover.commitment.placement import IndexShape
from ragseal.prover.sources.interface import Feed, Item, Refused, Source, StaleMark, Versioned
from ragseal.prover.sources.reading import checked
from ragseal.prover.sources.vectors import EMBED, VectorCheck, VectorRule
from ragseal.prover.storage.state import State

BATCH = 256  #: rows whose vectors are checked and quantised together
MOST_CHARACTERS = 1 << 31  #: of the texts that are taken together, all of which lie in memory until they are stored
FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0  #: seconds before a lost source is opened again; doubled each time

log = logging.getLogger("ragseal.sources")


@dataclass(frozen=True)
class Target:
    """Whose documents are brought up to date, and by what rules."""

    state: State
    tenant: str
    shape: Callable[[], IndexShape]  #: now: one that is followed outlives windows, and an index may grow meanwhile
    embedder: Embedder
    embed: Embed  #: the same one as the index calls it
    draw: Draw
    rule: VectorRule = EMBED
    keep_missing: bool = False  #: what the source no longer has stays
    limits: Limits = DEFAULT_LIMITS
    reading: Callable[[int], None] = field(default=lambda count: None)  #: told how many rows were read so far


def sync(target: Target, source: Source) -> Applied:
    """Take in a snapshot of a source, all of it, or its deletions alone where a row is refused.

    New and changed documents are put; those that were last read from this source and that it no longer has are
    deleted.  What other sources or people put is left alone unless the source has the same id.

    Raises:
        EncodingError: a row that is refused (names it), an id that occurs twice, or no rows at all.
        ConfigurationError, TransportError: the source cannot be read, or was lost on the way.
        CommitmentError: as :func:`documents.apply`.
    """
    identity = source.identity()
    documents.check_name(target.tenant)
    owned = document_rows.of_source(target.state, target.tenant, identity)
    items, mark = source.snapshot()
    read = _Read()
    for one in _counted(_bounded(target, checked(items, target.limits)), target.reading):
        read.take(one)
    if not read.ids:
        raise read.refused or EncodingError(
            f"{identity} has no rows: nothing was changed. If its documents are to go, delete them by id "
            "(`documents delete`)"
        )
    if not target.keep_missing:
        read.gone += map(Delete, sorted(owned - read.ids))
    read.same = bool(owned & read.ids)
    return _brought(target, read, identity, mark)


def catch_up(target: Target, source: Source, stop: threading.Event | None = None) -> Applied:
    """Take in what changed since the mark that was kept; a snapshot where there is none or the source forgot it.

    Args:
        stop: no further batch is begun once it is set; a source that changes all the time has always one more.

    Raises:
        As :func:`sync`.
    """
    identity = source.identity()
    kept = document_rows.mark_of(target.state, target.tenant, identity)
    if isinstance(source, Feed):
        source.ready()
    if isinstance(source, Versioned) and kept is not None and source.version() == kept:
        return Applied()
    if kept is None or not isinstance(source, Feed):
        return sync(target, source)
    total = Applied()
    while stop is None or not stop.is_set():
        try:
            found, mark = source.changes(kept)
        except StaleMark as reason:
            log.warning("%s: %s; reading all of it", identity, reason)
            return total + sync(target, source)
        if mark == kept:
            break
        total += _brought(target, _fed(target, identity, found), identity, mark)
        kept = mark
    return total


def follow(
    target: Target,
    open_source: Callable[[], Source],
    stop: threading.Event,
    every: float,
    tell: Callable[[Applied], None] = lambda done: None,
    missed: Callable[[str], None] = lambda why: None,
) -> None:
    """Keep a tenant's documents up to date until ``stop`` is set; a batch is taken whole or not at all.

    Each batch is stored with the mark that it reaches, so that a run that breaks off anywhere goes on from there.  A
    source that is lost is opened again, after waits that double up to :data:`LONGEST_WAIT` seconds.

    Args:
        open_source: opens it; called again after a loss.
        every: seconds between two looks at a source that has no feed, and the most between two looks at one that has.
        tell: told what each batch changed.
        missed: told why the source is lost, and nothing once it is read again.

    Raises:
        As :func:`sync`; a source that cannot be reached only where it never could.
    """
    wait, reached = FIRST_WAIT, False
    while not stop.is_set():
        try:
            with closing(open_source()) as source:
                while not stop.is_set():
                    done = catch_up(target, source, stop)
                    wait, reached = FIRST_WAIT, True
                    missed("")
                    if done.any:
                        tell(done)
                    if isinstance(source, Feed):
                        source.wait(every, stop)
                    else:
                        stop.wait(every)
        except ChangedMeanwhile:
            continue  # somebody put or deleted documents beside this: look again
        except TransportError as error:
            if not reached:
                raise
            log.warning("%s; trying again in %.0f s", error, wait)
            missed(str(error))
            stop.wait(wait)
            wait = min(2 * wait, LONGEST_WAIT)


def _apply(target: Target, changes: Sequence[Change], identity: str, mark: Mark | None) -> Applied:
    return documents.apply(
        target.state,
        target.tenant,
        changes,
        target.embed,
        target.draw,
        target.shape(),
        source=identity,
        mark=mark,
    )


def _puts(target: Target, items: Iterator[Item]) -> Iterator[Put]:
    """Puts of items, with the rows of their vectors where those are taken; checked when the last one is drawn."""
    if target.rule.check is None:
        for item in items:
            yield Put(item.document())
        return
    check = VectorCheck(target.embedder, target.rule.check)
    while batch := list(islice(items, BATCH)):
        for item, row in zip(batch, check.rows(batch), strict=True):
            yield Put(item.document(), row)
    check.finish()


@dataclass
class _Read:
    """What was read of a source."""

    items: list[Item] = field(default_factory=list)
    gone: list[Delete] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)  #: of all rows, refused ones too
    refused: EncodingError | None = None  #: the first one
    same: bool = True  #: whether the source has ids that it had before: one with other ids alone may be another table

    def take(self, one: Item | Refused) -> None:
        if one.id is not None:
            self.ids.add(one.id)
        if isinstance(one, Refused):
            self.refused = self.refused or one.error
        else:
            self.items.append(one)


def _fed(target: Target, identity: str, found: Iterator[Item | Refused | Delete]) -> _Read:
    """A feed's changes; the last state of an id counts, so puts and deletes need no common order."""
    owned = document_rows.of_source(target.state, target.tenant, identity)
    read = _Read()

    def puts() -> Iterator[Item | Refused]:
        for change in found:
            if isinstance(change, Delete):
                if change.id in owned and not target.keep_missing:
                    read.gone.append(change)
            else:
                yield change

    for one in _counted(_bounded(target, checked(puts(), target.limits)), target.reading):
        read.take(one)
    return read


def _brought(target: Target, read: _Read, identity: str, mark: str) -> Applied:
    """All that was read is taken, or the deletions alone where something is refused.

    What is deleted in a source must not go on being answered because another row of it is wrong.  The mark stays where
    it was then, so that the rest is read again.

    Raises:
        As :func:`sync`.
    """
    try:
        if read.refused is not None:
            raise read.refused
        return _apply(target, [*read.gone, *_puts(target, iter(read.items))], identity, Mark(identity, mark))
    except ChangedMeanwhile:
        raise
    except (EncodingError, CommitmentError) as error:
        if not read.gone or not read.same:
            raise
        deleted = _apply(target, read.gone, identity, None).deleted
        raise type(error)(
            f"{error}. Documents that the source no longer has were deleted all the same, {deleted} of them; nothing "
            "else was changed"
        ) from None


def _bounded(target: Target, items: Iterator[Item | Refused]) -> Iterator[Item | Refused]:
    """Items as long as they can fit: nobody's database fills the memory of a provider that serves meanwhile."""
    places, held = target.shape().most_places, 0
    for count, item in enumerate(items, 1):
        if isinstance(item, Refused):
            yield item
            continue
        held += len(item.text)
        if count > places:
            raise CommitmentError(
                f"{item.where}: more rows than the {places} places that an index has at most: use a larger class, or "
                "split the source into tenants"
            )
        if held > MOST_CHARACTERS:
            raise EncodingError(
                f"{item.where}: more than {MOST_CHARACTERS} characters of text at once: split the source into tenants"
            )
        yield item


def _counted(items: Iterator[Item | Refused], reading: Callable[[int], None]) -> Iterator[Item | Refused]:
    count = 0
    for count, item in enumerate(items, 1):
        if count % BATCH == 0:
            reading(count)
        yield item
    reading(count)

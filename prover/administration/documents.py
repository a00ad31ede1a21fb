# SPDX-License-Identifier: GPL-3.0-or-later
"""A tenant's documents, as an operator brings and takes them.  All of it blocks."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial

import numpy as np

from ragseal.embedder import Embedder, quantise
from ragseal.kernel.commitment import SignedManifest
from ragseal.kernel.policy import Policy
from ragseal.prover.administration.lengths import Lengths
from ragseal.prover.commitment import document_rows, growth
from ragseal.prover.commitment import documents as index_documents
from ragseal.prover.commitment.answer_size import AnswerBound
from ragseal.prover.commitment.corpora import Document
from ragseal.prover.commitment.corpus_notes import Notes
from ragseal.prover.commitment.documents import Applied, Embed, Put
from ragseal.prover.commitment.index import Matrix
from ragseal.prover.commitment.placement import IndexShape
from ragseal.prover.provider import assembly
from ragseal.prover.serving.committing import Told
from ragseal.prover.sources import sync as source_sync
from ragseal.prover.sources.opening import open_source
from ragseal.prover.sources.vectors import VectorRule
from ragseal.prover.storage.state import State
from ragseal.runtime.face import counted
from ragseal.runtime.progress import Progress

EMBED_BATCH = 16  #: texts between two words to whoever waits


@dataclass(frozen=True, slots=True)
class Reading:
    """What of a source is brought into a tenant's index, as ``documents sync`` takes it."""

    tenant: str
    source: str  #: specification
    vectors: str = "embed"
    keep_missing: bool = False
    chunk: int | None = None
    metadata: tuple[str, ...] = ()
    follow: bool = False
    strict: bool = False  #: refuse texts that are longer than the embedder reads
    every: float = 60.0  #: seconds between two looks


def shape_of(state: State, embedder: Embedder) -> IndexShape:
    """What the provider's class and embedder make of an index."""
    cls = assembly.circuit_class(state.settings.class_name)
    shards = growth.shards_in_use(state, cls)
    slots, policy = shards * cls.N, _newest_policy(state)
    if policy is not None and policy.answers:  # they hold no text of a document
        return IndexShape(slots, embedder.dimension)
    if policy is not None and policy.class_name == cls.name:
        most = cls.most_listed(policy.ids, shards, policy.decoy_rate)
    elif cls.least_ids(shards) == cls.most_ids(shards):
        most = cls.most_ids(shards)
    else:  # the policy says how long lists are: commit asks whether answers are too long
        return IndexShape(slots, embedder.dimension, most=cls.S * cls.N)
    return IndexShape(slots, embedder.dimension, answers=AnswerBound(most, slots), most=cls.S * cls.N)


def _newest_policy(state: State) -> Policy | None:
    """Of the newest window."""
    found = state.row("SELECT signed FROM windows ORDER BY rowid DESC LIMIT 1")
    return None if found is None else SignedManifest.decode(found[0]).manifest.policy


def put(
    state: State,
    embedder: Embedder,
    tenant: str,
    found: Iterable[Document],
    progress: Progress,
    strict: bool = False,
) -> Told:
    """Put documents into a tenant's index, all or none.

    Raises:
        EncodingError: ``strict``, and a text is longer than the embedder reads; else as ``apply`` of the commitment.
    """
    puts, lengths = [Put(one) for one in found], Lengths(embedder, strict)
    embed = _embedding(embedder, tenant, progress, lengths)
    done = index_documents.apply(state, tenant, puts, embed, secrets.token_bytes, shape_of(state, embedder))
    return _applied(tenant, done, lengths.notes(_stored(state, tenant)))


def delete(state: State, embedder: Embedder, tenant: str, names: Sequence[str]) -> Told:
    """Delete documents by id, all or none.  Raises as ``delete`` of the commitment does."""
    done = index_documents.delete(state, tenant, names, secrets.token_bytes, shape_of(state, embedder))
    return Told({"tenant": tenant, "deleted": done.deleted}, f"{tenant}: {counted(done.deleted, 'document')} deleted")


def listed(state: State, tenant: str) -> Told:
    """A tenant's documents, by id."""
    found = document_rows.listed(state, tenant)
    values = {"tenant": tenant, "documents": [{"id": d.id, "bytes": d.bytes, "source": d.source} for d in found]}
    lines = "\n".join(f"{d.id}  {d.bytes}  {d.source}".rstrip() for d in found)
    return Told(values, lines or f"tenant {tenant} has no documents")


def sync(
    state: State,
    embedder: Embedder,
    reading: Reading,
    progress: Progress,
    stop: threading.Event,
    missed: Callable[[str], None] = lambda _: None,
) -> Told:
    """Bring a tenant's documents to what a source holds, once or until ``stop``.

    Args:
        missed: told why a source that is followed cannot be read now, and nothing once it can.

    Raises:
        As :func:`ragseal.prover.sources.sync.sync` does.
    """
    rule, notes, lengths = VectorRule.parse(reading.vectors), Notes(), Lengths(embedder, reading.strict)
    target = source_sync.Target(
        state=state,
        tenant=reading.tenant,
        shape=partial(shape_of, state, embedder),
        embedder=embedder,
        embed=_embedding(embedder, reading.tenant, progress, lengths),
        draw=secrets.token_bytes,
        rule=rule,
        keep_missing=reading.keep_missing,
        reading=lambda count: progress(f"reading for {reading.tenant}", count, 0),
    )
    opened = partial(open_source, reading.source, rule.check is not None, notes, reading.chunk, reading.metadata)
    if not reading.follow:
        with closing(opened()) as source:
            done = source_sync.sync(target, source)
        return _applied(reading.tenant, done, [*notes.lines(), *lengths.notes(_stored(state, reading.tenant))])
    total = Applied()

    def tell(done: Applied) -> None:
        nonlocal total
        total += done
        progress(f"{total.added} added, {total.changed} changed, {total.deleted} deleted", 0, 0)

    source_sync.follow(target, opened, stop, reading.every, tell, missed)
    return _applied(reading.tenant, total, [*notes.lines(), *lengths.notes(_stored(state, reading.tenant))])


def _stored(state: State, tenant: str) -> Iterator[tuple[str, str]]:
    yield from state.rows("SELECT document, text FROM documents WHERE tenant = ? ORDER BY document", (tenant,))


def _embedding(embedder: Embedder, tenant: str, progress: Progress, lengths: Lengths) -> Embed:
    def embed(texts: Sequence[str]) -> Matrix:
        lengths.look(texts)
        parts = [np.zeros((0, embedder.dimension), dtype=np.int8)]
        for at in range(0, len(texts), EMBED_BATCH):
            progress(f"embedding for {tenant}", at, len(texts))
            parts.append(quantise(embedder.embed(list(texts[at : at + EMBED_BATCH]))))
        progress(f"embedding for {tenant}", len(texts), len(texts))
        return np.concatenate(parts)

    return embed


def _applied(tenant: str, done: Applied, notes: Sequence[str] = ()) -> Told:
    told = [f"{counted(done.added, 'document')} added", f"{done.changed} changed", f"{done.deleted} deleted"]
    text = f"{tenant}: {', '.join(told)}, {done.unchanged} as they were"
    if done.waiting:
        text += (
            f"; {done.waiting} have no place in this period and wait for the next window, whose index is larger and "
            "throws coins of its own"
        )
    if done.erased:
        text += f"; {done.erased} were erased here and stay out, though the source has them"
    return Told({"tenant": tenant, **asdict(done), "notes": list(notes)}, "\nnote: ".join([text, *notes]))

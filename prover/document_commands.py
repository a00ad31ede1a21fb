# SPDX-License-Identifier: GPL-3.0-or-later
"""``ragseal-provider documents``: what the next committed version of a tenant's index will hold."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import click
import numpy as np

from ragseal.embedder import load_embedder, quantise
from ragseal.kernel import signature
from ragseal.ledger.log import Log
from ragseal.prover import assembly
from ragseal.prover.commitment import documents as index
from ragseal.prover.commitment.corpora import KINDS, open_corpus
from ragseal.prover.commitment.corpus_notes import Notes
from ragseal.prover.commitment.documents import Applied, Embed, Put
from ragseal.prover.commitment.index import Matrix
from ragseal.prover.commitment.placement import IndexShape
from ragseal.prover.options import STATE
from ragseal.prover.storage.journal import Journal
from ragseal.prover.storage.state import Settings, State
from ragseal.runtime.terminal import JSON, Teaching, progress_bars, tell_result

EMBED_BATCH = 256  #: texts between two updates of the progress bar

TENANT = click.option("--tenant", required=True, help="Whose documents these are.")


@click.group(cls=Teaching)
def documents() -> None:
    """What the next committed window will find: documents are put, changed, deleted.

    A window answers from the version that it was committed with; nothing here changes one that runs.
    """


@documents.command("put")
@STATE
@TENANT
@click.option("--corpus", required=True, help=f"{KINDS}.")
@click.option("--chunk", type=click.IntRange(min=1), help="Split text files into chunks of at most this length.")
@JSON
def put_documents(directory: Path, tenant: str, corpus: str, chunk: int | None, as_json: bool) -> None:
    """Put documents into a tenant's index: new ones at random places, changed ones where they stand.

    All of the corpus or nothing.  What is there already and unchanged is left alone, and so is what the corpus does not
    name (`documents sync` deletes it).

    \b
    jsonl  one JSON object per line, UTF-8:
             {"id": "d1", "title": "may be left out", "text": "what is retrieved"}
           id (or _id) is text or an integer, unique in the corpus; the title is put before the text.
    csv    the same by columns: the first row names them (id, title, text), RFC 4180, UTF-8.
    beir   a folder with corpus.jsonl: _id, title, text.
    text   every .txt and .md file below a folder; its path is its id. Links are not followed.

    Other members, columns and links are not kept; a note names them.
    """
    with State(directory) as state, embedding(state.settings, tenant) as embed:
        notes = Notes()
        puts = [Put(document) for document in open_corpus(corpus, chunk_characters=chunk, notes=notes)]
        done = index.apply(state, tenant, puts, embed, secrets.token_bytes, shape_of(state.settings))
    tell_applied(as_json, tenant, done, notes)


@documents.command("delete")
@STATE
@TENANT
@click.option("--id", "names", required=True, multiple=True, help="A document's id. Repeatable; all of them or none.")
@JSON
def delete_documents(directory: Path, tenant: str, names: tuple[str, ...], as_json: bool) -> None:
    """Delete documents: they are in no version that is committed from now on.

    Their places stay empty until the period ends.  Versions of windows that were committed before keep the texts, which
    proofs and audits of those windows need.
    """
    with State(directory) as state:
        done = index.delete(state, tenant, names, secrets.token_bytes, shape_of(state.settings))
    tell_result(as_json, {"tenant": tenant, "deleted": done.deleted}, f"{tenant}: {done.deleted} documents deleted")


@documents.command("list")
@STATE
@TENANT
@JSON
def list_documents(directory: Path, tenant: str, as_json: bool) -> None:
    """A tenant's documents by id: how many bytes of text, and which source they were read from."""
    with State(directory) as state:
        found = index.listed(state, tenant)
    values = {"tenant": tenant, "documents": [{"id": d.id, "bytes": d.bytes, "source": d.source} for d in found]}
    lines = "\n".join(f"{d.id}  {d.bytes}  {d.source}".rstrip() for d in found)
    tell_result(as_json, values, lines or f"tenant {tenant} has no documents")


@documents.command("new-period")
@STATE
@TENANT
@JSON
def new_period(directory: Path, tenant: str, as_json: bool) -> None:
    """Place all of a tenant's documents afresh; places of deleted documents are free again.

    Between windows only: refused while a committed window is not closed.
    """
    with State(directory) as state:
        ledger = Log.open(state.ledger_directory, state.log_signer)
        try:
            index.require_no_window(Journal(ledger, signature.public_bytes(state.key)).history)
        finally:
            ledger.close()
        index.new_period(state, tenant, shape_of(state.settings), secrets.token_bytes)
        count = len(index.listed(state, tenant))
    tell_result(as_json, {"tenant": tenant, "placed": count}, f"{tenant}: {count} documents are placed afresh")


# --- helpers ---------------------------------------------------------------------------------------------------------


def tell_applied(as_json: bool, tenant: str, done: Applied, notes: Notes) -> None:
    """What changes did, and what of their source was not taken."""
    told = [f"{done.added} documents added", f"{done.changed} changed", f"{done.deleted} deleted"]
    text = f"{tenant}: {', '.join(told)}, {done.unchanged} as they were"
    values = {"tenant": tenant, **asdict(done), "notes": notes.lines()}
    tell_result(as_json, values, text + "".join(f"\nnote: {line}" for line in notes.lines()))


def shape_of(settings: Settings) -> IndexShape:
    """What the provider's class and embedder make of an index."""
    return IndexShape(assembly.circuit_class(settings.class_name).N, load_embedder(settings.embedder).dimension)


@contextmanager
def embedding(settings: Settings, tenant: str) -> Iterator[Embed]:
    """The provider's embedder as :func:`documents.apply` calls it, with a bar on the terminal."""
    embedder = load_embedder(settings.embedder)
    with progress_bars() as bars:
        task = bars.add_task(f"embedding for {tenant}", total=None)

        def embed(texts: Sequence[str]) -> Matrix:
            bars.update(task, total=len(texts))
            parts = [np.zeros((0, embedder.dimension), dtype=np.int8)]
            for at in range(0, len(texts), EMBED_BATCH):
                parts.append(quantise(embedder.embed(list(texts[at : at + EMBED_BATCH]))))
                bars.update(task, completed=at + len(parts[-1]))
            return np.concatenate(parts)

        yield embed

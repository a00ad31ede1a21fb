# SPDX-License-Identifier: GPL-3.0-or-later
"""``ragseal-provider documents``: what the next committed version of a tenant's index will hold."""

from __future__ import annotations

import secrets
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import click

from ragseal.embedder import load_embedder
from ragseal.kernel import signature
from ragseal.kernel.errors import ConfigurationError
from ragseal.prover.administration.documents import Reading, shape_of
from ragseal.prover.cli.access import administration
from ragseal.prover.cli.options import STATE
from ragseal.prover.cli.tenant_commands import NEW_TENANT, agree_to_tenants
from ragseal.prover.commitment import document_rows, growth
from ragseal.prover.commitment.corpora import DEFAULT_FIELDS, KINDS, open_corpus
from ragseal.prover.commitment.corpus_metadata import field_names
from ragseal.prover.commitment.corpus_notes import Notes
from ragseal.prover.commitment.new_period import new_period as place_afresh
from ragseal.prover.commitment.new_period import require_no_window
from ragseal.prover.sources import opening
from ragseal.prover.sources.interface import Installable
from ragseal.prover.sources.vectors import VectorRule
from ragseal.prover.storage.journal import Journal
from ragseal.prover.storage.state import State
from ragseal.runtime.face import counted
from ragseal.runtime.terminal import JSON, Teaching, named_bars, tell_result

EMBED_BATCH = 256  #: texts between two updates of the progress bar

TENANT = click.option("--tenant", required=True, help="Whose documents these are.")
CHUNK = click.option("--chunk", type=click.IntRange(min=1), help="Split text files into chunks of at most this length.")
STRICT = click.option("--strict", is_flag=True, help="Refuse texts that are longer than the embedder reads.")
METADATA = click.option(
    "--metadata-fields", metavar="NAME,...", help="Members or columns that answers bring beside the text."
)


@click.group(cls=Teaching, short_help="Put, delete, list and sync documents")
def documents() -> None:
    """What the next committed window will find: documents are put, changed, deleted.

    A window answers from the version that it was committed with; nothing here changes one that runs.
    """


@documents.command("put", short_help="Put documents into a tenant's index")
@STATE
@TENANT
@click.option("--corpus", required=True, help=f"{KINDS}.")
@CHUNK
@METADATA
@STRICT
@NEW_TENANT
@JSON
def put_documents(
    directory: Path,
    tenant: str,
    corpus: str,
    chunk: int | None,
    metadata_fields: str | None,
    strict: bool,
    agreed: bool,
    as_json: bool,
) -> None:
    """Put documents into a tenant's index: new ones in random slots, changed ones in their own.

    All of the corpus or nothing.  What is there already and unchanged is left alone, and so is what the corpus does not
    name (`documents sync` deletes it).

    \b
    jsonl  one JSON object per line, UTF-8:
             {"id": "d1", "title": "may be left out", "text": "what is retrieved"}
           id (or _id) is text or an integer, unique in the corpus; the title is put before the text.
    csv    the same by columns: the first row names them (id, title, text), RFC 4180, UTF-8.
    beir   a folder with corpus.jsonl: _id, title, text.
    text   every .txt and .md file below a folder; its path is its id. Links are not followed.

    \b
    --metadata-fields source,title,url   takes these members or columns along, text, true, false or numbers; of JSON
           also those inside an object "metadata", which come first. At most 16, of at most 512 characters each.

    Only an account that is handed a document's text reads its id and metadata. Other members, columns and links are not
    kept; a note names them. It also names texts of which the embedder reads only the beginning.
    """
    notes, fields = Notes(), replace(DEFAULT_FIELDS, metadata=field_names(metadata_fields))
    found = list(open_corpus(corpus, fields=fields, chunk_characters=chunk, notes=notes))
    with administration(directory) as admin:
        agree_to_tenants(admin, [tenant], agreed)
        with named_bars() as progress:
            told = admin.put_documents(tenant, found, progress, strict)
    noted = "".join(f"\nnote: {line}" for line in notes.lines())
    tell_result(as_json, {**told.values, "notes": [*told.values["notes"], *notes.lines()]}, told.text + noted)


@documents.command("delete", short_help="Delete documents from the next version on")
@STATE
@TENANT
@click.option("--id", "names", required=True, multiple=True, help="A document's id. Repeatable; all of them or none.")
@JSON
def delete_documents(directory: Path, tenant: str, names: tuple[str, ...], as_json: bool) -> None:
    """Delete documents: they are in no version that is committed from now on.

    Says until when which window still answers them: its end, or a tick where its policy has version_every.
    Their slots stay empty until the period ends.  Versions of windows that were committed before keep the texts, which
    proofs and audits of those windows need.
    """
    with administration(directory) as admin:
        told = admin.delete_documents(tenant, names)
    tell_result(as_json, told.values, told.text)


@documents.command("erase", short_help="Delete a document and purge it everywhere")
@STATE
@TENANT
@click.option("--id", "name", required=True, help="The document's id.")
@click.option("--reason", required=True, help='Why, such as "art. 17"; kept in the list of erasures.')
@JSON
def erase_document(directory: Path, tenant: str, name: str, reason: str, as_json: bool) -> None:
    """Delete a document, and purge it from all windows that were committed with it once these are retired.

    No source brings it back by itself; `documents put` of the same id is a new request of yours.  What accounts were
    answered already, the source, and copies of this folder elsewhere are beyond this command.
    """
    with administration(directory) as admin:
        told = admin.erase_document(tenant, name, reason)
    tell_result(as_json, told.values, told.text)


@documents.command("erasures", short_help="List erasures and what is left of each")
@STATE
@click.option("--tenant", default="", help="Of this tenant only.")
@click.option("--id", "name", default="", help="Of this document only, also once its id is forgotten.")
@JSON
def list_erasures(directory: Path, tenant: str, name: str, as_json: bool) -> None:
    """What was asked to be erased: when, out of answers since when, purged when, or what that waits for."""
    with administration(directory) as admin:
        told = admin.list_erasures(tenant, name)
    tell_result(as_json, told.values, told.text)


@documents.command("list", short_help="List a tenant's documents by id")
@STATE
@TENANT
@JSON
def list_documents(directory: Path, tenant: str, as_json: bool) -> None:
    """A tenant's documents by id: how many bytes of text, and which source they were read from."""
    with administration(directory) as admin:
        told = admin.list_documents(tenant)
    tell_result(as_json, told.values, told.text)


@documents.command("sync", short_help="Follow a database, a vector store or files")
@STATE
@TENANT
@click.option("--source", "spec", required=True, help=f"{opening.KINDS}; see below.")
@click.option("--vectors", default="embed", show_default=True, metavar="embed|check:N",
              help="Embed all texts, or take the source's vectors and embed N of them anew to compare.")  # fmt: skip
@click.option("--keep-missing", is_flag=True, help="Keep documents that the source no longer has.")
@click.option("--follow", is_flag=True, help="Go on as the source changes, until Ctrl-C or SIGTERM.")
@click.option("--every", type=click.FloatRange(min=0.5), default=60.0, show_default=True,
              help="With --follow: seconds between two looks at a source that does not tell of changes.")  # fmt: skip
@click.option("--install-trigger", is_flag=True,
              help="PostgreSQL: first make the outbox and triggers that --follow reads. Takes TRIGGER on the table and "
              "CREATE on its schema.")  # fmt: skip
@CHUNK
@METADATA
@STRICT
@NEW_TENANT
@JSON
def sync_documents(
    directory: Path,
    tenant: str,
    spec: str,
    vectors: str,
    keep_missing: bool,
    follow: bool,
    every: float,
    install_trigger: bool,
    chunk: int | None,
    metadata_fields: str | None,
    strict: bool,
    agreed: bool,
    as_json: bool,
) -> None:
    """Bring a tenant's documents to what a source holds: put what is new or changed, delete what it no longer has.

    A snapshot is taken whole.  A row that is refused is named; then nothing is put, and deletions are taken alone.
    Only documents that were last read from this source are deleted.  What of the source is not kept is noted.

    \b
    postgres:postgresql://reader@host/db?table=chunks&text=body&metadata=source,title
    qdrant:https://host:6333?collection=docs     key in QDRANT_API_KEY
    lancedb:FOLDER?table=chunks
    chroma:http://host:8000?collection=docs      or a folder
    milvus:http://host:19530?collection=docs     or FILE.db; token in MILVUS_TOKEN
    parquet:FILE  vdf:FOLDER  faiss:FILE?texts=FILE.jsonl
    jsonl:FILE  csv:FILE  beir:FOLDER  text:FOLDER

    id, text, title, vector and metadata name columns.  A PostgreSQL source also takes where=SQL, which is SQL of your
    own and runs as it is; leave passwords to PGPASSWORD or ~/.pgpass, since others can see a command line.  In a
    source, "&" is written %26, "?" %3F and "%" %25.
    """
    VectorRule.parse(vectors)
    if install_trigger:
        installing(spec)
    names = field_names(metadata_fields)
    reading = Reading(
        tenant=tenant,
        source=opening.absolute(spec),
        vectors=vectors,
        keep_missing=keep_missing,
        chunk=chunk,
        metadata=names,
        follow=follow,
        strict=strict,
        every=every,
    )
    with administration(directory) as admin:
        agree_to_tenants(admin, [tenant], agreed)
        with named_bars() as progress:
            if follow:
                with stopped_by_signals() as stop:
                    told = admin.sync_documents(reading, progress, stop)
            else:
                told = admin.sync_documents(reading, progress, threading.Event())
    tell_result(as_json, told.values, told.text)


@documents.command("new-period", short_help="Give all of a tenant's documents new slots")
@STATE
@TENANT
@JSON
def new_period(directory: Path, tenant: str, as_json: bool) -> None:
    """Give all of a tenant's documents new slots; slots of deleted documents are free again.

    Between windows only: refused while a committed window is not closed.  The next window throws its coins anew, which
    costs unseen once more in its budget period.
    """
    with State(directory) as state:
        ledger = state.open_ledger()
        try:
            history = Journal(ledger, signature.public_bytes(state.key)).history
            require_no_window(history, time.time())
        finally:
            ledger.close()
        shape = shape_of(state, load_embedder(state.settings.embedder))
        place_afresh(state, tenant, shape, secrets.token_bytes)
        waiting = growth.waiting(state).get(tenant, 0)
        count = len(document_rows.listed(state, tenant)) - waiting
    left = f"; {counted(waiting, 'document')} wait for the next window, whose index is larger" if waiting else ""
    text = f"{tenant}: placed afresh: {counted(count, 'document')}{left}"
    tell_result(as_json, {"tenant": tenant, "placed": count, "waiting": waiting}, text)


# --- helpers ---------------------------------------------------------------------------------------------------------


def installing(spec: str) -> None:
    """Make the outbox of a PostgreSQL source; ConfigurationError for any other."""
    with closing(opening.open_source(spec)) as source:
        if not isinstance(source, Installable):
            raise ConfigurationError("--install-trigger is for PostgreSQL; other sources are compared row by row")
        source.install_trigger()


@contextmanager
def stopped_by_signals() -> Iterator[threading.Event]:
    """An event that the first Ctrl-C or SIGTERM sets; a second one ends the process as ever."""
    stop = threading.Event()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def ask(number: int, frame: object) -> None:
        stop.set()
        signal.signal(number, before[signal.Signals(number)])

    for number in before:
        signal.signal(number, ask)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

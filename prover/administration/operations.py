# SPDX-License-Identifier: GPL-3.0-or-later
"""What an operator does, on an opened state folder: the same for a command that holds its lock and for the provider
that serves it.  All of them block."""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ragseal.embedder import Embedder, quantise
from ragseal.kernel import signature
from ragseal.kernel.errors import AuditError, CommitmentError, ConfigurationError, EncodingError
from ragseal.kernel.versions import ANSWERING
from ragseal.prover import assembly, spending
from ragseal.prover.attestation import backlog
from ragseal.prover.commitment import documents, index, registry
from ragseal.prover.commitment.corpora import Document
from ragseal.prover.commitment.corpus_notes import Notes
from ragseal.prover.commitment.documents import Applied, Embed, Put
from ragseal.prover.commitment.index import Matrix
from ragseal.prover.commitment.placement import IndexShape
from ragseal.prover.commitment.registry import Registration
from ragseal.prover.committing import Told
from ragseal.prover.provider import Provider
from ragseal.prover.retiring import Retiring
from ragseal.prover.sources.opening import open_source
from ragseal.prover.sources.sync import Target, follow, sync
from ragseal.prover.sources.vectors import VectorRule
from ragseal.prover.storage import erasure, retirement
from ragseal.prover.storage.erasure import Erasure
from ragseal.prover.storage.history import History
from ragseal.prover.storage.state import State
from ragseal.prover.storage.window import Window
from ragseal.runtime.face import when
from ragseal.runtime.metadata import committed, mapping_of

EMBED_BATCH = 16  #: texts between two words to whoever waits
MAX_LINE = 1 << 22  #: bytes of one document as a line
MAX_CORPUS = 1 << 31  #: bytes of all that come in one call

#: Told (what is being done, done, total) now and then; a total of 0 is not known.
Progress = Callable[[str, int, int], None]


def identity(state: State) -> dict[str, Any]:
    """Who a provider is."""
    return {
        "state": str(state.directory),
        "origin": state.settings.origin,
        "class": state.settings.class_name,
        "embedder": state.settings.embedder,
        "provider_key": signature.public_bytes(state.key).hex(),
        "ledger_key": state.log_key.vkey(),
    }


def status(
    provider: Provider,
    following: dict[str, Any] | None = None,
    ticks: dict[str, Any] | None = None,
    proving: dict[str, Any] | None = None,
) -> Told:
    """What a provider holds.

    Args:
        following: of one that serves windows one after the other.
        ticks: of one whose open window has a live index.
        proving: of one that serves, as :meth:`ragseal.prover.attestation.backlog.Backlog.status` has it.
    """
    state, windows = provider.state, list(provider.journal.history.windows.values())
    proven = dict(state.rows("SELECT manifest, COUNT(*) FROM proofs GROUP BY manifest"))
    values: dict[str, Any] = {
        **identity(state),
        "ledger_size": provider.ledger.size,
        "tenants": dict(index.tenants(state)),
        "accounts": len(registry.accounts(state)),
        "windows": [
            {
                "window": w.manifest.window,
                "manifest": w.digest.hex(),
                "stage": "passed over" if provider.journal.history.passed_over(w) else w.stage.name.lower(),
                "records": len(w.records),
                "proven": int(proven.get(w.digest, 0)),
                "retired": retirement.is_retired(state, w.digest),
            }
            for w in windows
        ],
        "budget": spending.spending(windows, assembly.circuit_class),
    }
    lines = [f"{key:13} {value}" for key, value in values.items() if key not in ("windows", "budget")]
    for w in values["windows"]:
        gone = ", retired" if w["retired"] else ""
        lines.append(f"window {w['window']}: {w['stage']}, {w['records']} records, {w['proven']} proven{gone}")
    lines += spending.lines(values["budget"])
    if ticks is not None:
        values["index"] = ticks
        lines.append(
            f"index: version {ticks['number']} is in force, the next comes at {when(ticks['next'])}; "
            f"{ticks['waiting']} documents and {ticks['accounts_waiting']} accounts wait for it"
        )
        if ticks["accounts_for_next_window"]:
            lines.append(
                f"{ticks['accounts_for_next_window']} accounts come with the next window only: no place is free, their "
                "tenant has no index in this one, or their name or key was removed from it or has another line there"
            )
        if ticks["trouble"]:
            lines.insert(0, f"NO NEW VERSION OF THE INDICES: {ticks['trouble']}")
    if proving is not None:
        values["proving"] = proving
        lines += backlog.lines(proving)
        if proving["trouble"]:
            lines.insert(0, f"NO PROOFS ARE MADE BY WORKERS: {proving['trouble']}")
    if following is not None:
        values["next"] = following
        if following["trouble"]:
            lines.insert(0, f"NO WINDOW FOLLOWS: {following['trouble']}")
    return Told(values, "\n".join(lines))


# --- accounts --------------------------------------------------------------------------------------------------------


def add_accounts(state: State, new: Sequence[Registration]) -> Told:
    """Register accounts, all or none.  CommitmentError: a name or key is taken, or malformed."""
    added = registry.add_accounts(state, new)
    known = {name for name, _ in index.tenants(state)}
    strangers = sorted({one.tenant for one in new} - known)
    values: dict[str, Any] = {"added": added, "skipped": len(new) - added}
    said = [f"{added} accounts added, {len(new) - added} were there already"]
    if len(new) == 1:
        said = [f"account {new[0].name} of tenant {new[0].tenant} is registered"]
        values |= {"account": new[0].name, "tenant": new[0].tenant}
    said += [
        f"tenant {tenant} has no documents yet, and no window can be committed until it has some"
        for tenant in strangers
    ]
    return Told(values, "; ".join(said))


def remove_account(state: State, name: str) -> Told:
    """Take an account out of the windows to come, and with its next version of one whose indices change on a tick.

    Raises:
        CommitmentError: there is none of that name.
    """
    registry.remove_account(state, name)
    return Told(
        {"removed": name},
        f"account {name} is in no window that is committed from now on, and gets no answers in the open one from the "
        "next version of its indices on, if they change on a tick",
    )


def list_accounts(state: State) -> Told:
    """The registered accounts, by name."""
    found = [{"name": a.name, "tenant": a.tenant, "key": a.public_key.hex()} for a in registry.accounts(state)]
    lines = "\n".join(f"{a['name']}  {a['tenant']}  {a['key']}" for a in found)
    return Told({"accounts": found}, lines or "no accounts")


# --- documents -------------------------------------------------------------------------------------------------------


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
    every: float = 60.0  #: seconds between two looks


def shape_of(state: State, embedder: Embedder) -> IndexShape:
    """What the provider's class and embedder make of an index."""
    return IndexShape(assembly.circuit_class(state.settings.class_name).N, embedder.dimension)


def put_documents(state: State, embedder: Embedder, tenant: str, found: Iterable[Document], progress: Progress) -> Told:
    """Put documents into a tenant's index, all or none.  Raises as :func:`documents.apply` does."""
    puts = [Put(one) for one in found]
    embed = _embedding(embedder, tenant, progress)
    return _applied(tenant, documents.apply(state, tenant, puts, embed, secrets.token_bytes, shape_of(state, embedder)))


def delete_documents(state: State, embedder: Embedder, tenant: str, names: Sequence[str]) -> Told:
    """Delete documents by id, all or none.  Raises as :func:`documents.delete` does."""
    done = documents.delete(state, tenant, names, secrets.token_bytes, shape_of(state, embedder))
    return Told({"tenant": tenant, "deleted": done.deleted}, f"{tenant}: {done.deleted} documents deleted")


def erase_document(state: State, tenant: str, name: str, reason: str, now: int) -> Told:
    """Take a document out of the next version and queue its erasure.  Raises as :func:`erasure.erase` does."""
    number = erasure.erase(state, tenant, name, reason, now, secrets.token_bytes)
    (made,) = [one for one in erasure.erasures(state) if one.number == number]
    waits = len(erasure.waits_for(state, made))
    text = f"{tenant}: document {name} is in no version that is committed from now on"
    if waits:
        text += (
            f"; {waits} windows were committed with it, and it is purged once they are retired (`documents erasures`)"
        )
    return Told({"tenant": tenant, "erasure": number, "windows": waits}, text)


def list_erasures(provider: Provider, tenant: str, name: str) -> Told:
    """What was asked to be erased, since when it is out of answers, and what its purge waits for."""
    state, history = provider.state, provider.journal.history
    found = [_erasure(state, history, one) for one in erasure.erasures(state, tenant, name)]
    lines = [line for one in found for line in _erasure_lines(one)]
    return Told({"erasures": found}, "\n".join(lines) or "nothing was asked to be erased")


def _erasure(state: State, history: History, one: Erasure) -> dict[str, Any]:
    known = [history.windows[manifest] for manifest in one.windows if manifest in history.windows]
    waits, retain = erasure.waits_for(state, one), retirement.retain_of(state)
    since, out = None, None
    left = [at for window in known if (at := _left(state, history, window, one)) is not None]
    if len(left) == len(known):
        since = max([one.asked, *left])
        later = (w for w in history.windows.values() if w.opened_at >= since and w.digest not in one.windows)
        out = next((w.manifest.window for w in later), None)
    return {
        "number": one.number,
        "tenant": one.tenant,
        "id": one.document,
        "reason": one.reason,
        "asked": one.asked,
        "out_of_answers": since,
        "first_window_without": out,
        "waits_for": [
            {
                "window": w.manifest.window,
                "stage": w.stage.name.lower(),
                "retired_at": retirement.due_at(history, w, retain),
            }
            for w in known
            if w.digest in waits
        ],
        "purged": one.purged,
        "backups": erasure.backups_before(state, one.purged),
    }


def _left(state: State, history: History, window: Window, one: Erasure) -> int | None:
    """Since when a window answers without an erased document, seconds since 1970; None while it may be in answers."""
    if retirement.over(history, window):
        return 0 if window.close is None else window.close.time
    if not window.every:
        return None
    query = (
        "SELECT MAX(COALESCE(until - 1, (SELECT MAX(number) FROM versions WHERE manifest = ?1))) FROM version_texts "
        "WHERE manifest = ?1 AND tenant = ?2 AND document = ?3"
    )
    found = state.row(query, (window.digest, one.tenant, one.document))
    if found is None or not found[0]:
        return 0  # what the manifest names answers nobody
    without = [update.time for _, update in window.updates if update.number >= found[0] + ANSWERING]
    return without[0] if without else None


def _erasure_lines(one: dict[str, Any]) -> Iterator[str]:
    named = f"document {one['id']}" if one["id"] is not None else "a document"
    out = "still in answers" if one["out_of_answers"] is None else f"out of answers since {when(one['out_of_answers'])}"
    purged = "not purged yet" if one["purged"] is None else f"purged {when(one['purged'])}"
    yield f"{one['number']}  {one['tenant']}: {named} ({one['reason']}): asked {when(one['asked'])}, {out}, {purged}"
    for window in one["waits_for"]:
        at = window["retired_at"]
        yield f"   waits for window {window['window']} ({window['stage']})" + (f", retired {when(at)}" if at else "")
    if one["backups"]:
        first, last = one["backups"][0], one["backups"][-1]
        which = first if first == last else f"{first} ... {last}"
        yield f"   {len(one['backups'])} backups were made before and may hold it, delete them: {which}"


def retired(window: Window, swept: bool) -> Told:
    """What is said of a window that was retired."""
    name = window.manifest.window
    text = f"window {name} is retired: its texts, queries and secrets are purged, its receipts and proofs stay"
    if not swept:
        text = f"window {name} is retired; what it kept is purged once the copy that is being made is done"
    return Told({"window": name, "purged": swept}, text)


def prove_for_audits(retiring: Retiring, window: Window, unproven: bool, progress: Progress) -> None:
    """All that a full audit asks for.  ConfigurationError: it cannot be made, and nobody said ``unproven``."""
    try:
        retiring.prove(window, progress)
    except AuditError as error:
        if not unproven:
            raise ConfigurationError(
                f"not all that an audit of window {window.manifest.window!r} asks for can be made ({error}): nothing "
                "was purged. --unproven retires it all the same, and no audit of it ends in a verdict then"
            ) from None


def copied(state: State, folder: Path, told: Told, now: int) -> Told:
    """Keep where a copy went: what is erased from now on is in it still, where it is not encrypted."""
    erasure.remember_backup(state, str(folder), now, "keys" in told.values)
    return told


def list_documents(state: State, tenant: str) -> Told:
    """A tenant's documents, by id."""
    found = documents.listed(state, tenant)
    values = {"tenant": tenant, "documents": [{"id": d.id, "bytes": d.bytes, "source": d.source} for d in found]}
    lines = "\n".join(f"{d.id}  {d.bytes}  {d.source}".rstrip() for d in found)
    return Told(values, lines or f"tenant {tenant} has no documents")


def sync_documents(
    state: State, embedder: Embedder, reading: Reading, progress: Progress, stop: threading.Event
) -> Told:
    """Bring a tenant's documents to what a source holds, once or until ``stop``.  Raises as :func:`sync` does."""
    rule, notes = VectorRule.parse(reading.vectors), Notes()
    target = Target(
        state,
        reading.tenant,
        shape_of(state, embedder),
        embedder,
        _embedding(embedder, reading.tenant, progress),
        secrets.token_bytes,
        rule,
        reading.keep_missing,
        reading=lambda count: progress(f"reading for {reading.tenant}", count, 0),
    )
    opened = partial(open_source, reading.source, rule.check is not None, notes, reading.chunk, reading.metadata)
    if not reading.follow:
        with closing(opened()) as source:
            return _applied(reading.tenant, sync(target, source), notes.lines())
    total = Applied()

    def tell(done: Applied) -> None:
        nonlocal total
        total += done
        progress(f"{total.added} added, {total.changed} changed, {total.deleted} deleted", 0, 0)

    follow(target, opened, stop, reading.every, tell)
    return _applied(reading.tenant, total)


def _embedding(embedder: Embedder, tenant: str, progress: Progress) -> Embed:
    def embed(texts: Sequence[str]) -> Matrix:
        parts = [np.zeros((0, embedder.dimension), dtype=np.int8)]
        for at in range(0, len(texts), EMBED_BATCH):
            progress(f"embedding for {tenant}", at, len(texts))
            parts.append(quantise(embedder.embed(list(texts[at : at + EMBED_BATCH]))))
        progress(f"embedding for {tenant}", len(texts), len(texts))
        return np.concatenate(parts)

    return embed


def _applied(tenant: str, done: Applied, notes: Sequence[str] = ()) -> Told:
    told = [f"{done.added} documents added", f"{done.changed} changed", f"{done.deleted} deleted"]
    text = f"{tenant}: {', '.join(told)}, {done.unchanged} as they were"
    if done.erased:
        text += f"; {done.erased} were erased here and stay out, though the source has them"
    return Told({"tenant": tenant, **asdict(done), "notes": list(notes)}, "\nnote: ".join([text, *notes]))


def lines_of(found: Iterable[Document]) -> Iterator[bytes]:
    """Documents as they are handed to a serving provider."""
    for one in found:
        yield json.dumps({"id": one.id, "text": one.text, "metadata": mapping_of(one.metadata)}).encode() + b"\n"


class Lines:
    """Documents from pieces of lines that are cut anywhere; bounded before anything is parsed."""

    def __init__(self) -> None:
        self.documents: list[Document] = []
        self._left = bytearray()
        self._size = 0

    def add(self, piece: bytes) -> None:
        """The next piece.  EncodingError: too much, or a line that is no document."""
        self._size += len(piece)
        if self._size > MAX_CORPUS:
            raise EncodingError(f"more than {MAX_CORPUS} bytes of documents came at once: send fewer")
        self._left += piece
        *whole, rest = self._left.split(b"\n")
        self._left = bytearray(rest)
        if len(rest) > MAX_LINE:
            raise EncodingError(f"a document takes more than {MAX_LINE} bytes")
        for line in whole:
            self.documents.append(_document(bytes(line)))

    def all(self) -> list[Document]:
        """Every document.  EncodingError: the last line has no end, so that something was cut off."""
        if self._left:
            raise EncodingError("the last document was cut off: nothing was added")
        return self.documents


def _document(line: bytes) -> Document:
    try:
        values = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError):
        raise EncodingError("a document is no line of JSON") from None
    if not isinstance(values, dict) or set(values) != {"id", "text", "metadata"}:
        raise EncodingError("a document must hold exactly the members id, text and metadata")
    name, text, metadata = values["id"], values["text"], values["metadata"]
    if not isinstance(name, str) or not isinstance(text, str) or not isinstance(metadata, dict):
        raise EncodingError("a document's id and text are texts, its metadata is an object")
    return Document(name, text, committed(metadata))


# --- windows ---------------------------------------------------------------------------------------------------------


def closed(provider: Provider, name: str, index_of_entry: int) -> Told:
    """What is said of a window that was closed."""
    window = provider.journal.history.named(name)
    opened = provider.journal.history.open
    values = {
        "window": name,
        "ledger_index": index_of_entry,
        "records": len(window.records),
        "opened": None if opened is None else opened.manifest.window,
    }
    text = f"window {name} is closed with {len(window.records)} records"
    return Told(values, text if opened is None else f"{text}; window {opened.manifest.window} is open")


def name_to_close(provider: Provider, name: str) -> str:
    """The window that is meant: the open one without a name.  CommitmentError: there is none, or it is not open."""
    opened = provider.journal.history.open
    if name:
        window = provider.journal.history.named(name)
        if window is not opened:
            raise CommitmentError(f"window {name!r} is not open, so there is nothing to close")
        return name
    if opened is None:
        raise CommitmentError("no window is open, so there is nothing to close")
    return opened.manifest.window

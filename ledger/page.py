# SPDX-License-Identifier: GPL-3.0-or-later
"""The observer's web page: one static file, and the few JSON files it reads, written to a folder or served on loopback.

index.html                      verifies everything below again in the browser
status.json                     the checkpoint that this observer verified, since when, witnesses, alarm
entries-<page>.json             50 entries with their inclusion paths
consistency-<old>-<new>.json    for the checkpoint that a browser remembers
evidence-*                      after an alarm
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from ragseal.kernel.errors import AuditError, ConfigurationError, LedgerError, TransportError
from ragseal.ledger.auditors import NamedAuditors, is_claim
from ragseal.ledger.checkpoint import SignedCheckpoint, open_checkpoint
from ragseal.ledger.entries import describe
from ragseal.ledger.merkle import MerkleTree
from ragseal.ledger.note import NoteVerifier, encode_base64
from ragseal.ledger.observer import PAGE, Observer, Progress
from ragseal.ledger.remote import RemoteLedger
from ragseal.ledger.turns import LogKey, follow
from ragseal.runtime.durable import write_durably
from ragseal.runtime.edges.filesystem import why
from ragseal.runtime.face import MARK, style
from ragseal.runtime.http_server import Request, Response

PAGE_SIZE = 50
AT_ONCE = 4  #: visitors for whom the log is asked: one of them may cost it 51 calls
KEPT_SIZES = 500  #: earlier exports whose visitors still get a consistency proof

_TYPES = {"html": "text/html; charset=utf-8", "json": "application/json", "note": "text/plain; charset=utf-8"}
_HEADERS = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY"}
_ENTRIES = re.compile(r"entries-(0|[1-9][0-9]{0,14})\.json")
_CONSISTENCY = re.compile(r"consistency-(0|[1-9][0-9]{0,15})-(0|[1-9][0-9]{0,15})\.json")
EVIDENCE = ("alarm.json", "older.note", "newer.note", "older.rotation", "newer.rotation")
_EVIDENCE = re.compile(rf"evidence-({'|'.join(map(re.escape, EVIDENCE))})")


class Site:
    """Makes the page's files from the observer's memory and the log's read calls."""

    def __init__(
        self, observer: Observer, remote: RemoteLedger, log: NoteVerifier, witnesses: Sequence[NoteVerifier]
    ) -> None:
        self._observer, self._remote, self._log, self._witnesses = observer, remote, log, list(witnesses)
        self._auditors = NamedAuditors(log)
        self._asking = asyncio.Semaphore(AT_ONCE)
        self._turns: list[bytes] = []

    async def file(self, name: str) -> bytes | None:
        """One file by name; None if there is no such file.  Raises AuditError when the log does not answer."""
        if name in ("", "index.html"):
            return index_html()
        if name == "status.json":
            return _json(await self._status())
        if found := _ENTRIES.fullmatch(name):
            async with self._asking:
                return _json(await self._entries(int(found[1])))
        if found := _CONSISTENCY.fullmatch(name):
            async with self._asking:
                path = await self._remote.consistency(int(found[1]), int(found[2]))
            return _json({"path": [encode_base64(node) for node in path]})
        if found := _EVIDENCE.fullmatch(name):
            return self._evidence(found[1])
        return None

    async def handle(self, request: Request) -> Response:
        """The answer to a visitor; for an :class:`~ragseal.runtime.http_server.HttpServer`."""
        if request.method not in ("GET", "HEAD"):
            return Response(405, b"only GET is served here\n", headers={"Allow": "GET, HEAD"})
        name = request.path.removeprefix("/")
        try:
            body = await self.file(name)
        except ConfigurationError:  # it may name files of this machine: the server tells its operator alone
            raise
        except AuditError as error:
            return Response(502, f"{error}\n".encode(), headers=_HEADERS)
        if body is None:
            return Response(404, b"no such file\n", headers=_HEADERS)
        return Response(200, body, _TYPES.get(name.rpartition(".")[2], _TYPES["html"]), _HEADERS)

    async def write(self, folder: Path, progress: Progress | None = None) -> int:
        """Write everything for any static web server; gives the number of records.

        Earlier sizes are remembered in ``sizes.json``, so that browsers which saw those get their proof.

        Raises:
            ConfigurationError: the folder cannot be written.
            AuditError: the log does not answer, or serves entries different from those it signed.
        """
        signed = self._verified()
        size = signed.checkpoint.size
        entries: list[bytes] = []
        while len(entries) < size:
            entries += await self._remote.entries(len(entries), min(PAGE, size - len(entries)))
            if progress is not None:
                progress(len(entries), size)
        tree = MerkleTree(entries)
        if tree.root() != signed.checkpoint.root:
            raise LedgerError("the log serves entries different from those it signed: run follow for the evidence")
        if any(map(is_claim, entries)):
            await self._auditors.read(_Held(entries), signed.checkpoint)
        status = await self._status()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for page in range(-(-size // PAGE_SIZE)):
                start = page * PAGE_SIZE
                rows = [(entry, tree.path(start + i)) for i, entry in enumerate(entries[start : start + PAGE_SIZE])]
                _put(folder, f"entries-{page}.json", _json(_rows(size, rows, self._auditors)))
            sizes = [old for old in _sizes(folder) if 0 < old < size][-KEPT_SIZES:]
            for stale in folder.glob("consistency-*.json"):
                stale.unlink()
            turned = [turn.index + 1 for turn in LogKey.of(self._observer.log).turns if turn.index + 1 < size]
            for old in sorted({*sizes, *turned}):
                path = [encode_base64(node) for node in tree.consistency(old)]
                _put(folder, f"consistency-{old}-{size}.json", _json({"path": path}))
            for name in EVIDENCE:
                evidence = self._evidence(name)
                if evidence is not None:
                    _put(folder, f"evidence-{name}", evidence)
            _put(folder, "index.html", index_html())
            _put(folder, "sizes.json", _json([*sizes, size]))
            # last: a visitor never sees a status whose files are not there yet; durable, the rest can be made again
            write_durably(folder / "status.json", _json(status))
        except OSError as error:
            raise ConfigurationError(f"cannot write the page to {folder}: {why(error, folder)}") from None
        return size

    def _verified(self) -> SignedCheckpoint:
        try:
            signed = self._observer.remembered()
        except LedgerError as error:  # it names files of this machine
            raise ConfigurationError(str(error)) from None
        if signed is None:
            raise LedgerError("nothing was verified yet: run follow --once first")
        return signed

    async def _status(self) -> dict[str, Any]:
        signed, status, alarm = self._verified(), self._observer.status(), self._observer.alarm()
        note = signed.note.encode().decode("utf-8")
        own = signed.witnesses[0].verifier
        witnesses = [{"name": own.name, "vkey": own.vkey(), "note": note}]
        try:
            cosigned = await self._remote.cosigned() if self._witnesses else None
            if cosigned is not None:
                for found in open_checkpoint(cosigned, self._observer.log, self._witnesses).witnesses:
                    key = found.verifier
                    if key != own:
                        witnesses.append({"name": key.name, "vkey": key.vkey(), "note": cosigned.decode("utf-8")})
        except TransportError:
            pass  # the page then shows the observer's own cosignature alone
        return {
            "origin": self._log.name,
            "vkey": self._log.vkey(),
            "turns": [encode_base64(proof) for proof in await self._proofs_of_turns()],
            "checkpoint": note,
            "consistent_since": status.consistent_since if status else signed.witnesses[0].time,
            "last_checked": status.last_checked if status else signed.witnesses[0].time,
            "witnesses": witnesses,
            "alarm": alarm[0] if alarm else "",
            "evidence": "note" if self._evidence("older.rotation") is None else "rotation",
            "page_size": PAGE_SIZE,
        }

    async def _proofs_of_turns(self) -> list[bytes]:
        """What shows a browser, which has not hashed the log, the turns of its key that this observer found in it.

        Raises:
            LedgerError: the log shows others.
            TransportError: it is out of reach, and they were not shown here yet.
        """
        known = LogKey.of(self._observer.log)
        if len(self._turns) < len(known.turns):
            proofs = (await self._remote.rotations())[: len(known.turns)]
            if [turn.body() for turn in follow(self._log, proofs).turns] != [turn.body() for turn in known.turns]:
                raise LedgerError("the log does not show the turns of its key that are in it: ask again")
            self._turns = proofs
        return self._turns

    async def _entries(self, page: int) -> dict[str, Any]:
        point = self._verified().checkpoint
        size = point.size
        start, end = page * PAGE_SIZE, min((page + 1) * PAGE_SIZE, size)
        rows: list[tuple[bytes, list[bytes]]] = []
        while start + len(rows) < end:
            at = start + len(rows)
            for entry in await self._remote.entries(at, end - at):
                rows.append((entry, await self._remote.inclusion(start + len(rows), size)))
        if any(is_claim(entry) for entry, _ in rows):
            await self._auditors.read(self._remote, point)
        return _rows(size, rows, self._auditors)

    def _evidence(self, name: str) -> bytes | None:
        alarm = self._observer.alarm()
        try:
            return (alarm[1] / name).read_bytes() if alarm else None
        except OSError:
            return None


def index_html() -> bytes:
    """The page itself, with the face of the others; it refers to nothing outside."""
    page = _part("index.html").replace(MARK, style())
    bundle = _part("verify.js")
    page = page.replace("/* digest */", hashlib.sha256(bundle.encode()).hexdigest())
    page = page.replace("/* verify */", bundle).replace("/* window */", _part("window.js"))
    page = page.replace("/* scripts */", _hashes("script", page))
    return page.replace("/* styles */", _hashes("style", page)).encode()


def _part(name: str) -> str:
    return resources.files("ragseal.ledger").joinpath(f"web/{name}").read_text("utf-8")


def _hashes(element: str, page: str) -> str:
    """What a content security policy allows of an element: exactly those that the page holds."""
    found = re.findall(f"<{element}(?: [^>]*)?>(.*?)</{element}>", page, re.DOTALL)
    return " ".join(f"'sha256-{encode_base64(hashlib.sha256(text.encode()).digest())}'" for text in found)


class _Held:
    """Entries in memory, read as a log is."""

    def __init__(self, held: Sequence[bytes]) -> None:
        self._held = held

    async def entries(self, start: int, count: int) -> Sequence[bytes]:
        return self._held[start : start + count]


def _rows(size: int, rows: Sequence[tuple[bytes, list[bytes]]], auditors: NamedAuditors) -> dict[str, Any]:
    return {
        "size": size,
        "entries": [
            {
                "entry": encode_base64(entry),
                "path": [encode_base64(node) for node in path],
                "view": describe(entry, auditors),
            }
            for entry, path in rows
        ],
    }


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode("ascii")


def _put(folder: Path, name: str, data: bytes) -> None:
    temporary = folder / f".{name}"
    temporary.write_bytes(data)
    temporary.replace(folder / name)


def _sizes(folder: Path) -> list[int]:
    try:
        found = json.loads((folder / "sizes.json").read_text("ascii"))
        return sorted({int(size) for size in found})
    except (OSError, ValueError, TypeError, RecursionError):
        return []

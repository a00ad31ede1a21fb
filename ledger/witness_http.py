# SPDX-License-Identifier: GPL-3.0-or-later
"""A public witness: C2SP tlog-witness over HTTP, for whichever logs it was given keys of.  SPEC G.6.10.

    POST /add-checkpoint                     old size, consistency proof, checkpoint; gives a cosignature
    GET  /<sha256 of the origin>/checkpoint  the last checkpoint that was cosigned

Anybody may call.  What is refused before a signature of a known log was seen costs parsing of a bounded body; the same
checkpoint again costs at most one write a second.  Trust: the key and the memory of :class:`Witness`; the log's keys.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ragseal.kernel.errors import AuditError, ConfigurationError, EncodingError, LedgerError
from ragseal.ledger.checkpoint import Checkpoint, open_foreign
from ragseal.ledger.merkle import HASH_SIZE
from ragseal.ledger.note import (
    ED25519,
    MAX_NOTE_BYTES,
    Note,
    NoteVerifier,
    decode_base64,
    decode_decimal,
    encode_base64,
)
from ragseal.ledger.witness import ForkError, UnprovenError, Witness, keep_evidence, standing_alarm, state_name
from ragseal.runtime.http_server import HttpLimits, Request, Response

MAX_PROOF_LINES = 63
MAX_BODY_BYTES = MAX_NOTE_BYTES + 64 * MAX_PROOF_LINES
WITNESS_LIMITS = HttpLimits(body=MAX_BODY_BYTES)
SIZE_TYPE = "text/x.tlog.size"

_log = logging.getLogger("ragseal.witness")


@dataclass(frozen=True, slots=True)
class AddCheckpoint:
    """The body of an add-checkpoint request."""

    old: int
    path: tuple[bytes, ...]
    note: bytes

    def encode(self) -> bytes:
        lines = [f"old {self.old}", *(encode_base64(node) for node in self.path), "", ""]
        return "\n".join(lines).encode("ascii") + self.note

    @classmethod
    def parse(cls, body: bytes) -> AddCheckpoint:
        """Strict inverse of :meth:`encode`; the note is not looked into.

        Raises:
            EncodingError: anything else.
        """
        head, blank, note = body.partition(b"\n\n")
        try:
            first, *proof = head.decode("ascii").split("\n")
        except UnicodeDecodeError:
            raise EncodingError("the lines before the checkpoint are not ASCII") from None
        word, space, size = first.partition(" ")
        if not blank or word != "old" or not space:
            raise EncodingError("expected `old SIZE`, proof lines, an empty line and a checkpoint")
        if len(proof) > MAX_PROOF_LINES:
            raise EncodingError(f"{len(proof)} proof lines, at most {MAX_PROOF_LINES}")
        path = tuple(decode_base64(line, "proof line") for line in proof)
        if any(len(node) != HASH_SIZE for node in path):
            raise EncodingError(f"a proof line encodes {HASH_SIZE} bytes")
        return cls(decode_decimal(size, "old size"), path, note)


class WitnessSite:
    """Answers a witness's requests; :meth:`handle` goes to an :class:`~ragseal.runtime.http_server.HttpServer`."""

    def __init__(
        self, witness: Witness, directory: Path, logs: Sequence[NoteVerifier], clock: Callable[[], float]
    ) -> None:
        """``logs``: keys of the logs that are cosigned, several of one name for one log; ``directory``: for evidence.

        Raises:
            ConfigurationError: no log, or a key that is no log's.
        """
        if not logs:
            raise ConfigurationError("a witness needs the key of a log at least: --log NAME+ID+BASE64")
        self._keys: dict[str, tuple[NoteVerifier, ...]] = {}
        for key in logs:
            if key.algorithm != ED25519:
                raise ConfigurationError(f"the key of {key.name} is a witness's: --log takes keys of type 0x01")
            self._keys[key.name] = (*(one for one in self._keys.get(key.name, ()) if one != key), key)
        self._by_hash = {state_name(origin): keys for origin, keys in self._keys.items()}
        self._witness, self._directory, self._clock = witness, directory, clock
        self._deciding = threading.Lock()  # old size compared, memory written and line given: one request at a time
        self._pool = ThreadPoolExecutor(2, "witness")

    async def handle(self, request: Request) -> Response:
        """The answer to a request, worked out in a thread: signatures and the disk take milliseconds."""
        words = request.path.strip("/").split("/")
        if words == ["add-checkpoint"]:
            if request.method != "POST":
                return _text(405, "add-checkpoint is asked for with POST", Allow="POST")
            return await self._threaded(self.add_checkpoint, request.body)
        if len(words) == 2 and words[1] == "checkpoint" and words[0] in self._by_hash:
            if request.method not in ("GET", "HEAD"):
                return _text(405, "a checkpoint is asked for with GET", Allow="GET, HEAD")
            return await self._threaded(self.checkpoint, words[0])
        return _text(404, "served here: POST /add-checkpoint and GET /<sha256 of a log's origin>/checkpoint")

    async def _threaded(self, work: Callable[..., Response], *given: object) -> Response:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work, *given)

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def checkpoint(self, origin_hash: str) -> Response:
        """The last note of a log that was cosigned here, with this witness's line."""
        try:
            known = self._witness.remembered(self._by_hash[origin_hash])
        except AuditError as error:  # its text names files of this machine: it is for the operator alone
            _log.error("a checkpoint cannot be shown: %s", error)
            return _text(500, "the witness cannot show it now; its operator finds the reason in its log")
        if known is None:
            return _text(404, "nothing of this log was cosigned yet")
        return Response(200, known.note.encode(), headers={"Cache-Control": "no-cache"})

    def add_checkpoint(self, body: bytes) -> Response:
        """Status and body as tlog-witness has them."""
        try:
            request = AddCheckpoint.parse(body)
            sent = Checkpoint.parse(Note.parse(request.note).text, extensions=True)
            keys = self._keys.get(sent.origin)
            if keys is None:
                return _text(404, "this witness does not know a log of this origin: its operator can add it (--log)")
            try:
                open_foreign(request.note, keys)
            except LedgerError as error:
                return _text(403, str(error))
        except EncodingError as error:
            return _text(400, str(error))
        if request.old > sent.size:
            return _text(400, f"the old size {request.old} is beyond the checkpoint's {sent.size}")
        with self._deciding:
            return self._decide(request, keys)

    def _decide(self, request: AddCheckpoint, keys: Sequence[NoteVerifier]) -> Response:
        try:
            known = self._witness.remembered(keys)
            size = 0 if known is None else known.checkpoint.size
            if request.old != size:
                return _conflict(size)
            try:
                line = self._witness.cosign(request.note, keys, request.path, int(self._clock()))
            except ForkError as error:
                self._alarm(error, keys)
                return _conflict(size)
            except UnprovenError as error:
                return _text(422, str(error))
            except EncodingError as error:  # no room for this witness's line under the submitted text
                return _text(400, str(error))
        except AuditError as error:  # the witness's own disk, memory or clock
            _log.error("nothing was cosigned: %s", error)
            return _text(500, "the witness cannot cosign now; its operator finds the reason in its log")
        return Response(200, line.line().encode("utf-8"))

    def _alarm(self, error: ForkError, keys: Sequence[NoteVerifier]) -> None:
        """Keep the first evidence about a log: only its keys can make any, but they can make a lot."""
        if standing_alarm(self._directory, keys[0].name) is None:
            now = datetime.fromtimestamp(int(self._clock()), UTC)
            _log.error("ALARM: %s. Evidence: %s", error, keep_evidence(self._directory, keys, error, now))


def _conflict(size: int) -> Response:
    return Response(409, f"{size}\n".encode(), SIZE_TYPE)


def _text(status: int, text: str, **headers: str) -> Response:
    return Response(status, f"{text}\n".encode(), headers=headers)

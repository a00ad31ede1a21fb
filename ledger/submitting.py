# SPDX-License-Identifier: GPL-3.0-or-later
"""Handing the public checkpoint to witnesses over HTTP (C2SP tlog-witness, the log's side).  SPEC G.6.12.

Every round takes one checkpoint, the newest public one, to all witnesses of the policy at once, so that they stand at
one size.  It happens in a thread and an event loop of its own: a witness that is slow, away or hostile holds up no
other, no round and no answer.  Trust: a witness can give its own valid cosignature, or nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from ragseal.kernel.errors import AuditError, BudgetError, ConfigurationError, LedgerError, TransportError
from ragseal.kernel.printable import printable
from ragseal.ledger.cosignatures import CosignatureBook
from ragseal.ledger.note import NoteSignature, NoteVerifier, decode_decimal
from ragseal.ledger.policy import Policy
from ragseal.ledger.published import PublicLog
from ragseal.ledger.witness_http import SIZE_TYPE, AddCheckpoint
from ragseal.runtime.http_client import Answer, Place, post
from ragseal.runtime.loop_thread import LoopThread

SECONDS = 10.0  #: for one request
MAX_ANSWER = 64 << 10  #: bytes of an answer, its head included: a witness may have several keys
ATTEMPTS = 3  #: sizes that a witness may name before its turn is over
FRESH = 3600  #: seconds after which the same checkpoint is submitted again, for a newer time under it

_log = logging.getLogger("ragseal.witness")


@dataclass(slots=True)
class _Peer:
    """A witness, and what is known of it."""

    name: str
    verifier: NoteVerifier
    place: Place
    size: int = 0  #: of the last checkpoint that it cosigned, as far as is known here
    trouble: str = ""
    busy: bool = False


class Submitter:
    """Submits one log's checkpoints every ``every`` seconds; :meth:`start` it, and :meth:`stop` it."""

    def __init__(
        self, log: PublicLog, book: CosignatureBook, policy: Policy, every: float, clock: Callable[[], float]
    ) -> None:
        """Witnesses of the policy without a URL are left out: they come by themselves.

        Raises:
            ConfigurationError: a URL that is none.
        """
        self._log, self._book, self._every, self._clock = log, book, every, clock
        self._peers = [
            _Peer(printable(one.name), one.verifier, _place(one.name, one.url)) for one in policy.witnesses if one.url
        ]
        for peer in self._peers:
            last = book.newest(peer.verifier)
            peer.size = 0 if last is None else last.size
        self._thread: LoopThread | None = None

    def start(self) -> None:
        if self._peers:
            self._thread = LoopThread("witnesses")
            self._thread.begin(self._rounds())

    async def stop(self) -> None:
        if self._thread is not None:
            await self._thread.stop()

    async def _rounds(self) -> None:
        turns: set[asyncio.Task[None]] = set()
        while True:
            try:
                size, note = self._log.published()
                for peer in self._peers:
                    if not peer.busy and self._wants(peer, size):
                        peer.busy = True
                        turn = asyncio.create_task(self._turn(peer, size, note))
                        turns.add(turn)
                        turn.add_done_callback(turns.discard)
            except Exception:  # whatever it is, the next round may go well
                _log.exception("nothing was submitted to witnesses")
            await asyncio.sleep(self._every)

    def _wants(self, peer: _Peer, size: int) -> bool:
        last = self._book.newest(peer.verifier)
        return last is None or last.size < size or self._clock() - last.time >= FRESH

    async def _turn(self, peer: _Peer, size: int, note: bytes) -> None:
        """One witness's part of a round; what goes wrong is said once, and again when it changes."""
        trouble = ""
        try:
            await self.submit(peer, size, note)
        except BudgetError:
            pass  # its clock goes slower than this one: the next round brings another line
        except AuditError as error:
            trouble = printable(str(error))[:300]
        except Exception as error:
            trouble = repr(error)[:300]
        finally:
            peer.busy = False
        if trouble and trouble != peer.trouble:
            _log.warning("witness %s does not cosign: %s", peer.name, trouble)
        elif peer.trouble and not trouble:
            _log.info("witness %s cosigns again", peer.name)
        peer.trouble = trouble

    async def submit(self, peer: _Peer, size: int, note: bytes) -> None:
        """Get a witness's cosignature under a public note, and keep it.

        Raises:
            TransportError: no answer, or one that is none.
            LedgerError: it refuses, holds another history, or sends no line of its own that verifies.
            BudgetError: its line comes too soon after the one before.
        """
        for _ in range(ATTEMPTS):
            path: tuple[bytes, ...] = ()
            if 0 < peer.size < size:
                path = tuple(await asyncio.to_thread(self._log.consistency, peer.size, size))
            body = AddCheckpoint(peer.size, path, note).encode()
            answer = await post(peer.place, "/add-checkpoint", body, seconds=SECONDS, most=MAX_ANSWER)
            if answer.status == 200:
                line = self._own_line(peer, answer.body)
                peer.size = size
                await asyncio.to_thread(self._book.add, size, peer.verifier.vkey(), line.line(), int(self._clock()))
                return
            if answer.status != 409:
                raise LedgerError(f"it answers with status {answer.status}: {_said(answer)}")
            theirs = _size_of(answer)
            if theirs == peer.size:
                raise LedgerError(
                    f"it has another root of this log's first {theirs} entries: the log was replaced, or the witness's "
                    "memory is another log's"
                )
            if theirs > size:
                raise LedgerError(
                    f"it has cosigned {theirs} entries, {size} are public here: if that stays so, this log was rolled "
                    "back"
                )
            peer.size = theirs
        raise LedgerError("it names another size with each answer")

    @staticmethod
    def _own_line(peer: _Peer, body: bytes) -> NoteSignature:
        """The first line of this witness's key; lines of others are left out, whatever they are."""
        try:
            lines = body.decode("utf-8").splitlines(keepends=True)
        except UnicodeDecodeError:
            raise TransportError("its answer is not text") from None
        for line in lines:
            try:
                found = NoteSignature.parse(line)
            except AuditError:
                continue
            if peer.verifier.owns(found):
                return found
        raise LedgerError(f"its answer has no line of the key {peer.verifier.vkey()}: does the policy name its key?")


def _place(name: str, url: str) -> Place:
    try:
        return Place.parse(url)
    except ConfigurationError as error:
        raise ConfigurationError(f"witness {printable(name)}: {error}") from None


def _size_of(answer: Answer) -> int:
    kind = answer.headers.get("content-type", "").partition(";")[0].strip()
    if kind != SIZE_TYPE or not answer.body.endswith(b"\n"):
        raise TransportError(f"it answers 409 without a size ({_said(answer)})")
    try:
        return decode_decimal(answer.body[:-1].decode("ascii", "replace"), "size")
    except AuditError as error:
        raise TransportError(f"it answers 409 without a size ({error})") from None


def _said(answer: Answer) -> str:
    return repr(printable(answer.body[:200].decode("utf-8", "replace").strip()))

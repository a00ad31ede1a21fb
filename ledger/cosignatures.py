# SPDX-License-Identifier: GPL-3.0-or-later
"""The log's book of cosignatures: what witnesses handed in, in order of arrival, beside the log.

Trust: none is needed for the contents (every line verifies by itself); losing the book loses witnesses' times.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ragseal.kernel.errors import AuditError, BudgetError, EncodingError, LedgerError
from ragseal.ledger.checkpoint import open_checkpoint
from ragseal.ledger.note import (
    COSIGNATURE,
    Note,
    NoteSignature,
    NoteVerifier,
    decode_base64,
    decode_decimal,
    encode_base64,
)
from ragseal.ledger.published import PublicLog

MAX_CLOCK_SKEW = 60  #: seconds that a witness's clock may be ahead
MIN_INTERVAL = 5  #: seconds between two cosignatures of one witness over the same size
MAX_STRANGERS = 64  #: witnesses that the operator did not name
MAX_NOTE_LINES = 32  #: cosignatures shown with a checkpoint


@dataclass(frozen=True, slots=True)
class Cosigned:
    """One cosignature: over which size, by whom, the line itself, its time in seconds."""

    size: int
    witness: NoteVerifier
    signature: NoteSignature

    @property
    def time(self) -> int:
        return int.from_bytes(self.signature.blob[:8], "big")


class CosignatureBook:
    """Accepts, keeps (file ``cosignatures`` in the ledger's directory) and serves cosignatures.  Thread-safe."""

    def __init__(self, directory: Path, log: PublicLog, named: Iterable[NoteVerifier] = ()) -> None:
        """``named`` witnesses never compete with strangers for room.  Raises LedgerError if the book is damaged."""
        self._log, self._named = log, {key.vkey() for key in named}
        self._path = directory / "cosignatures"
        self._lock = threading.Lock()
        self._items: list[Cosigned] = []
        self._last: dict[str, Cosigned] = {}
        try:
            data = self._path.read_bytes() if self._path.exists() else b""
            whole = data[: data.rfind(b"\n") + 1]
            if whole != data:  # the last line was being written when the power went
                os.truncate(self._path, len(whole))
        except OSError as error:
            raise LedgerError(f"cannot read {self._path}: {error.strerror}") from None
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                self._remember(_parse(line))
            except AuditError as error:
                raise LedgerError(f"{self._path} line {number}: {error}. Move the file away to start anew") from None

    def add(self, size: int, vkey: str, line: str, now: int) -> None:
        """Verify a cosignature over the checkpoint of ``size`` and keep it; the same one again changes nothing.

        Raises:
            EncodingError: a malformed key or line.
            LedgerError: beyond the log, older than this witness's last, from the future, or it does not verify.
            BudgetError: too soon after the last one, or no room for more unknown witnesses.
        """
        witness = NoteVerifier.from_vkey(vkey)
        if witness.algorithm != COSIGNATURE:
            raise EncodingError("a witness key has type 0x04")
        signature = NoteSignature.parse(line)
        point = open_checkpoint(self._log.checkpoint_at(size), self._log.verifier).checkpoint
        time = witness.verify(point.text(), signature)
        if time > now + MAX_CLOCK_SKEW:
            raise LedgerError(f"the cosignature's time is {time - now} s ahead of this log's clock")
        with self._lock:
            last = self._last.get(vkey)
            new = Cosigned(size, witness, signature)
            if last is not None:
                if last == new:
                    return
                if size < last.size or time < last.time:
                    raise LedgerError(
                        f"{witness.name} cosigned size {last.size} at {last.time} already: only later ones"
                    )
                if size == last.size and time < last.time + MIN_INTERVAL:
                    raise BudgetError(f"one cosignature of a size every {MIN_INTERVAL} s is enough: wait")
            elif vkey not in self._named and len(self._last.keys() - self._named) >= MAX_STRANGERS:
                raise BudgetError("no room for more unknown witnesses: ask the operator to name this key")
            self._write(new)
            self._remember(new)

    def latest(self) -> bytes | None:
        """The note of the largest cosigned size with its cosignatures; None before the first."""
        with self._lock:
            size = max((item.size for item in self._last.values()), default=None)
        return None if size is None else self.decorate(self._log.checkpoint_at(size), size)

    def decorate(self, note: bytes, size: int) -> bytes:
        """A note of ``size`` with the last cosignature of every witness that stands at that size, named ones first."""
        with self._lock:
            found = [item for item in self._last.values() if item.size == size]
        found.sort(key=lambda item: (item.witness.vkey() not in self._named, item.witness.vkey()))
        return Note.parse(note).with_signatures(item.signature for item in found[:MAX_NOTE_LINES]).encode()

    def page(self, start: int, count: int) -> list[Cosigned]:
        """Cosignatures [start, start + count) in order of arrival, fewer at the end."""
        with self._lock:
            return self._items[start : start + count]

    def _remember(self, item: Cosigned) -> None:
        if item.size > self._log.size:
            raise LedgerError(f"size {item.size} was cosigned, the log has {self._log.size}: it was rolled back")
        self._items.append(item)
        self._last[item.witness.vkey()] = item

    def _write(self, item: Cosigned) -> None:
        line = f"{item.size} {item.witness.vkey()} {encode_base64(item.signature.blob)}\n".encode()
        try:
            with open(self._path, "ab") as file:
                at = file.tell()
                try:
                    file.write(line)
                    file.flush()
                    os.fsync(file.fileno())
                except OSError:
                    os.ftruncate(file.fileno(), at)
                    raise
        except OSError as error:
            raise LedgerError(f"cannot keep the cosignature: {error.strerror}") from None


def _parse(line: bytes) -> Cosigned:
    try:
        size, vkey, blob = line.decode("utf-8").split(" ")
    except ValueError:  # also UnicodeDecodeError
        raise EncodingError("expected size, key and signature") from None
    witness = NoteVerifier.from_vkey(vkey)
    signature = NoteSignature(witness.name, witness.key_id, decode_base64(blob, "signature"))
    if witness.algorithm != COSIGNATURE or len(signature.blob) != 72:
        raise EncodingError("not a cosignature")
    return Cosigned(decode_decimal(size, "size"), witness, signature)

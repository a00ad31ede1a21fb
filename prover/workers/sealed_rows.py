# SPDX-License-Identifier: GPL-3.0-or-later
"""Assignments and results as a database or a Ray cluster has them: sealed under a key that it does not have.

Provider and workers share 32 bytes.  Every row has a key of its own, derived from those, the row's id and the
direction, so a row under another id, or a result in an assignment's place, opens nowhere.  Lengths follow from the
circuit class alone: nothing is compressed, since that would tell of scores.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from ragseal.kernel.errors import EncodingError
from ragseal.prover.base.randomness import Draw
from ragseal.prover.workers.interface import MAX_INPUTS, Work, WorkResult

NONCE_BYTES = 12
ID_BYTES = 16
MAX_ROW = MAX_INPUTS + 1024  #: bytes of a sealed assignment
MAX_RESULT = 4096  #: bytes of a sealed result
_ASSIGNMENT, _RESULT, _QUEUE = b"assignment", b"result", b"queue"


@dataclass(frozen=True)
class RowKey:
    """The key that a provider and its workers share."""

    secret: bytes  #: 32 bytes

    def __repr__(self) -> str:
        return "RowKey(...)"

    @property
    def queue(self) -> str:
        """The name of the rows that this key opens: who has another key on the same database never meets them."""
        return self._derived(_QUEUE, b"")[:16].hex()

    def seal_work(self, row: bytes, work: Work, draw: Draw) -> bytes:
        return self._seal(_ASSIGNMENT, row, work.encode(), draw)

    def open_work(self, row: bytes, data: bytes) -> Work:
        """EncodingError: not an assignment that somebody with this key put into this row."""
        return Work.decode(self._open(_ASSIGNMENT, row, data))

    def seal_result(self, row: bytes, result: WorkResult, draw: Draw) -> bytes:
        return self._seal(_RESULT, row, result.encode(), draw)

    def open_result(self, row: bytes, data: bytes) -> WorkResult:
        """EncodingError: not a result that somebody with this key gave for this row."""
        return WorkResult.decode(self._open(_RESULT, row, data))

    def _derived(self, purpose: bytes, row: bytes) -> bytes:
        return hmac.digest(self.secret, b"ragseal workers " + purpose + b":" + row, hashlib.sha256)

    def _seal(self, purpose: bytes, row: bytes, data: bytes, draw: Draw) -> bytes:
        nonce = draw(NONCE_BYTES)
        return nonce + ChaCha20Poly1305(self._derived(purpose, row)).encrypt(nonce, data, None)

    def _open(self, purpose: bytes, row: bytes, data: bytes) -> bytes:
        try:
            cipher = ChaCha20Poly1305(self._derived(purpose, row))
            return cipher.decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], None)
        except (InvalidTag, ValueError):
            raise EncodingError(
                f"this {purpose.decode()} was not written with the key of this queue, or was changed since"
            ) from None

# SPDX-License-Identifier: GPL-3.0-or-later
"""The newest checkpoint that a quorum of the operator's policy cosigned: a file ``quorum`` beside the log.

Every witness's newest line is kept, so while witnesses go on to a new size, one after the other, no size has a quorum.
The last note that had one is therefore kept as a whole.  Losing it costs nothing but the time until the next one.
"""

from __future__ import annotations

import logging
from pathlib import Path

from ragseal.kernel.errors import AuditError
from ragseal.ledger.note import Note
from ragseal.ledger.policy import Policy, QuorumError
from ragseal.ledger.published import PublicLog
from ragseal.runtime.durable import write_durably
from ragseal.runtime.edges.filesystem import why

NAME = "quorum"

_log = logging.getLogger("ragseal.ledger")


class QuorumNote:
    """Keeps the note; not thread-safe."""

    def __init__(self, directory: Path, log: PublicLog, policy: Policy) -> None:
        """Reads what was kept; what this log or this policy does not know any more is left out."""
        self._path, self._log, self._policy = directory / NAME, log, policy
        self.note: bytes | None = None
        self.size = -1  #: of the note, -1 without one
        try:
            data = self._path.read_bytes()
            size = policy.open(data, log.verifier).checkpoint.size
            if Note.parse(data).text == Note.parse(log.checkpoint_at(size)).text:
                self.note, self.size = data, size
        except FileNotFoundError:
            pass
        except (OSError, AuditError) as error:
            _log.warning("%s is left out: %s", self._path, error)

    def offer(self, note: bytes) -> None:
        """Keep a note of this log, if a quorum cosigned it and it is larger than the last one."""
        try:
            size = self._policy.open(note, self._log.verifier).checkpoint.size
        except QuorumError:
            return
        if size <= self.size:
            return
        self.note, self.size = note, size
        try:
            write_durably(self._path, note)
        except OSError as error:  # the lines themselves are in the book
            _log.warning("cannot keep %s: %s", self._path, why(error))

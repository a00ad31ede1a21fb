# SPDX-License-Identifier: GPL-3.0-or-later
"""What a log's database says of its key's turns, and the roots that a removed key's lines are over.  SPEC G.6.13."""

from __future__ import annotations

from collections.abc import Callable

from pymerkle import SqliteTree

from ragseal.kernel.errors import AuditError, LedgerError
from ragseal.kernel.rotation import Rotation
from ragseal.ledger.merkle import Frontier

_HEAD = bytes([len(Rotation.TAG)]) + Rotation.TAG.encode()  #: how the bytes of a turn begin
_IS_TURN = f"substr(entry, 1, {len(_HEAD)}) = x'{_HEAD.hex()}'"
#: Finds the few turns among millions of entries; SQLite keeps it with every entry.
TURNS_INDEX = f"CREATE INDEX IF NOT EXISTS turns ON leaf (id) WHERE {_IS_TURN}"


def read_turns(tree: SqliteTree) -> list[Rotation]:
    """The turns of the log's key among all that is durable, each in the place that it was signed for.

    Raises:
        LedgerError: the database was changed.
    """
    tree.con.execute(TURNS_INDEX)
    cursor = tree.con.cursor()
    cursor.row_factory = None
    turns = []
    for number, entry in cursor.execute(f"SELECT id, entry FROM leaf WHERE {_IS_TURN} ORDER BY id").fetchall():
        try:
            turn = Rotation.decode(entry)
        except AuditError as error:
            raise LedgerError(f"entry {number - 1} of the ledger is damaged ({error}): restore the database") from None
        if turn.index != number - 1 or turn.root != tree.get_root(number - 1):
            raise LedgerError(
                f"entry {number - 1} of the ledger was signed for a different entry: restore the database"
            )
        turns.append(turn)
    return turns


class Roots:
    """Roots of a log's first entries, asked for in rising order: each entry is hashed into them once."""

    def __init__(
        self, frontier: Callable[[int], Frontier], leaves: Callable[[int, int], list[bytes]], size: int
    ) -> None:
        """``frontier`` of the first so many entries; ``leaves`` of a log of ``size`` from an entry on, so many."""
        self._at, self._leaves_of, self._size = frontier, leaves, size
        self._frontier = Frontier()
        self._leaves: list[bytes] = []

    def at(self, size: int) -> bytes:
        """The root of the first ``size`` entries."""
        if self._frontier.size == 0 and size:
            self._frontier = self._at(size)
        while self._frontier.size < size:
            if not self._leaves:
                start = self._frontier.size
                self._leaves = self._leaves_of(start, min(1024, self._size - start))[::-1]
            self._frontier.add(self._leaves.pop())
        return self._frontier.root()

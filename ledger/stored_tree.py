# SPDX-License-Identifier: GPL-3.0-or-later
"""What a log's database holds: entries, their leaf hashes, and the subtrees over them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from pymerkle import SqliteTree

from ragseal.kernel.errors import LedgerError
from ragseal.ledger.checkpoint import Checkpoint
from ragseal.ledger.merkle import Frontier, leaf_hash
from ragseal.ledger.storage import storage

Column = Literal["entry", "hash"]
_PAGE = 1000  #: entries that are hashed between two words to whoever waits


def frontier(tree: SqliteTree, size: int) -> Frontier:
    """The perfect subtrees of the first ``size`` entries.  LedgerError: storage fails."""
    roots, start = [], 0
    with storage("open the ledger"), tree.lock:
        for height in reversed(range(size.bit_length())):
            if size >> height & 1:
                roots.append(tree._get_root(start, start + (1 << height)))
                start += 1 << height
    return Frontier(size, roots)


def rows(tree: SqliteTree, column: Column, start: int, count: int) -> list[bytes]:
    """A column of entries [start, start + count).  LedgerError: they are not all there, or storage fails."""
    with storage("read"), tree.lock:
        query = f"SELECT {column} FROM leaf WHERE id BETWEEN ? AND ? ORDER BY id"
        found: list[bytes] = tree.con.execute(query, (start + 1, start + count)).fetchall()
    if len(found) != count:
        raise LedgerError(f"entries {start} to {start + count - 1}: the database gave {len(found)} of {count}")
    return found


def compared(tree: SqliteTree, signed: Checkpoint) -> int:
    """How many entries the database has, all that were signed among them.

    Raises:
        LedgerError: fewer or other entries than were signed, or storage fails.
    """
    with storage("open the ledger"):
        size: int = tree.get_size()
        if size < signed.size:
            raise LedgerError(
                f"the database has {size} entries, but {signed.size} were signed: it was rolled back. "
                "Restore the newest database; appending to this one would fork the log"
            )
        if tree.get_root(signed.size) != signed.root:
            raise LedgerError(
                f"the first {signed.size} entries are not those that were signed: the database was replaced "
                "or changed. Restore the right one"
            )
    return size


def check(tree: SqliteTree, signed: Checkpoint, progress: Callable[[int, int], None] | None = None) -> None:
    """Hash every entry under a signed checkpoint again, and compare with the stored hashes and the signed root.

    ``progress(done, total)`` is called about every thousand entries.

    Raises:
        LedgerError: the first entry whose stored hash is not its own, or a root that is not the signed one.
    """
    again = Frontier()
    query = "SELECT entry, hash FROM leaf WHERE id BETWEEN ? AND ? ORDER BY id"
    while again.size < signed.size:
        last = min(again.size + _PAGE, signed.size)
        with storage("check"), tree.lock:
            cursor = tree.con.cursor()
            cursor.row_factory = None
            found = cursor.execute(query, (again.size + 1, last)).fetchall()
        if len(found) != last - again.size:
            raise LedgerError(f"fsck: entries are missing between {again.size} and {last - 1}")
        for entry, stored in found:
            if not isinstance(entry, bytes) or leaf_hash(entry) != stored:
                raise LedgerError(f"fsck: entry {again.size} is not what was appended. Restore the database")
            again.add(stored)
        if progress is not None:
            progress(again.size, signed.size)
    if again.root() != signed.root:
        raise LedgerError(f"fsck: {signed.size} entries do not give the signed root. Restore the database")

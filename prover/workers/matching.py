# SPDX-License-Identifier: GPL-3.0-or-later
"""Assignments in line and workers that are free, matched by the proving keys that a worker holds.

Each step takes as long as a worker holds keys, however many workers and assignments there are.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class Worker:
    name: str
    node: str
    keys: frozenset[str]  #: folders of proving keys, as assignments name them
    row: bytes | None = None  #: what it proves


@dataclass
class Row:
    """An assignment that waits for a worker or has one."""

    name: bytes
    folder: str  #: of its proving key
    turn: int = 0  #: its place among all that came
    worker: str = ""
    result: bytes | None = None
    left: str = ""  #: why its worker left it undone
    refused: str = ""  #: why nobody need wait any longer for a worker
    given: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)


class Matching:
    """Gives what waits, in order, to workers that hold its key.  One thread at a time."""

    def __init__(self) -> None:
        self.workers: dict[str, Worker] = {}
        self.lines: dict[str, dict[bytes, Row]] = {}  #: by key folder: what waits, in order
        self.holders: Counter[str] = Counter()  #: by key folder: how many workers hold it
        self._free: dict[str, dict[str, Worker]] = {}  #: by key folder: those that prove nothing, the longest so first
        self._rows: dict[bytes, Row] = {}  #: that have a worker
        self._busy: dict[bytes, Worker] = {}  #: by row; a row may be nobody's any more
        self._turn = 0

    # --- assignments ---

    def put(self, row: Row) -> None:
        """Give it to a free worker, or put it in line."""
        self._turn += 1
        row.turn = self._turn
        free = self._free.get(row.folder)
        if free:
            self._give(row, next(iter(free.values())))
        else:
            self.lines.setdefault(row.folder, {})[row.name] = row

    def refuse(self, row: Row, why: str) -> None:
        """Nobody need wait any longer for a worker."""
        self._leave_line(row)
        row.refused = why
        row.given.set()

    def answered(self, name: bytes) -> Row | None:
        """The row of a worker that is done with it, and which has the next one now; None: nobody waits for it."""
        worker = self._busy.pop(name, None)
        if worker is not None:
            worker.row = None
            self._next(worker)
        return self._rows.pop(name, None)

    def forget(self, row: Row) -> None:
        """Nobody waits for it."""
        self._leave_line(row)
        self._rows.pop(row.name, None)

    def all(self) -> Iterator[Row]:
        """Every row, given or not."""
        yield from self._rows.values()
        for line in self.lines.values():
            yield from line.values()

    # --- workers ---

    def has(self, name: str, node: str, keys: frozenset[str]) -> None:
        """There is a worker of this name, which holds these keys now."""
        worker = self.workers.get(name)
        if worker is not None and worker.keys == keys:
            return
        if worker is None:
            worker = self.workers[name] = Worker(name, node, keys)
        else:
            self._forget_keys(worker)
            worker.keys = keys
        self.holders.update(keys)
        if worker.row is None:
            self._next(worker)

    def lose(self, name: str) -> Worker | None:
        """It is given nothing more; what it has is waited for as before."""
        worker = self.workers.pop(name, None)
        if worker is not None:
            self._forget_keys(worker)
            if worker.row is not None:
                self._busy.pop(worker.row, None)
        return worker

    def lose_all(self) -> list[Row]:
        """No worker is left; gives what they had."""
        rows = list(self._rows.values())
        self.workers, self._free, self._rows, self._busy = {}, {}, {}, {}
        self.holders.clear()
        return rows

    # --- both ---

    def _next(self, worker: Worker) -> None:
        """What waits longest of what it can prove; else it is free."""
        firsts = [next(iter(line.values())) for key in worker.keys if (line := self.lines.get(key))]
        if firsts:
            self._give(min(firsts, key=lambda row: row.turn), worker)
            return
        for key in worker.keys:
            self._free.setdefault(key, {})[worker.name] = worker

    def _give(self, row: Row, worker: Worker) -> None:
        self._leave_line(row)
        self._unfree(worker)
        self._rows[row.name] = row
        self._busy[row.name] = worker
        worker.row, row.worker = row.name, worker.name
        row.given.set()

    def _leave_line(self, row: Row) -> None:
        line = self.lines.get(row.folder, {})
        line.pop(row.name, None)
        if not line:
            self.lines.pop(row.folder, None)

    def _forget_keys(self, worker: Worker) -> None:
        self._unfree(worker)
        for key in worker.keys:
            self.holders[key] -= 1
            if not self.holders[key]:
                del self.holders[key]

    def _unfree(self, worker: Worker) -> None:
        for key in worker.keys:
            free = self._free.get(key, {})
            free.pop(worker.name, None)
            if not free:
                self._free.pop(key, None)

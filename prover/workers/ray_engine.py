# SPDX-License-Identifier: GPL-3.0-or-later
"""The provider's side of workers on a Ray cluster: who proves what, and who is slow, dead or lies.

A process of the provider's speaks with the cluster (``ray_bridge``) and knows no key; here assignments are sealed,
matched with workers that hold their proving key (``matching``), and results opened.  A cluster that is away is looked
for again.
"""

from __future__ import annotations

import json
import logging
import secrets
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import Any

from ragseal.kernel.errors import AuditError, EncodingError
from ragseal.kernel.printable import printable
from ragseal.prover.base.randomness import Draw
from ragseal.prover.keys.keyring import DIGEST_DIGITS
from ragseal.prover.workers.interface import (
    StoppingError,
    UnreachedError,
    Work,
    WorkersStatus,
    WorkResult,
    places_for,
)
from ragseal.prover.workers.local import child_environment
from ragseal.prover.workers.matching import Matching, Row
from ragseal.prover.workers.process import receive, send
from ragseal.prover.workers.sealed_rows import ID_BYTES, MAX_RESULT, RowKey

PROGRAM = (sys.executable, "-m", "ragseal.prover.workers.ray_bridge")
#: Tells Ray's makers nothing, and frees cores soon after a kill: for so many seconds Ray waits for who was cut off.
OF_RAY = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_CLIENT_RECONNECT_GRACE_PERIOD": "10"}
LOOK = 0.2  #: seconds between two looks whether those in line have still something to wait for
GOODBYE = 3.0  #: seconds for the process that speaks with the cluster to end
AWAY = 5.0  #: seconds between two attempts to reach the cluster
PATIENCE = 60.0  #: seconds without a worker for an assignment's key, until nobody waits for one
LIMIT = 1800.0  #: seconds for one assignment; who takes longer is slow
LONGEST = 7200.0  #: seconds until an assignment is given up
CLAIMS = 3  #: workers that may leave one assignment undone
BAD = 5  #: workers dropped with hardly a result between them, until the engine is in trouble
REST = 600.0  #: seconds in which nothing is handed to workers then
KEPT = 8  #: dropped workers that a status names
MOST_NODES = 1024  #: that may be unfit or barred, and keys that one may hold

log = logging.getLogger("ragseal.provider")


class RayWorkers:
    """Hands assignments to the cluster's nodes, one at a time each."""

    def __init__(
        self, address: str, key: RowKey, draw: Draw = secrets.token_bytes, patience: float = PATIENCE,
        limit: float = LIMIT, program: tuple[str, ...] = PROGRAM,
    ) -> None:  # fmt: skip
        """``address``: ``ray://HOST:PORT``, of the cluster's Ray Client server.  Reaches for nothing yet."""
        self._address, self._key, self._draw, self._program = address, key, draw, program
        self._patience, self._limit = patience, limit
        self._mutex = threading.Lock()
        self._matching = Matching()
        self._missing: dict[str, float] = {}  #: by key folder: since when it is asked for and no worker holds it
        self._begun = time.monotonic()  #: when the cluster was there first, or again
        self._there = False  #: whether the cluster answered lately
        self._away = ""  #: why the cluster cannot be reached
        self._unfit: dict[str, tuple[str, str]] = {}  #: by node: host, and why it has no worker
        self._barred: set[str] = set()  #: nodes whose worker was dropped, until Ray is started anew on them
        self._dropped: list[str] = []
        self._since_drop, self._bad, self._rest = 0, 0, 0.0
        self._closing = threading.Event()
        self._channel: socket.socket | None = None
        self._bridge: subprocess.Popen[bytes] | None = None
        self._sending = threading.Lock()
        self._keeper: threading.Thread | None = None

    @property
    def places(self) -> int:
        return places_for(len(self._matching.workers))

    def start(self) -> None:
        with self._mutex:
            if self._keeper is None and not self._closing.is_set():
                self._begun = time.monotonic()
                self._keeper = threading.Thread(target=self._keep, name="ray", daemon=True)
                self._keeper.start()
                threading.Thread(target=self._watch, name="ray-line", daemon=True).start()

    def prove(self, work: Work) -> WorkResult:
        self.start()
        said = ""
        for _ in range(CLAIMS):
            row = Row(self._draw(ID_BYTES), f"{work.circuit}-{work.key.hex()[:DIGEST_DIGITS]}")
            try:
                self._given(row, work)
                made = self._result(row)
            finally:
                self._forget(row)
            if made is not None:
                return made
            said = row.left
        raise UnreachedError(f"{CLAIMS} workers in a row left one assignment undone, the last one because {said}")

    # --- one assignment ---

    def _given(self, row: Row, work: Work) -> None:
        """Returns once a worker has it.  Raises UnreachedError or StoppingError."""
        with self._mutex:
            if self._closing.is_set():
                raise StoppingError
            self._refuse_now()
            self._matching.put(row)
        if not row.given.wait(LONGEST):
            with self._mutex:
                if not row.worker:
                    self._matching.refuse(row, f"no worker was free in {LONGEST:g} s")
        if self._closing.is_set():
            raise StoppingError
        if row.refused:
            raise UnreachedError(row.refused)
        sealed = self._key.seal_work(row.name, work, self._draw)
        self._say({"do": "prove", "row": row.name.hex(), "worker": row.worker}, sealed)

    def _refuse_now(self) -> None:
        """Raises UnreachedError: no worker is given anything now.  The mutex is held."""
        if self._away:
            raise UnreachedError(self._away)
        if time.monotonic() < self._rest:
            raise UnreachedError(self._resting())

    def _watch(self) -> None:
        """Tell those in line as soon as they need not wait any longer for a worker."""
        while not self._closing.wait(LOOK):
            with self._mutex:
                self._look_at_lines()

    def _look_at_lines(self) -> None:
        """The mutex is held."""
        matching, now = self._matching, time.monotonic()
        for folder, line in list(matching.lines.items()):
            try:
                self._refuse_now()
                if matching.holders.get(folder):
                    self._missing.pop(folder, None)
                elif self._there and now - self._missing.setdefault(folder, now) > self._patience:
                    raise UnreachedError(self._unheld(folder))
            except UnreachedError as error:
                for row in list(line.values()):
                    matching.refuse(row, str(error))

    def _unheld(self, folder: str) -> str:
        if self._matching.workers:
            return f"no node of the cluster holds the proving key {folder}: copy it into the nodes' folders of keys"
        unfit = "; ".join(f"{printable(host)}: {why}" for host, why in list(self._unfit.values())[:3])
        return f"no node of the cluster has a worker ({unfit or 'none has a core to give'})"

    def _resting(self) -> str:
        return f"{self._bad} workers in a row were dropped: see to their machines, or give the others a new key"

    def _result(self, row: Row) -> WorkResult | None:
        """What its worker made of it; None where it left it undone."""
        if not row.ended.wait(self._limit):
            row.left = f"it made no proof in {self._limit:g} s"
            self.drop(row.worker, row.left)
            return None
        if self._closing.is_set():
            raise StoppingError
        if row.result is None:
            log.warning("worker %s left an assignment undone (%s): another one takes it", row.worker, row.left)
            return None
        try:
            if len(row.result) > MAX_RESULT:
                raise EncodingError("it gives what is too long for a result")
            made = self._key.open_result(row.name, row.result)
            if made.worker != row.worker:
                raise EncodingError(f"it says that it is {made.worker!r}")
        except EncodingError as error:
            row.left = str(error)
            self.drop(row.worker, row.left)
            return None
        with self._mutex:
            self._since_drop += 1
        return made

    def _forget(self, row: Row) -> None:
        with self._mutex:
            self._matching.forget(row)

    # --- the bridge ---

    def _keep(self) -> None:
        """Keep a process that speaks with the cluster, and hear it."""
        while not self._closing.is_set():
            try:
                self._hear(self._started())
            except Exception as error:  # it must outlive a bug, and whatever a cluster says
                said = str(error) if isinstance(error, AuditError) else type(error).__name__
                self._is_away(f"the cluster's process says what makes no sense ({said})")
            finally:
                self._ended()
            self._closing.wait(AWAY)

    def _started(self) -> socket.socket:
        mine, its = socket.socketpair()
        with its, self._sending:
            if self._closing.is_set():
                mine.close()
                raise StoppingError
            self._bridge = subprocess.Popen(
                [*self._program, str(its.fileno()), self._address],
                pass_fds=(its.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**OF_RAY, **child_environment(), "RAY_ENABLE_AUTO_CONNECT": "0"},  # else Ray starts a cluster here
            )
            self._channel = mine
        return mine

    def _hear(self, channel: socket.socket) -> None:
        while (data := receive(channel)) is not None:
            head, _, body = data.partition(b"\n")
            told = json.loads(head)
            if told["say"] == "away":
                self._is_away(f"the Ray cluster at {self._address}: {printable(told['why'])}")
            elif told["say"] == "cluster":
                self._is_there(told["nodes"])
            elif told["say"] == "worker":
                self._has_worker(told, body)
            elif told["say"] == "gone":
                self._has_lost(told, told["why"])
            else:
                self._has_result(bytes.fromhex(told["row"]), told, body)
        self._is_away(self._away or f"the Ray cluster at {self._address}: the process that speaks with it ended")

    def _is_away(self, said: str) -> None:
        with self._mutex:
            if said != self._away and not self._closing.is_set():
                log.error("no proofs are made by workers now: %s", said)
            self._away = said

    def _is_there(self, nodes: list[str]) -> None:
        with self._mutex:
            self._unfit = {node: self._unfit[node] for node in nodes if node in self._unfit}
            if self._away:
                log.info("the Ray cluster is there again")
            if not self._there:
                self._there, self._away, self._begun, self._missing = True, "", time.monotonic(), {}

    def _has_worker(self, told: dict[str, Any], body: bytes) -> None:
        """A worker gives a sign of life, with which keys it holds."""
        name, node, keys = told["worker"], told["node"], frozenset[str]()
        try:
            ready = json.loads(body)
            keys, why = frozenset(str(one)[:128] for one in ready["keys"][:MOST_NODES]), str(ready["trouble"])
            if not why and ready["queue"] != self._key.queue:
                why = "its worker key is another one than this provider's"
        except Exception as error:  # a node says what it likes
            why = f"it says what makes no sense ({type(error).__name__})"
        if why:
            self._has_lost(told, why)
            return
        with self._mutex:
            barred = node in self._barred
            if not barred:
                self._unfit.pop(node, None)
                self._matching.has(name, node, keys)
                if self._missing:
                    self._missing = {one: since for one, since in self._missing.items() if one not in keys}
        if barred:
            self._say({"do": "drop", "worker": name})

    def _has_lost(self, told: dict[str, Any], why: str) -> None:
        known = str(told["host"]), printable(why[:300])
        with self._mutex:
            self._matching.lose(told["worker"])
            if self._unfit.get(told["node"]) != known:
                log.warning("node %s has no worker: %s", printable(known[0]), known[1])
            if len(self._unfit) < MOST_NODES:
                self._unfit[told["node"]] = known

    def _has_result(self, name: bytes, told: dict[str, Any], body: bytes) -> None:
        with self._mutex:
            row = self._matching.answered(name)
            if row is not None:
                if told["say"] == "result":
                    row.result = body
                else:
                    row.left = printable(str(told["why"])[:300])
                row.ended.set()

    def _ended(self) -> None:
        """The process that speaks with the cluster is no more, and its workers with it."""
        with self._sending:
            bridge, channel, self._bridge, self._channel = self._bridge, self._channel, None, None
        if channel is not None:
            channel.close()
        if bridge is not None:
            with suppress(subprocess.TimeoutExpired):
                bridge.wait(GOODBYE)
            bridge.kill()
            bridge.wait()
        with self._mutex:
            self._there = False
            for row in self._matching.lose_all():
                row.left = "the cluster went away"
                row.ended.set()

    def _say(self, what: dict[str, Any], body: bytes = b"") -> None:
        """What cannot be said is as good as left undone: :meth:`_ended` tells whoever waits."""
        with self._sending, suppress(OSError):
            if self._channel is not None:
                send(self._channel, json.dumps(what).encode() + b"\n" + body)

    # --- the rest ---

    def drop(self, worker: str, reason: str) -> None:
        """Give this worker, and others on its node, nothing more until Ray is started anew there."""
        shown = f"{printable(worker[:128])}: {printable(reason[:500])}"
        with self._mutex:
            gone = self._matching.lose(worker)
            if gone is not None and len(self._barred) < MOST_NODES:
                self._barred.add(gone.node)
            self._dropped = [*self._dropped, shown][-KEPT:]
            self._bad = self._bad + 1 if self._since_drop <= self.places else 1
            self._since_drop = 0
            if self._bad >= BAD:
                self._rest = time.monotonic() + REST
                self._look_at_lines()  # so that no worker is given what is in line
        log.warning("worker %s", shown.replace(": ", " is dropped: ", 1))
        self._say({"do": "drop", "worker": worker})

    def status(self) -> WorkersStatus:
        with self._mutex:
            trouble = self._away
            if not trouble and time.monotonic() < self._rest:
                trouble = self._resting()
            late = time.monotonic() - self._patience
            if not trouble and self._there and not self._matching.workers and self._begun < late:
                trouble = self._unheld("")
            for folder, since in self._missing.items():
                trouble = trouble or (self._unheld(folder) if since < late else "")
            unfit = tuple(f"none on {printable(host)}: {why}" for host, why in list(self._unfit.values())[:KEPT])
            return WorkersStatus(self._address, len(self._matching.workers), (*self._dropped, *unfit), trouble)

    def close(self) -> None:
        self._closing.set()
        with self._sending, suppress(OSError):
            if self._channel is not None:
                self._channel.shutdown(socket.SHUT_RDWR)  # which the other end hears, and leaves
        with self._mutex:
            for row in self._matching.all():
                row.given.set()
                row.ended.set()
        if self._keeper is not None:
            self._keeper.join(2 * GOODBYE)

# SPDX-License-Identifier: GPL-3.0-or-later
"""The process that speaks with a Ray cluster: ``python -m ragseal.prover.workers.ray_bridge DESCRIPTOR ADDRESS``.

Ray has its own threads, reconnects and pickles, so none of it is in the process that holds the provider's secrets.
What passes here is sealed, and the key is not here.  A cluster's answers come pickled, and unpickling runs what a
pickle names: from :func:`refuse_pickled_names` on, this process builds bytes, numbers, texts and lists, nothing else.

It ends when the provider does, and when the cluster is away: the provider starts another one.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import secrets
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from ragseal.kernel.errors import AuditError
from ragseal.prover.workers.interface import MOST_PLACES
from ragseal.prover.workers.process import receive, send
from ragseal.prover.workers.ray_worker import REFUSED, RayWorker
from ragseal.runtime.edges.address import Address
from ragseal.runtime.edges.proxy import go_straight_to

CPUS = 1  #: that an actor asks for: at the lowest priority it uses those that nobody else does
LOOK = 2.0  #: seconds between two looks at the cluster's nodes
SOON = 0.1  #: seconds until an answer that was just asked for is waited for, at most
FULL = 0.05  #: seconds for which answers of MOST_PLACES nodes are gathered, of fewer shorter: a look costs by each
ALIVE = 10.0  #: seconds between two signs of life of an actor
SIGNS = 10.0  #: of life a second, at most, of all actors together: each is a call like an assignment's
LEAVE = 2.0  #: seconds for saying goodbye
CONNECT = 60.0  #: seconds until a cluster that does not answer is given up
START = 60.0  #: seconds until an actor that does not come up is told of
LEAST_WAIT, LONGEST_WAIT = 1.0, 60.0  #: seconds until a node whose actor ended gets another one
NAME_BYTES = 8  #: of chance in a worker's name
OVER = "it was dropped, or its node is no more"
LONGEST_ANSWER = 1 << 18  #: bytes of an actor's answer that are handed on; results and lists of keys are shorter


class GoneError(Exception):
    """An actor or its node is no more; says why."""


class NoBytesError(Exception):
    """A pickle names a class or a function."""


def end_first() -> None:
    """Where memory runs out, the kernel ends this process first: a node can answer with any number of bytes."""
    with suppress(OSError):  # no Linux
        Path("/proc/self/oom_score_adj").write_text("1000")


def refuse_pickled_names() -> None:
    """For good: no unpickler of this process, Ray's and its dependencies' included, finds a class or function.

    SPEC B.12.8.  Ray's own errors come as such pickles too: of those their names are all that is taken.
    """

    def refuse(event: str, args: tuple[Any, ...]) -> None:
        if event == "pickle.find_class":
            raise GoneError(str(args[1])) if args[0] == "ray.exceptions" else NoBytesError

    sys.addaudithook(refuse)


@dataclass
class Node:
    """A node with its actor, in a thread of its own."""

    identity: str
    host: str
    jobs: queue.Queue[tuple[str, str, bytes] | None] = field(default_factory=queue.Queue)  #: worker, row, assignment
    name: str = ""  #: of its present actor
    actor: Any = None
    over: bool = False  #: it was dropped, or is no more
    wakes: threading.Event = field(default_factory=threading.Event)  #: its answer is there, or it is over

    def end(self) -> None:
        """Whatever its thread waits for."""
        self.over = True
        self.wakes.set()
        self.jobs.put(None)

    @property
    def told(self) -> dict[str, str]:
        """What the provider is told of it."""
        return {"worker": self.name, "node": self.identity, "host": self.host}


class Answers:
    """What actors are asked for, waited for with one call at a time.

    The server of Ray Client has a hundred threads, and a call that waits keeps one of them.
    """

    def __init__(self, ray: Any) -> None:
        self._ray, self._mutex, self._some = ray, threading.Lock(), threading.Event()
        self._waiting: dict[Any, Node] = {}

    def expect(self, ref: Any, node: Node) -> None:
        """Wake the node once its answer is there."""
        with self._mutex:
            self._waiting[ref] = node
        self._some.set()

    def forget(self, ref: Any) -> bool:
        """Wake nobody any more; whether the answer is there."""
        with self._mutex:
            return self._waiting.pop(ref, None) is None

    def run(self) -> None:
        while True:
            with self._mutex:
                self._some.clear()
                refs = list(self._waiting)
            if not refs:
                self._some.wait()
                continue
            try:
                if not self._ray.wait(refs, num_returns=1, timeout=SOON)[0]:
                    continue
                time.sleep(FULL * len(refs) / MOST_PLACES)
                there = self._ray.wait(refs, num_returns=len(refs), timeout=0)[0]
            except Exception:  # Ray raises what it likes; who asks for the answer hears why
                there = refs
                time.sleep(SOON)
            with self._mutex:
                for ref in there:
                    node = self._waiting.pop(ref, None)
                    if node is not None:
                        node.wakes.set()


class Bridge:
    """What stands between the provider's socket and the cluster."""

    def __init__(self, ray: Any, channel: socket.socket, worker: type[RayWorker]) -> None:
        """``worker``: what the actors are of."""
        self._ray, self._channel, self._worker = ray, channel, worker
        self._sending = threading.Lock()
        self._nodes: dict[str, Node] = {}
        self._by_worker: dict[str, Node] = {}
        self._answers = Answers(ray)

    def tell(self, what: dict[str, Any], body: bytes = b"") -> None:
        with self._sending:
            try:
                send(self._channel, json.dumps(what).encode() + b"\n" + body)
            except OSError:
                os._exit(0)  # the provider is no more

    def listen(self) -> None:
        """What the provider says, until it ends."""
        with suppress(OSError, AuditError):
            while (data := receive(self._channel)) is not None:
                head, _, body = data.partition(b"\n")
                said = json.loads(head)
                node = self._by_worker.get(said["worker"])
                if said["do"] == "drop":
                    self._drop(node)
                elif node is None:
                    self._left(said["row"])
                else:
                    node.jobs.put((said["worker"], said["row"], body))
                    if self._by_worker.get(said["worker"]) is not node:  # it ended meanwhile
                        self._empty(node)
        self.leave()

    def leave(self) -> None:
        """Give the cluster its cores back, and end: of whom nobody says goodbye, Ray keeps actors for a while."""
        threading.Timer(LEAVE, os._exit, [0]).start()
        for node in list(self._nodes.values()):
            self._drop(node)
        with suppress(Exception):
            self._ray.shutdown()
        os._exit(0)

    def _left(self, row: str) -> None:
        self.tell({"say": "left", "row": row, "why": "its worker ended"})

    def look(self) -> None:
        """Give each node that has a core a worker, as long as the cluster is there."""
        threading.Thread(target=self._answers.run, daemon=True).start()
        while True:
            alive = {one["NodeID"]: one for one in self._ray.nodes() if one["Alive"]}
            for identity, node in list(self._nodes.items()):
                if identity not in alive:
                    node.end()
                    del self._nodes[identity]
            for identity, one in alive.items():
                proves = one["Resources"].get("CPU", 0) >= CPUS
                if identity not in self._nodes and len(self._nodes) < MOST_PLACES and proves:
                    node = self._nodes[identity] = Node(identity, str(one["NodeManagerHostname"])[:64])
                    threading.Thread(target=self._keep, args=(node,), daemon=True).start()
            self.tell({"say": "cluster", "nodes": list(self._nodes)})
            time.sleep(LOOK)

    def _drop(self, node: Node | None) -> None:
        if node is not None:
            node.end()  # it stays in _nodes: a node gets no other actor until Ray itself is started anew on it
            with suppress(Exception):
                self._ray.kill(node.actor)

    # --- one node ---

    def _keep(self, node: Node) -> None:
        """Keep an actor on this node for as long as it is there and the provider wants one."""
        wait = LEAST_WAIT
        while not node.over:
            began = time.monotonic()
            try:
                self._one_actor(node)
            except Exception as error:  # Ray raises what it likes
                why = str(error) if isinstance(error, GoneError) else type(error).__name__
                self.tell({"say": "gone", **node.told, "why": why})
            self._by_worker.pop(node.name, None)
            self._empty(node)
            with suppress(Exception):
                self._ray.kill(node.actor)
            wait = LEAST_WAIT if time.monotonic() - began > LONGEST_WAIT else min(2 * wait, LONGEST_WAIT)
            time.sleep(wait)

    def _empty(self, node: Node) -> None:
        """Nobody proves what it was given."""
        with suppress(queue.Empty):
            while True:
                job = node.jobs.get_nowait()
                if job is not None:
                    self._left(job[1])

    def _one_actor(self, node: Node) -> NoReturn:
        """Raises GoneError, or what Ray raises: it ends in no other way."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        node.name = f"{_plain(node.host)}-{secrets.token_hex(NAME_BYTES)}"
        self._by_worker[node.name] = node
        node.actor = (
            self._ray.remote(self._worker)
            .options(  # not restarted by Ray: the next one has another name
                num_cpus=CPUS,
                max_restarts=0,
                max_concurrency=1,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node.identity, soft=False),
            )
            .remote(node.name)
        )
        while not node.over:
            told = self._answer(node, node.actor.ready.remote(), START)
            self.tell({"say": "worker", **node.told}, told)
            end = time.monotonic() + max(ALIVE, len(self._nodes) / SIGNS)
            while not node.over and (left := end - time.monotonic()) > 0:
                with suppress(queue.Empty):
                    job = node.jobs.get(timeout=left)
                    if job is None:
                        break  # it is over
                    worker, row, sealed = job
                    if worker == node.name:
                        self._proved(node, row, sealed)
                    else:  # it was for the one before
                        self._left(row)
        raise GoneError(OVER)

    def _proved(self, node: Node, row: str, sealed: bytes) -> None:
        try:
            made = self._answer(node, node.actor.prove.remote(bytes.fromhex(row), sealed), None)
        except BaseException:
            self._left(row)
            raise
        self.tell({"say": "result", "row": row}, made)

    def _answer(self, node: Node, ref: Any, limit: float | None) -> bytes:
        """What an actor returns, REFUSED where that is no bytes.  Raises GoneError, or what Ray raises.

        What is too long is cut off: the provider drops who gave it, and hears of the other nodes all the same.
        """
        node.wakes.clear()
        self._answers.expect(ref, node)
        if not node.over and not node.wakes.wait(limit):
            why = "it does not come up: other jobs may hold the node's cores"
            self.tell({"say": "gone", **node.told, "why": why})
            node.wakes.wait()
        if not self._answers.forget(ref):
            raise GoneError(OVER)
        try:
            made = self._ray.get(ref)
        except NoBytesError:
            made = None
        return made[:LONGEST_ANSWER] if isinstance(made, bytes) else REFUSED


def _plain(host: str) -> str:
    return "".join(c for c in host if c.isascii() and (c.isalnum() or c in ".-")) or "node"


def main(worker: type[RayWorker] = RayWorker) -> None:
    channel, address = socket.socket(fileno=int(sys.argv[1])), sys.argv[2]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the provider's, which then closes the socket
    end_first()
    import ray

    bridge = Bridge(ray, channel, worker)
    threading.Thread(target=bridge.listen, daemon=True).start()

    def end(why: str) -> None:
        bridge.tell({"say": "away", "why": why})
        os._exit(1)  # Ray's own threads would go on trying

    late = threading.Timer(CONNECT, end, [f"it does not answer in {CONNECT:g} s"])
    late.daemon = True
    late.start()
    try:
        refuse_pickled_names()
        go_straight_to(Address.parse(address.removeprefix("ray://")).host)
        ray.init(address, log_to_driver=False, logging_level=logging.CRITICAL)
        late.cancel()
        bridge.look()
    except Exception as error:  # Ray raises what it likes
        end(" ".join(str(error).split())[:300] or type(error).__name__)


if __name__ == "__main__":
    main()

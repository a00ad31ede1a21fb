# SPDX-License-Identifier: GPL-3.0-or-later
"""A real Ray cluster on this machine, behind TLS: a head without a core to give, and a node with two."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from ragseal.prover.workers.ray_engine import RayWorkers
from ragseal.prover.workers.ray_worker import KEY_FILE, KEYS
from ragseal.prover.workers.sealed_rows import RowKey
from ragseal.runtime.keyfile import load_shared, save_shared
from tests.runtime.certificates import Authority
from tests.workers.background import until
from tests.workers.ray_others import HERE
from tests.workers.scene import held_in

STARTED = 40.0  #: seconds for a node to be there


@dataclass
class Cluster:
    """What an operator has: an address, and machines with a key file and a folder of proving keys each."""

    folder: Path  #: of Ray's own files, short: sockets lie in it
    here: Path  #: of the files below
    tls: dict[str, str]
    ip: str
    ports: tuple[int, int]  #: the cluster's own, and of Ray Client
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def address(self) -> str:
        return f"ray://{self.ip}:{self.ports[1]}"

    @property
    def key_file(self) -> Path:
        return self.here / "worker.key"

    @property
    def keys(self) -> Path:
        return self.here / "keys"

    @property
    def key(self) -> RowKey:
        return RowKey(load_shared(self.key_file))

    def start(self, *what: str) -> None:
        for one in what or ("head", "node"):
            cores = "0" if one == "head" else "2"
            options = ["--num-cpus", cores, "--object-store-memory", "80000000", "--disable-usage-stats", "--block"]
            if one == "head":
                options += ["--head", f"--port={self.ports[0]}", f"--ray-client-server-port={self.ports[1]}",
                            "--include-dashboard=false", f"--temp-dir={self.folder}"]  # fmt: skip
            else:
                options += [f"--address={self.ip}:{self.ports[0]}"]
            path = os.pathsep.join(part for part in sys.path if part)
            environment = {**os.environ, **self.tls, "PYTHONPATH": path, HERE: str(self.here)}
            environment |= {KEY_FILE: str(self.key_file), KEYS: str(self.keys)}
            self.running[one] = subprocess.Popen(
                [sys.executable, "-m", "ray.scripts.scripts", "start", f"--node-ip-address={self.ip}", *options],
                env=environment,
                stdout=(self.here / f"{one}.log").open("ab"),
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            if one == "head":
                until(self._answers, STARTED)

    def _answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((self.ip, self.ports[1])) == 0

    def kill(self, *what: str) -> None:
        """SIGKILL for all processes of these."""
        for one in what or tuple(self.running):
            process = self.running.pop(one)
            for pid in _session(process.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()


def _session(leader: int) -> list[int]:
    """Processes of a session; Ray's leave the group, not the session."""
    found = []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                status = Path(entry.path, "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(status[3]) == leader:
                found.append(int(entry.name))
    return found


def free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as two:
        one.bind(("", 0))
        two.bind(("", 0))
        return one.getsockname()[1], two.getsockname()[1]


def tls_of(authority: Authority, name: str, host: str, trusted: Path) -> dict[str, str]:
    """What Ray takes of an environment: a certificate for this host, and whose certificates are taken."""
    certificate, key = authority.certificate(name, host, "127.0.0.1")  # where Ray's head speaks with itself
    return {
        "RAY_AUTH_MODE": "disabled",  # whatever token this machine has
        "RAY_USE_TLS": "1",
        "RAY_TLS_SERVER_CERT": str(certificate),
        "RAY_TLS_SERVER_KEY": str(key),
        "RAY_TLS_CA_CERT": str(trusted),
    }


@contextmanager
def a_cluster(here: Path) -> Iterator[Cluster]:
    """Running, with a worker key and the key of class TINY."""
    import ray.util

    ip, authority = ray.util.get_node_ip_address(), Authority(here, "cluster")
    with tempfile.TemporaryDirectory(prefix="ragseal-ray-") as folder:
        cluster = Cluster(Path(folder), here, tls_of(authority, "node", ip, authority.path), ip, free_ports())
        save_shared(cluster.key_file, bytes(range(32)))
        cluster.keys.mkdir()
        held_in(cluster.keys)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.kill()


@contextmanager
def engine(
    cluster: Cluster, worker: str = "RayWorker", key: RowKey | None = None, **options: float
) -> Iterator[RayWorkers]:
    """A provider's side, whose workers are of this class."""
    program = (sys.executable, "-m", "tests.workers.ray_others", worker)
    made = RayWorkers(cluster.address, key or cluster.key, program=program, **options)  # type: ignore[arg-type]
    made.start()
    try:
        until(lambda: made._there, 180)  # a busy machine takes Ray longer than it gives itself
        yield made
    finally:
        made.close()

# SPDX-License-Identifier: GPL-3.0-or-later
"""Workers on a real Ray cluster: honest ones, liars, dead and slow ones, and those without keys."""

from __future__ import annotations

import os
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from ragseal.kernel import field
from ragseal.prover.workers import ray_engine
from ragseal.prover.workers.checked import checked_proof
from ragseal.prover.workers.interface import StoppingError, UnreachedError
from ragseal.prover.workers.ray_engine import RayWorkers
from ragseal.prover.workers.sealed_rows import RowKey
from ragseal.prover.workers.turns import Turns
from tests.classes import TINY
from tests.runtime.certificates import Authority
from tests.workers.background import InBackground, until
from tests.workers.scene import backend, stated

pytest.importorskip("ray")

from tests.workers.ray_scene import Cluster, a_cluster, engine, tls_of

pytestmark = pytest.mark.slow

WORK = stated(0).work


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with a_cluster(tmp_path_factory.mktemp("ray")) as made:
        yield made


@pytest.fixture
def cluster(started: Cluster, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    for name, value in started.tls.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(ray_engine, "AWAY", 0.2)
    for left in ("go", "asleep", "ran"):
        (started.here / left).unlink(missing_ok=True)
    return started


# --- what the cluster sees -------------------------------------------------------------------------------------------


def seen_in(folder: Path) -> set[str]:
    """Which of an assignment's inputs are in the files of a folder: as bytes, in hexadecimal or in decimal."""
    values = {WORK.inputs[at : at + 32] for at in range(0, len(WORK.inputs), 32)}
    telling = {one for one in values if int.from_bytes(one, "big") >> 128}  # small ones are anywhere
    assert len(telling) > 5
    found = set()
    for path in folder.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            for one in telling:
                if one in data or one.hex().encode() in data or str(int.from_bytes(one, "big")).encode() in data:
                    found.add(path.name)
    return found


def test_a_cluster_proves_and_nothing_readable_is_in_its_files(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    handed, real = list[bytes](), ray_engine.send

    def hands(channel: socket.socket, data: bytes) -> None:
        handed.append(data)
        real(channel, data)

    monkeypatch.setattr(ray_engine, "send", hands)
    with engine(cluster) as workers:
        made = workers.prove(WORK)
        stated(0).check(made.proof)
        assert len(handed[0].partition(b"\n")[2]) == len(WORK.encode()) + 28
        assert not any(WORK.inputs[at : at + 32] in handed[0] for at in range(0, len(WORK.inputs), 32))
        assert workers.prove(WORK).worker == made.worker
        told = workers.status()
        assert (told.workers, told.dropped, told.trouble) == (1, (), "")
        assert workers._bridge is not None
        adjusted = Path(f"/proc/{workers._bridge.pid}/oom_score_adj")
        assert adjusted.read_text() == "1000\n", "whoever fills its memory ends it, and not the provider"
        broken = WORK.inputs[:-64] + field.pack([1, 1])
        assert workers.prove(type(WORK)(WORK.circuit, WORK.key, broken)).failure
        assert not seen_in(cluster.folder)
    with engine(cluster, "Leaky") as workers:
        workers.prove(WORK)
        until(lambda: seen_in(cluster.folder))  # so the search finds what is there


# --- workers that lie, die or sleep ----------------------------------------------------------------------------------


def test_a_lying_worker_is_dropped_and_the_provider_proves(cluster: Cluster) -> None:
    with engine(cluster, "Lying") as workers:
        one = stated(0)
        proof = checked_proof(
            workers, Turns(), backend, one.work.circuit, one.work.key, one.assignment, one.check, True
        )
        one.check(proof)
        (said, *_) = workers.status().dropped
        assert "its proof does not hold" in said
        workers._patience = 0.0
        with pytest.raises(UnreachedError, match="no node of the cluster has a worker"):
            workers.prove(WORK)


@pytest.mark.parametrize(
    ("worker", "why"),
    [
        ("Renamed", "it says that it is 'honest'"),
        ("Elsewhere", "not written with the key"),
        ("Long", "too long"),
        ("Endless", "too long"),
    ],
)
def test_what_is_no_result_of_this_assignment_drops_its_worker(cluster: Cluster, worker: str, why: str) -> None:
    with engine(cluster, worker) as workers:
        waiting = InBackground(lambda: workers.prove(WORK))
        until(lambda: workers.status().dropped)
        assert why in workers.status().dropped[0]
        workers.close()
        assert isinstance(waiting.outcome(), StoppingError)


def test_a_pickle_from_the_cluster_runs_nothing_of_the_providers(cluster: Cluster) -> None:
    """It runs in Ray's own processes, which unpickle what their workers give, and in none that the provider started."""
    with engine(cluster, "Pickled") as workers:
        waiting = InBackground(lambda: workers.prove(WORK))
        until(lambda: workers.status().dropped)
        workers.close()
        assert isinstance(waiting.outcome(), StoppingError)
    ran = (cluster.here / "ran").read_text()
    assert "ray.util.client.server" in ran, "so it is a pickle that runs"
    assert "ray_others" not in ran


def test_a_slow_worker_is_dropped(cluster: Cluster) -> None:
    with engine(cluster, "Sleeping", limit=1.0) as workers:
        waiting = InBackground(lambda: workers.prove(WORK))
        until(lambda: workers.status().dropped)
        assert "it made no proof in 1 s" in workers.status().dropped[0]
        workers.close()
        assert isinstance(waiting.outcome(), StoppingError)


@pytest.mark.parametrize("what", ["the actor", "the process that speaks with Ray", "the node", "the cluster"])
def test_whatever_is_killed_in_the_middle_loses_nothing(cluster: Cluster, what: str) -> None:
    with engine(cluster, "Sleeping") as workers:
        waiting = InBackground(lambda: proved_at_last(workers))
        asleep = cluster.here / "asleep"
        until(lambda: asleep.exists() and asleep.read_text())
        time.sleep(0.1)
        (cluster.here / "go").touch()
        if what == "the actor":
            os.kill(int(asleep.read_text()), 9)
        elif what == "the process that speaks with Ray":
            assert workers._bridge is not None
            workers._bridge.kill()
        elif what == "the node":
            cluster.kill("node")
            cluster.start("node")
        else:
            cluster.kill()
            until(lambda: "the Ray cluster at" in workers.status().trouble)
            with pytest.raises(UnreachedError, match="the Ray cluster at"):
                workers.prove(WORK)  # nobody waits for what is not there
            cluster.start()
        made = waiting.outcome(120)
        stated(0).check(made.proof)
        assert not [one for one in workers.status().dropped if not one.startswith("none on")], "nobody lied"


def proved_at_last(workers: RayWorkers):
    """As the backlog does."""
    while True:
        try:
            return workers.prove(WORK)
        except UnreachedError:
            time.sleep(0.2)


# --- nodes without keys ----------------------------------------------------------------------------------------------


@contextmanager
def moved(path: Path) -> Iterator[None]:
    aside = path.with_name("aside")
    path.rename(aside)
    try:
        yield
    finally:
        aside.rename(path)


def test_a_node_without_its_keys_says_so_and_proves_once_it_has_them(cluster: Cluster) -> None:
    key = cluster.key
    with moved(cluster.key_file), engine(cluster, key=key) as workers:
        until(lambda: workers.status().dropped)
        workers._patience = 0.0
        with pytest.raises(UnreachedError, match=r"no node of the cluster has a worker .*cannot read the key"):
            workers.prove(WORK)
        assert "cannot read the key" in workers.status().trouble
        os.link(cluster.key_file.with_name("aside"), cluster.key_file)
        until(lambda: workers.status().workers)
        cluster.key_file.unlink()
        (held,) = cluster.keys.iterdir()
        with moved(held):
            (cluster.keys / "aside").rename(cluster.here / "elsewhere")
            until(lambda: all(not one.keys for one in workers._matching.workers.values()))
            with pytest.raises(UnreachedError, match=f"no node of the cluster holds the proving key {TINY.name}-"):
                workers.prove(WORK)
            assert "copy it" in workers.status().trouble
            (cluster.here / "elsewhere").rename(cluster.keys / "aside")
        there = workers._matching.workers
        until(lambda: there and all(one.keys == {held.name} for one in there.values()))
        stated(0).check(workers.prove(WORK).proof)


def test_two_providers_on_one_cluster_and_one_with_another_key(cluster: Cluster) -> None:
    with engine(cluster) as one, engine(cluster) as two:
        names = {InBackground(lambda at=at: at.prove(WORK)).outcome().worker for at in (one, two)}
        assert len(names) == 2
    with engine(cluster, key=RowKey(bytes(32))) as stranger:
        until(lambda: stranger.status().dropped)
        stranger._patience = 0.0
        with pytest.raises(UnreachedError, match="its worker key is another one"):
            stranger.prove(WORK)


def test_who_has_no_certificate_of_the_clusters_reaches_nothing(cluster: Cluster, tmp_path: Path) -> None:
    trusted = Path(cluster.tls["RAY_TLS_CA_CERT"])
    assert spoken_with(cluster, cluster.tls)
    strangers = tls_of(Authority(tmp_path, "stranger"), "stranger-node", cluster.ip, trusted)
    said = b""
    with suppress(OSError):  # it may say why
        said = spoken_with(cluster, strangers)
    assert said == b""


def spoken_with(cluster: Cluster, tls: dict[str, str]) -> bytes:
    """What the cluster's Ray Client server says to who has these files."""
    context = ssl.create_default_context(cafile=tls["RAY_TLS_CA_CERT"])
    context.load_cert_chain(tls["RAY_TLS_SERVER_CERT"], tls["RAY_TLS_SERVER_KEY"])
    context.set_alpn_protocols(["h2"])
    with (
        socket.create_connection((cluster.ip, cluster.ports[1]), 20) as plain,
        context.wrap_socket(plain, server_hostname=cluster.ip) as channel,
    ):
        channel.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5))
        return channel.recv(9)

# SPDX-License-Identifier: GPL-3.0-or-later
"""Workers as processes of this machine: real ones, killed ones, slow ones, and programs that are none."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragseal.kernel.errors import ConfigurationError, TransportError
from ragseal.prover.workers import local
from ragseal.prover.workers.interface import StoppingError, UnreachedError, WorkResult
from ragseal.prover.workers.local import LocalWorkers
from ragseal.prover.workers.making import NICEST, ProvingKeys
from ragseal.prover.workers.opening import ProveBy, default_engine, prove_by
from ragseal.prover.workers.process import MAX_FRAME, receive, send
from ragseal.runtime.keyfile import save_shared
from ragseal.runtime.token_key import PIN_VARIABLE
from tests.classes import TINY
from tests.simulator.keys import keys_of
from tests.workers.scene import held_in, proof_of, stated

pytestmark = pytest.mark.slow

#: A program that takes an assignment as a worker does, without ragseal: it starts at once.
PRELUDE = """
import socket, sys, time
channel = socket.socket(fileno=int(sys.argv[1]))
size = int.from_bytes(channel.recv(4, socket.MSG_WAITALL), "big")
channel.recv(size, socket.MSG_WAITALL)
"""


def saying(frame: bytes) -> str:
    return f"channel.sendall({len(frame).to_bytes(4, 'big') + frame!r})"


FAULTS = {
    "another's name": saying(WorkResult("local-1", bytes(256), "").encode()),
    "no message": saying(b"nothing"),
    "half a proof": saying(WorkResult("local-1", bytes(256), "").encode()[:-130]),
    "too long a frame": "channel.sendall(bytes([255]) * 4); time.sleep(60)",
    "half a frame": "channel.sendall(bytes([0, 0, 1, 0]) + b'half')",
    "nothing": "",
}


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return held_in(tmp_path_factory.mktemp("keys"))


@contextlib.contextmanager
def engine(keys: Path, count: int = 1, code: str | None = None, limit: float = 60.0) -> Iterator[LocalWorkers]:
    program = local.PROGRAM if code is None else (sys.executable, "-c", PRELUDE + code)
    made = LocalWorkers(count, keys, program, limit)
    try:
        yield made
    finally:
        made.close()


def test_a_process_proves_at_the_lowest_priority_and_ends_with_its_engine(keys: Path) -> None:
    with engine(keys) as workers:
        assert workers.pids() == [], "nothing runs before there is work"
        for number in (0, 1):
            made = workers.prove(stated(number).work)
            assert not made.failure
            stated(number).check(made.proof)
        (pid,) = workers.pids()
        assert made.worker == f"local-{pid}"
        assert os.getpriority(os.PRIO_PROCESS, pid) == NICEST
        assert workers.status().workers == 1
    assert not Path(f"/proc/{pid}").exists()


def test_what_cannot_be_proven_is_a_result_and_no_failure_of_the_worker(keys: Path, tmp_path: Path) -> None:
    wrong = stated(0).work
    wrong = type(wrong)(wrong.circuit, wrong.key, wrong.inputs[:-32] + bytes(32))  # another salt
    here = ProvingKeys(keys)
    assert here.prove(wrong, "w").failure
    assert "knows no circuit" in here.prove(type(wrong)("tiniest", wrong.key, wrong.inputs), "w").failure
    assert "knows no circuit" in here.prove(type(wrong)("thinning-x", wrong.key, wrong.inputs), "w").failure
    assert "does not hold the key" in here.prove(type(wrong)(TINY.name, bytes(32), wrong.inputs), "w").failure
    other = tmp_path / f"{TINY.name}-{'0' * 24}"
    other.symlink_to(keys_of(TINY).directory.resolve())
    assert "another key" in ProvingKeys(tmp_path).prove(type(wrong)(TINY.name, bytes(32), wrong.inputs), "w").failure
    assert ProvingKeys(tmp_path).held() == [other.name]


def test_a_killed_worker_loses_nothing(keys: Path) -> None:
    with engine(keys) as workers:

        def kill() -> None:
            while not workers.pids():
                time.sleep(0.005)
            os.kill(workers.pids()[0], signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        made = workers.prove(stated(0).work)
        killer.join()
        stated(0).check(made.proof)
        (said,) = workers.status().dropped
        assert "it ended" in said or "reset" in said or "Broken" in said


@pytest.mark.parametrize("fault", FAULTS)
def test_a_worker_that_says_what_is_no_result_is_dropped(keys: Path, fault: str) -> None:
    with engine(keys, code=FAULTS[fault], limit=20.0) as workers:
        with pytest.raises(UnreachedError, match="in a row failed"):
            workers.prove(stated(0).work)
        status = workers.status()
        assert len(status.dropped) == local.TRIES
        assert status.workers == 0
        assert "in a row failed" in status.trouble


def test_a_worker_does_not_get_the_pin_of_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does the process that speaks with a Ray cluster: both get this environment."""
    monkeypatch.setenv(PIN_VARIABLE, "4711-secret")
    given = local.child_environment()
    assert not any("4711-secret" in value for value in given.values())
    assert given["PATH"] == os.environ["PATH"]


def test_no_frame_fills_the_memory() -> None:
    mine, its = socket.socketpair()
    with mine, its:
        mine.settimeout(5)
        its.sendall((MAX_FRAME + 1).to_bytes(4, "big"))
        with pytest.raises(TransportError, match="is the most"):
            receive(mine)


def test_a_slow_worker_is_dropped(keys: Path) -> None:
    with engine(keys, code="time.sleep(60)", limit=1.5) as workers:
        began = time.monotonic()
        with pytest.raises(UnreachedError, match=r"no proof in 1\.5 s"):
            workers.prove(stated(0).work)
        assert time.monotonic() - began < 20
        assert workers.pids() == []


def test_a_worker_that_is_dropped_while_it_waits_is_not_asked_again(keys: Path) -> None:
    with engine(keys) as workers:
        liar = workers.prove(stated(0).work).worker
        workers.drop(liar, "its proof does not hold")
        again = workers.prove(stated(0).work)
        assert again.worker != liar
        stated(0).check(again.proof)
        assert len(workers.status().dropped) == 1, "the next one died of it"


def test_an_engine_that_is_closed_lets_nobody_wait(keys: Path) -> None:
    with engine(keys, code="time.sleep(60)") as workers:
        said: list[BaseException] = []

        def wait() -> None:
            try:
                workers.prove(stated(0).work)
            except BaseException as error:
                said.append(error)

        waiting = [threading.Thread(target=wait) for _ in range(2)]  # one has the process, one waits for it
        for one in waiting:
            one.start()
        while not workers.pids():
            time.sleep(0.01)
        workers.close()
        for one in waiting:
            one.join(20)
        assert [type(one) for one in said] == [StoppingError, StoppingError]


def test_a_worker_ends_when_its_provider_is_killed(keys: Path) -> None:
    mine, its = socket.socketpair()
    running = subprocess.Popen([*local.PROGRAM, str(its.fileno()), str(keys)], pass_fds=(its.fileno(),))
    try:
        its.close()
        send(mine, stated(0).work.encode())
        data = receive(mine)
        assert data is not None
        assert WorkResult.decode(data).proof != proof_of(0), "proofs of one statement differ"
        mine.close()
        assert running.wait(20) == 0
    finally:
        running.kill()
        running.wait()


def test_what_prove_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong in ("", "local", "local:0", "local:65", "local:-1", "local:x", "http://x", "remote"):
        with pytest.raises(ConfigurationError, match="--prove takes"):
            prove_by(wrong, None)
    with pytest.raises(ConfigurationError, match="go together"):
        prove_by("postgres://host/db", None)
    with pytest.raises(ConfigurationError, match="go together"):
        prove_by("local:1", tmp_path / "key")
    assert prove_by("here", None).open(tmp_path, b"") is None
    assert repr(ProveBy("postgres://user:secret@host/db")) == "ProveBy(...)"
    assert default_engine() == "local:1"
    monkeypatch.setenv("RAGSEAL_BACKEND", "snarkjs")
    assert default_engine() == "here"
    with pytest.raises(ConfigurationError, match="native module"):
        LocalWorkers(1, tmp_path)


def test_what_prove_takes_of_a_ray_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who reaches a cluster runs programs on it, so the channel to another machine says who speaks.  SPEC B.12.7."""
    monkeypatch.delenv("RAY_USE_TLS", raising=False)
    file = tmp_path / "worker.key"
    save_shared(file, bytes(32))
    with pytest.raises(ConfigurationError, match="go together"):
        prove_by("ray://head.example:10001", None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ConfigurationError, match="workers-ray"):
        prove_by("ray://127.0.0.1:10001", file)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    for wrong in ("ray://", "ray://head", "ray://user:secret@head:1", "ray://head:1/x", "ray://head:1\n"):
        with pytest.raises(ConfigurationError, match="takes a Ray cluster as"):
            prove_by(wrong, file)
    for other in ("ray://head.example:10001", "ray://10.0.0.1:10001", "ray://127.0.0.1.example:10001"):
        with pytest.raises(ConfigurationError, match="RAY_USE_TLS=1"):
            prove_by(other, file)
    for own in ("ray://127.0.0.1:10001", "ray://[::1]:10001"):
        assert prove_by(own, file).key == bytes(32)
    monkeypatch.setenv("RAY_USE_TLS", "1")
    made = prove_by("ray://head.example:10001", file).open(tmp_path, b"")
    assert made is not None
    assert made.status().engine == "ray://head.example:10001"
    made.close()
    file.chmod(0o644)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        prove_by("ray://127.0.0.1:10001", file)


def test_a_mistyped_scheme_shows_no_password() -> None:
    with pytest.raises(ConfigurationError, match="postgress://") as refused:
        prove_by("postgress://ragseal:hunter2@db/proofs", None)
    assert "hunter2" not in str(refused.value)

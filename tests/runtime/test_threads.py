# SPDX-License-Identifier: GPL-3.0-or-later
"""What the system says of threads, as files of /proc and /sys have it."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from ragseal.runtime.threads import UNKNOWN, most_threads

FILES = {
    "proc/sys/vm/max_map_count": "65530\n",
    "proc/sys/kernel/threads-max": "192730\n",
    "proc/sys/kernel/pid_max": "4194304\n",
    "proc/self/cgroup": "0::/a/b\n",
}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    for name, text in FILES.items():
        write(tmp_path, name, text)
    return tmp_path


def write(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


@pytest.mark.parametrize(
    ("name", "text", "most", "limit"),
    [
        ("proc/sys/vm/max_map_count", "65530", 32765, "vm.max_map_count"),
        ("proc/sys/kernel/threads-max", "900", 900, "kernel.threads-max"),
        ("proc/sys/kernel/pid_max", "901", 901, "kernel.pid_max"),
        ("sys/fs/cgroup/a/b/pids.max", "902", 902, "pids.max of the control group"),
        ("sys/fs/cgroup/a/pids.max", "903", 903, "pids.max of the control group"),
        ("sys/fs/cgroup/a/pids.max", "max", 32765, "vm.max_map_count"),
        ("sys/fs/cgroup/c/pids.max", "3", 32765, "vm.max_map_count"),
    ],
)
def test_the_smallest_limit_counts(root: Path, name: str, text: str, most: int, limit: str) -> None:
    write(root, name, text)
    assert most_threads(root) == (most, limit)


def test_the_older_control_groups(root: Path) -> None:
    write(root, "proc/self/cgroup", "5:memory:/m\n4:pids:/d/e\n")
    write(root, "sys/fs/cgroup/pids/d/pids.max", "77")
    assert most_threads(root) == (77, "pids.max of the control group")


def test_a_limit_of_the_user(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (500, 600))
    assert most_threads(root) == (500, "ulimit -u")


def test_a_system_that_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert most_threads(tmp_path) == (UNKNOWN, "unknown")


# No role's process leaves a core file: memory holds keys, seeds and queries.


ROLES = {
    "ragseal.prover.__main__": ["status", "--state", "nowhere"],
    "ragseal.verifier.__main__": ["keys", "--state", "nowhere"],
    "ragseal.client.__main__": ["register-line", "--state", "nowhere", "--tenant", "t"],
    "ragseal.ledger.__main__": ["keygen", "--name", "has space"],
}
RUN = """
import importlib, resource, sys
soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
try:
    importlib.import_module(sys.argv[1]).main(sys.argv[2:])
except SystemExit as ended:
    assert ended.code != 2, "this command does not exist any more"
print(hard, resource.getrlimit(resource.RLIMIT_CORE)[0])
"""


@pytest.mark.parametrize("role", ROLES)
def test_core_files_are_switched_off(role: str) -> None:
    done = subprocess.run([sys.executable, "-c", RUN, role, *ROLES[role]], capture_output=True, text=True, check=True)
    hard, soft = map(int, done.stdout.split()[-2:])
    if hard == 0:
        pytest.skip("this system allows no core files at all")
    assert soft == 0


# Records of gRPC that somebody keeps must not hold freed memory: a process of its own, for it dies otherwise.


KEEPER = """
import asyncio, gc, logging
from ragseal.runtime.rpc import new_server

kept = []


class Keeper(logging.Handler):
    def emit(self, record):
        kept.append(record)


logging.getLogger().addHandler(Keeper())
logging.getLogger().setLevel(logging.DEBUG)


async def dropped():
    new_server()  # as where its port is taken


asyncio.run(dropped())
gc.collect()  # frees the server
filled = [bytearray(200) for _ in range(10000)]
for record in kept:
    print(record.getMessage())
"""


def test_a_server_dropped_unstopped_is_in_no_record() -> None:
    done = subprocess.run([sys.executable, "-c", KEEPER], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    assert "Using selector" in done.stdout, "records were kept"

# SPDX-License-Identifier: GPL-3.0-or-later
"""What every test shares: Python's own recursion limit, which py_ecc lifts when it is imported; the working folder;
hypothesis without a deadline; ``--no-skips``; and the order of files among several workers."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Generator
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import settings

gc.disable()  # until all tests are read, see pytest_collection_finish
TESTS = Path(__file__).resolve().parent
os.environ.setdefault("RAGSEAL_BUILD", str(TESTS.parent / "var" / "build"))
# The embedder's threads sleep while they wait for each other: beside other workers, two thirds of its time went into
# waiting awake.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # likewise numpy's, whose threads wait awake as well

MEMORY = Path("/dev/shm")
ROOMY = 8 << 30  #: bytes: more than twice what the files of all tests take at any moment


def _in_memory() -> bool:
    """Whether the tests' folders may lie in memory: there they wait for no disk, which took longer than they computed.

    Nothing that lies there is lost when a process is killed, and more than that no test does to one.
    """
    try:
        known = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        room = os.statvfs(MEMORY)
    except OSError:
        return False
    available = int(known["MemAvailable"].split()[0]) << 10
    return os.access(MEMORY, os.W_OK) and min(available, room.f_bavail * room.f_frsize) >= ROOMY


if "PYTEST_DEBUG_TEMPROOT" not in os.environ and _in_memory():
    os.environ["PYTEST_DEBUG_TEMPROOT"] = str(MEMORY)

Report = TypeVar("Report", pytest.CollectReport, pytest.TestReport)
_LIMIT = sys.getrecursionlimit()
with contextlib.suppress(ImportError):
    import py_ecc.optimized_bn128  # noqa: F401 - its import changes the limit
sys.setrecursionlimit(_LIMIT)
# One example may take long beside other workers: that is the machine's load, not a fault.
settings.register_profile("ragseal", deadline=None)
settings.load_profile("ragseal")


#: Files that take longest.  Among several workers they begin, so that none runs alone at the end.
FIRST = (
    "demo/test_end_to_end.py", "attacks/test_ceremony.py", "attacks/test_ceremony_files.py", "crash/test_rollover.py",
    "verifier/test_ceremony.py", "native/test_ceremony.py", "crash/test_kill.py", "test_documents.py",
    "runtime/test_tls_commands.py", "prover/test_following.py", "crash/test_clients.py", "attacks/test_timing.py",
    "prover/test_plan.py", "runtime/test_powers_commands.py",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _working_folder() -> Generator[None]:
    """A test that leaves another working folder behind fails itself, instead of one that runs after it."""
    before = Path.cwd()
    yield
    assert Path.cwd() == before, "the test left another working folder behind"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--no-skips", action="store_true", help="a skipped test fails: everything needed must be there")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """In a worker (``make test``): the longest files first, then those with a slow test, then the fast ones.

    A file's tests stay together and in order, for ``--dist loadfile`` hands out whole files.
    """
    if "PYTEST_XDIST_WORKER" in os.environ:
        slow = {item.path for item in items if item.get_closest_marker("slow")}
        items.sort(key=lambda item: _turn(item.path, item.path in slow))


def pytest_collection_finish() -> None:
    """Modules and tests live until the end: a collection that walks through all of them each time frees nothing."""
    gc.freeze()
    gc.enable()


def _turn(path: Path, slow: bool) -> int:
    place = path.relative_to(TESTS).as_posix()
    return FIRST.index(place) if place in FIRST else len(FIRST) + (not slow)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    return _no_skip(collector.config, report)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    return _no_skip(item.config, report)


def _no_skip(config: pytest.Config, report: Report) -> Report:
    if report.skipped and not hasattr(report, "wasxfail") and config.getoption("--no-skips"):
        report.outcome = "failed"
        report.longrepr = f"skipped, which --no-skips forbids: {report.longrepr}"
    return report

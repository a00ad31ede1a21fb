# SPDX-License-Identifier: GPL-3.0-or-later
"""Locks: somebody else is blamed only where the system says that somebody else has it."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ragseal.kernel.errors import ConfigurationError, LedgerError
from ragseal.runtime.durable import DirectoryLock
from ragseal.runtime.edges import locks
from ragseal.runtime.edges.locks import holder, try_lock, wait_lock
from ragseal.verifier.base.files import locked

ROOT = Path(__file__).parents[3]

NO_LOCKS = [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL]


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Makes the system refuse each lock with an errno."""

    def refuse(number: int) -> None:
        def flock(descriptor: int, operation: int) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(fcntl, "flock", flock)

    return refuse


@pytest.mark.parametrize("number", NO_LOCKS)
def test_a_file_system_without_locks_is_no_other_process(
    number: int, refusing: Callable[[int], None], tmp_path: Path
) -> None:
    refusing(number)
    with pytest.raises(ConfigurationError, match=r"cannot lock .*/lock: .* file system at .* offers no locks"):
        DirectoryLock(tmp_path, "the state")
    with pytest.raises(ConfigurationError, match="offers no locks"), locked(tmp_path, "x"):
        pass


@pytest.mark.parametrize("number", [errno.EIO, errno.EBADF, errno.EINTR])
def test_other_failures_blame_nobody_either(number: int, refusing: Callable[[int], None], tmp_path: Path) -> None:
    refusing(number)
    with pytest.raises(ConfigurationError, match="cannot lock") as caught:
        DirectoryLock(tmp_path, "the state")
    assert "another process" not in str(caught.value)


def test_every_lock_of_the_package_goes_through_the_catalogue() -> None:
    found = subprocess.run(
        ["git", "grep", "-n", r"fcntl\.flock\|fcntl\.lockf", "--", "*.py", ":!tests", ":!runtime/edges"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    ).stdout  # fmt: skip
    assert not found


def test_whoever_has_the_lock_is_named(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib\nfrom ragseal.runtime.durable import DirectoryLock\n"
        f"lock = DirectoryLock(pathlib.Path({str(tmp_path)!r}), 'the state')\nprint('has it', flush=True)\n"
        "sys.stdin.read()\n"
    )
    holding = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holding.stdout is not None
        assert holding.stdout.readline() == "has it\n"
        said = rf"the state in {tmp_path} is in use by another process( \(process {holding.pid}\))?: stop that one"
        with pytest.raises(LedgerError, match=said) as caught:
            DirectoryLock(tmp_path, "the state")
        if Path("/proc/locks").read_text():
            assert f"(process {holding.pid})" in str(caught.value)
    finally:
        assert holding.stdin is not None
        holding.stdin.close()
        holding.wait(20)
    DirectoryLock(tmp_path, "the state").release()


def test_nobody_is_named_who_has_another_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The list as Linux writes it: a lock of another file, of another kind, one that waits, a process out of sight."""
    (tmp_path / "f").touch()
    monkeypatch.setattr(locks, "LOCKS", tmp_path / "locks")
    with (tmp_path / "f").open() as file:
        seen = os.fstat(file.fileno())
        place = f"{os.major(seen.st_dev):02x}:{os.minor(seen.st_dev):02x}:{seen.st_ino}"
        others = (
            f"1: FLOCK  ADVISORY  WRITE 111 {place}7 0 EOF\n2: POSIX  ADVISORY  WRITE 222 {place} 0 EOF\n"
            f"3: -> FLOCK  ADVISORY  WRITE 333 {place} 0 EOF\n4: FLOCK  ADVISORY  WRITE 0 {place} 0 EOF\n"
        )
        for lines, named in ((others, ""), (f"{others}5: FLOCK  ADVISORY  WRITE 555 {place} 0 EOF\n", "555")):
            (tmp_path / "locks").write_text(lines)
            assert holder(file.fileno()) == (f" (process {named})" if named else "")


def test_a_lock_is_one_s_own(tmp_path: Path) -> None:
    with (tmp_path / "f").open("w") as one, (tmp_path / "f").open("w") as other:
        assert try_lock(one.fileno(), tmp_path / "f")
        assert not try_lock(other.fileno(), tmp_path / "f")
        fcntl.flock(one, fcntl.LOCK_UN)
        wait_lock(other.fileno(), tmp_path / "f")
        assert not try_lock(one.fileno(), tmp_path / "f")

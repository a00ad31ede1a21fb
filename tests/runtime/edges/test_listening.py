# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses that cannot be listened on: by gRPC and the HTTP servers, with the cause that was seen."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ragseal.kernel.errors import ConfigurationError, LedgerError
from ragseal.runtime import rpc
from ragseal.runtime.durable import DirectoryLock
from ragseal.runtime.edges import listening, locks
from ragseal.runtime.edges.address import Address
from ragseal.runtime.edges.listening import listen
from ragseal.runtime.edges.locks import holder, try_lock, wait_lock
from ragseal.runtime.http_server import HttpServer, Request, Response
from ragseal.runtime.tls import ServerTls
from ragseal.verifier.base.files import locked

ELSEWHERE = "192.0.2.7:7800"  #: an address that no interface has (RFC 5737)


async def refusals(address: str) -> list[str]:
    """What gRPC's and the HTTP server's listener say."""

    async def handler(request: Request) -> Response:
        return Response(200)

    said = []
    with pytest.raises(ConfigurationError, match="cannot listen on") as caught:
        rpc.bind(rpc.new_server(), address, plain=True)
    said.append(str(caught.value))
    with pytest.raises(ConfigurationError, match="cannot listen on") as caught:
        await HttpServer(handler).start(address, ServerTls(plain=True))
    said.append(str(caught.value))
    return said


@contextlib.contextmanager
def taken(answers: bool) -> Iterator[int]:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        if answers:
            held.listen()
        yield held.getsockname()[1]


@pytest.mark.asyncio
async def test_a_taken_port_says_whether_somebody_is_there() -> None:
    with taken(answers=True) as port:
        for said in await refusals(f"127.0.0.1:{port}"):
            assert "the port is taken: a program takes connections there: end that one" in said
    with taken(answers=False) as port:
        for said in await refusals(f"127.0.0.1:{port}"):
            assert "the port is taken, though nobody takes connections there" in said


@pytest.mark.asyncio
async def test_an_address_that_is_not_this_machine_s() -> None:
    for said in await refusals(ELSEWHERE):
        assert "no network interface of this machine has the address 192.0.2.7" in said
        assert "taken" not in said


@pytest.mark.asyncio
async def test_a_name_that_nobody_knows() -> None:
    for said in await refusals("no-such-host.invalid:7800"):
        assert "name service" in said or "looking up" in said
        assert "taken" not in said


def test_a_socket_s_file_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "s").touch()
    with pytest.raises(ConfigurationError, match=f"the file {tmp_path / 's'} is there already"):
        listen(Address.parse(f"unix:{tmp_path / 's'}", listening=True))
    with pytest.raises(ConfigurationError, match="of its path only"):
        listen(Address.parse(f"unix:{tmp_path / 'a' / 's'}", listening=True))


@pytest.mark.parametrize(
    ("number", "address", "words"),
    [
        (errno.EACCES, "127.0.0.1:80", "ports below 500 are the administrator's on this machine: choose a higher port"),
        (errno.EACCES, "127.0.0.1:7800", "this machine's rules forbid it"),
        (errno.EPERM, "127.0.0.1:7800", "this machine's rules forbid it"),
        (errno.EAFNOSUPPORT, "[::1]:7800", "does not speak that kind of address"),
        (errno.EMFILE, "127.0.0.1:7800", "this program may open"),
        (errno.ENFILE, "127.0.0.1:7800", "the whole system holds"),
        (errno.ENOBUFS, "127.0.0.1:7800", "No buffer space available"),
    ],
)
def test_errors_that_the_kernel_does_not_give_here(
    number: int, address: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "first").write_text("500\n")
    monkeypatch.setattr(listening, "LOW_PORTS", tmp_path / "first")

    def refused(*_: object, **__: object) -> socket.socket:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(socket, "create_server", refused)
    with pytest.raises(ConfigurationError, match=f"cannot listen on .*{words}") as caught:
        listen(Address.parse(address, listening=True))
    assert "taken" not in str(caught.value)


def test_a_listener_that_the_library_refuses_for_another_reason() -> None:
    """Where the address can be had, it is not blamed."""

    class Refusing:
        def add_insecure_port(self, address: str) -> int:
            return 0

        def add_secure_port(self, address: str, credentials: object) -> int:
            raise RuntimeError("no")

    with pytest.raises(ConfigurationError, match="it was refused, and is free now: try again"):
        rpc.bind(Refusing(), "127.0.0.1:0")
    with pytest.raises(ConfigurationError, match="address and port are free, so it is the TLS files"):
        rpc.bind(Refusing(), "127.0.0.1:0", object())  # type: ignore[arg-type]


# Locks: somebody else is blamed only where the system says that somebody else has it.


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

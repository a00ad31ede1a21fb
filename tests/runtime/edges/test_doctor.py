# SPDX-License-Identifier: GPL-3.0-or-later
"""``doctor`` of each program: what is wrong is found by trying it, and what was not tried is said."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from ragseal.client.__main__ import main as client
from ragseal.ledger.__main__ import main as observer
from ragseal.prover.__main__ import main as provider
from ragseal.runtime import durable, rpc
from ragseal.runtime.edges import doctor, folder
from ragseal.runtime.edges.cause import Cause, Finding, State
from ragseal.runtime.edges.clock import clock
from ragseal.runtime.edges.disk import disk, full
from ragseal.runtime.edges.mounts import Room, room
from ragseal.runtime.tls import ServerTls, server_credentials
from ragseal.verifier.__main__ import main as verifier
from tests.runtime.certificates import Authority
from tests.runtime.edges.test_filesystem import mounted

ROOT = Path(__file__).parents[3]
PROGRAMS = {"provider": provider, "verifier": verifier, "observer": observer, "client": client}
PEER = {"provider": "--verifier", "verifier": "--provider", "observer": "--provider", "client": "--provider"}


def looked(program: str, *options: object, status: int = 0) -> dict[str, Mapping[str, str]]:
    """The findings of a program's doctor, by what was looked at."""
    done = CliRunner().invoke(PROGRAMS[program], ["doctor", *map(str, options), "--json"])
    assert done.exit_code == status, done.output
    found = json.loads(done.stdout)
    assert found["wrong"] == sum(one["state"] == "wrong" for one in found["findings"])
    assert (found["wrong"] > 0) == (status == 1)
    for one in found["findings"]:
        assert one["found"], one
        assert one["state"] in ("ok", "wrong", "not checked")
    return {one["probe"]: one for one in found["findings"]}


@pytest.fixture
def state(tmp_path: Path) -> Path:
    made = tmp_path / "state"
    made.mkdir(mode=0o700)
    return made


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_program_has_the_same_probes(program: str, state: Path) -> None:
    found = looked(program, "--state", state)
    assert list(found) == [
        "folder", "files", "locks", "database", "disk", "clock", "descriptors", "proxy", "own certificate", "listen",
        "client certificate", "peer",
    ]  # fmt: skip
    for probe in ("folder", "files", "locks", "database", "disk", "descriptors", "proxy"):
        assert found[probe]["state"] == "ok", found[probe]
    assert found["peer"] == {
        "probe": "peer", "state": "not checked", "found": "no address was given",
        "way_out": f"give {PEER[program]} HOST:PORT",
    }  # fmt: skip
    assert os.listdir(state) == []  # what it tried with is gone


def test_for_a_person_each_finding_is_a_line_with_a_way_out(state: Path) -> None:
    done = CliRunner().invoke(client, ["doctor", "--state", str(state), "--provider", "127.0.0.1:1"])
    assert done.exit_code == 1
    lines = done.stdout.splitlines()
    at = lines.index("WRONG        peer 127.0.0.1:1: nothing listens on port 1 of 127.0.0.1 (Connection refused)")
    assert lines[at + 1].strip() == "start the program there, or give the address that it printed"
    assert lines[-1].startswith("1 wrong, ")


# --- the state folder


def test_a_folder_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    found = looked("provider", "--state", tmp_path / "a" / "b")
    assert {found[probe]["state"] for probe in folder.NAMES} == {"not checked"}
    assert found["disk"]["state"] == "ok"  # of the nearest one that is there
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("program", PROGRAMS)
def test_what_is_no_folder_is_a_finding(program: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    found = looked(program, "--state", tmp_path / "file", status=1)
    assert found["folder"]["found"] == f"{tmp_path / 'file'} is no folder"
    (tmp_path / "link").symlink_to("gone")
    found = looked(program, "--state", tmp_path / "link", status=1)
    assert "is a link to gone, which is not there" in found["folder"]["found"]
    (tmp_path / "loop").symlink_to("loop")
    found = looked(program, "--state", tmp_path / "loop", status=1)
    assert "cannot be looked at: Too many levels of symbolic links" in found["folder"]["found"]
    found = looked(program, "--state", tmp_path / ("x" * 300), status=1)
    assert "cannot be looked at: File name too long" in found["folder"]["found"]


def test_a_folder_that_another_user_keeps_for_themselves(tmp_path: Path) -> None:
    """Nobody who may not look can tell that it is not there."""
    inner, link = tmp_path / "theirs" / "state", tmp_path / "link"
    inner.mkdir(parents=True)
    link.symlink_to(inner)
    me = os.geteuid()
    (tmp_path / "theirs").chmod(0)
    if me == 0:
        os.seteuid(65534)
    try:
        for path in (inner, inner / "deeper", link):
            (found, *rest) = folder.folder(path)
            assert found.state is State.WRONG
            assert f"{path} cannot be looked at: Permission denied (" in found.said
            assert " with mode 0" in found.said
            assert {one.state for one in rest} == {State.UNCHECKED}
    finally:
        os.seteuid(me)
        (tmp_path / "theirs").chmod(0o700)


def test_a_folder_that_others_may_read(state: Path) -> None:
    state.chmod(0o755)
    found = looked("provider", "--state", state, status=1)
    assert "others may look into it" in found["folder"]["found"]
    assert found["folder"]["way_out"] == f"chmod 700 {state}"


def test_a_file_system_without_locks(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", flock)
    found = looked("provider", "--state", state, status=1)
    assert "offers no locks" in found["locks"]["found"]
    assert found["files"]["state"] == found["database"]["state"] == "ok"
    assert os.listdir(state) == []


def test_a_file_system_whose_locks_hold_nobody_off(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fcntl, "flock", lambda descriptor, operation: None)
    assert "exclude nobody" in looked("provider", "--state", state, status=1)["locks"]["found"]


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EOPNOTSUPP])
def test_a_file_system_that_cannot_sync_or_link(number: int, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(durable.os, "link", refused)
    found = looked("provider", "--state", state, status=1)
    assert found["files"]["state"] == "wrong"
    assert os.strerror(number) in found["files"]["found"]


def test_a_running_program_is_named_by_its_lock(state: Path) -> None:
    held = durable.DirectoryLock(state, "the state")
    found = looked("provider", "--state", state)
    assert "in use by a running program" in found["folder"]["found"]
    held.release()
    assert "in use" not in looked("provider", "--state", state)["folder"]["found"]


# --- disk, clock, process


def test_a_disk_without_room(tmp_path: Path) -> None:
    code = (
        "from ragseal.runtime.edges.disk import disk\n"
        "Path('m/f').write_bytes(bytes(100_000_000))\nprint(disk(Path('m')))\n"
    )
    said = mounted(tmp_path, "size=120m", code)
    assert "State.WRONG" in said
    assert "make room there: at least 64.0 MiB must be free" in said
    assert disk(tmp_path).state is State.OK


def test_what_counts_as_full() -> None:
    where = Path("/x")
    assert full(Room(where, 64 << 20, 1 << 40, 100, 10**6)) is None
    assert full(Room(where, 1 << 40, 1 << 40, None, 0)) is None  # a file system that counts no files
    few = full(Room(where, 1 << 40, 1 << 40, 99, 10**6))
    little = full(Room(where, (64 << 20) - 1, 1 << 40, 10**6, 10**6))
    assert few is not None
    assert little is not None
    assert "99 of 1,000,000 files are free at /x" in few.said
    assert room(ROOT).total > 0


def test_a_clock_that_cannot_be_right(state: Path) -> None:
    assert clock(state).state is not State.WRONG
    long_ago = clock(state, 0.0)
    assert long_ago.state is State.WRONG
    assert "it says 1970-01-01 00:00:00 UTC, and this program was installed at 20" in long_ago.said
    (state / "f").touch()
    os.utime(state / "f", (0, time.time() + 3600))
    ahead = clock(state)
    assert ahead.state is State.WRONG
    assert f"a file in {state} is of 20" in ahead.said


def test_few_descriptors(state: Path) -> None:
    code = (
        "import resource, sys\nresource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))\n"
        "from ragseal.client.__main__ import main\n"
        f"main(['doctor', '--state', {str(state)!r}, '--json'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    found = {one["probe"]: one for one in json.loads(done.stdout)["findings"]}
    assert found["descriptors"]["state"] == "wrong"
    assert "may open 200 files" in found["descriptors"]["found"]


def test_proxies_are_listed_without_passwords(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://alice:secret@proxy.example:3128")
    found = looked("client", "--state", state)["proxy"]
    assert "http://***@proxy.example:3128 of the environment (HTTPS_PROXY)" in found["found"]
    assert "secret" not in str(found)


# --- addresses, TLS files, peers


def test_addresses_to_listen_on(state: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        at = f"127.0.0.1:{taken.getsockname()[1]}"
        listens = ("--listen", at, "--listen", "192.0.2.7:1", "--listen", "::1:1", "--listen", "127.0.0.1:0")
        found = looked("provider", "--state", state, *listens, status=1)
        assert "the port is taken: a program takes connections there" in found[f"listen {at}"]["found"]
        assert "and no TLS files were given" in found["listen 192.0.2.7:1"]["found"]
        assert "in brackets" in found["listen ::1:1"]["found"]
        assert found["listen 127.0.0.1:0"]["state"] == "ok"
        held = durable.DirectoryLock(state, "the state")  # it is running, and may be who listens
        assert looked("provider", "--state", state, "--listen", at)[f"listen {at}"]["state"] == "not checked"
        held.release()
    found = looked("provider", "--state", state, "--listen-plain", "--listen", "192.0.2.7:1", status=1)
    assert "no network interface" in found["listen 192.0.2.7:1"]["found"]


def test_tls_files(state: Path, tmp_path: Path) -> None:
    ours = Authority(tmp_path, "ours")
    good, soon = ours.certificate("good", expires=90 * 86_400), ours.certificate("soon", expires=5 * 86_400 + 60)
    found = looked("verifier", "--state", state, "--tls-cert", good[0], "--tls-key", good[1])
    assert found["own certificate"]["state"] == "ok"
    assert "for 127.0.0.1" in found["own certificate"]["found"]
    found = looked("verifier", "--state", state, "--tls-cert", soon[0], "--tls-key", soon[1], status=1)
    assert "5 days are left" in found["own certificate"]["found"]
    found = looked("verifier", "--state", state, "--tls-cert", good[0], "--tls-key", soon[1], status=1)
    assert "is not the key of the certificate" in found["own certificate"]["found"]
    found = looked("verifier", "--state", state, "--ca", soon[1], status=1)
    assert "holds no certificate" in found["client certificate"]["found"]


@pytest.mark.asyncio
async def test_peers_of_each_kind(state: Path, tmp_path: Path) -> None:
    ours = Authority(tmp_path, "ours")
    secure, plain = rpc.new_server(), rpc.new_server()
    port = rpc.bind(secure, "127.0.0.1:0", server_credentials(*ours.certificate("server", "127.0.0.1", "localhost")))
    other = rpc.bind(plain, "127.0.0.1:0")
    await secure.start()
    await plain.start()
    try:
        peers = (f"127.0.0.1:{port}", f"localhost:{port}", f"127.0.0.1:{other}", "http://127.0.0.1:1")
        tls = doctor.ClientTls(ours.path)
        found = await doctor.examine(doctor.Checkup(state, peers=peers, tls=tls))
        by = {one.probe: one for one in found}
        assert by[f"peer 127.0.0.1:{port}"].said == "TLSv1.3, with a certificate that is trusted here"
        assert by[f"peer localhost:{port}"].state is State.OK
        assert "answers in the clear, and was called with TLS" in by[f"peer 127.0.0.1:{other}"].said
        assert "leave out http://" in by["peer http://127.0.0.1:1"].said
        found = await doctor.examine(doctor.Checkup(state, peers=peers[:3]))
        by = {one.probe: one for one in found}
        assert by[f"peer 127.0.0.1:{other}"].said == "answers in the clear"
        assert "it speaks TLS, and was called in the clear" in by[f"peer 127.0.0.1:{port}"].said
    finally:
        await secure.stop(0)
        await plain.stop(0)


@pytest.mark.asyncio
async def test_a_peer_behind_a_proxy_is_not_called_well(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stub:
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{stub.getsockname()[1]}")
        for name in ("grpc_proxy", "no_proxy", "no_grpc_proxy"):
            monkeypatch.delenv(name, raising=False)
        found = await doctor.examine(doctor.Checkup(state, peers=("rag.example:7800",)))
    peer = next(one for one in found if one.probe == "peer rag.example:7800")
    assert peer.state is State.UNCHECKED
    assert "what lies behind it was not looked at" in peer.said


def test_findings_and_causes_as_text() -> None:
    assert str(Cause("a")) == "a"
    assert str(Cause("a", "b")) == "a: b"
    assert Finding.unchecked("x", "y", "z").values() == {
        "probe": "x", "state": "not checked", "found": "y", "way_out": "z",
    }  # fmt: skip
    assert doctor.Checkup(Path("x")).own == ServerTls()


def test_an_authority_that_is_over_beside_one_that_is_not(state: Path, tmp_path: Path) -> None:
    """Bundles keep old ones for years."""
    ours = Authority(tmp_path, "ours")
    long, _ = ours.certificate("long", expires=40 * 86400)
    over, _ = ours.certificate("over", expires=-60)
    bundle = tmp_path / "bundle.pem"
    bundle.write_bytes(over.read_bytes() + long.read_bytes())
    assert looked("client", "--state", state, "--ca", bundle)["authority"]["state"] == "ok"
    bundle.write_bytes(over.read_bytes() + over.read_bytes())
    assert looked("client", "--state", state, "--ca", bundle, status=1)["client certificate"]["state"] == "wrong"

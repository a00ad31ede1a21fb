# SPDX-License-Identifier: GPL-3.0-or-later
"""A write that fails says truly what is in place: before its file has the name nothing, behind it what is there."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from ragseal.client import folder
from ragseal.kernel.errors import ConfigurationError, LedgerError
from ragseal.ledger.__main__ import main as observer
from ragseal.prover.administration import backup, sealed_copy
from ragseal.runtime import durable
from ragseal.runtime.durable import (
    DirectoryLock,
    DurableFile,
    UnsyncedError,
    append_durably,
    place_durably,
    write_durably,
)
from ragseal.runtime.keyfile import load_key, load_shared, save_key, save_shared
from ragseal.verifier.base import files

WHY = os.strerror(errno.EIO)


def fails(*_: Any, **__: Any) -> Any:
    raise OSError(errno.EIO, WHY)


@pytest.fixture
def unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk takes names, and does not say that they are durable."""
    monkeypatch.setattr(durable, "sync_directory", fails)


def names(at: Path) -> list[str]:
    return sorted(path.name for path in at.iterdir())


@pytest.mark.usefixtures("unsynced")
def test_a_new_file_whose_name_is_not_durable_is_taken_away_again(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=WHY) as error:
        write_durably(tmp_path / "new", b"x", replace=False)
    assert not isinstance(error.value, UnsyncedError)
    with pytest.raises(ConfigurationError, match="cannot write the key"):
        save_key(tmp_path / "key.pem", Ed25519PrivateKey.generate())
    assert names(tmp_path) == []


@pytest.mark.usefixtures("unsynced")
@pytest.mark.parametrize("write", [folder.write, files.write])
def test_a_replaced_file_whose_name_is_not_durable_is_said_to_be_there(
    tmp_path: Path, write: Callable[[Path, bytes], None]
) -> None:
    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(ConfigurationError, match="in place, but a power cut may bring the old one back"):
        write(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"new"


@pytest.mark.parametrize("write", [folder.write, files.write])
def test_a_file_that_is_not_replaced_is_said_to_be_as_it_was(
    tmp_path: Path, write: Callable[[Path, bytes], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"old")
    monkeypatch.setattr(os, "replace", fails)
    with pytest.raises(ConfigurationError, match=r"(nothing was changed|the old content stays)$"):
        write(tmp_path / "file", b"new")
    assert (names(tmp_path), (tmp_path / "file").read_bytes()) == (["file"], b"old")


@pytest.mark.usefixtures("unsynced")
def test_a_folder_whose_name_is_not_durable_goes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "made").mkdir()
    with pytest.raises(OSError, match=WHY):
        place_durably(tmp_path / "made", tmp_path / "target")
    assert names(tmp_path) == ["made"]
    real = os.rename
    monkeypatch.setattr(os, "rename", lambda a, b: real(a, b) if Path(b).name == "target" else fails())
    with pytest.raises(UnsyncedError, match="the new content is in place"):
        place_durably(tmp_path / "made", tmp_path / "target")
    assert names(tmp_path) == ["target"]


@pytest.mark.usefixtures("unsynced")
def test_a_copy_that_is_said_to_have_failed_is_not_there(tmp_path: Path) -> None:
    """Else an erasure would not know of a copy that holds the document."""
    with pytest.raises(ConfigurationError, match="cannot make"), backup.built(tmp_path / "copy") as made:
        (made / "file").write_bytes(b"x")
    assert names(tmp_path) == []


# --- files that grow, and files that are replaced again and again -----------------------------------------------------


def test_an_append_goes_behind_what_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a crash left behind it is cut off; a write that takes a part of it goes on."""
    path = tmp_path / "file"
    path.write_bytes(b"good, and torn")
    real = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, bytes(data)[:2]))
    assert append_durably(path, b" and new", 4) == 12
    assert path.read_bytes() == b"good and new"
    assert append_durably(path, b"!", 99) == 13  # less is there than was said
    assert append_durably(tmp_path / "other", b"first", 0) == 5


@pytest.mark.parametrize("step", ["write", "fsync"])
def test_an_append_that_fails_leaves_what_counts(tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"good, and torn")
    real = os.write

    def torn(descriptor: int, data: bytes) -> int:
        return real(descriptor, data[:1]) if os.fstat(descriptor).st_size == 4 else fails()

    monkeypatch.setattr(os, step, torn if step == "write" else fails)
    with pytest.raises(OSError, match=WHY):
        append_durably(path, b" and new", 4)
    assert path.read_bytes() == b"good"


@pytest.mark.parametrize("step", ["ftruncate", "pwrite", "fsync", "link", "replace"])
def test_a_file_that_nobody_knows_the_content_of_is_not_written_again(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    file = DurableFile(path)
    file.write(b"newer")
    with monkeypatch.context() as patched:
        patched.setattr(os, step, fails)
        with pytest.raises(OSError, match=WHY):
            file.write(b"newest")
    for _ in range(2):
        with pytest.raises(OSError, match="an earlier write failed"):
            file.write(b"newest")
    assert path.read_bytes() == b"newer"
    file.close()
    file.close()
    assert names(tmp_path) == ["file"]


# --- backup --keys turns the file of keys -----------------------------------------------------------------------------


@pytest.mark.parametrize("second_names", [True, False])
@pytest.mark.parametrize("step", ["link", "write"])
def test_a_turn_of_the_keys_file_that_fails_leaves_the_older_keys(
    tmp_path: Path, step: str, second_names: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are what opens every copy that there is."""
    path, older, newer = tmp_path / "keys", {b"w1": b"1" * 32}, {b"w2": b"2" * 32}
    sealed_copy.save_keys(path, "example.org/rag", older)
    with monkeypatch.context() as patched:
        if not second_names:
            patched.setattr(os, "link", lambda *_: (_ for _ in ()).throw(OSError(errno.EPERM, "not permitted")))
        if step == "write":
            patched.setattr(sealed_copy, "write_durably", fails)
        else:
            patched.setattr(os, "link" if second_names else "replace", fails)
        with pytest.raises(ConfigurationError, match=f"cannot write the keys file .*: {WHY}"):
            sealed_copy.save_keys(path, "example.org/rag", newer)
    assert sealed_copy.load_keys(path, "example.org/rag") == older
    sealed_copy.save_keys(path, "example.org/rag", newer)
    assert sealed_copy.load_keys(path, "example.org/rag") == newer
    assert names(tmp_path) == ["keys"]


@pytest.mark.parametrize("killed", ["link", "write"])
def test_a_turn_of_the_keys_file_that_is_killed_leaves_keys_that_open(
    tmp_path: Path, killed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the next turn overwrites the older keys, never those that are in use."""
    path, older, newer = tmp_path / "keys", {b"w1": b"1" * 32}, {b"w2": b"2" * 32}
    sealed_copy.save_keys(path, "example.org/rag", older)

    class Killed(BaseException):
        pass

    def kill(*_: Any, **__: Any) -> Any:
        raise Killed

    real, shredded = sealed_copy.shred, list[Path]()

    def first_only(at: Path) -> None:
        shredded.append(at)
        if len(shredded) > 1:
            kill()
        real(at)

    with monkeypatch.context() as patched:
        step, how = ("write_durably", kill) if killed == "link" else ("shred", first_only)
        patched.setattr(sealed_copy, step, how)
        with pytest.raises(Killed):
            sealed_copy.save_keys(path, "example.org/rag", newer)
    there = older if killed == "link" else newer
    assert sealed_copy.load_keys(path, "example.org/rag") == there
    assert names(tmp_path) == ["keys", "keys.older"]
    third = {b"w3": b"3" * 32}
    with monkeypatch.context() as patched:
        patched.setattr(sealed_copy, "write_durably", fails)
        with pytest.raises(ConfigurationError):
            sealed_copy.save_keys(path, "example.org/rag", third)
        assert sealed_copy.load_keys(path, "example.org/rag") == there
    sealed_copy.save_keys(path, "example.org/rag", third)
    assert (names(tmp_path), sealed_copy.load_keys(path, "example.org/rag")) == (["keys"], third)


# --- keys that are made once ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["name", "key.pem"])
def test_an_observer_s_key_is_made_whole_or_again(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ["keygen", "--name", "observer.example", "--state", str(tmp_path / "o"), "--json"]
    real = os.link, os.replace
    with monkeypatch.context() as patched:
        for at, step in zip(("link", "replace"), real, strict=True):
            patched.setattr(os, at, lambda a, b, step=step: fails() if Path(b).name == name else step(a, b))
        failed = CliRunner().invoke(observer, command)
        assert (failed.exit_code, WHY in failed.output) == (1, True)
    made = CliRunner().invoke(observer, command)
    assert made.exit_code == 0, made.output
    assert names(tmp_path / "o") == ["key.pem", "name"]
    again = CliRunner().invoke(observer, ["keygen", "--name", "other.example", "--state", str(tmp_path / "o")])
    assert (again.exit_code, "a key is never overwritten" in again.output) == (1, True)
    assert (tmp_path / "o" / "name").read_text() == "observer.example\n"


# Key files: made closed, refused when open, never overwritten.


KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))


def test_round_trip_is_private_whatever_the_umask(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        save_key(tmp_path / "key", KEY)
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    assert load_key(tmp_path / "key").private_bytes_raw() == bytes(range(32))
    assert [path.name for path in tmp_path.iterdir()] == ["key"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601, 0o644])
def test_open_files_are_refused(tmp_path: Path, mode: int) -> None:
    save_key(tmp_path / "key", KEY)
    (tmp_path / "key").chmod(mode)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        load_key(tmp_path / "key")


def test_a_key_is_never_overwritten(tmp_path: Path) -> None:
    save_key(tmp_path / "key", KEY)
    with pytest.raises(ConfigurationError, match="never overwritten"):
        save_key(tmp_path / "key", Ed25519PrivateKey.from_private_bytes(bytes(32)))
    assert load_key(tmp_path / "key").private_bytes_raw() == bytes(range(32))
    assert len(list(tmp_path.iterdir())) == 1


def test_raw_keys_and_wrong_files(tmp_path: Path) -> None:
    write_durably(tmp_path / "raw", bytes(range(32)), mode=0o600)
    assert load_key(tmp_path / "raw").private_bytes_raw() == bytes(range(32))
    pem = generate_private_key(SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    for name, data in (("ec", pem), ("junk", b"junk"), ("empty", b""), ("long", bytes(33))):
        write_durably(tmp_path / name, data, mode=0o600)
        with pytest.raises(ConfigurationError):
            load_key(tmp_path / name)
    for path in (tmp_path / "missing", tmp_path, Path("/dev/null")):
        with pytest.raises(ConfigurationError):
            load_key(path)
    with pytest.raises(ConfigurationError):
        save_key(tmp_path / "missing" / "key", KEY)


def test_directory_lock_is_exclusive(tmp_path: Path) -> None:
    lock = DirectoryLock(tmp_path, "the ledger")
    with pytest.raises(LedgerError, match="in use by another process"):
        DirectoryLock(tmp_path, "the ledger")
    lock.release()
    lock.release()
    DirectoryLock(tmp_path, "the ledger").release()


def test_a_shared_key_is_private_and_has_one_form(tmp_path: Path) -> None:
    file = tmp_path / "worker.key"
    save_shared(file, bytes(range(32)))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert load_shared(file) == bytes(range(32))
    with pytest.raises(ConfigurationError, match="never overwritten"):
        save_shared(file, bytes(32))
    file.chmod(0o640)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        load_shared(file)
    for text in ("", "00" * 31, "00" * 33, "AA" * 32, "zz" * 32, "00 " * 32):
        other = tmp_path / "other"
        other.write_text(text)
        other.chmod(0o600)
        with pytest.raises(ConfigurationError, match=r"64 hexadecimal digits|is empty"):
            load_shared(other)
    with pytest.raises(ConfigurationError, match="cannot read the key"):
        load_shared(tmp_path / "none")
    with pytest.raises(ConfigurationError, match="cannot write the key"):
        save_shared(tmp_path / "no" / "key", bytes(32))

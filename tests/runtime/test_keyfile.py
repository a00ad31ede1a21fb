# SPDX-License-Identifier: GPL-3.0-or-later
"""Key files: made closed, refused when open, never overwritten."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from ragseal.kernel.errors import ConfigurationError, LedgerError
from ragseal.runtime.durable import DirectoryLock, write_durably
from ragseal.runtime.keyfile import load_key, load_shared, save_key, save_shared

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

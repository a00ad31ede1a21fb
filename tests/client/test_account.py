# SPDX-License-Identifier: GPL-3.0-or-later
"""An account's folder: permissions, pins, and damage that is named instead of guessed around."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.client.account import KEY_FILE, AccountKey, AccountState, read_name
from ragseal.kernel.errors import CommitmentError, ConfigurationError, LedgerError, TransportError
from ragseal.ledger.note import NoteSigner
from ragseal.runtime.durable import DirectoryLock


def test_a_key_is_private_and_never_overwritten(tmp_path: Path) -> None:
    folder = tmp_path / "alice"
    key = AccountState.create(folder, "alice")
    assert os.stat(folder).st_mode & 0o777 == 0o700
    assert os.stat(folder / KEY_FILE).st_mode & 0o777 == 0o600
    assert AccountKey.load(folder / KEY_FILE).public == key.public
    assert isinstance(key.private, Ed25519PrivateKey)
    assert key.private.private_bytes_raw().hex() not in repr(key)
    with pytest.raises(ConfigurationError, match="never overwritten"):
        AccountState.create(folder, "alice")
    assert AccountKey.load(folder / KEY_FILE).public == key.public


@pytest.mark.parametrize("killed_before", [0, 1])
def test_keygen_finishes_what_a_crash_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed_before: int) -> None:
    """A key without a name was a folder that no command took, keygen neither."""
    from ragseal.runtime import durable

    writes = 0

    def die(path: Path, data: bytes, **more: Any) -> None:
        nonlocal writes
        writes += 1
        if writes > killed_before:
            raise KeyboardInterrupt
        write_durably(path, data, **more)

    write_durably = durable.write_durably
    with monkeypatch.context() as patch:
        for module in ("client.folder", "runtime.keyfile"):
            patch.setattr(f"ragseal.{module}.write_durably", die)
        with pytest.raises(KeyboardInterrupt):
            AccountState.create(tmp_path / "a", "alcie")
    key = AccountState.create(tmp_path / "a", "alice")
    with AccountState(tmp_path / "a") as state:
        assert (state.name, state.key.public) == ("alice", key.public)
    with pytest.raises(ConfigurationError, match="never overwritten"):
        AccountState.create(tmp_path / "a", "bob")


def test_a_key_without_a_name_gets_one_and_stays(tmp_path: Path) -> None:
    """As earlier versions could leave a folder."""
    key = AccountState.create(tmp_path / "a", "alice")
    (tmp_path / "a" / "account").unlink()
    assert AccountState.create(tmp_path / "a", "alice").public == key.public
    with AccountState(tmp_path / "a") as state:
        assert (state.name, state.key.public) == ("alice", key.public)


def test_two_keygens_at_once_make_one_account(tmp_path: Path) -> None:
    AccountState.create(tmp_path / "a", "alice")
    (tmp_path / "a" / KEY_FILE).unlink()
    lock = DirectoryLock(tmp_path / "a", "the account's state")
    with pytest.raises(LedgerError, match="another process"):
        AccountState.create(tmp_path / "a", "bob")
    lock.release()
    assert read_name(tmp_path / "a") == "alice"


@pytest.mark.parametrize("name", ["", "two words", "tab\t", "ümlaut", "x" * 200])
def test_names_that_no_registry_holds(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match="account name"):
        AccountState.create(tmp_path / "x", name)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_key_open_to_others_is_refused(tmp_path: Path, mode: int) -> None:
    AccountState.create(tmp_path / "a", "alice")
    os.chmod(tmp_path / "a" / KEY_FILE, mode)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        AccountState(tmp_path / "a")
    os.chmod(tmp_path / "a" / KEY_FILE, 0o600)
    AccountState(tmp_path / "a").close()  # the lock was given back


@pytest.mark.parametrize("mode", [0o750, 0o705, 0o777])
def test_a_folder_open_to_others_is_refused(tmp_path: Path, mode: int) -> None:
    AccountState.create(tmp_path / "a", "alice")
    os.chmod(tmp_path / "a", mode)
    with pytest.raises(ConfigurationError, match="chmod 700"):
        AccountState(tmp_path / "a")


def test_no_account(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="ragseal-client keygen"):
        AccountState(tmp_path)
    with pytest.raises(ConfigurationError, match="cannot make"):
        AccountState.create(Path("/proc/no/such"), "alice")


def test_pins_hold(bench: Any) -> None:
    state = bench.client().state
    state.pin_provider(b"p" * 32)
    state.pin_provider(b"p" * 32)
    (state.directory / "provider.pub").write_text("zz")
    with pytest.raises(ConfigurationError, match="damaged"):
        state.provider_key()
    (state.directory / "log.vkey").write_text("zz")
    with pytest.raises(ConfigurationError, match="damaged"):
        state.log_key()


def test_a_mistyped_key_is_put_right_until_something_was_checked(bench: Any) -> None:
    wrong = NoteSigner("mistyped.example", Ed25519PrivateKey.from_private_bytes(b"m" * 32)).verifier.vkey()
    key = bench.provider.manifest.provider_key
    for keys, said in (
        ({"provider_key": b"q" * 32}, "has pinned 7171"),
        ({"log_key": wrong, "provider_key": key}, "mist"),
    ):
        with pytest.raises(CommitmentError, match=said):
            bench.client(**keys).ask("json")
    bench.client(provider_key=key).ask("json")
    with pytest.raises(ConfigurationError, match="for another log use another folder"):
        bench.client(log_key=wrong)
    with pytest.raises(CommitmentError, match="has pinned the provider key"):
        bench.client(provider_key=b"q" * 32)
    bench.client().ask("csv")


@pytest.mark.parametrize(
    "damage",
    ["manifest", "account", "00000001.answer", "00000002.answer", "pending", "checkpoint"],
)
@pytest.mark.parametrize("how", ["cut", "random"])
def test_damaged_files_are_named_and_never_guessed_around(bench: Any, damage: str, how: str) -> None:
    client = bench.client()
    client.ask("json")
    client.ask("csv")

    def lost(call: str) -> None:
        if call == "retrieve":
            raise TransportError("lost")

    bench.provider.on_call = lost
    with pytest.raises(TransportError):
        client.ask("xml")
    bench.provider.on_call = lambda _: None
    folder = client.state.windows()[0].folder
    path = bench.state / damage if damage == "checkpoint" else folder / damage
    data = path.read_bytes()
    path.write_bytes(data[:-1] if how == "cut" else os.urandom(len(data)))
    calls = len(bench.provider.calls)
    if damage == "00000001.answer":  # is only history; `receipts` reads it
        from ragseal.client.receipts import kept

        with pytest.raises(ConfigurationError, match="damaged"):
            kept(bench.state)
        return
    with pytest.raises(ConfigurationError, match="damaged"):
        bench.client().ask("xml")
    assert "prepare" not in bench.provider.calls[calls:]  # nothing new was signed
    path.write_bytes(data)
    assert bench.client().ask("xml").record.signed.request.ctr == 3


def test_missing_answers_are_a_gap(bench: Any) -> None:
    client = bench.client()
    client.ask("json")
    client.ask("csv")
    (client.state.windows()[0].folder / "00000001.answer").unlink()
    with pytest.raises(ConfigurationError, match="answers are missing"):
        client.ask("xml")


def test_a_second_request_cannot_be_signed_while_one_is_pending(bench: Any) -> None:
    client = bench.client()
    client.ask("json")
    memory = client.state.windows()[0]
    exchange = memory.exchange(1)
    with pytest.raises(ConfigurationError, match="next request has ctr 2"):
        memory.begin(exchange)
    with pytest.raises(ConfigurationError, match="no request is pending"):
        memory.complete(memory.answer(1))


def test_a_full_disk_loses_nothing(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    client = bench.client()
    client.ask("json")
    before = bench.snapshot()

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("ragseal.client.folder.write_durably", full)
        with pytest.raises(ConfigurationError, match="No space left"):
            client.ask("csv")
    assert bench.snapshot() == before
    assert bench.provider.calls.count("retrieve") == 1  # what could not be kept was not sent
    assert client.ask("csv").record.signed.request.ctr == 2

# SPDX-License-Identifier: GPL-3.0-or-later
"""An account's folder: permissions, pins, and damage that is named instead of guessed around."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.client.account import KEY_FILE, AccountKey, AccountState, read_name
from ragseal.client.window import WINDOWS, Exchange, WindowState, windows_of
from ragseal.kernel.attestation import NO_RECEIPT, Answer
from ragseal.kernel.commitment import Account, SignedManifest
from ragseal.kernel.errors import CommitmentError, ConfigurationError, EncodingError, LedgerError, TransportError
from ragseal.kernel.versions import IndexUpdate
from ragseal.ledger.note import NoteSigner
from ragseal.runtime.durable import DirectoryLock
from tests.fuzz.samples import sample


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


# What an account keeps of a window is of one window and one request, or it is damaged: each way in which it is not.


RNG = random.Random(3)


def made(kind: Any) -> Any:
    return sample(kind, RNG)


def with_request(one: Exchange, **changes: Any) -> Exchange:
    return replace(one, signed=replace(one.signed, request=replace(one.signed.request, **changes)))


class Folder:
    """A window's folder with what an account keeps first, and messages of that window."""

    def __init__(self, parent: Path, signed: SignedManifest | None = None) -> None:
        self.signed = signed or made(SignedManifest)
        self.digest = self.signed.manifest.digest()
        self.path = parent / self.digest.hex()
        self.path.mkdir(parents=True)
        (self.path / "manifest").write_bytes(self.signed.encode())
        (self.path / "account").write_bytes(made(Account).encode())
        self.state = WindowState(self.path)

    def exchange(self, ctr: int, manifest: bytes | None = None) -> Exchange:
        one = made(Exchange)
        prepare = replace(one.prepare, manifest=self.digest if manifest is None else manifest)
        fields = {"manifest": prepare.manifest, "query_digest": prepare.query_digest(), "ctr": ctr}
        return with_request(replace(one, prepare=prepare), **fields)

    def answer(self, exchange: Exchange) -> Answer:
        one = made(Answer)
        manifest = exchange.signed.request.manifest
        return replace(one, record=replace(one.record, manifest=manifest, signed=exchange.signed))

    def asked(self, ctr: int) -> Exchange:
        """A query that is begun."""
        one = self.exchange(ctr)
        self.state.begin(one)
        return one


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def _other(data: bytes) -> bytes:
    return bytes([data[0] ^ 1]) + data[1:]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda one: replace(one, prepare=replace(one.prepare, request_id=_other(one.prepare.request_id))), "requests"),
        (lambda one: replace(one, prepared=replace(one.prepared, request_id=bytes(16))), "requests"),
        (lambda one: with_request(one, request_id=_other(one.prepare.request_id)), "requests"),
        (lambda one: with_request(one, query_digest=_other(one.prepare.query_digest())), "another query or window"),
        (lambda one: with_request(one, manifest=_other(one.prepare.manifest)), "another query or window"),
        (lambda one: replace(one, seal_secret=one.seal_secret[:9] + _other(one.seal_secret[9:])), "does not open"),
    ],
)
def test_the_messages_of_an_exchange_belong_together(change: Callable[[Exchange], Exchange], said: str) -> None:
    one = made(Exchange)
    one.validate()
    with pytest.raises(EncodingError, match=said):
        change(one).validate()


def test_a_folder_is_named_by_its_manifest(folder: Folder) -> None:
    folder.path.rename(folder.path.with_name("0" * 64))
    with pytest.raises(ConfigurationError, match="another window's manifest"):
        WindowState(folder.path.with_name("0" * 64))


def test_requests_follow_the_answers_that_are_kept(folder: Folder) -> None:
    state = folder.state
    assert (state.answered, state.acknowledgement(), state.pending(), state.owes) == (0, NO_RECEIPT, None, False)
    for ctr in (1, 2):
        for wrong in (ctr - 1, ctr + 1):
            with pytest.raises(ConfigurationError, match=f"the next request has ctr {ctr}"):
                state.begin(folder.exchange(wrong))
        one = folder.asked(ctr)
        assert state.owes
        assert state.pending() == one
        with pytest.raises(ConfigurationError, match="no second one may be signed"):
            state.begin(folder.exchange(ctr))
        with pytest.raises(ConfigurationError, match="no request is pending for this answer"):
            state.complete(folder.answer(folder.exchange(ctr)))
        answer = folder.answer(one)
        state.complete(answer)
        assert (state.answered, state.pending(), state.owes) == (ctr, None, False)
        assert (state.exchange(ctr), state.answer(ctr), state.last()) == (one, answer, answer)
        assert state.acknowledgement() == answer.receipt.digest()
    with pytest.raises(ConfigurationError, match="no request is pending for this answer"):
        state.complete(answer)


def test_a_pending_request_is_the_next_one_of_its_window(folder: Folder) -> None:
    folder.state.complete(folder.answer(folder.asked(1)))
    pending = folder.path / "pending"
    for wrong in (folder.exchange(3), folder.exchange(1), folder.exchange(0), folder.exchange(2, manifest=bytes(32))):
        pending.write_bytes(wrong.encode())
        with pytest.raises(ConfigurationError, match="does not follow the 1 answers kept"):
            folder.state.pending()
        assert pending.exists()
    pending.write_bytes(folder.exchange(2).encode())
    assert folder.state.pending() is not None


def test_a_crash_between_the_answer_and_its_request_is_put_right(folder: Folder) -> None:
    """Nothing is owed then, and the request is put away by whoever looks next."""
    one = folder.asked(1)
    (folder.path / "00000001.answer").write_bytes(folder.answer(one).encode())
    assert not folder.state.owes
    assert folder.state.pending() is None
    assert folder.state.exchange(1) == one
    assert not (folder.path / "pending").exists()


def test_a_folder_that_lost_an_answer_is_damaged_and_asks_for_nothing(folder: Folder) -> None:
    folder.state.complete(folder.answer(folder.asked(1)))
    folder.asked(2)
    assert folder.state.owes
    (folder.path / "00000001.answer").unlink()
    assert not folder.state.owes
    with pytest.raises(ConfigurationError, match="does not follow the 0 answers kept"):
        folder.state.pending()


def test_an_answer_is_of_its_number_and_window(folder: Folder) -> None:
    path = folder.path / "00000001.answer"
    for wrong in (folder.exchange(2), folder.exchange(1, manifest=bytes(32))):
        path.write_bytes(folder.answer(wrong).encode())
        with pytest.raises(ConfigurationError, match="another query's answer"):
            folder.state.answer(1)


@pytest.mark.parametrize("numbers", [[2], [1, 3], [0, 1], [2, 3]])
def test_answers_without_a_gap_begin_at_one(folder: Folder, numbers: list[int]) -> None:
    for ctr in numbers:
        (folder.path / f"{ctr:08d}.answer").write_bytes(folder.answer(folder.exchange(ctr)).encode())
    with pytest.raises(ConfigurationError, match="answers are missing"):
        _ = folder.state.answered


def test_what_is_given_up_is_owed_no_more_and_may_still_be_answered(folder: Folder) -> None:
    one = folder.asked(1)
    folder.state.give_up("the provider has no record of it")
    assert (folder.state.owes, folder.state.given_up) == (False, "the provider has no record of it")
    assert folder.state.pending() == one
    folder.state.complete(folder.answer(one))
    assert folder.state.given_up is None
    folder.asked(2)
    assert folder.state.owes, "the refusal was of the first"


def test_the_newest_version_is_the_last_that_was_signed_over(folder: Folder) -> None:
    first, second = made(IndexUpdate), made(IndexUpdate)
    assert (folder.state.newest_version(), folder.state.version(b"1" * 32)) == (None, None)
    for digest, update in ((b"1" * 32, first), (b"2" * 32, second), (b"2" * 32, second)):
        folder.state.remember_version(digest, update)
        assert folder.state.version(digest) == folder.state.newest_version() == update
    folder.state.remember_version(b"1" * 32, second)
    assert folder.state.version(b"1" * 32) == first, "a digest stands for one version"


def test_windows_are_listed_by_their_opening_time(tmp_path: Path) -> None:
    signed = made(SignedManifest)

    def at(opens: int) -> SignedManifest:
        policy = signed.manifest.policy
        later = replace(policy, opens=policy.opens + opens, closes=policy.closes + opens)
        return replace(signed, manifest=replace(signed.manifest, policy=later))

    folders = [Folder(tmp_path / WINDOWS, at(60 * hour)) for hour in range(8)]
    assert [one.digest for one in windows_of(tmp_path)] == [one.digest for one in folders]
    assert sorted(one.digest for one in folders) != [one.digest for one in folders]
    (tmp_path / WINDOWS / "left by a crash").mkdir()
    assert len(windows_of(tmp_path)) == 8
    assert windows_of(tmp_path / "nowhere") == []

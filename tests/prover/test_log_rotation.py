# SPDX-License-Identifier: GPL-3.0-or-later
"""`log rotate`: the key's files agree with the log after every crash, and old notes keep their bytes.  SPEC G.6.13."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel.errors import ConfigurationError, EncodingError, LedgerError
from ragseal.kernel.rotation import MAX_OVERLAP, Rotation
from ragseal.ledger import log_folder, log_keys, signing
from ragseal.ledger.checkpoint import open_checkpoint
from ragseal.ledger.log import Log
from ragseal.ledger.log_keys import FORMER_FILE, LOG_KEY_FILE, NEXT_FILE, TURNS_FILE
from ragseal.ledger.note import Note, NoteVerifier
from ragseal.ledger.turns import LogKey, follow
from ragseal.prover.__main__ import main
from ragseal.prover.administration.backup import make
from ragseal.prover.fsck import restore as copies
from ragseal.prover.fsck.restore import Known, restore
from ragseal.prover.storage.rollback import refuse_rollback
from ragseal.prover.storage.state import Settings, State, create
from ragseal.runtime.durable import DurableFile
from ragseal.runtime.keyfile import save_key
from tests.attacks.checks import without
from tests.attacks.removal import Check
from tests.classes import TINY

SETTINGS = Settings("example.org/rag", TINY.name, "trigrams")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A provider with a few entries in its log."""
    made = tmp_path / "provider"
    create(made, SETTINGS, *(Ed25519PrivateKey.generate() for _ in range(2)))
    with State(made) as state, opened(state) as ledger:
        append(ledger, 5)
    return made


@contextmanager
def opened(state: State) -> Iterator[Log]:
    with state.open_ledger() as ledger:
        refuse_rollback(state, ledger)
        ledger.watch(state.remember_checkpoint)
        yield ledger


def append(ledger: Log, count: int) -> None:
    for outcome in ledger.append_now([lambda index: b"entry %d" % index] * count):
        assert not isinstance(outcome, Exception)


def rotated(folder: Path, overlap: int = 0, more: int = 0) -> None:
    with State(folder) as state, opened(state) as ledger:
        state.rotate_log_key(ledger, overlap, Ed25519PrivateKey.generate())
        append(ledger, more)


def notes(ledger: Log) -> list[bytes]:
    return [ledger.checkpoint_at(size) for size in range(ledger.size + 1)]


def test_every_note_keeps_its_bytes_after_the_old_key_is_gone(folder: Path) -> None:
    with State(folder) as state, opened(state) as ledger:
        first, before = ledger.verifier, notes(ledger)
        state.rotate_log_key(ledger, 3, Ed25519PrivateKey.generate())
        append(ledger, 6)
        after = notes(ledger)
        assert after[: len(before)] == before
        assert [len(Note.parse(note).signatures) for note in after[5:]] == [1, 2, 2, 2, 2, 1, 1, 1]
        assert (folder / FORMER_FILE).exists()
    with State(folder) as state, opened(state) as ledger:
        assert not (folder / FORMER_FILE).exists(), "removed at the first start behind the overlap"
        assert notes(ledger) == after
        log = follow(first, [proof.encode() for proof in ledger.turns()])
        assert log == ledger.verifier
        for note in after:
            open_checkpoint(note, log)
    with State(folder) as state, opened(state) as ledger:
        assert notes(ledger) == after, "from the lines that are kept"
    signing.lines_file(folder / "ledger", 0).unlink()
    with State(folder) as state, opened(state) as ledger, pytest.raises(LedgerError, match="restore that file"):
        notes(ledger)


def test_the_log_is_called_by_its_first_key(folder: Path) -> None:
    with State(folder) as state:
        name = state.log_key.vkey()
    rotated(folder)
    rotated(folder)
    with State(folder) as state:
        assert state.log_key.vkey() == name
        assert isinstance(state.log_key, LogKey)
        assert state.log_key.newest == state.log_signer.verifier


def test_a_key_is_not_turned_in_the_last_turn_s_overlap(folder: Path) -> None:
    rotated(folder, overlap=4, more=3)
    with pytest.raises(LedgerError, match="turned again behind that"):
        rotated(folder)
    with State(folder) as state, opened(state) as ledger:
        append(ledger, 1)
        state.rotate_log_key(ledger, 0, Ed25519PrivateKey.generate())
        assert len(LogKey.of(ledger.verifier).turns) == 2
    assert not (folder / NEXT_FILE).exists()


@pytest.mark.parametrize("overlap", [-1, MAX_OVERLAP + 1])
def test_an_overlap_out_of_range_changes_nothing(folder: Path, overlap: int) -> None:
    with pytest.raises(EncodingError):
        rotated(folder, overlap)
    with State(folder) as state, opened(state) as ledger:
        assert (ledger.size, len(ledger.verifier.keys)) == (5, 1)


def test_a_turn_is_made_by_rotate_alone(folder: Path) -> None:
    rotated(folder)
    with State(folder) as state, opened(state) as ledger:
        turn = Rotation.decode(ledger.entry(5))
        new = state.log_signer.private_key
        again = ledger.append_now([lambda index: _again(turn, index, ledger).signed(new, new).encode()])[0]
        assert isinstance(again, LedgerError)
        assert "by rotate()" in str(again)


def _again(turn: Rotation, index: int, ledger: Log) -> Rotation:
    open_checkpoint(ledger.checkpoint(), ledger.verifier)
    return Rotation(turn.log, 2, turn.new_key, turn.old_key, index, turn.root, index + 1, bytes(64), bytes(64))


# --- crashes ---------------------------------------------------------------------------------------------------------

#: Every write of `log rotate` and of the start behind it, where it is looked up, and how often it is made.
WRITES: dict[str, tuple[Any, str, int]] = {
    "next key": (log_keys, "save_key", 1),
    "entry": (log_folder.SqliteTree, "append_entries", 1),
    "note": (DurableFile, "write", 1),
    "remembered note": (State, "remember_checkpoint", 1),
    "turns, former key": (log_keys, "write_durably", 2),
    "next becomes the key": (log_keys.os, "replace", 1),
    "folder": (log_keys, "sync_directory", 2),
    "lines": (signing, "write_durably", 1),
    "former key removed": (Path, "unlink", 1),
}


class Crash(BaseException):
    """The process ends here."""


def crashing(patch: pytest.MonkeyPatch, owner: Any, name: str, at: int, before: bool) -> None:
    """The ``at``-th call from now on ends the process, before or after it has done its work."""
    real: Callable[..., Any] = getattr(owner, name)
    count = [0]

    def call(*given: Any, **more: Any) -> Any:
        count[0] += 1
        if count[0] == at and before:
            raise Crash
        result = real(*given, **more)
        if count[0] == at:
            raise Crash
        return result

    patch.setattr(owner, name, call)


def rotate_and_start(folder: Path) -> None:
    rotated(folder, more=1)
    with State(folder) as state, opened(state):
        pass


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize(
    ("write", "at"), [(write, at) for write, (_, _, count) in WRITES.items() for at in range(1, count + 1)]
)
def test_a_crash_at_any_write_leaves_a_log_that_goes_on(folder: Path, write: str, at: int, before: bool) -> None:
    with State(folder) as state, opened(state) as ledger:
        first, old = ledger.verifier, notes(ledger)
    with pytest.MonkeyPatch.context() as patch:
        crashing(patch, *WRITES[write][:2], at, before)
        with pytest.raises(Crash):
            rotate_and_start(folder)
    for _ in range(2):
        with State(folder) as state, opened(state) as ledger:
            assert notes(ledger)[: len(old)] == old
            turned = len(ledger.verifier.keys) - 1
            assert turned <= 1
            for note in notes(ledger):
                open_checkpoint(note, follow(first, [proof.encode() for proof in ledger.turns()]))
            assert state.log_key == ledger.verifier
            assert state.log_signer.verifier == ledger.verifier.keys[-1]
            assert not (folder / FORMER_FILE).exists()
            ledger.fsck()
            if not turned:
                state.rotate_log_key(ledger, 0, Ed25519PrivateKey.generate())
                append(ledger, 1)
    assert not (folder / NEXT_FILE).exists()


def test_a_key_that_an_earlier_call_left_is_thrown_away(folder: Path) -> None:
    """It may lie in a copy by now, or be stolen."""
    left = Ed25519PrivateKey.generate()
    save_key(folder / NEXT_FILE, left)
    rotated(folder)
    with State(folder) as state, opened(state) as ledger:
        assert ledger.verifier.keys[-1].public_key != left.public_key().public_bytes_raw()


def test_a_crash_behind_the_entry_is_finished_with_both_keys(folder: Path) -> None:
    """The same without :func:`settle`'s promotion: the key's file is an old one, and the log says which it needs."""
    with without(Check(log_keys, "settle")):
        rotated(folder)
        assert (folder / NEXT_FILE).exists()
    (folder / NEXT_FILE).rename(folder / "elsewhere.pem")
    with State(folder) as state, pytest.raises(LedgerError, match="put its file back"):
        state.open_ledger()
    (folder / "elsewhere.pem").rename(folder / NEXT_FILE)
    with State(folder) as state, opened(state) as ledger:
        assert state.log_signer.verifier == ledger.verifier.keys[-1]


# --- damaged files, copies, the command ------------------------------------------------------------------------------


def test_a_damaged_file_of_turns_is_refused_and_made_again(folder: Path) -> None:
    rotated(folder)
    (folder / TURNS_FILE).write_bytes(b"torn")
    with pytest.raises(ConfigurationError, match="move it away"):
        State(folder)
    (folder / TURNS_FILE).unlink()
    with State(folder) as state, opened(state):
        assert len(state.log_key.keys) == 2


def test_a_backup_goes_on_under_the_same_keys(tmp_path: Path) -> None:
    folder = tmp_path / "provider"
    create(folder, SETTINGS, *(Ed25519PrivateKey.generate() for _ in range(2)))
    for _ in range(3):
        rotated(folder)
    with State(folder) as state, opened(state) as ledger:
        log, whole = ledger.verifier, notes(ledger)
        make(state, ledger, tmp_path / "copy", lambda *_: None)
    shutil.copytree(tmp_path / "copy", tmp_path / "served")
    with (
        State(tmp_path / "served") as state,
        opened(state) as ledger,
        pytest.raises(LedgerError, match="is a copy"),
    ):
        state.rotate_log_key(ledger, 0, Ed25519PrivateKey.generate())
    os.rename(folder, tmp_path / "lost")
    restore(tmp_path / "copy", folder, Known(remains=tmp_path / "lost"), int(time.time()))
    with State(folder) as state, opened(state) as ledger:
        assert notes(ledger) == whole
        assert ledger.verifier == log
        state.rotate_log_key(ledger, 0, Ed25519PrivateKey.generate())


@pytest.mark.parametrize("by", ["remains", "newest"])
def test_a_copy_from_before_a_turn_is_read_only(tmp_path: Path, by: str) -> None:
    """It does not know the key that signed what came after it, and so cannot say how much is lost."""
    folder = tmp_path / "provider"
    create(folder, SETTINGS, *(Ed25519PrivateKey.generate() for _ in range(2)))
    with State(folder) as state, opened(state) as ledger:
        make(state, ledger, tmp_path / "copy", lambda *_: None)
    rotated(folder)
    rotated(folder)
    note = (folder / "ledger" / "checkpoint").read_bytes()
    os.rename(folder, tmp_path / "lost")
    what = {"remains": tmp_path / "lost"} if by == "remains" else {"newest": note}
    with pytest.raises(LedgerError, match="if the log's key was turned, the backup is older"):
        restore(tmp_path / "copy", folder, Known(nothing_newer=True, **what), int(time.time()))
    told = restore(tmp_path / "copy", folder, Known(read_only=True, **what), int(time.time()))
    assert told.values["lost"] is None
    assert "by a key that it does not know" in told.text
    other = note.replace(b"example.org/rag", b"example.org/log")
    with pytest.raises(ConfigurationError, match="not a checkpoint of the backup's log"):
        restore(tmp_path / "copy", tmp_path / "again", Known(newest=other, read_only=True), int(time.time()))
    known = Known(newest=note, read_only=True)
    with (
        without(Check(copies, "_is_of_a_later_key", lambda *_: False)),
        pytest.raises(ConfigurationError, match="not a checkpoint"),
    ):
        restore(tmp_path / "copy", tmp_path / "again", known, int(time.time()))


def test_the_command_says_the_new_key_and_the_name(folder: Path) -> None:
    with State(folder) as state:
        name = state.log_key.vkey()
    done = CliRunner().invoke(main, ["log", "rotate", "--state", str(folder), "--overlap", "7"])
    assert done.exit_code == 0, done.output
    assert name in done.output
    assert "Up to 13 entries the old key signs as well" in done.output
    with State(folder) as state:
        assert state.log_signer.verifier.vkey() in done.output
        assert NoteVerifier.from_vkey(name) == state.log_key.keys[0]
    assert not (folder / NEXT_FILE).exists()
    assert (folder / LOG_KEY_FILE).exists()

# SPDX-License-Identifier: GPL-3.0-or-later
"""fsck: a sound folder is sound, and every file of it, changed, is named; `serve` refuses the same."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel import field, signature
from ragseal.kernel.attestation import Record
from ragseal.kernel.errors import AuditError, ConfigurationError, ProofError, UnavailableError
from ragseal.kernel.link_list import SignedLinks, pack_links
from ragseal.prover.attestation.retrieval import query_key
from ragseal.prover.base.check_report import WRONG, Report, could_not_look
from ragseal.prover.cli import fsck_command
from ragseal.prover.fsck import fsck
from ragseal.prover.fsck.record_check import commitments, request_digest
from ragseal.prover.provider.backends import Backends
from ragseal.prover.storage.state import State
from ragseal.runtime.durable import DirectoryLock
from tests.crash.crash_scene import examine, open_copy, tools

pytestmark = pytest.mark.slow

Copy = Callable[..., Path]
Damage = Callable[[Path], None]


def start(directory: Path) -> Report:
    """What serve does: open, check, and close again."""
    provider = open_copy(directory)
    try:
        return fsck.check_start(provider)
    finally:
        provider.close()


def sql(name: str, *statements: str) -> Damage:
    def damage(directory: Path) -> None:
        with sqlite3.connect(directory / name) as con:
            for statement in statements:
                con.execute(statement)
        con.close()

    return damage


def ledger_sql(*statements: str) -> Damage:
    return sql("ledger/log.sqlite", "DROP TRIGGER leaf_no_update", "DROP TRIGGER leaf_no_delete", *statements)


def state_byte(table: str, column: str, at: int, condition: str = "1") -> Damage:
    """The byte at ``at`` (from 1) of a column becomes another."""

    def damage(directory: Path) -> None:
        with sqlite3.connect(directory / "state.db") as con:
            con.create_function("changed", 1, lambda data: data[: at - 1] + bytes([data[at - 1] ^ 1]) + data[at:])
            con.execute(f"UPDATE {table} SET {column} = changed({column}) WHERE {condition}")
        con.close()

    return damage


def one_byte(pattern: str, at: int) -> Damage:
    def damage(directory: Path) -> None:
        (path,) = directory.glob(pattern)
        data = bytearray(path.read_bytes())
        data[at] ^= 1
        path.write_bytes(bytes(data))

    return damage


def matrix(directory: Path) -> None:
    """One entry of the newest window's index of acme."""
    with sqlite3.connect(directory / "state.db") as con:
        query = "SELECT matrix FROM versions v JOIN windows w USING (manifest) WHERE name = 'w2' AND tenant = 'acme'"
        ((name,),) = con.execute(query).fetchall()
    con.close()
    values = np.load(directory / "windows" / name)
    values[3, 5] += 1
    np.save(directory / "windows" / name, values)


def only_old_matrix(directory: Path) -> None:
    with sqlite3.connect(directory / "state.db") as con:
        query = "SELECT matrix FROM versions v JOIN windows w USING (manifest) WHERE name = 'w1' AND tenant = 'acme'"
        ((name,),) = con.execute(query).fetchall()
    con.close()
    values = np.load(directory / "windows" / name)
    values[3, 5] += 1
    np.save(directory / "windows" / name, values)


def changed_key(directory: Path) -> None:
    """The key folder, a link in the tests, becomes a copy with one other point in it."""
    (link,) = (directory / "keys").iterdir()
    real = link.resolve()
    link.unlink()
    shutil.copytree(real, link)
    one_byte("keys/*/verifying_key.bin", -1)(directory)


def newest_matrix(directory: Path) -> Path:
    with sqlite3.connect(directory / "state.db") as con:
        query = "SELECT matrix FROM versions v JOIN windows w USING (manifest) WHERE name = 'w2' AND tenant = 'acme'"
        ((name,),) = con.execute(query).fetchall()
    con.close()
    return directory / "windows" / str(name)


def as_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


def as_folder(path: Path) -> None:
    path.unlink()
    path.mkdir(0o700)


def no_key(directory: Path) -> None:
    (link,) = (directory / "keys").iterdir()
    link.unlink()


def no_proving_key(directory: Path) -> None:
    (link,) = (directory / "keys").iterdir()
    real = link.resolve()
    link.unlink()
    shutil.copytree(real, link)
    (link / "proving_key.zkey").unlink()


def page_of_state(directory: Path) -> None:
    """Garbage in the middle of state.db, where an index has its pages."""
    path = directory / "state.db"
    data = bytearray(path.read_bytes())
    at = 4096 * (len(data) // 4096 // 2)
    data[at : at + 64] = os.urandom(64)
    path.write_bytes(bytes(data))


def other_links(directory: Path) -> None:
    """Links that the window's key signed, and that are not the records'."""
    with sqlite3.connect(directory / "state.db") as con:
        ((stored,),) = con.execute("SELECT links FROM estimates").fetchall()
        body = SignedLinks.decode(stored).body
        lied = replace(body, tenants=(replace(body.tenants[0], packed=pack_links([(0, 1)])), *body.tenants[1:]))
        assert lied != body
        ((seed,),) = con.execute("SELECT key FROM window_keys WHERE manifest = ?", (lied.manifest,)).fetchall()
        key = Ed25519PrivateKey.from_private_bytes(seed)
        signed = SignedLinks(lied, signature.sign(key, "links", lied.encode()))
        con.execute("UPDATE estimates SET links = ?", (signed.encode(),))
    con.close()


def unsigned_links(directory: Path) -> None:
    """The list as it was, its signature zeros."""
    new = "CAST(substr(links, 1, length(links) - 64) || zeroblob(64) AS BLOB)"
    sql("state.db", f"UPDATE estimates SET links = {new}")(directory)


def of(name: str) -> str:
    """The condition that picks the queries of an account, which goes by its window's pseudonym there."""
    return f"account IN (SELECT pseudonym FROM window_accounts WHERE name = '{name}')"


SECOND = f"(SELECT secrets FROM queries WHERE {of('carol')})"

#: name: (damage, what the report says, whether the quick check at start finds it too)
DAMAGES: dict[str, tuple[Damage, str, bool]] = {
    "ledger entry": (ledger_sql("UPDATE leaf SET entry = zeroblob(9) WHERE id = 2"), "entry 1|not stand there", True),
    "ledger hash": (ledger_sql("UPDATE leaf SET hash = zeroblob(32) WHERE id = 3"), "not those that were", True),
    "ledger entries lost": (ledger_sql("DELETE FROM leaf WHERE id > 5"), "was rolled back", True),
    "ledger pages": (one_byte("ledger/log.sqlite", 4096 + 3), ".", True),
    "checkpoint": (one_byte("ledger/checkpoint", 20), ".", True),
    "no checkpoint": (lambda d: (d / "ledger" / "checkpoint").unlink(), "checkpoint is missing", True),
    "cosignatures": (
        lambda d: (d / "ledger" / "cosignatures").write_text("9 x y\n8 x\n"), "cosignatures|size, key", True,
    ),
    "state.db pages": (page_of_state, ".", True),
    "secrets of a record": (sql("state.db", f"DELETE FROM queries WHERE {of('bob')}"), "secrets are missing", True),
    "secrets swapped": (
        sql("state.db", f"UPDATE queries SET secrets = {SECOND} WHERE {of('bob')}"), "another record", True,
    ),
    "account of secrets": (sql("state.db", "UPDATE queries SET account = 'eve' WHERE ctr = 2"), "another record", True),
    "embedding of a record": (state_byte("queries", "secrets", 23, of("bob")), "C_e does not open", False),
    "blinder of a record": (state_byte("queries", "secrets", 76, of("bob")), "does not open", False),
    "rho of a record": (state_byte("queries", "secrets", 100, of("bob")), "C_y does not open", False),
    "salt of a record": (state_byte("queries", "secrets", 160, of("bob")), "commitment to T does not", False),
    "proof of a record": (sql("state.db", "UPDATE proofs SET seq = 1"), "of a different record", False),
    "proof beyond the records": (sql("state.db", "UPDATE proofs SET seq = 7"), "no such record", True),
    "seed": (sql("state.db", "UPDATE windows SET seed = zeroblob(32) WHERE name = 'w2'"), "not those its", True),
    "old seed": (sql("state.db", "UPDATE windows SET seed = zeroblob(32) WHERE name = 'w1'"), "not those its", False),
    "key of a window": (sql("state.db", "UPDATE window_keys SET key = randomblob(32)"), "not those its", True),
    "key of a window lost": (sql("state.db", "DELETE FROM window_keys"), "no signing key of that window", True),
    "window lost": (sql("state.db", "DELETE FROM windows WHERE name = 'w2'"), "no secrets of that window", True),
    "text": (
        sql("state.db", "UPDATE version_texts SET text = 'other' WHERE slot = (SELECT min(slot) FROM version_texts)"),
        "not those its manifest", True,
    ),
    "id": (
        sql("state.db", "UPDATE version_texts SET document = 'x' WHERE slot = (SELECT min(slot) FROM version_texts)"),
        "not those its manifest", True,
    ),
    "metadata": (state_byte("version_texts", "metadata", 3), "metadata of document", True),
    "account": (sql("state.db", "DELETE FROM window_accounts WHERE name = 'alice'"), "not those its manifest", True),
    "column blinder": (state_byte("versions", "blinders", 41), "do not open the committed columns", True),
    "matrix": (matrix, "do not open the committed columns", True),
    "old matrix": (only_old_matrix, "do not open the committed columns", False),
    "signed links": (state_byte("estimates", "links", 60), "links of window 'w1'", True),
    "signature of links": (unsigned_links, "links of window 'w1'.*signature", True),
    "other links": (other_links, "not the one that the window's records make", False),
    "key": (changed_key, "key of window|another key|not a", True),
    "mark": (sql("state.db", "UPDATE ledger_mark SET size = size + 1"), "was rolled back", True),
    "other mark": (sql("state.db", "UPDATE ledger_mark SET size = size - 1"), "not those that this provider", True),
    "no ledger": (lambda d: (d / "ledger" / "log.sqlite").unlink(), "log.sqlite is missing.*from a backup", True),
    "no proving key": (no_proving_key, "proving_key.zkey is missing", False),
    "settings lost": (lambda d: (d / "provider.toml").unlink(), "provider.toml is missing, beside other files", True),
    "a pipe for a matrix": (lambda d: as_pipe(newest_matrix(d)), "not a regular file", True),
    "a pipe for state.db": (lambda d: as_pipe(d / "state.db"), "not a regular file|state.db", True),
    "a folder for the checkpoint": (lambda d: as_folder(d / "ledger" / "checkpoint"), "no regular|checkpoint is", True),
    "open database": (lambda d: (d / "state.db").chmod(0o644), "open to other users", True),
    "open matrix": (lambda d: next((d / "windows").iterdir()).chmod(0o604), "open to other users", True),
    "open folder": (lambda d: d.chmod(0o755), "open to other users", True),
    "open key": (lambda d: (d / "log.pem").chmod(0o644), "open to other users", True),
}  # fmt: skip


def notes(report: Report) -> list[str]:
    """Without that on proving keys, which are linked from a cache here and were never fetched."""
    return [one for one in report.notes if "proving_key.sha256" not in one]


@pytest.mark.parametrize("whole", [False, True])
def test_a_sound_folder_is_sound(copy: Copy, whole: bool) -> None:
    report = examine(copy(), whole)
    assert report.findings == []
    assert notes(report) == []
    assert report.checked["records"] == 4
    assert report.checked["windows"] == 2
    assert report.checked["entries"] == 2 * 8 + 4 + 1  # manifest, 2 commits, seal, 3 openings, open; records; a close
    assert report.checked["estimates"] == 1
    assert report.checked["indices"] == (4 if whole else 2)
    assert report.checked["files"] >= 10


@pytest.mark.parametrize("name", list(DAMAGES))
def test_every_damage_is_named(copy: Copy, name: str) -> None:
    damage, says, at_start = DAMAGES[name]
    directory = copy()
    damage(directory)
    report = examine(directory)
    assert report.findings, name
    assert re.search(says, " | ".join(report.findings)), report.findings
    if at_start:
        with pytest.raises(AuditError, match=says):
            start(directory)
    else:
        assert start(directory).findings == []


def unreadable(directory: Path) -> None:
    """What stands in the way of an index matrix is no file: reading it fails, whatever the disk holds."""
    with sqlite3.connect(directory / "state.db") as con:
        query = "SELECT matrix FROM versions v JOIN windows w USING (manifest) WHERE name = 'w2' AND tenant = 'acme'"
        ((name,),) = con.execute(query).fetchall()
    con.close()
    (directory / "windows" / name).unlink()
    (directory / "windows" / name).symlink_to("/proc/self/mem")  # read from its beginning: EIO


@pytest.mark.parametrize(
    ("cause", "says"),
    [(no_key, "does not hold the key.*fetch-keys"), (unreadable, "Input/output error")],
)
def test_what_cannot_be_looked_at_is_not_wrong(
    copy: Copy, cause: Damage, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = copy()
    cause(directory)
    report = examine(directory)
    assert report.findings == []
    assert re.search(says, " | ".join(report.unchecked)), report.unchecked
    assert start(directory).findings == [], "serve goes on, and says itself what it cannot load"
    sql("state.db", f"DELETE FROM queries WHERE {of('bob')}")(directory)
    assert examine(directory).outcome == WRONG, "what was looked at is wrong all the same"


def refused(action: Callable[[], object]) -> AuditError:
    with pytest.raises(AuditError) as caught:
        action()
    return caught.value


def test_missing_tools_and_busy_folders_have_a_status_of_their_own(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing embedder, a busy lock, a folder that is not there: nobody has looked, so nothing is called wrong."""

    def missing(state: State, progress: object) -> Backends:
        raise UnavailableError("the embedder is not installed")

    real = fsck.examine_folder
    monkeypatch.setattr(fsck_command, "examine_folder", lambda d, whole, told: real(d, whole, told, missing))
    directory = copy()

    def run(path: Path, status: int, *says: str) -> None:
        words = CliRunner().invoke(fsck_command.fsck, ["--state", str(path)])
        found = CliRunner().invoke(fsck_command.fsck, ["--state", str(path), "--json"])
        told = json.loads(found.stdout.splitlines()[-1])
        assert (words.exit_code, found.exit_code) == (status, status), words.output
        assert (told["ok"], told["outcome"]) == (False, "not checked" if status == 4 else "wrong")
        for part in says:
            assert part in words.stdout
        assert ("do not serve" in words.stdout) == (status == 1)

    run(directory, 4, "NOT CHECKED: ledger and windows: the embedder is not installed")
    with State(directory):
        run(directory, 4, "in use by another process")
    lock = DirectoryLock(directory / "ledger", "its ledger")
    assert could_not_look(refused(lambda: open_copy(directory)))
    lock.release()
    run(directory / "nowhere", 4, "holds no provider")
    page_of_state(directory)
    run(directory, 1, "NOT CHECKED: ledger", "WRONG")


def test_an_error_is_of_what_was_looked_at_or_of_what_stood_in_the_way() -> None:
    def made_of(cause: BaseException) -> AuditError:
        try:
            try:
                raise cause
            except type(cause):
                raise ConfigurationError("cannot be read") from None
        except ConfigurationError as error:
            return error

    def sqlite_says(path: str, query: str) -> sqlite3.Error:
        try:
            sqlite3.connect(path).execute(query)
        except sqlite3.Error as error:
            return error
        raise AssertionError

    away = [OSError(number, "x") for number in (errno.EIO, errno.EACCES, errno.ESTALE, errno.ENOLCK, errno.ETIMEDOUT)]
    for cause in [*away, ImportError("x"), sqlite_says("file:/nowhere/x", "SELECT 1"), UnavailableError("x")]:
        assert could_not_look(made_of(cause)), cause
    for cause in (OSError(errno.ENOENT, "x"), sqlite_says(":memory:", "SELECT 1 FROM lost"), ValueError("x")):
        assert not could_not_look(made_of(cause)), cause
    assert not could_not_look(ProofError("it does not hold"))


def test_a_refused_start_says_how_to_learn_more(copy: Copy) -> None:
    directory = copy()
    sql("state.db", "DELETE FROM queries")(directory)
    with pytest.raises(ConfigurationError, match=r"and 3 more.*ragseal-provider fsck --state"):
        start(directory)


def test_a_torn_last_line_of_the_cosignatures_is_noted_and_left_to_the_start(copy: Copy) -> None:
    directory = copy()
    book = directory / "ledger" / "cosignatures"
    book.write_text("9 x")
    report = examine(directory)
    assert (report.findings, len(notes(report))) == ([], 1)
    assert "the next start cuts it off" in notes(report)[0]
    assert book.read_text() == "9 x", "who looks changes nothing"
    assert start(directory).findings == []


def test_leftovers_are_noted_and_harmless(copy: Copy) -> None:
    directory = copy()
    (directory / ".provider.toml.0123456789abcdef").write_text("half")
    (directory / "windows" / "left.npy").write_bytes(b"half")
    os.chmod(directory / "windows" / "left.npy", 0o600)
    (directory / "stray").write_text("?")
    sql("state.db", "INSERT INTO queries SELECT manifest, account, 3, zeroblob(32), secrets FROM queries WHERE ctr = 2",
        "INSERT INTO windows SELECT zeroblob(32), 'w0', signed, seed, nonce, blinding, coin_seed FROM windows "
        "WHERE name = 'w1'",
    )(directory)  # fmt: skip
    report = examine(directory)
    assert report.findings == []
    told = " | ".join(report.notes)
    for part in (
        "unfinished file",
        "belongs to no window",
        "no file of a provider's",
        "secrets and no record",
        "never",
    ):
        assert part in told
    assert len(notes(report)) == 5


def test_the_command_prints_words_or_json_and_fails_with_evidence(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    real = fsck.examine_folder
    monkeypatch.setattr(fsck_command, "examine_folder", lambda d, whole, told: real(d, whole, told, tools))
    directory = copy()
    good = CliRunner().invoke(fsck_command.fsck, ["--state", str(directory)])
    assert good.exit_code == 0
    assert "all is well" in good.stdout
    sql("state.db", f"DELETE FROM queries WHERE {of('bob')}")(directory)
    bad = CliRunner().invoke(fsck_command.fsck, ["--state", str(directory), "--json"])
    assert bad.exit_code == 1
    found = json.loads(bad.stdout.splitlines()[-1])
    assert found["ok"] is False
    assert "secrets are missing" in found["findings"][0]
    words = CliRunner().invoke(fsck_command.fsck, ["--state", str(directory)])
    assert "WRONG: record 0 of window 'w2'" in words.stdout


def test_quick_slices_are_those_of_the_decoded_record(copy: Copy) -> None:
    provider = open_copy(copy())
    try:
        for window in provider.journal.history.windows.values():
            for index in window.records:
                entry = provider.journal.data(index)
                record = Record.decode(entry)
                assert request_digest(entry) == query_key(window.digest, record.signed)[3]
                assert commitments(entry) == record.c_y + field.pack(record.t_commits)
    finally:
        provider.close()

# SPDX-License-Identifier: GPL-3.0-or-later
"""A copy that is encrypted under keys kept apart: a newer keys file makes it forget what was purged.  SPEC G.14."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import tracemalloc
from collections import namedtuple
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ragseal.kernel import signature
from ragseal.kernel.errors import AttestationError, CommitmentError, ConfigurationError
from ragseal.prover.administration import backup, sealed_copy
from ragseal.prover.commitment import documents, erasure
from ragseal.prover.commitment.corpora import Document
from ragseal.prover.commitment.room import RESERVE
from ragseal.prover.fsck import fsck
from ragseal.prover.serving.retiring import Retiring
from ragseal.prover.storage import retirement, tombstones
from ragseal.prover.storage.retirement import is_retired
from ragseal.prover.storage.state import STAGED, State
from ragseal.prover.wire.operator_remote import Remote
from tests.attacks.checks import without
from tests.attacks.removal import Check
from tests.simulator import provider as scene
from tests.simulator.copies import copied, put_back, silent
from tests.simulator.live import Live, live
from tests.simulator.marked import found_in, marks, texts

pytestmark = pytest.mark.slow

SEALED = Check(sealed_copy.Sealer, "database", lambda self, path, target: shutil.copyfile(path, target))


class _Any:
    """Equal to every check of a key."""

    def __ne__(self, other: object) -> bool:
        return False


KEY_CHECK = Check(sealed_copy, "_key_check", lambda key: _Any())


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Live]:
    with live(tmp_path, coins=True, texts=texts) as made:
        with made.client() as client:
            client.ask("report about topic 3")
        yield made


def folder_of(made: Live) -> Path:
    return made.folder / "provider"


def own_secrets(state: State) -> list[bytes]:
    """Keys of documents' hashes and of their places."""
    query = "SELECT key FROM erasing UNION SELECT placement FROM tenants UNION SELECT placement FROM coin_placements"
    return [bytes(one) for (one,) in state.rows(query)]


def close(made: Live) -> None:
    proof = signature.sign(made.provider.state.key, "close", made.window.digest)
    made.call(made.server.serving.close_window(made.window.digest, proof))


def close_and_retire(made: Live) -> None:
    close(made)
    with Remote(folder_of(made)) as there:
        assert there.retire("w1", True, False, silent).values["purged"]


def test_an_encrypted_copy_shows_nothing_and_is_put_back_whole(serving: Live) -> None:
    keys = serving.folder / "keys.json"
    copy = copied(serving, "copy", keys)
    assert found_in(copy, *marks()) == []
    kept = serving.provider.window_secrets(serving.window.digest)
    assert kept.coin_seed is not None
    assert found_in(copy, kept.seed, kept.blinding, kept.coin_seed, kept.versions["acme"].secret) == []
    telling = own_secrets(serving.provider.state)  # with these, ids could be tried on the copy
    assert len(telling) >= 3
    assert found_in(copy, *telling) == []
    assert {one for _, one in found_in(folder_of(serving), *telling)} == set(telling)
    assert found_in(folder_of(serving), kept.seed, kept.versions["acme"].secret)
    assert stat.S_IMODE(keys.stat().st_mode) == 0o600
    for name in ("provider.pem", "log.pem"):
        assert b"PRIVATE KEY" not in (copy / name).read_bytes()
    with pytest.raises(ConfigurationError, match="is a copy whose secrets are encrypted"):
        State(copy)
    signing = [(folder_of(serving) / name).read_bytes() for name in ("provider.pem", "log.pem")]
    everything = {table: serving.provider.state.rows(f"SELECT * FROM {table}") for table in
                  ("documents", "tenants", "erasing", "coin_placements", "windows",
                   "versions", "version_texts", "thinnings", "queries")}  # fmt: skip
    serving.stop()
    shutil.rmtree(folder_of(serving))
    with pytest.raises(ConfigurationError, match="is encrypted: name the newest keys file"):
        put_back(copy, folder_of(serving), nothing_newer=True)
    told = put_back(copy, folder_of(serving), nothing_newer=True, keys=keys)
    assert (told.values["windows_purged"], told.values["documents_purged"]) == (0, 0)
    assert [(folder_of(serving) / name).read_bytes() for name in ("provider.pem", "log.pem")] == signing
    serving.restart_after_stop()
    for table, rows in everything.items():
        assert serving.provider.state.rows(f"SELECT * FROM {table}") == rows, table
    with serving.client() as client:
        assert client.ask("report about topic 5").record.seq == 1
    with without(SEALED):
        assert found_in(copied(serving, "plain", keys), *marks())


def test_an_older_copy_forgets_with_newer_keys_what_was_purged(serving: Live) -> None:
    keys = serving.folder / "keys.json"
    old = copied(serving, "old", keys)
    first = keys.read_bytes()
    with Remote(folder_of(serving)) as there:
        there.erase_document("acme", "acme-marked-id-77", "art. 17")
        there.put_documents("acme", [Document("acme-marked-id-77", "another text under its id")], silent)
    close_and_retire(serving)
    copied(serving, "new", keys)
    assert len(json.loads(first)["keys"]) > 0
    assert not keys.with_name("keys.json.older").exists()
    elsewhere = serving.folder / "elsewhere"
    told = put_back(old, elsewhere, nothing_newer=True, keys=keys)
    assert (told.values["windows_purged"], told.values["documents_purged"]) == (1, 1)
    acme = marks()[:1]
    assert found_in(elsewhere, *acme) == []
    state = State(elsewhere)
    assert is_retired(state, serving.window.digest)
    assert state.rows("SELECT 1 FROM documents WHERE document = 'acme-marked-id-77'") == []
    assert len(state.rows("SELECT 1 FROM documents WHERE tenant = 'acme'")) == 30
    assert len(state.rows("SELECT 1 FROM resting WHERE tenant = 'acme'")) == 1
    assert tombstones.erased_of(state, "acme")("acme-marked-id-77"), "a source would bring it back"
    state.close()
    provider = scene.open_provider(elsewhere, coins=True)
    with pytest.raises(AttestationError, match="is retired"):
        provider.window_secrets(serving.window.digest)
    assert fsck.examine(provider, whole=False).findings == []
    assert Retiring(provider, provider.new_proofs(), provider.new_estimates()).sweep()
    assert provider.state.rows("SELECT 1 FROM version_texts") == []
    assert list(provider.state.windows_directory.iterdir()) == []
    assert fsck.examine(provider, whole=True).findings == []
    provider.close()
    older = serving.folder / "older.json"
    older.write_bytes(first)
    put_back(old, serving.folder / "again", nothing_newer=True, keys=older)
    assert found_in(serving.folder / "again", *acme), "the copy held nothing to forget: this test shows nothing"
    with without(KEY_CHECK), pytest.raises(ConfigurationError, match="does not fit this copy"):
        put_back(old, serving.folder / "third", nothing_newer=True, keys=keys)


def plain_in(serving: Live) -> list[tuple[str, bytes]]:
    """What is readable beside the provider's folder of a document, a seed, a matrix and the signing keys."""
    kept = serving.provider.window_secrets(serving.window.digest)
    places = [path for path in serving.folder.iterdir() if path.name.lstrip(".").split(".")[0] in ("plain", "copy")]
    return [one for place in places for one in found_in(place, *marks(), kept.seed, b"PRIVATE KEY")]


def test_an_encrypted_copy_is_at_no_moment_plain_where_it_is_to_lie(serving: Live) -> None:
    """It may be another machine's disk, and whoever is killed there cleans nothing up."""
    seen, plain = list[str](), list[tuple[str, bytes]]()

    def look(what: str, *_: object) -> None:
        seen.append(what)
        plain.extend(plain_in(serving))

    provider = serving.provider
    for name, keys in (("plain", None), ("copy", serving.folder / "keys.json")):
        assert plain == []
        backup.make(provider.state, provider.ledger, serving.folder / name, look, keys)
        if keys is None:
            assert {b"PRIVATE KEY", *marks()} <= {one for _, one in plain}, "nothing is looked for"
            shutil.rmtree(serving.folder / name)
            plain.clear()
    assert "encrypting" in seen
    assert plain == []
    assert not [path for path in folder_of(serving).iterdir() if path.name.startswith(STAGED)]


def test_a_copy_that_is_killed_leaves_nothing_plain_that_the_next_start_does_not_overwrite(tmp_path: Path) -> None:
    folder = tmp_path / "p"
    scene.new_state(folder, texts=texts).close()
    child = os.fork()
    if not child:
        try:
            state = State(folder)
            backup.make(state, state.open_ledger(), tmp_path / "copy", die_encrypting, tmp_path / "keys.json")
        finally:
            os._exit(1)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    beside = [path for path in tmp_path.iterdir() if path != folder]
    assert beside, "it was killed before it began"
    assert [one for path in beside for one in found_in(path, *marks()[:2], b"PRIVATE KEY")] == []
    held = tmp_path / "held"
    os.link(folder / STAGED, held)
    assert marks()[0] in held.read_bytes()
    State(folder).close()
    assert not (folder / STAGED).exists()
    assert set(held.read_bytes()) == {0}


def die_encrypting(what: str, *_: object) -> None:
    if what == "encrypting":
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_copy_of_a_window_that_is_being_purged_shows_nothing_of_it(serving: Live) -> None:
    """Its purge was begun and has to wait, as for this copy: the rows are there still."""
    close(serving)
    keys = serving.folder / "keys.json"
    with without(Check(Retiring, "sweep", lambda self: False)):
        serving.server.serving.retiring.retire(serving.window)
        kept = serving.provider.state.rows("SELECT seed, blinding FROM windows")[0]
        copy = copied(serving, "copy", keys)
        assert {one for _, one in found_in(folder_of(serving), *marks(), *kept)} == {*marks(), *kept}
    assert found_in(copy, *marks(), *kept) == []
    put_back(copy, serving.folder / "elsewhere", nothing_newer=True, keys=keys)
    provider = scene.open_provider(serving.folder / "elsewhere", coins=True)
    try:
        assert Retiring(provider, provider.new_proofs(), provider.new_estimates()).sweep()
        assert fsck.examine(provider, whole=True).findings == []
    finally:
        provider.close()


def test_coins_that_may_be_carried_on_come_back_with_a_copy_of_a_retired_window_and_go_once_they_may_not(
    serving: Live,
) -> None:
    keys, state = serving.folder / "keys.json", serving.provider.state
    seed = serving.provider.window_secrets(serving.window.digest).coin_seed
    assert seed is not None
    old = copied(serving, "old", keys)
    close_and_retire(serving)
    assert state.row("SELECT coin_seed FROM windows") == (seed,)
    new = copied(serving, "new", keys)
    assert found_in(new, seed) == []
    for number, copy in enumerate((old, new)):
        place = serving.folder / f"place-{number}"
        put_back(copy, place, nothing_newer=True, keys=keys)
        with closing(State(place)) as there:
            assert there.row("SELECT coin_seed FROM windows") == (seed,)
    assert retirement.purge_coins(state, ())
    copied(serving, "newest", keys)
    for number, copy in enumerate((old, new)):
        place = serving.folder / f"later-{number}"
        put_back(copy, place, nothing_newer=True, keys=keys)
        with closing(State(place)) as there:
            assert there.row("SELECT coin_seed FROM windows") == (None,)


def test_a_large_database_is_encrypted_a_row_at_a_time_and_only_where_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size, many = 10_000, 2_000
    with closing(scene.new_state(tmp_path / "p", texts=texts)) as state, state.open_ledger() as ledger:
        with state.transaction() as db:
            query = "INSERT INTO version_texts VALUES (x'01', 0, 'acme', ?, 'name', ?, x'', x'', NULL)"
            db.executemany(query, [(slot, "x" * size) for slot in range(many)])
        tracemalloc.start()
        backup.make(state, ledger, tmp_path / "copy", silent, tmp_path / "keys.json")
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert most < size * many / 4
        assert b"x" * 100 not in (tmp_path / "copy" / "state.db").read_bytes()
        usage = namedtuple("usage", "total used free")
        monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(0, 0, RESERVE))
        with pytest.raises(ConfigurationError, match="make room, or copy without --keys"):
            backup.make(state, ledger, tmp_path / "other", silent, tmp_path / "keys.json")
        assert not [path for path in tmp_path.iterdir() if "other" in path.name]


def test_a_document_that_only_copies_have_is_erased_from_the_encrypted_ones(tmp_path: Path) -> None:
    folder, keys = tmp_path / "p", tmp_path / "keys.json"
    with closing(scene.new_state(folder, texts=texts)) as state, state.open_ledger() as ledger:
        backup.make(state, ledger, tmp_path / "old", silent, keys)
        documents.delete(state, "acme", ["acme-marked-id-77"], os.urandom, scene.SHAPE)
        backup.make(state, ledger, tmp_path / "later", silent, keys)
        put_back(tmp_path / "old", tmp_path / "before", nothing_newer=True, keys=keys)
        assert found_in(tmp_path / "before", *marks()[:1]), "there is nothing to forget"
        erasure.erase(state, "acme", "acme-marked-id-77", "art. 17", scene.NOW, os.urandom)
        backup.make(state, ledger, tmp_path / "new", silent, keys)
        told = put_back(tmp_path / "old", tmp_path / "after", nothing_newer=True, keys=keys)
        assert told.values["documents_purged"] == 1
        assert found_in(tmp_path / "after", *marks()[:1]) == []
        erasure.remember_backup(state, "/backups/monday", scene.NOW, sealed=False)
        with pytest.raises(CommitmentError, match=r"has no document .* delete them: /backups/monday$"):
            erasure.erase(state, "acme", "acme-marked-id-77", "again", scene.NOW, os.urandom)


def test_keys_that_are_not_this_copy_s_open_nothing_and_leave_nothing(serving: Live) -> None:
    keys, target = serving.folder / "keys.json", serving.folder / "elsewhere"
    copy = copied(serving, "copy", keys)
    values = json.loads(keys.read_bytes())
    other = dict.fromkeys(values["keys"], "00" * 32)
    for wrong, why in (
        (b"nonsense", "not a keys file"),
        (b"[]", "not a keys file"),
        (json.dumps({**values, "origin": "example.net/other"}).encode(), "has the keys of 'example.net/other'"),
        (json.dumps({**values, "keys": other}).encode(), "does not fit this copy"),
    ):
        (serving.folder / "wrong.json").write_bytes(wrong)
        with pytest.raises(ConfigurationError, match=why):
            put_back(copy, target, nothing_newer=True, keys=serving.folder / "wrong.json")
        assert sorted(path.name for path in serving.folder.iterdir() if "elsewhere" in path.name) == []
    with Remote(folder_of(serving)) as there, pytest.raises(ConfigurationError, match="absolute path"):
        there.backup(serving.folder / "third", silent, Path("keys.json"))
    with pytest.raises(ConfigurationError, match="cannot write the keys file"):
        copied(serving, "fourth", serving.folder / "nowhere" / "keys.json")
    assert not (serving.folder / "fourth").exists()

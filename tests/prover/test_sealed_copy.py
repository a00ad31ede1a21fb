# SPDX-License-Identifier: GPL-3.0-or-later
"""A copy that is encrypted under keys kept apart: a newer keys file makes it forget what was purged.  SPEC G.14."""

from __future__ import annotations

import json
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragseal.kernel import signature
from ragseal.kernel.errors import AttestationError, ConfigurationError
from ragseal.prover.administration import sealed_copy
from ragseal.prover.administration.remote import Remote
from ragseal.prover.commitment.corpora import Document
from ragseal.prover.retiring import Retiring
from ragseal.prover.storage import fsck
from ragseal.prover.storage.retirement import is_retired
from ragseal.prover.storage.state import State
from tests.attacks.checks import without
from tests.attacks.removal import Check
from tests.simulator import provider as scene
from tests.simulator.copies import copied, put_back, silent
from tests.simulator.live import Live, live
from tests.simulator.marked import found_in, marks, texts

pytestmark = pytest.mark.slow

SEALED = Check(sealed_copy, "seal")


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


def close_and_retire(made: Live) -> None:
    proof = signature.sign(made.provider.state.key, "close", made.window.digest)
    made.call(made.server.serving.close_window(made.window.digest, proof))
    with Remote(folder_of(made)) as there:
        assert there.retire("w1", True, False, silent).values["purged"]


def test_an_encrypted_copy_shows_nothing_and_is_put_back_whole(serving: Live) -> None:
    keys = serving.folder / "keys.json"
    copy = copied(serving, "copy", keys)
    assert found_in(copy, *marks()) == []
    kept = serving.provider.window_secrets(serving.window.digest)
    assert kept.coin_seed is not None
    assert found_in(copy, kept.seed, kept.blinding, kept.coin_seed, kept.versions["acme"].secret) == []
    assert found_in(folder_of(serving), kept.seed, kept.versions["acme"].secret)
    assert stat.S_IMODE(keys.stat().st_mode) == 0o600
    for name in ("provider.pem", "log.pem"):
        assert b"PRIVATE KEY" not in (copy / name).read_bytes()
    with pytest.raises(ConfigurationError, match="is a copy whose secrets are encrypted"):
        State(copy)
    signing = [(folder_of(serving) / name).read_bytes() for name in ("provider.pem", "log.pem")]
    everything = {table: serving.provider.state.rows(f"SELECT * FROM {table}") for table in
                  ("documents", "windows", "versions", "version_texts", "thinnings", "queries")}  # fmt: skip
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


def test_keys_that_are_not_this_copy_s_open_nothing_and_leave_nothing(serving: Live) -> None:
    keys, target = serving.folder / "keys.json", serving.folder / "elsewhere"
    copy = copied(serving, "copy", keys)
    values = json.loads(keys.read_bytes())
    other = dict.fromkeys(values["keys"], "00" * 32)
    for wrong, why in (
        (b"nonsense", "no keys file"),
        (b"[]", "no keys file"),
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

# SPDX-License-Identifier: GPL-3.0-or-later
"""A document is erased and a window retired: nothing of them is left in the folder, and the audit ends as before."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ragseal.kernel import signature
from ragseal.kernel.errors import AttestationError, AuditError, CommitmentError, ConfigurationError
from ragseal.kernel.thinning import ThinnedFile
from ragseal.prover import retiring
from ragseal.prover.__main__ import main
from ragseal.prover.administration import access
from ragseal.prover.administration.operations import Reading
from ragseal.prover.administration.remote import Remote
from ragseal.prover.attestation import answering
from ragseal.prover.attestation.proofs import stop_key
from ragseal.prover.commitment import documents
from ragseal.prover.commitment.corpora import Document
from ragseal.prover.commitment.index import Thinned
from ragseal.prover.provider import Backends
from ragseal.prover.storage import erasure, fsck, retired_check, window_secrets
from ragseal.prover.storage.retirement import DEFAULT_RETAIN, LATEST, MOST_RETAIN, is_retired, set_retain
from ragseal.prover.storage.state import State
from ragseal.verifier.steps.sample import Sample
from tests.attacks.checks import without
from tests.attacks.removal import Both, Check, Guard
from tests.simulator import provider as scene
from tests.simulator.keys import TINY
from tests.simulator.live import Live, live
from tests.simulator.marked import MARK, found_in, marks, row_of, texts

pytestmark = pytest.mark.slow

SAYS_SO_FIRST = Check(answering, "require_kept")
LOADS_NOTHING = Check(window_secrets, "require_kept")
IS_OVER = Guard(retiring.Retiring, "named", "is not closed")
NOT_THINNED = Guard(window_secrets, "store_thinned", "retired meanwhile")
STAYS_OUT = Check(documents.tombstones, "erased_of", lambda *_: lambda name: False)
TABLES = ("version_texts", "queries", "prepared", "versions", "thinnings", "windows")
SCRUBBED = Check(State, "scrub", lambda self: True)


def silent(*_: object) -> None:
    """No progress shown."""


def folder_of(made: Live) -> Path:
    return made.folder / "provider"


@pytest.fixture(params=[False, True], ids=["every-list", "until-delivered"])
def closed(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Live]:
    """A closed window in which accounts asked for the marked document."""
    with live(tmp_path, coins=request.param, texts=texts) as made:
        for name, query in (("alice", f"acme {MARK}"), ("bob", "report about topic 3"), ("carol", f"globex {MARK}")):
            with made.client(name=name) as client:
                client.ask(query)
        made.clock.now += 600
        made.end_window()
        yield made


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Live]:
    """An open window."""
    with live(tmp_path, texts=texts) as made:
        yield made


def retire(made: Live) -> None:
    with Remote(folder_of(made)) as there:
        assert there.retire("w1", True, False, silent).values["purged"] is True


async def looked(made: Live) -> None:
    """One look for what is due, as the serving provider takes it every minute."""
    await made.server.serving.retire_due()


def examine_coined(folder: Path) -> fsck.Report:
    provider = scene.open_provider(folder, coins=True)
    try:
        return fsck.examine(provider, whole=True)
    finally:
        provider.close()


def test_a_retired_window_passes_its_audit_and_holds_nothing_any_more(closed: Live) -> None:
    before = closed.audited()
    assert before.verdict == "PASS", before.line()
    state, purging = closed.provider.state, closed.server.serving.retiring
    found = found_in(folder_of(closed), *marks())
    assert {needle for _, needle in found} == set(marks()), "the needles are the wrong ones"
    with Remote(folder_of(closed)) as there:
        told = there.erase_document("acme", "acme-marked-id-77", "art. 17")
        assert told.values["windows"] == 1
        (listed,) = there.list_erasures("", "").values["erasures"]
        assert listed["id"] == "acme-marked-id-77"
        assert listed["purged"] is None
        assert [one["window"] for one in listed["waits_for"]] == ["w1"]
        there.retire("w1", True, False, silent)
        (listed,) = there.list_erasures("", "acme-marked-id-77").values["erasures"]
        assert (listed["id"], listed["waits_for"]) == (None, [])
        assert listed["purged"] is not None
        assert there.list_erasures("", "another").values["erasures"] == []
    assert not purging.pending
    assert found_in(folder_of(closed), *marks()) == []
    after = closed.audited()
    assert after.verdict == "PASS", after.line()
    assert after.line() == before.line()
    closed.restart()
    assert closed.audited().line() == before.line()
    assert state is not closed.provider.state


def test_a_request_that_comes_again_is_refused_and_its_receipt_stays(one: Live) -> None:
    with one.client(name="alice") as client:
        result = client.ask("report about topic 5")
    signed = result.record.signed.encode()
    assert one.call(scene.retrieved(one.server.serving, signed))
    one.end_window()
    retire(one)
    for _ in range(2):
        with pytest.raises(AttestationError, match=r"this window is retired.*receipts stay valid"):
            one.call(scene.retrieved(one.server.serving, signed))
    result.receipt.verify(one.provider.public_key)
    with without(Both((SAYS_SO_FIRST, LOADS_NOTHING))), pytest.raises(AuditError, match="cannot be read"):
        one.call(scene.retrieved(one.server.serving, signed))


def test_a_sample_that_was_not_asked_for_before_ends_without_a_verdict(one: Live) -> None:
    """NO VERDICT and never FAIL, with a way out; what was delivered before is delivered again byte for byte."""
    for name in ("alice", "bob", "carol"):
        with one.client(name=name) as client:
            client.ask("report about topic 5")
    one.end_window()
    serving, digest = one.server.serving, one.window.digest
    given = one.call(scene.batch(serving, digest, [0, 1]))
    retire(one)
    assert one.call(scene.batch(serving, digest, [0, 1])) == given
    one.restart()
    assert one.call(scene.batch(one.server.serving, digest, [0, 1])) == given
    with pytest.raises(AttestationError, match="is retired"):
        one.call(scene.batch(one.server.serving, digest, [1]))
    sampled = one.audited(sample=Sample(1))
    assert sampled.verdict == "NO VERDICT", sampled.line()
    assert "a full audit is given the proofs that were made before" in str(sampled.obstacle)
    assert one.audited().verdict == "PASS"


def test_windows_are_retired_by_themselves_and_no_later_than_a_month(one: Live) -> None:
    serving, digest, state = one.server.serving, one.window.digest, one.provider.state
    with one.client(name="alice") as client:
        client.ask("report about topic 5")
    one.end_window()
    closed = scene.newest(serving).close
    assert closed is not None

    def after(seconds: int) -> bool:
        one.clock.now = closed.time + seconds
        one.call(looked(one))
        return is_retired(state, digest)

    assert not after(DEFAULT_RETAIN - 1)
    stop_key(state, one.window.manifest.key_digest, "a test")
    assert not after(DEFAULT_RETAIN), "it was retired without its proofs"
    assert not after(LATEST - 1)
    assert after(LATEST)
    assert state.rows("SELECT * FROM version_texts WHERE manifest = ?", (digest,)) == []
    assert one.audited().verdict == "NO VERDICT"


def test_a_window_is_kept_as_long_as_the_operator_says(one: Live) -> None:
    state, digest = one.provider.state, one.window.digest
    for seconds in (-1, MOST_RETAIN + 1):
        with pytest.raises(ConfigurationError, match="at most 29d"):
            set_retain(state, seconds, bytes(32))
    set_retain(state, 3600, bytes(32))
    one.end_window()
    one.clock.now += 3600 - 60
    one.call(looked(one))
    assert not is_retired(state, digest)
    one.clock.now += 180
    one.call(looked(one))
    assert is_retired(state, digest)


def test_what_is_not_retired(one: Live) -> None:
    """An open window, none, one before its time unless the operator says so, one that cannot be proven, one twice."""
    with Remote(folder_of(one)) as there:

        def refused(why: str, window: str = "w1", agreed: bool = True, unproven: bool = False) -> None:
            with pytest.raises(AuditError, match=why):
                there.retire(window, agreed, unproven, silent)
            assert one.provider.state.rows("SELECT * FROM retirements") == []

        refused("is not closed")
        with without(IS_OVER), pytest.raises(CommitmentError, match="is not closed"):
            one.server.serving.retiring.retire(one.window)
        with one.client(name="alice") as client:
            client.ask("report about topic 5")
        one.end_window()
        refused("holds no window", "w7")
        refused("name the window", "")
        refused("Retired now, it answers no request again.*--yes", agreed=False)
        stop_key(one.provider.state, one.window.manifest.key_digest, "a test")
        refused("nothing was purged. --unproven")
        assert there.retire("w1", True, True, silent).values == {"window": "w1", "purged": True}
        with pytest.raises(CommitmentError, match="retired already"):
            there.retire("w1", True, False, silent)
        assert [(w["window"], w["retired"]) for w in there.status().values["windows"]] == [("w1", True)]
    verdict = one.audited()
    assert verdict.verdict == "NO VERDICT", verdict.line()


def test_a_source_does_not_bring_back_what_was_erased_and_the_operator_can(one: Live, tmp_path: Path) -> None:
    source = tmp_path / "source.jsonl"
    source.write_text("".join(json.dumps({"id": name, "text": f"text of {name}"}) + "\n" for name in ("s0", "s1")))
    state = one.provider.state

    def slots() -> dict[str, int]:
        return dict(state.rows("SELECT document, slot FROM documents WHERE document LIKE 's_'"))

    with Remote(folder_of(one)) as there:
        sync = lambda: there.sync_documents(Reading("acme", f"jsonl:{source}"), silent, threading.Event())  # noqa: E731
        assert sync().values["added"] == 2
        before = slots()
        there.erase_document("acme", "s0", "art. 17")
        one.call(looked(one))
        (listed,) = there.list_erasures("acme", "s0").values["erasures"]
        assert listed["purged"] is not None, "no window has it"
        assert listed["id"] is None
        source.write_text("".join(json.dumps({"id": f"s{i}", "text": f"new text of s{i}"}) + "\n" for i in (0, 1)))
        done = sync()
        assert (done.values["erased"], done.values["changed"], done.values["added"]) == (1, 1, 0)
        assert "1 were erased here and stay out" in done.text
        assert slots() == {"s1": before["s1"]}
        with without(STAYS_OUT):
            assert sync().values["added"] == 1  # what that would have come to
        there.erase_document("acme", "s0", "again")
        assert there.put_documents("acme", [Document("s0", "asked for anew")], silent).values["added"] == 1
        assert slots() == before, "it has another coin"
        assert sync().values["changed"] == 1


def test_refused_erasures_change_nothing(one: Live) -> None:
    state = one.provider.state
    tables = ("documents", "resting", "erasures", "erased", "erasure_windows", "tenants")
    before = [state.rows(f"SELECT * FROM {table}") for table in tables]
    with Remote(folder_of(one)) as there:
        for name, reason, why in (
            ("nothing", "art. 17", "has no document 'nothing'"),
            ("acme-1", "", "1 to 200 printable"),
            ("acme-1", "x" * 201, "1 to 200 printable"),
            ("acme-1", "two\nlines", "1 to 200 printable"),
        ):
            with pytest.raises(CommitmentError, match=why):
                there.erase_document("acme", name, reason)
        with pytest.raises(CommitmentError, match="tenant name"):
            there.erase_document("", "acme-1", "art. 17")
    assert [state.rows(f"SELECT * FROM {table}") for table in tables] == before


def test_a_document_that_was_deleted_before_is_erased_from_the_windows_that_have_it(one: Live) -> None:
    with Remote(folder_of(one)) as there:
        there.delete_documents("acme", ["acme-1"])
        assert there.erase_document("acme", "acme-1", "art. 17").values["windows"] == 1
        (listed,) = there.list_erasures("", "").values["erasures"]
        assert (listed["out_of_answers"], listed["purged"]) == (None, None)
        one.end_window()
        (listed,) = there.list_erasures("", "").values["erasures"]
        assert listed["out_of_answers"] is not None
        assert listed["purged"] is None
        copy = one.folder / "copy"
        there.backup(copy, silent)
        retire(one)
        (listed,) = there.list_erasures("", "").values["erasures"]
        assert listed["backups"] == [str(copy)]
        assert "delete them" in there.list_erasures("", "").text


def test_pages_and_files_are_overwritten_and_not_only_let_go_of(one: Live) -> None:
    one.end_window()
    (name, *_) = [name for (name,) in one.provider.state.rows("SELECT matrix FROM versions WHERE tenant = 'acme'")]
    kept = one.folder / "kept.npy"
    os.link(folder_of(one) / "windows" / name, kept)
    assert found_in(one.folder, row_of("acme"))
    with without(SCRUBBED):
        with Remote(folder_of(one)) as there:
            there.erase_document("acme", "acme-marked-id-77", "art. 17")
        retire(one)
        assert found_in(folder_of(one), *marks()), "nothing was left to be scrubbed: this test shows nothing"
    assert set(kept.read_bytes()) == {0}
    assert one.provider.state.scrub()
    assert found_in(folder_of(one), *marks()) == []


def test_a_copy_that_is_being_made_is_waited_for(one: Live) -> None:
    """It still reads what was there, so the write-ahead log stays; the next look purges it."""
    one.end_window()
    state = one.provider.state
    reader = sqlite3.connect(folder_of(one) / "state.db", check_same_thread=False)
    reader.execute("BEGIN")
    reader.execute("SELECT COUNT(*) FROM documents").fetchall()
    with Remote(folder_of(one)) as there:
        there.erase_document("acme", "acme-marked-id-77", "art. 17")
        assert there.retire("w1", True, False, silent).values["purged"] is False
        (listed,) = there.list_erasures("", "").values["erasures"]
        assert listed["purged"] is None
        reader.rollback()
        reader.close()
        one.call(looked(one))
        (listed,) = there.list_erasures("", "").values["erasures"]
        assert listed["purged"] is not None
    assert found_in(folder_of(one), *marks()) == []
    assert state.rows("SELECT 1 FROM retirements WHERE ended IS NULL") == []


def test_coins_outlive_the_window_that_threw_them_until_others_are_thrown(tmp_path: Path) -> None:
    """A.11.9: the next window carries on the coins of a retired one; once a newer throw is there, the seed goes too."""
    folder, clock = tmp_path / "p", scene.Clock()

    async def window(name: str, new_coins: bool = False) -> bytes:
        provider = scene.open_provider(folder, clock, coins=True, estimate=True)
        start = int(clock.now)
        policy = replace(scene.coined_policy(), opens=start, closes=start + 600, period_start=scene.NOW)
        provider.commit(policy, name, new_coins=new_coins)
        async with scene.serving_on(provider) as serving:
            made = await scene.open_window(serving)
            await scene.Asker("alice", serving).ask(f"report about topic 3 in {name}")
            await serving.close_window(made.digest, signature.sign(provider.state.key, "close", made.digest))
            clock.now = start + 600
            serving.retiring.prove(made)
            serving.retiring.retire(made)
            assert await serving.sweep()
            return made.manifest.coin_period

    def coins() -> list[str]:
        provider = scene.open_provider(folder, clock, coins=True)
        query = "SELECT name FROM windows WHERE coin_seed IS NOT NULL ORDER BY name"
        found = [name for (name,) in provider.state.rows(query)]
        provider.close()
        return found

    first = asyncio.run(window("w1"))
    assert coins() == ["w1"]
    assert asyncio.run(window("w2")) == first
    assert coins() == ["w1"]
    assert asyncio.run(window("w3", new_coins=True)) != first
    assert coins() == ["w3"]
    assert examine_coined(folder).findings == []


def test_fsck_sees_what_is_left_of_a_retired_window_and_what_is_missing(one: Live) -> None:
    one.end_window()
    retire(one)
    state, digest = one.provider.state, one.window.digest

    def problems() -> list[str]:
        return list(retired_check.problems(state, one.window))

    assert problems() == []
    assert fsck.check_start(one.provider).findings == []
    with state.transaction() as db:  # what was under way when the window ended is not stored any more
        db.execute("INSERT INTO queries VALUES (?, 'a', 1, x'', x'')", (digest,))
        db.execute("INSERT INTO prepared VALUES (x'01', ?, x'')", (digest,))
    assert problems() == []
    with state.transaction() as db:
        db.execute("DROP TRIGGER retired_query")
        db.execute("DROP TRIGGER retired_prepare")
    rows = {table: state.rows(f"SELECT * FROM {table}") for table in TABLES}
    for change, why in (
        ("INSERT INTO version_texts VALUES (:m, 0, 'acme', 1, 'd', 't', x'', x'', NULL)", "texts of it are left"),
        ("INSERT INTO queries VALUES (:m, 'a', 1, x'', x'')", "secrets of queries"),
        ("INSERT INTO prepared VALUES (x'01', :m, x'')", "embeddings"),
        ("UPDATE versions SET secret = x'01' WHERE manifest = :m", "salts, blinders or matrices"),
        ("INSERT INTO thinnings VALUES (:m, 'acme', x'01', x'', x'')", "hidden slots"),
        ("UPDATE windows SET seed = x'01' WHERE manifest = :m", "seeds"),
        ("UPDATE versions SET public = x'01' WHERE manifest = :m", "columns of tenant"),
        ("DELETE FROM versions WHERE manifest = :m", "columns of tenant"),
    ):
        with state.transaction() as db:
            db.execute(change, {"m": digest})
        assert [line for line in problems() if why in line], change
        with pytest.raises(ConfigurationError, match="this state is damaged"):
            fsck.check_start(one.provider)
        with state.transaction() as db:
            for table, kept in rows.items():
                db.execute(f"DELETE FROM {table}")
                for row in kept:
                    db.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
    assert problems() == []


def test_a_window_that_was_passed_over_is_purged_and_no_thinning_of_it_is_stored(tmp_path: Path) -> None:
    with live(tmp_path, coins=True, texts=texts, opened=False) as made:
        first = made.provider.journal.history.newest
        assert first is not None
        kept = made.provider.window_secrets(first.digest)
        made.provider.commit(scene.coined_policy(), "w2")
        made.call(looked(made))
        assert is_retired(made.provider.state, first.digest)
        opening = kept.versions["acme"].public.opening
        thinned = Thinned(
            (), (), ThinnedFile(b"", opening, kept.versions["acme"].public.columns[:64], opening, bytes(256))
        )
        with pytest.raises(CommitmentError, match="retired meanwhile"):
            window_secrets.store_thinned(made.provider.state, first.digest, "acme", thinned)
        with without(NOT_THINNED):
            window_secrets.store_thinned(
                made.provider.state, first.digest, "acme", thinned
            )  # what that would have come to
        assert made.provider.state.rows("SELECT 1 FROM thinnings") != []
        assert kept.coin_seed is not None
        assert made.provider.state.rows("SELECT 1 FROM windows WHERE name = 'w1' AND coin_seed IS NOT NULL") == []


def test_what_a_crash_left_of_a_commit_goes_with_an_erasure(one: Live) -> None:
    """A window that never entered the ledger has texts too, and so have files that no table names."""
    provider, policy = one.provider, scene.make_policy(opens=scene.NOW + 7200, closes=scene.NOW + 10800)
    one.end_window()
    provider.prepare(policy, "w-left")
    (folder_of(one) / "windows" / ".torn.npy.0123456789abcdef").write_bytes(row_of("acme"))
    with Remote(folder_of(one)) as there:
        assert there.erase_document("acme", "acme-marked-id-77", "art. 17").values["windows"] == 2
    retire(one)
    one.call(looked(one))
    (asked,) = erasure.erasures(provider.state)
    assert asked.purged is not None
    assert found_in(folder_of(one), *marks()) == []
    assert provider.state.rows("SELECT name FROM windows") == [("w1",)]


def test_an_erasure_waits_until_a_window_is_committed(one: Live) -> None:
    """Else it could be committed with a document that no list of windows names."""
    serving = one.server.serving

    async def taken() -> None:
        await serving.committing.acquire()

    one.call(taken())
    done = threading.Event()

    def erase() -> None:
        with Remote(folder_of(one)) as there:
            there.erase_document("acme", "acme-marked-id-77", "art. 17")
        done.set()

    asking = threading.Thread(target=erase)
    asking.start()
    assert not done.wait(1.0)
    provider = one.provider
    made = provider.prepare(scene.make_policy(opens=scene.NOW + 7200, closes=scene.NOW + 10800), "w2")

    async def given_back() -> None:
        await serving.journal.append(lambda: made)
        serving.committing.release()

    one.call(given_back())
    assert done.wait(30)
    asking.join()
    (asked,) = erasure.erasures(provider.state)
    assert set(asked.windows) == {one.window.digest, made.manifest.digest()}


def test_the_commands_do_the_same_where_nobody_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with live(tmp_path, texts=texts) as made:
        with made.client(name="alice") as client:
            client.ask("report about topic 5")
        made.end_window()
        made.stop()
        tools = made.provider.backends
        monkeypatch.setattr(access.assembly, "assemble", lambda state, progress: _reopened(state, tools))
        folder = str(folder_of(made))

        def run(*arguments: str) -> Any:
            done = CliRunner().invoke(main, [*arguments[:-1], "--state", folder, arguments[-1], "--json"])
            assert done.exit_code == 0, done.output
            return json.loads(done.stdout.splitlines()[-1])

        erased = (
            "documents",
            "erase",
            "--tenant",
            "acme",
            "--id",
            "acme-marked-id-77",
            "--reason",
            "art. 17",
            "--json",
        )
        assert run(*erased)["windows"] == 1
        made.clock.now += 60
        assert run("retire", "w1", "--yes") == {"window": "w1", "purged": True}
        (listed,) = run("documents", "erasures", "--json")["erasures"]
        assert listed["purged"] is not None
        assert found_in(folder_of(made), *marks()) == []
        made.restart_after_stop()
        assert made.audited().verdict == "PASS"


def _reopened(state: State, tools: Backends) -> Backends:
    """The same tools on a folder that was opened anew."""
    rings = access.assembly.open_estimate_keys(state, silent)
    return replace(tools, keys=access.assembly.open_keys(state, TINY, silent), estimate_keys=rings)


@pytest.mark.parametrize("present", [True, False])
def test_a_sync_that_began_before_an_erasure_does_not_bring_it_back(tmp_path: Path, present: bool) -> None:
    state = scene.new_state(tmp_path / "p", texts=texts)
    if not present:  # a window has it still
        with state.transaction() as db:
            documents.remove(db, "acme", "acme-1")
            db.execute("INSERT INTO version_texts VALUES (x'01', 0, 'acme', 1, 'acme-1', 'text', x'', x'', NULL)")

    def sync(embed: Any) -> documents.Applied:
        changes = [documents.Put(Document("acme-1", "what the source says"))]
        return documents.apply(state, "acme", changes, embed, os.urandom, scene.SHAPE, source="jsonl:x")

    def meanwhile(names: Any) -> Any:
        erasure.erase(state, "acme", "acme-1", "art. 17", scene.NOW, os.urandom)
        return scene.embed_with(scene.TRIGRAMS)(names)

    with pytest.raises(documents.ChangedMeanwhile):
        sync(meanwhile)
    assert sync(scene.embed_with(scene.TRIGRAMS)).erased == 1
    assert state.rows("SELECT 1 FROM documents WHERE document = 'acme-1'") == []
    state.close()

# SPDX-License-Identifier: GPL-3.0-or-later
"""A window is retired: nothing of its secrets is left in the folder, and the audit ends as before."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel import signature
from ragseal.kernel.beacon import Seat
from ragseal.kernel.coin_proof import CoinPoints, CoinProof
from ragseal.kernel.errors import AttestationError, AuditError, CommitmentError, ConfigurationError
from ragseal.kernel.thinning import ThinnedFile, ThinnedShard
from ragseal.kernel.verdict import AuditVerdict, log_digest
from ragseal.prover.attestation import answering
from ragseal.prover.commitment import window_secrets
from ragseal.prover.commitment.index import Thinned
from ragseal.prover.fsck import fsck, retired_check
from ragseal.prover.serving import retiring
from ragseal.prover.serving.retiring import Retiring
from ragseal.prover.storage.retirement import DAY, DEFAULT_RETAIN, LATEST, MOST_RETAIN, is_retired, set_retain
from ragseal.prover.storage.stopped_keys import stop_key
from ragseal.prover.wire.operator_remote import Remote
from ragseal.runtime.face import when
from ragseal.verifier.steps.sample import Sample
from tests.attacks.checks import without
from tests.attacks.removal import Both, Check, Guard
from tests.prover import erasure_scene
from tests.prover.erasure_scene import examine_coined, folder_of, looked, retire, silent
from tests.simulator import provider as scene
from tests.simulator.claims import claimed
from tests.simulator.live import Live, live
from tests.simulator.marked import MARK, found_in, marks, texts

one = erasure_scene.one

pytestmark = pytest.mark.slow

SAYS_SO_FIRST = Check(answering, "require_kept")

LOADS_NOTHING = Check(window_secrets, "require_kept")

IS_OVER = Guard(retiring.Retiring, "named", "is not closed")

NOT_THINNED = Guard(window_secrets, "store_thinned", "retired meanwhile")

TABLES = ("version_texts", "queries", "prepared", "shard_proofs", "versions", "thinnings", "windows")


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
    with closed.provider.state.transaction() as db:
        db.execute("DELETE FROM window_keys")
    (said,) = retired_check.problems(closed.provider.state, closed.window)
    assert "signing key" in said
    assert closed.audited().verdict == "NO VERDICT", "nobody signs what the audit asks for"


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
    result.receipt.verify(one.provider.journal.history.window(result.record.manifest).manifest.window_key)
    with (
        without(Both((SAYS_SO_FIRST, LOADS_NOTHING))),
        pytest.raises(AuditError, match=r"cannot be read|not a regular file"),
    ):
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


def test_a_window_is_retired_a_day_after_its_closing_once_all_of_its_auditors_have_passed_it(tmp_path: Path) -> None:
    other = Ed25519PrivateKey.generate()
    seats = [
        Seat("auditor", signature.public_bytes(scene.AUDITOR_KEY)),
        Seat("auditor-second", signature.public_bytes(other)),
    ]
    with live(tmp_path, seats=seats) as made:
        serving, digest = made.server.serving, made.window.digest
        made.end_window()
        closed = scene.newest(serving).close
        assert closed is not None

        def handed_in(key: Ed25519PrivateKey, outcome: str, number: int) -> None:
            auditor, said_of = signature.public_bytes(key), (claimed(),) if outcome == "PASS" else ()
            said = AuditVerdict(
                digest, log_digest(made.log_key), auditor, bytes([number]) * 32, outcome, said_of, bytes(64)
            )
            made.call(serving.verdicts.submit(said.signed(key).encode()))

        def due(seconds: int, on_pass: bool = True) -> bool:
            made.clock.now = closed.time + seconds
            return Retiring(made.provider, serving.proofs, serving.estimates, on_pass).due() != []

        handed_in(scene.AUDITOR_KEY, "PASS", 1)
        handed_in(other, "NO-VERDICT", 2)
        assert not due(DEFAULT_RETAIN - 1), "one of two has not passed it"
        handed_in(other, "PASS", 3)
        assert not due(DAY - 1), "accounts may still ask again"
        assert due(DAY)
        assert not due(DEFAULT_RETAIN - 1, on_pass=False)
        handed_in(scene.AUDITOR_KEY, "FAIL", 4)
        assert not due(DEFAULT_RETAIN - 1), "it has failed since"
        assert due(DEFAULT_RETAIN)
        handed_in(scene.AUDITOR_KEY, "PASS", 5)
        set_retain(made.provider.state, 3600, bytes(32))
        assert due(3600), "it is kept longer than without"


def test_a_window_that_nobody_closes_is_closed_a_day_after_its_end_so_that_what_is_erased_goes(
    one: Live, caplog: pytest.LogCaptureFixture
) -> None:
    ends, state = one.window.manifest.policy.closes, one.provider.state
    with one.client(name="alice") as client:
        client.ask(f"acme {MARK}")

    def look(moment: int) -> tuple[bool, bool]:
        one.clock.now = moment
        one.call(looked(one))
        return one.window.close is not None, is_retired(state, one.window.digest)

    with Remote(folder_of(one)) as there:
        there.erase_document("acme", "acme-marked-id-77", "art. 17")
        (waits,) = there.list_erasures("", "").values["erasures"][0]["waits_for"]
        assert (waits["retired_at"], waits["retired_by"]) == (None, ends + DAY + DEFAULT_RETAIN)
        assert f"(open), retired {when(ends + DAY + DEFAULT_RETAIN)} at the latest" in there.list_erasures("", "").text
    assert look(ends + DAY - 1) == (False, False)
    assert look(ends + DAY) == (True, False)
    assert "nobody closed it: it is closed now" in caplog.text
    assert one.audited().verdict == "PASS"
    assert look(ends + DAY + DEFAULT_RETAIN) == (True, True)
    assert found_in(folder_of(one), *marks()) == []
    assert one.audited().verdict == "PASS"


def test_a_window_that_never_opened_is_purged_a_day_after_its_end_and_another_one_follows(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with live(tmp_path, texts=texts, opened=False) as made:
        first = made.provider.journal.history.newest
        assert first is not None
        with Remote(folder_of(made)) as there:
            there.erase_document("acme", "acme-marked-id-77", "art. 17")
            made.clock.now = first.manifest.policy.closes + DAY - 1
            made.call(looked(made))
            assert not is_retired(made.provider.state, first.digest)
            made.clock.now += 1
            made.call(looked(made))
            (listed,) = there.list_erasures("", "").values["erasures"]
            assert listed["purged"] == made.clock.now
        assert found_in(folder_of(made), *marks()) == []
        caplog.clear()
        made.restart()
        now = int(made.clock.now) // 60 * 60
        policy = scene.make_policy(opens=now + 60, closes=now + 3600)
        made.provider.commit(policy, "w2", auditors=first.manifest.auditors)
        made.clock.now = now + 120
        made.open()
        with made.client(name="alice") as client:
            assert client.ask("report about topic 5").record.signed.request.window == "w2"
        assert "until when it could open: commit a new window" in caplog.text
        assert "retired" not in caplog.text


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
        db.execute("INSERT INTO shard_proofs VALUES (?, 0, 0, x'')", (digest,))
    assert problems() == []
    with state.transaction() as db:
        db.execute("DROP TRIGGER retired_query")
        db.execute("DROP TRIGGER retired_prepare")
        db.execute("DROP TRIGGER retired_shard_proof")
    rows = {table: state.rows(f"SELECT * FROM {table}") for table in TABLES}
    for change, why in (
        ("INSERT INTO version_texts VALUES (:m, 0, 'acme', 1, 'd', 't', x'', x'', NULL)", "texts of it are left"),
        ("INSERT INTO queries VALUES (:m, 'a', 1, x'', x'')", "secrets of queries"),
        ("INSERT INTO prepared VALUES (x'01', :m, x'')", "embeddings"),
        ("INSERT INTO shard_proofs VALUES (:m, 0, 0, x'')", "proofs of shards"),
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
        point = kept.versions["acme"].public.columns[:64]
        shown = CoinProof(CoinPoints((point,), (point,), (point,), point), bytes(256), opening, opening)
        shard = ThinnedShard(point, shown)
        thinned = Thinned((), (), ThinnedFile(b"", opening, (shard,)))
        with pytest.raises(CommitmentError, match="retired meanwhile"):
            window_secrets.store_thinned(made.provider.state, first.digest, "acme", thinned)
        with without(NOT_THINNED):
            window_secrets.store_thinned(
                made.provider.state, first.digest, "acme", thinned
            )  # what that would have come to
        assert made.provider.state.rows("SELECT 1 FROM thinnings") != []
        assert kept.coin_seed is not None
        assert made.provider.state.rows("SELECT 1 FROM windows WHERE name = 'w1' AND coin_seed IS NOT NULL") == []

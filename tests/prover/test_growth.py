# SPDX-License-Identifier: GPL-3.0-or-later
"""Documents beyond an index' places wait, and the next window has room for them."""

from __future__ import annotations

import math
import secrets
from dataclasses import replace
from pathlib import Path

import pytest

from ragseal.kernel import signature
from ragseal.kernel.errors import CommitmentError
from ragseal.prover.administration import status
from ragseal.prover.commitment import document_rows, growth, index, registry
from ragseal.prover.commitment.answer_size import AnswerBound
from ragseal.prover.commitment.corpora import Document
from ragseal.prover.commitment.documents import Applied, Delete, Put, apply
from ragseal.prover.commitment.new_period import new_period
from ragseal.prover.commitment.placement import IndexShape
from ragseal.prover.serving import committing
from ragseal.prover.storage.state import State
from tests.classes import DECOYS
from tests.simulator import provider as scene
from tests.simulator.live import Live, live

SHAPE = IndexShape(DECOYS.N, scene.DIMENSION, most=DECOYS.S * DECOYS.N)
POLICY = f"""class = "{DECOYS.name}"
claim = "until-delivered"
unseen = {scene.UNSEEN}
return = 4.5
ids = 5
lo = 0.2
n_max = 6
k_max = 2
delta = "1/1000000"
"""
KEPT = scene.documents("acme", 40)
MORE = [Document(f"late-{n}", f"acme letter number {n} of the late shift") for n in range(30)]  # 10 have no place


def put(state: State, *changes: Put | Delete, shape: IndexShape = SHAPE) -> Applied:
    return apply(state, "acme", changes, scene.embed_with(scene.TRIGRAMS), secrets.token_bytes, shape)


@pytest.fixture
def state(tmp_path: Path) -> State:
    return scene.new_state(tmp_path / "p", {"acme": ["alice"]}, kind=scene.ONE_DECOYS)


def slots(state: State) -> dict[str, int]:
    return {str(name): int(slot) for name, slot in state.rows("SELECT document, slot FROM documents")}


def indexed(state: State) -> set[str]:
    """What a version of the index would hold."""
    return {one.id for one in index.current(state, "acme", DECOYS.N, scene.DIMENSION)[1].values()}


def test_documents_beyond_the_places_wait_and_no_version_holds_them(state: State) -> None:
    done = put(state, *map(Put, MORE))
    assert (done.added, done.waiting) == (30, 10)
    assert growth.waiting(state) == {"acme": 10}
    assert growth.shards_in_use(state, DECOYS) == 1
    assert growth.shards_due(state, DECOYS) == 2
    waiting = {name for name, slot in slots(state).items() if slot < 0}
    assert indexed(state) == set(slots(state)) - waiting
    assert len(indexed(state)) == DECOYS.N
    assert put(state, Put(Document("late-99", "one more"))).waiting == 1
    assert len(set(slots(state).values())) == 71


def test_one_that_waits_is_edited_and_deleted_like_any_other(state: State) -> None:
    put(state, *map(Put, MORE))
    name, slot = min(slots(state).items(), key=lambda one: one[1])
    assert put(state, Put(Document(name, "another text"))) == Applied(changed=1)
    assert slots(state)[name] == slot
    assert put(state, Delete(name)) == Applied(deleted=1)
    assert state.row("SELECT COUNT(*) FROM resting") == (0,)  # it had no place that could rest
    assert put(state, Put(Document(name, "back"))).waiting == 1
    assert put(state, Delete(name), Put(Document(name, "again"))) == Applied(changed=1, waiting=1)
    with state.transaction() as db:
        document_rows.remove(db, "acme", name)
    assert state.row("SELECT COUNT(*) FROM resting") == (0,)


def test_no_more_documents_wait_than_the_largest_index_holds(state: State) -> None:
    most = DECOYS.S * DECOYS.N
    with pytest.raises(CommitmentError, match=rf"141 new documents .* has 40: .* {most} places at most. None of them"):
        put(state, *(Put(Document(f"n{n}", "text")) for n in range(most - 39)))
    assert len(slots(state)) == 40
    assert put(state, *(Put(Document(f"n{n}", "text")) for n in range(most - 40))).waiting == most - DECOYS.N
    assert growth.shards_due(state, DECOYS) == DECOYS.S  # without the head-room that no class has


def test_an_index_that_does_not_grow_takes_no_more_than_it_has_places_for(state: State) -> None:
    """Of a claim whose histograms have one shard."""
    with pytest.raises(CommitmentError, match=r"30 new documents .* 20 of 60 places are unused"):
        put(state, *map(Put, MORE), shape=IndexShape(DECOYS.N, scene.DIMENSION))
    put(state, *map(Put, MORE))  # of a claim before it, whose documents still wait
    put(state, Delete(KEPT[0].id))
    with pytest.raises(CommitmentError, match=r"1 new documents .* 0 of 60 places are unused in this period \(1 rest"):
        put(state, Put(Document("one-more", "text")), shape=IndexShape(DECOYS.N, scene.DIMENSION))


def test_a_new_period_places_as_many_as_it_can(state: State) -> None:
    put(state, *map(Put, MORE))
    placed = indexed(state)
    new_period(state, "acme", SHAPE, secrets.token_bytes)
    assert indexed(state) == placed  # those that were there first
    assert growth.waiting(state) == {"acme": 10}
    new_period(state, "acme", IndexShape(2 * DECOYS.N, scene.DIMENSION), secrets.token_bytes)
    assert growth.waiting(state) == {}
    assert sorted(slots(state)) == sorted(one.id for one in (*KEPT, *MORE))
    assert len(set(slots(state).values())) == 70
    assert min(slots(state).values()) >= 0
    assert growth.shards_in_use(state, DECOYS) == 2
    assert put(state, Put(Document("after", "of the old shape"))).waiting == 0  # the period's capacity counts


def test_those_that_have_waited_longest_are_placed_first(state: State) -> None:
    put(state, *map(Put, MORE))
    put(state, *(Delete(one.id) for one in KEPT[:4]))
    new_period(state, "acme", SHAPE, secrets.token_bytes)
    waited = [one.id for one in MORE[20:]]
    assert indexed(state) >= set(waited[:4])
    assert {name for name, slot in slots(state).items() if slot < 0} == set(waited[4:])


def commit(window: Live, name: str, agreed: float | None = math.inf) -> str:
    return window.call(committing.commit_while_serving(window.server.serving, POLICY.encode(), name, agreed)).text  # type: ignore[no-any-return]


@pytest.mark.slow
def test_the_next_window_has_as_many_shards_as_the_documents_need(tmp_path: Path) -> None:
    """Real proofs, both windows audited: what waited is found in the second, under coins of its own."""
    with live(tmp_path, kind=scene.ONE_DECOYS, coins=True, tenants={"acme": ["alice"]}) as window:
        state = window.provider.state
        put(state, *map(Put, MORE))
        assert "60 of 60 places were used in this period, and 10 documents wait" in status.status(window.provider).text
        with window.client() as client:
            client.ask("acme report number 1 about topic 7")
        window.end_window()
        assert window.audited().verdict == "PASS"
        first = window.window
        window.clock.now += 90_000
        commit(window, "w2")
        window.open()
        second = window.window.manifest
        assert (first.manifest.policy.shards, second.policy.shards) == (1, 2)
        assert second.coin_period == window.window.digest
        assert growth.waiting(state) == {}
        assert "wait" not in status.status(window.provider).text
        with window.client() as client:
            answers = [client.ask(f"acme letter number {n} of the late shift") for n in (3, 4)]
        assert any("late shift" in text for one in answers for text in one.texts)
        window.end_window()
        verdict = window.audited()
        assert verdict.verdict == "PASS", verdict.line()
        assert verdict.steps[3].evidence["capacity"] == 2 * DECOYS.N
        assert "periods=2" in verdict.line()  # coins were thrown twice in this budget period


@pytest.mark.slow
def test_an_epsilon_that_nobody_named_makes_no_index_grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Coins are carried on, documents go on waiting, and whoever commits is told."""
    monkeypatch.setattr("ragseal.prover.planning.consent.ASK_ABOVE", 2)
    with live(tmp_path, kind=scene.ONE_DECOYS, coins=True, tenants={"acme": ["alice"]}) as window:
        put(window.provider.state, *map(Put, MORE))
        window.end_window()
        window.clock.now += 90_000
        said = commit(window, "w2", 2)
        assert "10 documents go on waiting for a place, since a larger index is refused" in said
        assert "--yes-epsilon-is" in said
        made = window.provider.journal.history.named("w2").manifest
        assert made.policy.shards == 1
        assert made.coin_period == window.window.digest
        assert growth.waiting(window.provider.state) == {"acme": 10}


@pytest.mark.slow
def test_a_window_that_cannot_be_committed_places_nothing_afresh(tmp_path: Path) -> None:
    """Else the coins of before could not be carried on, and the open window's index would take no new documents."""
    with live(tmp_path, kind=scene.ONE_DECOYS, coins=True, tenants={"acme": ["alice"]}, unseen=3) as window:
        state = window.provider.state
        put(state, *map(Put, MORE))
        key = signature.public_bytes(scene.account_key("bob"))
        registry.add_accounts(state, [registry.Registration("bob", "nowhere", key)])
        before = slots(state)
        with pytest.raises(CommitmentError, match="tenant 'nowhere' of account 'bob' has no documents"):
            commit(window, "w2")
        assert slots(state) == before


@pytest.mark.slow
def test_a_window_that_would_overlap_places_nothing_afresh(tmp_path: Path) -> None:
    """It is refused before documents get other places and columns are made."""
    with live(tmp_path, kind=scene.ONE_DECOYS, coins=True, tenants={"acme": ["alice"]}, unseen=3) as window:
        provider = window.provider
        opens = window.window.manifest.policy.opens - 60
        window.end_window()
        before = slots(provider.state)
        with pytest.raises(CommitmentError, match="would open before 'w1' ended: windows do not overlap"):
            provider.prepare(scene.coined_policy(opens=opens), "w2", new_coins=True)
        assert slots(provider.state) == before


@pytest.mark.slow
def test_an_index_whose_longer_lists_could_not_be_sent_does_not_grow(tmp_path: Path) -> None:
    """Lists grow with the index: the window is committed as large as it was, and not refused."""
    with live(tmp_path, kind=scene.ONE_DECOYS, coins=True, tenants={"acme": ["alice"]}, unseen=3) as window:
        policy = window.provider.journal.history.named("w1").manifest.policy
        most, ids = 26_000, DECOYS.most_listed(policy.ids, 1, policy.decoy_rate)
        window.provider.environment = replace(window.provider.environment, answer_bytes=most)
        shape = replace(SHAPE, answers=AnswerBound(ids, DECOYS.N, most))
        long = [Put(Document(one.id, one.text + " of" * 333)) for one in MORE]
        assert put(window.provider.state, *long, shape=shape).waiting == 10
        window.end_window()
        window.clock.now += 90_000
        said = commit(window, "w2")
        assert "10 documents go on waiting for a place, since a larger index is refused: an answer returns" in said
        assert window.provider.journal.history.named("w2").manifest.policy.shards == 1

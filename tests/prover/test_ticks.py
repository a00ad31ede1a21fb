# SPDX-License-Identifier: GPL-3.0-or-later
"""The live index: documents come, change and go while accounts ask, and every answer is from the right version."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragseal.backends.group import default_group
from ragseal.kernel.attestation import SignedRequest
from ragseal.kernel.encoding import peek_tag
from ragseal.kernel.errors import AttestationError, ConfigurationError
from ragseal.kernel.proofs import ProofBatch
from ragseal.prover.administration import backup, status
from ragseal.prover.administration.documents import shape_of
from ragseal.prover.commitment import room, slots, texts
from ragseal.prover.commitment.columns import commit_columns, move_columns
from ragseal.prover.commitment.corpora import Document
from ragseal.prover.commitment.documents import Delete, Put, apply
from ragseal.prover.commitment.index import Columns
from ragseal.prover.fsck import fsck
from ragseal.prover.provider.backends import Environment
from ragseal.prover.serving import health
from ragseal.prover.serving.serving import Serving
from ragseal.prover.storage.journal import read_entries
from ragseal.prover.storage.state import State
from tests import simulator
from tests.simulator.provider import (
    SHAPE,
    Asker,
    Clock,
    TrigramEmbedder,
    batch,
    coined_policy,
    embed_with,
    newest,
    open_provider,
    opened,
    retrieved,
    serving_on,
    window_on,
)
from tests.simulator.rolling import Running, rolling, schedule, until_open
from tests.simulator.ticking import EVERY, Ticking, ticking

pytestmark = pytest.mark.slow

QUESTION = "acme report about topic 7"


def write_edition(live: Ticking, edition: str) -> None:
    """Every document of the tenant says which edition it is of."""
    live.put(*((f"acme-{i}", f"{edition}: acme report number {i} about topic {i * 7 % 13}") for i in range(40)))


def shown(live: Ticking, client: object) -> set[str]:
    """First words of all texts that an account reads."""
    result = client.ask(QUESTION)  # type: ignore[attr-defined]
    return {one.text.split(":")[0] for one in result.ranked if one.text}


@pytest.mark.parametrize(("coins", "looked_up"), [(False, False), (True, False), (True, True)])
def test_documents_change_and_go_while_an_account_asks_and_the_window_passes(
    tmp_path: Path, coins: bool, looked_up: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if looked_up:  # as texts of large indices are, by versions that are made as much as by those that answer
        monkeypatch.setattr(texts, "IN_MEMORY", 0)
        monkeypatch.setattr(slots, "PART", 7)
    with ticking(tmp_path, coins=coins, gain=2, n_max=6) as live, live.client() as client:
        assert [one.number for one in live.updates] == [1]
        assert client.ask(QUESTION)
        for edition in ("first", "second"):
            write_edition(live, edition)
            live.tick()
            assert shown(live, client) <= {edition}
            write_edition(live, "not yet")
            assert shown(live, client) <= {edition}
        live.delete(*(f"acme-{i}" for i in range(40)))
        live.put(("fresh", "fresh: a single document about topic 7"))
        live.tick()
        assert shown(live, client) <= {"fresh"}
        assert [one.number for one in live.updates] == [1, 2, 3, 4]
        live.clock.now += 60
        live.end_window()
        verdict = live.audited()
        assert verdict.verdict == "PASS", verdict.line()
        assert ("late=unproven" in verdict.line()) == coins


def run(folder: Path, action: Callable[[Serving, Clock], Awaitable[None]], **options: Any) -> None:
    """Something with a provider whose window has just opened, and with its clock."""

    async def started() -> None:
        clock = Clock()
        async with window_on(folder, clock, **{"version_every": EVERY, **options}) as serving:
            await action(serving, clock)

    asyncio.run(started())


async def tick(serving: Serving, clock: Clock) -> None:
    clock.now += EVERY
    await serving.ticks.step()


async def opened_request(serving: Serving, asker: Asker, query: str) -> SignedRequest:
    """Prepared and signed over the version that is the newest now."""
    message = asker.message(query)
    return asker.request(message, await asker.prepare(message))


def test_what_was_prepared_is_finished_over_the_version_before_and_refused_after_the_next(tmp_path: Path) -> None:
    async def action(serving: Serving, clock: Clock) -> None:
        alice, bob = Asker("alice", serving), Asker("bob", serving)
        first = await opened_request(serving, alice, "topic 3")
        late = await opened_request(serving, bob, "topic 3")
        await tick(serving, clock)
        answer = opened(await retrieved(serving, first.encode()))
        window = newest(serving)
        assert window.number_of(answer.record.signed.request.index_digest) == 1
        await tick(serving, clock)
        with pytest.raises(AttestationError, match="older than the two newest"):
            await bob.retrieve(late)
        assert len(window.records) == 1
        assert (await retrieved(serving, first.encode())) is not None  # an answer is made again over an old version

    run(tmp_path, action)


def test_an_overdue_index_answers_nobody_and_records_nothing(tmp_path: Path) -> None:
    async def action(serving: Serving, clock: Clock) -> None:
        alice, window = Asker("alice", serving), newest(serving)
        signed = await opened_request(serving, alice, "topic 3")
        await serving.ticks.making.acquire()  # nothing is made meanwhile
        clock.now += 2 * EVERY
        with pytest.raises(AttestationError, match="ask again in a minute"):
            await alice.retrieve(signed)
        with pytest.raises(AttestationError, match="ask again in a minute"):
            await Asker("bob", serving).ask("topic 4")
        assert not window.records
        serving.ticks.making.release()
        await serving.ticks.step()
        assert [one.number for _, one in window.updates] == [1, 2]  # the tick that went by is not made up for
        assert window.updates[-1][1].time == window.opened_at + 2 * EVERY
        await alice.retrieve(signed)

    run(tmp_path, action)


def test_nobody_is_answered_from_what_the_public_cannot_see(tmp_path: Path) -> None:
    async def action(serving: Serving, clock: Clock) -> None:
        alice, window, public = Asker("alice", serving), newest(serving), serving.journal.public
        assert window.updates[0][0] == public.size - 1  # the first one is public with the opening
        await alice.ask("topic 1")
        await tick(serving, clock)
        assert len(window.updates) == 1  # made, and kept for the coarse tick
        async with serving.ticks.making:  # as while the next one is being made
            await asyncio.wait_for(serving.ticks.publish(), 1.0)
        await serving.ticks.publish()
        assert len(window.updates) == 2
        assert window.updates[1][0] >= public.size
        over = window.number_of((await alice.ask("topic 2")).record.signed.request.index_digest)
        assert over == 1
        public.reveal()
        over = window.number_of((await alice.ask("topic 3")).record.signed.request.index_digest)
        assert over == 2

    run(tmp_path, action, publish=3600.0)


def test_a_provider_that_starts_again_goes_on_with_its_versions(tmp_path: Path) -> None:
    with ticking(tmp_path, gain=2, n_max=6) as live, live.client() as client:
        client.ask(QUESTION)
        write_edition(live, "first")
        live.tick()
        client.ask(QUESTION)
    with_state = State(tmp_path / "provider")
    provider = open_provider(tmp_path / "provider", live.clock, state=with_state)

    async def go_on() -> None:
        async with serving_on(provider) as serving:
            window = newest(serving)
            assert [one.number for _, one in window.updates] == [1, 2]
            await tick(serving, live.clock)
            assert [one.number for _, one in window.updates] == [1, 2, 3]
            assert ProofBatch.decode(await batch(serving, window.digest, [])).links[-1].number == 2
            assert not fsck.examine(provider, True).findings

    asyncio.run(go_on())


def test_documents_that_are_placed_afresh_for_the_next_window_keep_their_slots_in_this_one(tmp_path: Path) -> None:
    """Else they would have two coins: edits and deletions come, new documents wait."""

    async def action(serving: Serving, clock: Clock) -> None:
        provider, window = serving.provider, newest(serving)
        before = provider.windows.of(window.digest).version("acme", next(iter(window.answering("acme"))))
        slots = {text.id: slot for slot, text in before.texts.items()}
        signed = await serving.aside(
            lambda: provider.prepare(coined_policy(opens=int(clock.now) + 600), "w2", new_coins=True)
        )
        assert signed.manifest.window == "w2"
        embed = embed_with(TrigramEmbedder())
        changes = [Put(Document("acme-1", "edited")), Put(Document("new", "new")), Delete("acme-2")]
        apply(provider.state, "acme", changes, embed, Environment().draw, shape_of(provider.state, TrigramEmbedder()))
        await tick(serving, clock)
        now = provider.windows.of(window.digest).version("acme", next(iter(window.answering("acme"))))
        found = {text.id: slot for slot, text in now.texts.items()}
        assert found == {name: slot for name, slot in slots.items() if name != "acme-2"}
        assert now.texts[slots["acme-1"]].text == "edited"
        assert serving.ticks.status()["waiting"] == 1  # type: ignore[index]

    run(tmp_path, action, coins=True)


def test_hidden_slots_are_empty_in_every_version_and_no_two_share_a_blinder(tmp_path: Path) -> None:
    async def action(serving: Serving, clock: Clock) -> None:
        provider, window = serving.provider, newest(serving)
        await tick(serving, clock)
        secrets = provider.window_secrets(window.digest)
        used: list[int] = []
        for tenant in ("acme", "globex"):
            thinned = secrets.versions[tenant].thinned
            assert thinned is not None
            used += [*secrets.versions[tenant].blinders, *thinned.blinders]
            salts = {secrets.versions[tenant].secret}
            for digest in window.answering(tenant):
                version = provider.windows.of(window.digest).version(tenant, digest)
                assert not version.matrix[list(thinned.hidden)].any()
                used += version.blinders
                salts.add(version.secret)
            assert len(salts) == 3
        assert len(set(used)) == len(used)
        sizes = {len(provider.ledger.entry(index)) for index, _ in window.updates}
        assert len(sizes) == 1

    run(tmp_path, action, coins=True)


def test_columns_that_are_moved_are_those_that_are_made_anew() -> None:
    rng = np.random.default_rng(1)
    group, bases = default_group(), simulator.KEY.scores
    old = rng.integers(-127, 128, (simulator.CLS.N, 5), dtype=np.int8)
    for changed in (0, 1, 3, simulator.CLS.N):
        new = old.copy()
        new[:changed] = rng.integers(-127, 128, (changed, 5), dtype=np.int8)
        before, after = [3, 5, 7, 11, 13], [17, 19, 23, 29, 31]
        former = Columns(old, tuple(before), commit_columns(group, bases, old, before))
        assert move_columns(group, bases, former, new, after) == commit_columns(group, bases, new, after)


def test_the_operator_is_told_which_version_is_in_force_and_what_waits(tmp_path: Path) -> None:
    async def action(serving: Serving, clock: Clock) -> None:
        state, embed = serving.provider.state, embed_with(TrigramEmbedder())
        apply(state, "acme", [Put(Document("new", "new")), Delete("acme-2")], embed, Environment().draw, SHAPE)
        told = serving.ticks.status()
        assert told is not None
        assert (told["number"], told["next"], told["waiting"]) == (1, newest(serving).opened_at + EVERY, 2)
        await tick(serving, clock)
        told = serving.ticks.status()
        assert told is not None
        assert (told["number"], told["waiting"]) == (2, 0)
        assert "version 2 is in force" in status.status(serving.provider, health.Running(ticks=told)).text

    run(tmp_path, action)


def test_versions_leave_room_on_the_disk_and_go_on_when_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk would stop the log in the middle of a record: versions stop before, and with them answers."""

    async def action(serving: Serving, clock: Clock) -> None:
        window, free = newest(serving), shutil.disk_usage(tmp_path)
        before = serving.provider.state.rows("SELECT COUNT(*) FROM versions")
        with monkeypatch.context() as patch:
            patch.setattr(shutil, "disk_usage", lambda _: free._replace(free=room.RESERVE))
            clock.now += EVERY
            with pytest.raises(ConfigurationError, match=r"256 MiB are free .* MiB have to be.*make room"):
                await serving.ticks.step()
            assert serving.provider.state.rows("SELECT COUNT(*) FROM versions") == before
            await Asker("alice", serving).ask("topic 1")  # it is not overdue
            clock.now += EVERY
            with pytest.raises(AttestationError, match="ask again in a minute"):
                await Asker("bob", serving).ask("topic 4")
        clock.now += EVERY  # it is not tried again at once
        await serving.ticks.step()
        assert [one.number for _, one in window.updates] == [1, 2]
        await Asker("bob", serving).ask("topic 4")

    run(tmp_path, action)


@pytest.mark.parametrize("coins", [False, True])
def test_the_first_version_stands_right_behind_the_opening_also_in_a_roll_over(tmp_path: Path, coins: bool) -> None:
    clock = Running()
    provider = open_provider(tmp_path / "p", clock, coins=coins)
    plan = schedule(tmp_path, 4.0, coins=coins)
    plan.policy.write_text(plan.policy.read_text() + 'version_every = "1m"\n')

    async def go_on() -> None:
        async with rolling(provider, plan) as server:
            await until_open(server, "w1", 60.0)
            await Asker("alice", server.serving).ask("topic 1")
            await until_open(server, "w2", 60.0)
            await Asker("alice", server.serving).ask("topic 1")
            kinds = [peek_tag(entry) for entry in read_entries(provider.ledger)]
            closing = kinds.index("window-close")
            assert kinds[closing + 1 : closing + 3] == ["window-open", "index-update"]
            assert kinds[kinds.index("window-open") + 1] == "index-update"

    asyncio.run(go_on())


def test_a_copy_has_the_versions_and_goes_on(tmp_path: Path) -> None:
    with ticking(tmp_path, gain=2, n_max=6) as live, live.client() as client:
        client.ask(QUESTION)
        live.tick()
        client.ask(QUESTION)
        copy = tmp_path / "copy"
        backup.make(live.provider.state, live.provider.ledger, copy, lambda *_: None)
        copied = open_provider(copy, live.clock)
        try:
            assert not fsck.examine(copied, True).findings
            window = copied.journal.history.open
            assert window is not None
            assert [one.number for _, one in window.updates] == [1, 2]
        finally:
            copied.close()

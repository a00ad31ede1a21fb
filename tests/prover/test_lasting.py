# SPDX-License-Identifier: GPL-3.0-or-later
"""Whoever deletes a document is told until when a window still answers it, and that is when it stops."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ragseal.kernel.slot_text import Metadata, MetadataPair
from ragseal.prover.administration import documents, erasures, lasting, status
from ragseal.prover.commitment.corpora import Document
from ragseal.prover.commitment.documents import Delete, Put, apply
from ragseal.prover.provider.backends import Environment
from ragseal.prover.serving.serving import ServeOptions, Serving
from ragseal.runtime.face import when
from tests.simulator.provider import SHAPE, TRIGRAMS, Clock, embed_with, make_policy, newest, open_provider, open_window
from tests.simulator.ticking import EVERY

pytestmark = pytest.mark.slow


def test_a_window_of_one_version_answers_a_deleted_document_until_it_ends(tmp_path: Path) -> None:
    provider = open_provider(tmp_path / "p")
    provider.commit(make_policy(), "w1")
    assert lasting.still_answered(provider) == []
    told = documents.delete(provider.state, TRIGRAMS, "acme", ["acme-3"])
    told = lasting.with_rest(provider, "acme", told, ["acme-3"])
    assert "acme: document acme-3 as it was is answered by window w1 once it opens" in told.text

    async def run() -> None:
        serving = Serving(provider, ServeOptions(False, 0.0, publish=0.0))
        await serving.start()
        window = await open_window(serving)
        embed, draw = embed_with(TRIGRAMS), Environment().draw
        apply(provider.state, "acme", [Put(Document("acme-4", "new words"))], embed, draw, SHAPE)
        apply(provider.state, "globex", [Put(Document("more", "more"))], embed, draw, SHAPE)
        (one,) = lasting.still_answered(provider)
        assert (one["tenant"], one["ids"], one["until"]) == ("acme", ["acme-3", "acme-4"], window.closes)
        assert lasting.still_answered(provider, "globex") == []
        said = f"acme: 2 documents as they were are still answered by window w1 until {when(window.closes)}: end it now"
        assert said in status.status(provider).text
        erased = erasures.erase(provider.state, "acme", "acme-5", "art. 17", 0)
        erased = lasting.with_rest(provider, "acme", erased, ["acme-5"])
        assert "acme: document acme-5 as it was is still answered by window w1 until " in erased.text
        await serving.turn(window)
        assert lasting.still_answered(provider) == []
        await serving.stop()

    asyncio.run(run())
    provider.close()


def dated(year: str) -> Metadata:
    return Metadata((MetadataPair("year", year),))


def test_a_document_is_another_one_by_its_metadata_or_its_tenant(tmp_path: Path) -> None:
    """The other tenant still has the very same words under the same id."""
    provider = open_provider(tmp_path / "p")
    embed, draw = embed_with(TRIGRAMS), Environment().draw
    for tenant in ("acme", "globex"):
        puts = [Put(Document("same", "the same words")), Put(Document("dated", "words", dated("2024")))]
        apply(provider.state, tenant, puts, embed, draw, SHAPE)
    provider.commit(make_policy(), "w1")
    apply(provider.state, "acme", [Delete("same")], embed, draw, SHAPE)
    apply(provider.state, "globex", [Put(Document("dated", "words", dated("2025")))], embed, draw, SHAPE)
    found = [(one["tenant"], one["ids"]) for one in lasting.still_answered(provider)]
    assert found == [("acme", ["same"]), ("globex", ["dated"])]
    provider.close()


def test_a_live_index_answers_it_until_a_tick_and_that_tick_ends_it(tmp_path: Path) -> None:
    clock = Clock()
    provider = open_provider(tmp_path / "p", clock)
    provider.commit(make_policy(version_every=EVERY), "w1")
    held = (
        "SELECT COUNT(*) FROM version_texts WHERE document = 'acme-3' AND number <= ? AND (until IS NULL OR until > ?)"
    )

    async def run() -> None:
        serving = Serving(provider, ServeOptions(False, 0.0, publish=0.0))
        await serving.start()
        window = await open_window(serving)
        apply(provider.state, "acme", [Delete("acme-3")], embed_with(TRIGRAMS), Environment().draw, SHAPE)
        (one,) = lasting.still_answered(provider, "acme", ["acme-3"])
        assert (one["until"], one["tick"]) == (window.opened_at + 2 * EVERY, True)
        assert f"until its tick of {when(one['until'])}" in status.status(provider).text
        assert (window.closes - window.opened_at) % EVERY == 0
        for last, by_tick in ((window.closes - 2 * EVERY, True), (window.closes - EVERY, False)):
            clock.now = last  # its end is the last tick that a version may be of
            (one,) = lasting.still_answered(provider)
            assert (one["until"], one["tick"]) == (window.closes, by_tick)
        clock.now = window.opened_at
        for number in (2, 3):
            left = lasting.still_answered(provider)
            assert [one["until"] for one in left] == [window.opened_at + 2 * EVERY]
            clock.now = window.opened_at + (number - 1) * EVERY
            async with asyncio.timeout(60):
                while len(window.updates) < number:
                    await serving.ticks.step()
                    await serving.ticks.publish()
                    await asyncio.sleep(0.01)
        assert clock.now == window.opened_at + 2 * EVERY
        assert lasting.still_answered(provider) == []
        named = [window.numbers[one] for one in window.answering("acme")]
        assert named == [3, 2]
        assert [provider.state.row(held, (number, number)) for number in named] == [(0,), (0,)], "nothing answers it"
        assert newest(serving) is window
        await serving.stop()

    asyncio.run(run())
    provider.close()


def test_a_version_that_is_made_and_not_entered_counts(tmp_path: Path) -> None:
    """It waits for the next public state of the log: what is deleted meanwhile stays in it."""
    clock = Clock()
    provider = open_provider(tmp_path / "p", clock)
    provider.commit(make_policy(version_every=EVERY), "w1")

    async def run() -> None:
        serving = Serving(provider, ServeOptions(False, 0.0, publish=0.0))
        await serving.start()
        window = await open_window(serving)
        embed, draw = embed_with(TRIGRAMS), Environment().draw
        apply(provider.state, "acme", [Put(Document("brief", "soon gone")), Delete("acme-4")], embed, draw, SHAPE)
        begin = window.opened_at

        def told() -> list[tuple[list[str], int]]:
            return [(one["ids"], one["until"] - begin) for one in lasting.still_answered(provider)]

        async def make(number: int) -> None:
            serving.ticks._publish = 60.0
            clock.now = begin + (number - 1) * EVERY
            await serving.ticks.step()
            assert len(window.updates) == number - 1

        async def enter(number: int) -> None:
            async with asyncio.timeout(60):
                while len(window.updates) < number:
                    await serving.ticks.publish()
                    await asyncio.sleep(0.01)

        await make(2)
        apply(provider.state, "acme", [Delete("brief"), Delete("acme-3")], embed, draw, SHAPE)
        before = [(["acme-3", "brief"], 3 * EVERY), (["acme-4"], 2 * EVERY)]
        assert told() == before
        await enter(2)
        assert told() == before
        await make(3)
        assert told() == before, "what is entered counts for what is answered now"
        await enter(3)
        assert told() == before[:1]
        await make(4)
        assert clock.now == begin + before[0][1]
        assert told() == before[:1]
        await enter(4)
        assert told() == []
        await serving.stop()

    asyncio.run(run())
    provider.close()

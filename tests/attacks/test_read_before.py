# SPDX-License-Identifier: GPL-3.0-or-later
"""Neighbouring worlds: how long the texts of an index take to be read moves no instant at which an answer leaves.

The generator of sentences reads all texts of a version.  Somebody who asks first, behind a commitment, a tick or a
restart, must not see how long they are.  In one of the two worlds a document that no question is near is read for
minutes, by the test's clock.  SPEC A.14.7.5.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from ragseal.generators import Sentences, sentences
from ragseal.kernel import signature
from ragseal.kernel.attestation import Record
from ragseal.kernel.errors import CommitmentError, TransportError
from ragseal.prover.attestation import worded
from ragseal.prover.attestation.answers import secrets_of_record
from ragseal.prover.attestation.retrieval import COUNT
from ragseal.prover.commitment.corpora import Document
from ragseal.prover.commitment.documents import Put, apply
from ragseal.prover.commitment.erasure import erase
from ragseal.prover.provider.backends import Environment
from ragseal.prover.provider.provider import Provider
from ragseal.prover.serving.committing import commit_while_serving
from ragseal.prover.serving.serving import Serving
from ragseal.prover.storage.state import COPY
from ragseal.runtime.timer import Timer
from tests.simulator.answered import NAME, QUESTION, SHAPE, WORDS, Counted, answering_provider, answers_policy
from tests.simulator.instants import Instants
from tests.simulator.provider import NOW, TRIGRAMS, Asker, Clock, embed_with, newest, open_window, serving_on

pytestmark = pytest.mark.slow

BY = 2  #: seconds, of the policy
EVERY = 120  #: seconds between two versions, where the index is a live one
SHORT = Document("other", "zzz")
LONG = Document("other", "zzz " * 1000)
SLOW = 0.1  #: seconds that a character takes to be read

POLICY = f"""class = "{NAME}"
claim = "answers"
lo = 0
hi = 20
gain = 12
n_max = 4
k_max = 2
delta = "1/1000000"
estimate = "report"
vocabulary = "{WORDS.root.hex()}"
words_max = 3
participations = 3
similarity = 6e-5
answered_by = {BY}
"""


@dataclass
class World:
    """A provider with the generator of sentences, by instants and a clock of its own."""

    folder: Path
    other: Document
    clock: Clock
    instants: Instants

    def provider(self) -> Provider:
        return answering_provider(self.folder, self.clock, timer=self.instants.timer)

    def put(self, provider: Provider, document: Document) -> None:
        apply(provider.state, "globex", [Put(document)], embed_with(TRIGRAMS), Environment().draw, SHAPE)


Left = list[tuple[float, int]]  #: seconds from a request to its answer, and the time of its record


Worlds = Iterator[World]


@pytest.fixture
def worlds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Worlds:
    """Two, whose texts take differently long; the clock of the one that was taken last moves."""
    found = [World(tmp_path / one.text[:1] / str(len(one.text)), one, Clock(), Instants()) for one in (SHORT, LONG)]
    running, real = [found[0]], sentences._read

    def slow(texts: list[str]) -> Iterator[sentences.ReadText]:
        running[0].instants.now += SLOW * sum(len(text) for text in texts if "zzz" in text)
        return real(texts)

    monkeypatch.setattr(sentences, "_read", slow)

    def each() -> Iterator[World]:
        for running[0] in found:
            running[0].folder.parent.mkdir(exist_ok=True)
            yield running[0]

    return each()


async def left(serving: Serving, asker: Asker, world: World) -> tuple[float, int]:
    """When an answer leaves, in seconds behind its request, and the time of its record."""
    began = world.instants.now
    answer = await asker.ask(QUESTION)
    assert Record.decode(serving.journal.data(newest(serving).records[-1])) == answer.record
    return round(world.instants.now - began, 6), answer.record.time


def differ(worlds: Worlds, scenario: Callable[[World], Left]) -> None:
    """Both worlds give the same, and in each an answer leaves when the policy says."""
    one, other = [scenario(world) for world in worlds]
    assert one == other
    assert [seconds for seconds, _ in one] == [BY] * len(one)


def test_the_first_answer_over_a_window_and_the_first_after_a_restart(worlds: Worlds) -> None:
    def scenario(world: World) -> Left:
        async def run() -> Left:
            provider, found = world.provider(), list[tuple[float, int]]()
            world.put(provider, world.other)
            provider.commit(answers_policy(answered_by=BY), "w1")
            async with serving_on(provider) as serving:
                await open_window(serving)
                carol = Asker("carol", serving)
                found += [await left(serving, carol, world) for _ in range(2)]
            async with serving_on(world.provider()) as serving:
                carol = replace(carol, serving=serving)
                found += [await left(serving, carol, world) for _ in range(2)]
            return found

        return asyncio.run(run())

    differ(worlds, scenario)


def test_the_first_answer_over_a_window_that_is_committed_beside_another(worlds: Worlds) -> None:
    def scenario(world: World) -> Left:
        async def run() -> Left:
            provider, found = world.provider(), list[tuple[float, int]]()
            provider.commit(answers_policy(answered_by=BY), "w1")
            async with serving_on(provider) as serving:
                first = await open_window(serving)
                world.put(provider, world.other)
                await commit_while_serving(serving, POLICY.encode(), "w2", 1e9)
                opened = asyncio.create_task(open_window(serving))
                while not (second := newest(serving)).openings:
                    await asyncio.sleep(0.01)
                proof = signature.sign(provider.state.key, "close", first.digest)
                while not serving.beacon.ready(second):
                    await asyncio.sleep(0.01)
                await serving.close_window(first.digest, proof)
                assert await opened is second
                found.append(await left(serving, Asker("carol", serving), world))
            return found

        return asyncio.run(run())

    differ(worlds, scenario)


def test_the_first_answer_over_the_version_of_a_tick_and_the_first_after_a_restart(worlds: Worlds) -> None:
    def scenario(world: World) -> Left:
        async def run() -> Left:
            provider, found = world.provider(), list[tuple[float, int]]()
            provider.commit(answers_policy(answered_by=BY, version_every=EVERY), "w1")
            async with serving_on(provider) as serving:
                window = await open_window(serving)
                carol = Asker("carol", serving)
                found.append(await left(serving, carol, world))
                world.put(provider, world.other)
                world.clock.now += EVERY
                await serving.ticks.step()
                assert len(window.updates) == 2
                found.append(await left(serving, carol, world))
            async with serving_on(world.provider()) as serving:
                found.append(await left(serving, replace(carol, serving=serving), world))
            return found

        return asyncio.run(run())

    differ(worlds, scenario)


def test_what_was_not_read_is_refused_when_an_answer_would_leave(tmp_path: Path) -> None:
    """Not read then: it would tell what this test is about."""
    world = World(tmp_path / "p", LONG, Clock(), Instants())

    async def run() -> None:
        provider = world.provider()
        provider.commit(answers_policy(answered_by=BY), "w1")
        async with serving_on(provider) as serving:
            window, carol = await open_window(serving), Asker("carol", serving)
            provider.readings.forget(window.digest)
            with pytest.raises(CommitmentError, match="not read: start `serve` anew"):
                await carol.ask(QUESTION)
            assert world.instants.now == BY
            assert not window.records
        async with serving_on(world.provider()) as serving:
            await left(serving, replace(carol, serving=serving), world)

    asyncio.run(run())


# --- what is read, and how long it is kept ---------------------------------------------------------------------------


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every text that is read for an index."""
    found: list[str] = []
    real = sentences._read

    def seen(texts: list[str]) -> Iterator[sentences.ReadText]:
        found.extend(texts)
        return real(texts)

    monkeypatch.setattr(sentences, "_read", seen)
    return found


def test_a_tick_reads_what_is_new_and_keeps_nothing_of_what_was_erased(tmp_path: Path, read: list[str]) -> None:
    world = World(tmp_path / "p", LONG, Clock(), Instants())
    gone = hashlib.sha256(LONG.text[: sentences.MAX_READ].encode()).digest()

    async def run() -> None:
        provider = world.provider()
        world.put(provider, LONG)
        provider.commit(answers_policy(answered_by=BY, version_every=EVERY), "w1")
        assert read == [], "nobody asks the program that only commits"
        async with serving_on(provider) as serving:
            window = await open_window(serving)
            assert len(read) == 2 * 24 + 1, "before the window opens; its first version has the same texts"
            erase(provider.state, "globex", "other", "asked", NOW, Environment().draw)
            world.put(provider, Document("new", "Something new."))
            known = provider.readings._known["globex"]
            for number in (2, 3, 4):
                assert gone in known
                world.clock.now += EVERY
                await serving.ticks.step()
                assert len(window.updates) == number
            assert read[2 * 24 + 1 :] == ["Something new."]
            gc.collect()
            assert gone not in known, "of the versions that are kept none has it"
            provider.forget(window.digest)
            gc.collect()
            assert not known

    asyncio.run(run())


def test_only_who_may_answer_from_sentences_reads(tmp_path: Path, read: list[str]) -> None:
    world = World(tmp_path / "p", LONG, Clock(), Instants())

    async def run() -> None:
        provider = world.provider()
        provider.commit(answers_policy(answered_by=BY), "w1")
        provider.close()
        async with serving_on(answering_provider(world.folder, world.clock, Counted())) as serving:
            await open_window(serving)
        (world.folder / COPY).touch()
        async with serving_on(world.provider()):
            pass
        (world.folder / COPY).unlink()
        assert read == []
        async with serving_on(world.provider()) as serving:
            assert len(read) == 2 * 24
            window = newest(serving)
            proof = signature.sign(serving.provider.state.key, "close", window.digest)
            await serving.close_window(window.digest, proof)
        read.clear()
        async with serving_on(world.provider()):
            assert read == []

    asyncio.run(run())


# What one document counts for in an answer by the built-in generator, whatever other documents there are.
# docs/proofs/answers.md, section 2, rests on it: where others decide whether a document is late, one document more
# moves more than its own keywords. SPEC A.14.3, A.14.7.5.


APART_BY = 2  #: seconds, of the policy: 0.8 of them are for documents
REST = " ".join(f"Nothing new of number {i} is known as of today, nor was it ever." for i in range(200))
MINE = Document("mine", f"The report says: copper of this topic. {REST}")


def others(count: int) -> list[Document]:
    return [Document(f"other-{i}", f"The report says: word{24 + i} of this topic. {REST}") for i in range(count)]


def counted(serving: Serving, record: Record) -> dict[str, int]:
    counts = np.frombuffer(secrets_of_record(serving.provider.state, record).counts, dtype=COUNT)
    return {word: int(count) for word, count in zip(WORDS.words, counts, strict=False) if count}


def answered(folder: Path, documents: Sequence[Document], timer: Timer, asked: int = 1) -> list[dict[str, int] | None]:
    """What was counted for carol's question over these documents beside her tenant's own; None: it was refused."""

    async def run() -> list[dict[str, int] | None]:
        provider = answering_provider(folder, timer=timer)
        apply(provider.state, "globex", map(Put, documents), embed_with(TRIGRAMS), Environment().draw, SHAPE)
        provider.commit(answers_policy(answered_by=APART_BY), "w1")
        found: list[dict[str, int] | None] = []
        async with serving_on(provider) as serving:
            await open_window(serving)
            asker = Asker("carol", serving)
            message = asker.message(QUESTION)
            signed = asker.request(message, await asker.prepare(message))
            for _ in range(asked):
                try:
                    await asker.retrieve(signed)
                except TransportError:
                    assert not newest(serving).records
                    found.append(None)
                    continue
                [index] = newest(serving).records
                found.append(counted(serving, Record.decode(serving.journal.data(index))))
        return found

    return asyncio.run(run())


@pytest.mark.parametrize("count", [0, 70])
def test_a_document_counts_for_the_same_however_many_others_take_part(tmp_path: Path, count: int) -> None:
    [found] = answered(tmp_path / "p", [MINE, *others(count)], Timer())
    assert found is not None
    [without] = answered(tmp_path / "q", others(count), Timer())
    assert without is not None
    assert found == {**without, "copper": without["copper"] + 1}
    assert sum(without[f"word{24 + i}"] for i in range(count)) == count, "all of them take part"


def test_no_clock_takes_a_document_out_of_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work that is not done in time refuses the request, as all other work does; sent again, all documents count."""
    instants, real = Instants(), Sentences.chosen
    whole = answered(tmp_path / "p", [MINE, *others(20)], instants.timer)

    def slow(self: Sentences, question: str) -> list[int]:
        instants.now += APART_BY
        return real(self, question)

    monkeypatch.setattr(Sentences, "chosen", slow)
    assert answered(tmp_path / "q", [MINE, *others(20)], instants.timer, asked=2) == [None, *whole]


def test_a_question_is_compared_with_every_document_whichever_take_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[int] = []
    real = Sentences.chosen

    def seen(self: Sentences, question: str) -> list[int]:
        compared.append(len(self))
        return real(self, question)

    monkeypatch.setattr(Sentences, "chosen", seen)
    monkeypatch.setattr(worded, "near_documents", lambda *_: [])
    [found] = answered(tmp_path / "p", others(5), Instants().timer)
    assert found == {}
    assert 24 + 5 in compared

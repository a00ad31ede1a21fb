# SPDX-License-Identifier: GPL-3.0-or-later
"""Neighbouring worlds: what a document makes a generator do moves no instant, no time, no order and no refusal.

In each of them one document counts for nothing, so noise and secrets being equal, everything that leaves has to be
equal byte for byte.  SPEC A.14.7 to A.14.9.
"""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ragseal.kernel import signature
from ragseal.kernel.attestation import Record
from ragseal.kernel.errors import AttestationError, AuditError, TransportError
from ragseal.kernel.versions import nameable
from ragseal.prover.answers.schedule import at_once
from ragseal.prover.attestation import worded
from ragseal.prover.attestation.answers import secrets_of_record
from ragseal.prover.attestation.retrieval import COUNT
from ragseal.prover.commitment.dropped import droppable
from ragseal.prover.serving.serving import Serving
from ragseal.runtime.timer import Timer
from ragseal.verifier.steps.versions import IndexVersion, Versions
from tests.simulator.answered import QUESTION, AnsweringLive, Counted, answering_on, answering_provider, answers_policy
from tests.simulator.instants import LANE, Instants
from tests.simulator.provider import NOW, Asker, Clock, make_policy, newest, serving_on

pytestmark = pytest.mark.slow

HERE = "number 4 says"  #: in the text of one document of each tenant
BY = 30  #: seconds, of the policy


@dataclass
class Meets(Counted):
    """The real generator, and what happens at one document, which has nothing to say of the vocabulary."""

    at: Callable[[], object] = lambda: None
    alone: Callable[[], object] = lambda: None  #: what happens where it is asked without a document
    of: str = ""  #: how questions end at which it does

    def answer(self, question: str, contexts: Sequence[str], keywords: Sequence[str] = ()) -> str:
        if any(HERE in text for text in contexts) and question.endswith(self.of):
            self.at()
            return "nothing of note"
        if not contexts and not keywords:
            self.alone()
        return super().answer(question, contexts, keywords)


class Drawn:
    """The same bytes in every world, in the order in which they are asked for."""

    def __init__(self) -> None:
        self._count = 0

    def __call__(self, size: int) -> bytes:
        self._count += 1
        return hashlib.shake_256(self._count.to_bytes(8, "big")).digest(size)


@dataclass
class World:
    """A copy of one folder with an open window."""

    folder: Path
    clock: Clock = field(default_factory=Clock)
    instants: Instants = field(default_factory=Instants)
    generator: Meets = field(default_factory=Meets)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Serving]:
        made = answering_provider(self.folder, self.clock, self.generator, timer=self.instants.timer, draw=Drawn())
        async with serving_on(made) as serving:
            yield serving

    async def left(self, serving: Serving, name: str = "alice") -> tuple[bytes | str, float]:
        """What leaves for an account's first request, and how many seconds after it."""
        asker, began = Asker(name, serving), self.instants.now
        message = asker.message(QUESTION)
        signed = asker.request(message, await asker.prepare(message))
        try:
            found: bytes | str = (await asker.retrieve(signed)).canonical
        except AuditError as error:
            found = repr(error)
        return found, self.instants.now - began


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an open window of answers."""
    folder = tmp_path_factory.mktemp("base") / "provider"

    async def opened() -> None:
        async with answering_on(folder):
            pass

    asyncio.run(opened())
    return folder


@pytest.fixture
def world(base: Path, tmp_path: Path) -> Iterator[Callable[[str], World]]:
    """Worlds by name; what a test leaves stuck is let go at its end."""

    def made(name: str) -> World:
        shutil.copytree(base, tmp_path / name, symlinks=True)
        return World(tmp_path / name)

    yield made
    RELEASE.set()
    for one in threading.enumerate():
        if one.name == "generator":
            one.join(10)
    RELEASE.clear()


RELEASE = threading.Event()


def quiet(world: World) -> None:
    """The document's call ends at once."""


def late(world: World) -> None:
    def at() -> None:
        world.instants.stuck += 1
        RELEASE.wait(60)

    world.generator.at = at


def minutes(world: World) -> None:
    """It ends, and the world's clock is two minutes further."""

    def at() -> None:
        world.clock.now += 120

    world.generator.at = at


def fails(world: World) -> None:
    def at() -> None:
        raise TransportError("away")

    world.generator.at = at


def exits(world: World) -> None:
    def at() -> None:
        raise SystemExit(3)

    world.generator.at = at


def says_nothing_that_can_be_sent(world: World) -> None:
    answer = world.generator.answer

    def broken(question: str, contexts: Sequence[str], keywords: Sequence[str] = ()) -> Any:
        return None if any(HERE in text for text in contexts) else answer(question, contexts, keywords)

    world.generator.answer = broken  # type: ignore[method-assign]


HAPPENS = [late, minutes, fails, exits, says_nothing_that_can_be_sent]


@pytest.mark.parametrize("happens", HAPPENS)
def test_record_receipt_and_answer_are_the_same_at_the_same_instant(
    world: Callable[[str], World], happens: Callable[[World], None]
) -> None:
    found = []
    for name, what in (("one", quiet), ("other", happens)):
        made = world(name)
        what(made)

        async def run(made: World = made) -> tuple[bytes | str, float, bytes]:
            async with made.serving() as serving:
                left = await made.left(serving)
                return *left, serving.journal.data(newest(serving).records[0])

        found.append(asyncio.run(run()))
    assert isinstance(found[0][0], bytes), found[0][0]
    assert found[0] == found[1]
    assert found[0][1] == BY
    assert Record.decode(found[0][2]).time == NOW + BY - (NOW + BY) % 60


def test_a_document_that_is_not_there_moves_nothing(
    world: Callable[[str], World], monkeypatch: pytest.MonkeyPatch
) -> None:
    real, found = worded.near_documents, []
    for name, there in (("one", True), ("other", False)):
        made = world(name)

        def near(*given: Any, there: bool = there) -> Any:
            return [one for one in real(*given) if there or HERE not in one.text]

        monkeypatch.setattr(worded, "near_documents", near)

        async def run(made: World = made) -> tuple[bytes | str, float]:
            async with made.serving() as serving:
                return await made.left(serving)

        found.append(asyncio.run(run()))
        assert sum(HERE in text for _, texts, _ in made.generator.asked for text in texts) == 0
    assert isinstance(found[0][0], bytes)
    assert found[0] == found[1]


@pytest.mark.parametrize("happens", HAPPENS)
def test_a_refusal_comes_at_the_instant_of_an_answer(
    world: Callable[[str], World], happens: Callable[[World], None]
) -> None:
    """The generator does not answer the question at all: nothing is recorded, and nobody sees when it failed."""
    found = []
    for name, what in (("one", quiet), ("other", happens)):
        made = world(name)
        what(made)

        def away() -> None:
            raise TransportError("away")

        made.generator.alone = away

        async def run(made: World = made) -> tuple[bytes | str, float, int]:
            async with made.serving() as serving:
                left = await made.left(serving)
                return *left, len(newest(serving).records)

        found.append(asyncio.run(run()))
    assert found[0] == found[1]
    assert "cannot write answers now" in str(found[0][0])
    assert found[0][1:] == (BY, 0)


# --- several requests at once, by the machine's own clock ------------------------------------------------------------


@pytest.mark.parametrize("slow", ["acme", "globex"])
def test_records_stand_in_the_order_of_their_admission(tmp_path: Path, slow: str) -> None:
    """Two tenants, one of which has a document at which the generator is stuck: both leave at their own instants."""

    async def run() -> None:
        generator = Meets(at=lambda: RELEASE.wait(60), of=slow)
        async with answering_on(tmp_path / "p", None, generator, Timer(), answered_by=6) as serving:
            askers = [Asker("alice", serving), Asker("carol", serving)]
            took: list[tuple[str, float]] = []

            async def asked(one: Asker, tenant: str) -> None:
                message = one.message(f"{QUESTION} {tenant}")
                signed = one.request(message, await one.prepare(message))
                began = time.monotonic()
                await one.retrieve(signed)
                took.append((one.name, time.monotonic() - began))

            first = asyncio.create_task(asked(askers[0], "acme"))
            await asyncio.sleep(0.4)
            await asked(askers[1], "globex")
            await first
            assert [name for name, _ in took] == ["alice", "carol"]
            assert all(6 <= seconds < 8 for _, seconds in took), took
            entered = [Record.decode(serving.journal.data(index)) for index in newest(serving).records]
            names = {one.pseudonym: one.name for one in askers}
            assert [names[one.signed.request.account] for one in entered] == ["alice", "carol"]

    try:
        asyncio.run(run())
    finally:
        RELEASE.set()
        RELEASE.clear()


def test_two_answers_at_once_do_not_share_the_last_participation(tmp_path: Path) -> None:
    async def run() -> list[int]:
        async with answering_on(tmp_path / "p", timer=Timer(), participations=1, answered_by=6) as serving:
            found = await asyncio.gather(*(Asker(name, serving).ask(QUESTION) for name in ("alice", "bob")))
            kept = [secrets_of_record(serving.provider.state, one.record) for one in found]
            return sorted(int(np.frombuffer(one.counts, dtype=COUNT).sum()) for one in kept)

    sums = asyncio.run(run())
    assert sums[0] == 0 < sums[1]


@dataclass
class Threads:
    """A machine that lets a process have so many threads of generators."""

    most: int
    start: Callable[[threading.Thread], None] = threading.Thread.start

    def __call__(self, thread: threading.Thread) -> None:
        if thread.name == LANE and sum(one.name == LANE for one in threading.enumerate()) >= self.most:
            raise RuntimeError("can't start new thread")
        self.start(thread)


def test_documents_of_one_answer_leave_those_of_another_their_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else how many documents one tenant has near a question shows in another one's answer, and without noise."""
    room = 32  #: for the 24 documents of a tenant, and not of two
    limits = Threads(room)
    monkeypatch.setattr(threading.Thread, "start", lambda thread: limits(thread))
    monkeypatch.setattr(worded, "most_threads", lambda: (room, "a test"))

    class Slow(Counted):
        def answer(self, question: str, contexts: Sequence[str], keywords: Sequence[str] = ()) -> str:
            time.sleep(0.5 if contexts else 0)
            return super().answer(question, contexts, keywords)

    async def run() -> list[int]:
        async with answering_on(tmp_path / "p", None, Slow(), Timer(), answered_by=6) as serving:
            found = await asyncio.gather(*(Asker(name, serving).ask(QUESTION) for name in ("alice", "carol")))
            kept = [secrets_of_record(serving.provider.state, one.record) for one in found]
            return [int(np.frombuffer(one.counts, dtype=COUNT).sum()) for one in kept]

    one, other = asyncio.run(run())
    assert one == other > 0


def test_as_many_answers_are_written_at_once_as_have_threads_for_all_documents() -> None:
    assert at_once(34592, 1 << 20) == 64
    assert at_once(34592, 32765) == 5
    assert at_once(2944, 32765) == 8
    assert at_once(126, 32765) == 64
    assert at_once(34592, 100) == 1


def test_a_stop_waits_for_what_was_admitted_and_begins_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each would take as long as the policy says, one behind the other."""
    monkeypatch.setattr(worded, "most_threads", lambda: (1, "a test"))

    async def run() -> None:
        async with answering_on(tmp_path / "p", None, Counted(), Timer(), answered_by=3) as serving:
            asked = [asyncio.create_task(Asker(name, serving).ask(QUESTION)) for name in ("alice", "bob", "carol")]
            await asyncio.sleep(1)
            began = time.monotonic()
            await serving.attestation.drain()
            assert time.monotonic() - began < 4
            found = await asyncio.gather(*asked, return_exceptions=True)
            refused = [str(one) for one in found if isinstance(one, TransportError)]
            assert len(newest(serving).records) == 1
            assert [one.split(":")[0] for one in refused] == ["this provider is being stopped"] * 2

    asyncio.run(run())


# --- a machine that does not do its work in time ---------------------------------------------------------------------


def test_a_machine_that_is_overloaded_refuses_and_answers_later(
    world: Callable[[str], World], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not done in time is told at the next multiple, and the same request gets what was done by then."""
    made, real = world("one"), worded.answer_counts

    def slow(*given: Any) -> Any:
        made.instants.now += BY
        return real(*given)

    monkeypatch.setattr(worded, "answer_counts", slow)

    async def run() -> None:
        async with made.serving() as serving:
            alice = Asker("alice", serving)
            message = alice.message(QUESTION)
            signed = alice.request(message, await alice.prepare(message))
            with pytest.raises(TransportError, match="cannot write answers now"):
                await alice.retrieve(signed)
            assert made.instants.now == 2 * BY
            assert newest(serving).records == []
            asked = len(made.generator.asked)
            made.clock.now += 60
            await alice.retrieve(signed)
            assert made.instants.now == 3 * BY
            assert len(made.generator.asked) == asked
            record = Record.decode(serving.journal.data(newest(serving).records[0]))
            assert record.time == NOW + 60 + BY - (NOW + 60 + BY) % 60
            kept = secrets_of_record(serving.provider.state, record)
            assert np.frombuffer(kept.counts, dtype=COUNT).sum() > 0

    asyncio.run(run())


# --- what comes between a request's admission and its record ---------------------------------------------------------


def test_a_request_that_could_not_be_answered_in_time_is_not_admitted(tmp_path: Path) -> None:
    async def run() -> None:
        clock = Clock()
        async with answering_on(tmp_path / "p", clock, generator := Counted(), duration=600) as serving:
            alice = Asker("alice", serving)
            end = newest(serving).closes
            clock.now = end - BY
            message = alice.message(QUESTION)
            signed = alice.request(message, await alice.prepare(message))
            clock.now += 1
            with pytest.raises(AttestationError, match="before an answer could leave, 30 s from now"):
                await alice.retrieve(signed)
            assert generator.asked == []
            clock.now -= 1
            await alice.retrieve(signed)
            assert Record.decode(serving.journal.data(newest(serving).records[0])).time == end

    asyncio.run(run())


def test_a_window_closes_behind_what_it_admitted(world: Callable[[str], World]) -> None:
    """However long a document takes: the request is recorded, the closing entry counts it, and nothing new is taken."""
    made, began = world("one"), threading.Event()

    def at() -> None:
        made.instants.stuck += 1
        began.set()
        RELEASE.wait(60)

    async def run() -> None:
        async with made.serving() as serving:
            window, bob = newest(serving), Asker("bob", serving)
            message = bob.message(QUESTION)
            signed = bob.request(message, await bob.prepare(message))
            pause = made.instants.timer.pause
            close: list[asyncio.Task[Any]] = []

            async def paused(seconds: float) -> None:
                if began.is_set() and not close:
                    proof = signature.sign(serving.provider.state.key, "close", window.digest)
                    close.append(asyncio.create_task(serving.close_window(window.digest, proof)))
                    await asyncio.sleep(0.05)
                    assert window.close is None
                    with pytest.raises(AttestationError, match="is being closed"):
                        await bob.retrieve(signed)
                await pause(seconds)

            object.__setattr__(serving.attestation._tools.timer, "pause", paused)
            made.generator.at = at
            await Asker("alice", serving).ask(QUESTION)
            await close[0]
            assert window.close is not None
            assert window.close.records == 1

    asyncio.run(run())


def test_versions_that_come_meanwhile_refuse_nothing(tmp_path: Path) -> None:
    """A request over the older of two versions is admitted; the next version is entered, the one behind it waits."""
    live = AnsweringLive(tmp_path, version_every=120)
    generator = Meets()
    try:
        serving, window, instants = live.server.serving, live.window, live.instants
        serving.attestation._tools.generator.real = generator  # type: ignore[union-attr]
        live.clock.now += 120
        live.call(serving.ticks.step())
        live.clock.now += 110
        assert len(window.updates) == 2
        pause, seen = instants.timer.pause, list[int]()

        async def paused(seconds: float) -> None:
            if generator.asked and not seen:
                live.clock.now += 20
                await serving.ticks.step()
                seen.append(len(window.updates))
                assert droppable(serving.provider.state, window) == []  # a record is about to name the first of them
                live.clock.now += 120
                await serving.ticks.step()
                seen.append(len(window.updates))
            await pause(seconds)

        async def ask() -> None:
            alice = Asker("alice", serving)
            message = alice.message(QUESTION)
            older = window.updates[0][1].index_digest("acme")
            await alice.retrieve(alice.request(message, await alice.prepare(message), index_digest=older))

        object.__setattr__(serving.attestation._tools.timer, "pause", paused)
        live.call(ask())
        assert seen == [3, 3]
        live.call(serving.ticks.step())
        assert len(window.updates) == 4
        live.end_window()
        verdict = live.audited()
        assert verdict.verdict == "PASS", verdict.line()
    finally:
        live.end()


@pytest.mark.parametrize(("named", "newest", "refused"), [(2, 4, False), (1, 4, True), (1, 3, False)])
def test_an_auditor_takes_one_of_the_three_newest_versions(named: int, newest: int, refused: bool) -> None:
    """And of every other claim one of the two newest."""
    updates = [(10 * number, SimpleNamespace(time=NOW + 60 * number)) for number in range(1, newest + 1)]
    known = {bytes([number]) * 32: IndexVersion("acme", number, b"") for number in range(1, newest + 1)}
    request = SimpleNamespace(index_digest=bytes([named]) * 32)
    record: Any = SimpleNamespace(signed=SimpleNamespace(request=request), time=NOW + 60 * newest)
    assert nameable(answers_policy()) == 3
    assert nameable(make_policy()) == 2
    found = Versions(60, known, updates, 3)  # type: ignore[arg-type]
    if refused:
        with pytest.raises(AttestationError, match="one of the 3 newest"):
            found.answering(100, record)
    else:
        assert found.answering(100, record).number == named
    with pytest.raises(AttestationError, match="one of the 2 newest"):
        replace(found, nameable=2).answering(100, record)

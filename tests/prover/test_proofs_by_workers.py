# SPDX-License-Identifier: GPL-3.0-or-later
"""A real provider whose records are proven by workers: honest ones, liars, dead ones, and none at all."""

from __future__ import annotations

import asyncio
import logging
import shutil
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragseal.groth16.keys import ZKEY
from ragseal.kernel.errors import ConfigurationError, ProofError
from ragseal.kernel.proofs import ProofBatch
from ragseal.prover.administration import status
from ragseal.prover.attestation import backlog
from ragseal.prover.attestation.backlog import Backlog
from ragseal.prover.attestation.proofs import Proofs
from ragseal.prover.serving.health import Running
from ragseal.prover.serving.serving import ServeOptions, Serving
from ragseal.prover.storage.state import COPY, State
from ragseal.prover.storage.stopped_keys import stop_key, stopped
from ragseal.prover.workers.interface import StoppingError, UnreachedError, Work, Workers, WorkResult
from ragseal.prover.workers.making import ProvingKeys
from ragseal.prover.workers.opening import ProveBy
from tests.simulator.provider import Asker, batch, make_policy, newest, open_provider, open_window, window_on
from tests.workers.scene import Scripted

pytestmark = pytest.mark.slow


@asynccontextmanager
async def asked(tmp_path: Path, records: int = 3) -> AsyncIterator[Serving]:
    async with window_on(tmp_path / "p") as serving:
        alice = Asker("alice", serving)
        for number in range(records):
            await alice.ask(f"report about topic {number}")
        yield serving


def by(serving: Serving, workers: Workers) -> Proofs:
    return serving.provider.new_proofs(workers)


def honest(serving: Serving) -> Callable[[Work], WorkResult]:
    keys, mutex = ProvingKeys(serving.provider.state.keys_directory), threading.Lock()

    def gives(work: Work) -> WorkResult:
        with mutex:
            return keys.prove(work, "honest")

    return gives


def test_what_is_asked_for_is_proven_at_once_and_each_record_once(tmp_path: Path) -> None:
    async def run() -> None:
        async with asked(tmp_path, 4) as serving:
            digest, gives, together = newest(serving).digest, honest(serving), threading.Barrier(4)

            def meets(work: Work) -> WorkResult:
                together.wait(20)  # four are under way at once, or this breaks
                return gives(work)

            workers = Scripted(meets)
            proofs = by(serving, workers)
            both = await asyncio.gather(*(asyncio.to_thread(proofs.batch, digest, []) for _ in range(2)))
            assert [entry.seq for entry in ProofBatch.decode(both[0]).entries] == [0, 1, 2, 3]
            assert ProofBatch.decode(both[0]).entries == ProofBatch.decode(both[1]).entries
            assert next(workers.asked) == 4

    asyncio.run(run())


def test_all_asks_together_have_as_many_places_as_there_are_workers(tmp_path: Path) -> None:
    async def run() -> None:
        async with asked(tmp_path, 6) as serving:
            digest, gives, mutex, at_once = newest(serving).digest, honest(serving), threading.Lock(), [0, 0]

            def counted(work: Work) -> WorkResult:
                with mutex:
                    at_once[0] += 1
                    at_once[1] = max(at_once)
                try:
                    time.sleep(0.1)
                    return gives(work)
                finally:
                    with mutex:
                        at_once[0] -= 1

            proofs = by(serving, Scripted(counted, places=2))
            asks = [asyncio.to_thread(lambda s=s: list(proofs.prove_each(digest, s))) for s in ((0, 1, 2), (3, 4, 5))]  # type: ignore[misc]
            one, two = await asyncio.gather(*asks)
            assert [entry.seq for entry in (*one, *two)] == [0, 1, 2, 3, 4, 5]
            assert at_once[1] == 2

    asyncio.run(run())


def test_whoever_waits_no_more_begins_no_proof(tmp_path: Path) -> None:
    async def run() -> None:
        async with asked(tmp_path, 4) as serving:
            gives, begun, gone = honest(serving), list[Work](), threading.Event()

            def slow(work: Work) -> WorkResult:
                begun.append(work)
                gone.set()
                time.sleep(0.2)
                return gives(work)

            proofs = by(serving, Scripted(slow, places=1))

            def wanted_still() -> None:
                if gone.is_set():
                    raise StoppingError

            with pytest.raises(StoppingError):
                proofs.batch(newest(serving).digest, [], wanted_still)
            await asyncio.sleep(0.5)
            assert len(begun) <= 2, "the rest was proven for nobody"

    asyncio.run(run())


def test_in_the_background_nothing_is_lost_while_no_worker_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backlog, "LEAST_WAIT", 0.05)

    async def run() -> None:
        async with asked(tmp_path) as serving:
            digest, gives, there = newest(serving).digest, honest(serving), threading.Event()

            def now_and_then(work: Work) -> WorkResult:
                if not there.is_set():
                    raise UnreachedError("nobody is there")
                return gives(work)

            proofs = by(serving, Scripted(now_and_then))
            proofs.start(digest)
            await asyncio.sleep(0.3)
            assert proofs.count(digest) == 0
            assert proofs.backlog.status(0.0)["left"] == 3
            one = await asyncio.to_thread(proofs.prove, digest, 2)  # somebody asks, so the provider makes it
            assert one == proofs.stored(digest, 2)
            there.set()
            end = time.monotonic() + 30
            while proofs.backlog.status(0.0)["left"]:
                assert time.monotonic() < end
                await asyncio.sleep(0.05)
            assert proofs.count(digest) == 3
            proofs.stop()

    asyncio.run(run())


def test_a_provider_whose_engine_is_unreachable_answers_and_says_so(tmp_path: Path) -> None:
    pytest.importorskip("psycopg")

    async def run() -> None:
        provider = open_provider(tmp_path / "p")
        provider.commit(make_policy(), "w1")
        engine = ProveBy("postgres://nobody:hunter2@127.0.0.1:1/none", bytes(32))
        serving = Serving(provider, ServeOptions(True, 0.0, publish=0.0, prove_by=engine))
        await serving.start()
        try:
            await open_window(serving)
            answer = await Asker("alice", serving).ask("report about topic 5")
            assert answer.openings.slots
            while not serving.proofs.backlog.status(0.0)["trouble"]:
                await asyncio.sleep(0.02)
            told = status.status(provider, Running(proving=serving.proofs.backlog.status(0.0)))
            said = "WRONG (workers): no proofs are made by workers: the database of proofs at postgres://127.0.0.1/"
            assert said in told.text
            assert {"workers"} <= {one["what"] for one in told.values["wrong"]}
            assert told.values["proving"]["left"] == 1
            assert told.values["proving"]["done_by"] is None
            assert "hunter2" not in told.text + str(told.values)
            found = ProofBatch.decode(await batch(serving, newest(serving).digest, []))  # an audit is given its proofs
            assert [entry.seq for entry in found.entries] == [0]
        finally:
            began = time.monotonic()
            await serving.stop()
            provider.close()
            assert time.monotonic() - began < 20, "it waits for a database that is away"

    asyncio.run(run())


def test_a_key_that_stops_at_the_last_moment_keeps_no_proof(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SPEC B.12.3: look and entry are one step."""

    async def run() -> None:
        async with asked(tmp_path, 1) as serving:
            state, digest, key = serving.provider.state, newest(serving).digest, newest(serving).manifest.key_digest
            proofs, enter = by(serving, Scripted(honest(serving))), State.transaction

            @contextmanager
            def after_another_failed(self: State, durable: bool = True) -> Iterator[Any]:
                monkeypatch.setattr(State, "transaction", enter)
                stop_key(state, key, "another record failed")
                with enter(self, durable) as db:
                    yield db

            monkeypatch.setattr(State, "transaction", after_another_failed)
            with pytest.raises(ProofError, match="another record failed"):
                proofs.prove(digest, 0)
            assert proofs.stored(digest, 0) is None

    asyncio.run(run())


def test_an_assignment_waits_until_the_public_sees_its_record(tmp_path: Path) -> None:
    """Who watches the workers' database would else date each query.  SPEC B.12.6."""

    async def run() -> None:
        provider = open_provider(tmp_path / "p")
        provider.commit(make_policy(), "w1")
        serving = Serving(provider, ServeOptions(True, 0.0, publish=3600.0))
        await serving.start()
        try:
            await open_window(serving)
            await Asker("alice", serving).ask("report about topic 5")
            assert serving.proofs.backlog.status(0.0)["left"] == 0
            serving.journal.public.reveal()
            serving._prove_published()
            assert serving.proofs.backlog.status(0.0)["left"] == 1
        finally:
            await serving.stop()
            provider.close()

    asyncio.run(run())


@pytest.mark.parametrize("by_workers", [True, False])
def test_a_key_file_that_is_away_stops_no_key(tmp_path: Path, by_workers: bool) -> None:
    """It is opened for the first time when a proof is asked for, and what fails then is the disk."""

    async def run() -> None:
        async with asked(tmp_path, 1) as serving:
            provider, digest = serving.provider, newest(serving).digest
            keys, state = provider.backends.keys, provider.state
            folder = keys.folder(newest(serving).manifest.key_digest)
            original = folder.resolve()
            folder.unlink()  # a link to a key that other tests have as well
            shutil.copytree(original, folder)
            (folder / ZKEY).write_bytes((original / ZKEY).read_bytes()[:5000])
            keys._backends.clear()
            workers = Scripted(lambda _: WorkResult("honest", b"", "cannot read the proving key"))
            proofs = provider.new_proofs(workers if by_workers else None)
            with pytest.raises(ConfigurationError, match="cannot be loaded"):
                proofs.prove(digest, 0)
            assert stopped(state, newest(serving).manifest.key_digest) is None
            assert not workers.dropped
            shutil.copyfile(original / ZKEY, folder / ZKEY)
            assert proofs.prove(digest, 0).seq == 0

    asyncio.run(run())


def test_a_copy_makes_no_proofs_that_nobody_asks_for(tmp_path: Path) -> None:
    """Beside it may run the provider itself, whose workers it would keep busy, and each start would do all anew."""

    async def run() -> None:
        async with asked(tmp_path, 1) as serving:
            digest = newest(serving).digest
        (tmp_path / "p" / COPY).touch()
        provider = open_provider(tmp_path / "p")
        serving = Serving(provider, ServeOptions(True, 0.0, publish=0.0))
        await serving.start()
        try:
            assert serving.proofs.missing(digest, 1) == [0]
            assert serving.proofs.backlog.status(0.0)["left"] == 0
            serving._on_record(digest, 0)
            assert serving.proofs.backlog.status(0.0)["left"] == 0
            found = ProofBatch.decode(await batch(serving, digest, []))
            assert [entry.seq for entry in found.entries] == [0]
        finally:
            await serving.stop()
            provider.close()

    asyncio.run(run())


def test_a_provider_with_workers_looks_at_its_own_key_before_it_serves_and_loads_none(tmp_path: Path) -> None:
    """It proves itself what workers cannot: that its key is away shows at the start, not at the first audit."""

    async def run() -> None:
        async with asked(tmp_path, 1) as serving:
            key = newest(serving).manifest.key_digest
        provider = open_provider(tmp_path / "p")
        options = ServeOptions(True, 0.0, publish=0.0, prove_by=ProveBy("local:1"))
        folder = provider.backends.keys.folder(key)
        original = folder.resolve()
        folder.unlink()
        shutil.copytree(original, folder)
        (folder / ZKEY).write_bytes(b"no key")
        with pytest.raises(ConfigurationError, match="cannot be loaded"):
            await Serving(provider, options).start()
        shutil.copyfile(original / ZKEY, folder / ZKEY)
        serving = Serving(provider, replace(options, eager=False))
        await serving.start()
        assert provider.backends.keys._backends == {}
        await serving.stop()
        provider.close()

    asyncio.run(run())


# --- the backlog alone -----------------------------------------------------------------------------------------------


def test_the_backlog_says_how_fast_it_goes_and_when_it_is_done() -> None:
    free = threading.Semaphore(0)

    def prove(_: bytes, __: int) -> None:
        assert free.acquire(timeout=20)

    queue = Backlog(prove, None)
    assert queue.status(1000.0) == {
        "engine": "here", "workers": 0, "dropped": [], "trouble": "", "left": 0, "proofs_per_hour": 0.0,
        "done_by": 1000.0, "failing": 0, "causes": {}, "last_failure": "",
    }  # fmt: skip
    queue.start([(b"m", 0), (b"m", 1)])
    assert queue.status(1000.0)["done_by"] is None, "nothing is known of its speed yet"
    free.release()
    end = time.monotonic() + 20
    while queue.status(1000.0)["left"] != 1:
        assert time.monotonic() < end
        time.sleep(0.01)
    told: dict[str, Any] = queue.status(1000.0)
    assert told["proofs_per_hour"] > 0
    assert told["done_by"] == pytest.approx(1000.0 + 3600 / told["proofs_per_hour"], rel=0.01)
    assert any("1 wait for their proof, at " in line for line in backlog.lines(told))
    free.release()
    queue.stop()


def test_what_cannot_be_proven_is_counted_by_cause_and_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Others are proven meanwhile; the log tells a cause once, not once a record; a mended cause is forgotten."""
    monkeypatch.setattr(backlog, "AGAIN", 0.05)
    done: list[int] = []
    mended = threading.Event()

    def prove(_: bytes, seq: int) -> None:
        if seq < 4 and not mended.is_set():
            raise ProofError("no compiler")
        if seq == 4:
            raise ZeroDivisionError("with a secret")
        done.append(seq)

    def until(condition: Callable[[], bool]) -> None:
        end = time.monotonic() + 20
        while not condition():
            assert time.monotonic() < end
            time.sleep(0.01)

    queue = Backlog(prove, None)
    with caplog.at_level(logging.INFO, "ragseal.provider"):
        queue.start([(b"m", seq) for seq in range(6)])
        until(lambda: done == [5] and queue.status(0.0)["failing"] == 5)
        told = queue.status(0.0)
        assert (told["left"], told["causes"]) == (5, {"no compiler": 4, "ZeroDivisionError": 1})
        assert told["last_failure"] in told["causes"]
        mended.set()
        until(lambda: sorted(done) == [0, 1, 2, 3, 5])
        assert queue.status(0.0)["causes"] == {"ZeroDivisionError": 1}
    queue.stop()
    assert sum("no compiler" in one.getMessage() for one in caplog.records) == 1
    assert "secret" not in caplog.text

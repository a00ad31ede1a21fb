# SPDX-License-Identifier: GPL-3.0-or-later
"""Phase B: what a restart, a crash and a full disk keep of counters, answers and secrets."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from pymerkle import SqliteTree

from ragseal.kernel.attestation import Prepare, Prepared, Record
from ragseal.kernel.errors import AttestationError, LedgerError
from ragseal.ledger.receipt import InclusionBundle
from ragseal.prover.serving.serving import Serving
from tests.prover.test_attestation import play, refused
from tests.simulator.provider import Asker, newest, open_provider, opened, retrieved, serving_on

pytestmark = pytest.mark.slow


def test_a_restart_in_the_middle_keeps_counters_answers_and_receipts(tmp_path: Path) -> None:
    directory = tmp_path / "p"
    kept: dict[str, object] = {}

    async def before(serving: Serving) -> None:
        alice = Asker("alice", serving)
        await alice.ask("first")
        message = alice.message("second")
        signed = alice.request(message, await alice.prepare(message))
        kept["answer"] = await retrieved(serving, signed.encode())
        kept["signed"] = signed.encode()
        kept["third"] = alice.message("third")
        kept["prepared"] = await alice.prepare(alice.message("third"))

    async def after() -> None:
        async with serving_on(open_provider(directory)) as serving:
            assert await retrieved(serving, kept["signed"]) == kept["answer"]  # type: ignore[arg-type]
            alice = Asker("alice", serving, ctr=2)
            alice.last_receipt = opened(kept["answer"]).receipt.digest()  # type: ignore[arg-type]
            third: Prepare = kept["third"]  # type: ignore[assignment]
            prepared: Prepared = kept["prepared"]  # type: ignore[assignment]
            signed = alice.request(third, prepared)
            await refused(AttestationError, "send Prepare first", retrieved(serving, signed.encode()))
            assert await alice.prepare(third) == prepared  # same request id, same bytes, even now
            assert opened(await retrieved(serving, signed.encode())).record.seq == 2

    play(before, directory)
    asyncio.run(after())


def test_an_answer_is_made_again_after_a_restart_with_the_same_bytes(tmp_path: Path) -> None:
    directory = tmp_path / "p"
    kept: dict[str, bytes] = {}

    async def before(serving: Serving) -> None:
        alice = Asker("alice", serving)
        message = alice.message("first")
        kept["signed"] = alice.request(message, await alice.prepare(message)).encode()
        kept["answer"] = await retrieved(serving, kept["signed"])

    async def after() -> None:
        async with serving_on(open_provider(directory)) as serving:
            first = await retrieved(serving, kept["signed"])
            assert first == await retrieved(serving, kept["signed"]) == kept["answer"]
            new = opened(first)
            bundle = InclusionBundle(new.receipt.body.index, new.receipt.path, new.receipt.body.checkpoint)
            bundle.verify(new.record.encode(), serving.provider.state.log_signer.verifier)

    play(before, directory)
    asyncio.run(after())


def test_secrets_fixed_before_a_crash_are_used_again(tmp_path: Path) -> None:
    async def scene(serving: Serving) -> None:
        alice, state = Asker("alice", serving), serving.provider.state
        message = alice.message("first")
        signed = alice.request(message, await alice.prepare(message)).encode()
        real, serving.journal.append = serving.journal.append, _disk_full  # type: ignore[method-assign]
        await refused(LedgerError, "disk is full", retrieved(serving, signed))
        row = state.row("SELECT secrets FROM queries")
        assert row is not None
        serving.journal.append = real  # type: ignore[method-assign]
        await retrieved(serving, signed)
        after = state.row("SELECT secrets FROM queries")
        assert after is not None
        assert after[0] == row[0]

    play(scene, tmp_path / "p")


def test_a_second_request_of_one_ctr_never_replaces_the_secrets_of_the_first(tmp_path: Path) -> None:
    """The record is in the ledger, but its checkpoint could not be written: nobody knows, until the restart tells."""
    directory, kept = tmp_path / "p", {}

    async def before(serving: Serving) -> None:
        alice = Asker("alice", serving)
        messages = [alice.message("first"), alice.message("second")]
        signed = [alice.request(m, await alice.prepare(m)).encode() for m in messages]
        real = serving.journal.append

        async def lost(make: Callable[[], Record]) -> None:
            await real(make)
            raise LedgerError("publish a checkpoint: the file system failed")

        serving.journal.append = lost  # type: ignore[assignment, method-assign]
        await refused(LedgerError, "publish", retrieved(serving, signed[0]))
        window = newest(serving)
        window.counters.clear()  # what a provider knows that was not told of the record
        serving.journal.append = _disk_full  # type: ignore[assignment, method-assign]
        await refused(LedgerError, "disk is full", retrieved(serving, signed[1]))
        kept["signed"] = signed[0]

    async def after() -> None:
        async with serving_on(open_provider(directory)) as serving:
            answer = opened(await retrieved(serving, kept["signed"]))
            assert answer.record.seq == 0
            await asyncio.to_thread(serving.proofs.prove, answer.record.manifest, 0)

    play(before, directory)
    asyncio.run(after())


def test_another_request_after_a_failed_one_is_answered_for_itself(tmp_path: Path) -> None:
    async def scene(serving: Serving) -> None:
        alice = Asker("alice", serving)
        first, second = alice.message("first"), alice.message("a second and quite different query")
        lost = alice.request(first, await alice.prepare(first)).encode()
        real, serving.journal.append = serving.journal.append, _disk_full  # type: ignore[assignment, method-assign]
        await refused(LedgerError, "disk is full", retrieved(serving, lost))
        serving.journal.append = real  # type: ignore[method-assign]
        signed = alice.request(second, await alice.prepare(second)).encode()
        answer = opened(await retrieved(serving, signed))
        entry = await asyncio.to_thread(serving.proofs.prove, second.manifest, 0)
        assert entry.record_digest == answer.record.digest()

    play(scene, tmp_path / "p")


def test_a_full_disk_stops_the_provider_until_it_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, kept = tmp_path / "p", {}

    def full(self: SqliteTree, entries: list[bytes]) -> None:
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorname = "SQLITE_FULL"
        raise error

    async def before(serving: Serving) -> None:
        alice, bob = Asker("alice", serving), Asker("bob", serving)
        message = alice.message("first")
        kept["signed"] = alice.request(message, await alice.prepare(message)).encode()
        with monkeypatch.context() as patched:
            patched.setattr(SqliteTree, "append_entries", full)
            await refused(LedgerError, "disk is full", retrieved(serving, kept["signed"]))
        await refused(LedgerError, "start it again", retrieved(serving, kept["signed"]))
        await refused(LedgerError, "start it again", bob.ask("others wait too"))
        assert serving.journal.failure is not None

    async def after() -> None:
        async with serving_on(open_provider(directory)) as serving:
            alice = Asker("alice", serving)
            await alice.prepare(alice.message("first"))
            assert opened(await retrieved(serving, kept["signed"])).record.seq == 0

    play(before, directory)
    asyncio.run(after())


async def _disk_full(make: Callable[[], Record]) -> None:
    raise LedgerError("append: the disk is full")

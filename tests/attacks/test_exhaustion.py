# SPDX-License-Identifier: GPL-3.0-or-later
"""Strangers who take what a server has only so much of: descriptors, places, memory.  Each was red before its fix."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.ledger.checkpoint import open_checkpoint
from ragseal.ledger.durable import DurableFile
from ragseal.ledger.log import Log
from ragseal.ledger.note import NoteSigner
from tests.attacks.live import scene
from tests.attacks.world import machine

LOG = NoteSigner("log.example/w", Ed25519PrivateKey.from_private_bytes(bytes(31) + b"\x01"))

# --- descriptors -----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def no_descriptors() -> Iterator[None]:
    """This process gets no new descriptor, as when strangers' connections hold all of them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, max(map(int, os.listdir("/proc/self/fd"))) + 16), hard))
    try:
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.dup(0))
        yield
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_log_goes_on_without_descriptors(tmp_path: Path) -> None:
    """Idle connections take every descriptor: the checkpoint could not be written, and the log stopped for good."""
    with Log.create(tmp_path / "log", LOG) as log:
        log.append_now([lambda _: b"before"])
        with no_descriptors():
            with pytest.raises(OSError, match="Too many open files"):
                (tmp_path / "log" / "checkpoint").read_bytes()
            for number in range(5):
                log.append_now([lambda _, number=number: b"entry %d" % number])  # type: ignore[misc]
        log.append_now([lambda _: b"after"])
        note = (tmp_path / "log" / "checkpoint").read_bytes()
        assert (log.size, open_checkpoint(note, LOG.verifier).checkpoint.size) == (7, 7)
        log.fsck()
    assert sorted(path.name for path in (tmp_path / "log").iterdir()) == ["checkpoint", "lock", "log.sqlite"]
    with Log.open(tmp_path / "log", LOG) as log:
        assert (log.size, log.entry(5), log.checkpoint()) == (7, b"entry 4", note)


def test_a_provider_answers_without_descriptors_and_goes_on_afterwards(tmp_path: Path) -> None:
    """The whole way of an answer: secrets into state.db, the record into the ledger, the journal in step with it."""

    async def run() -> None:
        tools = machine()
        provider = scene.open_provider(tmp_path, tools.cls, tools.paths, scene.Clock())
        provider.commit(scene.make_policy(tools.cls), "w1")
        async with scene.serving_on(provider) as serving:
            window = await scene.open_window(serving)
            alice = scene.Asker("alice", serving)
            await alice.ask("a question")
            with no_descriptors():
                await alice.ask("another question")
                await alice.ask("a third one")
                assert provider.state.row("SELECT COUNT(*) FROM queries") == (3,)
            await alice.ask("the last one")
            assert serving.journal.failure is None
            assert (len(window.records), provider.ledger.size) == (4, window.records[-1] + 1)

    asyncio.run(run())


def test_a_file_that_is_replaced_is_never_half_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever a write stops, its name stands for the old content or the new one, and nothing is written afterwards."""
    path = tmp_path / "note"
    for step in ("ftruncate", "pwrite", "link", "replace", "fsync", "second fsync"):
        for scarce in (False, True):
            path.write_bytes(b"older")
            file, done = DurableFile(path), [0]
            real = getattr(os, step.removeprefix("second "))
            with no_descriptors() if scarce else contextlib.nullcontext():
                for content in (b"old 1", b"old 2", b"old"):
                    file.write(content)

                def fails(*given: Any, _real: Any = real, _done: list[int] = done, _step: str = step) -> Any:
                    _done[0] += 1
                    if _done[0] == 1 + _step.startswith("second"):
                        raise OSError(5, "Input/output error")
                    return _real(*given)

                monkeypatch.setattr(os, step.removeprefix("second "), fails)
                with pytest.raises(OSError, match="Input/output"):
                    file.write(b"the new one")
                monkeypatch.undo()
                with pytest.raises(OSError, match="an earlier write failed"):
                    file.write(b"one more")
            assert path.read_bytes() == (b"the new one" if step == "second fsync" else b"old")
            file.close()
            assert [found.name for found in tmp_path.iterdir()] == ["note"]

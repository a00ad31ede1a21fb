# SPDX-License-Identifier: GPL-3.0-or-later
"""The end of a window's time is told before it comes and when it comes, once each."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from ragseal.kernel import signature
from ragseal.prover.serving import ending
from ragseal.prover.serving.ending import Ending
from tests.simulator.provider import NOW, Clock, make_policy, newest, open_provider, open_window, serving_on, window_on


def test_the_operator_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "ragseal.provider")
    clock = Clock()

    def said() -> list[str]:
        found = [record.getMessage() for record in caplog.records if "window w1 end" in record.getMessage()]
        caplog.clear()
        return found

    async def run() -> None:
        provider = open_provider(tmp_path / "p", clock)
        provider.commit(make_policy(), "w1")
        look = Ending(provider.journal.history, clock).look
        async with serving_on(provider) as serving:
            window = provider.journal.history.named("w1")
            closes = window.manifest.policy.closes
            late = Ending(provider.journal.history, clock)
            clock.now = window.closes - 500
            early = len(caplog.records)
            late.look()
            assert "window w1 is not open yet, and may not open after" in caplog.records[early].getMessage()
            assert not said(), "nothing ends"
            clock.now = closes + 1
            late.look()
            assert "before it was open: commit a new one" in said()[0]
            clock.now = NOW
            await open_window(serving)
            for left, words in (
                (3601, None), (3600, "in 60 minutes"), (3000, None), (600, "in 10 minutes"), (1, None), (0, None),
                (-1, "accounts get no more answers; close it"), (-9, None),
            ):  # fmt: skip
                clock.now = closes - left
                look()
                found = said()
                assert len(found) == (0 if words is None else 1), (left, found)
                assert words is None or words in found[0]
            clock.now = NOW
            await serving.close_window(window.digest, signature.sign(provider.state.key, "close", window.digest))
            clock.now = closes + 1
            Ending(provider.journal.history, clock).look()
            assert not said()

    asyncio.run(run())


def test_a_serving_provider_looks(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ending, "POLL_SECONDS", 0.02)
    caplog.set_level(logging.WARNING, "ragseal.provider")
    clock = Clock()

    async def run() -> None:
        async with window_on(tmp_path / "p", clock) as serving:
            window = newest(serving)
            clock.now = window.manifest.policy.closes - 60
            async with asyncio.timeout(10):
                while "window w1 ends in 1 minute," not in caplog.text:
                    await asyncio.sleep(0.02)

    asyncio.run(run())

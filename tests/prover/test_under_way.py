# SPDX-License-Identifier: GPL-3.0-or-later
"""What waits for requests that were admitted: a window's end, and versions behind which they could not be recorded."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from ragseal.kernel.versions import nameable
from ragseal.prover.attestation.under_way import UnderWay
from ragseal.prover.storage.window import Window
from tests.simulator.answered import answers_policy
from tests.simulator.provider import make_policy


def window_of(policy: Any, name: bytes = b"w") -> Window:
    signed: Any = SimpleNamespace(manifest=SimpleNamespace(policy=policy))
    return Window(signed, name * 32, 0)


@pytest.mark.parametrize("policy", [answers_policy(), make_policy()], ids=["answers", "documents"])
def test_the_oldest_version_that_somebody_waits_over_decides(policy: Any) -> None:
    found, window, other = UnderWay(), window_of(policy), window_of(policy, b"o")
    first = 1 + nameable(policy)  # the version behind which a record may not name the first any more
    assert not found.keeps_out(window, first)
    with found.admitted(window, 2), found.admitted(window, 1):
        assert found.keeps_out(window, first)
        assert not found.keeps_out(window, first - 1)
        assert not found.keeps_out(other, first)
        with found.admitted(window, 1):
            pass
        assert found.keeps_out(window, first)  # one of the two is still there
    with found.admitted(window, 2):
        assert not found.keeps_out(window, first)
        assert found.keeps_out(window, first + 1)
    assert not found.keeps_out(window, first + 1)


def test_a_window_that_could_not_be_closed_takes_requests_again() -> None:
    """Closing may fail: the disk is full, say."""

    async def run() -> None:
        found, window = UnderWay(), window_of(make_policy())

        async def fails() -> None:
            async with found.ended(window):
                assert found.closing(window)
                assert not found.closing(window_of(make_policy(), b"o"))
                raise OSError("full")

        with pytest.raises(OSError, match="full"):
            await fails()
        assert not found.closing(window)
        async with found.ended(window):
            async with found.ended(window):  # two ask for the end at once
                pass
            assert found.closing(window)
        assert not found.closing(window)

    asyncio.run(run())


def test_the_end_waits_for_the_last_request_and_for_those_that_fail() -> None:
    async def run() -> None:
        found, window, order, release = UnderWay(), window_of(make_policy()), list[str](), asyncio.Event()

        async def request(name: str, version: int, fails: bool) -> None:
            with found.admitted(window, version):
                await release.wait()
                order.append(name)
                if fails:
                    raise ValueError

        async def end() -> None:
            async with found.ended(window):
                order.append("end")

        asked = [asyncio.create_task(request(f"{at}", at % 2, fails=at > 0)) for at in range(3)]
        ending = asyncio.create_task(end())
        await asyncio.sleep(0.01)  # it waits by now
        release.set()
        await asyncio.gather(*asked, return_exceptions=True)
        await asyncio.wait_for(ending, 10)
        assert order == ["0", "1", "2", "end"]

    asyncio.run(run())

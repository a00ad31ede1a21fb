# SPDX-License-Identifier: GPL-3.0-or-later
"""The time of an answer says nothing of noise, scores or hits: Welch's t-test, in the manner of dudect.

On a busy machine no bound in seconds holds, so processor time is compared, in random order, and the same test is given
an engine that does leak: what it must find is an order of magnitude above what it may find in the real one.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ragseal.prover.attestation.answer_secrets import AnswerSecrets
from ragseal.prover.commitment.beacon import BeaconRules
from ragseal.prover.serving.serving import ServeOptions, Serving
from tests.attacks.timing_scene import welch
from tests.attacks.world import ROOT
from tests.simulator.provider import Asker, make_policy, open_provider, open_window, opened, retrieved

pytestmark = pytest.mark.slow

SAMPLES = 1200  #: of each class
MOST = 5.0  #: |t| beyond which two classes differ (dudect takes 4.5 as a hint, 10 as proof)
LEAST = 8.0  #: |t| that the leaking engine must reach


def _measured(name: str) -> dict[str, dict[str, float]]:
    """One run of the scene in a process of its own."""
    command = [sys.executable, "-m", "tests.attacks.timing_scene", str(SAMPLES), name]
    environment = {**os.environ, "RAYON_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=400, check=True)
    found: dict[str, dict[str, float]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("cls", ["noise-small-gaussian-50", "noise-small-two-50"])
def test_the_engines_time_tells_nothing(cls: str) -> None:
    """Keys whose noise hits often and rarely, no document in range and K of them, hits here and there."""
    runs = [_measured(cls)]
    if max(abs(one["t"]) for name, one in runs[0].items() if name != "leaky") >= MOST:
        runs.append(_measured(cls))  # a real difference is there again; a machine's hiccup is not
    for name, one in runs[-1].items():
        print(f"{name}: t = {one['t']:.2f} ({one['first_us']:.0f} us, {one['second_us']:.0f} us, n = {one['n']:.0f})")
    for name in ("same", "noise", "hits", "elsewhere"):
        assert min(abs(run[name]["t"]) for run in runs) < MOST, runs
    assert abs(runs[-1]["leaky"]["t"]) > LEAST, runs


ROUNDS = 14  #: answers of each class
SLOWER = 0.06  #: seconds that a leaking provider takes longer for a hit
TICK = 0.3


def _answers(folder: Path, tick: float) -> list[list[int]]:
    """Nanoseconds from a signed request to its answer: quiet queries and hits, in random order."""
    rng = random.Random(3)
    times: list[list[int]] = [[], []]

    async def run() -> None:
        provider = open_provider(folder)
        provider.commit(make_policy(n_max=4 * ROUNDS), "w1")
        serving = Serving(provider, ServeOptions(False, tick, BeaconRules(participants=2, wait=5.0)))
        try:
            await serving.start()
            await open_window(serving)
            asker = Asker("alice", serving)
            order = [0, 1] * ROUNDS
            rng.shuffle(order)
            for number, which in enumerate([0, 1, *order]):
                message = asker.message(f"{('quiet', 'hit')[which]} {number}")
                signed = asker.request(message, await asker.prepare(message)).encode()
                begun = time.monotonic_ns()
                answer = opened(await retrieved(serving, signed))
                if number >= 2:
                    times[which].append(time.monotonic_ns() - begun)
                asker.ctr, asker.last_receipt = asker.ctr + 1, answer.receipt.digest()
        finally:
            await serving.stop()
            provider.close()

    asyncio.run(run())
    return times


def test_the_tick_hides_what_answers_take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A provider that takes longer for hits is found out without the tick, and not with it."""
    fix = AnswerSecrets.fix

    def noted(self: Any, job: Any) -> Any:
        if job.message.request.ctr in odd:
            time.sleep(SLOWER)
        return fix(self, job)

    order = [0, 1] * ROUNDS
    random.Random(3).shuffle(order)
    odd = {number + 1 for number, which in enumerate([0, 1, *order]) if which}
    monkeypatch.setattr(AnswerSecrets, "fix", noted)
    plain = welch(_answers(tmp_path / "plain", 0.0))
    hidden = welch(_answers(tmp_path / "hidden", TICK))
    print(f"without tick t = {plain['t']:.1f}, with a tick of {TICK} s t = {hidden['t']:.1f}")
    assert abs(plain["t"]) > MOST, (plain, hidden)
    assert abs(hidden["t"]) < MOST, (plain, hidden)
    assert hidden["first_us"] > 0.9e6 * TICK

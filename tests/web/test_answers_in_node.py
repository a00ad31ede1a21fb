# SPDX-License-Identifier: GPL-3.0-or-later
"""A window of answers, as the browser's checks see it: histograms open over the score bases.  SPEC B.7.8, G.15."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ragseal.kernel.proofs import ProofBatch
from ragseal.prover.serving import publishing
from tests.simulator.answered import QUESTION, AnsweringLive
from tests.simulator.provider import Asker
from tests.web.published import NODE, Published, export_log
from tests.web.test_coins_in_node import Log
from tests.web.test_window_in_node import other_response

pytestmark = [pytest.mark.slow, pytest.mark.skipif(NODE is None, reason="Node.js is not installed")]


def test_histograms_hold_and_only_with_their_own_opening(tmp_path: Path) -> None:
    made = AnsweringLive(tmp_path / "scene")
    try:
        with made.client() as client:
            client.ask(QUESTION, answer=True)
        made.end_window()
        ledger = made.provider.ledger
        log = Log(made.provider.state.log_signer, [ledger.entry(at) for at in range(ledger.size)])
        publishing.export(made.provider, made.server.serving.proofs, tmp_path / "public", "", lambda *_: None)
        export_log(log, tmp_path / "public")  # type: ignore[arg-type]
    finally:
        made.end()
    files = Published(tmp_path / "public", made.log_key)
    said = files.check()
    assert (said.state, said.proven) == ("good", 1), said.lines
    batch = files.only("proofs/*/0.bin")
    kept = ProofBatch.decode(batch.read_bytes())
    (link,) = kept.links
    batch.write_bytes(replace(kept, links=(replace(link, opening=other_response(link.opening)),)).encode())
    assert list(files.check().bad) == ["openings"]


def test_a_version_that_came_while_an_answer_was_written(tmp_path: Path) -> None:
    """Its record names the oldest of three: between admission and record one version may come (SPEC A.14.9.2)."""
    made = AnsweringLive(tmp_path / "scene", version_every=120)
    try:
        serving, window, timer = made.server.serving, made.window, made.instants.timer
        made.clock.now += 120
        made.call(serving.ticks.step())
        pause = timer.pause

        async def paused(seconds: float) -> None:
            if made.generator.asked and len(window.updates) == 2:
                made.clock.now += 120
                await serving.ticks.step()
            await pause(seconds)

        async def ask() -> None:
            alice = Asker("alice", serving)
            message = alice.message(QUESTION)
            older = window.updates[0][1].index_digest("acme")
            await alice.retrieve(alice.request(message, await alice.prepare(message), index_digest=older))

        object.__setattr__(timer, "pause", paused)
        made.call(ask())
        assert [len(window.updates), len(window.records)] == [3, 1]
        made.end_window()
        ledger = made.provider.ledger
        log = Log(made.provider.state.log_signer, [ledger.entry(at) for at in range(ledger.size)])
        publishing.export(made.provider, made.server.serving.proofs, tmp_path / "public", "", lambda *_: None)
        export_log(log, tmp_path / "public")  # type: ignore[arg-type]
    finally:
        made.end()
    said = Published(tmp_path / "public", made.log_key).check()
    assert (said.state, said.proven) == ("good", 1), said.lines

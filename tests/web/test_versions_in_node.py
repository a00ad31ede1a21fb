# SPDX-License-Identifier: GPL-3.0-or-later
"""A live index, as the browser's checks see it: records over several versions, with coins and without."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ragseal.kernel.emptied import EmptiedFile
from ragseal.kernel.proofs import ProofBatch
from ragseal.ledger.proof_files import columns_path
from ragseal.prover.commitment.window_secrets import window_index
from ragseal.prover.serving import publishing
from tests.simulator.ticking import Ticking, ticking
from tests.web.published import NODE, Published, export_log
from tests.web.test_coins_in_node import Log
from tests.web.test_window_in_node import links_swapped, other_response

pytestmark = [pytest.mark.slow, pytest.mark.skipif(NODE is None, reason="Node.js is not installed")]


def asked(made: Ticking) -> None:
    """One record over each of two versions, a document between them, and a version that no record is over."""
    with made.client() as client:
        client.ask("report about topic 5")
        made.put(("new", "a new report about topic 5"))
        made.tick()
        client.ask("something else")
    made.tick()
    made.end_window()


def log_of(made: Ticking) -> Log:
    ledger = made.provider.ledger
    return Log(made.provider.state.log_signer, [ledger.entry(at) for at in range(ledger.size)])


def published(made: Ticking, log: Log, folder: Path) -> Published:
    publishing.export(made.provider, made.server.serving.proofs, folder, "", lambda *_: None)
    export_log(log, folder)  # type: ignore[arg-type]
    return Published(folder, made.log_key)


@pytest.mark.parametrize("coins", [False, True], ids=["every-list", "until-delivered"])
def test_records_over_several_versions_hold(coins: bool, tmp_path: Path) -> None:
    with ticking(tmp_path / "scene", coins=coins) as made:
        asked(made)
        files = published(made, log_of(made), tmp_path / "public")
        said = files.check()
        assert (said.state, said.proven) == ("good", 2), said.lines
        batch = files.only("proofs/*/0.bin")
        kept = ProofBatch.decode(batch.read_bytes())
        assert [link.number for link in kept.links] == [1, 2]
        batch.write_bytes(links_swapped(kept).encode())
        assert list(files.check().bad) == ["openings"]


def test_a_version_whose_hidden_slots_are_not_shown_to_be_empty(tmp_path: Path) -> None:
    with ticking(tmp_path / "scene", coins=True) as made:
        asked(made)
        log = log_of(made)
        at, update = made.window.updates[-1]
        data = [
            window_index(made.provider.state, made.window.digest, one.tenant, update.number) for one in update.tenants
        ]
        own, other = map(EmptiedFile.decode, data)
        line, shard = update.tenants[0], own.shards[0]
        files = published(made, log, tmp_path / "public")
        for forged, why in (
            (
                replace(own, shards=(replace(shard, link=other_response(shard.link)),)),
                "a proof of opening does not hold",
            ),
            (
                replace(own, shards=(replace(shard, proof=other.shards[0].proof),)),
                "the proof that hidden slots are empty does not hold",
            ),
        ):
            entry = forged.entry(line.tenant, line.text_root)
            log.all[at] = replace(update, tenants=(entry, *update.tenants[1:])).encode()
            export_log(log, files.folder)  # type: ignore[arg-type]
            (files.folder / columns_path(line.columns_digest)).write_bytes(forged.encode())
            said = files.check()
            assert list(said.bad) == ["columns"], said.lines
            assert why in said.bad["columns"]

# SPDX-License-Identifier: GPL-3.0-or-later
"""Turns that a provider, or whoever stole an old key, shows to one account.  SPEC G.6.13.3."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragseal.client.account import TURN_PROOF
from ragseal.kernel.errors import LedgerError
from ragseal.ledger.checkpoint import Checkpoint
from ragseal.ledger.merkle import MerkleTree
from tests.attacks import turn_checks as checks
from tests.attacks.checks import without
from tests.client.conftest import bench
from tests.client.small_provider import ORIGIN
from tests.client.test_log_keys import second, third

_ = bench  # a fixture


def test_an_account_takes_no_turn_of_a_tree_that_was_made_up(bench: Any, tmp_path: Path) -> None:
    """The old key signs a turn as the first entry of an empty tree: no such entry is in the log that is remembered."""
    client = bench.client()
    client.ask("json")
    made_up = type(bench.provider.log).create(tmp_path / "made-up", bench.provider.log_signer)
    made_up.rotate(third())
    log = bench.provider.log
    root = MerkleTree(log.entries(0, log.size)).root()
    bench.provider.checkpoint = lambda: Checkpoint(ORIGIN, log.size, root).sign(third())
    bench.provider.rotations = lambda: [proof.encode() for proof in made_up.turns()]
    with pytest.raises(LedgerError, match="of a different history"):
        client._history.latest(client._evidence(None))
    assert client.state.log_key() == bench.provider.log_signer.verifier
    with without(checks.TURN_IN_THIS_HISTORY):
        client._history.latest(client._evidence(None))
    made_up.close()


def test_what_is_shown_with_a_known_turn_is_not_kept(bench: Any) -> None:
    """Nobody looks at it, and each time it can be something else: the account's folder would grow."""
    client = bench.client()
    client.ask("json")
    bench.provider.log.rotate(second())
    client.ask("csv")
    bench.provider.log.rotate(third())
    first, new = bench.provider.log.turns()
    bench.provider.rotations = lambda: [replace(first, checkpoint=b"anything").encode(), new.encode()]
    client.ask("json")
    assert client.state.log_key() == bench.provider.log.verifier
    assert len(list(bench.state.glob(f"*{TURN_PROOF}"))) == 2

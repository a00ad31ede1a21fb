# SPDX-License-Identifier: GPL-3.0-or-later
"""A real provider whose index is poisoned while a window is open: what its ledger and its openings show."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench.saferag import data
from bench.saferag.commitments import Served
from ragseal.kernel.versions import IndexUpdate
from ragseal.prover.commitment.index import load_version
from ragseal.prover.storage.journal import read_entries
from tests.simulator.ticking import EVERY, ticking

pytestmark = pytest.mark.slow

ATTACK = next(task for task in data.load().tasks if task.name == "ICC").items[0].attacks[0]


def test_a_live_index_shows_in_which_version_an_attack_text_came(tmp_path: Path) -> None:
    with ticking(tmp_path) as live:
        clean = live.tick()
        live.put(("poison", ATTACK))
        poisoned = live.tick()
        assert (poisoned.number, poisoned.time) == (clean.number + 1, clean.time + EVERY)

        # the log: every version has an entry of its own, which is all that an outsider sees
        state, manifest = live.provider.state, live.window.digest
        logged = list(read_entries(live.provider.ledger))
        assert [logged.count(one.encode()) for one in (clean, poisoned)] == [1, 1]
        lines = [one.index_of("acme") for one in (clean, poisoned)]
        assert lines[0].columns_digest != lines[1].columns_digest
        assert lines[0].text_root != lines[1].text_root
        others = [one.index_of("globex") for one in (clean, poisoned)]
        assert others[0] != others[1]  # nothing was written there: an entry alone does not say that content changed

        # the openings: the attack text is in one slot of the later version, and of the earlier one in none
        before, after = (load_version(state, manifest, "acme", number=one.number) for one in (clean, poisoned))
        changed = np.flatnonzero((before.matrix != after.matrix).any(axis=1)).tolist()
        (slot,) = [slot for slot, content in after.texts.items() if content.text == ATTACK]
        assert changed == [slot]
        opening = after.open_text(slot)
        assert Served(after).accepts(slot, opening)
        assert not any(Served(before).accepts(at, opening) for at in range(len(before.matrix)))
        assert [v.updated for v in (before, after)] == lines
        assert all(isinstance(one, IndexUpdate) for one in (clean, poisoned))

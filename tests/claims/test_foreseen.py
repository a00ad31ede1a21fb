# SPDX-License-Identifier: GPL-3.0-or-later
"""What a provider is told of a window before it commits is what an auditor certifies of it afterwards."""

from __future__ import annotations

import pytest

from ragseal.kernel.policy import EVERY_LIST, UNTIL_DELIVERED
from tests.claims import said, scene
from tests.claims.scene import PLAIN, Log, policy


@pytest.mark.parametrize("claim", [EVERY_LIST, UNTIL_DELIVERED])
def test_of_an_index_over_shards_all_of_them_count(claim: str) -> None:
    log = Log()
    for number in range(2):
        log.window(policy(claim, number, class_name=PLAIN, shards=3, gain=16))
    budget = scene.eleventh(log, "w1", scene.auditor(), {}, []).budget
    assert budget is not None
    foreseen = said.foreseen(log, "w1")["before"]["values"]
    assert foreseen["epsilon"] == budget.epsilon
    assert [row["epsilon"] for row in foreseen["windows"]] == [budget.rows[0]["epsilon"]]

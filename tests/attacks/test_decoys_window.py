# SPDX-License-Identifier: GPL-3.0-or-later
"""Windows of decoys, whole: a real provider with real proofs, an account, an auditor; and what is against lies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.classes import DECOYS
from tests.simulator import provider as scene
from tests.simulator.live import Live, live

pytestmark = pytest.mark.slow


def over_shards(folder: Path, shards: int = 1, **options: Any) -> Any:
    texts = {"texts": lambda tenant: scene.documents(tenant, shards * 40)}
    return live(folder, coins=True, kind=scene.Kind(DECOYS, shards), **texts, **options)


def asked(made: Live, questions: int = 3) -> list[Any]:
    """A window with a few answers, closed."""
    with made.client() as client:
        found = [client.ask(f"acme report number {number}") for number in range(questions)]
    made.end_window()
    return found


@pytest.mark.parametrize("shards", [1, 2])
def test_an_honest_window_passes(shards: int, tmp_path: Path) -> None:
    with over_shards(tmp_path, shards) as made:
        found = asked(made)
        verdict, policy = made.audited(), made.window.manifest.policy
        assert verdict.verdict == "PASS", verdict.line()
        assert all(len(one.record.t_commits) == shards for one in found)
        assert " claim=until-delivered coalition=any " in verdict.line()

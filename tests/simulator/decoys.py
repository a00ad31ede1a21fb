# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulator's world with decoys: real coins, lists of the real law, and every commitment opened for real.

Only the proofs are those of a :class:`~tests.simulator.parties.StatedKey`, which accepts the statements that it
"proved".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from ragseal.backends.mechanism import open_engine
from ragseal.kernel.attestation import Request
from ragseal.kernel.claims import form_of
from ragseal.kernel.mechanism import noise_key
from ragseal.kernel.policy import Policy
from ragseal.kernel.statement import Returned
from tests.classes import DECOYS
from tests.simulator import coined
from tests.simulator.parties import StatedKey

SEED = (3 << 100, 5 << 90)
RATE = 1 << 16  #: one draw of a shard on average
IDS, LO = 8, 2500
NO_DRAWS = DECOYS.table(0).digest()  #: of the table in which nothing is ever drawn


@cache
def key() -> StatedKey:
    """With bases of every commitment."""
    return StatedKey(DECOYS)


def policy(shards: int = 1, **changes: Any) -> Policy:
    """The coined simulator's, of decoys."""
    own: dict[str, Any] = {
        "class_name": DECOYS.name, "table_digest": DECOYS.table(RATE).digest(), "lo": LO, "hi": LO + 1, "gain": 1,
        "ids": IDS, "decoy_rate": RATE, "shards": shards, "gate": False, "epsilon_account": "4",
    }  # fmt: skip
    return coined.policy(**{**own, **changes})


def of_claim(claim: str, **changes: Any) -> Policy:
    """The same of a claim without decoys."""
    own: dict[str, Any] = {"claim": claim, "decoy_rate": 0, "table_digest": NO_DRAWS, "delta": "0"}
    if not form_of(claim).private:
        own |= {"hidden": 0, "k_max": 1, "epsilon_account": "none", "delta": "none", "period_start": policy().opens}
    return replace(policy(), **{**own, **changes})


class DecoysWorld(coined.CoinedWorld):
    """A log whose windows have decoys, over so many shards."""

    def __init__(self, shards: int = 1) -> None:
        self.engine, self.wanted = open_engine(DECOYS), shards
        super().__init__(key(), DECOYS, shards)

    def enter_manifest(self, name: str = "w1", *, policy_: Policy | None = None, **changes: Any) -> None:
        super().enter_manifest(name, policy_=policy_ or policy(self.wanted), **changes)

    def select(
        self, request: Request, tenant: str, e: list[int]
    ) -> tuple[Sequence[Returned], Sequence[tuple[bytes, ...]], tuple[int, ...]]:
        """T and its witnesses, as the law has them."""
        y = np.array(self.tenants[tenant].rows, dtype=np.int64) @ np.array(e, dtype=np.int64)
        drawn, asked = noise_key(SEED, self.beacon, request.ctx()), self.manifest.policy.asked(self.cls)
        hidden = self.engine.hidden(drawn, y, asked)
        return self.engine.answer(drawn, y, asked), list(hidden), hidden.shared


def queried(shards: int = 1, **changes: Any) -> DecoysWorld:
    """A closed window with seven answers."""
    world = DecoysWorld(shards)
    world.commit(policy_=policy(shards, **changes))
    world.queries()
    world.close()
    return world


def queried_of(claim: str, **changes: Any) -> DecoysWorld:
    """The same of a claim without decoys."""
    world = DecoysWorld()
    world.commit(policy_=of_claim(claim, **changes))
    world.queries()
    world.close()
    return world

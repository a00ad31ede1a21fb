# SPDX-License-Identifier: GPL-3.0-or-later
"""One small window with all its secrets: the simulator of the verifier's tests, under keys with a known trapdoor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ragseal.groth16.views import EstimateView, View
from ragseal.kernel import field
from ragseal.kernel.commitment import ScoreBases
from ragseal.kernel.committed import CommittedBases, Over, Use
from ragseal.kernel.estimate_class import CLASSES
from ragseal.kernel.noise_stated import HINTS as HINTS_USE
from ragseal.kernel.noise_stated import THRESHOLDS
from ragseal.kernel.noise_statement import CLEAR_NAMES, THRESHOLD
from ragseal.kernel.params import R
from ragseal.kernel.statements import stated_of
from tests.simulator import CLS, HINTS, Tenant, World, policy
from tests.simulator.estimates import Case, Estimator
from vectors.source.reading import verifying_key_of
from vectors.source.trapdoor import GROUP, Trapdoor

CLEAR = len(CLEAR_NAMES)
SCORES_AT = CLEAR + 1
HINTS_AT = SCORES_AT + CLS.N
THRESHOLD_AT = HINTS_AT + HINTS
PUBLIC = THRESHOLD_AT + len(THRESHOLD)
SIZE = CLASSES["estimate-6"]


class WindowKey(View):
    """The attestation's key of these vectors, in the order of SPEC B.10.2: six hints for a class's, and no C_1."""

    def __init__(self, data: bytes) -> None:
        super().__init__(CLS.name, PUBLIC, CLEAR, verifying_key_of(data))
        self.cls, self.stated = CLS, stated_of(CLS)
        self.scores = ScoreBases(self.bases(SCORES_AT, CLS.N), self.bases(CLEAR, 1))
        self.sum_y = GROUP.msm(self.scores.y, field.pack([1] * CLS.N))
        b, size = self.scores.b, len(THRESHOLD)
        hints = Over(self.bases(HINTS_AT, HINTS) + b, ((0, HINTS + 1),))
        threshold = Over(self.bases(THRESHOLD_AT, size) + b, ((0, size + 1),))
        self.committed = CommittedBases((Use(HINTS_USE, HINTS, (hints,)),), Use(THRESHOLDS, size, (threshold,)))

    def verify(self, clear: Sequence[int], c_w: bytes, committed: bytes, proof: bytes) -> None:
        self.verify_points(clear, c_w + committed, proof)

    def verify_batch(self, items: Sequence[tuple[Sequence[int], bytes, bytes, bytes]]) -> None:
        self.verify_points_batch([(clear, c_w + committed, (), proof) for clear, c_w, committed, proof in items])


class ProvingKey(WindowKey):
    """With the trapdoor."""

    def __init__(self) -> None:
        self.trapdoor = Trapdoor("window key", PUBLIC)
        super().__init__(self.trapdoor.key)

    def prove(self, clear: Sequence[int], c_w: bytes, committed: bytes) -> bytes:
        return self.trapdoor.prove(clear, c_w + committed)


class Scene:
    """Keys, tenants and worlds of one run of the generator."""

    def __init__(self) -> None:
        self.key = ProvingKey()
        self.blocks = Trapdoor("estimate key", SIZE.public)
        self.block_key = EstimateView(SIZE, verifying_key_of(self.blocks.key))
        self.tenants = {name: Tenant.make(name, self.key) for name in ("north", "south")}
        self.honest = self.window()
        over = {name: Tenant.make(name, self.key, shards=2) for name in ("north", "south")}
        self.over_shards = self.window(over, shards=2)

    def world(self, tenants: dict[str, Tenant] | None = None) -> World:
        """An empty log and everybody's secrets."""
        world = World(self.key, tenants or self.tenants)
        world.estimator = Estimator(world, self.block_key, self._prove_block)
        return world

    def window(self, tenants: dict[str, Tenant] | None = None, **changes: Any) -> World:
        """A closed window: five queries of three accounts, two of which ask one question."""
        world = self.world(tenants)
        world.commit(policy_=policy(**changes))
        for account in ("alice", "bob", "carol", "alice", "carol"):
            linked = account != "carol" and len(world.answers) < 2
            world.ask(account, e=[90, 60, -64, 20] if linked else None)
        world.close()
        return world

    def _prove_block(self, case: Case) -> bytes:
        return self.blocks.prove([x % R for x in case.clear], case.c_g + case.c_s)


def keys_of(scene: Scene) -> dict[str, Any]:
    """The verifying keys as vectors hold them."""
    return {"key": scene.key.trapdoor.key, "estimate_key": scene.blocks.key}

# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulator's world with claim until-delivered: real coins, a real thinning key, and real proofs of 126 slots.

Tenants are placed under the thinning key's points; once a window's beacon is complete its coins empty slots, and the
window answers from the columns that are left.
"""

from __future__ import annotations

import hashlib
import random
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from ragseal.circuits.circuit import class_digest
from ragseal.groth16.coin_proofs import CoinSecrets, scalars_needed
from ragseal.groth16.thinning import ThinningSecrets, make_thinned, thin
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.coin import coin_commitment, coin_context, hidden_slots
from ragseal.kernel.commitment import CoinCommitment, ThinnedIndex, Thinning
from ragseal.kernel.params import R
from ragseal.kernel.policy import UNTIL_DELIVERED, Policy
from ragseal.kernel.thinning import ThinnedFile, ThinningStatement
from ragseal.verifier.evidence.evidence import Auditor, ConfiguredKey
from tests import simulator
from tests.simulator import CLS, DIMENSION, GROUP, Tenant, World, index_file, scalars
from tests.simulator.keys import thinning_backend
from tests.simulator.parties import beside

HIDDEN = 60  #: j: about a quarter of the slots

Seed = tuple[int, int]
_FILES: dict[tuple[object, ...], tuple[Tenant, ThinnedFile]] = {}  #: the same windows are thinned once for all tests


@cache
def placed(slots: int = CLS.N, shards: int = 1) -> dict[str, Tenant]:
    """The simulator's tenants, committed under the thinning key's points."""
    key = thinning_backend(slots=slots).key
    return {name: Tenant.make(name, key, slots=slots, shards=shards) for name in ("north", "south")}


def policy(**changes: Any) -> Policy:
    """The simulator's policy with a coin."""
    return simulator.policy(**{"claim": UNTIL_DELIVERED, "hidden": HIDDEN, **changes})


def seed_of(window: str) -> Seed:
    """The coin seed of a window."""
    return int.from_bytes(hashlib.sha256(b"coins of " + window.encode()).digest()[:16], "big"), 7


class CoinedWorld(World):
    """A log whose windows have coins; those of ``policy_`` without one are as the simulator's.

    ``tenants`` are what records are answered from: the thinned ones, once a window's coins have decided.
    """

    def __init__(self, key: Any = None, cls: AttestationClass = CLS, shards: int = 1) -> None:
        """
        Args:
            shards: of every tenant's index.
        """
        self.placed, self.thinner = placed(cls.N, shards), thinning_backend(slots=cls.N)
        super().__init__(key, dict(self.placed), cls=cls)
        self.coin_made_by = "auditor"
        self.throws: dict[bytes, tuple[int, Seed]] = {}  #: beacon and coin seed by manifest
        self.throw: bytes = b""  #: the manifest whose beacon threw this window's coins

    # --- phase A ---

    def enter_manifest(
        self, name: str = "w1", *, policy_: Policy | None = None, carries: bytes | None = None, **changes: Any
    ) -> None:
        """``carries``: digest of the manifest whose coins this one carries on."""
        wanted = policy_ or policy()
        self.seed = seed_of(name) if carries is None else self.throws[carries][1]
        self.tenants = dict(self.placed) if wanted.coined else self.unplaced()
        self.files = {name: tenant.file for name, tenant in self.tenants.items()}
        if wanted.coined:
            thrown_by = () if carries is None else (carries,)
            coin = CoinCommitment(coin_commitment(self.seed), self.thinner.key.digest, thrown_by)
            changes = {"coins": (coin,), **changes}
        super().enter_manifest(name, policy_=wanted, **changes)
        self.throw = self.digest if carries is None else carries

    def unplaced(self) -> dict[str, Tenant]:
        """Tenants of a window without coins: columns lie under the retrieval key's points."""
        if self.cls.name == CLS.name:
            return dict(simulator.TENANTS)
        shards = len(self.placed["north"].rows) // self.cls.N
        return {name: Tenant.make(name, self.key, slots=self.cls.N, shards=shards) for name in ("north", "south")}

    def enter_beacon(self) -> None:
        """With a coin, the thinning stands before the opening."""
        super().enter_beacon()
        self.throws[self.digest] = self.beacon, self.seed
        if self.manifest.policy.coined:
            self.messages.insert(len(self.messages) - 1, self.thin())

    def enter_sealed(self, *, opened: bool = True) -> None:
        """The beacon as far as a window goes that never opens; ``opened``: with the auditor's nonce in the log."""
        super().enter_beacon()
        self.throws[self.digest] = self.beacon, self.seed
        del self.messages[-1 if opened else -2 :]

    # --- thinning ---

    def thin(self) -> Thinning:
        """Empty what the coins of this window hide, and answer from what is left; the log's entry."""
        entries = []
        for name in sorted(self.placed):
            self.tenants[name], file = self.thinned_index(name)
            self.thinned[self.digest, name] = file
            entries.append(file.entry(name))
        return Thinning(self.digest, tuple(entries))

    def thinned_index(
        self,
        tenant: str,
        *,
        manifest: bytes | None = None,
        beacon: int | None = None,
        named: str | None = None,
        seed: Seed | None = None,
        hidden: int | None = None,
    ) -> tuple[Tenant, ThinnedFile]:
        """A tenant's index without the slots that these coins hide, honestly proven; of this window if nothing is said.

        Args:
            manifest: of the statement, and of the context that coins follow from; by default this window's, and the
                one's that threw its coins.
            beacon, named: of that context; ``named`` is the tenant in it.
            seed: the coin seed.
            hidden: j.
        """
        of = self.digest if manifest is None else manifest
        throw = self.throw if manifest is None else manifest
        at = self.throws.get(throw, (self.beacon,))[0] if beacon is None else beacon
        contexts = self.contexts(throw, at, named or tenant)
        drawn = seed or self.seed
        share = self.manifest.policy.hidden if hidden is None else hidden
        asked = self.key.digest, tenant, of, contexts, drawn, share
        if asked not in _FILES:
            _FILES[asked] = self._thin(self.placed[tenant], of, contexts, drawn, share)
        return _FILES[asked]

    def contexts(self, throw: bytes, beacon: int, tenant: str) -> tuple[int, ...]:
        """Of the coins of every shard of a tenant."""
        shards = len(self.placed["north"].rows) // self.cls.N
        return tuple(coin_context(throw, beacon, tenant, shard) for shard in range(shards))

    def _thin(
        self, before: Tenant, manifest: bytes, contexts: tuple[int, ...], seed: Seed, share: int
    ) -> tuple[Tenant, ThinnedFile]:
        rng, N, d = random.Random(f"{before.name} {manifest.hex()} {contexts[0]}"), self.cls.N, DIMENSION
        hides = [hidden_slots(seed, context, N, share) for context in contexts]
        matrix = np.array(before.rows, dtype=np.int8)
        after = recommitted(before, thin(matrix, [one for own in hides for one in own]).tolist(), self.key, rng)
        made = []
        for shard, context in enumerate(contexts):
            own, points = slice(d * shard, d * (shard + 1)), slice(64 * d * shard, 64 * d * (shard + 1))
            statement = ThinningStatement(
                thinning_key=self.thinner.key.digest,
                attestation_key=self.key.digest,
                manifest=manifest,
                c_coin=coin_commitment(seed),
                context=context,
                hidden=share,
                placed=before.file.columns[points],
                thinned=after.file.columns[points],
            )
            blinders = before.blinders[own], after.blinders[own]
            fresh = scalars(rng, scalars_needed(self.thinner.key.cls, sides=2))
            secrets = ThinningSecrets(CoinSecrets(seed, fresh), *blinders, rng.randrange(1, R))
            rows = matrix[N * shard : N * (shard + 1)]
            made.append(make_thinned(GROUP, self.thinner, self.key.scores, statement, rows, hides[shard], secrets))
        return after, ThinnedFile(after.file.columns, after.file.opening, tuple(made))

    def hides(self, tenant: str) -> list[bool]:
        """Which slots of a tenant this window's coins hide."""
        share = self.manifest.policy.hidden
        contexts = self.contexts(self.throw, self.throws[self.throw][0], tenant)
        return [one for context in contexts for one in hidden_slots(self.seed, context, self.cls.N, share)]

    def put_thinning(self, *tenants: ThinnedIndex) -> None:
        """Another entry in the place of this window's thinning."""
        self.messages[self.at(Thinning)] = Thinning(self.digest, tenants)

    # --- phase D ---

    def auditor(self) -> Auditor:
        key = self.thinner.key
        mine = ConfiguredKey(key.digest, key.cls.name, class_digest(key.cls), self.coin_made_by, lambda: key)
        return replace(super().auditor(), thinnings={key.digest: mine})


def recommitted(tenant: Tenant, rows: list[list[int]], key: Any, rng: random.Random) -> Tenant:
    """A tenant with other rows, under this key's points and fresh blinders; its manifest entry stays."""
    blinders = [rng.randrange(1, R) for _ in tenant.blinders]
    file = index_file(beside(rows, key.scores.capacity), blinders, key, rng)
    return replace(tenant, rows=rows, blinders=blinders, file=file)

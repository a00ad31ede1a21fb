# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulator's world with claim until-delivered: real coins, a real thinning key, lists of decoys of the real law.

Tenants are placed under the thinning key's points; once a window's beacon is complete its coins empty slots, and the
window answers from the columns that are left.  Thinnings are proven and every commitment is opened for real; only the
proofs of records are those of a :class:`~tests.simulator.parties.StatedKey`, which accepts the statements that it
"proved".
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from ragseal.backends.mechanism import open_engine
from ragseal.circuits.circuit import class_digest
from ragseal.groth16.coin_proofs import CoinSecrets, scalars_needed
from ragseal.groth16.thinning import ThinningSecrets, make_thinned, thin
from ragseal.kernel.attestation import Request
from ragseal.kernel.claims import form_of
from ragseal.kernel.coin import coin_commitment, coin_context, hidden_slots
from ragseal.kernel.commitment import CoinCommitment, ThinnedIndex, Thinning
from ragseal.kernel.mechanism import noise_key
from ragseal.kernel.params import R
from ragseal.kernel.policy import UNTIL_DELIVERED, Policy
from ragseal.kernel.statement import Returned
from ragseal.kernel.thinning import ThinnedFile, ThinningStatement
from ragseal.verifier.evidence.evidence import Auditor, ConfiguredKey
from tests import simulator
from tests.classes import DECOYS
from tests.simulator import CLASS_DIGEST, CLS, DIMENSION, GROUP, KEY, Tenant, World, index_file, scalars
from tests.simulator.keys import thinning_backend
from tests.simulator.parties import StatedKey, beside

HIDDEN = 60  #: j: about a quarter of the slots
NOISE_SEED = (3 << 100, 5 << 90)
RATE = 1 << 16  #: one draw of a shard on average
IDS, LO = 8, 2500
NO_DRAWS = DECOYS.table(0).digest()  #: of the table in which nothing is ever drawn
BOUNDLESS = {"ids": DECOYS.room, "chunks_max": 9, "epsilon_account": "100"}  #: in a policy: no finite return follows

Seed = tuple[int, int]
_FILES: dict[tuple[object, ...], tuple[Tenant, ThinnedFile]] = {}  #: the same windows are thinned once for all tests


@cache
def key() -> StatedKey:
    """Of decoys, with bases of every commitment."""
    return StatedKey(DECOYS)


@cache
def placed(shards: int = 1) -> dict[str, Tenant]:
    """The simulator's tenants, committed under the thinning key's points."""
    own = thinning_backend().key
    return {name: Tenant.make(name, own, slots=DECOYS.N, shards=shards) for name in ("north", "south")}


def policy(shards: int = 1, **changes: Any) -> Policy:
    """The simulator's policy with a coin."""
    own: dict[str, Any] = {
        "class_name": DECOYS.name, "table_digest": DECOYS.table(RATE).digest(), "claim": UNTIL_DELIVERED,
        "hidden": HIDDEN, "lo": LO, "hi": LO + 1, "gain": 1, "ids": IDS, "decoy_rate": RATE, "shards": shards,
        "gate": False, "epsilon_account": "4",
    }  # fmt: skip
    return simulator.policy(**{**own, **changes})


def of_claim(claim: str, **changes: Any) -> Policy:
    """The same of a claim without decoys."""
    own: dict[str, Any] = {"claim": claim, "decoy_rate": 0, "table_digest": NO_DRAWS, "delta": "0"}
    if not form_of(claim).private:
        own |= {"hidden": 0, "k_max": 1, "epsilon_account": "none", "delta": "none", "period_start": policy().opens}
    return replace(policy(), **{**own, **changes})


def seed_of(window: str) -> Seed:
    """The coin seed of a window."""
    return int.from_bytes(hashlib.sha256(b"coins of " + window.encode()).digest()[:16], "big"), 7


class CoinedWorld(World):
    """A log whose windows have coins; those of ``policy_`` without one are as the simulator's, with noise.

    ``tenants`` are what records are answered from: the thinned ones, once a window's coins have decided.
    """

    def __init__(self, shards: int = 1) -> None:
        """
        Args:
            shards: of every tenant's index.
        """
        self.placed, self.thinner, self.wanted = placed(shards), thinning_backend(), shards
        super().__init__(key(), dict(self.placed), cls=DECOYS)
        self.engine = open_engine(DECOYS)
        self.coin_made_by = "auditor"
        self.throws: dict[bytes, tuple[int, Seed]] = {}  #: beacon and coin seed by manifest
        self.throw: bytes = b""  #: the manifest whose beacon threw this window's coins

    # --- phase A ---

    def enter_manifest(
        self,
        name: str = "w1",
        *,
        policy_: Policy | None = None,
        carries: bytes | None = None,
        claims: Mapping[str, str] | None = None,
        **changes: Any,
    ) -> None:
        """
        Args:
            carries: digest of the manifest whose coins this one carries on.
            claims: of tenants, those that are lower than the policy's.
        """
        wanted = policy_ or policy(self.wanted)
        self.seed = seed_of(name) if carries is None else self.throws[carries][1]
        decoys = wanted.coined or wanted.form.plain
        self.key, self.cls = (key(), DECOYS) if decoys else (KEY, CLS)
        self.tenants = dict(self.placed) if wanted.coined else self.unplaced()
        for tenant, claim in (claims or {}).items():
            made = self.tenants[tenant] if form_of(claim).coin else self.unplaced()[tenant]
            self.tenants[tenant] = replace(made, index=replace(made.index, claim=claim))
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
        names = "north", "south"
        return {name: Tenant.make(name, self.key, slots=self.cls.N, shards=self.wanted) for name in names}

    # --- phase B ---

    def select(
        self, request: Request, tenant: str, e: list[int]
    ) -> tuple[Sequence[Returned], Sequence[tuple[bytes, ...]], tuple[int, ...]]:
        """T and its witnesses, as the law has them."""
        if self.cls.scaled:
            return super().select(request, tenant, e)
        y = np.array(self.tenants[tenant].rows, dtype=np.int64) @ np.array(e, dtype=np.int64)
        drawn, asked = noise_key(NOISE_SEED, self.beacon, request.ctx()), self.rules_of(tenant).asked(self.cls)
        hidden = self.engine.hidden(drawn, y, asked)
        return self.engine.answer(drawn, y, asked), list(hidden), hidden.shared

    # --- coins ---

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
        exposed = {one.tenant for one in self.manifest.tenants} - set(self.manifest.coined)
        for name in sorted(set(self.placed) - exposed):
            made, file = self.thinned_index(name)
            self.tenants[name] = replace(made, index=self.tenants[name].index)
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
        shards = len(next(iter(self.placed.values())).rows) // self.cls.N
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
        coins = self.thinner.key
        mine = ConfiguredKey(coins.digest, coins.cls.name, class_digest(coins.cls), self.coin_made_by, lambda: coins)
        known = {
            one.digest: ConfiguredKey(one.digest, cls.name, CLASS_DIGEST, self.made_by, lambda one=one: one)
            for one, cls in ((KEY, CLS), (key(), DECOYS))
        }
        return replace(
            super().auditor(),
            classes={cls.name: (cls, CLASS_DIGEST) for cls in (CLS, DECOYS)},
            keys={**known, **super().auditor().keys},
            thinnings={coins.digest: mine},
        )


def recommitted(tenant: Tenant, rows: list[list[int]], key: Any, rng: random.Random) -> Tenant:
    """A tenant with other rows, under this key's points and fresh blinders; its manifest entry stays."""
    blinders = [rng.randrange(1, R) for _ in tenant.blinders]
    file = index_file(beside(rows, key.scores.capacity), blinders, key, rng)
    return replace(tenant, rows=rows, blinders=blinders, file=file)


def queried(shards: int = 1, **changes: Any) -> CoinedWorld:
    """A closed window with seven answers."""
    world = CoinedWorld(shards)
    world.commit(policy_=policy(shards, **changes))
    world.queries()
    world.close()
    return world


def queried_of(claim: str, **changes: Any) -> CoinedWorld:
    """The same of a claim without decoys."""
    world = CoinedWorld()
    world.commit(policy_=of_claim(claim, **changes))
    world.queries()
    world.close()
    return world

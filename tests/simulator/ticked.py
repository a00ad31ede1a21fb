# SPDX-License-Identifier: GPL-3.0-or-later
"""Simulated windows whose indices change on a tick, without coins and with; every lie about an update is told here."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from ragseal.groth16.coin_proofs import CoinSecrets, scalars_needed
from ragseal.groth16.emptied import EmptiedSecrets, make_emptied
from ragseal.groth16.thinning import thin
from ragseal.kernel.coin import coin_commitment, coin_context
from ragseal.kernel.commitment import Account, IndexFile, TenantIndex
from ragseal.kernel.emptied import EmptiedFile, EmptiedStatement, plain_entry
from ragseal.kernel.encoding import Message
from ragseal.kernel.enrolment import Enrolment, Enrolments, enrolment_leaves, places
from ragseal.kernel.params import R
from ragseal.kernel.policy import Policy
from ragseal.kernel.versions import IndexUpdate, UpdatedIndex
from ragseal.ledger.merkle import MerkleTree
from tests import simulator
from tests.simulator import DIMENSION, GROUP, Tenant, World, index_file, scalars
from tests.simulator import coined as coins
from tests.simulator.coined import HIDDEN, CoinedWorld
from tests.simulator.keys import thinning_backend
from tests.simulator.parties import OPENS, account

EVERY = 60


@dataclass(frozen=True)
class Named:
    """A version's digest and text root, where a tenant of the simulator has its manifest's line."""

    named: bytes
    text_root: bytes

    def digest(self) -> bytes:
        return self.named


class TickedWorld(World):
    """A log whose windows have a new version of every index each minute."""

    def enter_manifest(self, name: str = "w1", *, policy_: Policy | None = None, **changes: Any) -> None:
        super().enter_manifest(name, policy_=policy_ or simulator.policy(version_every=EVERY), **changes)
        self.tenants = dict(self.tenants)  # a version takes the place of the manifest's
        self.number = 0
        self.at: dict[tuple[str, int], Tenant] = {}
        #: Every account of the window; tests add some, or take some out.
        self.lines = [Enrolment(one, 5 * at + 2) for at, one in enumerate(self.registry)]
        self.salts = hashlib.sha256(self.digest).digest()

    def queries(self) -> None:
        """Two queries over each of three versions."""
        for number, accounts in enumerate((("alice", "bob"), ("carol", "alice"), ("carol", "bob")), 1):
            self.update(number)
            for name in accounts:
                self.ask(name)

    def indexed(self, tenant: str, number: int) -> Tenant:
        return self.at.get((tenant, number)) or self.tenants[tenant]

    # --- accounts ---

    def enrolled_root(self, number: int) -> bytes:
        """What an honest update commits to, of the accounts as they are now."""
        size = places(self.manifest)
        return MerkleTree(enrolment_leaves(self.salts, number, self.lines, size)).root()

    def registry_payload(self) -> Message:
        if not self.manifest.policy.version_every:
            return super().registry_payload()
        lines = sorted(self.lines, key=lambda one: one.account.pseudonym)
        return Enrolments(self.salts, tuple(lines))

    def come(self, name: str, tenant: str, since: int, **changes: Any) -> Account:
        """An account comes with version ``since``; ``changes`` are of its line."""
        new = account(name, tenant)
        self.lines.append(replace(Enrolment(new, 50 + len(self.lines), since), **changes))
        self.registry = [*self.registry, new]
        return new

    def leave(self, name: str, until: int) -> None:
        """An account leaves with version ``until``."""
        self.lines = [replace(one, until=until) if one.account.name == name else one for one in self.lines]

    # --- updates ---

    def update(self, number: int, **changes: Any) -> IndexUpdate:
        """Enter version ``number``, honestly made, and answer from it; ``changes`` are of the entry's fields."""
        made = replace(self.made(number), **changes)
        self.messages.append(made)
        self.take(made, number)
        return made

    def made(self, number: int, rows: dict[str, list[list[int]]] | None = None) -> IndexUpdate:
        """The entry of a version; its files are there to be fetched.

        Args:
            rows: of tenants whose index is not as the simulator fills it.
        """
        lines = []
        for name in sorted(self.tenants):
            line = self.version(name, number, (rows or {}).get(name))
            lines.append(line)
        return IndexUpdate(self.digest, number, OPENS + 60 * number, tuple(lines), self.enrolled_root(number))

    def take(self, made: IndexUpdate, number: int) -> None:
        """Answer from the versions of this entry from here on."""
        for line in made.tenants:
            of = self.at[line.tenant, number]
            named = Named(made.index_digest(line.tenant), line.text_root)
            self.at[line.tenant, number] = self.tenants[line.tenant] = replace(of, index=cast(TenantIndex, named))
        self.number = number

    def rows(self, tenant: str, number: int) -> list[list[int]]:
        """What an honest version holds: other rows in each."""
        rng = random.Random(f"{tenant} {number}")
        return [[rng.randrange(-60, 61) for _ in range(DIMENSION)] for _ in range(self.cls.N)]

    def version(self, tenant: str, number: int, rows: list[list[int]] | None = None) -> UpdatedIndex:
        """Make one tenant's version, and the file that goes with it."""
        rng = random.Random(f"version of {tenant} {number} {self.digest.hex()}")
        blinders = [rng.randrange(1, R) for _ in range(DIMENSION)]
        held = self.rows(tenant, number) if rows is None else rows
        file = index_file(held, blinders, self.key, rng)
        self.at[tenant, number] = replace(self.tenants[tenant], rows=held, blinders=blinders, file=file)
        made = self.file(tenant, number, file, held, blinders, rng)
        self.version_files[self.digest, number, tenant] = made
        root = self.tenants[tenant].texts.root()
        return made.entry(tenant, root) if isinstance(made, EmptiedFile) else plain_entry(made, tenant, root)

    def file(
        self,
        tenant: str,
        number: int,
        index: IndexFile,
        rows: list[list[int]],
        blinders: Sequence[int],
        rng: random.Random,
    ) -> IndexFile | EmptiedFile:
        """The public file of a version."""
        return index


class TickedCoins(TickedWorld, CoinedWorld):
    """The same with coins: hidden slots are empty in every version, by a real proof."""

    def enter_manifest(self, name: str = "w1", *, policy_: Policy | None = None, **changes: Any) -> None:
        super().enter_manifest(name, policy_=policy_ or coins.policy(version_every=EVERY), **changes)

    def rows(self, tenant: str, number: int) -> list[list[int]]:
        matrix = np.array(super().rows(tenant, number), dtype=np.int8)
        held: list[list[int]] = thin(matrix, self.hides(tenant)).tolist()
        return held

    def file(
        self,
        tenant: str,
        number: int,
        index: IndexFile,
        rows: list[list[int]],
        blinders: Sequence[int],
        rng: random.Random,
    ) -> EmptiedFile:
        return self.emptied(self.statement(tenant, number, index.columns), index, rows, blinders, rng)

    def statement(self, tenant: str, number: int, columns: bytes) -> EmptiedStatement:
        """What the proof of an honest version says."""
        return EmptiedStatement(
            thinning_key=thinning_backend().key.digest,
            attestation_key=self.key.digest,
            manifest=self.digest,
            number=number,
            c_coin=coin_commitment(self.seed),
            context=coin_context(self.throw, self.throws[self.throw][0], tenant),
            hidden=HIDDEN,
            columns=columns,
        )

    def emptied(
        self,
        statement: EmptiedStatement,
        index: IndexFile,
        rows: list[list[int]],
        blinders: Sequence[int],
        rng: random.Random,
        seed: tuple[int, int] | None = None,
    ) -> EmptiedFile:
        """The file of a version, honestly proven for this statement."""
        asked = hashlib.sha256(statement.digest + statement.columns).digest()
        if asked not in _FILES:
            fresh = scalars(rng, scalars_needed(thinning_backend().key.cls, sides=3))
            rho = rng.randrange(1, R), rng.randrange(1, R)
            secrets = EmptiedSecrets(CoinSecrets(seed or self.seed, fresh), blinders, rho)
            matrix = np.array(rows, dtype=np.int8)
            shard = make_emptied(GROUP, thinning_backend(), self.key.scores, statement, matrix, secrets)
            _FILES[asked] = EmptiedFile(statement.columns, index.opening, (shard,))
        return _FILES[asked]


_FILES: dict[bytes, EmptiedFile] = {}  #: the same versions are proven once for all tests

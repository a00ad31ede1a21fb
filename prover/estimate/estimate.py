# SPDX-License-Identifier: GPL-3.0-or-later
"""Phase C at the provider: one signed list of links a window, and proofs of the blocks an auditor asks for.  SPEC C.

The list is made when it is first asked for after the window is closed, and kept before it leaves: there is never a
second one.  Blocks are proven with fresh blinders and nonces each time and verified as the auditor does before they
leave; a failure stops the key (SPEC A.9).
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from ragseal.groth16.assignments import assign_block
from ragseal.groth16.keys import EstimateView
from ragseal.groth16.provers import BlockBackend
from ragseal.kernel import certificate, field, link_list, signature
from ragseal.kernel.attestation import Record
from ragseal.kernel.bn254 import Group
from ragseal.kernel.certificate import Block, BlockBatch, BlockProof, Scope
from ragseal.kernel.errors import ConfigurationError, EstimateError, ProofError, UnavailableError
from ragseal.kernel.estimate import (
    MAX_LINKS,
    Embeddings,
    Reach,
    find_links,
    full_blocks,
    link_threshold,
    reach_of,
    spanning_links,
)
from ragseal.kernel.link_list import LinkList, SignedLinks, TenantLinks
from ragseal.kernel.opening import powers, prove_opening
from ragseal.kernel.params import R
from ragseal.kernel.policy import Policy, rational
from ragseal.kernel.squarednorm import nonces_needed, prove_squared_norm
from ragseal.prover.attestation.answers import secrets_of_record
from ragseal.prover.attestation.open_window import OpenWindows
from ragseal.prover.base.randomness import Draw, packed_scalars, scalar
from ragseal.prover.commitment.columns import embedding_generators
from ragseal.prover.keys.keyring import BlockKeys
from ragseal.prover.storage.journal import Journal
from ragseal.prover.storage.kept_deliveries import KeptDeliveries, blocks_ask
from ragseal.prover.storage.retirement import is_retired, refusal
from ragseal.prover.storage.state import State
from ragseal.prover.storage.stopped_keys import stop_key, stopped
from ragseal.prover.storage.window import Stage, Window
from ragseal.prover.storage.window_keys import load_window_key
from ragseal.prover.workers.by_workers import ByWorkers
from ragseal.prover.workers.in_order import InOrder
from ragseal.prover.workers.interface import Workers
from ragseal.prover.workers.turns import Turns

KEPT = 2  #: windows whose records stay in memory

log = logging.getLogger("ragseal.provider")


@dataclass(frozen=True)
class TenantRecords:
    """A tenant's records of a window in ledger order: their digests, which are compared, C_e, and what opens those."""

    digests: tuple[bytes, ...]
    reach: Reach
    c_e: Sequence[bytes]
    embeddings: Embeddings
    blinders: tuple[int, ...]

    def __repr__(self) -> str:
        return f"TenantRecords({len(self.digests)})"


@dataclass(frozen=True)
class _WindowRecords:
    """All that estimates of a closed window are made from."""

    window: Window
    tenants: dict[str, TenantRecords]

    def __repr__(self) -> str:
        return f"_WindowRecords({self.window.manifest.window!r})"


@dataclass(frozen=True)
class _Proven:
    """A block with what the opening of its delivery needs."""

    digest: bytes
    proof: BlockProof
    witness: bytes  #: norms, products and the blinder of C_G, packed

    def __repr__(self) -> str:
        return "_Proven(...)"


class Estimates:
    """Makes and keeps the estimates of one provider.  Methods block and may be called from any thread."""

    def __init__(
        self,
        state: State,
        journal: Journal,
        group: Group,
        rings: Sequence[BlockKeys],
        windows: OpenWindows,
        draw: Draw,
        turns: Turns | None = None,
        workers: Workers | None = None,
    ) -> None:
        """
        Args:
            turns: shared with whatever else takes every core as a proof does.
            workers: who makes the blocks' Groth16 proofs; None: this process.
        """
        self._workers = workers
        self._pool = None if workers is None else InOrder(lambda: workers.places, "blocks")
        self._state = state
        self._journal = journal
        self._group = group
        self._rings = rings
        self._windows = windows
        self._draw = draw
        self._turns = turns or Turns()
        self._kept = KeptDeliveries(state)
        self._listing: dict[bytes, threading.Lock] = {}
        self._records: OrderedDict[bytes, _WindowRecords] = OrderedDict()
        self._links: OrderedDict[bytes, SignedLinks] = OrderedDict()

    # --- the links ---

    def links(self, manifest: bytes) -> SignedLinks:
        """The signed links of a closed window: kept from before, or found, signed and kept now.

        Found once a window, for whoever asks: an auditor that cannot wait so long finds them when it asks again.

        Raises:
            EstimateError: the window is not closed.
        """
        with self._list_of(manifest):
            return self._signed(manifest)

    def _list_of(self, manifest: bytes) -> threading.Lock:
        """Of one window's list and records: minutes may go by until a list is made, and other windows do not wait."""
        return self._listing.setdefault(manifest, threading.Lock())

    def _signed(self, manifest: bytes) -> SignedLinks:
        known = self._links.get(manifest)
        if known is None:
            stored = self.stored(manifest)
            known = self._make_links(manifest) if stored is None else SignedLinks.decode(stored)
            self._links[manifest] = known
            while len(self._links) > KEPT:
                self._links.popitem(last=False)
        return known

    def stored(self, manifest: bytes) -> bytes | None:
        """The list that was signed, as it is on disk; None if nobody has asked for it."""
        row = self._state.row("SELECT links FROM estimates WHERE manifest = ?", (manifest,))
        return None if row is None else bytes(row[0])

    def _make_links(self, manifest: bytes) -> SignedLinks:
        body = self.find(manifest)
        signed = SignedLinks(body, signature.sign(load_window_key(self._state, manifest), "links", body.encode()))
        with self._state.transaction() as db:
            db.execute("INSERT INTO estimates VALUES (?, ?)", (manifest, signed.encode()))
        return signed

    def find(self, manifest: bytes) -> LinkList:
        """The links of a closed window, found in its records whatever was signed before."""
        found = self._load(manifest)
        policy = found.window.manifest.policy
        threshold = link_threshold(rational(policy.theta, "theta"))
        tenants, left = [], MAX_LINKS
        for name, records in found.tenants.items():
            links = find_links(records.embeddings, records.reach, threshold, left)
            complete = links is not None
            if links is None:
                log.warning(
                    "window %s, tenant %s: more than %d links, so the list is a spanning one; theta may lie below what "
                    "unrelated queries reach (`ragseal-provider calibrate`)",
                    found.window.manifest.window, name, left,
                )  # fmt: skip
                links = spanning_links(records.embeddings, records.reach, threshold)
            else:
                left -= len(links)
            digest = link_list.records_digest(records.digests)
            tenants.append(TenantLinks(name, len(records.digests), digest, complete, link_list.pack_links(links)))
        return LinkList(manifest, tuple(tenants))

    def _load(self, manifest: bytes, wanted_still: Callable[[], None] = lambda: None) -> _WindowRecords:
        known = self._records.get(manifest)
        if known is not None:
            return known
        opened = self._windows.of(manifest)
        window = opened.window
        if window.stage is not Stage.CLOSED:
            raise EstimateError(f"window {window.manifest.window!r} is not closed: its coalitions are estimated then")
        rows: dict[str, list[_Row]] = {t.tenant: [] for t in window.manifest.tenants}
        for index in window.records:
            wanted_still()
            record = Record.decode(self._journal.data(index))
            request = record.signed.request
            kept = secrets_of_record(self._state, record)
            tenant = opened.tenant(request.account)
            rows[tenant].append(_Row(record.time, record.digest(), request.c_e, kept.embedding, kept.blinder))
        policy = window.manifest.policy
        known = _WindowRecords(window, {tenant: _columns(found, policy) for tenant, found in rows.items()})
        self._records[manifest] = known
        while len(self._records) > KEPT:
            self._records.popitem(last=False)
        return known

    # --- blocks ---

    def full_blocks(self, manifest: bytes, tenant: str, n: int) -> list[tuple[int, ...]] | None:
        """What the full certificate of a tenant of a closed window asks for, in blocks of n; None: there is none."""
        with self._list_of(manifest):
            return full_blocks(self._load(manifest).tenants[tenant].reach, n)

    def blocks(
        self,
        manifest: bytes,
        key_digest: bytes,
        tenant: str,
        wanted: Sequence[Sequence[int]],
        wanted_still: Callable[[], None] = lambda: None,
        always: bool = False,
    ) -> bytes:
        """A BlockBatch: each of ``wanted`` is a set of ranks of the tenant's records, in increasing order.

        Of a retired window there are those that were proven before.

        Args:
            always: keep it for when the window is retired, whatever else was kept of it.
            wanted_still: asked for every record that is loaded, before every proof and before the opening; raises when
                nobody waits for the blocks any more.

        Raises:
            EstimateError: no such records, or the window is not closed.
            AttestationError: the window is retired.
            ConfigurationError: no such key here.
            ProofError: a proof does not hold; the key is stopped then.
        """
        if not 1 <= len(wanted) <= certificate.MAX_BLOCKS:
            raise EstimateError(f"ask for 1..{certificate.MAX_BLOCKS} blocks at once")
        name = blocks_ask(key_digest, tenant, wanted)
        retired = is_retired(self._state, manifest)
        kept = self._kept.find(manifest, name) if retired or always else None
        if kept is not None:
            return kept
        if retired:
            raise refusal()
        with self._list_of(manifest):
            signed, found = self._signed(manifest), self._load(manifest, wanted_still)
        listed = next((one for one in signed.body.tenants if one.tenant == tenant), None)
        if listed is None:
            raise EstimateError(f"window {found.window.manifest.window!r} has no tenant {tenant!r}")
        backend = self._backend(key_digest)
        scope = Scope(
            cls=backend.key.cls,
            key_digest=key_digest,
            manifest=manifest,
            links_digest=signed.body.digest(),
            tenant=tenant,
            policy=found.window.manifest.policy,
            reach=found.tenants[tenant].reach,
        )
        records, listing = found.tenants[tenant], listed.listing()
        statements = [certificate.make_block(scope, ranks, records.c_e, listing) for ranks in wanted]

        def require_working() -> None:
            reason = stopped(self._state, key_digest)  # another delivery may have failed since the last block
            if reason is not None:
                raise ProofError(
                    f"proving under this key was stopped by a failure ({reason}): find out why before `release-key`"
                )

        def may_prove() -> None:
            wanted_still()
            require_working()

        try:
            prover = BlockProver(self._group, backend, scope, records, self._draw)
            made = prover.batch(statements, may_prove, self._turns, self._pool).encode()
            require_working()  # a proof that was under way when its key stopped is not kept (SPEC B.12.3)
        except ProofError as error:
            if stopped(self._state, key_digest) is None:
                stop_key(self._state, key_digest, str(error))
                log.error("a block of the estimate cannot be proven, the key is stopped: %s", error)
            raise
        self._kept.keep(manifest, name, made, always)
        return made

    def newest_keys(self) -> list[EstimateView]:
        """The newest key of each size that this provider holds."""
        found = []
        for ring in self._rings:
            with suppress(ConfigurationError):
                found.append(ring.newest())
        return found

    def stop(self) -> None:
        """Begin no block any more."""
        if self._pool is not None:
            self._pool.stop()

    def forget(self, manifest: bytes) -> None:
        """Let go of what is in memory of a window that is retired."""
        with self._list_of(manifest):
            self._records.pop(manifest, None)

    def _backend(self, digest: bytes) -> BlockBackend:
        for ring in self._rings:
            if not ring.folder(digest).is_dir():
                continue
            if self._workers is None:
                return ring.backend(digest)
            own = partial(ring.backend, digest)
            return ByWorkers(self._workers, self._turns, self._group, ring.view(digest), own)
        raise UnavailableError(
            f"this provider does not hold the key {digest.hex()}: get it with `ragseal-provider fetch-keys`"
        )


class _Row(NamedTuple):
    """One record."""

    time: int
    digest: bytes
    c_e: bytes
    embedding: bytes
    blinder: int


def _columns(rows: Sequence[_Row], policy: Policy) -> TenantRecords:
    embeddings = np.frombuffer(b"".join(row.embedding for row in rows), dtype=np.int8)
    return TenantRecords(
        digests=tuple(row.digest for row in rows),
        reach=reach_of([row.time for row in rows], policy.tau, policy.tau_time),
        c_e=tuple(row.c_e for row in rows),
        embeddings=embeddings.reshape(-1, policy.dimension),
        blinders=tuple(row.blinder for row in rows),
    )


@dataclass(frozen=True)
class BlockProver:
    """Proves blocks of one tenant."""

    group: Group
    backend: BlockBackend
    scope: Scope
    records: TenantRecords
    draw: Draw

    @cached_property
    def generators(self) -> bytes:
        return embedding_generators(self.group, self.scope.policy.dimension)

    def batch(
        self,
        statements: Sequence[Block],
        wanted_still: Callable[[], None] = lambda: None,
        turns: AbstractContextManager[object] = nullcontext(),  # noqa: B008 (it holds nothing)
        pool: InOrder | None = None,
    ) -> BlockBatch:
        """Proofs of all blocks and one opening, verified.

        Args:
            turns: held for each block and the opening apart.
            pool: makes blocks at once, where others prove; None: one after the other.
        """

        def prove(statement: Block) -> _Proven:
            with turns:
                wanted_still()
                return self.block(statement)

        if pool is None:
            proven = [prove(statement) for statement in statements]
        else:
            proven = list(pool.results(prove, statements, wanted_still))
        with turns:
            wanted_still()
            return self._opened(statements, proven)

    def _opened(self, statements: Sequence[Block], proven: Sequence[_Proven]) -> BlockBatch:
        key, group = self.backend.key, self.group
        proofs = tuple(one.proof for one in proven)
        context = certificate.batch_context([one.digest for one in proven], proofs)
        weights = powers(certificate.batch_fold(context), len(proven))
        relation = certificate.batch_relation(key.products, key.blinder, [proof.c_g for proof in proofs])
        witness = group.combine([one.witness for one in proven], weights)
        nonces = packed_scalars(self.draw, len(witness) // field.FIELD_BYTES)
        opening = prove_opening(group, "estimate", context, [relation], witness, nonces)
        made = BlockBatch(self.scope.links_digest, proofs, opening)
        certificate.verify_blocks(group, key, self.generators, self.scope, statements, made)
        return made

    def block(self, statement: Block) -> _Proven:
        """One block: C_G first, then the challenges, then everything that depends on them."""
        key, cls, group, scope = self.backend.key, self.scope.cls, self.group, self.scope
        chosen = self.records.embeddings[list(statement.ranks)].astype(np.int64)
        gram = np.zeros((cls.n, cls.n), dtype=np.int64)
        gram[: len(chosen), : len(chosen)] = chosen @ chosen.T
        norms = gram.diagonal().tolist()
        products = gram[np.triu_indices(cls.n, 1)].tolist()

        rho, rho_form = scalar(self.draw), scalar(self.draw)
        witness = field.pack([*norms, *products, rho])
        c_g = group.msm(key.products + key.blinder, witness)
        digest = certificate.block_digest(scope, statement, c_g)
        r = certificate.block_challenges(scope, statement, digest)

        clear = certificate.clear_inputs(scope, statement, r)
        assignment = assign_block(cls, clear, norms, products, (rho + rho_form) % R)
        c_s = group.msm(key.form + key.blinder, field.pack([assignment.form, rho_form]))
        held = r[: len(statement.ranks)]
        rows = [field.pack(row) for row in chosen.tolist()]
        vector = group.combine(rows, held)
        blinder = sum(x * self.records.blinders[rank] for x, rank in zip(held, statement.ranks, strict=True)) % R
        norm = prove_squared_norm(
            group,
            certificate.norm_context(digest),
            certificate.norm_statement(group, self.generators, key.form, key.blinder, statement, r, c_s),
            vector + field.to_bytes(blinder),
            rho_form,
            packed_scalars(self.draw, nonces_needed(scope.policy.dimension)),
        )
        return _Proven(digest, BlockProof(c_g, c_s, norm, self.backend.prove(assignment)), witness)

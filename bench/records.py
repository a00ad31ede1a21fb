# SPDX-License-Identifier: GPL-3.0-or-later
"""Provable records on a random index, with everything an auditor checks them against; no ledger around them."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

import ragseal_native as native
from ragseal.backends.group import default_group
from ragseal.backends.mechanism import open_engine
from ragseal.backends.poseidon import commit_lists
from ragseal.backends.scores import score_matrix
from ragseal.groth16.assignments import Assignment, assign_attestation
from ragseal.groth16.keys import KeyView
from ragseal.kernel import attestation, commitment, field, mechanism, opening, proofs
from ragseal.kernel.attestation import Record, Request, SignedRequest
from ragseal.kernel.noise import build_table, scale_of
from ragseal.kernel.noise_class import NoiseClass
from ragseal.kernel.params import R
from ragseal.kernel.policy import EVERY_LIST, Policy
from ragseal.kernel.proofs import BatchItem, ProofBatch, ProofEntry, SameEmbeddingOpening, Statement
from ragseal.kernel.record_proofs import statements_of
from ragseal.kernel.sealing import public_of
from ragseal.kernel.statement import seed_commitment
from ragseal.verifier.steps.proofs import ProofContext
from ragseal.verifier.steps.records import LoggedRecord
from ragseal.verifier.steps.versions import IndexVersion

DIMENSION = 384
SEAL_KEY = public_of(b"s" * 32)
TENANT = "bench"


def unit_rows(rng: np.random.Generator, count: int) -> npt.NDArray[np.int8]:
    """Random int8 vectors of norm about 127."""
    rows = rng.standard_normal((count, DIMENSION))
    rows *= 127 / np.linalg.norm(rows, axis=1, keepdims=True)
    return np.rint(rows).astype(np.int8)


def policy_of(cls: NoiseClass, lo: int, hi: int, gain: int) -> Policy:
    """A policy of which only the scores' part matters; the class may be one that has no circuit yet."""
    return Policy(
        class_name=cls.name, class_digest=bytes(32), table_digest=build_table(cls.law).digest(), dimension=DIMENSION,
        claim=EVERY_LIST, hidden=0, lo=lo, hi=hi, gain=gain, n_max=1000, k_max=10, delta="1/1000000",
        epsilon_account="1", theta="4/5", tau=1000, gate=False, unit="slot", chunks_max=1, period_start=0, opens=0,
        closes=3600, ids=cls.K,
    )  # fmt: skip


class Bench:
    """One tenant's committed index under one key, and what a window's manifest would say."""

    def __init__(self, cls: NoiseClass, key: KeyView, rng: np.random.Generator) -> None:
        self.cls, self.key, self.rng, self.group = cls, key, rng, default_group()
        self.engine = open_engine(cls)
        self.matrix = unit_rows(rng, cls.N)
        self.scored = score_matrix(self.matrix)
        self.blinders = field.unpack(bytes(native.random_scalars(DIMENSION)))
        self.columns = bytes(
            native.commit_columns(
                key.scores.y, key.scores.b, self.matrix.tobytes(), DIMENSION, field.pack(self.blinders)
            )
        )
        lo, hi = 4839, 11290  # cosines 0.3 and 0.7
        gain = max(1, 3 * (scale_of(cls.law) << cls.step_bits) // (hi - lo))
        self.policy = policy_of(cls, lo, hi, gain)
        self.seed, self.beacon = (secrets.randbits(128), secrets.randbits(128)), secrets.randbits(248)
        self.generators = commitment.generators(self.group, DIMENSION)
        index = SimpleNamespace(digest=lambda: b"i" * 32)
        manifest = SimpleNamespace(
            c_seed=seed_commitment(self.seed),
            policy=self.policy,
            rules=lambda tenant: self.policy,
            index_of=lambda tenant: index,
        )
        window: Any = SimpleNamespace(digest=b"m" * 32, manifest=manifest, cls=cls)
        audited: Any = key
        self.basis = ProofContext(self.group, window, audited, {b"i" * 32: self.columns}, self.beacon, self.generators)

    def weights(self, use: str, context: bytes, count: int) -> list[int]:
        return opening.powers(opening.batching_challenge(use, context), count)


@dataclass
class Instance:
    """A record with its secrets."""

    record: Record
    statement: Statement
    e: list[int]
    r: int
    rho: int
    witnesses: tuple[bytes, ...]  #: of every use of the key's commitments
    blinders: list[list[int]]  #: likewise
    c_w: bytes
    committed: bytes
    c_v: bytes
    shared: list[int]  #: what C_v holds, and rho_v
    assignment: Assignment
    proof: bytes = b""


def make(bench: Bench, seq: int) -> Instance:
    """Everything of a record but its proof."""
    cls, key, group, policy = bench.cls, bench.key, bench.group, bench.policy
    bases = key.committed
    e = [int(x) for x in unit_rows(bench.rng, 1)[0]]
    r, rho, t_salt, rho_v = (secrets.randbelow(R) for _ in range(4))
    blinders = [[secrets.randbelow(R) for _ in use.over] for use in bases.own]
    request = Request(
        "example.org/bench", "w", b"m" * 32, "account", seq + 1, bytes(16), bytes(32),
        commitment.embedding_commitment(group, bench.generators, e, r), b"i" * 32, True,
        secrets.token_bytes(16), bytes(32), SEAL_KEY,
    )  # fmt: skip
    noise_key, asked = mechanism.noise_key(bench.seed, bench.beacon, request.ctx()), policy.asked(cls)
    w = policy.gain * (bench.scored.scores(e).astype(np.int64) - policy.lo)
    hidden = bench.engine.hidden(noise_key, w, asked)
    c_v = bases.commit_shared(group, hidden.shared, rho_v)
    lists = commit_lists(cls, t_salt, bench.engine.answer(noise_key, w, asked), 1)
    c_y = attestation.score_commitment(group, bench.columns, key.scores, e, rho)
    record = Record(b"m" * 32, seq, SignedRequest(request, bytes(64)), c_y, lists, 60, attestation.ON_DEMAND)
    (c_w,) = proofs.shifted_scores(group, [c_y], key.sum_y, policy, key.cls)
    committed = bases.commit(group, hidden[0], blinders)
    statement = Statement(bench.basis.window.manifest.c_seed, bench.beacon, request.ctx(), asked, lists)
    (stated,) = statements_of(cls, statement, 1)
    both = proofs.challenges(key.digest, record.digest(), stated, c_w, committed + c_v)
    every = (proofs.total_blinder(policy.gain, e, bench.blinders, rho), *chain.from_iterable(blinders), rho_v)
    blind = sum(scale * one for scale, one in zip(key.stated.scales(both[1]), every, strict=True)) % R
    clear, secret = (*stated, *both), (bench.seed, t_salt)
    assignment = assign_attestation(cls, clear, w.tolist(), hidden[0], hidden.shared, blind, secret)
    held = [*hidden.shared, rho_v]
    return Instance(record, statement, e, r, rho, hidden[0], blinders, c_w, committed, c_v, held, assignment)


def batch(bench: Bench, made: Sequence[Instance]) -> tuple[list[LoggedRecord], ProofBatch]:
    """What an auditor holds and what a provider delivers for these records, which may repeat."""
    group, key = bench.group, bench.key
    entries = tuple(ProofEntry(one.record.seq, one.record.digest(), one.committed, one.proof, one.c_v) for one in made)
    part = [
        LoggedRecord(k, one.record, entry.record_digest, IndexVersion(TENANT, 0, bytes(32)), TENANT)
        for k, (one, entry) in enumerate(zip(made, entries, strict=True))
    ]
    items = [
        proofs.BatchItem(one.record, entry.record_digest, TENANT, one.statement, one.c_w, entry)
        for one, entry in zip(made, entries, strict=True)
    ]
    context = proofs.batch_context(key.digest, bench.basis.window.digest, items)
    here = proofs.link_context(context, TENANT, b"i" * 32)
    weights = bench.weights("link", here, len(made))
    linked = opening.prove_opening(
        group, "link", here, proofs.link_relations(bench.generators, bench.columns, key.scores.b, here, items),
        group.combine([field.pack([*one.e, one.r, one.rho]) for one in made], weights),
        bytes(native.random_scalars(DIMENSION + 2)),
    )  # fmt: skip
    links = (SameEmbeddingOpening(TENANT, linked),)
    return part, ProofBatch(bench.basis.window.digest, entries, links, _committed(bench, context, items, made))


def _committed(
    bench: Bench, context: bytes, items: Sequence[BatchItem], made: Sequence[Instance]
) -> tuple[opening.Opening, ...]:
    """Those of all that proofs commit to, of classes without sums over shards."""
    found = list[opening.Opening]()
    for at, (use, relations) in enumerate(proofs.committed_relations(bench.key.committed, items)):
        own = use in bench.key.committed.own
        rows = [one.witnesses[at] + field.pack(one.blinders[at]) if own else field.pack(one.shared) for one in made]
        witness = bench.group.combine(rows, bench.weights(use.name, context, len(made)))
        nonces = bytes(native.random_scalars(use.size))
        found.append(opening.prove_opening(bench.group, use.name, context, relations, witness, nonces))
    return tuple(found)

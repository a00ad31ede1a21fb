# SPDX-License-Identifier: GPL-3.0-or-later
"""Provable records on a random index, with everything an auditor checks them against; no ledger around them."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

import ragseal_native as native
from ragseal.backends.group import default_group
from ragseal.backends.mechanism import open_engine
from ragseal.backends.scores import score_matrix
from ragseal.groth16.assignments import Assignment, assign_attestation
from ragseal.groth16.keys import KeyView
from ragseal.groth16.views import committed_threshold
from ragseal.kernel import attestation, commitment, field, mechanism, opening, proofs
from ragseal.kernel.attestation import Record, Request, SignedRequest
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.hint_opening import scaled_blinder
from ragseal.kernel.noise import build_table, scale_of
from ragseal.kernel.params import R
from ragseal.kernel.policy import EVERY_LIST, Policy
from ragseal.kernel.proofs import ProofBatch, ProofEntry, SameEmbeddingOpening, Statement
from ragseal.kernel.record_proofs import statements_of
from ragseal.kernel.sealing import public_of
from ragseal.kernel.statement import places_commitment, seed_commitment
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


def policy_of(cls: AttestationClass, lo: int, hi: int, gain: int) -> Policy:
    """A policy of which only the scores' part matters; the class may be one that has no circuit yet."""
    return Policy(
        class_name=cls.name, class_digest=bytes(32), table_digest=build_table(cls.law).digest(), dimension=DIMENSION,
        claim=EVERY_LIST, hidden=0, lo=lo, hi=hi, gain=gain, n_max=1000, k_max=10, delta="1/1000000",
        epsilon_account="1", theta="4/5", tau=1000, gate=False, unit="slot", chunks_max=1, period_start=0, opens=0,
        closes=3600,
    )  # fmt: skip


class Bench:
    """One tenant's committed index under one key, and what a window's manifest would say."""

    def __init__(self, cls: AttestationClass, key: KeyView, rng: np.random.Generator) -> None:
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
        manifest = SimpleNamespace(c_seed=seed_commitment(self.seed), policy=self.policy, index_of=lambda tenant: index)
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
    rho_hints: list[int]
    h: bytes
    c_w: bytes
    c_h: bytes
    c_v: bytes  #: nothing of a class without one
    threshold: tuple[int, ...]  #: v*, i* and rho_v, that C_v holds
    assignment: Assignment
    proof: bytes = b""


def make(bench: Bench, seq: int) -> Instance:
    """Everything of a record but its proof."""
    cls, key, group, policy = bench.cls, bench.key, bench.group, bench.policy
    e = [int(x) for x in unit_rows(bench.rng, 1)[0]]
    r, rho, t_salt, *rho_hints = (secrets.randbelow(R) for _ in range(3 + key.hint_bases.count))
    request = Request(
        "example.org/bench", "w", b"m" * 32, "account", seq + 1, bytes(16), bytes(32),
        commitment.embedding_commitment(group, bench.generators, e, r), b"i" * 32, True,
        secrets.token_bytes(16), bytes(32), SEAL_KEY,
    )  # fmt: skip
    noise_key = mechanism.noise_key(bench.seed, bench.beacon, request.ctx())
    w = policy.gain * (bench.scored.scores(e).astype(np.int64) - policy.lo)
    hints = bench.engine.shard_hints(noise_key, w, policy.hmax(cls))
    h, rho_v = hints[0], 0 if hints.threshold is None else secrets.randbelow(R)
    c_v = committed_threshold(group, key, hints.threshold, rho_v)
    t_commit = places_commitment(cls, t_salt, bench.engine.answer(noise_key, w, policy.hmax(cls)))
    c_y = attestation.score_commitment(group, bench.columns, key.scores, e, rho)
    record = Record(b"m" * 32, seq, SignedRequest(request, bytes(64)), c_y, t_commit, 60, attestation.ON_DEMAND)
    (c_w,) = proofs.shifted_scores(group, [c_y], key.sum_y, policy, key.cls)
    c_h = key.hint_bases.commit(group, h, rho_hints)
    manifest = bench.basis.window.manifest
    statement = Statement(manifest.c_seed, bench.beacon, request.ctx(), policy.hmax(cls), t_commit)
    (stated,) = statements_of(cls, statement, 1)
    both = proofs.challenges(key.digest, record.digest(), stated, c_w, c_h + c_v)
    blind = proofs.total_blinder(policy.gain, e, bench.blinders, rho, scaled_blinder(rho_hints, both[1]))
    assignment = assign_attestation(
        cls,
        (*stated.clear(), *both), tuple(int(x) for x in w), h, (blind + rho_v) % R, bench.seed, t_salt, hints.threshold
    )  # fmt: skip
    held = () if hints.threshold is None else (*hints.threshold, rho_v)
    return Instance(record, statement, e, r, rho, rho_hints, h, c_w, c_h, c_v, held, assignment)


def batch(bench: Bench, made: Sequence[Instance]) -> tuple[list[LoggedRecord], ProofBatch]:
    """What an auditor holds and what a provider delivers for these records, which may repeat."""
    group, key = bench.group, bench.key
    entries = tuple(
        ProofEntry(one.record.seq, one.record.digest(), one.c_h, one.proof, (one.c_v,) if one.c_v else ())
        for one in made
    )
    part = [
        LoggedRecord(k, one.record, entry.record_digest, IndexVersion(TENANT, 0, bytes(32)), TENANT)
        for k, (one, entry) in enumerate(zip(made, entries, strict=True))
    ]
    items = [
        proofs.BatchItem(one.record, entry.record_digest, TENANT, one.statement, one.c_w, entry)
        for one, entry in zip(made, entries, strict=True)
    ]
    context = proofs.batch_context(key.digest, bench.basis.window.digest, items)
    weights = bench.weights("hints", context, len(made))
    opened = opening.prove_opening(
        group, "hints", context, key.hint_bases.relations([one.c_h for one in made]),
        group.combine([key.hint_bases.witness(one.h, one.rho_hints) for one in made], weights),
        bytes(native.random_scalars(key.hint_bases.size)),
    )  # fmt: skip
    here = proofs.link_context(context, TENANT, b"i" * 32)
    weights = bench.weights("link", here, len(made))
    linked = opening.prove_opening(
        group, "link", here, proofs.link_relations(bench.generators, bench.columns, key.scores.b, here, items),
        group.combine([field.pack([*one.e, one.r, one.rho]) for one in made], weights),
        bytes(native.random_scalars(DIMENSION + 2)),
    )  # fmt: skip
    links = (SameEmbeddingOpening(TENANT, linked),)
    return part, ProofBatch(bench.basis.window.digest, entries, links, opened, _thresholds(bench, context, made))


def _thresholds(bench: Bench, context: bytes, made: Sequence[Instance]) -> tuple[opening.Opening, ...]:
    """The opening of all C_v, where the class has it."""
    bases = bench.key.thresholds
    if bases is None:
        return ()
    weights = bench.weights("thresholds", context, len(made))
    rows = bench.group.combine([field.pack(one.threshold) for one in made], weights)
    nonces = bytes(native.random_scalars(bases.size))
    relations = [bases.relation([one.c_v for one in made])]
    return (opening.prove_opening(bench.group, "thresholds", context, relations, rows, nonces),)

# SPDX-License-Identifier: GPL-3.0-or-later
"""Assignments of class TINY with what checks their proofs, and workers that do not do what they should."""

from __future__ import annotations

import itertools
import random
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from ragseal.backends.group import default_group
from ragseal.backends.mechanism import open_engine
from ragseal.backends.poseidon import commit_lists
from ragseal.circuits.build import build
from ragseal.groth16.assignments import Assignment, assign_attestation
from ragseal.groth16.provers import AttestationBackend, open_backend
from ragseal.kernel import field as scalars
from ragseal.kernel import mechanism, statement
from ragseal.kernel.params import R
from ragseal.kernel.proofs import Statement
from ragseal.kernel.record_proofs import statements_of
from ragseal.prover.keys.trial_proofs import _scores
from ragseal.prover.workers.interface import Work, WorkersStatus, WorkResult
from tests.classes import TINY
from tests.simulator.keys import keys_of


def held_in(folder: Path) -> Path:
    """The folder, with the key of class TINY as a provider names it."""
    (folder / f"{TINY.name}-{keys_of(TINY).digest.hex()[:24]}").symlink_to(keys_of(TINY).directory.resolve())
    return folder


@cache
def backend() -> AttestationBackend:
    """What proves class TINY in this process."""
    return open_backend(build(TINY), keys_of(TINY).directory)


@dataclass(frozen=True)
class Stated:
    """A statement that is true, as its prover and its checker have it."""

    assignment: Assignment
    c_w: bytes
    committed: bytes  #: and C_v behind them

    @property
    def work(self) -> Work:
        return Work(TINY.name, backend().key.digest, self.assignment.packed())

    def check(self, proof: bytes) -> None:
        backend().key.verify(self.assignment.clear, self.c_w, self.committed, proof)


@cache
def stated(number: int = 0) -> Stated:
    """The statement of that number."""
    key, group, engine = backend().key, default_group(), open_engine(TINY)
    chance = random.Random(f"statement {number}")
    seed = scalars.limbs(chance.randbytes(32))
    beacon, ctx, alpha, beta = (int.from_bytes(chance.randbytes(31), "big") | 1 for _ in range(4))
    t_salt, rho, rho_v, *rhos = (chance.randrange(R) for _ in range(3 + key.committed.count))
    w, asked = _scores(TINY, chance.randbytes, True)
    noise_key = mechanism.noise_key(seed, beacon, ctx)
    hidden = engine.hidden(noise_key, w, asked)
    lists = commit_lists(TINY, t_salt, engine.answer(noise_key, w, asked), 1)
    common = Statement(statement.seed_commitment(seed), beacon, ctx, asked, lists)
    clear = (*statements_of(TINY, common, 1)[0], alpha, beta)
    scales = key.stated.scales(beta)
    blind = sum(scale * one for scale, one in zip(scales, (rho, *rhos, rho_v), strict=True)) % R
    c_w = group.msm(key.scores.y + key.scores.b, scalars.pack([*w.tolist(), rho]))
    added = key.committed.commit(group, hidden[0], [rhos]) + key.committed.commit_shared(group, hidden.shared, rho_v)
    made = assign_attestation(TINY, clear, w.tolist(), hidden[0], hidden.shared, blind, (seed, t_salt))
    return Stated(made, c_w, added)


@cache
def proof_of(number: int = 0) -> bytes:
    """A proof that holds for the statement of that number, and no other."""
    return backend().prove(stated(number).assignment)


@dataclass
class Scripted:
    """An engine whose workers give what a test says, and that remembers whom it dropped."""

    gives: Callable[[Work], WorkResult]
    places: int = 4
    dropped: list[tuple[str, str]] = field(default_factory=list)
    asked: itertools.count[int] = field(default_factory=itertools.count)
    closed: bool = False

    def start(self) -> None: ...

    def prove(self, work: Work) -> WorkResult:
        next(self.asked)
        return self.gives(work)

    def drop(self, worker: str, reason: str) -> None:
        self.dropped.append((worker, reason))

    def status(self) -> WorkersStatus:
        return WorkersStatus("scripted", 1, tuple(name for name, _ in self.dropped), "")

    def close(self) -> None:
        self.closed = True


def fresh_name() -> str:
    return f"test-{secrets.token_hex(8)}"

# SPDX-License-Identifier: GPL-3.0-or-later
"""A key from somebody else is tried on made-up statements before it proves a real one.  SPEC A.9.

A verifying key's digest covers none of the proving sections.  Coefficients can be compared with the circuit
(:mod:`ragseal.groth16.coefficients`), points only with powers of tau (:mod:`ragseal.groth16.powers`): one of them
moved, and proofs hold only where a score equals the value that its maker guesses.  The failed proof would tell it.
On random statements such a key fails as well, with nothing to learn from it.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain

import numpy as np

from ragseal.backends.asked import Scores
from ragseal.backends.mechanism import Engine
from ragseal.backends.poseidon import commit_lists
from ragseal.groth16.assignments import assign_attestation, assign_block
from ragseal.groth16.coin_proofs import CoinScores, opened
from ragseal.groth16.keys import KeyView
from ragseal.groth16.provers import AttestationBackend, BlockBackend, ThinningBackend
from ragseal.kernel import coin, field, mechanism, statement
from ragseal.kernel.bn254 import Group
from ragseal.kernel.classes import Asked, AttestationClass
from ragseal.kernel.coin_proof import Coined, verify_circuit
from ragseal.kernel.errors import ProofError
from ragseal.kernel.estimate_class import RANGE_BITS
from ragseal.kernel.params import COIN_BITS, R
from ragseal.kernel.proofs import Statement
from ragseal.kernel.record_proofs import statements_of
from ragseal.prover.base.randomness import Draw, scalar

TRIED_SHARDS = 2  #: of the second statement


def _scores(cls: AttestationClass, draw: Draw, wide: bool) -> tuple[Scores, Asked]:
    """Random scores and what the class is asked: of one shard spread over everything, or of several nearly all below
    the window."""
    asked, reach, matching = cls.tried()
    random = np.random.default_rng(int.from_bytes(draw(32), "big"))
    slots = cls.N * (1 if wide else min(TRIED_SHARDS, cls.S))
    if wide:
        return random.integers(-reach, reach, slots, dtype=np.int64), asked
    w = random.integers(-reach, 0, slots, dtype=np.int64)
    some = random.choice(slots, matching, replace=False)
    w[some] = random.integers(0, reach, len(some), dtype=np.int64)
    return w, asked


def _try(key: KeyView, backend: AttestationBackend, engine: Engine, group: Group, draw: Draw, wide: bool) -> None:
    cls, bases = key.cls, key.committed
    seed = field.limbs(draw(32))
    beacon, ctx, alpha, beta = (int.from_bytes(draw(31), "big") | 1 for _ in range(4))
    t_salt, rho, rho_v = (scalar(draw) for _ in range(3))
    noise_key = mechanism.noise_key(seed, beacon, ctx)
    w, asked = _scores(cls, draw, wide)
    hidden = engine.hidden(noise_key, w, asked)
    lists = commit_lists(cls, t_salt, engine.answer(noise_key, w, asked), len(hidden))
    common = Statement(statement.seed_commitment(seed), beacon, ctx, asked, lists)
    c_v = bases.commit_shared(group, hidden.shared, rho_v)
    stated, parts = statements_of(cls, common, len(hidden)), np.reshape(w, (len(hidden), -1)).tolist()
    for own, scores, witnesses in zip(stated, parts, hidden, strict=True):
        blinders = [[scalar(draw) for _ in use.over] for use in bases.own]
        every = (rho, *chain.from_iterable(blinders), rho_v)
        blind = sum(scale * one for scale, one in zip(key.stated.scales(beta), every, strict=True)) % R
        clear = (*own, alpha, beta)
        proof = backend.prove(assign_attestation(cls, clear, scores, witnesses, hidden.shared, blind, (seed, t_salt)))
        c_w = group.msm(key.scores.y + key.scores.b, field.pack([*scores, rho]))
        key.verify(clear, c_w, bases.commit(group, witnesses, blinders) + c_v, proof)


def _try_block(backend: BlockBackend, group: Group, draw: Draw, full: bool) -> None:
    cls, key = backend.key.cls, backend.key
    random = np.random.default_rng(int.from_bytes(draw(32), "big"))
    held = cls.n if full else cls.n // 2 + 1
    reach = 1 << (RANGE_BITS - 2)
    threshold, low, high = reach, int(random.integers(1, reach)), int(random.integers(reach, 2 * reach))
    present = [1] * held + [0] * (cls.n - held)
    norms = [int(x) for x in random.integers(low, high, cls.n)]
    products = [int(x) for x in random.integers(-reach, 2 * reach, cls.pairs)]
    free = random.random(cls.pairs) < 0.2  # links, other pairs, and pairs without a constraint
    signs = [0 if b >= held or free[k] else 1 if products[k] < threshold else -1 for k, (_, b) in enumerate(cls.order)]
    r = [int.from_bytes(draw(31), "big") for _ in range(held)] + [0] * (cls.n - held)
    clear = [threshold, low, high, *r, *present, *signs]
    rho, rho_form = scalar(draw), scalar(draw)
    assignment = assign_block(cls, clear, norms, products, (rho + rho_form) % R)
    proof = backend.prove(assignment)
    c_g = group.msm(key.products + key.blinder, field.pack([*norms, *products, rho]))
    c_s = group.msm(key.form + key.blinder, field.pack([assignment.form, rho_form]))
    key.verify(clear, c_g, c_s, proof)


@dataclass(frozen=True)
class _Tried:
    """A statement about coins that is of no index."""

    c_coin: int
    context: int
    hidden: int
    digest: bytes


def _try_thinning(backend: ThinningBackend, group: Group, draw: Draw, most: bool) -> None:
    key, cls = backend.key, backend.key.cls
    limbs, context = field.limbs(draw(32)), int.from_bytes(draw(31), "big")
    numerator = (1 << COIN_BITS) - 1 if most else 1
    placed = [scalar(draw) for _ in range(cls.N)]
    hides = coin.hidden_slots(limbs, context, cls.N, numerator)
    thinned = [0 if hidden else x for hidden, x in zip(hides, placed, strict=True)]
    rho, rho_thinned, *masks = (scalar(draw) for _ in range(6))
    c_placed = group.msm(key.scores.y + key.scores.b, field.pack([*placed, rho]))
    c_thinned = group.msm(key.mixed.y + key.mixed.b, field.pack([*thinned, rho_thinned]))
    statement = _Tried(coin.coin_commitment(limbs), context, numerator, draw(32))
    coined = Coined("tried", statement, key, ((key.mixed, c_thinned),))
    held = opened(coined, CoinScores(placed, thinned, rho, [rho_thinned]), limbs, masks)
    points = held.commit(group, coined)
    proof = backend.prove(held.assignment(coined, points, limbs))
    verify_circuit(coined, c_placed, points, proof)


def rehearse(backend: AttestationBackend, engine: Engine, group: Group, draw: Draw = secrets.token_bytes) -> None:
    """Prove and verify two random statements.  Seconds; the statements have nothing to do with any index.

    Raises:
        ProofError: the key cannot prove what is true: it is damaged, or made so that its failures tell something.
    """
    for wide in (True, False):
        with _named():
            _try(backend.key, backend, engine, group, draw, wide)


def rehearse_block(backend: BlockBackend, group: Group, draw: Draw = secrets.token_bytes) -> None:
    """As :func:`rehearse`, for a key of the estimate's circuit: a full block, and one with fewer records."""
    for full in (True, False):
        with _named():
            _try_block(backend, group, draw, full)


def rehearse_thinning(backend: ThinningBackend, group: Group, draw: Draw = secrets.token_bytes) -> None:
    """As :func:`rehearse`, for a key of the thinning's circuit.

    Nearly all slots are hidden, and nearly none: a key that fails where one slot is hidden, or is not, fails here.
    """
    for most in (True, False):
        with _named():
            _try_thinning(backend, group, draw, most)


@contextmanager
def _named() -> Iterator[None]:
    try:
        yield
    except ProofError as error:
        raise ProofError(
            f"this key fails on a made-up statement ({error}): it is damaged, of other circuit sources, or made to "
            "leak; fetch it again, from an auditor that you know"
        ) from None

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

import numpy as np

from ragseal.backends.asked import Scores
from ragseal.backends.mechanism import Engine
from ragseal.groth16.assignments import assign_attestation, assign_block, assign_thinning
from ragseal.groth16.keys import KeyView
from ragseal.groth16.provers import AttestationBackend, BlockBackend, ThinningBackend
from ragseal.groth16.views import committed_threshold
from ragseal.kernel import coin, field, mechanism, statement
from ragseal.kernel.bn254 import Group
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.errors import ProofError
from ragseal.kernel.estimate_class import RANGE_BITS
from ragseal.kernel.hint_opening import scaled_blinder
from ragseal.kernel.params import COIN_BITS, R
from ragseal.kernel.proofs import Statement
from ragseal.kernel.record_proofs import statements_of
from ragseal.prover.base.randomness import Draw, scalar

TRIED_SHARDS = 2  #: of the second statement


def _scores(cls: AttestationClass, draw: Draw, wide: bool) -> tuple[Scores, int]:
    """Random scores and an H that the class can compare: of one shard spread over everything, or of several nearly all
    below the window."""
    hmax, reach = cls.tried_range()
    random = np.random.default_rng(int.from_bytes(draw(32), "big"))
    slots = cls.N * (1 if wide else min(TRIED_SHARDS, cls.shards_at_most))
    if wide:
        return random.integers(-2 * reach, 2 * reach, slots, dtype=np.int64), hmax
    w = random.integers(-2 * reach, 0, slots, dtype=np.int64)
    some = random.choice(slots, cls.R // 2, replace=False)
    w[some] = random.integers(0, 2 * reach, len(some), dtype=np.int64)
    return w, hmax


def _try(key: KeyView, backend: AttestationBackend, engine: Engine, group: Group, draw: Draw, wide: bool) -> None:
    cls = key.cls
    seed = field.limbs(draw(32))
    beacon, ctx, alpha, beta = (int.from_bytes(draw(31), "big") | 1 for _ in range(4))
    t_salt, rho, rho_v, *rho_hints = (scalar(draw) for _ in range(3 + key.hint_bases.count))
    noise_key = mechanism.noise_key(seed, beacon, ctx)
    w, hmax = _scores(cls, draw, wide)
    prizes = cls.most_prizes
    hints = engine.shard_hints(noise_key, w, hmax, prizes)
    t_commit = statement.places_commitment(cls, t_salt, engine.answer(noise_key, w, hmax, prizes))
    common = Statement(statement.seed_commitment(seed), beacon, ctx, hmax, t_commit, cls.stated(prizes))
    c_v = committed_threshold(group, key, hints.threshold, rho_v)
    for stated, own, h in zip(
        statements_of(cls, common, len(hints)), np.reshape(w, (len(hints), -1)), hints, strict=True
    ):
        clear, integers = (*stated.clear(), alpha, beta), tuple(int(x) for x in own)
        blind = (rho + scaled_blinder(rho_hints, beta) + (rho_v if c_v else 0)) % R
        proof = backend.prove(assign_attestation(cls, clear, integers, h, blind, seed, t_salt, hints.threshold))
        c_w = group.msm(key.scores.y + key.scores.b, field.pack([*integers, rho]))
        key.verify(clear, c_w, key.hint_bases.commit(group, h, rho_hints) + c_v, proof)


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


def _try_thinning(backend: ThinningBackend, group: Group, draw: Draw, most: bool) -> None:
    cls, key = backend.key.cls, backend.key
    limbs, context = field.limbs(draw(32)), int.from_bytes(draw(31), "big")
    numerator = (1 << COIN_BITS) - 1 if most else 1
    placed = [scalar(draw) for _ in range(cls.N)]
    hides = coin.hidden_slots(limbs, context, cls.N, numerator)
    thinned = [0 if hidden else x for hidden, x in zip(hides, placed, strict=True)]
    rho, rho_thinned = scalar(draw), scalar(draw)
    clear = [coin.coin_commitment(limbs), context, numerator]
    proof = backend.prove(assign_thinning(cls, clear, placed, thinned, (rho + rho_thinned) % R, limbs))
    c_placed = group.msm(key.scores.y + key.scores.b, field.pack([*placed, rho]))
    c_thinned = group.msm(key.thinned.y + key.thinned.b, field.pack([*thinned, rho_thinned]))
    key.verify(clear, c_placed, c_thinned, proof)


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

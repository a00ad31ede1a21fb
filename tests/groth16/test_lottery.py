# SPDX-License-Identifier: GPL-3.0-or-later
"""The lottery's proofs under a real key: three commitments, one of them multiplied by beta, and the policy's prizes."""

from __future__ import annotations

import random
import secrets
from collections.abc import Sequence
from dataclasses import replace

import pytest

from ragseal.backends.group import default_group
from ragseal.backends.mechanism import open_engine
from ragseal.backends.native import available
from ragseal.circuits.build import build
from ragseal.circuits.circuit import class_digest
from ragseal.groth16.assignments import Assignment
from ragseal.groth16.keys import KeyView, make_keys
from ragseal.groth16.provers import NativeBackend
from ragseal.kernel import field, opening, statement
from ragseal.kernel.errors import ProofError
from ragseal.kernel.hint_opening import scaled_blinder
from ragseal.kernel.mechanism import noise_key
from ragseal.kernel.params import R
from ragseal.kernel.proofs import Statement, challenges
from tests.circuits.lottery_drafts import WIDTH, lottery_tiny
from tests.circuits.scene import CACHE

np = pytest.importorskip("numpy")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not available(), reason="the native module is not installed")]
GROUP = default_group()


class Proven:
    """One record's proof with its commitments and blinders."""

    def __init__(self, view: KeyView, backend: NativeBackend, number: int, w: Sequence[int], prizes: int = 3) -> None:
        rng = random.Random(number)
        seed = (rng.getrandbits(128), rng.getrandbits(128))
        beacon, ctx, salt = (rng.getrandbits(248) for _ in "abc")
        key, engine = noise_key(seed, beacon, ctx), open_engine(view.cls)
        scores = np.array(w, dtype=np.int64)
        self.returned = engine.answer(key, scores, WIDTH, prizes)
        (self.h,) = engine.shard_hints(key, scores, WIDTH, prizes)
        t_commit = statement.places_commitment(view.cls, salt, self.returned)
        rho, self.rhos = secrets.randbelow(R), [secrets.randbelow(R) for _ in range(2)]
        self.c_w = GROUP.msm(view.scores.y + view.scores.b, field.pack([*w, rho]))
        self.c_h = view.hint_bases.commit(GROUP, self.h, self.rhos)
        stated = Statement(statement.seed_commitment(seed), beacon, ctx, WIDTH, t_commit, (prizes,))
        alpha, beta = challenges(view.digest, b"r" * 32, stated, self.c_w, self.c_h)
        self.clear = (*stated.clear(), alpha, beta)
        blind = (rho + scaled_blinder(self.rhos, beta)) % R
        self.assignment = Assignment(self.clear, tuple(w), self.h, blind, seed, salt)
        self.proof = backend.prove(self.assignment)


Scene = tuple[KeyView, NativeBackend, list[Proven]]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    cls = lottery_tiny()
    built = build(cls, CACHE)
    paths = make_keys(built.r1cs, cls, class_digest(cls), tmp_path_factory.mktemp("keys"))
    backend = NativeBackend(cls, built.r1cs, paths.zkey)
    rng = random.Random(1)
    some = [rng.randrange(-2 * WIDTH, 2 * WIDTH) for _ in range(cls.N)]
    return backend.key, backend, [Proven(backend.key, backend, k, w) for k, w in ((1, some), (2, [0] * cls.N))]


def test_a_proof_holds_with_its_commitments(scene: Scene) -> None:
    view, _, proven = scene
    for one in proven:
        view.verify(one.clear, one.c_w, one.c_h, one.proof)
    items = [(one.clear, one.c_w, one.c_h, one.proof) for one in proven]
    view.verify_batch(items)
    with pytest.raises(ProofError):
        view.verify_batch([items[0], (*items[1][:2], items[1][2][:64] + items[0][2][64:], items[1][3])])


@pytest.mark.parametrize("at", range(8))
def test_another_clear_input_is_refused(scene: Scene, at: int) -> None:
    """Also another number of prizes: what the policy says is what was drawn."""
    view, _, (one, _) = scene
    clear = (*one.clear[:at], one.clear[at] + 1, *one.clear[at + 1 :])
    with pytest.raises(ProofError):
        view.verify(clear, one.c_w, one.c_h, one.proof)


def test_fewer_prizes_are_proven_under_the_same_key(scene: Scene) -> None:
    view, backend, (one, _) = scene
    fewer = Proven(view, backend, 1, [0] * view.cls.N, prizes=1)
    view.verify(fewer.clear, fewer.c_w, fewer.c_h, fewer.proof)
    assert fewer.clear[5] == 1 != one.clear[5]


def test_other_scores_than_the_committed_ones_are_refused(scene: Scene) -> None:
    view, _, (one, _) = scene
    other = GROUP.msm(one.c_w + view.scores.y[:64], field.pack([1, 1]))
    with pytest.raises(ProofError):
        view.verify(one.clear, other, one.c_h, one.proof)


def test_one_witness_opens_both_commitments_and_no_other_bounds_do(scene: Scene) -> None:
    """With a prize's bound in C_1 alone the circuit would look up another row than the one that hides the slot."""
    view, _, proven = scene

    def opened(committed: list[bytes]) -> None:
        bases, context = view.hint_bases, b"".join(committed)
        weights = opening.powers(opening.batching_challenge("hints", context), len(proven))
        nonces = field.pack(secrets.randbelow(R) for _ in range(bases.size))
        witness = GROUP.combine([bases.witness(one.h, one.rhos) for one in proven], weights)
        made = opening.prove_opening(GROUP, "hints", context, bases.relations(committed), witness, nonces)
        opening.verify_opening(GROUP, "hints", context, bases.relations(committed), bases.size, made)

    opened([one.c_h for one in proven])
    c_h = proven[0].c_h
    raised = GROUP.msm(c_h[64:] + view.hint_bases.scaled[:64], field.pack([1, WIDTH + 256]))
    with pytest.raises(ProofError, match="not what it claims"):
        opened([c_h[:64] + raised, proven[1].c_h])


@pytest.mark.parametrize("at", [3, 4, 5])
def test_another_window_list_or_number_of_prizes_has_no_proof(scene: Scene, at: int) -> None:
    """Everything else as it is: the circuit's own tests say by which rule."""
    _, backend, (one, _) = scene
    clear = (*one.clear[:at], one.clear[at] - 1, *one.clear[at + 1 :])
    with pytest.raises(ProofError):
        backend.prove(replace(one.assignment, clear=clear))

# SPDX-License-Identifier: GPL-3.0-or-later
"""Ranked proofs under a real key: three commitments, one of them multiplied by beta, and their common opening."""

from __future__ import annotations

import random
import secrets
from dataclasses import replace
from pathlib import Path

import pytest

from ragseal.backends.group import default_group
from ragseal.backends.mechanism import open_engine
from ragseal.backends.native import available
from ragseal.circuits.build import build
from ragseal.circuits.circuit import class_digest
from ragseal.groth16.assignments import RankedAssignment
from ragseal.groth16.keys import RankedView, make_keys
from ragseal.groth16.provers import NativeBackend
from ragseal.kernel import field, opening, statement
from ragseal.kernel.errors import ProofError
from ragseal.kernel.mechanism import noise_key
from ragseal.kernel.opening import Opening
from ragseal.kernel.params import RANKED_LAWS, R
from ragseal.kernel.ranked_opening import opening_size, ranked_relations
from tests.circuits.scene import CACHE, ranked_tiny

np = pytest.importorskip("numpy")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not available(), reason="the native module is not installed")]
GROUP = default_group()


class Proven:
    """One record's proof with its commitments and blinders."""

    def __init__(self, view: RankedView, backend: NativeBackend, number: int) -> None:
        cls, rng = view.cls, random.Random(number)
        self.seed, beacon, ctx, salt = (
            (rng.getrandbits(128), rng.getrandbits(128)),
            *(rng.getrandbits(248) for _ in "abc"),
        )
        self.w = [rng.randrange(-900 << 11, 300 << 11) for _ in range(cls.N)]
        key, engine = noise_key(self.seed, beacon, ctx), open_engine(cls)
        scores = np.array(self.w, dtype=np.int64)
        returned = engine.answer(key, scores, 128)
        self.h = engine.hints(key, scores, 128)
        t_commit = statement.places_commitment(cls, salt, returned)
        # alpha and beta are hashes of the commitments; here the order is what counts: they come after these.
        self.rho = [secrets.randbelow(R) for _ in range(3)]
        b = view.scores.b
        blank = RankedAssignment((0,) * 7, tuple(self.w), self.h, 0, self.seed, salt)
        self.bounds = blank.bounds()
        self.c_w = GROUP.msm(view.scores.y + b, field.pack([*self.w, self.rho[0]]))
        self.c_h = GROUP.msm(view.hints + b, self.h + field.pack([self.rho[1]]))
        self.c_1 = GROUP.msm(view.scaled + b, field.pack([*self.bounds, self.rho[2]]))
        alpha, beta = rng.getrandbits(248), rng.getrandbits(248)
        self.clear = (statement.seed_commitment(self.seed), beacon, ctx, 128, t_commit, alpha, beta)
        blind = (self.rho[0] + self.rho[1] + beta * self.rho[2]) % R
        self.assignment = replace(blank, clear=self.clear, blind=blind)
        self.proof = backend.prove(self.assignment)

    def witness(self) -> bytes:
        return self.h + field.pack(self.rho[1:])


@pytest.fixture(scope="module", params=RANKED_LAWS)
def scene(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[RankedView, list[Proven]]:
    cls = ranked_tiny(request.param)
    built = build(cls, CACHE)
    folder: Path = tmp_path_factory.mktemp("keys")
    paths = make_keys(built.r1cs, cls, class_digest(cls), folder)
    backend = NativeBackend(cls, built.r1cs, paths.zkey)
    return backend.key, [Proven(backend.key, backend, number) for number in (1, 2)]


def test_a_proof_holds_with_its_commitments(scene: tuple[RankedView, list[Proven]]) -> None:
    view, proven = scene
    for one in proven:
        view.verify(one.clear, one.c_w, one.c_h, one.c_1, one.proof)
    items = [(one.clear, one.c_w, one.c_h, one.c_1, one.proof) for one in proven]
    view.verify_batch(items)
    with pytest.raises(ProofError):
        view.verify_batch([items[0], (*items[1][:3], items[0][3], items[1][4])])


def test_the_commitment_to_bounds_counts_beta_times(scene: tuple[RankedView, list[Proven]]) -> None:
    """As it is, of other bounds, of another record, left out: none of them holds."""
    view, (one, two) = scene
    with pytest.raises(ProofError):
        view.verify_points(one.clear, one.c_w + one.c_h + one.c_1, one.proof)
    with pytest.raises(ProofError):
        view.verify_points(one.clear, one.c_w + one.c_h, one.proof)
    with pytest.raises(ProofError):
        view.verify(one.clear, one.c_w, one.c_h, two.c_1, one.proof)
    other = GROUP.msm(view.scaled + view.scores.b, field.pack([one.bounds[0] + 1, *one.bounds[1:], one.rho[2]]))
    with pytest.raises(ProofError):
        view.verify(one.clear, one.c_w, one.c_h, other, one.proof)
    with pytest.raises(ProofError):
        view.verify((*one.clear[:-1], one.clear[-1] + 1), one.c_w, one.c_h, one.c_1, one.proof)


def opened(view: RankedView, proven: list[Proven], witnesses: list[bytes], c_1: list[bytes]) -> None:
    """Prove and verify the batch's opening."""
    relations = ranked_relations(view.layout, view.hints, view.scaled, view.scores.b, [one.c_h for one in proven], c_1)
    context = b"".join(one.proof for one in proven) + b"".join(c_1)
    weights = opening.powers(opening.batching_challenge("ranked", context), len(proven))
    size = opening_size(view.layout)
    nonces = field.pack(secrets.randbelow(R) for _ in range(size))
    proof: Opening = opening.prove_opening(
        GROUP, "ranked", context, relations, GROUP.combine(witnesses, weights), nonces
    )
    opening.verify_opening(GROUP, "ranked", context, relations, size, proof)


def test_both_commitments_open_to_the_same_bounds(scene: tuple[RankedView, list[Proven]]) -> None:
    view, proven = scene
    opened(view, proven, [one.witness() for one in proven], [one.c_1 for one in proven])


def test_other_bounds_in_the_second_commitment_do_not_open(scene: tuple[RankedView, list[Proven]]) -> None:
    view, proven = scene
    one = proven[0]
    other = GROUP.msm(view.scaled + view.scores.b, field.pack([one.bounds[0] + 1, *one.bounds[1:], one.rho[2]]))
    with pytest.raises(ProofError, match="not what it claims"):
        opened(view, proven, [p.witness() for p in proven], [other, proven[1].c_1])
    # Nor does a component along a hint's base, which would change that hint by beta times it.
    mixed = GROUP.msm(one.c_1 + view.hints[:64], field.pack([1, 1]))
    with pytest.raises(ProofError, match="not what it claims"):
        opened(view, proven, [p.witness() for p in proven], [mixed, proven[1].c_1])


def test_shapes_are_checked(scene: tuple[RankedView, list[Proven]]) -> None:
    view, (one, _) = scene
    with pytest.raises(ProofError, match="bases"):
        ranked_relations(view.layout, view.hints[64:], view.scaled, view.scores.b, [one.c_h], [one.c_1])
    with pytest.raises(ProofError, match="for each"):
        ranked_relations(view.layout, view.hints, view.scaled, view.scores.b, [one.c_h], [])

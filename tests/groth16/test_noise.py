# SPDX-License-Identifier: GPL-3.0-or-later
"""Proofs of one shard under a real key: four commitments, one of them multiplied by beta, and their openings."""

from __future__ import annotations

import random
import secrets
from pathlib import Path

import pytest

from ragseal.backends.group import default_group
from ragseal.backends.mechanism import open_engine
from ragseal.backends.native import available
from ragseal.circuits.build import build
from ragseal.circuits.circuit import class_digest
from ragseal.groth16.assignments import assign_attestation
from ragseal.groth16.keys import KeyView, make_keys
from ragseal.groth16.provers import NativeBackend
from ragseal.kernel import field, opening, statement
from ragseal.kernel.bn254 import split_points
from ragseal.kernel.classes import Asked
from ragseal.kernel.errors import ProofError
from ragseal.kernel.mechanism import noise_key
from ragseal.kernel.noise_stated import packed_bounds
from ragseal.kernel.opening import Opening
from ragseal.kernel.params import NOISE_LAWS, R
from ragseal.kernel.statements import stated_of
from tests.circuits.scene import CACHE, noise_tiny

np = pytest.importorskip("numpy")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not available(), reason="the native module is not installed")]
GROUP = default_group()


class Proven:
    """One record's proof with its commitments and blinders."""

    def __init__(self, view: KeyView, backend: NativeBackend, number: int) -> None:
        cls, rng = view.cls, random.Random(number)
        self.seed, beacon, ctx, salt = (
            (rng.getrandbits(128), rng.getrandbits(128)),
            *(rng.getrandbits(248) for _ in "abc"),
        )
        self.w = [rng.randrange(-900 << 11, 300 << 11) for _ in range(cls.N)]
        key, engine = noise_key(self.seed, beacon, ctx), open_engine(cls)
        scores, asked = np.array(self.w, dtype=np.int64), Asked((128,))
        hidden, bases = engine.hidden(key, scores, asked), view.committed
        (self.h,) = hidden[0]
        lists = stated_of(cls).lists(salt, engine.answer(key, scores, asked), 1)
        # alpha and beta are hashes of the commitments; here the order is what counts: they come after these.
        self.rho = secrets.randbelow(R)
        self.rho_hints = [secrets.randbelow(R) for _ in range(2)]
        self.rho_v = secrets.randbelow(R)
        self.bounds = list(field.unpack(packed_bounds(self.h, cls.N)))
        self.c_w = GROUP.msm(view.scores.y + view.scores.b, field.pack([*self.w, self.rho]))
        self.c_h = bases.commit(GROUP, [self.h], [self.rho_hints])
        self.c_v = bases.commit_shared(GROUP, hidden.shared, self.rho_v)
        alpha, beta = rng.getrandbits(248), rng.getrandbits(248)
        self.clear = (statement.seed_commitment(self.seed), beacon, ctx, 128, *lists, 0, 1, alpha, beta)
        blind = (self.rho + self.rho_hints[0] + beta * self.rho_hints[1] + self.rho_v) % R
        secret = self.seed, salt
        self.proof = backend.prove(assign_attestation(cls, self.clear, self.w, [self.h], hidden.shared, blind, secret))

    @property
    def added(self) -> bytes:
        """C_h, C_1 and C_v."""
        return self.c_h + self.c_v

    @property
    def witness(self) -> bytes:
        return self.h + field.pack(self.rho_hints)

    def of_other_bounds(self, view: KeyView) -> bytes:
        """The commitments with one bound of C_1 raised."""
        values = [self.bounds[0] + 1, *self.bounds[1:], self.rho_hints[1]]
        (use,) = view.committed.own
        return self.c_h[:64] + GROUP.msm(use.over[1].bases, field.pack(values))


@pytest.fixture(scope="module", params=NOISE_LAWS)
def scene(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[KeyView, list[Proven]]:
    cls = noise_tiny(request.param)
    built = build(cls, CACHE)
    folder: Path = tmp_path_factory.mktemp("keys")
    paths = make_keys(built.r1cs, cls, class_digest(cls), folder)
    backend = NativeBackend(cls, built.r1cs, paths.zkey)
    return backend.key, [Proven(backend.key, backend, number) for number in (1, 2)]


def test_a_proof_holds_with_its_commitments(scene: tuple[KeyView, list[Proven]]) -> None:
    view, proven = scene
    for one in proven:
        view.verify(one.clear, one.c_w, one.added, one.proof)
    items = [(one.clear, one.c_w, one.added, one.proof) for one in proven]
    view.verify_batch(items)
    with pytest.raises(ProofError):
        view.verify_batch(
            [items[0], (*items[1][:2], items[1][2][:64] + items[0][2][64:128] + items[1][2][128:], items[1][3])]
        )
    with pytest.raises(ProofError):
        view.verify_batch([items[0], (*items[1][:2], items[1][2][:128] + items[0][2][128:], items[1][3])])


def test_the_commitment_to_bounds_counts_beta_times(scene: tuple[KeyView, list[Proven]]) -> None:
    """As it is, of other bounds, of another record, left out: none of them holds."""
    view, (one, two) = scene
    with pytest.raises(ProofError):
        view.verify_points(one.clear, one.c_w + one.added, one.proof)
    with pytest.raises(ProofError):
        view.verify_points(one.clear, one.c_w + one.c_h[:64] + one.c_v, one.proof)
    with pytest.raises(ProofError):
        view.verify(one.clear, one.c_w, one.c_h[:64] + two.c_h[64:] + one.c_v, one.proof)
    with pytest.raises(ProofError):
        view.verify(one.clear, one.c_w, one.of_other_bounds(view) + one.c_v, one.proof)
    with pytest.raises(ProofError):
        view.verify((*one.clear[:-1], one.clear[-1] + 1), one.c_w, one.added, one.proof)


def test_the_commitment_to_the_threshold_counts_once(scene: tuple[KeyView, list[Proven]]) -> None:
    view, (one, two) = scene
    for c_v in (two.c_v, GROUP.msm(one.c_v, field.pack([2])), view.scores.b):
        with pytest.raises(ProofError):
            view.verify(one.clear, one.c_w, one.c_h + c_v, one.proof)
    twice = [1, 1, one.clear[-1], one.clear[-1]]
    with pytest.raises(ProofError):
        view.verify_points_batch([(one.clear, one.c_w + one.added, twice, one.proof)])
    view.verify_points_batch([(one.clear, one.c_w + one.added, [*twice[:3], 1], one.proof)])


@pytest.mark.parametrize("points", [1, 2, 4])
def test_another_number_of_commitments_is_refused(scene: tuple[KeyView, list[Proven]], points: int) -> None:
    """The equation adds up whatever points it is given: one that splits a sum must not get as far as that."""
    view, (one, _) = scene
    given = (one.c_h + one.c_h)[: 64 * points]
    for refused in (
        lambda: view.verify(one.clear, one.c_w, given, one.proof),
        lambda: view.verify_batch([(one.clear, one.c_w, given, one.proof)]),
    ):
        with pytest.raises(ProofError, match=f"3 commitments are expected, not {points}"):
            refused()
    with pytest.raises(ProofError, match=f"has 2 commitments each; there are {2 * points - 1} in all"):
        view.committed.split((one.c_h * points)[64:], 1)


def opened(view: KeyView, proven: list[Proven], committed: list[bytes]) -> None:
    """Prove and verify the batch's opening."""
    (use,) = view.committed.own
    relations, size = use.relations([split_points(one) for one in committed]), use.size
    context = b"".join(one.proof for one in proven) + b"".join(committed)
    weights = opening.powers(opening.batching_challenge("hints", context), len(proven))
    nonces = field.pack(secrets.randbelow(R) for _ in range(size))
    witness = GROUP.combine([one.witness for one in proven], weights)
    proof: Opening = opening.prove_opening(GROUP, "hints", context, relations, witness, nonces)
    opening.verify_opening(GROUP, "hints", context, relations, size, proof)


def test_both_commitments_open_to_the_same_bounds(scene: tuple[KeyView, list[Proven]]) -> None:
    view, proven = scene
    opened(view, proven, [one.c_h for one in proven])


def test_other_bounds_in_the_second_commitment_do_not_open(scene: tuple[KeyView, list[Proven]]) -> None:
    view, (one, two) = scene
    with pytest.raises(ProofError, match="not what it claims"):
        opened(view, [one, two], [one.of_other_bounds(view), two.c_h])
    # Nor does a component along a hint's base, which would change that hint by beta times it.
    mixed = one.c_h[:64] + GROUP.msm(one.c_h[64:] + view.committed.own[0].over[0].bases[:64], field.pack([1, 1]))
    with pytest.raises(ProofError, match="not what it claims"):
        opened(view, [one, two], [mixed, two.c_h])

# SPDX-License-Identifier: GPL-3.0-or-later
"""The proofs of a record under a real key, over one shard or three: one C_v is added to the vk_x of each."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import pytest

from ragseal.backends.group import default_group
from ragseal.backends.native import available
from ragseal.circuits.build import build
from ragseal.circuits.circuit import class_digest
from ragseal.groth16.assignments import Assignment
from ragseal.groth16.keys import KeyView, make_keys
from ragseal.groth16.provers import NativeBackend
from ragseal.kernel import field, opening
from ragseal.kernel.attestation import Record
from ragseal.kernel.classes import Asked
from ragseal.kernel.errors import ProofError
from ragseal.kernel.opening import Opening
from ragseal.kernel.params import R
from ragseal.kernel.proofs import BatchItem, ProofEntry, Statement, challenges
from ragseal.kernel.record_proofs import proof_equations, statements_of
from tests.circuits.noise_records import STEPS, NoiseRecord, noise_record
from tests.circuits.scene import CACHE
from tests.circuits.test_noise_shards import forged
from tests.classes import TINY

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not available(), reason="the native module is not installed")]
GROUP = default_group()
SHARDS = 3
Shard = tuple[list[int], bytes, bytes, bytes]  #: clear, C_w, C_h with C_1, proof


class Scene:
    """A key, and how a prover of one record works."""

    def __init__(self, backend: NativeBackend) -> None:
        self.backend = backend
        self.view: KeyView = backend.key
        self.bases = self.view.committed

    def threshold(self, record: NoiseRecord) -> tuple[bytes, int]:
        """C_v of a record, and rho_v."""
        rho = secrets.randbelow(R)
        return self.bases.commit_shared(GROUP, record.threshold, rho), rho

    def prove(
        self, record: NoiseRecord, shard: int, committed: tuple[bytes, int], added: bytes = b"", moved: bytes = b""
    ) -> Shard:
        """One shard's proof.

        Args:
            added: what a verifier will add for C_v, if it is not that.
            moved: by what its C_w differs from that of the proof's scores.
        """
        c_v, rho_v = committed
        rho, rhos = secrets.randbelow(R), [secrets.randbelow(R) for _ in range(2)]
        c_w = GROUP.msm(self.view.scores.y + self.view.scores.b, field.pack([*record.w[shard], rho]))
        if moved:
            c_w = GROUP.msm(c_w + moved, field.pack([1, 1]))
        c_h = self.bases.commit(GROUP, [record.hints(shard)], [rhos])
        stated = statements_of(record.cls, record.common, len(record.w))[shard]
        alpha, beta = challenges(self.view.digest, b"r" * 32, stated, c_w, c_h + (added or c_v))
        clear = (*stated, alpha, beta)
        blind = (rho + rhos[0] + beta * rhos[1] + rho_v) % R
        assignment: Assignment = record.assignment(shard, alpha, beta, blind)
        return list(clear), c_w, c_h, self.backend.prove(assignment)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    cls = TINY
    built = build(cls, CACHE)
    paths = make_keys(built.r1cs, cls, class_digest(cls), tmp_path_factory.mktemp("keys"))
    return Scene(NativeBackend(cls, built.r1cs, paths.zkey))


Proven = tuple[bytes, int, list[Shard]]  #: C_v, rho_v, the shards


@pytest.fixture(scope="module", params=[1, SHARDS])
def record(request: pytest.FixtureRequest) -> NoiseRecord:
    return noise_record(1, request.param)


@pytest.fixture(scope="module")
def proven(scene: Scene, record: NoiseRecord) -> Proven:
    committed = scene.threshold(record)
    return *committed, [scene.prove(record, shard, committed) for shard in range(len(record.w))]


several = pytest.mark.parametrize("record", [SHARDS], indirect=True)


def check(scene: Scene, c_v: bytes, shards: Sequence[Shard], c_w: Sequence[bytes]) -> None:
    """As a verifier does, which has T's commitment and C_w of every shard from the record, and numbers them itself."""
    view, item = scene.view, item_of(c_v, shards, c_w)
    equations = proof_equations(view.cls, view.digest, view.committed, item)
    view.verify_batch([(one.clear, one.c_w, one.committed, one.proof) for one in equations])


def item_of(c_v: bytes, shards: Sequence[Shard], c_w: Sequence[bytes]) -> BatchItem:
    """A record with its entry."""
    c_seed, beacon, ctx, hmax, t_commit = shards[0][0][:5]
    common = Statement(c_seed, beacon, ctx, Asked((hmax,)), (t_commit,))
    entry = ProofEntry(0, b"r" * 32, b"".join(one[2] for one in shards), b"".join(one[3] for one in shards), c_v)
    return BatchItem(cast("Record", None), b"r" * 32, "acme", common, b"".join(c_w), entry)


def refused(scene: Scene, c_v: bytes, shards: Sequence[Shard], proven: Proven, match: str = "does not verify") -> None:
    with pytest.raises(ProofError, match=match):
        check(scene, c_v, shards, [one[1] for one in proven[2]])


def test_the_shards_of_a_record_hold_with_its_one_commitment(scene: Scene, proven: Proven) -> None:
    c_v, _, shards = proven
    check(scene, c_v, shards, [one[1] for one in shards])


@several
def test_another_threshold_in_one_shard_is_refused(scene: Scene, record: NoiseRecord, proven: Proven) -> None:
    """A shard whose threshold lies lower proves one winner too many, or too few, under a commitment of its own only.

    That its proof holds under its own says that nothing but the common commitment stands against it.
    """
    c_v, _, shards = proven
    other = forged(record, record.cls.K - 1, record.selection.returned)  # one winner less
    at = record.selection.threshold_slot // record.cls.N
    shard = next(s for s in range(SHARDS) if s != at)  # whose winners are the same under both thresholds
    committed = scene.threshold(other)
    clear, c_w, c_h, proof = scene.prove(other, shard, committed)
    scene.view.verify_points_batch([(clear, c_w + c_h + committed[0], [1, 1, clear[-1], 1], proof)])
    both = [*shards[:shard], (clear, c_w, c_h, proof), *shards[shard + 1 :]]
    refused(scene, c_v, both, (c_v, 0, both))
    hashed = scene.prove(other, shard, committed, added=c_v)  # under the challenges of the common one, too
    both[shard] = hashed
    refused(scene, c_v, both, (c_v, 0, both))


def test_the_threshold_of_another_record_is_refused(scene: Scene, record: NoiseRecord, proven: Proven) -> None:
    c_v, _, shards = proven
    refused(scene, scene.threshold(noise_record(2, len(record.w)))[0], shards, proven)
    refused(scene, GROUP.msm(c_v, field.pack([2])), shards, proven)


@several
def test_a_shard_left_out_or_proven_twice_is_refused(scene: Scene, proven: Proven) -> None:
    """Each of these proofs holds: it is the verifier's numbering that is against them."""
    c_v, _, shards = proven
    for few in (shards[:2], [*shards, shards[0]]):
        refused(scene, c_v, few, proven, "a record over 3 shards has 3 proofs")
    for wrong in ([shards[0], shards[0], shards[2]], shards[::-1]):
        refused(scene, c_v, wrong, proven)
        refused(scene, c_v, wrong, (c_v, 0, wrong))  # with their own C_w, too
    for wrong in (shards[:2], [shards[0], shards[0], shards[2]], shards[::-1]):
        scene.view.verify_points_batch([(s[0], s[1] + s[2] + c_v, [1, 1, s[0][-1], 1], s[3]) for s in wrong])


def test_an_entry_with_another_number_of_commitments_is_refused(scene: Scene, proven: Proven) -> None:
    c_v, _, shards = proven
    count, view, item = len(shards), scene.view, item_of(c_v, shards, [one[1] for one in shards])
    for committed in (item.entry.committed[64:], item.entry.committed + c_v):
        entry = replace(item.entry, committed=committed)
        with pytest.raises(ProofError, match=f"a record over {count} shards has {count} proofs and 2 commitments each"):
            proof_equations(view.cls, view.digest, view.committed, replace(item, entry=entry))
    times = 66 // count
    many = replace(item, c_w=item.c_w * times)
    entry = replace(item.entry, committed=item.entry.committed * times, proof=item.entry.proof * times)
    with pytest.raises(ProofError, match="has 1 to 64"):
        proof_equations(view.cls, view.digest, view.committed, replace(many, entry=entry))


def test_a_record_with_another_number_of_lists_is_refused(scene: Scene, proven: Proven) -> None:
    """One of all shards: with one a shard each proof would be of a list of its own."""
    c_v, _, shards = proven
    item = item_of(c_v, shards, [one[1] for one in shards])
    for lists in ((), item.statement.t_commits * 2, item.statement.t_commits * 3):
        common = replace(item.statement, t_commits=lists)
        with pytest.raises(ProofError, match=f"the record commits to {len(lists)} lists"):
            proof_equations(scene.view.cls, scene.view.digest, scene.bases, replace(item, statement=common))


@several
def test_shards_of_two_answers_are_refused(scene: Scene, record: NoiseRecord, proven: Proven) -> None:
    """Equal but for the salt of T: its commitment is one for all shards."""
    c_v, rho_v, shards = proven
    other = scene.prove(replace(record, salt=record.salt + 1), 1, (c_v, rho_v))
    scene.view.verify_points_batch([(other[0], other[1] + other[2] + c_v, [1, 1, other[0][-1], 1], other[3])])
    both = [shards[0], other, shards[2]]
    refused(scene, c_v, both, (c_v, 0, both))


def opened(scene: Scene, committed: Sequence[bytes], witnesses: Sequence[Sequence[int]]) -> None:
    """Prove and verify the opening of a batch's thresholds."""
    use, context = scene.bases.shared, b"".join(committed)
    weights = opening.powers(opening.batching_challenge(use.name, context), len(committed))
    witness, nonces = GROUP.combine(list(map(field.pack, witnesses)), weights), field.pack(map(uniform, range(3)))
    relations = use.relations([(one,) for one in committed])
    made: Opening = opening.prove_opening(GROUP, use.name, context, relations, witness, nonces)
    opening.verify_opening(GROUP, use.name, context, relations, use.size, made)


def uniform(_: int) -> int:
    return secrets.randbelow(R)


def test_components_outside_of_the_threshold_do_not_open(scene: Scene, record: NoiseRecord, proven: Proven) -> None:
    """With a component along a score's base every shard's score changes; the proofs hold, and the opening does not."""
    c_v, rho_v, _ = proven
    second = noise_record(2, len(record.w))
    two, rho_two = scene.threshold(second)
    witnesses = [[*record.threshold, rho_v], [*second.threshold, rho_two]]
    opened(scene, [c_v, two], witnesses)

    y_0, steps = scene.view.scores.y[:64], 3 << record.cls.c
    mixed = GROUP.msm(c_v + y_0, field.pack([1, steps]))
    lower = GROUP.msm(y_0, field.pack([-steps % R]))
    shards = [scene.prove(record, shard, (c_v, rho_v), added=mixed, moved=lower) for shard in range(len(record.w))]
    check(scene, mixed, shards, [one[1] for one in shards])  # C_w of three steps less than what is proven
    with pytest.raises(ProofError, match="not what it claims"):
        opened(scene, [mixed, two], witnesses)


def test_t_is_one_set_for_all_shards(record: NoiseRecord, proven: Proven) -> None:
    assert {one[0][4] for one in proven[2]} == set(record.common.t_commits)
    assert {one[0][3] for one in proven[2]} == {STEPS}

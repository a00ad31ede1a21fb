# SPDX-License-Identifier: GPL-3.0-or-later
"""Proofs of decoys from a key, their commitments and openings; what each opening refuses that the circuit accepts."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import pytest

import ragseal_native as native
from ragseal.backends.group import default_group
from ragseal.circuits.build import compiled_circuit
from ragseal.circuits.circuit import circuit_of
from ragseal.groth16.views import KeyView
from ragseal.kernel import field, opening
from ragseal.kernel.bn254 import POINT_BYTES, split_points
from ragseal.kernel.committed import CommittedBases, Use
from ragseal.kernel.decoys.decoys_class import DecoysClass
from ragseal.kernel.decoys.hints import Shared
from ragseal.kernel.decoys.stated import BEHIND, COUNTS, HINTS, LISTS, MEMBERS, DecoysStated, numbered
from ragseal.kernel.errors import ProofError
from ragseal.kernel.opening import Relation
from ragseal.kernel.params import R
from tests.circuits.scene import CACHE
from tests.decoys.drafts import FULL, TINY, Draft, Setting, scene, scores

pytestmark = pytest.mark.slow

N = TINY.N
GROUP = default_group()
RNG = random.Random(3)
C_M, C_IM, C_M2, C_B, C_B2, C_H, C_N = range(7)  #: commitments of a class with two chunks, in order


def uniform() -> int:
    return RNG.randrange(1, R)


@dataclass(frozen=True)
class Key:
    """A one-party key of a class."""

    setting: Setting
    proving: native.ProvingKey
    view: KeyView

    @property
    def bases(self) -> CommittedBases:
        return self.view.committed

    @property
    def slots(self) -> bytes:
        """P_0 .. P_(N-1)."""
        return self.view.scores.y

    def over(self, bases: bytes, values: Sequence[int], blinder: int) -> bytes:
        """A commitment over any bases and B."""
        return GROUP.msm(bases + self.view.scores.b, field.pack([*(x % R for x in values), blinder]))

    @staticmethod
    def of(setting: Setting, folder: Path) -> Key:
        cls = setting.cls
        path, circuit = folder / f"{cls.name}.zkey", circuit_of(cls)
        native.setup(str(compiled_circuit(circuit, CACHE)), str(path), circuit.kept)
        proving = native.ProvingKey.load(str(path))
        return Key(setting, proving, KeyView(cls, proving.verifying_key()))


@dataclass
class Proven:
    """A record with its commitments, before its proofs."""

    key: Key
    draft: Draft
    witnesses: list[list[list[int]]]  #: of every shard and use
    shared: list[int]
    blinders: list[list[list[int]]]  #: of every shard and use, one a commitment
    rho_v: int
    rho_y: list[int]
    points: list[list[bytes]]  #: of every shard
    c_v: bytes
    c_y: list[bytes]

    def proof(self, h: int) -> None:
        """Make one shard's proof from the draft's wires, and check it against the commitments.

        Raises:
            ProofError: it does not hold.
        """
        d, view = self.draft, self.key.view
        every = [self.rho_y[h], *chain.from_iterable(self.blinders[h]), self.rho_v]
        d.blind = sum(scale * one for scale, one in zip(view.stated.scales(d.beta), every, strict=True)) % R
        inputs = d.inputs(h)
        r1cs = native.R1cs.load(str(compiled_circuit(circuit_of(d.cls), CACHE)))
        witness = r1cs.solve(field.pack([inputs[w] for w in sorted(inputs)]))
        made = self.key.proving.prove(witness)
        view.verify([*d.clear(h), d.alpha, d.beta], self.c_y[h], b"".join(self.points[h]) + self.c_v, made)

    def witness(self, use: str, h: int = 0) -> list[int]:
        """What a shard's commitments of one use open to, blinders behind it."""
        at = [one.name for one in self.key.bases.own].index(use)
        return [*self.witnesses[h][at], *self.blinders[h][at]]

    def listed(self, shared: Sequence[int] | None = None) -> list[int]:
        """What C_v opens to, and the blinder of the sum of all C_n."""
        return [*(shared or self.shared), self.rho_v, sum(own[-1][0] for own in self.blinders)]


def opened_by(d: Draft, h: int) -> list[list[int]]:
    """What a shard's commitments open to, by use."""
    one = d.shards[h]
    return [list(one.members), list(one.b[1:]), list(d.hints(h)), [sum(e.used for e in one.elements)]]


def commit(key: Key, d: Draft) -> Proven:
    bases = key.bases
    witnesses = [opened_by(d, h) for h in range(len(d.shards))]
    shared = Shared(d.threshold, d.last, d.short, d.over, d.total).values()
    blinders = [[[uniform() for _ in use.over] for use in bases.own] for _ in witnesses]
    rho_v, rho_y = uniform(), [uniform() for _ in witnesses]
    points = [
        split_points(bases.commit(GROUP, [field.pack([x % R for x in one]) for one in opened], own))
        for opened, own in zip(witnesses, blinders, strict=True)
    ]
    return Proven(
        key=key, draft=d, witnesses=witnesses, shared=shared, blinders=blinders, rho_v=rho_v, rho_y=rho_y,
        points=[list(own) for own in points],
        c_v=bases.commit_shared(GROUP, [x % R for x in shared], rho_v),
        c_y=[key.over(key.slots, one.y, rho) for one, rho in zip(d.shards, rho_y, strict=True)],
    )  # fmt: skip


def due(proven: Sequence[Proven]) -> dict[str, tuple[Use, list[Relation]]]:
    """The openings of a batch of records, by name."""
    records = [[tuple(own) for own in one.points] for one in proven]
    found = proven[0].key.bases.relations(records, [one.c_v for one in proven])
    return {use.name: (use, relations) for use, relations in found}


def shown(use: str, relations: Sequence[Relation], size: int, witnesses: Sequence[Sequence[int]]) -> None:
    """Open commitments with these witnesses; ProofError unless the relations hold."""
    context = b"".join(point for relation in relations for point in relation.commitments)
    weights = opening.powers(opening.batching_challenge(use, context), len(witnesses))
    packed = [field.pack([x % R for x in one]) for one in witnesses]
    witness = GROUP.combine(packed, weights)
    nonces = field.pack(uniform() for _ in range(size))
    proof = opening.prove_opening(GROUP, use, context, relations, witness, nonces)
    opening.verify_opening(GROUP, use, context, relations, size, proof)


def opened(proven: Sequence[Proven], name: str, witnesses: Sequence[Sequence[int]]) -> None:
    """One opening of a batch; ProofError if it does not hold."""
    use, relations = due(proven)[name]
    shown(use.name, relations, use.size, witnesses)


@pytest.fixture(scope="module", params=[TINY, FULL], ids=lambda cls: cls.name)
def key(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Key:
    return Key.of(Setting(request.param), tmp_path_factory.mktemp("key"))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Key:
    return Key.of(Setting(TINY), tmp_path_factory.mktemp("tiny"))


def honest(key: Key, number: int = 1) -> Proven:
    shards = key.setting.cls.S
    return commit(key, key.setting.honest(number, scores(random.Random(number), key.setting.cls, shards), 6))


def test_an_honest_record_is_proven_and_opened(key: Key) -> None:
    made = [honest(key, number) for number in (1, 2)]
    for one in made:
        for h in range(len(one.draft.shards)):
            one.proof(h)
    assert [*due(made)] == [MEMBERS, BEHIND, HINTS, COUNTS, LISTS]
    for use in (MEMBERS, BEHIND, HINTS, COUNTS):
        opened(made, use, [one.witness(use, h) for one in made for h in range(len(one.points))])
    opened(made, LISTS, [one.listed() for one in made])


def test_every_commitment_is_in_the_proof(tiny: Key) -> None:
    one = honest(tiny)
    one.proof(0)
    other, kept = honest(tiny, 2), list(one.points[0])
    for at in range(len(kept)):
        one.points[0] = [*kept[:at], other.points[0][at], *kept[at + 1 :]]
        with pytest.raises(ProofError):
            one.proof(0)
    for a, b in ((C_M, C_IM), (C_IM, C_M2), (C_B, C_B2)):  # openings tell C_h and C_n apart
        one.points[0] = list(kept)
        one.points[0][a], one.points[0][b] = kept[b], kept[a]
        with pytest.raises(ProofError):
            one.proof(0)
    one.points[0] = kept
    for name, value in (("c_v", other.c_v), ("c_y", other.c_y)):
        before = getattr(one, name)
        setattr(one, name, value)
        with pytest.raises(ProofError):
            one.proof(0)
        setattr(one, name, before)
    one.proof(0)
    one.points[0] = [*kept[:C_M2], *kept[C_B:]]
    with pytest.raises(ProofError, match="8 commitments are expected, not 7"):
        one.proof(0)
    with pytest.raises(ProofError, match="has 7 commitments each; there are 6"):
        tiny.bases.split(b"".join(one.points[0]), 1)


def test_numbered_points_are_multiples(tiny: Key) -> None:
    made = numbered(GROUP, tiny.slots)
    assert len(made) == POINT_BYTES * (N - 1)
    for i in (1, 2, 3, N - 1):
        point = tiny.slots[POINT_BYTES * i :][:POINT_BYTES]
        assert made[POINT_BYTES * (i - 1) :][:POINT_BYTES] == GROUP.msm(point, field.to_bytes(i))


# --- what the circuit accepts, and an opening refuses -----------------------------------------------------------------

MARKS = ({10: 300, 20: 150, 30: 150, 40: 140, 50: 50},)


def test_b_that_begins_at_one_withholds_results(tiny: Key) -> None:
    """Broken before: where b_0 may be 1, all slots lose at the threshold, and a result at lo + 1 is withheld."""
    d = scene(tiny.setting, ({10: 300, 30: 101},), 8)
    d.settle(d.drawn | {10}, jump=False)
    one = d.shards[0]
    one.b = [1] * (N + 1)
    for e in one.elements:
        if e.used:
            e.x = d.x(0, e.slot)
    for e in one.elements:  # y = entry - 1 - X + b, of which an element's b is 0
        e.flag = e.flag if e.used else 0
    one.high = [0 if m else d.x(0, i) >> TINY.c for i, m in enumerate(one.members)]
    assert 30 not in [r.slot for r in d.returned(0)]
    assert tiny.setting.accepts(d)
    # The wires are those of C_b with b_0 over P_0, C_b' with b_1 .. b_N: no witness opens both.
    made = commit(tiny, d)
    rho, second = made.blinders[0][1]
    made.points[0][C_B] = tiny.over(tiny.slots, one.b[:N], rho)
    made.points[0][C_B2] = tiny.over(tiny.slots, one.b[1:], second)
    made.proof(0)  # the circuit itself has nothing against it
    with pytest.raises(ProofError, match="behind opening"):
        opened([made], BEHIND, [[*one.b[1:], rho, second]])


def test_a_slot_poses_as_another_where_second_multiples_are_free(tiny: Key) -> None:
    """Slot 30's score under slot 20's name: m_30 = 1, and i m_i = 20 there.  One witness for C_m and C_im refuses it.

    Merged by a challenge (broken before), some m opens the sum whatever the two open to.
    """
    d = scene(tiny.setting, ({10: 300, 20: 50, 30: 150},), 2)
    one = d.shards[0]
    e = d.element(30)
    at, where = one.elements.index(e), [x.slot for x in one.elements if x.used]
    assert not at or where[at - 1] < 20
    e.slot = d.last = 20
    one.seconds = [i * m for i, m in enumerate(one.members)]
    one.seconds[30] = 20
    d.pad(0)
    one.members[30] = 1
    assert tiny.setting.accepts(d)
    assert 20 in [r.slot for r in d.returned(0)]
    made = commit(tiny, d)
    blinders = made.blinders[0][0]
    forged = tiny.over(tiny.slots[POINT_BYTES:], one.seconds[1:], blinders[1])
    kept = made.points[0][C_M]
    made.points[0][C_IM] = forged
    made.proof(0)
    with pytest.raises(ProofError, match="members opening"):
        opened([made], MEMBERS, [[*one.members, *blinders]])
    # The merged one: psi hashes both points, and still k_i = (m_i + psi s_i) / (1 + psi i) opens their sum.
    psi = opening.batching_challenge("merged", kept + forged)
    merged = GROUP.msm(kept + forged, field.pack([1, psi]))
    bases = tiny.slots[:POINT_BYTES] + b"".join(
        GROUP.msm(tiny.slots[POINT_BYTES * i :][:POINT_BYTES], field.to_bytes((1 + psi * i) % R)) for i in range(1, N)
    )
    witness = [
        (m + psi * s) * pow(1 + psi * i, -1, R) % R
        for i, (m, s) in enumerate(zip(one.members, one.seconds, strict=True))
    ]
    relation = Relation(bases + tiny.view.scores.b, ((0, N + 1),), (merged,))
    shown("merged", [relation], N + 1, [[*witness, blinders[0] + psi * blinders[1]]])


def test_members_of_the_high_chunks_are_those_of_the_slots(tiny: Key) -> None:
    """C_m'' to other slots than C_m would let a slot that is not returned have any high chunk."""
    one = honest(tiny)
    members, blinders = list(one.witnesses[0][0]), one.blinders[0][0]
    members[0] = 1 - members[0]
    high = tiny.view.bases(tiny.view.layout.hints_at, N)
    one.points[0][C_M2] = tiny.over(high, members, blinders[2])
    for said in (one.witnesses[0][0], members):
        with pytest.raises(ProofError, match="members opening"):
            opened([one], MEMBERS, [[*said, *blinders]])


@pytest.mark.parametrize("use", [HINTS, COUNTS, LISTS])
def test_a_component_outside_its_bases_is_refused(tiny: Key, use: str) -> None:
    """C_h, C_n or C_v with a part along a slot's point would change its score."""
    one = honest(tiny)
    stray = tiny.slots[:POINT_BYTES]
    if use == LISTS:
        one.c_v = GROUP.msm(one.c_v + stray, field.pack([1, 1]))
    else:
        at = C_H if use == HINTS else C_N
        one.points[0][at] = GROUP.msm(one.points[0][at] + stray, field.pack([1, 1]))
    with pytest.raises(ProofError, match=f"{use} opening"):
        opened([one], use, [one.listed() if use == LISTS else one.witness(use)])


def test_a_list_s_length_is_the_sum_of_its_shards(tiny: Key) -> None:
    """One id less in C_v than the shards return."""
    one = honest(tiny)
    shared = [*one.shared[:-1], one.shared[-1] - 1]
    one.c_v = tiny.bases.commit_shared(GROUP, shared, one.rho_v)
    for said in (one.shared, shared):
        with pytest.raises(ProofError, match="lists opening"):
            opened([one], LISTS, [one.listed(said)])
    other = honest(tiny)
    other.points = other.points[:1]
    with pytest.raises(ProofError, match="as many shards"):
        due([one, other])


@pytest.mark.parametrize("cls", [TINY, FULL], ids=lambda cls: cls.name)
def test_scales_are_the_wires(cls: DecoysClass) -> None:
    """The verifier's combination opens to x and z, as slot_wires has them: C_y is taken away."""
    beta, stated, two = 7, DecoysStated(cls), cls.chunks == 2
    scales, rng = stated.scales(beta), random.Random(1)
    y, m, b, hi = ([rng.randrange(R) for _ in range(cls.N)] for _ in range(4))
    h = [*(hi if two else []), 5]
    found = list(field.unpack(stated.wires(y, [field.pack(one) for one in (m, b, h, [9])], beta)))
    before = [0, *b[:-1]]
    parts = zip(y, m, [i * one for i, one in enumerate(m)], *([[0] * cls.N] if two else []), before, b, strict=True)
    assert found[: cls.N] == [sum(a * s for a, s in zip(one, scales, strict=False)) % R for one in parts]
    if two:
        assert found[cls.N : 2 * cls.N] == [(x + scales[3] * one) % R for x, one in zip(hi, m, strict=True)]
    assert found[-2:] == [5, 9]
    assert scales[-3:] == (1, 1, 1)

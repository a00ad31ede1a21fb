# SPDX-License-Identifier: GPL-3.0-or-later
"""Proofs of decoys from a key, their commitments and openings; what each opening refuses that the circuit accepts."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

import ragseal_native as native
from ragseal.backends.group import default_group
from ragseal.circuits.build import compiled_circuit
from ragseal.circuits.decoys import decoys_circuit
from ragseal.kernel import field, opening
from ragseal.kernel.bn254 import POINT_BYTES
from ragseal.kernel.decoys import openings
from ragseal.kernel.decoys.hints import ShardAssignment, Shared
from ragseal.kernel.decoys.openings import DecoysBases, ShardBlinders, ShardPoints, blinder_wire, weights_of
from ragseal.kernel.decoys.statement import SHARED, DecoysLayout
from ragseal.kernel.errors import ProofError
from ragseal.kernel.opening import Relation
from ragseal.kernel.params import R
from tests.circuits.scene import CACHE
from tests.decoys.drafts import FULL, TINY, Draft, Setting, scene, scores

pytestmark = pytest.mark.slow

N = TINY.N
GROUP = default_group()
RNG = random.Random(3)


def uniform() -> int:
    return RNG.randrange(1, R)


@dataclass(frozen=True)
class Key:
    """A one-party key of a class."""

    setting: Setting
    proving: native.ProvingKey
    bases: DecoysBases

    @property
    def verifying(self) -> native.VerifyingKey:
        return self.proving.verifying_key()

    @staticmethod
    def of(setting: Setting, folder: Path) -> Key:
        cls = setting.cls
        path, circuit = folder / f"{cls.name}.zkey", decoys_circuit(cls)
        native.setup(str(compiled_circuit(decoys_circuit(cls), CACHE)), str(path), circuit.kept)
        proving = native.ProvingKey.load(str(path))
        key, layout = proving.verifying_key(), DecoysLayout(cls)
        bases = DecoysBases(
            cls=cls,
            slots=key.ic(1 + layout.scores_at, cls.N),
            hints=key.ic(1 + layout.hints_at, layout.size),
            count=key.ic(1 + layout.count_at, 1),
            shared=key.ic(1 + layout.shared_at, len(SHARED)),
            blinder=key.ic(1 + layout.blind_at, 1),
            group=GROUP,
        )
        return Key(setting, proving, bases)


@dataclass
class Proven:
    """A record with its commitments, before its proofs."""

    key: Key
    draft: Draft
    made: list[ShardAssignment]
    shared: Shared
    blinders: list[ShardBlinders]
    rho_v: int
    rho_y: list[int]
    points: list[ShardPoints]
    c_v: bytes
    c_y: list[bytes]

    def proof(self, h: int) -> None:
        """Make one shard's proof from the draft's wires, and check it against the commitments.

        Raises:
            ProofError: it does not hold.
        """
        d = self.draft
        d.blind = blinder_wire(d.cls, self.rho_y[h], self.blinders[h], self.rho_v, d.beta)
        inputs = d.inputs(h)
        r1cs = native.R1cs.load(str(compiled_circuit(decoys_circuit(d.cls), CACHE)))
        witness = r1cs.solve(field.pack([inputs[w] for w in sorted(inputs)]))
        made = self.key.proving.prove(witness)
        hidden = self.key.bases.hidden(self.c_y[h], self.points[h], self.c_v, d.beta)
        clear = field.pack([*d.statement(h).clear(), d.alpha, d.beta])
        try:
            self.key.verifying.verify(made, clear, hidden)
        except ValueError as error:
            raise ProofError(str(error)) from None


def assignment(d: Draft, h: int) -> ShardAssignment:
    one = d.shards[h]
    count = sum(e.used for e in one.elements)
    return ShardAssignment(tuple(one.members), tuple(one.b[1:]), tuple(d.hints(h)), count)


def commit(key: Key, d: Draft) -> Proven:
    bases, two = key.bases, d.cls.chunks == 2
    made = [assignment(d, h) for h in range(len(d.shards))]
    shared = Shared(d.threshold, d.last, d.short, d.over, d.total)
    blinders = [
        ShardBlinders(tuple(uniform() for _ in range(2 + two)), (uniform(), uniform()), uniform(), uniform())
        for _ in made
    ]
    rho_v, rho_y = uniform(), [uniform() for _ in made]
    return Proven(
        key=key, draft=d, made=made, shared=shared, blinders=blinders, rho_v=rho_v, rho_y=rho_y,
        points=[bases.commit(one, own) for one, own in zip(made, blinders, strict=True)],
        c_v=bases.commit_shared(shared, rho_v),
        c_y=[
            GROUP.msm(bases.slots + bases.blinder, field.pack([*one.y, rho]))
            for one, rho in zip(d.shards, rho_y, strict=True)
        ],
    )  # fmt: skip


def shown(relations: tuple[Relation, ...], use: str, witnesses: Sequence[Sequence[int]]) -> None:
    """Open commitments with these witnesses; ProofError unless the relations hold."""
    context = b"".join(point for relation in relations for point in relation.commitments)
    weights = opening.powers(opening.batching_challenge(use, context), len(witnesses))
    packed = [field.pack([x % R for x in one]) for one in witnesses]
    witness = GROUP.combine(packed, weights)
    nonces = field.pack(uniform() for _ in witnesses[0])
    proof = opening.prove_opening(GROUP, use, context, relations, witness, nonces)
    opening.verify_opening(GROUP, use, context, relations, len(witnesses[0]), proof)


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
    bases = key.bases
    for one in made:
        for h in range(len(one.draft.shards)):
            one.proof(h)
    points = [p for one in made for p in one.points]
    own = [(a, b) for one in made for a, b in zip(one.made, one.blinders, strict=True)]
    shown(bases.members_of([p.members for p in points]), openings.MEMBERS, [[*a.members, *b.members] for a, b in own])
    shown(bases.behind_of([p.behind for p in points]), openings.BEHIND, [[*a.behind, *b.behind] for a, b in own])
    shown(bases.hints_of([p.hints for p in points]), openings.HINTS, [[*a.hints, b.hints] for a, b in own])
    shown(bases.counts_of([p.count for p in points]), openings.COUNTS, [[a.count, b.count] for a, b in own])
    shown(
        bases.lists_of([one.c_v for one in made], [[p.count for p in one.points] for one in made]),
        openings.LISTS,
        [[*one.shared.values(), one.rho_v, sum(b.count for b in one.blinders)] for one in made],
    )


def test_every_commitment_is_in_the_proof(tiny: Key) -> None:
    one = honest(tiny)
    one.proof(0)
    other = honest(tiny, 2)
    kept = one.points[0]
    for change in (
        {"hints": other.points[0].hints}, {"count": other.points[0].count}, {"behind": other.points[0].behind},
        {"members": other.points[0].members}, {"members": (kept.members[1], kept.members[0], kept.members[2])},
        {"behind": kept.behind[::-1]},
    ):  # fmt: skip
        one.points[0] = dataclasses.replace(kept, **change)  # type: ignore[arg-type]
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
    one.points[0] = dataclasses.replace(kept, members=kept.members[:2])
    with pytest.raises(ProofError, match="commitments to the returned slots"):
        one.proof(0)
    with pytest.raises(ProofError, match="commitments to the returned slots"):
        tiny.bases.members_of([kept.members[:2]])


def test_scaled_points_are_multiples(tiny: Key) -> None:
    for i in (1, 2, 3, N - 1):
        point = tiny.bases.slots[POINT_BYTES * i :][:POINT_BYTES]
        assert tiny.bases.scaled[POINT_BYTES * (i - 1) :][:POINT_BYTES] == GROUP.msm(point, field.to_bytes(i))


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
    rho, second = made.blinders[0].behind
    c_b = GROUP.msm(tiny.bases.slots + tiny.bases.blinder, field.pack([*one.b[:N], rho]))
    c_next = GROUP.msm(tiny.bases.slots + tiny.bases.blinder, field.pack([*one.b[1:], second]))
    made.points[0] = dataclasses.replace(made.points[0], behind=(c_b, c_next))
    made.proof(0)  # the circuit itself has nothing against it
    with pytest.raises(ProofError, match="behind opening"):
        shown(tiny.bases.behind_of([(c_b, c_next)]), openings.BEHIND, [[*one.b[1:], rho, second]])


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
    blinders = made.blinders[0].members
    points = tiny.bases.slots[POINT_BYTES:] + tiny.bases.blinder
    forged = GROUP.msm(points, field.pack([*one.seconds[1:], blinders[1]]))
    kept = made.points[0].members
    made.points[0] = dataclasses.replace(made.points[0], members=(kept[0], forged, kept[2]))
    made.proof(0)
    with pytest.raises(ProofError, match="members opening"):
        shown(tiny.bases.members_of([made.points[0].members]), openings.MEMBERS, [[*one.members, *blinders]])
    # The merged one: psi hashes both points, and still k_i = (m_i + psi s_i) / (1 + psi i) opens their sum.
    psi = opening.batching_challenge("merged", kept[0] + forged)
    merged = GROUP.msm(kept[0] + forged, field.pack([1, psi]))
    bases = GROUP.msm(b"".join([tiny.bases.slots[:POINT_BYTES]]), field.to_bytes(1))
    bases += b"".join(
        GROUP.msm(tiny.bases.slots[POINT_BYTES * i :][:POINT_BYTES], field.to_bytes((1 + psi * i) % R))
        for i in range(1, N)
    )
    witness = [
        (m + psi * s) * pow(1 + psi * i, -1, R) % R
        for i, (m, s) in enumerate(zip(one.members, one.seconds, strict=True))
    ]
    relation = Relation(bases + tiny.bases.blinder, ((0, N + 1),), (merged,))
    shown((relation,), "merged", [[*witness, blinders[0] + psi * blinders[1]]])


def test_members_of_the_high_chunks_are_those_of_the_slots(tiny: Key) -> None:
    """C_m'' to other slots than C_m would let a slot that is not returned have any high chunk."""
    one = honest(tiny)
    members, blinders = list(one.made[0].members), one.blinders[0].members
    members[0] = 1 - members[0]
    points = one.points[0].members
    forged = GROUP.msm(tiny.bases.high + tiny.bases.blinder, field.pack([*members, blinders[2]]))
    relations = tiny.bases.members_of([(points[0], points[1], forged)])
    for said in (one.made[0].members, members):
        with pytest.raises(ProofError, match="members opening"):
            shown(relations, openings.MEMBERS, [[*said, *blinders]])


@pytest.mark.parametrize("use", [openings.HINTS, openings.COUNTS, openings.LISTS])
def test_a_component_outside_its_bases_is_refused(tiny: Key, use: str) -> None:
    """C_h, C_n or C_v with a part along a slot's point would change its score."""
    one = honest(tiny)
    bases, own = tiny.bases, one.blinders
    stray = bases.slots[:POINT_BYTES]

    def more(point: bytes) -> bytes:
        return GROUP.msm(point + stray, field.pack([1, 1]))

    if use == openings.HINTS:
        relations, witness = bases.hints_of([more(one.points[0].hints)]), [*one.made[0].hints, own[0].hints]
    elif use == openings.COUNTS:
        relations, witness = bases.counts_of([more(one.points[0].count)]), [one.made[0].count, own[0].count]
    else:
        counts = [[p.count for p in one.points]]
        relations = bases.lists_of([more(one.c_v)], counts)
        witness = [*one.shared.values(), one.rho_v, sum(b.count for b in own)]
    with pytest.raises(ProofError, match=f"{use} opening"):
        shown(relations, use, [witness])


def test_a_list_s_length_is_the_sum_of_its_shards(tiny: Key) -> None:
    """One id less in C_v than the shards return."""
    one = honest(tiny)
    shared = dataclasses.replace(one.shared, total=one.shared.total - 1)
    c_v, counts = tiny.bases.commit_shared(shared, one.rho_v), [[p.count for p in one.points]]
    blinder = sum(b.count for b in one.blinders)
    for total in (one.shared.total, shared.total):
        with pytest.raises(ProofError, match="lists opening"):
            shown(
                tiny.bases.lists_of([c_v], counts), openings.LISTS, [[*shared.values()[:4], total, one.rho_v, blinder]]
            )
    with pytest.raises(ProofError, match="as many shards"):
        tiny.bases.lists_of([c_v, c_v], [*counts, counts[0][:1]])


def test_weights_are_the_wires(tiny: Key) -> None:
    """C_y is taken away, and beta's powers are as in slot_wires."""
    beta = 7
    assert weights_of(TINY, beta) == ((beta + (beta**4 << TINY.c), beta**2, beta**4), (1 - beta**3 + R, beta**3))
    assert weights_of(FULL, beta)[0] == (beta, beta**2)

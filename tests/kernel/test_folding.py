# SPDX-License-Identifier: GPL-3.0-or-later
"""The folding argument: two implementations agree, what it sends is of the stated size, and nothing else passes."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Sequence

import pytest

from ragseal.backends.group import NativeGroup
from ragseal.kernel import field, folding, opening
from ragseal.kernel.bn254 import IDENTITY, POINT_BYTES, Group, PurePythonGroup
from ragseal.kernel.errors import EncodingError, ProofError
from ragseal.kernel.opening import Opening, Relation
from ragseal.kernel.params import R

PURE, NATIVE = PurePythonGroup(), NativeGroup()
USE, CONTEXT = "test", b"everything that the batch states"
OUTSIDE = NATIVE.hash_to_curve(b"not a base", 1)
RNG = random.Random(11)
SIZE = 45  # 45, 23, 12, 6: two of three rounds have an odd length


def scalars(count: int) -> list[int]:
    return [RNG.randrange(R) for _ in range(count)]


def bases(count: int, name: bytes = b"folding") -> bytes:
    return NATIVE.hash_to_curve(name, count)


def made(size: int, group: Group = NATIVE) -> tuple[Relation, Opening]:
    """An honest opening of one commitment."""
    witness = scalars(size)
    commitment = NATIVE.msm(bases(size), field.pack(witness))
    relation = Relation(bases(size), ((0, size),), (commitment,))
    return relation, prove(group, [relation], witness)


def prove(group: Group, relations: Sequence[Relation], witness: Sequence[int]) -> Opening:
    return opening.prove_opening(group, USE, CONTEXT, relations, field.pack(witness), field.pack(scalars(len(witness))))


def check(relations: Sequence[Relation], size: int, proof: Opening, group: Group = NATIVE) -> None:
    opening.verify_opening(group, USE, CONTEXT, relations, size, proof)


def refused(relations: Sequence[Relation], size: int, proof: Opening, match: str = "not what it claims") -> None:
    for group in (NATIVE, PURE):
        with pytest.raises(ProofError, match=match):
            check(relations, size, proof, group)


# --- what an honest prover makes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 7, 8, 9, 15, 16, 17, 31, 33, SIZE, 64, 65])
def test_both_implementations_make_and_accept_the_same_bytes(size: int) -> None:
    witness, nonces = field.pack(scalars(size)), field.pack(scalars(size))
    commitment = PURE.msm(bases(size), witness)
    relation = Relation(bases(size), ((0, size),), (commitment,))
    both = [opening.prove_opening(g, USE, CONTEXT, [relation], witness, nonces) for g in (PURE, NATIVE)]
    assert both[0].encode() == both[1].encode()
    check([relation], size, Opening.decode(both[0].encode()), NATIVE)
    check([relation], size, Opening.decode(both[1].encode()), PURE)


def test_two_relations_of_one_witness() -> None:
    """As a link has them: each leaves out one entry that the other has."""
    size = 37
    witness = scalars(size)
    slots = (((0, size - 1),), ((0, size - 2), (size - 1, size)))
    own = [bases(size - 1), bases(size - 1, b"second")]

    def relations(left: Sequence[int], right: Sequence[int]) -> list[Relation]:
        made = []
        for points, where, values in zip(own, slots, (left, right), strict=True):
            relation = Relation(points, where, ())
            commitment = NATIVE.msm(points, relation.pick(NATIVE, field.pack(values)))
            made.append(dataclasses.replace(relation, commitments=(commitment,)))
        return made

    honest = relations(witness, witness)
    both = [prove(group, honest, witness) for group in (PURE, NATIVE)]
    assert [len(p.folds) for p in both] == [4 * 2] * 2  # 37, 19, 10: L and R of both relations
    for proof in both:
        check(honest, size, proof, PURE)
        check(honest, size, proof, NATIVE)
    for at in range(len(both[0].folds)):
        folds = (*both[0].folds[:at], OUTSIDE, *both[0].folds[at + 1 :])
        refused(honest, size, dataclasses.replace(both[0], folds=folds))
    other = [witness[0] + 1, *witness[1:]]
    refused(relations(witness, other), size, prove(NATIVE, relations(witness, other), witness))


def test_bases_of_several_parts_are_added_up_by_factors() -> None:
    """As a link over shards has them: three times as many bases, a commitment in three points, one witness."""
    size, factors = 21, (1, 5, 25)
    witness = scalars(size)
    parts = [bases(size - 1, name) for name in (b"one", b"two", b"three")]
    blinder, left = bases(1, b"blinder"), bases(size)
    points = [NATIVE.msm(part + blinder, field.pack([*witness[:-1], 7])) for part in parts]
    own = [*witness[:-1], 7 * sum(factors)]  # the blinders of all three

    def relations(given: Sequence[int]) -> list[Relation]:
        slots = (*((0, size - 1),) * 3, (size - 1, size))
        return [
            Relation(left, ((0, size),), (NATIVE.msm(left, field.pack(own)),)),
            Relation(b"".join(parts) + blinder, slots, (b"".join(points),), (*given, 1), factors),
        ]

    nonces = field.pack(scalars(size))
    both = [
        opening.prove_opening(group, USE, CONTEXT, relations(factors), field.pack(own), nonces)
        for group in (PURE, NATIVE)
    ]
    assert both[0] == both[1]
    for group in (PURE, NATIVE):
        check(relations(factors), size, both[0], group)
        columns = [b"".join(part[at : at + 64] for part in parts) for at in range(0, 64 * (size - 1), 64)]
        sums = b"".join(group.msm(one, field.pack(factors)) for one in columns)
        assert relations(factors)[1].spread(group, size) == sums + blinder
    refused(relations((1, 5, 26)), size, both[0])
    refused(relations((5, 1, 25)), size, both[0])
    points[1] = NATIVE.msm(parts[1] + blinder, field.pack([*witness[:-2], witness[-2] + 1, 7]))
    refused(relations(factors), size, prove(NATIVE, relations(factors), own))


@pytest.mark.parametrize(("size", "relations", "rounds"), [(34_800, 1, 13), (5_185, 1, 10), (386, 2, 5), (16, 2, 0)])
def test_size_is_logarithmic(size: int, relations: int, rounds: int) -> None:
    steps = folding.lengths(size, relations)
    assert len(steps) == rounds + 1
    assert folding.SHORTEST * relations // 2 <= steps[-1] <= folding.SHORTEST * relations


def test_largest_opening_fits_its_message() -> None:
    for relations in range(1, folding.MAX_RELATIONS + 1):
        steps = folding.lengths(folding.MAX_SIZE, relations)
        point = bases(1)
        proof = Opening((point,) * relations, (point,) * (2 * relations * (len(steps) - 1)), (1,) * steps[-1])
        assert Opening.decode(proof.encode()) == proof


@pytest.mark.parametrize("u", [1, 2, 15, R - 1, (1 << 248) - 1])
def test_folding_points_by_definition(u: int) -> None:
    """Identities, equal and opposite halves included."""
    points = [bases(6)[i : i + POINT_BYTES] for i in range(0, 6 * POINT_BYTES, POINT_BYTES)]
    left = [points[0], IDENTITY, points[1], points[2], IDENTITY, points[3], points[4]]
    right = [points[5], points[0], points[1], PURE.msm(points[2], field.pack([-1])), IDENTITY, IDENTITY]
    for half in (right, [*right, points[0]]):
        want = [PURE.msm(p + q, field.pack([u, 1])) for p, q in zip(left, [*half, IDENTITY][:7], strict=True)]
        for group in (PURE, NATIVE):
            assert group.fold(b"".join(left + half), u) == b"".join(want)


# --- what a cheating one does ----------------------------------------------------------------------------------------

TAMPERED: dict[str, Callable[[Opening], Opening]] = {
    "first_left": lambda o: dataclasses.replace(o, folds=(OUTSIDE, *o.folds[1:])),
    "last_right": lambda o: dataclasses.replace(o, folds=(*o.folds[:-1], OUTSIDE)),
    "left_and_right_swapped": lambda o: dataclasses.replace(o, folds=(o.folds[1], o.folds[0], *o.folds[2:])),
    "rounds_swapped": lambda o: dataclasses.replace(o, folds=(*o.folds[2:4], *o.folds[:2], *o.folds[4:])),
    "announcement": lambda o: dataclasses.replace(o, announcements=(OUTSIDE,)),
    "first_response": lambda o: dataclasses.replace(o, responses=((o.responses[0] + 1) % R, *o.responses[1:])),
    "last_response": lambda o: dataclasses.replace(o, responses=(*o.responses[:-1], (o.responses[-1] + 1) % R)),
}


@pytest.mark.parametrize("what", TAMPERED)
def test_tampered(what: str) -> None:
    relation, proof = made(SIZE)
    refused([relation], SIZE, TAMPERED[what](proof))


def test_number_of_rounds_follows_from_the_size(monkeypatch: pytest.MonkeyPatch) -> None:
    relation, proof = made(SIZE)
    rounds = "3 rounds of folding expected"
    refused([relation], SIZE, dataclasses.replace(proof, folds=proof.folds[:-2]), rounds)
    refused([relation], SIZE, dataclasses.replace(proof, folds=proof.folds[1:]), rounds)
    refused([relation], SIZE, dataclasses.replace(proof, folds=(*proof.folds, *proof.folds[:2])), rounds)
    refused([relation], SIZE, dataclasses.replace(proof, responses=proof.responses[:-1]), "6 responses expected")
    for shortest, match in ((16, rounds), (4, rounds)):  # honest provers that stop a round early or late
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(folding, "SHORTEST", shortest)
            other = prove(NATIVE, [relation], [0] * SIZE)
        refused([relation], SIZE, other, match)


def test_identity_among_the_points() -> None:
    relation, proof = made(SIZE)
    for at in range(len(proof.folds)):
        folds = (*proof.folds[:at], IDENTITY, *proof.folds[at + 1 :])
        refused([relation], SIZE, dataclasses.replace(proof, folds=folds), "identity")


def test_component_outside_the_span() -> None:
    witness = scalars(SIZE)
    inside = NATIVE.msm(bases(SIZE), field.pack(witness))
    commitment = NATIVE.msm(inside + OUTSIDE, field.pack([1, 1]))
    relation = Relation(bases(SIZE), ((0, SIZE),), (commitment,))
    refused([relation], SIZE, prove(NATIVE, [relation], witness))
    # Known to the prover as an opening over one base more, which the verifier does not have.
    wider = Relation(bases(SIZE) + OUTSIDE, ((0, SIZE + 1),), (commitment,))
    refused([relation], SIZE, prove(NATIVE, [wider], [*witness, 1]))


def test_padding_carries_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A base in the place that an odd length leaves empty: 45 = 23 + 22, so entry 45 would be the 23rd on the right."""
    witness = scalars(SIZE)
    inside = NATIVE.msm(bases(SIZE), field.pack(witness))
    commitment = NATIVE.msm(inside + OUTSIDE, field.pack([1, 5]))
    relation = Relation(bases(SIZE), ((0, SIZE),), (commitment,))
    size = SIZE + 1
    assert folding.lengths(size, 1)[1:] == folding.lengths(SIZE, 1)[1:]
    wider = Relation(bases(SIZE) + OUTSIDE, ((0, size),), (commitment,))
    check([wider], size, known := prove(NATIVE, [wider], [*witness, 5]))  # it is an opening over that base
    refused([relation], SIZE, known)
    # the same with the transcript of the verifier's size
    real = opening._transcript
    monkeypatch.setattr(opening, "_transcript", lambda use, context, _, *rest: real(use, context, SIZE, *rest))
    refused([relation], SIZE, prove(NATIVE, [wider], [*witness, 5]))


def test_challenge_zero_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    relation, proof = made(SIZE)
    monkeypatch.setattr("ragseal.kernel.transcript.tagged_element", lambda *_: 0)
    for action in (lambda: check([relation], SIZE, proof), lambda: prove(NATIVE, [relation], [0] * SIZE)):
        with pytest.raises(ProofError, match="is zero"):
            action()


def forged(relation: Relation, size: int) -> Opening:
    """An "opening" of a commitment that nobody knows one of, if the last u does not depend on its L and R.

    Everything is made up but the last L, which is what the equation then lacks.
    """
    count = len(folding.lengths(size, 1)) - 1
    points = bases(2 * count + 1, b"made up")
    made_up = [points[i : i + POINT_BYTES] for i in range(0, len(points), POINT_BYTES)]
    announcement, folds = made_up[0], made_up[1:]
    final = scalars(folding.lengths(size, 1)[-1])
    (statement,) = opening._combined(NATIVE, [relation], opening.batching_challenge(USE, CONTEXT))
    transcript, c = opening._transcript(USE, CONTEXT, size, [statement], [announcement])
    s, weights = folding.unfold(NATIVE, USE, transcript, size, 1, folds, field.pack(final))
    rest = weights[1:]
    assert rest[-2] == 1  # of the last L
    known = NATIVE.msm(
        relation.bases + announcement + statement + b"".join(folds[:-2]) + folds[-1],
        s + field.pack(-w % R for w in (weights[0], weights[0] * c, *rest[:-2], rest[-1])),
    )
    return Opening((announcement,), (*folds[:-2], known, folds[-1]), tuple(final))


def test_challenge_that_does_not_hash_the_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Live: with a transcript that leaves out L and R, an opening of a point that nobody can open is accepted."""
    relation = Relation(bases(SIZE), ((0, SIZE),), (OUTSIDE,))
    refused([relation], SIZE, forged(relation, SIZE))
    real = folding.advance
    monkeypatch.setattr(folding, "advance", lambda use, transcript, _: real(use, transcript, ()))
    check([relation], SIZE, forged(relation, SIZE))


def test_transcript_covers_everything_before() -> None:
    """c and every u depend on use, context, size, statement, announcement and all rounds so far."""
    points = [bases(9)[i : i + POINT_BYTES] for i in range(0, 9 * POINT_BYTES, POINT_BYTES)]
    base: tuple[str, bytes, int, list[bytes], list[bytes]] = ("a", b"context", 45, [points[0]], [points[1]])
    seen = set()
    for other in (
        base, ("b", *base[1:]), (base[0], b"", *base[2:]), (*base[:2], 46, *base[3:]),
        (*base[:3], [points[2]], base[4]), (*base[:4], [points[2]]),
    ):  # fmt: skip
        transcript, c = opening._transcript(*other)
        rounds = [folding.advance(other[0], transcript, points[4:6])]
        rounds.append(folding.advance(other[0], rounds[0][0], points[6:8]))
        seen |= {c, rounds[0][1], rounds[1][1]}
    assert len(seen) == 18
    transcript = opening._transcript(*base)[0]
    first = folding.advance("a", transcript, points[4:6])
    for changed in ([points[8], points[5]], [points[4], points[8]]):
        other_first = folding.advance("a", transcript, changed)
        assert other_first[1] != first[1]
        assert folding.advance("a", other_first[0], points[6:8])[1] != folding.advance("a", first[0], points[6:8])[1]


def test_responses_are_canonical() -> None:
    _, proof = made(SIZE)
    data = proof.encode()
    last = field.to_bytes(proof.responses[-1])
    with pytest.raises(EncodingError, match="canonical"):
        Opening.decode(data.replace(last, (proof.responses[-1] + R).to_bytes(32, "big")))

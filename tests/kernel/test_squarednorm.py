# SPDX-License-Identifier: GPL-3.0-or-later
"""Forged proofs of a squared norm.  SPEC C.5.

Each holds for a verifier that leaves one thing out: the first equation, the second, or one part of what the challenge
hashes.  That verifier is written out below, in plain integers and py_ecc's points, so that every forgery is seen to be
one; the real verifier must refuse them all.  What is proven is false each time: C holds another number than the
squared norm of what P opens to, which is all that hides a link from the auditor.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from ragseal.backends.group import default_group
from ragseal.kernel import field
from ragseal.kernel.bn254 import PurePythonGroup
from ragseal.kernel.errors import EncodingError, ProofError
from ragseal.kernel.policy import MAX_DIMENSION
from ragseal.kernel.squarednorm import (
    NormStatement,
    SquaredNorm,
    nonces_needed,
    prove_squared_norm,
    verify_squared_norm,
)
from tests import apart

pytestmark = pytest.mark.slow

R = apart.ORDER
CONTEXT = b"context of the squared norm"
D = 4
H = b"".join(apart.generator(b"norm", j) for j in range(D + 1))
S, B = apart.generator(b"norm scalar", 0), apart.generator(b"norm blinder", 0)
PARTS = ("generators", "scalar_base", "blinder_base", "vector", "square", "announcement", "linear", "constant")
GROUPS = {"native where it is installed": default_group(), "plain": PurePythonGroup()}


def challenge(statement: NormStatement, proof: SquaredNorm, without: tuple[str, ...] = ()) -> int:
    """c, with what ``without`` names left out of the hash."""
    held = [getattr(proof if name in ("announcement", "linear", "constant") else statement, name) for name in PARTS]
    kept = [part for name, part in zip(PARTS, held, strict=True) if name not in without]
    return apart.wide("squared-norm", CONTEXT, *kept)


def equations(statement: NormStatement, proof: SquaredNorm, c: int) -> tuple[bool, bool]:
    """Which of the two equations of SPEC C.5 hold."""
    answers = [int.from_bytes(proof.responses[at : at + 32], "big") for at in range(0, len(proof.responses), 32)]
    first = apart.total(statement.generators, answers)
    opened = apart.total(proof.announcement + statement.vector, [1, c])
    second = apart.total(statement.scalar_base + statement.blinder_base, [norm(answers[:-1]), proof.closing])
    squared = apart.total(proof.constant + proof.linear + statement.square, [1, c, c * c])
    return first == opened, second == squared


def norm(vector: list[int]) -> int:
    return sum(x * x for x in vector) % R


@dataclass(frozen=True)
class Forgery:
    statement: NormStatement
    proof: SquaredNorm


RNG = random.Random(20)


def scalars(count: int) -> list[int]:
    return [RNG.randrange(1, R) for _ in range(count)]


def stated(p: list[int], u: int, s: int, w: int) -> NormStatement:
    """P opens to (p, u), C to (s, w): true if s is the squared norm of p."""
    return NormStatement(H, S, B, apart.total(H, [*p, u]), apart.total(S + B, [s, w]))


def lie() -> tuple[NormStatement, list[int], int, int, int]:
    """P of a vector and C of another number than its squared norm; p, u, C's number and its blinder."""
    p, (u, w) = scalars(D), scalars(2)
    s = (norm(p) + 1) % R
    return stated(p, u, s, w), p, u, s, w


def answer(t: list[int], last: int) -> bytes:
    return b"".join(map(apart.be, [*t, last]))


def any_with_norm(wanted: int) -> list[int]:
    """D entries with this squared norm."""
    *free, hint = scalars(D - 1)
    return [*free, *apart.two_squares((wanted - norm(free)) % R, hint)]


def drafted(statement: NormStatement, **changes: object) -> SquaredNorm:
    """A proof whose parts are random points and numbers but for ``changes``."""
    x, one, zero = (apart.total(B, [k]) for k in scalars(3))
    return replace(SquaredNorm(x, one, zero, bytes(32 * (D + 1)), 0), **changes)  # type: ignore[arg-type]


# --- the forgeries ---------------------------------------------------------------------------------------------------


def another_vector() -> Forgery:
    """Everything is proven of a vector that P does not open to: only the first equation ties P to it."""
    statement, *_ = lie()
    other, (u, w) = scalars(D), scalars(2)
    statement = replace(statement, square=apart.total(S + B, [norm(other), w]))
    nonces = field.pack(scalars(nonces_needed(D)))
    return Forgery(
        statement, prove_squared_norm(PurePythonGroup(), CONTEXT, statement, field.pack([*other, u]), w, nonces)
    )


def another_number() -> Forgery:
    """The honest prover's proof of a C that holds another number: only the second equation tells."""
    statement, p, u, _, w = lie()
    nonces = field.pack(scalars(nonces_needed(D)))
    return Forgery(statement, prove_squared_norm(PurePythonGroup(), CONTEXT, statement, field.pack([*p, u]), w, nonces))


def announcement_last() -> Forgery:
    """c without X: T1 and T0 first, then answers of the norm that C's number asks for, X is what makes up for them."""
    statement, _, _, s, w = lie()
    a1, b1, a0, b0 = scalars(4)
    proof = drafted(statement, linear=apart.total(S + B, [a1, b1]), constant=apart.total(S + B, [a0, b0]))
    c = challenge(statement, proof, ("announcement",))
    q, (last,) = any_with_norm((a0 + c * a1 + c * c * s) % R), scalars(1)
    x = apart.total(H + statement.vector, [*q, last, -c])
    return Forgery(
        statement, replace(proof, announcement=x, responses=answer(q, last), closing=(b0 + c * b1 + c * c * w) % R)
    )


def honest_answers(
    statement: NormStatement, p: list[int], u: int, without: tuple[str, ...], proof: SquaredNorm, opening: list[int]
) -> tuple[SquaredNorm, int]:
    """X and the answers as the protocol has them: the first equation holds."""
    proof = replace(proof, announcement=apart.total(H, opening))
    c = challenge(statement, proof, without)
    *q, last = [(x + c * y) % R for x, y in zip(opening, [*p, u], strict=True)]
    return replace(proof, responses=answer(q, last), closing=scalars(1)[0]), c


def linear_last() -> Forgery:
    """c without T1, which is then what the second equation lacks."""
    statement, p, u, *_ = lie()
    proof, c = honest_answers(statement, p, u, ("linear",), drafted(statement), scalars(D + 1))
    return Forgery(statement, replace(proof, linear=lacking(statement, proof, c, "linear")))


def constant_last() -> Forgery:
    """c without T0, the same."""
    statement, p, u, *_ = lie()
    proof, c = honest_answers(statement, p, u, ("constant",), drafted(statement), scalars(D + 1))
    return Forgery(statement, replace(proof, constant=lacking(statement, proof, c, "constant")))


def lacking(statement: NormStatement, proof: SquaredNorm, c: int, name: str) -> bytes:
    """The one of T0, T1 and C that makes the second equation hold."""
    weights = {"constant": 1, "linear": c, "square": c * c}
    held = {"constant": proof.constant, "linear": proof.linear, "square": statement.square}
    answers = [int.from_bytes(proof.responses[at : at + 32], "big") for at in range(0, 32 * D, 32)]
    inverse = pow(weights.pop(name), -1, R)
    others = [-weight * inverse for weight in weights.values()]
    bases = S + B + b"".join(held[one] for one in weights)
    return apart.total(bases, [norm(answers) * inverse, proof.closing * inverse, *others])


def square_last() -> Forgery:
    """c without C: a C that nobody knows to be a norm, found after c."""
    statement, p, u, *_ = lie()
    proof, c = honest_answers(statement, p, u, ("square",), drafted(statement), scalars(D + 1))
    return Forgery(replace(statement, square=lacking(statement, proof, c, "square")), proof)


def vector_last(without: tuple[str, ...] = ("vector",)) -> Forgery:
    """c without P: answers of the norm that C asks for; P is what they then open, and its norm is not C's number."""
    statement, _, _, s, w = lie()
    a1, b1, a0, b0 = scalars(4)
    x, points = scalars(D + 1), [apart.total(S + B, pair) for pair in ([a1, b1], [a0, b0])]
    proof = drafted(statement, announcement=apart.total(H, x), linear=points[0], constant=points[1])
    c = challenge(statement, proof, without)
    q, (last,) = any_with_norm((a0 + c * a1 + c * c * s) % R), scalars(1)
    opened = [(y - z) * pow(c, -1, R) % R for y, z in zip([*q, last], x, strict=True)]
    assert norm(opened[:-1]) != s
    proof = replace(proof, responses=answer(q, last), closing=(b0 + c * b1 + c * c * w) % R)
    return Forgery(replace(statement, vector=apart.total(H, opened)), proof)


def both_last() -> Forgery:
    """c without C and P."""
    return vector_last(("vector", "square"))


#: name -> the forgery, what the challenge leaves out, which equations the verifier that it fools checks.
FORGERIES: dict[str, tuple[Callable[[], Forgery], tuple[str, ...], tuple[bool, bool]]] = {
    "no first equation": (another_vector, (), (False, True)),
    "no second equation": (another_number, (), (True, False)),
    "challenge without X": (announcement_last, ("announcement",), (True, True)),
    "challenge without T1": (linear_last, ("linear",), (True, True)),
    "challenge without T0": (constant_last, ("constant",), (True, True)),
    "challenge without C": (square_last, ("square",), (True, True)),
    "challenge without P": (vector_last, ("vector",), (True, True)),
    "challenge without C and P": (both_last, ("vector", "square"), (True, True)),
}


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("name", FORGERIES)
def test_forgery(name: str, group: str) -> None:
    """It fools the verifier that it is made for, and not the real one."""
    forge, without, checked = FORGERIES[name]
    forged = forge()
    held = equations(forged.statement, forged.proof, challenge(forged.statement, forged.proof, without))
    assert all(holds or not wanted for holds, wanted in zip(held, checked, strict=True)), "the forgery is none"
    assert SquaredNorm.decode(forged.proof.encode()) == forged.proof
    with pytest.raises(ProofError, match="the squared norm does not hold"):
        verify_squared_norm(GROUPS[group], CONTEXT, forged.statement, forged.proof)


@pytest.mark.parametrize("group", GROUPS)
def test_honest_proofs_hold_apart(group: str) -> None:
    """What the prover makes, the verifier written out here accepts: both speak of the same equations and the same c."""
    p, (u, w) = scalars(D), scalars(2)
    statement = stated(p, u, norm(p), w)
    nonces = field.pack(scalars(nonces_needed(D)))
    proof = prove_squared_norm(GROUPS[group], CONTEXT, statement, field.pack([*p, u]), w, nonces)
    assert equations(statement, proof, challenge(statement, proof)) == (True, True)
    verify_squared_norm(GROUPS[group], CONTEXT, statement, proof)


@pytest.mark.parametrize("name", PARTS)
def test_every_part_is_hashed(name: str) -> None:
    """No part may be missing from c: a proof whose c leaves it out is refused, though both equations hold for it."""
    p, (u, w) = scalars(D), scalars(2)
    statement = stated(p, u, norm(p), w)
    t1, t0 = scalars(2)
    x = scalars(D + 1)
    cross = 2 * sum(a * b for a, b in zip(x[:-1], p, strict=True))
    proof = drafted(
        statement,
        announcement=apart.total(H, x),
        linear=apart.total(S + B, [cross, t1]),
        constant=apart.total(S + B, [norm(x[:-1]), t0]),
    )
    for without in ((), (name,)):
        c = challenge(statement, proof, without)
        *q, last = [(a + c * b) % R for a, b in zip(x, [*p, u], strict=True)]
        made = replace(proof, responses=answer(q, last), closing=(t0 + c * t1 + c * c * w) % R)
        assert equations(statement, made, c) == (True, True)
        if not without:
            verify_squared_norm(default_group(), CONTEXT, statement, made)
            continue
        with pytest.raises(ProofError, match="the squared norm does not hold"):
            verify_squared_norm(default_group(), CONTEXT, statement, made)


def completed(p: list[int], u: int, w: int, x: list[int], t1: int, t0: int) -> Forgery:
    """The honest proof with these nonces, whatever they are."""
    statement = stated(p, u, norm(p), w)
    cross = 2 * sum(a * b for a, b in zip(x[:-1], p, strict=True))
    linear, constant = (apart.total(S + B, pair) for pair in ([cross, t1], [norm(x[:-1]), t0]))
    proof = SquaredNorm(apart.total(H, x), linear, constant, bytes(32 * (D + 1)), 0)
    c = challenge(statement, proof)
    *q, last = [(a + c * b) % R for a, b in zip(x, [*p, u], strict=True)]
    proof = replace(proof, responses=answer(q, last), closing=(t0 + c * t1 + c * c * w) % R)
    return Forgery(statement, proof)


ZERO = [0] * D
VECTOR = [3, 1, 4, 1]
IDENTITIES: dict[str, tuple[list[int], int, int, list[int], int, int]] = {
    "announcement": (VECTOR, 2, 7, [*ZERO, 0], 8, 1),
    "linear": (VECTOR, 2, 7, [1, -3, 0, 0, 5], 0, 1),
    "constant": (VECTOR, 2, 7, [*ZERO, 5], 8, 0),
    "vector": (ZERO, 0, 7, [2, 7, 1, 8, 5], 8, 1),
    "square": (ZERO, 2, 0, [2, 7, 1, 8, 5], 8, 1),
}


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("name", IDENTITIES)
def test_identity_is_refused(name: str, group: str) -> None:
    """G.3: both equations hold, and one point is the identity."""
    p, u, w, x, t1, t0 = IDENTITIES[name]
    made = completed(p, u, w, x, t1, t0)
    points = {part: getattr(made.proof if hasattr(made.proof, part) else made.statement, part) for part in IDENTITIES}
    assert [part for part, point in points.items() if point == bytes(64)] == [name]
    assert equations(made.statement, made.proof, challenge(made.statement, made.proof)) == (True, True)
    with pytest.raises(ProofError, match="identity"):
        verify_squared_norm(GROUPS[group], CONTEXT, made.statement, made.proof)


def test_numbers_that_do_not_fit() -> None:
    """Of responses, nonces and witness entries; said before anything is computed with them."""
    made = completed(VECTOR, 2, 7, [2, 7, 1, 8, 5], 8, 1)
    for responses in (made.proof.responses[:-32], made.proof.responses + bytes(32)):
        with pytest.raises(ProofError, match="squared norm: 5 responses expected"):
            verify_squared_norm(default_group(), CONTEXT, made.statement, replace(made.proof, responses=responses))
    witness, nonces = field.pack([*VECTOR, 2]), field.pack(range(1, D + 4))
    for given in ((witness[:-32], nonces[:-32]), (witness, nonces[:-32]), (witness, nonces + bytes(32))):
        with pytest.raises(ProofError, match="differ in number"):
            prove_squared_norm(default_group(), CONTEXT, made.statement, given[0], 7, given[1])


def test_largest_message() -> None:
    """As many responses as the largest dimension needs, and not one more."""
    largest = SquaredNorm(S, S, B, bytes(32 * (MAX_DIMENSION + 1)), 0)
    assert SquaredNorm.decode(largest.encode()) == largest
    with pytest.raises(EncodingError, match="oversized"):
        replace(largest, responses=largest.responses + b"\0").encode()

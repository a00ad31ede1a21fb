# SPDX-License-Identifier: GPL-3.0-or-later
"""The certificate's algebra: messages, statements, challenges, and the squared-norm proof.  SPEC C."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import pytest

from ragseal.backends.group import default_group
from ragseal.kernel import certificate, estimate_class, field
from ragseal.kernel.bn254 import IDENTITY, PurePythonGroup
from ragseal.kernel.certificate import Block, Scope, make_block
from ragseal.kernel.errors import AuditError, EstimateError, PolicyError, ProofError
from ragseal.kernel.estimate import reach_of
from ragseal.kernel.estimate_class import CLASSES, EstimateClass
from ragseal.kernel.fixedpoint import norm_bounds
from ragseal.kernel.link_list import LinkList, Listing, TenantLinks, pack_links
from ragseal.kernel.params import R
from ragseal.kernel.policy import MAX_DIMENSION
from ragseal.kernel.squarednorm import (
    NormStatement,
    SquaredNorm,
    nonces_needed,
    prove_squared_norm,
    verify_squared_norm,
)
from tests.simulator import policy

GROUP = default_group()
SIZE = CLASSES["estimate-6"]
D = 5
POINTS = GROUP.hash_to_curve(b"squared norm", D + 3)
GENERATORS, S, B = POINTS[: 64 * (D + 1)], POINTS[64 * (D + 1) : 64 * (D + 2)], POINTS[64 * (D + 2) :]


def scalars(rng: random.Random, count: int) -> list[int]:
    return [rng.randrange(R) for _ in range(count)]


def instance(number: int) -> tuple[NormStatement, list[int], int, SquaredNorm]:
    rng = random.Random(number)
    witness, blinder = scalars(rng, D + 1), rng.randrange(R)
    square = sum(x * x for x in witness[:-1]) % R
    statement = NormStatement(
        GENERATORS, S, B, GROUP.msm(GENERATORS, field.pack(witness)), GROUP.msm(S + B, field.pack([square, blinder]))
    )
    nonces = field.pack(scalars(rng, nonces_needed(D)))
    proof = prove_squared_norm(GROUP, b"context", statement, field.pack(witness), blinder, nonces)
    return statement, witness, blinder, proof


# --- the squared norm ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(3))
def test_an_honest_proof_holds(number: int) -> None:
    statement, _, _, proof = instance(number)
    verify_squared_norm(GROUP, b"context", statement, proof)
    assert SquaredNorm.decode(proof.encode()) == proof


def test_the_equations_hold_in_plain_python() -> None:
    """The reference group, and the equations written out from the protocol."""
    statement, _, _, proof = instance(4)
    verify_squared_norm(PurePythonGroup(), b"context", statement, proof)


CHANGES: dict[str, Callable[[SquaredNorm], SquaredNorm]] = {
    "announcement": lambda p: replace(p, announcement=p.linear),
    "linear": lambda p: replace(p, linear=p.constant),
    "constant": lambda p: replace(p, constant=p.linear),
    "a response": lambda p: replace(p, responses=p.responses[:31] + bytes([p.responses[31] ^ 1]) + p.responses[32:]),
    "closing": lambda p: replace(p, closing=(p.closing + 1) % R),
    "fewer responses": lambda p: replace(p, responses=p.responses[:-32]),
    "identity": lambda p: replace(p, linear=IDENTITY),
}


@pytest.mark.parametrize("name", CHANGES)
def test_every_part_counts(name: str) -> None:
    statement, _, _, proof = instance(5)
    with pytest.raises(ProofError):
        verify_squared_norm(GROUP, b"context", statement, CHANGES[name](proof))


def test_the_context_counts() -> None:
    statement, _, _, proof = instance(6)
    with pytest.raises(ProofError):
        verify_squared_norm(GROUP, b"another", statement, proof)


@pytest.mark.parametrize("which", ["generators", "scalar_base", "blinder_base", "vector", "square"])
def test_the_statement_counts(which: str) -> None:
    statement, _, _, proof = instance(7)
    other = GROUP.hash_to_curve(b"other", 1)
    changed = replace(statement, **{which: other + getattr(statement, which)[64:]})
    with pytest.raises(ProofError):
        verify_squared_norm(GROUP, b"context", changed, proof)


@pytest.mark.parametrize(("off", "base"), [(1, S), (1, GENERATORS[:64]), (7, GROUP.hash_to_curve(b"Y", 1))])
def test_another_scalar_or_another_base(off: int, base: bytes) -> None:
    """C off by one S, or with a component along any other base, has no proof by the honest prover's formulas."""
    statement, witness, blinder, _ = instance(9)
    square = sum(x * x for x in witness[:-1]) % R
    lied = replace(statement, square=GROUP.msm(S + B + base, field.pack([square, blinder, off])))
    nonces = field.pack(scalars(random.Random(10), nonces_needed(D)))
    proof = prove_squared_norm(GROUP, b"context", lied, field.pack(witness), blinder, nonces)
    with pytest.raises(ProofError, match="committed scalar is not that of the vector"):
        verify_squared_norm(GROUP, b"context", lied, proof)


def test_extraction_gives_the_squared_norm() -> None:
    """Three answers to one announcement open P and C, as the soundness argument says: C = <p, p> S + w B."""
    rng = random.Random(11)
    p, u, w = scalars(rng, D), rng.randrange(R), rng.randrange(R)
    x, v, t1, t0 = scalars(rng, D), *scalars(rng, 3)
    answers = []
    for c in (3, 5, 11):
        q = [(a + c * b) % R for a, b in zip(x, p, strict=True)]
        answers.append((c, q, (v + c * u) % R, (t0 + c * t1 + c * c * w) % R))
    (c1, q1, v1, _), (c2, q2, v2, _), _ = answers
    inverse = pow(c2 - c1, -1, R)
    assert [(b - a) * inverse % R for a, b in zip(q1, q2, strict=True)] == p
    assert (v2 - v1) * inverse % R == u

    def lagrange(values: list[int]) -> int:
        """The coefficient of c^2."""
        total = 0
        for i, (ci, *_) in enumerate(answers):
            rest = math.prod(ci - cj for j, (cj, *_) in enumerate(answers) if j != i)
            total += values[i] * pow(rest, -1, R)
        return total % R

    assert lagrange([sum(y * y for y in q) for _, q, _, _ in answers]) == sum(a * a for a in p) % R
    assert lagrange([z for *_, z in answers]) == w


def test_proofs_of_one_statement_share_nothing() -> None:
    statement, witness, blinder, one = instance(12)
    other = prove_squared_norm(
        GROUP, b"context", statement, field.pack(witness), blinder, field.pack(scalars(random.Random(13), D + 3))
    )
    assert one.announcement != other.announcement
    assert one.linear != other.linear
    assert one.constant != other.constant
    assert one.closing != other.closing


# --- statements ------------------------------------------------------------------------------------------------------


def scope(tau: int = 100) -> Scope:
    return Scope(SIZE, bytes(32), b"m" * 32, b"l" * 32, "north", policy(tau=tau), reach_of([0] * len(C_E), tau))


C_E = [GROUP.hash_to_curve(b"C_e", 12)[64 * i : 64 * i + 64] for i in range(12)]


def test_signs_follow_list_tau_and_records() -> None:
    block = make_block(scope(tau=4), (0, 1, 3, 7), C_E, Listing(frozenset({(0, 1), (3, 7), (0, 7)})))
    expected = {
        (0, 1): -1, (0, 2): 1, (0, 3): 0,  # ranks 0 and 7 are further apart than tau, whatever the list says
        (1, 2): 1, (1, 3): 0, (2, 3): -1,
    }  # fmt: skip
    for (a, b), sign in zip(SIZE.order, block.signs, strict=True):
        assert sign == expected.get((a, b), 0)


def test_a_spanning_list_frees_pairs_inside_a_component_only() -> None:
    one = TenantLinks("north", 6, bytes(32), False, pack_links([(0, 2), (2, 5)]))
    block = make_block(scope(), range(6), C_E, one.listing())
    for (a, b), sign in zip(SIZE.order, block.signs, strict=True):
        assert sign == {(0, 2): -1, (2, 5): -1, (0, 5): 0}.get((a, b), 1)
    complete = replace(one, complete=True)
    assert make_block(scope(), range(6), C_E, complete.listing()).signs.count(0) == 0
    assert LinkList(bytes(32), (one,)).digest() != LinkList(bytes(32), (complete,)).digest()


def test_a_spanning_list_is_shorter_than_its_records() -> None:
    every = pack_links([(0, 1), (0, 2), (1, 2)])
    assert TenantLinks.decode(TenantLinks("north", 3, bytes(32), True, every).encode()).complete
    with pytest.raises(EstimateError, match="fewer than records"):
        TenantLinks.decode(TenantLinks("north", 3, bytes(32), False, every).encode())
    TenantLinks("north", 0, bytes(32), False, b"").validate()


@pytest.mark.parametrize("ranks", [(), (1, 1), (2, 1), (0, 12), (-1, 0), tuple(range(7))])
def test_blocks_that_are_none(ranks: tuple[int, ...]) -> None:
    with pytest.raises(EstimateError):
        make_block(scope(), ranks, C_E, Listing())


def test_challenges_bind_everything() -> None:
    base = make_block(scope(), (0, 1, 3), C_E, Listing())
    c_g = GROUP.hash_to_curve(b"C_G", 2)
    seen = {certificate.block_digest(scope(), base, c_g[:64])}
    others: list[tuple[Scope, Block, bytes]] = [
        (scope(), base, c_g[64:]),
        (scope(), make_block(scope(), (0, 1, 4), C_E, Listing()), c_g[:64]),
        (scope(), replace(base, c_e=(C_E[5], *base.c_e[1:])), c_g[:64]),
        (scope(tau=99), base, c_g[:64]),
        (replace(scope(), key_digest=b"x" * 32), base, c_g[:64]),
        (replace(scope(), manifest=b"x" * 32), base, c_g[:64]),
        (replace(scope(), links_digest=b"x" * 32), base, c_g[:64]),
        (replace(scope(), tenant="south"), base, c_g[:64]),
    ]
    for one in others:
        seen.add(certificate.block_digest(*one))
    assert len(seen) == len(others) + 1
    r = certificate.block_challenges(scope(), base, seen.pop())
    assert r[3:] == [0, 0, 0]
    assert len(set(r[:3])) == 3
    assert all(0 < x < 1 << 248 for x in r[:3])


def test_clear_inputs_are_the_circuits() -> None:
    block = make_block(scope(), (0, 1, 3), C_E, Listing(frozenset({(1, 3)})))
    clear = certificate.clear_inputs(scope(), block, [7, 8, 9, 0, 0, 0])
    assert len(clear) == SIZE.clear
    assert clear[:3] == [math.ceil(Fraction(9, 10) * 127**2), *norm_bounds(4)]
    assert clear[3:9] == [7, 8, 9, 0, 0, 0]
    assert clear[9:15] == [1, 1, 1, 0, 0, 0]
    assert sorted(clear[15:]) == [-1] + [0] * 12 + [1, 1]


def test_distances_fit_for_every_dimension_and_theta() -> None:
    """Completeness: whatever two rounded unit vectors are, all distances lie in [0, 2^16)."""
    for dimension in range(1, MAX_DIMENSION + 1):
        low, high = norm_bounds(dimension)
        assert 0 < low <= 127**2 <= high
        assert high - low < 1 << estimate_class.RANGE_BITS
        for threshold in (1, 127**2):
            assert estimate_class.side(1, threshold, -high) < 1 << estimate_class.RANGE_BITS
            assert estimate_class.side(-1, threshold, high) < 1 << estimate_class.RANGE_BITS


def test_quadratic_form_is_that_of_the_gram_matrix() -> None:
    rng = random.Random(14)
    vectors = [[rng.randrange(-127, 128) for _ in range(D)] for _ in range(SIZE.n)]
    r = [rng.getrandbits(248) for _ in range(SIZE.n)]
    dot = [[sum(x * y for x, y in zip(a, b, strict=True)) for b in vectors] for a in vectors]
    p = [sum(x * v[j] for x, v in zip(r, vectors, strict=True)) for j in range(D)]
    norms, products = [dot[a][a] for a in range(SIZE.n)], [dot[a][b] for a, b in SIZE.order]
    assert estimate_class.quadratic_form(r, norms, products) == sum(x * x for x in p)


# --- messages --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("packed", [*map(pack_links, ([(1, 0)], [(0, 5)], [(0, 1), (0, 1)], [(1, 2), (0, 1)])), b"1"])
def test_lists_that_are_none(packed: bytes) -> None:
    with pytest.raises(AuditError):
        TenantLinks.decode(TenantLinks("north", 5, bytes(32), True, packed).encode())


def test_links_survive_the_wire() -> None:
    links = [(0, 1), (0, 4), (2, 3)]
    one = TenantLinks.decode(TenantLinks("north", 5, bytes(32), True, pack_links(links)).encode())
    assert one.links() == links
    body = LinkList(bytes(32), (one,))
    assert LinkList.decode(body.encode()).digest() == body.digest()
    assert body.digest() != replace(body, manifest=b"1" * 32).digest()


@pytest.mark.parametrize("n", [0, 1, 7, 258])
def test_sizes_that_are_none(n: int) -> None:
    with pytest.raises(PolicyError):
        EstimateClass("odd", n)

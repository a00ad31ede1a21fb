# SPDX-License-Identifier: GPL-3.0-or-later
"""A provider that lies about the coalition: links hidden or invented, records and products of its choice.  SPEC C.

Attestations are the verifier tests' (a key that binds its statements); the estimate's circuit, key and proofs are real,
six records a block.  alice and bob ask nearly the same twice: two hidden links are at stake in every attack.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ragseal.kernel import certificate, estimate_class, field, link_list
from ragseal.kernel.certificate import Block
from ragseal.kernel.errors import ProofError
from ragseal.kernel.link_list import LinkList, TenantLinks, pack_links
from ragseal.kernel.params import R
from tests.attacks.checks import (
    BLOCK_NORM,
    BLOCK_OPENING,
    BLOCK_PAIRING,
    COALITION,
    LINKS_BETWEEN_COMPONENTS,
    LINKS_OF_THE_RECORDS,
    LINKS_THAT_COUNT,
    WITHIN_TAU_TIME,
    without,
)
from tests.attacks.estimate_scene import ASKED, LINKED, NORTH, WEST, accepted, flipped, hide, refused, unit, window
from tests.attacks.removal import Check, nothing
from tests.attacks.world import undecided
from tests.simulator import World, pseudonym
from tests.simulator.estimates import GROUP, SIZE, Case, Lie
from tests.simulator.keys import block_backend as backend

pytestmark = pytest.mark.slow
JOINED = tuple(sorted(pseudonym(name) for name in ("alice", "bob")))


def test_the_honest_estimate() -> None:
    verdict = accepted(window())
    assert verdict.estimation is not None
    assert verdict.estimation.details()["c"] == 2
    assert verdict.estimation.members == JOINED
    assert [len(one.listed) for one in verdict.estimation.tenants] == [2, 0]
    assert "estimate=" not in verdict.line()


def test_more_accounts_than_the_policy_counts_on() -> None:
    world = window(k_max=1)
    verdict = undecided(world, 9, "2 accounts ask as one, the policy counts on k_max = 1")
    assert verdict.estimation is not None
    assert ", ".join(JOINED) in verdict.line(), "what accounts do is not the provider's doing"
    with without(COALITION):
        accepted(world)


# --- links -----------------------------------------------------------------------------------------------------------


def invent(tenant: str, links: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return sorted([*links, (0, 2)]) if tenant == NORTH else links


@pytest.mark.parametrize("listed", [hide, invent])
def test_a_false_list_has_no_proof(listed: Any) -> None:
    """The circuit's rows cannot be satisfied: no product lies on both sides of the threshold."""
    with pytest.raises(ProofError, match="witness does not satisfy"):
        window(Lie(listed=listed)).estimator.batch(NORTH, [[0, 1, 2, 3, 4]])


def test_mask_altered() -> None:
    """A link left out of the list, and proofs for the list with it."""
    world = window(Lie(listed=hide, proven=flipped))
    refused(world, "its proof does not hold")
    with without(BLOCK_PAIRING):
        assert accepted(world).estimation.members == JOINED  # type: ignore[union-attr]


#: alice's and bob's question once more: three records that are all alike
THRICE = (*ASKED[:2], ("bob", unit(1, 2, 3.2, 4.3)), *ASKED[3:4])


def test_links_inside_a_component_need_no_listing_of_a_spanning_list() -> None:
    def two_of_three(tenant: str, links: list[tuple[int, int]]) -> list[tuple[int, int]]:
        assert tenant != NORTH or links == [(0, 1), (0, 2), (1, 2)]
        return links[:2]

    verdict = accepted(window(Lie(listed=two_of_three, spanning=True), asked=THRICE))
    assert verdict.estimation is not None
    assert verdict.estimation.members == JOINED
    assert [one.details()["list"] for one in verdict.estimation.tenants] == ["spanning", "spanning"]
    undecided(window(Lie(listed=two_of_three), asked=THRICE), 9, "witness does not satisfy")  # it cannot deliver


def test_spanning_list_that_separates_what_is_linked() -> None:
    refused(window(Lie(listed=hide, spanning=True, proven=flipped)), "its proof does not hold")
    with without(LINKS_BETWEEN_COMPONENTS):
        accepted(window(Lie(listed=hide, spanning=True)))


#: alice's question, two others, and bob's in nearly the same words: two minutes, and three ranks
LATER = (ASKED[0], ASKED[7], ASKED[9], ASKED[1])
ENDS = (0, 3)


def freed(block: Block) -> Block:
    """As tau = 1 alone would have it: only neighbours are compared."""
    signs = [sign if b - a == 1 else 0 for (a, b), sign in zip(SIZE.order, block.signs, strict=True)]
    return replace(block, signs=tuple(signs))


@pytest.mark.parametrize(("tau", "tau_time", "c"), [(1, 0, 1), (1, 60, 2), (3, 0, 2), (2, 60, 2)])
def test_records_within_ranks_or_time_are_compared(tau: int, tau_time: int, c: int) -> None:
    verdict = accepted(window(asked=LATER, tau=tau, tau_time=tau_time))
    assert verdict.estimation is not None
    assert verdict.estimation.c == c


def test_a_link_within_tau_time_that_ranks_would_leave_out() -> None:
    world = window(Lie(listed=lambda tenant, links: [], proven=freed), asked=LATER, tau=1, tau_time=60)
    refused(world, "its proof does not hold")
    with without(WITHIN_TAU_TIME):
        assert accepted(world).estimation.c == 1  # type: ignore[union-attr]


def test_a_link_between_records_that_are_not_compared() -> None:
    """It would join accounts that the policy does not count as asking together."""
    world = window(Lie(listed=lambda tenant, links: [ENDS] if tenant == NORTH else links), asked=LATER, tau=1)
    refused(world, "a link joins records that are not compared, being more than tau = 1 apart")
    with without(LINKS_THAT_COUNT):
        assert accepted(world).estimation.c == 2  # type: ignore[union-attr]


def below(norms: list[int], products: list[int]) -> None:
    """The first pair's product moved below the threshold."""
    products[0] = min(products[0], 14_000)


def test_one_product_changed() -> None:
    """C_s opens to <p, p>, and the circuit's s, made of the false products, is another number."""
    world = window(Lie(listed=hide, products=below))
    refused(world, "its proof does not hold")
    with without(BLOCK_PAIRING):
        accepted(world)


def test_one_product_changed_and_the_form_with_it() -> None:
    def forged(case: Case) -> None:
        made = estimate_class.quadratic_form(case.clear[3 : 3 + SIZE.n], case.norms, case.products)
        shift = field.pack([1, (made - case.form) % R])
        case.c_s = GROUP.msm(case.c_s + backend().key.form, shift)

    world = window(Lie(listed=hide, products=below, case=forged))
    refused(world, "the squared norm does not hold")
    with without(BLOCK_NORM):
        accepted(world)


def test_component_of_c_g_on_a_clear_base() -> None:
    """The sign of the hidden link, put into C_g: the circuit sees a link, the auditor none.  Only the opening tells."""
    first_sign = backend().key.bases(3 + 2 * SIZE.n, 1)

    def lie(world: World) -> Lie:
        def proven(case: Case) -> None:
            if case.block.ranks[:2] == LINKED[0] and len(case.block.ranks) != WEST:
                case.clear[3 + 2 * SIZE.n] = -1

        return Lie(listed=hide, g_extra=((first_sign, -2),), case=proven)

    world = window(asked=ASKED[:3])
    world.estimator.lie = lie(world)
    refused(world, "the estimate opening does not hold")
    with without(BLOCK_OPENING):
        accepted(world)


def test_component_of_c_g_on_s() -> None:
    world = window(Lie(g_extra=((backend().key.form, 5),)))
    refused(world, "the estimate opening does not hold")


def test_challenges_known_before_c_g() -> None:
    """A pair beyond tau is free: it balances the form where r is known.  tau = 2, so ranks 0 and 3 are such a pair."""
    asked = [ASKED[0], ASKED[1], ASKED[3], ASKED[6], ASKED[4]]
    free = SIZE.order.index((0, 3))

    def guessed(digest: Callable[..., bytes]) -> Lie:
        known: list[int] = []

        def challenges(r: list[int]) -> list[int]:
            known[:] = r
            return r

        def products(norms: list[int], found: list[int]) -> None:
            if known:
                r0, r1, r3 = known[0], known[1], known[3]
                lost = found[0] - 14_000
                found[0] -= lost
                found[free] = (found[free] + r0 * r1 * lost * pow(r0 * r3, -1, R)) % R

        return Lie(listed=hide, challenges=challenges, products=products)

    def blind(scope: Any, block: Block, c_g: bytes) -> bytes:
        return hashed(scope, block, bytes(64))

    hashed = certificate.block_digest
    for removed in (False, True):
        world = window(asked=asked, tau=2)
        lie = guessed(hashed)
        ranks = [0, 1, 2, 3]
        with without(Check(certificate, "block_digest", blind)):  # the provider settles r with no C_g in sight
            world.estimator.lie = replace(lie, products=nothing)
            with pytest.raises(ProofError):
                world.estimator.batch(NORTH, [ranks])
        world.estimator.lie = lie
        if not removed:
            refused(world, "does not hold")
            continue
        with without(Check(certificate, "block_digest", blind)):
            verdict = accepted(world)
        assert verdict.estimation is not None
        assert verdict.estimation.c == 1, "the two accounts went unnoticed"


# --- records ---------------------------------------------------------------------------------------------------------


def restate(change: Callable[[TenantLinks], TenantLinks]) -> Callable[[LinkList], LinkList]:
    return lambda body: replace(
        body, tenants=tuple(change(one) if one.tenant == NORTH else one for one in body.tenants)
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda one: replace(one, records=one.records - 1, packed=pack_links([])),
        lambda one: replace(one, records_digest=link_list.records_digest([bytes(32)] * one.records)),
    ],
    ids=["a_record_left_out", "another_tenants_record_put_in"],
)
def test_links_about_other_records(change: Any) -> None:
    world = window(Lie(body=restate(change), listed=lambda tenant, links: []), asked=ASKED[::3])
    refused(world, "are about records different from those in the log")
    with without(LINKS_OF_THE_RECORDS):
        accepted(world)


def test_another_record_in_a_block() -> None:
    """A block whose second record is another one: the auditor's own C_e and challenges do not fit it."""

    def moved(block: Block) -> Block:
        return replace(block, c_e=(block.c_e[0], *block.c_e[:1], *block.c_e[2:]))

    refused(window(Lie(proven=moved)), "the squared norm does not hold")


def test_vector_that_is_not_of_unit_length() -> None:
    small = (("alice", [10, 20, 30, 40]), *ASKED)
    world = window(asked=small)
    with pytest.raises(ProofError, match="witness does not satisfy"):
        world.estimator.batch(NORTH, [[0, 1, 2]])

    def lower(case: Case) -> None:
        case.clear[1] = 1  # proven for other bounds than the dimension's

    world = window(Lie(case=lower), asked=small)
    refused(world, "its proof does not hold")
    with without(BLOCK_PAIRING):
        accepted(world)

# SPDX-License-Identifier: GPL-3.0-or-later
"""A provider that lies about the coalition: links hidden or invented; records, blocks, samples of its choice.  SPEC C.

Attestations are the verifier tests' (a key that binds its statements); the estimate's circuit, key and proofs are real,
six records a block.  alice and bob ask nearly the same twice: two hidden links are at stake in every attack.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ragseal.groth16.assignments import assign_block
from ragseal.kernel import certificate, estimate_class, field, link_list
from ragseal.kernel.certificate import Block, BlockBatch
from ragseal.kernel.errors import LedgerError, ProofError
from ragseal.kernel.link_list import LinkList, TenantLinks, pack_links
from ragseal.kernel.params import R
from ragseal.verifier.evidence import Auditor, newest_links
from ragseal.verifier.outcome import Verdict
from ragseal.verifier.steps.blocks import Effort
from tests.attacks.checks import (
    BLOCK_NORM,
    BLOCK_OPENING,
    BLOCK_PAIRING,
    COALITION,
    LINKS_BETWEEN_COMPONENTS,
    LINKS_OF_THE_RECORDS,
    LINKS_OF_THE_WINDOW,
    LINKS_SIGNED,
    without,
)
from tests.attacks.removal import Check, nothing
from tests.attacks.world import undecided
from tests.simulator import World, policy, pseudonym
from tests.simulator.estimates import GROUP, SIZE, Case, Estimator, Lie
from tests.simulator.keys import block_backend as backend

pytestmark = pytest.mark.slow

NORTH = "north"
LINKED = [(0, 1), (2, 3)]  #: by rank: alice and bob ask alike, twice


def prove(case: Case) -> bytes:
    return backend().prove(assign_block(SIZE, case.clear, case.norms, case.products, case.blind))


def unit(*direction: float) -> list[int]:
    length = math.sqrt(sum(x * x for x in direction))
    return [round(127 * x / length) for x in direction]


#: Two pairs that are nearly alike, and two of carol's that nobody shares.
ASKED = (
    ("alice", unit(1, 2, 3, 4)),
    ("bob", unit(1, 2, 3, 4.3)),
    ("alice", unit(-3, 1, 1, 0.2)),
    ("carol", unit(1, 0, 0, 0)),
    ("bob", unit(-3, 1, 1.2, 0.2)),
    ("carol", unit(0, -1, 0, 1)),
    ("alice", unit(4, 1, -3, -1)),
    ("bob", unit(0, 0, 1, -3)),
    ("bob", unit(-1, -1, -1, 5)),
    ("alice", unit(2, -5, 1, 1)),
)
JOINED = tuple(sorted(pseudonym(name) for name in ("alice", "bob")))
WEST = 2  #: carol's records: her tenant has a block of its own, in which nobody lies


def window(lie: Lie | None = None, asked: Any = ASKED, **changes: Any) -> World:
    """A closed window with the real estimate's key, and this lie told."""
    world = World()
    world.estimator = Estimator(world, backend().key, prove, lie or Lie())
    world.commit(policy_=policy(**{"n_max": 6, "epsilon_account": "40", **changes}))
    for account, e in asked:
        world.ask(account, e=list(e))
    world.close()
    return world


def refused(world: World, match: str, **options: Any) -> Verdict:
    verdict = world.audit(**options)
    assert verdict.failure is not None, verdict.line()
    assert verdict.failure.number == 9, verdict.line()
    assert match in verdict.failure.message, verdict.line()
    return verdict


def accepted(world: World, **options: Any) -> Verdict:
    verdict = world.audit(**options)
    assert verdict.verdict == "PASS", verdict.line()
    return verdict


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


def hide(tenant: str, links: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return [link for link in links if link != LINKED[0]]


def invent(tenant: str, links: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return sorted([*links, (0, 2)]) if tenant == NORTH else links


def flipped(block: Block) -> Block:
    """The statement that can be proven, not the one that the signed list makes: the first two records' sign turned."""
    if block.ranks[:2] != LINKED[0] or len(block.ranks) == WEST:
        return block
    return replace(block, signs=(-block.signs[0], *block.signs[1:]))


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


# --- windows, blocks, samples ----------------------------------------------------------------------------------------


def test_links_of_another_window() -> None:
    world = window(Lie(body=lambda body: replace(body, manifest=bytes(32))))
    refused(world, "the links are of another window")
    with without(LINKS_OF_THE_WINDOW):
        accepted(world)


def test_links_not_signed_by_the_provider() -> None:
    world = window()
    honest = world.estimator.signed
    world.estimator.signed = lambda: replace(honest(), signature=bytes(64))  # type: ignore[method-assign]
    refused(world, "signature")
    with without(LINKS_SIGNED):
        accepted(world)


def swapped(batch: BlockBatch) -> BlockBatch:
    return replace(batch, blocks=tuple(reversed(batch.blocks)))


def test_blocks_in_another_order() -> None:
    refused(window(Lie(batch=swapped)), "does not hold")


def test_fewer_blocks_than_asked() -> None:
    world = window(Lie(batch=lambda batch: replace(batch, blocks=batch.blocks[:1])))
    refused(world, "3 blocks were asked for, 1 delivered")


def test_blocks_of_another_list() -> None:
    refused(window(Lie(batch=lambda batch: replace(batch, links_digest=bytes(32)))), "another list of links")


class Memory:
    """An auditor that remembers, as its folder does."""

    def __init__(self) -> None:
        self.lists: dict[bytes, bytes] = {}
        self.names: dict[bytes, bytes] = {}

    def auditor(self, world: World) -> Auditor:
        return replace(
            world.auditor(),
            first_links=lambda manifest, signed: self.lists.setdefault(manifest, signed),
            sample_nonce=lambda seen, name, fresh: self.names.setdefault(name, fresh),
        )


def test_second_list_of_links() -> None:
    """The first list hides a link and its proof fails; the honest one afterwards comes too late."""
    memory, world = Memory(), window(Lie(listed=hide, proven=flipped))
    refused(world, "its proof does not hold", auditor=memory.auditor(world))
    world.estimator.lie = Lie()
    verdict = refused(world, "signed a second list of links", auditor=memory.auditor(world))
    assert verdict.failure is not None
    assert {"first", "second", "first_signature", "second_signature"} <= set(verdict.failure.evidence)
    accepted(world, auditor=replace(memory.auditor(world), first_links=newest_links))


def test_sample_is_the_auditors() -> None:
    """Blocks follow from the auditor's nonce: asked again they are the same, and others are not taken."""
    effort, memory, world = Effort(full=0, sampled=3), Memory(), window()
    verdict = accepted(world, effort=effort, auditor=memory.auditor(world))
    assert " estimate=sampled window=" in verdict.line()
    first = list(world.estimator.asked)
    world.estimator.asked.clear()
    accepted(world, effort=effort, auditor=memory.auditor(world))
    assert world.estimator.asked == first
    assert len(memory.names) == 1, "one nonce for the list of links"
    other = Memory()
    other.names = {name: bytes(32) for name in memory.names}
    world.estimator.asked.clear()
    accepted(world, effort=effort, auditor=other.auditor(world))
    assert world.estimator.asked != first

    def chosen(block: Block) -> Block:
        return certificate_block(world, (0, 2, 4))

    world.estimator.lie = Lie(proven=chosen)
    refused(world, "does not hold", effort=effort)


def certificate_block(world: World, ranks: tuple[int, ...]) -> Block:
    scope = certificate.Scope(SIZE, backend().key.digest, world.digest, bytes(32), NORTH, world.manifest.policy)
    c_e = [one.signed.request.c_e for one, _ in world.estimator.records(NORTH)]
    return certificate.make_block(scope, ranks, c_e, link_list.Listing(frozenset(LINKED)))


def test_the_list_is_kept_before_a_block_is_asked_for() -> None:
    memory, world = Memory(), window()
    order: list[str] = []
    auditor = memory.auditor(world)
    batch = world.estimator.batch

    def first_links(manifest: bytes, signed: bytes) -> bytes:
        order.append("kept")
        return signed

    def asked(*arguments: Any) -> Any:
        order.append("asked")
        return batch(*arguments)

    world.estimator.batch = asked  # type: ignore[method-assign]
    accepted(world, auditor=replace(auditor, first_links=first_links))
    assert order[0] == "kept"
    assert order.count("kept") == 1
    assert "asked" in order


# --- keys and refusals -----------------------------------------------------------------------------------------------


def test_keys_of_the_provider_are_unsafe() -> None:
    world = window()
    auditor = world.auditor()
    mine = replace(auditor.estimates[0], made_by="provider")
    undecided(world, 9, "unsafe: the keys are made by provider", auditor=replace(auditor, estimates=(mine,)))


def test_no_key_no_verdict() -> None:
    world = window()
    undecided(world, 9, "ragseal-verifier keygen", auditor=replace(world.auditor(), estimates=()))


def test_another_key_in_the_auditors_folder_is_no_verdict() -> None:
    """The auditor's own mistake: the file of its key holds another one, and every proof would seem false."""
    world = window()
    configured = world.auditor().estimates[0]
    wrong = replace(configured, digest=bytes(32))
    undecided(world, 9, "holds another key", auditor=replace(world.auditor(), estimates=(wrong,)))


def test_a_provider_that_does_not_deliver_gets_no_verdict() -> None:
    """It signed nothing: it may be away, or somebody else may answer for it."""
    world = window()

    def nothing_there() -> Any:
        raise LedgerError("no estimate here")

    world.estimator.signed = nothing_there  # type: ignore[method-assign]
    undecided(world, 9, "no estimate here")

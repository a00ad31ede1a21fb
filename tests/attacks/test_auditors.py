# SPDX-License-Identifier: GPL-3.0-or-later
"""Several auditors in one beacon: what a late, an absent, a withholding and a bribed one may and may not do.  SPEC A.8.

Every window here names three: this auditor is ``auditor-a``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel import signature
from ragseal.kernel.beacon import BeaconOpening, Seat, beacon_value
from ragseal.kernel.commitment import WindowOpen
from ragseal.kernel.encoding import Message
from ragseal.kernel.errors import CommitmentError, LedgerError
from ragseal.ledger.note import NoteSigner
from ragseal.verifier.evidence.evidence import Auditor
from ragseal.verifier.report import document, page
from tests.attacks import checks
from tests.attacks.checks import Removable, without
from tests.attacks.test_coins import replayed
from tests.attacks.world import AttackWorld, accepted, refused, undecided
from tests.simulator import OPENS, ORIGIN, key_of

pytestmark = pytest.mark.slow

A, B, C = "auditor-a", "auditor-b", "auditor-c"
ALL = ("provider", "observer-1", A, B, C)

Entry = Callable[[AttackWorld], Message]


def key(world: AttackWorld, owner: str) -> Ed25519PrivateKey:
    return world.auditor_key if owner == A else key_of(owner)


def nonce(world: AttackWorld, owner: str) -> bytes:
    if owner == "provider":
        return world.provider_nonce
    return world.nonces[world.digest] if owner == A else hashlib.sha256(owner.encode()).digest()


def commit(owner: str, by: str = "") -> Entry:
    return lambda world: world.commit_entry(owner, nonce(world, owner), key(world, by or owner))


def seal(*owners: str) -> Entry:
    return lambda world: world.seal_entry(*owners)


def opening(owner: str) -> Entry:
    return lambda world: BeaconOpening(world.digest, owner, nonce(world, owner))


def opened(*owners: str) -> Entry:
    """The window's opening with what these owners' nonces give, which this auditor released its own for, if for any."""

    def made(world: AttackWorld) -> WindowOpen:
        nonces = [(owner, nonce(world, owner)) for owner in owners]
        world.beacon = beacon_value(world.digest, nonces)
        if A in owners:
            world.release(*nonces)
        return WindowOpen(world.digest, world.beacon, OPENS + 60)

    return made


def commits(*owners: str) -> list[Entry]:
    return [commit(owner) for owner in owners]


def openings(*owners: str) -> list[Entry]:
    return [opening(owner) for owner in owners]


def drawn(*entries: Entry) -> AttackWorld:
    """A window of three auditors with these entries in its beacon, three queries and an end."""
    world = AttackWorld()
    seats = tuple(Seat(owner, signature.public_bytes(key(world, owner))) for owner in (A, B, C))
    world.enter_manifest(auditors=seats)
    for entry in entries:
        world.messages.append(entry(world))
    for account in ("alice", "carol", "bob"):
        world.ask(account)
    world.close()
    return world


def honest() -> AttackWorld:
    return drawn(*commits("observer-1", A, B, C), seal(*ALL), *openings(*ALL), opened(*ALL))


def without_a(*, committed: bool = False) -> AttackWorld:
    """Of the beacon of B and C: this auditor was away."""
    owners = ("provider", "observer-1", B, C)
    early = ("observer-1", *([A] if committed else []), B, C)
    return drawn(*commits(*early), seal(*owners), *openings(*owners), opened(*owners))


def as_(world: AttackWorld, owner: str, **changes: Any) -> Auditor:
    """The auditor with that seat, its folder included."""
    openings = [(one, nonce(world, one)) for one in ALL]
    world.release(*openings)
    return replace(
        world.auditor(),
        identity=signature.public_bytes(key(world, owner)),
        nonces={world.digest: nonce(world, owner)},
        sign=lambda ask: ask.sign(key(world, owner)),
        **changes,
    )


def public(owner: str) -> bytes:
    return signature.public_bytes(key_of(owner))


# --- honest ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [(A, B, C), (C, A, B), (B, C, A)])
def test_each_of_three_auditors_gives_its_own_verdict(order: Sequence[str]) -> None:
    """Auditors open in any order among themselves: nobody can choose by being the last but one."""
    world = drawn(*commits("observer-1", *order), seal(*ALL), *openings("provider", "observer-1", *order), opened(*ALL))
    for owner in (A, B, C):
        assert " beacon=" not in accepted(world, auditor=as_(world, owner)).line()
    assert replayed(world).windows[world.digest].beacon == world.beacon


def test_an_auditor_that_is_away_holds_up_nobody_else() -> None:
    world = without_a()
    for owner in (B, C):
        own = as_(world, owner)
        world.release(*((one, nonce(world, one)) for one in ("provider", "observer-1", B, C)))
        accepted(world, auditor=own)
    assert replayed(world).windows[world.digest].beacon == world.beacon


# --- the one that was not there --------------------------------------------------------------------------------------


def test_an_auditor_without_a_part_names_whose_it_relies_on() -> None:
    world = without_a()
    undecided(world, 5, "neither this auditor nor one that it relies on had a part in the beacon")
    stranger = replace(world.auditor(), relies_on=public("nobody"))
    undecided(world, 5, "nor one that it relies on had a part", auditor=stranger)
    relying = replace(world.auditor(), relies_on=public(B))
    verdict = accepted(world, auditor=relying)
    assert f" beacon={B} " in verdict.line(), verdict.line()
    values = document.build(verdict)
    assert values["beacon_of"] == B
    assert f"<dt>beacon drawn with</dt><dd>{B}</dd>" in page.render(values)


def test_an_auditor_relies_on_nobody_who_was_away_itself() -> None:
    """Both are in the manifest, and neither in the beacon: B alone has seen that nothing was chosen."""
    owners = ("provider", "observer-1", B)
    world = drawn(*commits("observer-1", B), seal(*owners), *openings(*owners), opened(*owners))
    relying = replace(world.auditor(), relies_on=public(C))
    undecided(world, 5, f"nor one that it relies on had a part in the beacon of 'w1', but {B}", auditor=relying)
    with without(checks.RELIED_HAD_A_PART):
        accepted(world, auditor=relying)
    undecided(world, 5, f"nor one that it relies on had a part in the beacon of 'w1', but {B}")
    assert f" beacon={B} " in accepted(world, auditor=replace(relying, relies_on=public(B))).line()


def test_an_auditor_whom_no_manifest_names_relies_on_one_that_it_does() -> None:
    world = honest()
    other = replace(world.auditor(), identity=public("another firm"), nonces={}, released={})
    undecided(world, 2, "this auditor is", auditor=other)
    verdict = accepted(world, auditor=replace(other, relies_on=public(C)))
    assert f" beacon={C} " in verdict.line()


def test_who_had_a_part_relies_on_nobody() -> None:
    """An own nonce that is missing is not made good by a friend's."""
    world = honest()
    assert " beacon=" not in accepted(world, auditor=replace(world.auditor(), relies_on=public(B))).line()
    lost = replace(world.auditor(), nonces={}, relies_on=public(B))
    undecided(world, 5, "holds no beacon nonce of this window", auditor=lost)


# --- provider and bribed auditors ------------------------------------------------------------------------------------


def left_out_although_it_committed() -> AttackWorld:
    """The provider entered this auditor's commitment, and seals with its friends alone."""
    return without_a(committed=True)


def a_friend_in_anothers_seat() -> AttackWorld:
    """The provider's friend, auditor B, commits in the seat of C as well."""
    return drawn(*commits("observer-1", A, B), commit(C, by=B), seal(*ALL), *openings(*ALL), opened(*ALL))


def a_friend_opens_before_an_observer() -> AttackWorld:
    """An observer waits until it knows the nonces of auditors, all but this one's."""
    early = ("provider", B, C, "observer-1", A)
    return drawn(*commits("observer-1", A, B, C), seal(*ALL), *openings(*early), opened(*ALL))


def an_auditor_is_dropped_once_it_withholds() -> AttackWorld:
    """B has not opened; the provider seals again without it, instead of giving the window up."""
    rest = ("provider", "observer-1", A, C)
    return drawn(
        *commits("observer-1", A, B, C), seal(*ALL), *openings("provider", "observer-1"), seal(*rest),
        *openings(A, C), opened(*rest),
    )  # fmt: skip


def an_observer_is_dropped_once_its_nonce_is_known() -> AttackWorld:
    """The provider holds the auditors' nonces back, and leaves the observer out for a beacon that it likes better."""
    rest = ("provider", A, B, C)
    return drawn(
        *commits("observer-1", A, B, C), seal(*ALL), *openings("provider", "observer-1"), seal(*rest),
        *openings(A, B, C), opened(*rest),
    )  # fmt: skip


def an_observer_comes_back() -> AttackWorld:
    """Left out by the first seal, and taken in again by the second: whoever chooses the owners chooses the beacon."""
    few = ("provider", A, B, C)
    return drawn(
        *commits("observer-1", A, B, C), seal(*few), *openings("provider"), seal(*ALL), opening("observer-1"),
        *openings(A, B, C), opened(*ALL),
    )  # fmt: skip


def sealed_in_another_order() -> AttackWorld:
    """The value is that of another order: one more that the provider could pick."""
    turned = ("provider", "observer-1", B, A, C)
    return drawn(*commits("observer-1", A, B, C), seal(*turned), *openings(*turned), opened(*turned))


def a_late_auditor() -> AttackWorld:
    """C commits once a nonce is known, and a second seal takes it in."""
    few = ("provider", "observer-1", A, B)
    return drawn(
        *commits("observer-1", A, B), seal(*few), *openings("provider", "observer-1"), commit(C), seal(*ALL),
        *openings(A, B, C), opened(*ALL),
    )  # fmt: skip


CHEATS: dict[Callable[[], AttackWorld], tuple[str, Removable | None]] = {
    left_out_although_it_committed: ("end with the auditors that had committed", checks.AUDITORS_SEALED),
    a_friend_in_anothers_seat: (f"{C} in the beacon is ", checks.AUDITORS_KEY),
    a_friend_opens_before_an_observer: ("not among the beacon's last entries", checks.AUDITORS_LAST),
    an_auditor_is_dropped_once_it_withholds: ("end with the auditors that had committed", checks.AUDITORS_SEALED),
    an_observer_is_dropped_once_its_nonce_is_known: ("observer-1, whose nonce was known", checks.SEALED_AGAIN),
    an_observer_comes_back: ("with others than some of those before", checks.SEALED_WITH_OTHERS),
    sealed_in_another_order: ("end with the auditors that had committed", checks.AUDITORS_SEALED),
    a_late_auditor: ("end with the auditors that had committed", None),
}


@pytest.mark.parametrize("cheat", CHEATS, ids=lambda cheat: cheat.__name__)
def test_every_auditor_convicts(cheat: Callable[[], AttackWorld]) -> None:
    """It needs no folder: one that relies on the provider's friend sees it as well."""
    match, check = CHEATS[cheat]
    world = cheat()
    for auditor in (world.auditor(), replace(world.auditor(), identity=public("late"), relies_on=public(B))):
        refused(world, 5, match, auditor=auditor)
    if check is not None:
        relying = replace(world.auditor(), identity=public("late"), relies_on=public("auditor-c"))
        with without(check):
            if cheat is a_friend_in_anothers_seat:
                relying = replace(relying, relies_on=public(B))
            accepted(world, auditor=relying)


@pytest.mark.parametrize("cheat", CHEATS, ids=lambda cheat: cheat.__name__)
def test_a_provider_refuses_to_go_on_from_such_a_ledger(cheat: Callable[[], AttackWorld]) -> None:
    with pytest.raises((LedgerError, CommitmentError)):
        replayed(cheat())


def test_bribed_auditors_cannot_change_what_they_committed_to() -> None:
    """B and C see this auditor's nonce before they open theirs: all that they can do is not to open."""
    world = honest()
    at = world.at(BeaconOpening, 4)
    world.messages[at] = replace(world.messages[at], nonce=bytes(32))  # type: ignore[type-var]
    refused(world, 5, "does not match its commitment")
    world = honest()
    again = world.commit_entry(C, bytes(32), key_of(C))
    world.messages.insert(world.at(BeaconOpening, 4), again)
    refused(world, 5, "has an earlier one")


def test_the_folder_tells_which_seal_the_nonce_was_released_for() -> None:
    """By commitments: the others' nonces are not known then."""
    world = honest()
    released = world.released[world.digest]
    world.release(*((owner, nonce(world, owner)) for owner in ("provider", "observer-1", A, B)))
    assert world.released[world.digest] != released
    undecided(world, 5, "a different seal than the one in the log")
    with without(checks.RELEASED_ONCE):
        accepted(world)


def test_an_auditors_part_is_of_one_log_alone() -> None:
    """The provider copies manifest and commitments into a log of its own with the same name and another key, where it
    knows the auditor's nonce before it chooses who else draws."""
    world = honest()
    world.signer = NoteSigner(ORIGIN, key_of("another key of the log"))
    relying = replace(world.auditor(), identity=public("late"), relies_on=public(B))
    for auditor in (world.auditor(), relying):
        refused(world, 2, "with another key than this one", auditor=auditor)
    with without(checks.MANIFEST_OF_THIS_LOG):
        accepted(world, auditor=relying)

# SPDX-License-Identifier: GPL-3.0-or-later
"""Records and accounts that do not add up: gaps, changes behind the checkpoint, strangers, budgets, other versions.

Every proof and opening of these windows holds; what the provider lies about is which queries there were.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from ragseal.kernel import field
from ragseal.kernel.attestation import Record
from ragseal.kernel.commitment import WindowClose
from ragseal.kernel.params import R
from tests.attacks.checks import (
    BUDGET,
    COUNT_AT_CLOSE,
    CTR_GAPLESS,
    ELEMENTS_BELOW_R,
    ENTRIES_HASH_TO_ROOT,
    INDEX_OF_THE_MANIFEST,
    LINK,
    LOG_COMPLETE,
    NONCE_ONCE,
    REGISTERED,
    REQUEST_SIGNED,
    SEQ_GAPLESS,
    gone,
    without,
)
from tests.attacks.machine import honest_tenants, make_tenant
from tests.attacks.removal import Removable
from tests.attacks.world import AttackWorld, Cheat, Tenant, accepted, queried, refused, undecided
from tests.simulator import account, pseudonym

pytestmark = pytest.mark.slow

NOTHING_DONE = "the entries do not hash to the signed root"


def _place(world: AttackWorld, seq: int) -> int:
    return world.messages.index(world.records()[seq])


def _signed_before(world: AttackWorld) -> AttackWorld:
    """Whatever is done to the entries from here on happens behind the signed checkpoint."""
    note = world.checkpoint()
    world.checkpoint = lambda signer=None: note  # type: ignore[method-assign]
    return world


def altered() -> AttackWorld:
    """A record's time is changed after its checkpoint was signed; it is proven as it now stands."""
    world = _signed_before(queried())
    at = _place(world, 1)
    world.messages[at] = replace(world.records()[1], time=world.records()[1].time + 60)
    return world


def reordered_behind_the_checkpoint() -> AttackWorld:
    """Two entries change places after the checkpoint: what the log says of a record's time no longer holds."""
    world = _signed_before(queried())
    at, close = _place(world, 2), len(world.messages) - 1
    other = replace(world.records()[2], time=world.records()[1].time)
    world.messages[at] = other
    assert close == at + 1
    return world


def dropped_behind_the_checkpoint() -> AttackWorld:
    """The last record vanishes; the closing entry is made to fit."""
    world = _signed_before(queried())
    del world.messages[_place(world, 2)]
    world.messages[-1] = replace(world.messages[-1], records=2)  # type: ignore[type-var]
    return world


def seq_gap() -> AttackWorld:
    """A record is never entered, and everything else says so."""
    world = queried()
    del world.messages[_place(world, 1)]
    world.messages[-1] = replace(world.messages[-1], records=2)  # type: ignore[type-var]
    return world


def swapped_before_signing() -> AttackWorld:
    """Two records are entered in another order than they were answered in."""
    world = queried()
    a, b = _place(world, 0), _place(world, 1)
    world.messages[a], world.messages[b] = world.messages[b], world.messages[a]
    return world


def closing_entry_counts_less() -> AttackWorld:
    world = queried()
    world.messages[-1] = WindowClose(world.digest, 2, world.messages[-1].time)  # type: ignore[attr-defined]
    return world


def unregistered_account() -> AttackWorld:
    """The provider asks under a name of its own invention, with a key that it made for it."""
    world = AttackWorld()
    world.commit()
    world.ask("alice")
    registered = world.registry
    world.registry = [*registered, account("mallory", "north")]
    world.ask("mallory")
    world.registry = registered
    world.ask("bob")
    world.close()
    return world


def request_signed_by_somebody_else() -> AttackWorld:
    """The provider invents a query of a registered account; it cannot sign for it."""
    world = queried()
    record = world.records()[1]
    world.messages[_place(world, 1)] = replace(record, signed=replace(record.signed, signature=bytes(64)))
    return world


def ctr_gap() -> AttackWorld:
    """A query of the account was answered and kept out of the ledger."""
    return queried(Cheat(request={"ctr": 2, "last_receipt": b"\x07" * 32}))


def account_above_n_max() -> AttackWorld:
    world = AttackWorld()
    world.commit()
    for _ in range(4):
        world.ask("alice")
    world.close()
    return world


def nonce_used_twice() -> AttackWorld:
    """Two requests with one nonce."""
    world = AttackWorld()
    world.commit()
    first = world.ask("alice").signed.request
    world.ask("alice", Cheat(request={"nonce": first.nonce}))
    world.close()
    return world


def request_for_another_index_version() -> AttackWorld:
    """The account was shown an index version that the manifest does not hold."""
    return queried(Cheat(request={"index_digest": _older().index.digest()}))


def scores_of_another_index_version() -> AttackWorld:
    """C_y over the columns of an earlier version of the same tenant's index."""
    world = AttackWorld(tenants={**honest_tenants(), "older": _older()})
    now = tuple(tenant.index for tenant in honest_tenants().values())
    world.commit(tenants=now)
    world.ask("alice")
    world.ask("carol", Cheat(columns_of="older"))
    world.ask("bob")
    world.close()
    return world


def _older() -> Tenant:
    made = make_tenant("south, a week ago")
    return replace(made, name="south", index=replace(made.index, tenant="south"))


CHEATS: dict[Callable[[], AttackWorld], tuple[int, str, Removable]] = {
    seq_gap: (6, "seq 1 is missing: a record was dropped or reordered", SEQ_GAPLESS),
    swapped_before_signing: (6, "seq 0 is missing: a record was dropped or reordered", SEQ_GAPLESS),
    closing_entry_counts_less: (6, "the closing entry counts", COUNT_AT_CLOSE),
    unregistered_account: (6, f"account {pseudonym('mallory')!r} is not registered", REGISTERED),
    request_signed_by_somebody_else: (6, "the request signature does not hold", REQUEST_SIGNED),
    ctr_gap: (6, "jumps to request 2, expected 1", CTR_GAPLESS),
    account_above_n_max: (6, "exceeds its 3 queries", BUDGET),
    nonce_used_twice: (6, "the nonce was used by this account before", NONCE_ONCE),
    scores_of_another_index_version: (8, "the link opening does not hold", LINK),
}


@pytest.mark.parametrize("cheat", CHEATS, ids=lambda cheat: cheat.__name__)
def test_records_that_do_not_add_up(cheat: Callable[[], AttackWorld]) -> None:
    step, message, check = CHEATS[cheat]
    refused(cheat(), step, message)
    with without(check):
        accepted(cheat())


def test_an_index_version_that_the_window_does_not_have() -> None:
    """Without the check no columns are found, so nothing passes either."""
    world, message = request_for_another_index_version(), "an index that no tenant of the window has"
    refused(world, 6, message)
    gone(INDEX_OF_THE_MANIFEST, world, message)


@pytest.mark.parametrize("cheat", [altered, reordered_behind_the_checkpoint], ids=lambda cheat: cheat.__name__)
def test_entries_behind_the_checkpoint(cheat: Callable[[], AttackWorld]) -> None:
    """Nobody signed the entries that came, so they never pass and never convict."""
    undecided(cheat(), 1, NOTHING_DONE)
    with without(ENTRIES_HASH_TO_ROOT):
        accepted(cheat())


def test_record_dropped_behind_the_checkpoint() -> None:
    """An entry fewer than signed; with one more in its place the root is another."""
    undecided(dropped_behind_the_checkpoint(), 1, "the log gave 11 of 12 entries")
    with without(LOG_COMPLETE):
        undecided(dropped_behind_the_checkpoint(), 1, NOTHING_DONE)
        with without(ENTRIES_HASH_TO_ROOT):
            accepted(dropped_behind_the_checkpoint())


def test_clear_input_above_the_modulus_in_a_record() -> None:
    """t_commit + r names the same element: refused where the record is decoded, and again where it is hashed."""

    def raised(as_message: bool) -> AttackWorld:
        world = queried()
        record, at = world.records()[1], _place(world, 1)
        data, where = record.encode(), record.encode().index(field.to_bytes(record.t_commits[0]))
        world.raw[at] = data[:where] + (record.t_commits[0] + R).to_bytes(32, "big") + data[where + 32 :]
        if as_message:  # our own encoder refuses it as well
            world.messages[at] = replace(record, t_commits=(record.t_commits[0] + R,))
        return world

    refused(raised(False), 1, "not canonical")
    with without(ELEMENTS_BELOW_R):
        refused(raised(True), 8, "does not fit a field element")


def test_every_byte_of_a_record_counts() -> None:
    """A record altered anywhere, its log signed anew: no change of it passes the audit."""
    world = queried()
    at, rng = _place(world, 1), random.Random(3)
    data = world.messages[at].encode()
    assert isinstance(world.messages[at], Record)
    for where in rng.sample(range(len(data)), 24):
        world.raw[at] = data[:where] + bytes([data[where] ^ 1 << rng.randrange(8)]) + data[where + 1 :]
        assert world.audit().verdict == "FAIL", f"byte {where}"

# SPDX-License-Identifier: GPL-3.0-or-later
"""Records and accounts that do not add up: gaps, changes behind the checkpoint, strangers, budgets, other versions.

Every proof and opening of these windows holds; what the provider lies about is which queries there were.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ragseal.client import attestation as client
from ragseal.kernel import field
from ragseal.kernel.attestation import Answer, Openings, Receipt, Record, SlotOpening, TextOpening
from ragseal.kernel.commitment import WindowClose
from ragseal.kernel.errors import AuditError
from ragseal.kernel.params import R
from ragseal.kernel.slot_text import NO_METADATA
from ragseal.runtime.metadata import committed
from ragseal.verifier.evidence.evidence import ReceiptFile
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
    ONE_RECEIPT,
    RECEIPT_MATCHES_RECORD,
    REGISTERED,
    REQUEST_SIGNED,
    SEQ_GAPLESS,
    SLOTS_COMMITTED,
    SLOTS_IN_ORDER,
    TEXTS_BY_FLAG,
    TEXTS_COMMITTED,
    WITHHELD_BY_THE_GUARD,
    gone,
    without,
)
from tests.attacks.machine import honest_tenants, make_tenant
from tests.attacks.removal import Removable
from tests.attacks.world import AttackWorld, Cheat, Tenant, accepted, queried, refused, undecided
from tests.simulator import account, pseudonym, resign, slot_text

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


# Receipts and answers that contradict the log, the commitment to T, or each other; the order of T.


Shown = list[ReceiptFile]


def _promised(world: AttackWorld, files: Shown) -> Shown:
    """A signed receipt for a record that is not the one in the log: the promise was broken."""
    body = replace(files[1].receipt.body, record_digest=bytes(32))
    files[1] = replace(files[1], receipt=resign(world, files[1].receipt, body), answer=None)
    return files


def _second_receipt(world: AttackWorld, files: Shown) -> Shown:
    """Two receipts for one record, with other openings: two answers to one request."""
    body = replace(files[2].receipt.body, openings_digest=bytes(32))
    return [*files, replace(files[2], receipt=resign(world, files[2].receipt, body), answer=None)]


def _opened_as(change: Callable[[Openings], Openings]) -> Callable[[AttackWorld, Shown], Shown]:
    """The provider signs a receipt for other openings than the record's."""

    def shown(world: AttackWorld, files: Shown) -> Shown:
        answer = files[1].answer
        assert answer is not None
        openings = change(answer.openings)
        body = replace(answer.receipt.body, openings_digest=openings.digest())
        receipt: Receipt = resign(world, answer.receipt, body)
        files[1] = replace(files[1], receipt=receipt, answer=Answer(answer.record, openings, receipt))
        return files

    return shown


def _changed(openings: Openings, flag: bool, change: Callable[[SlotOpening], SlotOpening]) -> Openings:
    """The first slot with this flag changed."""
    at = next(i for i, slot in enumerate(openings.slots) if slot.flag == flag)
    slots = list(openings.slots)
    slots[at] = change(slots[at])
    return replace(openings, slots=tuple(slots))


def _forged(slot: SlotOpening) -> SlotOpening:
    return _told(slot, text="forged")


def _told(slot: SlotOpening, **other: Any) -> SlotOpening:
    """The slot's opening with another id, text or metadata than was committed."""
    opened = slot.texts[0]
    return replace(slot, texts=(replace(opened, content=replace(opened.content, **other)),))


def _smuggled(world: AttackWorld, files: Shown) -> Shown:
    """The true text of a slot that came by the noise alone."""
    tree = world.tenants["south"].texts

    def opened(slot: SlotOpening) -> SlotOpening:
        text = TextOpening(slot_text("south", slot.slot), bytes(32), tuple(tree.path(slot.slot)))
        return replace(slot, texts=(text,))

    return _opened_as(lambda o: _changed(o, False, opened))(world, files)


RECEIPT_CHEATS: dict[str, tuple[Callable[[AttackWorld, Shown], Shown], str, Removable]] = {
    "receipt_for_another_record": (_promised, "not the record that was promised", RECEIPT_MATCHES_RECORD),
    "two_receipts_for_one_record": (_second_receipt, "another receipt was given", ONE_RECEIPT),
    "a_text_of_the_providers_choice": (
        _opened_as(lambda o: _changed(o, True, _forged)),
        "with this path does not give the root",
        TEXTS_COMMITTED,
    ),
    "an_id_of_the_providers_choice": (
        _opened_as(lambda o: _changed(o, True, lambda slot: _told(slot, id="another"))),
        "with this path does not give the root",
        TEXTS_COMMITTED,
    ),
    "metadata_of_the_providers_choice": (
        _opened_as(lambda o: _changed(o, True, lambda slot: _told(slot, metadata=committed({"source": "elsewhere"})))),
        "with this path does not give the root",
        TEXTS_COMMITTED,
    ),
    "metadata_withheld": (
        _opened_as(lambda o: _changed(o, True, lambda slot: _told(slot, metadata=NO_METADATA))),
        "with this path does not give the root",
        TEXTS_COMMITTED,
    ),
    "a_text_withheld": (
        _opened_as(lambda o: _changed(o, True, lambda slot: replace(slot, texts=()))),
        "the policy has no guard",
        WITHHELD_BY_THE_GUARD,
    ),
    "a_text_without_its_flag": (_smuggled, "whose flag is not set", TEXTS_BY_FLAG),
    "another_flag": (
        _opened_as(lambda o: _changed(o, True, lambda slot: replace(slot, flag=False, texts=()))),
        "not those that the record commits to",
        SLOTS_COMMITTED,
    ),
    "opened_with_another_salt": (
        _opened_as(lambda o: replace(o, t_salt=o.t_salt ^ 1)),
        "not those that the record commits to",
        SLOTS_COMMITTED,
    ),
}


@pytest.mark.parametrize("name", RECEIPT_CHEATS)
def test_receipt_that_contradicts_the_log(name: str) -> None:
    change, message, check = RECEIPT_CHEATS[name]
    world = queried()
    files = change(world, world.receipts())
    refused(world, 7, message, receipts=files)
    with without(check):
        accepted(world, receipts=files)


@pytest.mark.parametrize("order", [(2, 1, 0), (1, 0, 2), (0, 0, 1)], ids=["falling", "swapped", "twice"])
def test_order_of_t(order: tuple[int, ...]) -> None:
    """T in the order of its noisy scores tells more than the set: in an answer it is refused by auditor and client."""
    world = queried()
    change = _opened_as(lambda o: replace(o, slots=tuple(o.slots[i] for i in order)))
    files = change(world, world.receipts())
    refused(world, 7, "slots in increasing order", receipts=files)
    with without(SLOTS_IN_ORDER):  # the commitment is to a sorted list: one more line of defence
        refused(world, 7, "not those that the record commits to", receipts=files)
        with without(SLOTS_COMMITTED):
            accepted(world, receipts=files)
    answer = files[1].answer
    assert answer is not None
    window = client.Window(
        world.manifest, world.digest, world.registry[2], world.tenants["south"].index, world.tools.cls
    )
    with pytest.raises(AuditError, match="increasing"):
        client.check_openings(window, answer.record, answer.openings)

# SPDX-License-Identifier: GPL-3.0-or-later
"""Receipts and answers that contradict the log, the commitment to T, or each other; the order of T."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ragseal.client import attestation as client
from ragseal.kernel.attestation import Answer, Openings, Receipt, SlotOpening, TextOpening
from ragseal.kernel.errors import AuditError
from ragseal.kernel.slot_text import NO_METADATA
from ragseal.runtime.metadata import committed
from ragseal.verifier.evidence.evidence import ReceiptFile
from tests.attacks.checks import (
    ONE_RECEIPT,
    RECEIPT_MATCHES_RECORD,
    SLOTS_COMMITTED,
    SLOTS_IN_ORDER,
    TEXTS_BY_FLAG,
    TEXTS_COMMITTED,
    WITHHELD_BY_THE_GUARD,
    without,
)
from tests.attacks.removal import Removable
from tests.attacks.world import AttackWorld, accepted, queried, refused
from tests.simulator import resign, slot_text

pytestmark = pytest.mark.slow

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


CHEATS: dict[str, tuple[Callable[[AttackWorld, Shown], Shown], str, Removable]] = {
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


@pytest.mark.parametrize("name", CHEATS)
def test_receipt_that_contradicts_the_log(name: str) -> None:
    change, message, check = CHEATS[name]
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

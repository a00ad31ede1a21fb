# SPDX-License-Identifier: GPL-3.0-or-later
"""Steps 6 and 7 against records and receipts that do not hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ragseal.kernel import signature
from ragseal.kernel.attestation import Record
from ragseal.kernel.commitment import SignedManifest, WindowClose
from ragseal.ledger.checkpoint import open_checkpoint
from ragseal.verifier.outcome.outcome import PASS
from ragseal.verifier.report import document
from tests.simulator import (
    ACCOUNTS,
    OPENS,
    TENANTS,
    World,
    asked,
    key_of,
    policy,
    registry,
    resign,
)
from tests.verifier.attacks import Attacks

ATTACKS = Attacks()
attack = ATTACKS.add
ASIDE: dict[str, Callable[[], Any]] = {}  #: files with something wrong that nobody signed


def aside(make: Callable[[], Any]) -> Callable[[], Any]:
    ASIDE[make.__name__] = make
    return make


# --- step 6: records -------------------------------------------------------------------------------------------------


def test_the_queries_of_these_attacks_pass() -> None:
    assert asked().audit().verdict == "PASS"


@attack(6, "seq 2 is missing")
def record_dropped() -> Any:
    world = World.honest()
    del world.messages[world.at(Record, 2)]
    return world


@attack(6, "seq 1 is missing")
def records_reordered() -> Any:
    world = World.honest()
    a, b = world.at(Record, 1), world.at(Record, 2)
    world.messages[a], world.messages[b] = world.messages[b], world.messages[a]
    return world


@attack(6, "is not registered")
def unregistered_account() -> Any:
    return asked("mallory")


@attack(6, "request signature does not hold")
def request_signed_by_another() -> Any:
    return asked(sign_as="mallory")


@attack(6, "the request is for window 'w0'")
def request_of_another_window() -> Any:
    return asked(request={"window": "w0"})


@attack(6, "the request is for window 'w1' of 'other.example/log'")
def request_of_another_log() -> Any:
    return asked(request={"origin": "other.example/log"})


@attack(1, "request belongs to another window")
def request_of_another_manifest() -> Any:
    return asked(request={"manifest": bytes(32)})


@attack(6, "an index other than that of tenant 'north'")
def record_over_another_tenants_index() -> Any:
    return asked(request={"index_digest": TENANTS["south"].index.digest()})


@attack(6, "acknowledges no receipt")
def acknowledgement_missing() -> Any:
    return asked(request={"last_receipt": bytes(32)})


@attack(6, "jumps to request 5")
def ctr_gap() -> Any:
    return asked(request={"ctr": 5})


@attack(6, "exceeds its 3 queries")
def budget_exceeded() -> Any:
    world = World()
    world.commit()
    for _ in range(4):
        world.ask("alice")
    world.close()
    return world


@attack(6, "is outside the window")
def record_before_opening() -> Any:
    return asked(record={"time": OPENS})


@attack(6, "is outside the window")
def record_back_in_time() -> Any:
    world = World()
    world.commit()
    world.ask("alice", record={"time": OPENS + 600})
    world.ask("bob", record={"time": OPENS + 540})
    world.close()
    return world


@attack(6, "is outside the window")
def record_after_closing_time() -> Any:
    return asked(record={"time": OPENS + 3060})


def opened_late(last: int) -> World:
    """A window of ten minutes that opened after a quarter of an hour, with a record so many seconds later."""
    world = World()
    world.commit(policy_=policy(closes=OPENS + 600))
    world.messages[-1] = replace(world.messages[-1], time=OPENS + 900)  # type: ignore[type-var]
    world.ask("alice", record={"time": OPENS + 900})
    world.ask("alice", record={"time": OPENS + 900 + last})
    world.close(OPENS + 1800)
    return world


@attack(6, "is outside the window")
def record_of_a_window_that_was_stretched() -> Any:
    """It opened late and lasts as long as its manifest says from then on, not a minute longer."""
    return opened_late(660)


def test_a_window_lasts_as_long_as_its_manifest_says_from_its_opening_on() -> None:
    verdict = opened_late(600).audit()
    assert verdict.verdict == PASS, verdict.line()


@attack(6, "the request id was used")
def request_id_again() -> Any:
    return _again("request_id")


@attack(6, "the nonce was used")
def nonce_again() -> Any:
    return _again("nonce")


def _again(name: str) -> World:
    world = World()
    world.commit()
    first = world.ask("alice").signed.request
    world.ask("alice", request={name: getattr(first, name)})
    world.close()
    return world


@attack(6, "the closing entry counts 6 records, the log holds 7")
def closing_count_wrong() -> Any:
    world = World.honest()
    index = world.at(WindowClose)
    world.messages[index] = replace(world.messages[index], records=6)  # type: ignore[type-var]
    return world


@attack(6, "stands outside its window")
def record_after_close() -> Any:
    world = World.honest()
    world.ask("bob")
    return world


@attack(6, "another window stands inside this one")
def record_of_another_window() -> Any:
    world = World()
    world.commit()
    first = world.ask("alice")
    foreign = replace(
        first,
        manifest=bytes(32),
        signed=replace(first.signed, request=replace(first.signed.request, manifest=bytes(32))),
    )
    world.messages.append(foreign)
    world.close()
    return world


@attack(6, "record 2: .*not on the curve")
def point_off_the_curve() -> Any:
    world = asked()
    index = world.at(Record, 2)
    world.messages[index] = replace(world.messages[index], c_y=b"\x01" * 64)  # type: ignore[type-var]
    return world


@attack(6, "the registry is not the one of the manifest")
def registry_with_another_account() -> Any:
    world = World.honest()
    world.registry = registry(*ACCOUNTS, ("zoe", "north"))
    return world


@attack(6, "the registry is not the one of the manifest")
def registry_count_wrong() -> Any:
    return World.honest(accounts=2)


@attack(6, "must be distinct and sorted")
def registry_unsorted() -> Any:
    world = World.honest()
    world.registry.reverse()
    return world


@attack(6, "holds no index of tenant 'west'")
def account_without_index() -> Any:
    world = World()
    world.registry = registry(*ACCOUNTS, ("zoe", "west"))
    world.commit()
    world.close()
    return world


# --- step 7: receipts ------------------------------------------------------------------------------------------------


def _with_receipt(change: Callable[[World, Any], Any]) -> Any:
    world = World.honest()
    receipts = world.receipts()
    receipts[2] = change(world, receipts[2])
    return world, {"receipts": receipts}


@attack(7, "not the record that was promised")
def receipt_contradicts_the_log() -> Any:
    """The provider answers, then rewrites the record before the next checkpoint is seen by anyone."""
    return _with_receipt(
        lambda w, file: replace(
            file,
            answer=None,
            receipt=resign(w, file.receipt, replace(file.receipt.body, record_digest=bytes(32))),
        )
    )


@attack(7, "the log of its checkpoint has 11")
def receipt_beyond_the_log() -> Any:
    return _with_receipt(
        lambda w, file: replace(file, receipt=resign(w, file.receipt, replace(file.receipt.body, index=99)))
    )


@attack(7, "its record would be entry")
def receipt_of_the_entry_that_follows_its_checkpoint() -> Any:
    """The first entry that its own checkpoint does not hold: the log has it, but not by then."""

    def late(w: World, file: Any) -> Any:
        size = open_checkpoint(file.receipt.body.checkpoint, w.signer.verifier).checkpoint.size
        return replace(file, receipt=resign(w, file.receipt, replace(file.receipt.body, index=size)))

    return _with_receipt(late)


@attack(7, "of the log is not the record that was promised")
def receipt_of_what_is_no_record() -> Any:
    """Entry 0 is the manifest."""
    return _with_receipt(
        lambda w, file: replace(file, receipt=resign(w, file.receipt, replace(file.receipt.body, index=0)))
    )


@attack(7, "a seq or request different")
def receipt_for_another_seq() -> Any:
    return _with_receipt(
        lambda w, file: replace(file, receipt=resign(w, file.receipt, replace(file.receipt.body, seq=1)))
    )


@attack(7, "a seq or request different")
def receipt_for_another_request() -> Any:
    return _with_receipt(
        lambda w, file: replace(
            file, receipt=resign(w, file.receipt, replace(file.receipt.body, request_digest=bytes(32)))
        )
    )


@aside
def receipt_forged() -> Any:
    return _with_receipt(lambda w, file: replace(file, receipt=replace(file.receipt, signature=bytes(64))))


@aside
def receipt_without_inclusion() -> Any:
    return _with_receipt(lambda w, file: replace(file, receipt=replace(file.receipt, path=())))


@aside
def other_openings_shown() -> Any:
    return _with_receipt(
        lambda w, file: replace(file, answer=replace(file.answer, openings=replace(file.answer.openings, t_salt=5)))
    )


@aside
def answer_with_another_record() -> Any:
    return _with_receipt(lambda w, file: replace(file, answer=replace(file.answer, record=w.answers[0].record)))


def _other_answer(change: Callable[[Any], Any]) -> Any:
    """The provider signs a receipt for openings that are not the record's."""

    def shown(w: World, file: Any) -> Any:
        openings = change(file.answer.openings)
        receipt = resign(w, file.receipt, replace(file.receipt.body, openings_digest=openings.digest()))
        return replace(file, receipt=receipt, answer=replace(file.answer, openings=openings, receipt=receipt))

    return _with_receipt(shown)


@attack(7, "not those that the record commits to")
def answer_with_other_slots() -> Any:
    return _other_answer(lambda openings: replace(openings, t_salt=5))


@attack(7, "slots in increasing order")
def answer_with_too_few_slots() -> Any:
    return _other_answer(lambda openings: replace(openings, slots=openings.slots[1:]))


@attack(7, "slots in increasing order")
def answer_out_of_order() -> Any:
    return _other_answer(lambda openings: replace(openings, slots=openings.slots[::-1]))


@attack(7, "inclusion")
def answer_with_another_text() -> Any:
    def forged(openings: Any) -> Any:
        first = openings.slots[0]
        opened = first.texts[0]
        texts = (replace(opened, content=replace(opened.content, text="forged")),)
        return replace(openings, slots=(replace(first, texts=texts), *openings.slots[1:]))

    return _other_answer(forged)


@attack(7, "whose texts are withheld")
def answer_with_a_text_withheld() -> Any:
    return _other_answer(
        lambda openings: replace(openings, slots=(replace(openings.slots[0], texts=()), *openings.slots[1:]))
    )


@attack(7, "whose flag is not set")
def answer_with_a_text_without_its_flag() -> Any:
    return _other_answer(
        lambda openings: replace(
            openings, slots=(*openings.slots[:-1], replace(openings.slots[-1], texts=openings.slots[0].texts))
        )
    )


@attack(7, "not those that the record commits to")
def answer_with_another_flag() -> Any:
    return _other_answer(
        lambda openings: replace(
            openings,
            slots=(*openings.slots[:-1], replace(openings.slots[-1], flag=True, texts=openings.slots[0].texts)),
        )
    )


@attack(7, "another receipt was given for the same record")
def two_receipts_for_one_record() -> Any:
    world = World.honest()
    body = replace(world.answers[6].receipt.body, openings_digest=bytes(32))
    other = replace(world.receipts()[6], receipt=resign(world, world.answers[6].receipt, body), answer=None)
    return world, {"receipts": [*world.receipts(), other]}


@attack(7, "two receipts were issued for one request")
def acknowledged_receipt_is_another() -> Any:
    world = World()
    world.commit()
    world.ask("alice")
    world.ask("alice", request={"last_receipt": b"\x07" * 32})
    world.close()
    return world, {"receipts": world.receipts()}


@aside
def receipt_of_another_provider() -> Any:
    """A body that holds in its own log, signed by a key that this log does not know."""

    def foreign(w: World, file: Any) -> Any:
        body = replace(file.receipt.body, record_digest=bytes(32))
        made = replace(file.receipt, body=body, signature=signature.sign(key_of("rival"), "receipt", body.encode()))
        return replace(file, receipt=made, answer=None)

    return _with_receipt(foreign)


@aside
def receipt_by_a_key_whose_manifest_is_not_signed() -> Any:
    """Naming a key in a manifest is not signing with it."""
    world, options = receipt_of_another_provider()
    named = replace(world.manifest, window="w9", provider_key=signature.public_bytes(key_of("rival")))
    world.messages.append(SignedManifest(named, bytes(64)))
    return world, {**options, "window": "w1"}


@aside
def answer_without_its_path() -> Any:
    return _with_receipt(
        lambda w, file: replace(
            file,
            receipt=replace(file.receipt, path=()),
            answer=replace(file.answer, receipt=replace(file.receipt, path=())),
        )
    )


@pytest.mark.parametrize("name", ASIDE)
def test_what_nobody_signed_is_set_aside(name: str) -> None:
    """An account can change everything in its files but the provider's signed bodies: that stops nothing."""
    world, options = ASIDE[name]()
    verdict = world.audit(**options)
    assert verdict.verdict == "PASS", verdict.line()
    (one,) = verdict.set_aside
    assert one.file == "answer-2"
    assert document.build(verdict)["set_aside"] == [{"file": one.file, "why": one.why}]


def test_a_changed_path_does_not_make_two_receipts_of_one() -> None:
    """What the next request acknowledges is the receipt as it was issued, and the path in it follows from the log."""
    world = World.honest()
    files = [replace(one, receipt=replace(one.receipt, path=()), answer=None) for one in world.receipts()]
    verdict = world.audit(receipts=files)
    assert verdict.verdict == "PASS", verdict.line()
    assert len(verdict.set_aside) == len(files)
    assert all(tally.acknowledged == tally.total for tally in verdict.tallies)


@attack(7, "another receipt was given for the same record")
def second_receipt_with_a_changed_path() -> Any:
    world, options = two_receipts_for_one_record()
    last = options["receipts"][-1]
    options["receipts"][-1] = replace(last, receipt=replace(last.receipt, path=()))
    return world, options


@pytest.mark.parametrize("name", ATTACKS.names())
def test_attack_ends_at_its_step(name: str) -> None:
    ATTACKS.run(name)

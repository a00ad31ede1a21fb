# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole windows, to be audited from their public bytes: an honest one, and what differs from it in those that are not.

A window that differs is written as ``base`` and ``change``: path in the input -> what stands there instead.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ragseal.kernel import signature
from ragseal.kernel.attestation import Record
from ragseal.kernel.beacon import (
    BeaconOpening,
    BeaconSeal,
)
from ragseal.kernel.commitment import CoinCommitment, WindowOpen
from ragseal.kernel.inquiry import Ask, Delivery, ProofsAsk, Refusal
from ragseal.kernel.link_list import LinkList
from ragseal.kernel.policy import UNTIL_DELIVERED
from ragseal.ledger.note import NoteSigner
from tests.simulator import CLASS_DIGEST, CLS, NOW, ORIGIN, SimulatedEvidence, World, key_of, policy
from tests.simulator.estimates import Lie
from vectors.source.book import Book
from vectors.source.mechanism import class_of
from vectors.source.phases import SCENE
from vectors.source.replay import Recorded, replayed, run
from vectors.source.scene import SIZE, Scene, keys_of
from vectors.source.values import flipped, shown

HONEST = "windows/honest"
Json = dict[str, Any]


class Recorder(Recorded):
    """Keeps what was asked, and what a world delivers for it, or a lie."""

    def __init__(self, given: Json, world: World, lie: Callable[[Ask], bytes | None]) -> None:
        super().__init__(given)
        self.world, self.lie = SimulatedEvidence(world), lie
        self.kept: list[Json] = []

    def deliver(self, ask: Ask, proof: bytes) -> bytes:
        data = self.lie(ask) or self.world.deliver(ask, proof)
        self.kept.append(shown({"ask": ask.encode(), "signature": proof, "delivery": data}))
        return data


class _Enough(Exception):
    """Whatever an audit asks for, it has asked for."""


def _until_accounting(number: int, title: str) -> None:
    if number == 10:
        raise _Enough


def inputs(scene: Scene, world: World, lie: Callable[[Ask], bytes | None] = lambda ask: None, **more: Any) -> Json:
    """A world's public bytes, with everything that its auditor asks for; ``more`` overrides fields."""
    note = world.checkpoint().decode()
    own = {
        "log_key": world.signer.verifier.vkey(), "class": class_of(CLS.name), "class_digest": CLASS_DIGEST,
        **keys_of(scene), "estimate_class": SIZE.name, "made_by": "auditor",
        "public_key": world.auditor_key.public_key().public_bytes_raw(), "manifest": world.digest,
        "nonce": world.nonces[world.digest], "released": world.released[world.digest], "drawn": 0,
    }  # fmt: skip
    given: Json = shown({
        "auditor": {**own, **more.pop("auditor", {})}, "now": NOW, "randomness": "asks", "checkpoint": note,
        "entries": world.entries(), "signed_manifest": world.messages[0].encode(),
        "index_files": {name: file.encode() for name, file in sorted(world.files.items())}, "asks": [],
        "receipts": [answer.encode() for answer in world.answers], **more,
    })  # fmt: skip
    evidence = Recorder(given, world, lie)
    with suppress(_Enough):
        run(given, evidence, lambda ask: ask.sign(world.auditor_key), _until_accounting)
    given["asks"] = evidence.kept
    return given


def add(book: Book) -> None:
    scene = SCENE()
    honest = inputs(scene, scene.honest)
    book.valid(HONEST, "audit", "D.12", "An honest window of five records, every one proven: PASS.", **honest)
    over = inputs(scene, scene.over_shards)
    book.valid(
        "windows/over-two-shards", "audit", "A.15", "Two shards, one threshold, two proofs a record: PASS.", **over
    )
    for name, clause, about, outcome, text, given in _others(scene):
        line = replayed(given).line()
        assert line.startswith(outcome), f"{name}: {line}"
        assert text in line, f"{name}: {line}"
        book.differing(f"windows/{name}", HONEST, clause, about, outcome, text, given)


def _others(scene: Scene) -> list[tuple[str, str, str, str, str, Json]]:
    out: list[tuple[str, str, str, str, str, Json]] = []

    def case(name: str, clause: str, about: str, outcome: str, text: str, given: Json) -> None:
        out.append((name, clause, about, outcome, text, given))

    def world(change: Callable[[World], None]) -> Json:
        made = scene.window()
        change(made)
        return inputs(scene, made, receipts=[])

    honest = scene.honest

    # the log
    note = honest.checkpoint().decode()
    forged = honest.checkpoint(NoteSigner(ORIGIN, key_of("somebody"))).decode()
    case("note-of-another-key", "D.1", "The newest note is signed by nobody's log key.", "NO VERDICT", "step=1 log",
         inputs(scene, honest, checkpoint=forged))  # fmt: skip
    broken = honest.entries()
    broken[-1] = flipped(broken[-1], -1)
    case("entry-changed-on-the-way", "D.1", "An entry has another bit than under its signed root.", "NO VERDICT",
         "step=1 log", inputs(scene, honest, entries=broken))  # fmt: skip
    case("entry-missing", "D.1", "The last entry is not delivered.", "NO VERDICT", "step=1 log",
         inputs(scene, honest, entries=honest.entries()[:-1]))  # fmt: skip
    assert note.startswith(ORIGIN)

    # keys and beacon
    case("another-build-of-the-class", "A.6", "The auditor has another class digest.", "NO VERDICT", "step=2 manifest",
         inputs(scene, honest, auditor={"class_digest": bytes(32)}))  # fmt: skip

    coined = scene.world()
    coined.commit(policy_=policy(claim=UNTIL_DELIVERED, hidden=13, gate=False), coins=(CoinCommitment(1, bytes(32)),))
    coined.close()
    case("noise-under-until-delivered", "M.9", "The claim until-delivered is made with a class of noise.", "FAIL",
         "bounds nothing under the claim until-delivered", inputs(scene, coined))  # fmt: skip
    case("another-nonce", "D.5", "The auditor's folder holds another beacon nonce.", "NO VERDICT", "step=5 beacon",
         inputs(scene, honest, auditor={"nonce": bytes(32)}))  # fmt: skip

    def swapped(one: World) -> None:
        at = one.at(BeaconOpening, 1)
        one.messages[at], one.messages[at + 1] = one.messages[at + 1], one.messages[at]

    case("auditor-not-last", "A.8", "The auditor's opening is not the last.", "FAIL",
         "not among the beacon's last entries", world(swapped))  # fmt: skip

    def other_nonce(one: World) -> None:
        at = one.at(BeaconOpening, 1)
        one.messages[at] = replace(one.messages[at], nonce=bytes(32))  # type: ignore[type-var]

    case("opening-of-another-nonce", "A.8", "An opening does not match its commitment.", "FAIL",
         "does not match its commitment", world(other_nonce))  # fmt: skip

    def other_beacon(one: World) -> None:
        at = one.at(WindowOpen)
        one.messages[at] = replace(one.messages[at], beacon=5)  # type: ignore[type-var]

    case("another-beacon", "D.5", "The window opens with another value than the nonces give.", "FAIL",
         "not what the nonces give", world(other_beacon))  # fmt: skip

    def without_auditor(one: World) -> None:
        one.messages[one.at(BeaconSeal)] = one.seal_entry("provider", "observer-1")

    case("sealed-without-the-auditor", "A.8", "The seal's last owner is no auditor.", "FAIL", "step=5 beacon",
         world(without_auditor))  # fmt: skip

    # records
    def without(one: World) -> None:
        del one.messages[one.at(Record, 1)]

    case("record-missing", "D.6", "A record's number is left out.", "FAIL", "step=6 records", world(without))

    def resigned(one: World) -> None:
        at = one.at(Record, 4)
        record = one.messages[at]
        assert isinstance(record, Record)
        signed = replace(record.signed, signature=signature.sign(key_of("somebody"), "request",
                                                                 record.signed.request.encode()))  # fmt: skip
        one.messages[at] = replace(record, signed=signed)

    case("record-that-nobody-signed", "D.6", "A request is not signed by its account.", "FAIL", "step=6 records",
         world(resigned))  # fmt: skip

    # receipts
    shown_others = [one.encode() for one in honest.answers]
    body = replace(honest.answers[0].receipt.body, record_digest=bytes(32))
    false = replace(honest.answers[0].receipt, body=body,
                    signature=signature.sign(honest.window_key, "receipt", body.encode()))  # fmt: skip
    case("receipt-for-another-record", "D.7", "P signed a receipt for a record that its log does not hold.", "FAIL",
         "step=7 receipts", inputs(scene, honest, receipts=[false.encode(), *shown_others[1:]]))  # fmt: skip

    # proofs
    def spoiled(ask: Ask) -> bytes | None:
        if not isinstance(ask, ProofsAsk):
            return None
        batch = honest.batch(ask.manifest, ask.seqs)
        entry = replace(batch.entries[0], proof=batch.entries[1].proof)
        made = replace(batch, entries=(entry, *batch.entries[1:]))
        return Delivery.sign(honest.window_key, ask.digest(), made.encode()).encode()

    case("proof-of-another-record", "D.8", "A record comes with another's proof.", "FAIL", "step=8 proofs",
         inputs(scene, scene.honest, spoiled))  # fmt: skip

    def unsigned(ask: Ask) -> bytes | None:
        if not isinstance(ask, ProofsAsk):
            return None
        batch = honest.batch(ask.manifest, ask.seqs)
        return Delivery.sign(key_of("somebody"), ask.digest(), batch.encode()).encode()

    case("proofs-that-nobody-signed", "D.12", "A delivery that P did not sign: anybody's.", "NO VERDICT",
         "step=8 proofs", inputs(scene, scene.honest, unsigned))  # fmt: skip

    def withheld(ask: Ask) -> bytes | None:
        if not isinstance(ask, ProofsAsk):
            return None
        return Refusal.sign(honest.window_key, ask.digest(), "not today").encode()

    case("proofs-withheld", "D.12", "P signs that it does not deliver.", "FAIL", "withheld",
         inputs(scene, scene.honest, withheld))  # fmt: skip

    def turned(ask: Ask) -> bytes | None:
        if not isinstance(ask, ProofsAsk):
            return None
        batch = scene.over_shards.batch(ask.manifest, ask.seqs)
        entry = batch.entries[0]
        made = replace(batch, entries=(replace(entry, proof=entry.proof[256:] + entry.proof[:256]), *batch.entries[1:]))
        return Delivery.sign(scene.over_shards.window_key, ask.digest(), made.encode()).encode()

    case("shards-in-another-order", "B.5", "A record's two proofs change places.", "FAIL", "step=8 proofs",
         inputs(scene, scene.over_shards, turned))  # fmt: skip

    # the estimate
    def other_records(body: LinkList) -> LinkList:
        return replace(body, tenants=(replace(body.tenants[0], records_digest=bytes(32)), *body.tenants[1:]))

    def other_list(one: World) -> None:
        one.estimator.lie = Lie(body=other_records)

    case("links-of-other-records", "D.9", "The signed list is about other records than the log's.", "FAIL",
         "step=9 estimate", world(other_list))  # fmt: skip
    return out

# SPDX-License-Identifier: GPL-3.0-or-later
"""The pure checks where a client never gets to by itself: what may be signed, and odd entries.  SPEC B."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.circuits.circuit import class_digest, load_classes
from ragseal.client.attestation import (
    build_request,
    check_answer,
    check_receipt,
    decode_embedding,
    encode_embedding,
)
from ragseal.client.classes import known_class
from ragseal.kernel.attestation import NO_RECEIPT
from ragseal.kernel.errors import AttestationError, BudgetError, LedgerError, PolicyError
from ragseal.ledger.note import NoteSigner
from tests.client.small_provider import NOW


@pytest.fixture
def parts(bench: Any) -> dict[str, Any]:
    client = bench.client()
    client.ask("json")
    exchange = client.state.windows()[0].exchange(1)
    return {"window": client._current[0], "prepare": exchange.prepare, "prepared": exchange.prepared}


GOOD: dict[str, Any] = {"ctr": 2, "checked": True, "nonce": b"n" * 16, "last_receipt": b"r" * 32, "seal_key": b"x" * 32}


def test_a_request_names_everything_that_was_checked(parts: dict[str, Any]) -> None:
    request = build_request(**parts, **GOOD)
    assert request.c_e == parts["prepared"].c_e
    assert request.seal_key == GOOD["seal_key"]
    assert request.account == parts["window"].account.pseudonym
    assert request.query_digest == parts["prepare"].query_digest()
    assert (request.manifest, request.ctr, request.checked) == (parts["window"].digest, 2, True)
    changed = dataclasses.replace(parts["prepare"], salt=bytes(32))
    assert build_request(**{**parts, "prepare": changed}, **GOOD).query_digest != request.query_digest


def test_the_last_query_of_a_budget_is_signed(parts: dict[str, Any]) -> None:
    assert parts["window"].manifest.policy.n_max == 4
    assert build_request(**parts, **{**GOOD, "ctr": 4}).ctr == 4


def test_an_answer_comes_after_the_one_before_it(bench: Any) -> None:
    """In the window's count and in the ledger, each by itself: the checkpoint and all signatures hold."""
    client = bench.client()
    first, second = (client.ask(text) for text in ("json", "csv"))
    memory = client.state.windows()[0]
    answer = memory.answer(2)
    rest = (client._exchanges._group, client._current[0], client._log, memory.exchange(2).signed, answer)
    check_answer(*rest, first.receipt)
    later = second.receipt.body
    for change in ({"seq": later.seq}, {"index": later.index}, {"seq": later.seq + 1}, {"index": later.index + 1}):
        earlier = dataclasses.replace(first.receipt, body=dataclasses.replace(first.receipt.body, **change))
        with pytest.raises(LedgerError, match="does not come after this account's previous one"):
            check_answer(*rest, earlier)


@pytest.mark.parametrize("minutes", [-1, 0, 1])
def test_a_record_has_a_time_of_its_window(bench: Any, minutes: int) -> None:
    """The first and the last minute are taken, those beside them refused."""
    opened, over = NOW // 60 * 60, bench.provider.manifest.policy.ends(NOW // 60 * 60)
    client = bench.client()
    bench.provider.record_time = opened + 60 * minutes
    if minutes < 0:
        with pytest.raises(AttestationError, match=f"states the time {opened - 60}, its window goes from {opened} to"):
            client.ask("json")
        return
    assert client.ask("json").record.time == opened + 60 * minutes
    bench.provider.record_time = over // 60 * 60
    assert client.ask("csv").record.time <= over
    bench.provider.record_time = over // 60 * 60 + 60
    with pytest.raises(AttestationError, match=f"to {over}: no audit passes it"):
        client.ask("xml")


def test_a_receipt_of_another_log_than_the_manifest_s_is_refused_as_that(bench: Any) -> None:
    client = bench.client()
    result = client.ask("json")
    other = NoteSigner("other.example/log", Ed25519PrivateKey.generate()).verifier
    manifest = bench.provider.manifest
    check_receipt(manifest, client._log, result.record, None, result.receipt)
    with pytest.raises(LedgerError, match=r"the window is kept in the log .*, the pinned log key is of 'other"):
        check_receipt(manifest, other, result.record, None, result.receipt)


@pytest.mark.parametrize(
    ("changes", "error", "why"),
    [
        ({"ctr": 5}, BudgetError, "used its 4 queries"),
        ({"nonce": b"n" * 15}, AttestationError, "16 bytes"),
        ({"nonce": b""}, AttestationError, "16 bytes"),
        ({"ctr": 0}, AttestationError, "first request"),
        ({"ctr": 1}, AttestationError, "first request"),
        ({"last_receipt": NO_RECEIPT}, AttestationError, "first request"),
    ],
)
def test_what_is_never_signed(parts: dict[str, Any], changes: dict[str, Any], error: type[Exception], why: str) -> None:
    with pytest.raises(error, match=why):
        build_request(**parts, **{**GOOD, **changes})


def test_embeddings_as_bytes() -> None:
    e = [0, 1, -1, 127, -127, -128]
    assert decode_embedding(encode_embedding(e)) == e
    for odd in (128, -129):
        with pytest.raises(AttestationError, match="int8"):
            encode_embedding([odd])


def test_circuit_classes_are_this_installation_s_own(bench: Any) -> None:
    policy = bench.provider.manifest.policy
    for name, cls in load_classes().items():
        named = dataclasses.replace(policy, class_name=name, class_digest=class_digest(cls))
        assert known_class(named) == cls
        with pytest.raises(PolicyError, match="differs from this installation's"):
            known_class(dataclasses.replace(named, class_digest=bytes(32)))
    with pytest.raises(PolicyError, match="which this installation lacks"):
        known_class(dataclasses.replace(policy, class_name="huge"))
    with pytest.raises(PolicyError, match=r"ragseal 0\.3\.0 was the last that had it"):
        known_class(dataclasses.replace(policy, class_name="base"))

# SPDX-License-Identifier: GPL-3.0-or-later
"""An answer is for the account that asked: sealed to a key whose private half stays in its folder.  SPEC B.4."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from ragseal.client.receipts import export, kept
from ragseal.kernel import signature
from ragseal.kernel.attestation import (
    Answer,
    Openings,
    Receipt,
    SealedAnswer,
    SignedRequest,
    open_answer,
    sealed_digest,
)
from ragseal.kernel.errors import AttestationError, AuditError, EncodingError, TransportError
from ragseal.kernel.sealing import public_of, seal
from ragseal.kernel.transcript import tagged_hash

Lie = Callable[[Any, SealedAnswer], SealedAnswer]


def about(answer: SealedAnswer) -> bytes:
    return tagged_hash("seal-info", answer.record.digest())


def delivering(bench: Any, answer: SealedAnswer, sealed: bytes) -> SealedAnswer:
    """Other sealed bytes under a receipt that the provider has signed for exactly them."""
    body = dataclasses.replace(answer.receipt.body, sealed_digest=sealed_digest(sealed))
    receipt = Receipt(body, bench.provider.sign_receipt(body), answer.receipt.path)
    return SealedAnswer(answer.record, sealed, receipt)


def flipped(data: bytes, at: int) -> bytes:
    at %= len(data)
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def openings_of(bench: Any) -> bytes:
    """The openings of the answer that the provider made last."""
    return Answer.decode(list(bench.provider.answers.values())[-1]).openings.encode()


def to_another_key(bench: Any, answer: SealedAnswer) -> SealedAnswer:
    return delivering(bench, answer, seal(public_of(b"z" * 32), b"e" * 32, about(answer), openings_of(bench)))


def about_another_record(bench: Any, answer: SealedAnswer) -> SealedAnswer:
    return delivering(bench, answer, seal(bench.provider.seal_key, b"e" * 32, bytes(32), openings_of(bench)))


def sealed_twice(bench: Any, answer: SealedAnswer) -> SealedAnswer:
    """The true openings for the right key, in another sealing than the one that the receipt is for."""
    again = seal(bench.provider.seal_key, b"e" * 32, about(answer), openings_of(bench))
    assert again != answer.sealed
    return dataclasses.replace(answer, sealed=again)


def no_openings(bench: Any, answer: SealedAnswer) -> SealedAnswer:
    return delivering(bench, answer, seal(bench.provider.seal_key, b"e" * 32, about(answer), b"not openings"))


def others(bench: Any, answer: SealedAnswer) -> SealedAnswer:
    """Other openings, properly sealed, under a receipt whose openings_digest is still that of the true ones."""
    openings = Openings.decode(openings_of(bench))
    lied = dataclasses.replace(openings, t_salt=openings.t_salt ^ 1).encode()
    return delivering(bench, answer, seal(bench.provider.seal_key, b"e" * 32, about(answer), lied))


def another_receipt(bench: Any, answer: SealedAnswer) -> SealedAnswer:
    signed = delivering(bench, answer, flipped(answer.sealed, 40))
    return dataclasses.replace(signed, sealed=answer.sealed)


LIES: dict[str, tuple[Lie, type[AuditError], str]] = {
    "to another key": (to_another_key, AttestationError, "does not open with this request's key"),
    "about another record": (about_another_record, AttestationError, "does not open with this request's key"),
    "a flipped byte": (
        lambda b, a: dataclasses.replace(a, sealed=flipped(a.sealed, 40)),
        AttestationError,
        "receipt is for other sealed openings",
    ),
    "a flipped byte that is signed for": (
        lambda b, a: delivering(b, a, flipped(a.sealed, 40)),
        AttestationError,
        "does not open",
    ),
    "a flipped byte of the ephemeral key": (
        lambda b, a: delivering(b, a, flipped(a.sealed, 3)),
        AttestationError,
        "does not open",
    ),
    "another sealing of the true openings": (sealed_twice, AttestationError, "receipt is for other sealed openings"),
    "a receipt for other sealed bytes": (another_receipt, AttestationError, "receipt is for other sealed openings"),
    "other openings": (others, AttestationError, "not those that the record commits to"),
    "no openings at all": (no_openings, EncodingError, "not a openings message"),
    "nothing": (lambda b, a: delivering(b, a, b""), AttestationError, "does not open"),
    "cut": (lambda b, a: delivering(b, a, a.sealed[:-1]), AttestationError, "does not open"),
}


@pytest.mark.parametrize("lie", LIES)
def test_what_is_not_sealed_for_this_request_is_refused(bench: Any, lie: str) -> None:
    tell, kind, why = LIES[lie]
    client = bench.client()
    client.ask("json")
    before = bench.snapshot()
    bench.provider.tamper = lambda m: tell(bench, m) if isinstance(m, SealedAnswer) else m
    with pytest.raises(kind, match=why) as refused:
        client.ask("csv")
    assert "evidence saved in" in str(refused.value)
    (bundle,) = bench.evidence()
    (received,) = bundle.glob("*-received-answer.bin")
    (sent,) = bundle.glob("*-sent-request.bin")
    delivered = SealedAnswer.decode(received.read_bytes())
    assert delivered.record.signed == SignedRequest.decode(sent.read_bytes())
    after = bench.snapshot()
    assert {n: d for n, d in after.items() if not n.endswith("pending")} == before  # no receipt, no answer was kept
    pending = client.state.windows()[0].pending()
    assert pending is not None
    assert pending.signed.encode() == sent.read_bytes()
    bench.provider.tamper = lambda message: message
    result = bench.client().ask("csv")  # exactly these bytes again, and now an answer
    assert result.record.signed == pending.signed
    assert result.record.signed.request.ctr == 2


def test_every_flipped_byte_of_a_sealed_answer_is_refused(bench: Any) -> None:
    client = bench.client()
    client.ask("json")
    memory = client.state.windows()[0]
    secret = memory.exchange(1).seal_secret
    answer = bench.provider.delivered(memory.answer(1))
    assert open_answer(answer, secret) == memory.answer(1)
    for at in range(0, len(answer.sealed), 31):
        with pytest.raises(AttestationError, match="other sealed openings"):
            open_answer(dataclasses.replace(answer, sealed=flipped(answer.sealed, at)), secret)
        with pytest.raises(AttestationError, match="does not open"):
            open_answer(delivering(bench, answer, flipped(answer.sealed, at)), secret)


def everything_that_leaves(bench: Any) -> bytes:
    """What the provider and its ledger were sent, and what an account hands on or keeps as evidence."""
    for one in kept(bench.state):
        export(one, bench.state.parent / "exported")
    files = [p for folder in (bench.state / "evidence", bench.state.parent / "exported") for p in folder.rglob("*")]
    return b"".join([*bench.provider.sent, *(p.read_bytes() for p in files if p.is_file())])


def test_the_private_half_of_a_seal_key_never_leaves_the_folder(bench: Any, outage: Any) -> None:
    client = bench.client()
    client.ask("json")
    bench.provider.tamper = lambda m: to_another_key(bench, m) if isinstance(m, SealedAnswer) else m
    with pytest.raises(AttestationError):
        client.ask("csv")
    bench.provider.tamper = lambda message: message
    client.ask("csv")
    bench.provider.on_call = outage("retrieve")
    with pytest.raises(TransportError):
        client.ask("xml")
    memory = client.state.windows()[0]
    exchanges = [memory.exchange(1), memory.exchange(2), memory.pending()]
    left = everything_that_leaves(bench)
    assert len(bench.evidence()) == 1
    for exchange in exchanges:
        assert exchange.signed.encode() in left  # the search would find what is there
        assert exchange.seal_secret not in left
        assert exchange.seal_secret.hex().encode() not in left
        assert exchange.seal_secret.hex() not in repr(exchange)
        assert str(exchange.seal_secret) not in repr(exchange)
    for path in memory.folder.iterdir():
        assert path.stat().st_mode & 0o077 == 0
        data = path.read_bytes()
        for exchange in exchanges:  # in the files of its own request, and in none that is exported
            assert (exchange.seal_secret in data) == (exchange.encode() == data)


def test_every_request_has_a_key_of_its_own(bench: Any) -> None:
    client = bench.client()
    keys = {client.ask(word).record.signed.request.seal_key for word in ("a", "b", "c", "d")}
    bench.provider.open("w2")
    keys |= {client.ask(word).record.signed.request.seal_key for word in ("a", "b")}
    assert len(keys) == 6


@pytest.mark.parametrize("answered", [False, True], ids=["lost-on-the-way-there", "lost-on-the-way-back"])
def test_after_a_crash_the_kept_secret_opens_the_same_bytes(bench: Any, answered: bool) -> None:
    client = bench.client()
    retrieve = bench.provider.retrieve
    seen: list[Any] = []

    def lost(*sent: Any) -> Any:
        seen.append(sent)
        if answered:
            seen.append(retrieve(*sent))
        raise TransportError("lost")

    bench.provider.retrieve = lost
    with pytest.raises(TransportError):
        client.ask("json")
    pending = client.state.windows()[0].pending()
    assert pending is not None
    assert public_of(pending.seal_secret) == pending.signed.request.seal_key
    bench.provider.retrieve = lambda *sent: seen.append(sent) or seen.append(retrieve(*sent)) or seen[-1]
    result = bench.client().ask("json")  # a new process: nothing but the folder is left
    assert result.record.signed == pending.signed
    assert seen[0] == seen[-2]  # the same request, the same second signature
    if answered:
        assert seen[1].answer == seen[-1].answer  # and for it the same sealed bytes
    assert open_answer(SealedAnswer.decode(seen[-1].answer), pending.seal_secret).receipt == result.receipt


def test_what_stands_in_the_ledger_fetches_nothing(bench: Any) -> None:
    """A record holds the request with its signature: neither is the signature that Retrieve takes."""
    client = bench.client()
    signed = client.ask("json").record.signed
    own, stranger = client.state.key, bench.client().state.key
    signed.verify_retrieval(own.public, own.sign("retrieve", signed.encode()))
    for proof in (
        b"",
        bytes(64),
        signed.signature,
        own.sign("request", signed.encode()),
        own.sign("retrieve", signed.request.encode()),
    ):
        with pytest.raises(AttestationError, match="retrieve signature does not hold"):
            signed.verify_retrieval(own.public, proof)
        with pytest.raises(AttestationError):
            bench.provider.retrieve(signed.encode(), proof, 0)
    assert stranger.public == own.public
    other = signature.sign(bench.provider.key, "retrieve", signed.encode())
    with pytest.raises(AttestationError, match="retrieve signature does not hold"):
        signed.verify_retrieval(own.public, other)

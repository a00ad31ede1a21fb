# SPDX-License-Identifier: GPL-3.0-or-later
"""A provider that signs and logs its lies, before the signature, in answers and about windows.  SPEC B."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel import signature
from ragseal.kernel.attestation import Answer, Openings, Prepared, Receipt, Record, SignedRequest
from ragseal.kernel.commitment import Membership, SignedManifest, embedding_commitment
from ragseal.kernel.errors import AttestationError, AuditError, CommitmentError, LedgerError
from ragseal.kernel.noise_class import NoiseClass
from ragseal.kernel.slot_text import NO_METADATA
from ragseal.kernel.statements import stated_of
from ragseal.ledger.checkpoint import Checkpoint, open_checkpoint
from ragseal.ledger.note import NoteSigner

# --- a provider that signs and logs its lies -------------------------------------------------------------------------


def relogged(bench: Any, answer: Answer, record: Record | None = None, openings: Openings | None = None) -> Answer:
    """The answer with other parts, newly logged where the record changed, and freshly signed."""
    record = answer.record if record is None else record
    openings = answer.openings if openings is None else openings
    made: Answer = bench.provider.receipt(record, openings, bench.provider.append(record))
    return made


def resigned(bench: Any, answer: Answer, **changes: Any) -> Answer:
    body = dataclasses.replace(answer.receipt.body, **changes)
    return Answer(answer.record, answer.openings, Receipt(body, bench.provider.sign_receipt(body), answer.receipt.path))


def returning(bench: Any, answer: Answer, ids: list[int]) -> Answer:
    """Any list of slots with genuine texts and a commitment to exactly that list."""
    slots = tuple(bench.provider.slot(i) for i in ids)
    return committed(bench, answer, slots)


def committed(bench: Any, answer: Answer, slots: tuple[Any, ...]) -> Answer:
    commitment = stated_of(bench.provider_class).lists(99, Openings(99, slots).returned(), 1)
    return relogged(bench, answer, dataclasses.replace(answer.record, t_commits=commitment), Openings(99, slots))


def with_first(slots: tuple[Any, ...], **changes: Any) -> tuple[Any, ...]:
    return (dataclasses.replace(slots[0], **changes), *slots[1:])


def with_flags(bench: Any, answer: Answer, flag: bool) -> Answer:
    """After a record of flagged slots and another: every flag the same, every text withheld."""
    honest = returning(bench, answer, [3, 4, 70])
    assert {one.flag for one in honest.openings.slots} == {True, False}
    slots = tuple(dataclasses.replace(one, flag=flag, texts=()) for one in honest.openings.slots)
    return relogged(bench, honest, openings=dataclasses.replace(honest.openings, slots=slots))


def stale_checkpoint(bench: Any, answer: Answer) -> Answer:
    note = bench.provider.log.checkpoint_at(answer.receipt.body.index)
    return resigned(bench, answer, checkpoint=note)


def other_log(bench: Any, answer: Answer, name: str, key: bytes, root: bytes | None = None) -> Answer:
    signer = NoteSigner(name, Ed25519PrivateKey.from_private_bytes(key))
    now = open_checkpoint(answer.receipt.body.checkpoint, bench.provider.log_signer.verifier).checkpoint
    note = Checkpoint(name, now.size, now.root if root is None else root).sign(signer)
    return resigned(bench, answer, checkpoint=note)


def earlier_request(bench: Any, answer: Answer) -> Answer:
    old = next(iter(bench.provider.answers))
    return relogged(bench, answer, dataclasses.replace(answer.record, signed=SignedRequest.decode(old)))


def forged_request(bench: Any, answer: Answer) -> Answer:
    signed = dataclasses.replace(answer.record.signed, signature=bytes(64))
    return relogged(bench, answer, dataclasses.replace(answer.record, signed=signed))


def by_another_key(bench: Any, answer: Answer) -> Answer:
    key = Ed25519PrivateKey.from_private_bytes(b"q" * 32)
    body = answer.receipt.body
    return dataclasses.replace(
        answer,
        receipt=Receipt(body, signature.sign(key, "receipt", body.encode()), answer.receipt.path),
    )


def same_seq(bench: Any, answer: Answer) -> Answer:
    return relogged(bench, answer, dataclasses.replace(answer.record, seq=0))


LIES: dict[str, tuple[Callable[[Any, Answer], Answer], str]] = {
    "another request of mine": (earlier_request, "a request different from the one this account signed"),
    "a forged request signature": (forged_request, "a request different from the one this account signed"),
    "C_y the identity": (
        lambda b, a: relogged(b, a, dataclasses.replace(a.record, c_y=bytes(64))),
        "identity",
    ),
    "C_y off the curve": (lambda b, a: relogged(b, a, dataclasses.replace(a.record, c_y=bytes(63) + b"\x05")), "curve"),
    "another commitment": (
        lambda b, a: relogged(b, a, dataclasses.replace(a.record, t_commits=(a.record.t_commits[0] ^ 1,))),
        "not those that the record commits to",
    ),
    "other slots with true texts": (
        lambda b, a: relogged(b, a, openings=Openings(99, tuple(b.provider.slot(i) for i in (0, 50, 119)))),
        "not those that the record commits to",
    ),
    "an order that says who won": (lambda b, a: returning(b, a, [50, 3, 70]), "not strictly increasing"),
    "one slot twice": (lambda b, a: returning(b, a, [3, 3, 70]), "not strictly increasing"),
    "a slot too few": (lambda b, a: returning(b, a, [3, 70]), "returns exactly 3"),
    "a slot too many": (lambda b, a: returning(b, a, [3, 4, 70, 71]), "returns exactly 3"),
    "a slot outside the index": (
        lambda b, a: committed(
            b, a, (b.provider.slot(3), b.provider.slot(4), dataclasses.replace(b.provider.slot(70), slot=120))
        ),
        "outside the index",
    ),
    "another text": (
        lambda b, a: committed(
            b,
            a,
            with_first(
                tuple(b.provider.slot(i) for i in (3, 4, 70)),
                texts=(b.provider.text(3, text="entry 3: something else"),),
            ),
        ),
        "the text of slot 3 is not the one committed",
    ),
    "another id": (
        lambda b, a: committed(
            b, a, with_first(tuple(b.provider.slot(i) for i in (3, 4, 70)), texts=(b.provider.text(3, id="d4"),))
        ),
        "the text of slot 3 is not the one committed",
    ),
    "another source": (
        lambda b, a: committed(
            b,
            a,
            with_first(
                tuple(b.provider.slot(i) for i in (3, 4, 70)),
                texts=(b.provider.text(3, metadata=b.provider.text(4).content.metadata),),
            ),
        ),
        "the text of slot 3 is not the one committed",
    ),
    "metadata withheld": (
        lambda b, a: committed(
            b,
            a,
            with_first(
                tuple(b.provider.slot(i) for i in (3, 4, 70)), texts=(b.provider.text(3, metadata=NO_METADATA),)
            ),
        ),
        "the text of slot 3 is not the one committed",
    ),
    "a text withheld": (
        lambda b, a: committed(b, a, with_first(tuple(b.provider.slot(i) for i in (3, 4, 70)), texts=())),
        "flags are set of slots whose texts are withheld: 3; the policy has no guard",
    ),
    "a true text without its flag": (
        lambda b, a: committed(b, a, with_first(tuple(b.provider.slot(i) for i in (3, 4, 70)), flag=False)),
        "slot 3 comes with a text although its flag is not set",
    ),
    "an empty slot with a text": (
        lambda b, a: committed(
            b,
            a,
            with_first(
                tuple(b.provider.slot(i) for i in (70, 71, 72)),
                flag=True,
                texts=(b.provider.text(70, text="smuggled"),),
            ),
        ),
        "the text of slot 70 is not the one committed",
    ),
    "an empty text for an empty slot": (
        lambda b, a: committed(
            b,
            a,
            with_first(tuple(b.provider.slot(i) for i in (70, 71, 72)), flag=True, texts=(b.provider.text(70),)),
        ),
        "the text of slot 70 is not the one committed",
    ),
    "flags lowered after the record": (
        lambda b, a: with_flags(b, a, False),
        "not those that the record commits to",
    ),
    "flags raised after the record": (
        lambda b, a: with_flags(b, a, True),
        "not those that the record commits to",
    ),
    "another slot's text": (
        lambda b, a: committed(b, a, with_first(tuple(b.provider.slot(i) for i in (3, 4, 70)), slot=2)),
        "the text of slot 2 is not the one committed",
    ),
    "a receipt by another key": (by_another_key, "not signed by the window key"),
    "a receipt for another request": (
        lambda b, a: resigned(b, a, request_digest=bytes(32)),
        "receipt is for another request",
    ),
    "a receipt for another record": (lambda b, a: resigned(b, a, record_digest=bytes(32)), "for another record"),
    "a receipt with another seq": (lambda b, a: resigned(b, a, seq=a.record.seq + 1), "the receipt says seq"),
    "a receipt for other openings": (lambda b, a: resigned(b, a, openings_digest=bytes(32)), "for other openings"),
    "a receipt for other sealed bytes": (
        lambda b, a: resigned(b, a, sealed_digest=bytes(32)),
        "for other sealed openings",
    ),
    "a receipt at another index": (
        lambda b, a: resigned(b, a, index=a.receipt.body.index - 1),
        "does not hold the record",
    ),
    "a checkpoint before the record": (stale_checkpoint, "does not hold the record"),
    "a checkpoint of another key": (
        lambda b, a: other_log(b, a, b.provider.log_signer.name, b"z" * 32),
        "checkpoint does not hold",
    ),
    "a checkpoint of another log": (lambda b, a: other_log(b, a, "else.example/log", b"l" * 32), "checkpoint does not"),
    "a checkpoint with another root": (
        lambda b, a: other_log(b, a, b.provider.log_signer.name, b"l" * 32, bytes(32)),
        "does not hold the record",
    ),
    "no checkpoint": (lambda b, a: resigned(b, a, checkpoint=b"none"), "checkpoint does not hold"),
    "a record out of order": (same_seq, "does not come after"),
}


@pytest.mark.parametrize("lie", LIES)
def test_lies_that_are_signed_and_logged(bench: Any, lie: str) -> None:
    tell, why = LIES[lie]
    client = bench.client()
    client.ask("json")
    before = bench.snapshot()
    bench.provider.tamper = lambda m: tell(bench, m) if isinstance(m, Answer) else m
    with pytest.raises(AuditError, match=why):
        client.ask("csv")
    assert len(bench.evidence()) == 1
    after = bench.snapshot()
    assert {n: d for n, d in after.items() if not n.endswith("pending")} == before
    bench.provider.tamper = lambda message: message
    result = bench.client().ask("csv")
    assert result.record.signed.request.ctr == 2


def test_an_empty_slot_is_returned_and_proven(bench: Any) -> None:
    client = bench.client()
    bench.provider.tamper = lambda m: returning(bench, m, [3, 70, 71]) if isinstance(m, Answer) else m
    result = client.ask("json")
    assert result.returned == (3, 70, 71)
    assert result.slots == (3,)


# --- before anything is signed ---------------------------------------------------------------------------------------


def recommitted(bench: Any, prepared: Prepared, e: list[int]) -> Prepared:
    c_e = embedding_commitment(bench.provider.group, bench.provider.generators[: 64 * (len(e) + 1)], e, 0)
    data = bytes(x % 256 for x in e)
    return dataclasses.replace(prepared, embedding=data, c_e=c_e, blinder=0)


def entries(prepared: Prepared) -> list[int]:
    return [x - 256 if x > 127 else x for x in prepared.embedding]


PREPARED_LIES: dict[str, tuple[Callable[[Any, Prepared], Prepared], str]] = {
    "another e within one": (
        lambda b, p: recommitted(b, p, [entries(p)[0] - 1, *entries(p)[1:]]),
        "an embedding different from the one this client computed",
    ),
    "a long e": (lambda b, p: recommitted(b, p, [127] * 16), "norm"),
    "e = 0": (lambda b, p: dataclasses.replace(p, embedding=bytes(16)), "norm"),
    "an e of another dimension": (lambda b, p: recommitted(b, p, entries(p)[:-1]), "15 entries"),
    "an entry of -128": (lambda b, p: recommitted(b, p, [-128] + [0] * 15), "outside"),
    "C_e the identity": (lambda b, p: dataclasses.replace(p, c_e=bytes(64)), "identity|point"),
    "another tenant's index": (
        lambda b, p: dataclasses.replace(p, index_digest=b.provider.index("other").digest()),
        "an index version different",
    ),
    "another request's answer": (lambda b, p: dataclasses.replace(p, request_id=bytes(16)), "a request id different"),
    "another blinder": (lambda b, p: dataclasses.replace(p, blinder=p.blinder + 1), "does not open"),
}


@pytest.mark.parametrize("lie", PREPARED_LIES)
@pytest.mark.parametrize("embedder", [True, False])
def test_lies_before_the_signature(bench: Any, lie: str, embedder: bool) -> None:
    tell, why = PREPARED_LIES[lie]
    client = bench.client() if embedder else bench.client(embedder=None)
    bench.provider.tamper = lambda m: tell(bench, m) if isinstance(m, Prepared) else m
    if lie == "another e within one" and not embedder:
        assert not client.ask("json").checked  # nothing to compare with: the record says so
        return
    with pytest.raises(AuditError, match=why):
        client.ask("json")
    assert "retrieve" not in bench.provider.calls  # nothing was signed
    assert len(bench.evidence()) == 1
    assert not any(name.endswith("pending") for name in bench.snapshot())


def test_accepting_an_unchecked_embedding_is_said_in_the_record(bench: Any) -> None:
    tell, _ = PREPARED_LIES["another e within one"]
    bench.provider.tamper = lambda m: tell(bench, m) if isinstance(m, Prepared) else m
    result = bench.client(accept_unchecked=True).ask("json")
    assert not result.checked
    assert not result.record.signed.request.checked


# --- the window ------------------------------------------------------------------------------------------------------


def line(provider: Any, name: str) -> Membership:
    """An account's line, shown to whoever asks."""
    at, mine = next((i, a) for i, a in enumerate(provider.accounts) if a.name == name)
    return Membership(mine, at, tuple(provider.registry.path(at)))


def test_windows_that_are_not_for_this_account(bench: Any) -> None:
    provider, mine = bench.provider, bench.provider.people[0]
    others = provider.people[1:]
    client = bench.client()

    provider.people = others
    provider.open("gone")
    with pytest.raises(AttestationError, match="no account of this name and key"):
        client.ask("json")
    assert bench.evidence() == []  # a refusal is an answer, not a lie
    provider.people = [dataclasses.replace(mine, public_key=others[0].public_key), others[1]]
    provider.open("stolen")
    provider.account = lambda canonical, signed: line(provider, "alice").encode()
    with pytest.raises(CommitmentError, match="a public key different"):
        client.ask("json")
    del provider.account
    provider.people = [mine, *others]
    provider.open("root", registry_root=bytes(32))
    with pytest.raises(CommitmentError, match="line is not in the registry"):
        client.ask("json")
    provider.open("count", accounts=9)
    with pytest.raises(CommitmentError, match="line is not in the registry"):
        client.ask("json")
    provider.open("log", origin="else.example/log")
    with pytest.raises(CommitmentError, match="belongs to the log"):
        client.ask("json")
    provider.open("signed")
    provider.signed = SignedManifest(provider.manifest, bytes(64))
    with pytest.raises(CommitmentError, match="not signed by the provider key that it names"):
        client.ask("json")
    assert len(bench.evidence()) == 5
    assert "prepare" not in provider.calls
    provider.seal()
    client.ask("json")


def test_another_provider_key_and_two_manifests_of_one_window(bench: Any) -> None:
    client = bench.client()
    client.ask("json")
    provider, key = bench.provider, bench.provider.key
    provider.key = Ed25519PrivateKey.from_private_bytes(b"q" * 32)
    provider.open("w2")
    before = bench.snapshot()
    with pytest.raises(CommitmentError, match=r"the manifest is by the provider key .* has pinned"):
        client.ask("csv")
    assert bench.snapshot() == before
    provider.key = key
    provider.open("w1", n_max=9)
    with pytest.raises(CommitmentError, match="two manifests for window"):
        client.ask("csv")
    assert len(bench.evidence()) == 2
    provider.open("w3")
    client.ask("csv")


def test_a_class_that_this_installation_does_not_have(bench: Any) -> None:
    from ragseal.kernel.errors import PolicyError

    def lacking(policy: Any) -> NoiseClass:
        raise PolicyError("unknown class")

    with pytest.raises(PolicyError, match="unknown class"):
        bench.client(class_of=lacking).ask("json")


def test_log_key_of_another_log(bench: Any) -> None:
    other = NoteSigner("else.example/log", Ed25519PrivateKey.from_private_bytes(b"l" * 32))
    with pytest.raises((CommitmentError, LedgerError), match="belongs to the log"):
        bench.client(log_key=other.verifier.vkey()).ask("json")

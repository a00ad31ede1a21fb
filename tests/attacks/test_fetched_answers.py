# SPDX-License-Identifier: GPL-3.0-or-later
"""An account asks for what it paid for and lacks: lies of a provider, and strangers with what others have sent.

SPEC B.4.11 to B.4.13.  The account has its key alone, so a record is its own by its signature or not at all.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragseal.client import Client
from ragseal.client.link import Retrieved
from ragseal.client.receipts import export, kept
from ragseal.client.remote import ProviderOverGrpc
from ragseal.client.window import windows_of
from ragseal.kernel import signature
from ragseal.kernel.attestation import AnswerAsk, Receipt, SealedAnswer, SignedRequest, open_resealed, reseal_openings
from ragseal.kernel.encoding import peek_tag
from ragseal.kernel.errors import AttestationError, AuditError, BudgetError, ConfigurationError
from ragseal.kernel.sealing import public_of
from ragseal.prover.base.limits import REPEATS
from ragseal.prover.storage import retirement
from ragseal.prover.storage.window_keys import load_window_key
from ragseal.runtime.tls import BY_DEFAULT
from ragseal.verifier.evidence.evidence import read_receipt
from tests.attacks.checks import (
    FETCHED_AT_A_RATE,
    FETCHED_BY_ITS_ACCOUNT,
    FETCHED_CHAIN,
    FETCHED_FIRST,
    FETCHED_NEXT,
    FETCHED_SIGNED,
    FETCHED_WHILE_KEPT,
    without,
)
from tests.attacks.removal import Check
from tests.simulator import provider as scene
from tests.simulator.clients import client_of
from tests.simulator.live import Live, live

pytestmark = pytest.mark.slow

ME = b"m" * 32  #: private half of the key of an ask


class Scene:
    """A provider with one window, in which nobody has asked; ``older`` is alice's folder from before."""

    def __init__(self, one: Live) -> None:
        self.live, self.digest = one, one.window.digest
        self.older = self.copied("older")

    def copied(self, name: str) -> Path:
        return Path(shutil.copytree(self.live.account(), self.live.folder / name))

    def ask(self, *questions: str, name: str = "alice") -> None:
        with self.live.client(name=name, clock=self.live.clock) as client:
            for one in questions:
                client.ask(one)

    def answer_ask(self, ctr: int = 1, name: str = "alice", private: bytes = ME) -> AnswerAsk:
        pseudonym = scene.pseudonym_of(self.live.provider.state, self.digest, name)
        return AnswerAsk(self.digest, pseudonym, ctr, public_of(private))

    def send(self, ask: AnswerAsk, signer: str = "alice", purpose: str = "retrieve") -> bytes:
        body = ask.encode()
        link = ProviderOverGrpc(self.live.address, BY_DEFAULT, 20.0)
        try:
            return link.retrieve(body, signature.sign(scene.account_key(signer), purpose, body), 0).answer
        finally:
            link.close()

    def client(self, folder: Path, link: Lying | None = None) -> Client:
        one = self.live
        return client_of(
            link or one.address, folder, one.log_key, scene.TrigramEmbedder(), ledger=one.address, timeout=20.0,
            clock=one.clock,
        )  # fmt: skip


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Scene]:
    with live(tmp_path) as one:
        yield Scene(one)


class Lying(ProviderOverGrpc):
    """A provider that shows the answer to another ask than alice's, sealed for hers."""

    def __init__(self, made: Scene, other: Callable[[AnswerAsk], tuple[AnswerAsk, str]]) -> None:
        super().__init__(made.live.address, BY_DEFAULT, 20.0)
        self.made, self.other = made, other
        self.signed: list[bytes] = []

    def retrieve(self, canonical: bytes, *rest: Any) -> Retrieved:
        if peek_tag(canonical) == SignedRequest.TAG:
            self.signed.append(canonical)
        if peek_tag(canonical) != AnswerAsk.TAG:
            return super().retrieve(canonical, *rest)
        ask = AnswerAsk.decode(canonical)
        about, name = self.other(ask)
        sealed = SealedAnswer.decode(self.made.send(about, name))
        openings = open_resealed(about, sealed, ME).openings
        made = replace(sealed, sealed=reseal_openings(ask, sealed.record, openings, b"any"))
        return Retrieved(made.encode(), ())


# --- what the provider shows -----------------------------------------------------------------------------------------


def refused(made: Scene, link: Lying | None, text: str) -> None:
    """Nothing is kept or signed, and there is evidence."""
    with made.client(made.older, link) as client:
        before = client.state.windows()[0].answered if client.state.windows() else 0
        with pytest.raises(AuditError, match=f"{text}.*evidence saved"):
            client.ask("and one more")
        (window,) = client.state.windows()
        assert (window.answered, window.pending()) == (before, None)


def test_a_record_that_the_accounts_key_has_not_signed_is_refused(made: Scene) -> None:
    """The provider has entered it under the account's pseudonym: an audit fails, and the account takes no answer."""
    serving = made.live.server.serving
    alice = scene.Asker("alice", serving)

    async def forged() -> None:
        message = alice.message("what nobody asked")
        good = alice.request(message, await alice.prepare(message))
        key = scene.account_key("bob")
        await alice.retrieve(SignedRequest(good.request, signature.sign(key, "request", good.request.encode())))

    with without(Check(SignedRequest, "verify")):
        made.live.call(forged())
    refused(made, None, "as this account's that its key has not signed")
    with without(FETCHED_SIGNED), made.client(made.older) as client:
        assert client.ask("and one more").record.signed.request.ctr == 2


def test_a_record_of_somebody_else_is_refused(made: Scene) -> None:
    made.ask("report 1", name="bob")
    made.ask("report 2")
    link = Lying(made, lambda ask: (made.answer_ask(ask.ctr, "bob"), "bob"))
    refused(made, link, "as this account's that its key has not signed")
    with without(FETCHED_SIGNED):
        refused(made, Lying(made, link.other), "was asked for request 1 of window 'w1' and shows request 1")


def test_a_gap_is_refused(made: Scene) -> None:
    """With both checks removed nothing but the folder's own order of files stands in the way."""
    made.ask("report 1", "report 2")
    other = lambda ask: (made.answer_ask(ask.ctr + 1), "alice")  # noqa: E731
    refused(made, Lying(made, other), "was asked for request 1 of window 'w1' and shows request 2")
    with without(FETCHED_NEXT):
        refused(made, Lying(made, other), "request 1 of this account acknowledges a receipt different")
        with (
            without(FETCHED_CHAIN),
            made.client(made.older, Lying(made, other)) as client,
            pytest.raises(ConfigurationError, match="the next answer has number 1"),
        ):
            client.ask("and one more")


def test_fewer_records_than_the_provider_counts_are_told(made: Scene) -> None:
    made.ask("report 1", "report 2")

    class Hiding(Lying):
        def retrieve(self, canonical: bytes, *rest: Any) -> Retrieved:
            return Retrieved(b"", ())

    with made.client(made.older, Hiding(made, lambda ask: (ask, "alice"))) as client:
        with pytest.raises(AttestationError, match="has asked 2 times in window 'w1', and shows 0 of these"):
            client.ask("and one more")
        assert client.state.windows()[0].pending() is None


def test_two_receipts_for_one_number_are_refused_and_no_audit_passes_them(made: Scene) -> None:
    """Two copies were shown two histories: the second one notices, keeps what it has, and an auditor gets both."""
    made.ask("report 1")
    shutil.rmtree(made.older)
    made.older = made.copied("older")
    (window,) = windows_of(made.older)
    first = window.answer(1)
    key = load_window_key(made.live.provider.state, made.digest)
    body = replace(first.receipt.body, sealed_digest=bytes(32))
    other = Receipt(body, signature.sign(key, "receipt", body.encode()), first.receipt.path)
    (window.folder / "00000001.answer").write_bytes(replace(first, receipt=other).encode())
    made.ask("report 2")
    refused(made, None, "request 2 of this account acknowledges a receipt different from the one that is kept here")
    made.live.clock.now += 600
    made.live.end_window()
    shown = made.live.folder / "shown"
    files = []
    for number, folder in enumerate((made.older, made.live.account())):
        for one in kept(folder):
            path = export(one, shown / str(number))
            files.append(read_receipt(f"{number}-{path.name}", path.read_bytes()))
    assert made.live.audited(receipts=files[1:]).verdict == "PASS"
    verdict = made.live.audited(receipts=files)
    assert verdict.verdict == "FAIL"
    assert "receipt" in verdict.line()
    with without(FETCHED_CHAIN), made.client(made.older) as client:
        assert len(client.resume().results) == 1


def test_a_forked_log_is_refused(made: Scene, tmp_path: Path) -> None:
    """A copy of the provider's folder goes on by itself: each copy of the account's has asked one of the two."""
    made.ask("report 1")
    made.live.stop()
    shutil.copytree(made.live.folder / "provider", tmp_path / "fork" / "provider", symlinks=True)
    made.live.restart_after_stop()
    made.live.window = made.live.provider.journal.history.windows[made.digest]
    shutil.rmtree(made.older)
    made.older = made.copied("older")
    with live(tmp_path / "fork") as fork:
        fork.clock = made.live.clock
        with client_of(
            fork.address, made.older, fork.log_key, scene.TrigramEmbedder(), timeout=20.0, clock=made.live.clock
        ) as client:
            client.ask("report 2 of the fork")
    made.ask("report 2", "report 3")
    refused(made, None, "acknowledges a receipt different|contradicts the one this account remembers|does not prove")


# --- what is signed ---------------------------------------------------------------------------------------------------


def test_no_number_is_signed_twice_by_a_folder_that_can_know(made: Scene) -> None:
    other = made.copied("other")
    made.ask("report 1", "report 2")

    def numbers(folder: Path) -> list[int]:
        link = Lying(made, lambda ask: (replace(ask, seal_key=public_of(ME)), "alice"))
        with made.client(folder, link) as client:
            client.ask("report 3")
        return sorted({SignedRequest.decode(one).request.ctr for one in link.signed})

    assert numbers(made.older) == [3]
    with without(FETCHED_FIRST):
        assert numbers(other) == [1, 2, 3, 4]


# --- who is given it --------------------------------------------------------------------------------------------------


def test_what_an_account_paid_for_is_given_to_its_key_alone(made: Scene) -> None:
    made.ask("report 1")
    for signer, purpose in (("bob", "retrieve"), ("alice", "request"), ("alice", "account")):
        with pytest.raises(AttestationError, match="retrieve signature"):
            made.send(made.answer_ask(), signer, purpose)
    with pytest.raises(AttestationError, match="registry"):
        made.send(replace(made.answer_ask(), account="a" * 16))
    with without(FETCHED_BY_ITS_ACCOUNT):
        assert made.send(made.answer_ask(), "bob")


def test_a_retrieval_of_a_request_is_none_of_an_answer_ask(made: Scene) -> None:
    """What was sent for the request before does not fetch it for another key."""
    made.ask("report 1")
    signed = kept(made.live.account())[0].answer.record.signed
    proof = signature.sign(scene.account_key("alice"), "retrieve", signed.encode())
    with pytest.raises(AttestationError, match="retrieve signature"):
        made.live.call(made.live.server.serving.attestation.retrieve(made.answer_ask().encode(), proof))


def test_what_is_sent_again_brings_the_same_sealed_bytes(made: Scene) -> None:
    """No key serves two asks, so what two of them brought says nothing together; a replay opens for nobody else."""
    made.ask("report 1")
    (mine,) = kept(made.live.account())
    first, again = made.send(made.answer_ask()), made.send(made.answer_ask())
    other = SealedAnswer.decode(made.send(made.answer_ask(private=b"n" * 32)))
    assert first == again
    sealed = SealedAnswer.decode(first)
    assert sealed.receipt == other.receipt == mine.answer.receipt
    assert sealed.sealed[:32] != other.sealed[:32], "one ephemeral key for two asks"
    assert open_resealed(made.answer_ask(), sealed, ME) == mine.answer
    for ask, private in ((made.answer_ask(), b"n" * 32), (made.answer_ask(2), ME), (made.answer_ask(name="bob"), ME)):
        with pytest.raises(AttestationError, match="does not open"):
            open_resealed(ask, sealed, private)
    assert b"report" not in first


def test_a_key_that_everybody_opens_is_refused(made: Scene) -> None:
    made.ask("report 1")
    ask = made.answer_ask().encode()[:-32] + bytes(32)
    proof = signature.sign(scene.account_key("alice"), "retrieve", ask)
    with pytest.raises(AuditError, match="nothing can be sealed to the request's key"):
        made.live.call(made.live.server.serving.attestation.retrieve(ask, proof))


def test_nobody_has_answers_sealed_without_end(made: Scene) -> None:
    made.ask("report 1")
    serving, ask = made.live.server.serving, made.answer_ask().encode()
    proof = signature.sign(scene.account_key("alice"), "retrieve", ask)

    async def often() -> None:
        for _ in range(20 * REPEATS):
            await serving.attestation.retrieve(ask, proof)

    with pytest.raises(BudgetError, match="what is no next query too often"):
        made.live.call(often())
    made.ask("report 2")  # its next query is answered all the same
    with without(FETCHED_AT_A_RATE):
        made.live.call(asyncio.wait_for(often(), 100))


def test_nothing_of_a_retired_window_is_sealed_again(made: Scene) -> None:
    """Not while it is half purged either."""
    made.ask("report 1")
    made.live.end_window()
    retirement.begin(made.live.provider.state, made.digest, int(made.live.clock.now))
    assert made.send(made.answer_ask(2)) == b"", "that there is none the ledger says"
    with pytest.raises(AttestationError, match="this window is retired"):
        made.send(made.answer_ask())
    with without(FETCHED_WHILE_KEPT):
        assert made.send(made.answer_ask())

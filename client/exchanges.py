# SPDX-License-Identifier: GPL-3.0-or-later
"""One question's messages: Prepare, signed request, sealed answer, each checked before the next.  SPEC B.1 to B.4."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from ragseal.client.account import AccountState
from ragseal.client.attestation import (
    NONCE_BYTES,
    Window,
    build_request,
    check_answer,
    check_budget,
    check_own,
    check_prepared,
    check_time,
    encode_embedding,
)
from ragseal.client.evidence import Evidence
from ragseal.client.history import History, Shown
from ragseal.client.link import ProviderLink, RefusedError, Retrieved, Stage, refusable
from ragseal.client.result import Result, kept_result, make_result
from ragseal.client.retries import Retries
from ragseal.client.versions import Versions
from ragseal.client.window import Exchange, WindowState
from ragseal.embedder import Embedder, quantise
from ragseal.kernel.attestation import (
    Answer,
    AnswerAsk,
    Prepare,
    Prepared,
    SealedAnswer,
    SignedRequest,
    open_answer,
    open_resealed,
)
from ragseal.kernel.bn254 import Group
from ragseal.kernel.commitment import generators
from ragseal.kernel.errors import AttestationError, AuditError, EncodingError, TransportError
from ragseal.kernel.sealing import SEAL_KEY_BYTES, public_of

PACED = Retries(first=0.0, most=5.0, unreached=False)  #: of fetching one of many answers


@dataclass(slots=True)
class PolicySeconds:
    """What policies put between requests and their answers, in all (SPEC A.14.7).  It counts for no time-out."""

    begun: float = 0.0  #: of requests that were sent
    ended: float = 0.0  #: of those, where the answer or a refusal is there

    @contextmanager
    def of(self, seconds: float) -> Iterator[None]:
        """Around one request."""
        self.begun += seconds
        try:
            yield
        finally:
            self.ended += seconds


class BehindError(Exception):
    """The provider has more records of this account than this folder has answers: nothing was signed."""

    def __init__(self, answered: int) -> None:
        """``answered``: records, as the provider says."""
        super().__init__(str(answered))
        self.answered = answered


class Exchanges:
    """Exchanges of one account with one provider.  Belongs to one thread at a time."""

    def __init__(
        self,
        state: AccountState,
        provider: ProviderLink,
        history: History,
        embedder: Embedder | None,
        group: Group,
        evidence: Callable[[WindowState | None], Evidence],
        entropy: Callable[[int], bytes],
        accept_unchecked: bool,
    ) -> None:
        """
        Args:
            evidence: begins the evidence of what is about to be exchanged in a window.
            accept_unchecked: sign also when the provider commits to another e than this client's own.
        """
        self._state, self._provider, self._history = state, provider, history
        self._versions = Versions(history)
        self._embedder, self._group, self._evidence = embedder, group, evidence
        self._entropy, self._accept_unchecked = entropy, accept_unchecked
        self._generators: dict[int, bytes] = {}
        self.policy_seconds = PolicySeconds()

    def begin(self, window: Window, memory: WindowState, stage: Stage, text: str) -> Exchange:
        """Prepare a question and sign its request; it is to be kept before anything else is sent.

        Raises:
            BehindError: the provider has records of this account that this folder lacks: nothing was signed.
            RefusedError: the provider refuses the Prepare, or the window's budget is used up.
            AttestationError, EncodingError, CommitmentError: a check failed.
            TransportError: the provider cannot be reached, or the window is not open yet, or closed.
        """
        if stage == "preparing":
            raise TransportError(f"window {window.manifest.window!r} is not open yet: ask again in a moment")
        if stage == "closed":
            raise TransportError(f"window {window.manifest.window!r} is closed: ask again when the next one is open")
        own = self._own_embedding(text)
        ctr = memory.answered + 1
        refusable(lambda: check_budget(window, ctr, memory.closes))  # as a refusal: the next window may be open already
        prepare = Prepare(
            manifest=window.digest,
            account=window.account.pseudonym,
            request_id=self._entropy(16),
            salt=self._entropy(32),
            query=text,
            embedding=b"" if own is None else encode_embedding(own),
        )
        body = prepare.encode()
        signature = self._state.key.sign("prepare", body)
        evidence = self._evidence(memory)
        evidence.add("sent-prepare", body)
        evidence.add("sent-prepare-signature", signature)
        reply = refusable(lambda: self._provider.prepare(body, signature))
        if reply.answered is not None and reply.answered > memory.answered:
            raise BehindError(reply.answered)
        received = evidence.add("received-prepared", reply.canonical)
        with evidence.on_failure():
            prepared = Prepared.decode(received)
            bases = self._bases(window.manifest.policy.dimension)
            window = self._versions.of(window, memory, prepared.index_digest, prepared.update, evidence)
            checked = check_prepared(self._group, bases, window, prepare, prepared, own)
            if own is not None and not checked and not self._accept_unchecked:
                raise AttestationError(
                    "the provider committed to an embedding different from the one this client computed and sent"
                )
        seal_secret = self._entropy(SEAL_KEY_BYTES)
        request = build_request(
            window,
            prepare,
            prepared,
            ctr=ctr,
            checked=checked,
            nonce=self._entropy(NONCE_BYTES),
            last_receipt=memory.acknowledgement(),
            seal_key=public_of(seal_secret),
        )
        signed = SignedRequest(request, self._state.key.sign("request", request.encode()))
        return Exchange(prepare, signature, prepared, signed, seal_secret)

    def finish(self, window: Window, memory: WindowState, exchange: Exchange) -> Result:
        """Fetch the answer to a signed request, check and keep it.

        Raises:
            RefusedError: the provider refuses it.
            AttestationError, LedgerError, CommitmentError, ProofError, EncodingError: a check failed.
            TransportError: the provider or its ledger cannot be reached.
        """
        mine = exchange.signed
        evidence = self._evidence(memory)
        evidence.add("sent-prepare", exchange.prepare.encode())
        evidence.add("received-prepared", exchange.prepared.encode())
        sent = evidence.add("sent-request", mine.encode())
        received = self._retrieve(window, exchange, sent, evidence)
        evidence.add("received-answer", received.answer)
        with evidence.on_failure():
            answer = open_answer(SealedAnswer.decode(received.answer), exchange.seal_secret)
            self._history.learn(answer.receipt.body.checkpoint, evidence)
            window = self._versions.signed(window, memory, mine.request.index_digest)
            shown = self._checked(window, memory, mine, answer, received, evidence)
        self._history.remember(shown)
        memory.complete(answer)
        return make_result(exchange, answer, self._embedder, window.rules)

    def fetch(self, window: Window, memory: WindowState) -> Result | None:
        """The answer behind the newest one that is kept, checked and kept; None where no request has that number.

        An account lacks it whose folder is an older copy, or whose second copy has asked.  The question that it answers
        is not known here.  SPEC B.4.11.

        Raises:
            RefusedError: the provider does not give it.
            AttestationError, LedgerError, CommitmentError, ProofError, EncodingError: a check failed.
            TransportError: the provider or its ledger cannot be reached.
        """
        ctr, private = memory.answered + 1, self._entropy(SEAL_KEY_BYTES)  # kept nowhere: another ask has another key
        if ctr > window.manifest.policy.n_max:
            return None
        ask = AnswerAsk(window.digest, window.account.pseudonym, ctr, public_of(private))
        evidence = self._evidence(memory)
        sent = evidence.add("sent-answer-ask", ask.encode())
        proof, size = self._state.key.sign("retrieve", sent), self._history.size
        after = window.manifest.policy.answered_by  # of a request that the other copy has under way
        try:
            received = refusable(lambda: PACED.meet(lambda: self._provider.retrieve(sent, proof, size, after)))
        except RefusedError as refusal:
            if isinstance(refusal.reason, EncodingError):  # a provider of release 0.3.0 takes no such ask
                return None
            raise
        if not received.answer:
            return None
        evidence.add("received-answer", received.answer)
        with evidence.on_failure():
            sealed = SealedAnswer.decode(received.answer)
            mine = sealed.record.signed
            check_own(window, self._state.key.public, ctr, memory.acknowledgement(), mine)
            answer = open_resealed(ask, sealed, private)
            evidence.add("received-openings", answer.openings.encode())
            self._history.learn(answer.receipt.body.checkpoint, evidence)
            window = self._versions.of(window, memory, mine.request.index_digest, received.update, evidence)
            shown = self._checked(window, memory, mine, answer, received, evidence)
        self._history.remember(shown)
        memory.keep(answer)
        return kept_result(answer, window.rules)

    def _checked(
        self,
        window: Window,
        memory: WindowState,
        mine: SignedRequest,
        answer: Answer,
        received: Retrieved,
        evidence: Evidence,
    ) -> Shown:
        """All that is checked of an opened answer; gives its checkpoint, of the remembered history."""
        last = memory.last()
        previous = None if last is None else last.receipt
        checkpoint = check_answer(self._group, window, self._history.log, mine, answer, previous)
        check_time(window.manifest.policy, memory.opening_time, answer.record)
        newest = self._history.agrees(checkpoint, evidence, received.consistency)
        return Shown(answer.receipt.body.checkpoint, checkpoint, newest)

    def _retrieve(self, window: Window, exchange: Exchange, sent: bytes, evidence: Evidence) -> Retrieved:
        """The sealed answer.  A provider forgets a Prepare after a while; the same Prepare brings it back."""
        proof, size = self._state.key.sign("retrieve", sent), self._history.size
        after = window.manifest.policy.answered_by
        try:
            with self.policy_seconds.of(after):
                return self._provider.retrieve(sent, proof, size, after)
        except TransportError:
            raise
        except AuditError as reason:
            refusal = RefusedError(reason)
        again = refusable(
            lambda: self._provider.prepare(exchange.prepare.encode(), exchange.prepare_signature), refusal
        ).canonical
        evidence.add("received-prepared-again", again)
        with evidence.on_failure():
            same = Prepared.decode(again)
            if window.manifest.policy.version_every:  # it may name a newer version by now: what was signed stays
                same = replace(same, index_digest=exchange.prepared.index_digest, update=exchange.prepared.update)
            if same != exchange.prepared:
                raise AttestationError("the provider answers the same Prepare with bytes different from before")
        with self.policy_seconds.of(after):
            return refusable(lambda: self._provider.retrieve(sent, proof, size, after))

    def _own_embedding(self, text: str) -> list[int] | None:
        if self._embedder is None:
            return None
        return [int(x) for x in quantise(self._embedder.embed([text], role="query"))[0]]

    def _bases(self, dimension: int) -> bytes:
        if dimension not in self._generators:
            self._generators[dimension] = generators(self._group, dimension)
        return self._generators[dimension]

# SPDX-License-Identifier: GPL-3.0-or-later
"""Phase B, attestation: Prepare fixes C_e, Retrieve answers.  SPEC B.

A record's time follows from the moment in which its request was admitted, and from the policy; nothing that is
computed for it enters.  Where the claim is answers, record and answer leave so many seconds after that moment.

The order of durable steps makes every crash harmless: secrets first, then the record.  So no record exists that cannot
be proven and no answer leaves without its record.  An answer is a function of both, so the same request always gets the
same bytes, and there is no third thing to store that could be lost or contradict them.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from ragseal.embedder.declared import DeclaredModel
from ragseal.kernel import fixedpoint, signature
from ragseal.kernel.attestation import NO_RECEIPT, AnswerAsk, Prepare, Prepared, Record, SealedAnswer, SignedRequest
from ragseal.kernel.commitment import Account
from ragseal.kernel.encoding import decode_any
from ragseal.kernel.errors import AttestationError, AuditError, BudgetError, TransportError
from ragseal.prover.attestation.admission import Admission, check_embedding, spent
from ragseal.prover.attestation.answer_secrets import AnswerJob, AnswerSecrets
from ragseal.prover.attestation.answering_context import AnsweringContext
from ragseal.prover.attestation.answering_versions import AnsweringVersions
from ragseal.prover.attestation.answers import Answers
from ragseal.prover.attestation.attested import CANNOT_WRITE
from ragseal.prover.attestation.kept_embeddings import KeptEmbeddings
from ragseal.prover.attestation.open_window import OpenWindow, OpenWindows
from ragseal.prover.attestation.pending import Pending, PendingTable
from ragseal.prover.attestation.prepared_embedding import EmbeddingCommitter, Fixed, PrepareJob
from ragseal.prover.attestation.retrieval import QuerySecrets, decode_embedding
from ragseal.prover.attestation.worded import WordedSecrets
from ragseal.prover.base.limits import (
    REPEATS,
    REPEATS_A_SECOND,
    RETRIEVES_AT_ONCE,
    UNWRITTEN,
    UNWRITTEN_A_SECOND,
    Prepares,
)
from ragseal.prover.commitment.loaded import Loads
from ragseal.prover.commitment.registry import window_account
from ragseal.prover.storage.history import coarse
from ragseal.prover.storage.journal import Entry, Journal
from ragseal.prover.storage.retirement import require_kept
from ragseal.prover.storage.state import State
from ragseal.prover.storage.window import Window
from ragseal.runtime.face import counted
from ragseal.runtime.group_commit import Batches
from ragseal.runtime.tokenbucket import Throttle, TokenBuckets

MAX_EMBEDDED = 16  #: queries that share one run of the embedder

log = logging.getLogger("ragseal.provider")


@dataclass(frozen=True, slots=True)
class PreparedReply:
    """What leaves for a Prepare."""

    canonical: bytes  #: Prepared
    answered: int  #: records of the account in the window


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer as it leaves, and the size of the log that its receipt's checkpoint covers."""

    canonical: bytes  #: SealedAnswer; empty where no record has the number that was asked for
    size: int
    update: int = 0  #: ledger index of the update of the version that the record names

    @classmethod
    def of(cls, answer: SealedAnswer, update: int = 0) -> Answered:
        return cls(answer.encode(), answer.receipt.body.index + 1, update)


class Attestation:
    """Phase B of one provider.  Coroutines run in one event loop, blocking work in threads."""

    def __init__(
        self,
        state: State,
        journal: Journal,
        tools: AnsweringContext,
        windows: OpenWindows,
        proof_mode: int,
        on_record: Callable[[bytes, int], None],
        tick: float = 0.0,
    ) -> None:
        """
        Args:
            on_record: told (manifest digest, seq) of every new record.
            tick: answers leave at multiples of so many seconds after their request, so that their time says little.
        """
        self._state = state
        self._journal = journal
        self._tools = tools
        self._answers = Answers(state, tools.answer_bytes)
        self._windows = windows
        self._secrets = Loads(windows.secrets, "this account asks for answers of too many old windows")
        loads = Loads(windows.updates, "this account asks for answers from too many old versions of the index")
        self._versions = AnsweringVersions(state, journal, loads, tools.clock)
        self._proof_mode = proof_mode
        self._on_record = on_record
        self._tick = tick
        self._pending = PendingTable()
        self._admission = Admission(journal.history, self._pending, tools.clock, tools.under_way)
        self._locks: dict[tuple[bytes, str], asyncio.Lock] = {}
        self._running: set[asyncio.Task[Answered]] = set()
        self._draining = False
        self._retrieves: Counter[bytes] = Counter()  #: of them, by account key
        self._work = asyncio.Semaphore(2)
        self._accounts: dict[tuple[bytes, str], Account] = {}
        self._receipts: dict[tuple[bytes, str], tuple[int, bytes]] = {}  #: newest ctr and its receipt's digest
        self._answer_secrets = AnswerSecrets(state, tools)
        self.worded = WordedSecrets(state, journal.history, tools)
        kept = KeptEmbeddings(state) if isinstance(tools.embedder, DeclaredModel) else None
        self._fixer = EmbeddingCommitter(tools.group, tools.embedder, kept)
        self._fixing: Batches[PrepareJob, Fixed] = Batches(self._fixer.together, MAX_EMBEDDED)
        self._unpaid = TokenBuckets(REPEATS, REPEATS_A_SECOND, "this account sends what is no next query too often")
        self._unwritten = TokenBuckets(
            UNWRITTEN, UNWRITTEN_A_SECOND, "no answer could be written to this account's last requests"
        )
        self._prepares = Prepares()
        self.asked = Throttle("this account asks too often")  #: new Prepares, where the operator limits them

    async def _account(self, manifest: bytes, pseudonym: str) -> Account:
        """A registered account, remembered: nothing else is loaded before its signature is checked."""
        known = self._accounts.get((manifest, pseudonym))
        if known is None:
            known = await asyncio.to_thread(window_account, self._state, manifest, pseudonym)
            self._accounts[manifest, pseudonym] = known
        return known

    async def _opened(self, window: Window, account: Account) -> OpenWindow:
        return self._windows.holding(window, await self._secrets.of(window.digest, account.public_key))

    # --- message 1 ---

    async def prepare(self, canonical: bytes, proof: bytes) -> PreparedReply:
        """Answer a Prepare: fix e and C_e before the client's nonce is known, and say which number is next.

        Raises:
            AttestationError: closed window, unknown account, wrong signature, an embedding that is not the query's, or
                a request id that was used for something else.
            BudgetError: the account has asked n_max queries, prepared many times more, or asks too often.
        """
        message = Prepare.decode(canonical)
        window = self._journal.history.window(message.manifest)
        account = await self._account(window.digest, message.account)
        signature.verify(account.public_key, "prepare", canonical, proof)
        async with self._lock(window, message.account):  # one at a time: no account keeps the others waiting
            reply = await self._prepare(window, account, message, canonical)
            return PreparedReply(reply, window.counters.get(message.account, 0))

    async def _prepare(self, window: Window, account: Account, message: Prepare, canonical: bytes) -> bytes:
        known = self._pending.find(window.digest, message.account, message.request_id)
        if known is not None:
            if known.request != canonical:
                raise AttestationError("this request id was used for another query: take a fresh random one")
            return await self._brought_up_to_date(window, account, message, known)
        self._journal.refuse_frozen()
        await self._versions.wait_for_first(window)
        self._admission.check_open(window)
        check_embedding(window, bool(message.embedding))
        if window.counters.get(message.account, 0) >= window.manifest.policy.n_max:
            raise spent(window, account.name)
        newest = self._versions.newest(window, account.tenant)
        await self._versions.check_enrolled(window, message.account, newest[0])
        if (message.account, message.request_id) not in window.request_ids:  # else anybody may have sent it again
            self.asked.take(account.public_key)
        self._prepares.charge(window.digest, message.account, window.manifest.policy.n_max)
        offered = decode_embedding(message.embedding)
        if message.embedding:
            fixedpoint.check_embedding(offered, window.manifest.policy.dimension)
        opened = await self._opened(window, account)
        offer = PrepareJob(message, canonical, opened.secrets.blinding, window.manifest.policy.dimension)
        if message.embedding:
            embedding, blinder, c_e = await self._fixing.submit(offer)
        else:
            async with self._work:
                embedding, blinder, c_e = await asyncio.to_thread(self._fixer.alone, offer)
        prepared = Prepared(message.request_id, embedding, c_e, blinder, *newest)
        reply = prepared.encode()
        self._pending.add(
            window.digest,
            message.account,
            message.request_id,
            Pending(
                request=canonical,
                query_digest=message.query_digest(),
                embedding=embedding,
                blinder=blinder,
                c_e=c_e,
                reply=reply,
                expires=self._pending.expires(),
            ),
        )
        return reply

    async def _brought_up_to_date(self, window: Window, account: Account, message: Prepare, known: Pending) -> bytes:
        """The reply as it was, but over the newest version once the one that it names gets no answers any more."""
        before = Prepared.decode(known.reply)
        if before.index_digest in window.answering(account.tenant):
            return known.reply
        digest, index = self._versions.newest(window, account.tenant)
        await self._versions.check_enrolled(window, message.account, digest)
        reply = replace(before, index_digest=digest, update=index).encode()
        made = replace(known, reply=reply)
        self._pending.add(window.digest, message.account, message.request_id, made)
        return reply

    def _lock(self, window: Window, account: str) -> asyncio.Lock:
        return self._locks.setdefault((window.digest, account), asyncio.Lock())

    # --- message 2 ---

    async def retrieve(self, canonical: bytes, proof: bytes) -> Answered:
        """Answer a signed request; the same bytes for the same request, also after a restart.

        The request stands in the ledger for everybody to read, so it fetches nothing by itself: ``proof`` is the
        account's second signature, and the answer is sealed to a key that only the account can open with.

        An AnswerAsk in its place gets the answer to the request of that number, sealed to the ask's key.  SPEC B.4.11.

        The work goes on when the caller goes away: a client's deadline must not part a record from its answer.

        Args:
            proof: the account's signature of these bytes with purpose "retrieve".

        Raises:
            AttestationError: whatever in the request does not hold.
            BudgetError: more than n_max queries, too many requests that are no next query or that no answer could be
                written to, or too many at once.
            UnprovableError: a query that cannot be proven (about 2^-36); nothing was recorded.
        """
        message = decode_any(canonical, (SignedRequest, AnswerAsk))
        if isinstance(message, AnswerAsk):
            window = self._journal.history.window(message.manifest)
            account = await self._account(window.digest, message.account)
            message.verify(account.public_key, proof)
            return await self._under_way(account, lambda: self._paid(window, account, message))
        assert isinstance(message, SignedRequest)
        request = message.request
        window = self._journal.history.window(request.manifest)
        account = await self._account(window.digest, request.account)
        message.verify_retrieval(account.public_key, proof)
        message.verify(account.public_key)
        return await self._under_way(account, lambda: self._serialised(window, account, message, canonical))

    async def _under_way(self, account: Account, work: Callable[[], Coroutine[Any, Any, Answered]]) -> Answered:
        """Do it to its end, also where its caller goes away."""
        if self._retrieves[account.public_key] >= RETRIEVES_AT_ONCE:  # also of callers that have gone
            raise BudgetError(f"{RETRIEVES_AT_ONCE} requests of this account are under way: wait for one of them")
        started = self._tools.timer.now()
        task = asyncio.create_task(work())
        self._running.add(task)
        self._retrieves[account.public_key] += 1
        task.add_done_callback(lambda done: self._finished(done, account.public_key))
        answer = await asyncio.shield(task)
        if self._tick > 0:
            spent = self._tools.timer.now() - started
            await self._tools.timer.pause(-spent % self._tick)
        return answer

    def _finished(self, task: asyncio.Task[Answered], account: bytes) -> None:
        self._running.discard(task)
        self._retrieves[account] -= 1
        if not self._retrieves[account]:
            del self._retrieves[account]
        if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, AuditError):
            log.error("a retrieval failed: %s", type(error).__name__)

    async def drain(self) -> None:
        """Wait for every answer under way; an answer in words that waits for its turn is not begun."""
        self._draining = True
        while self._running:
            await asyncio.wait(set(self._running))

    async def _serialised(self, window: Window, account: Account, message: SignedRequest, canonical: bytes) -> Answered:
        async with self._lock(window, message.request.account):
            with self._charged(account):
                pending = self._admission.due(window, account, message)
            if pending is None:
                self._unpaid.take(account.public_key)
                return await self._again(window, account, message, canonical)
            if not window.manifest.policy.answers:
                return await self._answer(window, account, message, pending)
            job = await self._job(window, account, message, pending)
            # each for as long as the policy says, so that nobody's turn tells of work
            async with self.worded.places(len(job.version.matrix)):
                if self._draining:  # it may be one of many, each of which would take as long
                    raise TransportError("this provider is being stopped: send the same request again later")
                return await self._answer_in_words(job, account)

    @contextmanager
    def _charged(self, account: Account) -> Iterator[None]:
        """A request that is refused is none of the account's budget, so it is charged here."""
        try:
            yield
        except (AttestationError, BudgetError):
            self._unpaid.take(account.public_key)
            raise

    async def _job(self, window: Window, account: Account, message: SignedRequest, pending: Pending) -> AnswerJob:
        """An account's next query, once all that it takes is loaded.  Its window is open: nobody's bucket is asked."""
        self._journal.refuse_frozen()
        request = message.request
        opened = await self._opened(window, account)
        with self._charged(account):
            await self._versions.check_enrolled(window, request.account, request.index_digest)
            await self._check_acknowledgement(opened, account, message)
        version = await self._versions.of(opened, account, request.index_digest)
        return AnswerJob(opened, version, message, pending)

    async def _answer(self, window: Window, account: Account, message: SignedRequest, pending: Pending) -> Answered:
        job = await self._job(window, account, message, pending)
        time = coarse(self._tools.clock())
        kept = await self._answer_secrets.fix(job)
        return await self._recorded(job, account, kept, time)

    async def _answer_in_words(self, job: AnswerJob, account: Account) -> Answered:
        """Answer, or refuse, so many seconds after the admission as the policy says.  SPEC A.14.7 to A.14.9.

        Whatever may refuse the request is asked before the generator is.  A failure after that is told at the same
        instant as the answer.  Work that is not done by then, which only a machine that is overloaded brings about, is
        refused at the next multiple of the policy's seconds; sent again, the request is answered from what was done.
        """
        window, message = job.opened.window, job.message
        by, timer = window.manifest.policy.answered_by, self._tools.timer
        with self._charged(account):  # seconds may have passed
            self._admission.check_still(window, account, message)
        self._unwritten.take(account.public_key)
        failure: Exception | None = None
        with self._tools.under_way.admitted(window, window.number_of(message.request.index_digest)):
            began, time = timer.now(), coarse(self._tools.clock() + by)
            try:
                kept = await self.worded.fix(job, began)
            except Exception as error:
                failure = error
            missed = int((timer.now() - began) // by)
            await timer.until(began + (missed + 1) * by)
            if failure is not None:
                raise failure
            if missed:
                log.error("an answer in words took longer than answered_by = %d s: this machine is overloaded", by)
                raise TransportError(CANNOT_WRITE)
            answered = await self._recorded(job, account, kept, time)
        self._unwritten.give_back(account.public_key)
        return answered

    async def _recorded(self, job: AnswerJob, account: Account, kept: QuerySecrets, time: int) -> Answered:
        """Enter the record, of this coarse time, and make the answer."""
        secrets, window, request = job.opened.secrets, job.opened.window, job.message.request
        openings = self._answers.openings(secrets, job.version, kept)  # what cannot be made or sent gets no record
        entry, record = await self._append(job, account, kept, time)
        answer = self._answers.sealed(secrets, record, entry, openings)
        self._receipts[window.digest, request.account] = request.ctr, answer.receipt.digest()
        self._pending.drop(window.digest, request.account, request.request_id)
        self._on_record(window.digest, record.seq)
        return Answered.of(answer)

    async def _check_acknowledgement(self, opened: OpenWindow, account: Account, message: SignedRequest) -> None:
        window, request, last = opened.window, message.request, NO_RECEIPT
        if request.ctr > 1:
            ctr, last = self._receipts.get((window.digest, request.account), (0, NO_RECEIPT))
            if ctr != request.ctr - 1:  # not answered by this process
                answer = await self._made_again(opened, account, window.seq_of[request.account, request.ctr - 1])
                last = answer.receipt.digest()
                self._receipts[window.digest, request.account] = request.ctr - 1, last
        if request.last_receipt != last:
            raise AttestationError(
                "the request does not acknowledge the account's last receipt: send the last request again to get it"
            )

    async def _append(self, job: AnswerJob, account: Account, kept: QuerySecrets, time: int) -> tuple[Entry, Record]:
        made: list[Record] = []
        window, message = job.opened.window, job.message

        def build() -> Record:
            if not window.manifest.policy.answers:  # whose requests are admitted for good
                self._admission.check_still(window, account, message)
            record = Record(
                manifest=window.digest,
                seq=len(window.records),
                signed=message,
                c_y=kept.c_y,
                t_commits=kept.t_commits,
                time=max(time, window.time),
                proof_mode=self._proof_mode,
            )
            made.append(record)
            return record

        entry = await self._journal.append(build)
        return entry, made[0]

    async def _again(self, window: Window, account: Account, message: SignedRequest, canonical: bytes) -> Answered:
        """The bytes that were sent before, or would have been."""
        request = message.request
        seq = window.seq_of[request.account, request.ctr]
        recorded = Record.decode(await asyncio.to_thread(self._journal.data, window.records[seq]))
        if recorded.signed.encode() != canonical:
            raise AttestationError(
                f"request {request.ctr} of this account was another one, and a number is signed once: the account's "
                f"folder is an older copy, or two are in use. It has asked "
                f"{counted(window.counters.get(request.account, 0), 'time')} in this window: `ragseal-client resume` "
                "fetches what this copy lacks"
            )
        await asyncio.to_thread(require_kept, self._state, window.digest)  # before anything is loaded for it
        opened = await self._opened(window, account)
        return Answered.of(await self._made_again(opened, account, seq))

    async def _paid(self, window: Window, account: Account, ask: AnswerAsk) -> Answered:
        """The answer to the account's request of this number, sealed for the ask."""
        async with self._lock(window, ask.account):
            self._unpaid.take(account.public_key)
            seq = window.seq_of.get((ask.account, ask.ctr))
            if seq is None:
                return Answered(b"", 0)
            await asyncio.to_thread(require_kept, self._state, window.digest)  # before anything is loaded for it
            opened = await self._opened(window, account)
            answer = await self._made_again(opened, account, seq, ask)
            number = window.number_of(answer.record.signed.request.index_digest)
            return Answered.of(answer, window.updates[number - 1][0] if number else 0)

    async def _made_again(
        self, opened: OpenWindow, account: Account, seq: int, ask: AnswerAsk | None = None
    ) -> SealedAnswer:
        """The answer for a record of this account, from what is stored; sealed for ``ask`` where there is one."""
        entry = await asyncio.to_thread(self._journal.entry, opened.window.records[seq])
        named = Record.decode(entry.data).signed.request.index_digest
        version = await self._versions.of(opened, account, named)
        return await asyncio.to_thread(self._answers.again, opened.secrets, version, entry, ask)

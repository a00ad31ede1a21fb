# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask a provider and believe nothing: the library that an account's own software calls.  SPEC B.

    >>> from ragseal.client import Client
    >>> client = Client(PROVIDER, STATE, log_key=LOG_KEY, embedder="minilm")
    >>> result = client.ask("How do I parse JSON?")
    >>> result.checked                      # the provider committed to exactly this machine's embedding
    True
    >>> len(result.returned) == len(set(result.returned))
    True
    >>> texts = [r.text for r in result.ranked]  # best first, ranked here: the provider releases a set without order
    >>> result.receipt.body.seq >= 0        # kept in STATE; `ragseal-client receipts export` gives it to an auditor
    True

``STATE`` is the folder that ``ragseal-client keygen`` made.  Whatever does not check out raises an AuditError, saves
the evidence and returns nothing; the signed request then stays pending, and the next call repeats exactly its bytes.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ragseal.client.acceptance import Acceptance
from ragseal.client.account import AccountState
from ragseal.client.attestation import Window
from ragseal.client.connecting import links
from ragseal.client.evidence import Evidence
from ragseal.client.exchanges import BehindError, Exchanges, PolicySeconds
from ragseal.client.history import History
from ragseal.client.link import LedgerLink, ProviderLink, RefusedError, Stage
from ragseal.client.paid_answers import PaidAnswers
from ragseal.client.result import Owed, Ranked, Result, Resumed
from ragseal.client.settings import Calls, Environment, Trust
from ragseal.client.window import WindowState
from ragseal.client.witnesses import Witnesses
from ragseal.embedder import Embedder, load_embedder
from ragseal.kernel.errors import AttestationError, BudgetError, ConfigurationError, TransportError
from ragseal.ledger.note import NoteVerifier
from ragseal.ledger.policy import Policy
from ragseal.runtime.tracing import retrieval

ANY, PLAINLY = Trust(), Calls()
ROUNDS = 4  #: of fetching what another copy of the folder asks meanwhile
AGAIN = 2  #: windows into which a question is taken along when the provider goes on to the next one

__all__ = ["Calls", "Client", "Owed", "Ranked", "Result", "Resumed", "Trust"]


class Client:
    """One account's connection to one provider.  May be called from many threads; queries go one after another."""

    def __init__(
        self,
        provider: str | ProviderLink,
        account: str | Path | AccountState,
        log_key: str | None = None,
        embedder: str | Embedder | None = None,
        *,
        ledger: str | LedgerLink | None = None,
        trust: Trust = ANY,
        calls: Calls = PLAINLY,
        environment: Environment | None = None,
    ) -> None:
        """Open the account's folder; nothing is sent yet.

        Args:
            provider: ``host:port``, or a link.
            account: the folder made by ``ragseal-client keygen``, or an opened one.
            log_key: the log's verifier key, ``name+id+base64``; pinned at first use, may then be left out.
            embedder: "minilm", "sentence-transformers:...", "declared:...", an Embedder, or None: then the provider
                computes e, and records say "unchecked".
            ledger: ``host:port`` of the ledger, by default the provider's.
            trust: keys, witnesses and embeddings without which no window is used; by default any window is.
            calls: certificates and seconds for a call.
            environment: for tests; by default the operating system's.

        Raises:
            ConfigurationError: no account there, no log key, another pinned key, an embedder that is not installed.
            LedgerError: another process uses the folder.
        """
        self._mutex, self._closed = threading.Lock(), False
        #: Whoever asks again after an error holds it from the first call to the last: a question in between would
        #: complete the request that is pending, whose answer nobody got, and the next call would sign another one.
        self.turn = threading.Lock()
        environment = environment or Environment()
        self._clock = environment.clock
        self._embedder = load_embedder(embedder) if isinstance(embedder, str) else embedder
        self._class_of = environment.class_of
        self._current: tuple[Window, WindowState] | None = None
        self._stage: Stage = "preparing"
        self._where = provider if isinstance(provider, str) else ""
        self.state = account if isinstance(account, AccountState) else AccountState(Path(account))
        try:
            self._log = self._pinned_log(log_key)
            policy = None if trust.witness_policy is None else self._policy(trust.witness_policy)
            if trust.provider_key is not None:
                self.state.pin_provider(trust.provider_key)
            self._provider, self._ledger = links(provider, ledger, calls.tls, calls.timeout)
            self._history = History(self.state, self._log, self._ledger)
            self._exchanges = Exchanges(
                self.state,
                self._provider,
                self._history,
                self._embedder,
                environment.group,
                self._evidence,
                environment.entropy,
                trust.accept_unchecked,
            )
            self._paid = PaidAnswers(self._exchanges, environment)
            self._acceptance = Acceptance(
                self.state,
                self._log,
                self._provider,
                self._history,
                self._embedder,
                self._class_of,
                trust.auditor_key,
                None if policy is None else Witnesses(policy, self._history),
            )
        except BaseException:
            self.state.close()
            raise

    def _pinned_log(self, log_key: str | None) -> NoteVerifier:
        if log_key is not None:
            return self.state.pin_log(log_key)
        pinned = self.state.log_key()
        if pinned is None:
            raise ConfigurationError(
                "no log key is pinned yet: give log_key (--log-key), the line name+id+base64 of the provider's log"
            )
        return pinned

    def _policy(self, given: str | Path | Policy) -> Policy:
        return (given if isinstance(given, Policy) else Policy.load(Path(given))).of(self._log)

    def require_witnesses(self, witness_policy: str | Path | Policy) -> None:
        """From the next question on only windows are used of which a quorum of these witnesses cosigned the opening.

        It can be asked for once, here or when the client is made; the same policy again changes nothing.

        Raises:
            ConfigurationError: another policy is in force, or this one is unreadable or for another log.
        """
        policy = self._policy(witness_policy)
        with self._mutex:
            self._check_open()
            known = self._acceptance.witnesses
            if known is not None and known.policy != policy:
                raise ConfigurationError(
                    "this client asks for other witnesses already: make one client for each witness policy"
                )
            if known is None:
                self._acceptance.witnesses = Witnesses(policy, self._history)
                self._current = None  # the window at hand is judged again

    def close(self) -> None:
        """Close connections and release the folder, after the query under way; again is harmless."""
        with self._mutex:
            self._closed = True
            self._provider.close()
            self._ledger.close()
            self.state.close()

    def _check_open(self) -> None:
        if self._closed:
            raise ConfigurationError("this client is closed: make a new one on the same folder")

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def embeds(self) -> bool:
        """Whether this client has an embedder, by which it ranks what comes back."""
        return self._embedder is not None

    def tenant(self) -> str:
        """Whose documents this account searches in the window of now.  Raises as :meth:`ask`, but asks nothing."""
        with self._mutex:
            self._check_open()
            return self._window()[0].account.tenant

    # --- asking ---

    def ask(self, text: str, *, answer: bool | None = None) -> Result:
        """Ask one question and check everything that comes back.

        A request that is pending from before (a crash, a lost connection, a refused answer) is completed first; if it
        asked the same text, its answer is the result and nothing new is spent.

        Where the provider refuses because another window is open by now, the question is asked there, at most twice.
        What was signed in the window before may have cost a query there all the same: the result names such windows
        (``unanswered``), and :meth:`resume` asks for those answers.

        Args:
            answer: whether an answer in words is wanted, of a window of the claim answers, or documents; None takes
            what
                the window gives.

        Raises:
            AttestationError: an empty text; nothing was sent.
            ConfigurationError: the client is closed, or its folder damaged; or the window does not give what was
            wanted,
                and nothing was sent.
            BudgetError: n_max queries of this window are used up.
            AttestationError, LedgerError, CommitmentError, ProofError, EncodingError: a check failed; the message says
                where the evidence lies.
            TransportError: the provider or its ledger cannot be reached, or no window is open; ask again.
        """
        if not text.strip():
            raise AttestationError("the question is empty: nothing was sent, and no query of the budget was used")
        with self._mutex, retrieval(self._where):
            self._check_open()
            window, memory = self._window(renew=self._stage != "open")
            unanswered: list[str] = []
            for left in reversed(range(1 + AGAIN)):
                self._check_wanted(window, answer)
                try:
                    return replace(self._ask(window, memory, text), unanswered=tuple(unanswered))
                except RefusedError as refusal:
                    renewed, renewed_memory = self._window(renew=True)
                    if renewed.digest == window.digest or not left:
                        raise refusal.reason from None
                # the window changed under us; what the old one still owes is left to resume()
                pending = memory.pending()
                if pending is not None and pending.prepare.query == text:
                    unanswered.append(window.manifest.window)
                window, memory = renewed, renewed_memory
            raise AssertionError  # the last turn returns or raises

    @staticmethod
    def _check_wanted(window: Window, answer: bool | None) -> None:
        """Raises ConfigurationError: the window gives documents where an answer is wanted, or the other way round."""
        policy = window.manifest.policy
        if answer is not None and answer != policy.answers:
            gives, way = ("answers", "with") if policy.answers else ("documents", "without")
            raise ConfigurationError(
                f"window {window.manifest.window!r} gives {gives} (claim {policy.claim}): ask {way} --answer; nothing "
                "was sent"
            )

    def _ask(self, window: Window, memory: WindowState, text: str) -> Result:
        for _ in range(ROUNDS):
            pending = memory.pending()
            if pending is not None:
                result = self._paid.finish(window, memory, pending)
                if result is not None and pending.prepare.query == text:
                    return result
            try:
                exchange = self._exchanges.begin(window, memory, self._stage, text)
            except BehindError as behind:
                list(self._paid.catch_up(window, memory, behind.answered))
                continue
            except RefusedError as refusal:
                if isinstance(refusal.reason, BudgetError) and refusal.reason.retry_after_ms is None:
                    with suppress(RefusedError):
                        list(self._paid.catch_up(window, memory))  # all is asked, and this folder may lack some of it
                raise
            memory.begin(exchange)
            result = self._paid.finish(window, memory, exchange)
            if result is not None:
                return result
        raise TransportError(
            f"another copy of {self.state.directory} asks at the same time: nothing was signed that could get an "
            "answer; use one copy alone"
        )

    @property
    def fetched(self) -> tuple[Result, ...]:
        """Answers that this folder lacked, since it is an older copy or has a second one, and that came by now."""
        return tuple(self._paid.fetched)

    def resume(self, *, again: bool = False, window: str = "") -> Resumed:
        """Fetch what is owed in every window, closed ones too, oldest first.

        That is the answer to a request that is pending, and those that this folder lacks although they were paid for:
        it may be an older copy, or a second one may have asked.

        What one window's request meets stops no other's: it is told in ``owed`` instead of raised, whatever
        :meth:`ask` would raise for it.

        A request whose window is over and which the provider refuses is given up: it was not recorded, or the provider
        denies it.  The question may be asked anew, in a later window.  The signed request stays where it is.

        Args:
            again: ask for the answers that were given up, too, and whether a window that is over has more.
            window: of this window too, which the folder need not know.

        Raises:
            ConfigurationError: the client is closed, or its folder damaged so that its windows cannot be told.
            AuditError: ``window`` is unknown to the provider, or does not hold.
        """
        with self._mutex:
            self._check_open()
            if window and window not in [one.manifest.window for one in self.state.windows()]:
                self._accepted(window)
            windows = self.state.windows()
            found = [one for memory in windows for one in self._paid.of(memory, windows, again)]
            return Resumed(
                results=tuple(one for one in found if isinstance(one, Result)),
                owed=tuple(one for one in found if isinstance(one, Owed)),
                given_up=found.count("given up"),
            )

    @property
    def policy_seconds(self) -> PolicySeconds:
        """What windows' policies put between this client's requests and their answers."""
        return self._exchanges.policy_seconds

    def owing(self) -> list[str]:
        """The windows of which :meth:`resume` has an answer to fetch, oldest first; nobody is asked."""
        with self._mutex:
            self._check_open()
            return [one.manifest.window for one in self.state.windows() if one.owes]

    # --- phase A ---

    def _window(self, renew: bool = False) -> tuple[Window, WindowState]:
        if self._current is None or renew or self._clock() >= self._current[1].closes:
            window, memory, self._stage = self._accepted()
            self._current = window, memory
        return self._current

    def _accepted(self, name: str = "") -> tuple[Window, WindowState, Stage]:
        evidence = self._evidence()
        announced = self._provider.announced(name)
        try:
            with evidence.on_failure():
                return self._acceptance.accept(announced, evidence)
        except RefusedError as refusal:
            raise refusal.reason from None

    # --- parts ---

    def _evidence(self, memory: WindowState | None = None) -> Evidence:
        facts = {"account": self.state.name, "public_key": self.state.key.public.hex(), "log_key": self._log.vkey()}
        provider = self.state.provider_key()
        if provider is not None:
            facts["provider_key"] = provider.hex()
        evidence = Evidence(self.state.evidence, facts, self._clock)
        if memory is not None:
            evidence.add("manifest", memory.signed.encode())
        return evidence

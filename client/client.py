# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask a provider and believe nothing: the library that an account's own software calls.  Protocol section 5.

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

import secrets
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from ragseal.client.account import AccountState
from ragseal.client.attestation import (
    NONCE_BYTES,
    Window,
    build_request,
    check_answer,
    check_budget,
    check_prepared,
    encode_embedding,
)
from ragseal.client.classes import known_class
from ragseal.client.commitment import ClassOf, check_manifest, check_window
from ragseal.client.evidence import Evidence
from ragseal.client.link import Announced, LedgerLink, ProviderLink, Retrieved, Stage
from ragseal.client.opening import MOST_ENTRIES, find_opening
from ragseal.client.result import Ranked, Result, make_result
from ragseal.client.window import Exchange, WindowState
from ragseal.embedder import Embedder, load_embedder, quantise
from ragseal.groth16.group import default_group
from ragseal.kernel.attestation import Prepare, Prepared, SealedAnswer, SignedRequest, open_answer
from ragseal.kernel.commitment import AccountAsk, Membership, SignedManifest, generators
from ragseal.kernel.curve import Group
from ragseal.kernel.errors import (
    AttestationError,
    AuditError,
    CommitmentError,
    ConfigurationError,
    LedgerError,
    TransportError,
)
from ragseal.kernel.sealing import SEAL_KEY_BYTES, public_of
from ragseal.ledger.checkpoint import Checkpoint, open_checkpoint
from ragseal.ledger.merkle import leaf_hash, verify_consistency, verify_inclusion
from ragseal.ledger.note import NoteVerifier
from ragseal.ledger.tls import BY_DEFAULT, ClientTls

__all__ = ["Client", "Ranked", "Result"]

PAGE = 64  #: entries of the log that are asked for at once

T = TypeVar("T")


class _RefusedError(Exception):
    """The provider refused a call with a reason of its own: no answer was given, nothing was checked."""

    def __init__(self, reason: AuditError) -> None:
        super().__init__(str(reason))
        self.reason = reason


def _refusable(call: Callable[[], T], first: _RefusedError | None = None) -> T:
    """What a call brings; a refusal becomes a _RefusedError (``first`` where an earlier one is the better reason)."""
    try:
        return call()
    except TransportError:
        raise
    except AuditError as reason:
        raise (first or _RefusedError(reason)) from None


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
        provider_key: bytes | None = None,
        auditor_key: bytes | None = None,
        accept_unchecked: bool = False,
        tls: ClientTls = BY_DEFAULT,
        timeout: float = 60.0,
        class_of: ClassOf | None = None,
        group: Group | None = None,
        entropy: Callable[[int], bytes] = secrets.token_bytes,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Open the account's folder; nothing is sent yet.

        Args:
            provider: ``host:port``, or a link.
            account: the folder made by ``ragseal-client keygen``, or an opened one.
            log_key: the log's verifier key, ``name+id+base64``; pinned at first use, may then be left out.
            embedder: "minilm", "sentence-transformers:...", an Embedder, or None: then the provider computes e, and
                records say "unchecked".
            ledger: ``host:port`` of the ledger, by default the provider's.
            provider_key: 32 bytes; pinned at first use (or on first contact, where it is left out).
            auditor_key: 32 bytes; only windows that name this auditor are used.  By default any.
            accept_unchecked: sign also when the provider commits to another e than this client's own.
            tls: whom to trust, and an own certificate; by default plain on loopback, TLS with the system's authorities
                elsewhere.
            timeout: seconds for a call.

        Raises:
            ConfigurationError: no account there, no log key, another pinned key, an embedder that is not installed.
            LedgerError: another process uses the folder.
        """
        self._mutex = threading.Lock()
        self._accept_unchecked, self._auditor_key = accept_unchecked, auditor_key
        self._entropy, self._clock = entropy, clock
        self._embedder = load_embedder(embedder) if isinstance(embedder, str) else embedder
        self._group = group if group is not None else default_group()
        self._class_of = class_of if class_of is not None else known_class
        self._generators: dict[int, bytes] = {}
        self._current: tuple[Window, WindowState] | None = None
        self._stage: Stage = "preparing"
        self.state = account if isinstance(account, AccountState) else AccountState(Path(account))
        try:
            self._log = self._pinned_log(log_key)
            if provider_key is not None:
                self.state.pin_provider(provider_key)
            self._provider, self._ledger = _links(provider, ledger, tls, timeout)
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

    def close(self) -> None:
        """Close connections and release the folder."""
        self._provider.close()
        self._ledger.close()
        self.state.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- asking ---

    def ask(self, text: str) -> Result:
        """Ask one question and check everything that comes back.

        A request that is pending from before (a crash, a lost connection, a refused answer) is completed first; if it
        asked the same text, its answer is the result and nothing new is spent.

        Raises:
            BudgetError: n_max queries of this window are used up.
            AttestationError, LedgerError, CommitmentError, ProofError, EncodingError: a check failed; the message says
                where the evidence lies.
            TransportError: the provider or its ledger cannot be reached, or the window is not open yet; ask again.
        """
        with self._mutex:
            window, memory = self._window(renew=self._stage != "open")
            try:
                return self._ask(window, memory, text)
            except _RefusedError as refusal:
                renewed, memory = self._window(renew=True)
                if renewed.digest == window.digest:
                    raise refusal.reason from None
            try:  # the window changed under us; what the old one still owes is left to resume()
                return self._ask(renewed, memory, text)
            except _RefusedError as refusal:
                raise refusal.reason from None

    def _ask(self, window: Window, memory: WindowState, text: str) -> Result:
        pending = memory.pending()
        if pending is not None:
            result = self._finish(window, memory, pending)
            if pending.prepare.query == text:
                return result
        exchange = self._prepare(window, memory, text)
        memory.begin(exchange)
        return self._finish(window, memory, exchange)

    def resume(self) -> list[Result]:
        """Complete what is pending in every window, closed ones too, oldest first; errors as for :meth:`ask`."""
        with self._mutex:
            done: list[Result] = []
            for memory in self.state.windows():
                pending = memory.pending()
                if pending is not None:
                    manifest, account = memory.manifest, memory.account
                    index, cls = manifest.index_of(account.tenant), self._class_of(manifest.policy)
                    window = Window(manifest, memory.digest, account, index, cls)
                    try:
                        done.append(self._finish(window, memory, pending))
                    except _RefusedError as refusal:
                        raise refusal.reason from None
            return done

    # --- phase A ---

    def _window(self, renew: bool = False) -> tuple[Window, WindowState]:
        if self._current is None or renew or self._clock() >= self._current[0].manifest.policy.closes:
            evidence = self._evidence()
            announced = self._provider.announced()
            with evidence.on_failure():
                self._current = self._accept(announced, evidence)
        return self._current

    def _accept(self, announced: Announced, evidence: Evidence) -> tuple[Window, WindowState]:
        evidence.add("received-manifest", announced.manifest)
        signed = SignedManifest.decode(announced.manifest)
        pinned = self.state.provider_key()
        check_manifest(signed, log=self._log, provider_key=pinned, auditor_key=self._auditor_key)
        window = check_window(
            signed,
            self._membership(signed, evidence),
            name=self.state.name,
            public_key=self.state.key.public,
            class_of=self._class_of,
        )
        if self._embedder is not None and self._embedder.identity().digest() != window.manifest.embedder:
            raise CommitmentError("the window commits to another embedder than this client's: its e would mean nothing")
        if all(known.digest != window.digest for known in self.state.windows()):
            self._find_in_log(announced, evidence)
        memory = self.state.window(signed, window.account)
        self.state.pin_provider(window.manifest.provider_key)
        self._stage = announced.stage
        if announced.stage == "open" and not memory.opened:
            self._stage = self._find_opening(announced, window, memory, evidence)
        return window, memory

    def _membership(self, signed: SignedManifest, evidence: Evidence) -> Membership:
        """This account's line of the registry: from its folder, or asked for with its signature."""
        digest = signed.manifest.digest()
        ask = AccountAsk(digest, self.state.name).encode()
        received = self._provider.account(ask, self.state.key.sign("account", ask))
        return Membership.decode(evidence.add("received-membership", received))

    def _find_opening(self, announced: Announced, window: Window, memory: WindowState, evidence: Evidence) -> Stage:
        """Look for the window's opening in the log that everybody sees, and check the beacon that it rests on."""
        note = evidence.add("received-checkpoint", self._ledger.checkpoint())
        point = open_checkpoint(note, self._log).checkpoint
        newest = self._consistent(point, evidence)
        start, entries = announced.ledger_index + 1, list[bytes]()
        stop = min(point.size, start + MOST_ENTRIES)
        found: int | None = None
        while found is None and start + len(entries) < stop:
            at = start + len(entries)
            for offset, entry in enumerate(self._ledger.entries(at, min(PAGE, stop - at))):
                path = self._ledger.inclusion(at + offset, point.size)
                verify_inclusion(leaf_hash(entry), at + offset, point.size, path, point.root)
                entries.append(evidence.add(f"entry-{at + offset}", entry))
                found = find_opening(window.manifest, window.digest, entries)
                if found is not None:
                    break
        if newest:
            self.state.remember_checkpoint(note)
        if found is None:
            return "preparing"
        memory.remember_opening(entries[found])
        return "open"

    def _find_in_log(self, announced: Announced, evidence: Evidence) -> None:
        """A manifest seen for the first time is in the log that everybody sees, before anything is sent under it."""
        note = evidence.add("received-checkpoint", self._ledger.checkpoint())
        point = open_checkpoint(note, self._log).checkpoint
        newest = self._consistent(point, evidence)
        index = announced.ledger_index
        if index >= point.size:
            raise LedgerError(f"the manifest would be entry {index}, the log has {point.size}")
        path = self._ledger.inclusion(index, point.size)
        evidence.add("received-inclusion", b"".join(path))
        try:
            verify_inclusion(leaf_hash(announced.manifest), index, point.size, path, point.root)
        except LedgerError as error:
            raise LedgerError(f"the log does not hold the manifest that the provider shows: {error}") from None
        if newest:
            self.state.remember_checkpoint(note)

    # --- phase B ---

    def _own_embedding(self, text: str) -> list[int] | None:
        if self._embedder is None:
            return None
        return [int(x) for x in quantise(self._embedder.embed([text], role="query"))[0]]

    def _prepare(self, window: Window, memory: WindowState, text: str) -> Exchange:
        if self._stage == "preparing":
            raise TransportError(f"window {window.manifest.window!r} is not open yet: ask again in a moment")
        if self._stage == "closed":
            raise AttestationError(f"window {window.manifest.window!r} is closed: ask again when the next one is open")
        own = self._own_embedding(text)
        ctr = memory.answered + 1
        check_budget(window, ctr)
        prepare = Prepare(
            manifest=window.digest,
            account=window.account.pseudonym,
            request_id=self._entropy(16),
            salt=self._entropy(32),
            query=text,
            embedding=b"" if own is None else encode_embedding(own),
        )
        body = prepare.encode()
        signature = self.state.key.sign("prepare", body)
        evidence = self._evidence(memory)
        evidence.add("sent-prepare", body)
        evidence.add("sent-prepare-signature", signature)
        received = evidence.add("received-prepared", _refusable(lambda: self._provider.prepare(body, signature)))
        with evidence.on_failure():
            prepared = Prepared.decode(received)
            bases = self._bases(window.manifest.policy.dimension)
            checked = check_prepared(self._group, bases, window, prepare, prepared, own)
            if own is not None and not checked and not self._accept_unchecked:
                raise AttestationError(
                    "the provider committed to another embedding than the one this client computed and sent"
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
        signed = SignedRequest(request, self.state.key.sign("request", request.encode()))
        return Exchange(prepare, signature, prepared, signed, seal_secret)

    def _finish(self, window: Window, memory: WindowState, exchange: Exchange) -> Result:
        mine = exchange.signed
        evidence = self._evidence(memory)
        evidence.add("sent-prepare", exchange.prepare.encode())
        evidence.add("received-prepared", exchange.prepared.encode())
        sent = evidence.add("sent-request", mine.encode())
        received = self._retrieve(exchange, sent, evidence)
        evidence.add("received-answer", received.answer)
        last = memory.last()
        with evidence.on_failure():
            answer = open_answer(SealedAnswer.decode(received.answer), exchange.seal_secret)
            previous = None if last is None else last.receipt
            checkpoint = check_answer(self._group, window, self._log, mine, answer, previous)
            newest = self._consistent(checkpoint, evidence, received.consistency)
        if newest:
            self.state.remember_checkpoint(answer.receipt.body.checkpoint)
        memory.complete(answer)
        return make_result(exchange, answer, self._embedder)

    def _retrieve(self, exchange: Exchange, sent: bytes, evidence: Evidence) -> Retrieved:
        """The sealed answer.  A provider forgets a Prepare after a while; the same Prepare brings it back."""
        known = self.state.checkpoint()
        proof, size = self.state.key.sign("retrieve", sent), 0 if known is None else known.checkpoint.size
        try:
            return self._provider.retrieve(sent, proof, size)
        except TransportError:
            raise
        except AuditError as reason:
            refusal = _RefusedError(reason)
        again = _refusable(
            lambda: self._provider.prepare(exchange.prepare.encode(), exchange.prepare_signature), refusal
        )
        evidence.add("received-prepared-again", again)
        with evidence.on_failure():
            if again != exchange.prepared.encode():
                raise AttestationError("the provider answers the same Prepare with other bytes than before")
        return _refusable(lambda: self._provider.retrieve(sent, proof, size))

    def _consistent(self, checkpoint: Checkpoint, evidence: Evidence, given: Sequence[bytes] = ()) -> bool:
        """The checkpoint and the remembered one are of one history; True if the new one is to be remembered.

        Args:
            given: the path between the two, where it came with the checkpoint; else the ledger is asked.
        """
        known = self.state.checkpoint()
        if known is None:
            return True
        evidence.add("remembered-checkpoint", known.note.encode())
        old, new = sorted((known.checkpoint, checkpoint), key=lambda c: c.size)
        path: Sequence[bytes] = given if old.size < new.size else ()
        if old.size < new.size and not path:
            try:
                path = self._ledger.consistency(old.size, new.size)
            except TransportError:
                raise
            except AuditError as error:
                raise LedgerError(
                    f"the log does not prove that size {old.size} is the beginning of size {new.size}: {error}"
                ) from None
        evidence.add("received-consistency", b"".join(path))
        try:
            verify_consistency(old.size, new.size, path, old.root, new.root)
        except LedgerError as error:
            raise LedgerError(f"the log's checkpoint contradicts the one this account remembers: {error}") from None
        return checkpoint.size > known.checkpoint.size

    # --- parts ---

    def _bases(self, dimension: int) -> bytes:
        if dimension not in self._generators:
            self._generators[dimension] = generators(self._group, dimension)
        return self._generators[dimension]

    def _evidence(self, memory: WindowState | None = None) -> Evidence:
        facts = {"account": self.state.name, "public_key": self.state.key.public.hex(), "log_key": self._log.vkey()}
        provider = self.state.provider_key()
        if provider is not None:
            facts["provider_key"] = provider.hex()
        evidence = Evidence(self.state.evidence, facts, self._clock)
        if memory is not None:
            evidence.add("manifest", memory.signed.encode())
        return evidence


def _links(
    provider: str | ProviderLink, ledger: str | LedgerLink | None, tls: ClientTls, timeout: float
) -> tuple[ProviderLink, LedgerLink]:
    if ledger is None:
        if not isinstance(provider, str):
            raise ConfigurationError("a provider given as a link needs a ledger too")
        ledger = provider
    if isinstance(provider, str) or isinstance(ledger, str):
        from ragseal.client import remote  # gRPC only where an address is given

        provider = remote.ProviderOverGrpc(provider, tls, timeout) if isinstance(provider, str) else provider
        ledger = remote.LedgerOverGrpc(ledger, tls, timeout) if isinstance(ledger, str) else ledger
    return provider, ledger

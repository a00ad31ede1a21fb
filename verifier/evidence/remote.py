# SPDX-License-Identifier: GPL-3.0-or-later
"""Evidence over gRPC: the provider's service and its log, with bounded sizes and deadlines, nothing believed.

A peer that is away, slow or busy is asked again for as long as the auditor is patient.  What it names as an error is
not signed, so it is no verdict either.  Calls are plain outside, so that an audit reads from top to bottom and can run
beside a server.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from ragseal.kernel.errors import AuditError, BudgetError, TransportError
from ragseal.kernel.inquiry import Ask, BlocksAsk, LinksAsk, ProofsAsk, RegistryAsk
from ragseal.ledger.remote import Connection, RemoteLedger
from ragseal.runtime.rpc import DEFAULT_TIMEOUT, call, chunks
from ragseal.runtime.tls import BY_DEFAULT, ClientTls
from ragseal.v1 import provider_pb2, provider_pb2_grpc
from ragseal.verifier.evidence.evidence import ASK_AGAIN, DELIVER_AGAIN, Undecided
from ragseal.verifier.evidence.patience import Patience

MAX_INDEX_BYTES = 1 << 20  #: columns and a folded opening
MAX_BATCH_BYTES = 1 << 28  #: proofs and their openings
MAX_LINKS_BYTES = 1 << 27  #: 8 bytes a link
SECONDS_TO_ESTIMATE = 1800.0  #: a provider compares all pairs of records within tau when it is first asked
SECONDS_A_PROOF = 60.0  #: a provider that proves on demand needs seconds a record

T = TypeVar("T")


class RemoteEvidence:
    """A provider at ``host:port``: its :class:`Evidence` and its :class:`BeaconLink`.

    Use it as a context manager, or close it.
    """

    def __init__(
        self,
        target: str,
        tls: ClientTls = BY_DEFAULT,
        timeout: float = DEFAULT_TIMEOUT,
        patience: Patience | None = None,
    ) -> None:
        """Without ``patience`` every call is made once.

        Raises:
            ConfigurationError: a malformed address, or certificate files that do not do.
        """
        self.peer, self._timeout = target, timeout
        self._patience = patience or Patience(seconds=0.0)
        self._connection = Connection(target, tls, timeout, "ragseal-evidence")
        self._stub = provider_pb2_grpc.ProviderServiceStub(self._connection.channel)  # type: ignore[no-untyped-call]
        self._ledger = RemoteLedger(self._connection.channel, target, timeout)

    # --- the log ---

    def checkpoint(self) -> bytes:
        return self._ask(lambda: self._ledger.checkpoint())

    def cosigned(self) -> bytes | None:
        return self._ask(lambda: self._ledger.cosigned())

    def entries(self, start: int, stop: int) -> list[bytes]:
        found: list[bytes] = []
        while start + len(found) < stop:
            at = start + len(found)
            found += self._ask(lambda at=at: self._ledger.entries(at, stop - at))  # type: ignore[misc]
        return found

    # --- phase A ---

    def manifest(self, window: str) -> bytes:
        return bytes(self._call(self._stub.GetManifest, provider_pb2.GetManifestRequest(window=window)).canonical)

    def index_file(self, manifest: bytes, tenant: str) -> bytes:
        request = provider_pb2.GetIndexRequest(manifest=manifest, tenant=tenant)
        return self._stream(self._stub.GetIndex, request, MAX_INDEX_BYTES, 10 * self._timeout)

    def version_file(self, manifest: bytes, number: int, tenant: str) -> bytes:
        request = provider_pb2.GetIndexRequest(manifest=manifest, tenant=tenant, version=number)
        return self._stream(self._stub.GetIndex, request, MAX_INDEX_BYTES, 10 * self._timeout)

    def thinned_file(self, manifest: bytes, tenant: str) -> bytes:
        request = provider_pb2.GetIndexRequest(manifest=manifest, tenant=tenant)
        return self._stream(self._stub.GetThinnedIndex, request, MAX_INDEX_BYTES, 10 * self._timeout)

    def commit_beacon(self, canonical: bytes) -> None:
        self._call(self._stub.CommitBeacon, provider_pb2.CommitBeaconRequest(canonical=canonical))

    def open_beacon(self, canonical: bytes) -> None:
        self._call(self._stub.OpenBeacon, provider_pb2.OpenBeaconRequest(canonical=canonical), 2 * self._timeout)

    def submit_verdict(self, canonical: bytes) -> None:
        """Hand in an AuditVerdict for the provider's ledger."""
        self._call(self._stub.SubmitVerdict, provider_pb2.SubmitVerdictRequest(canonical=canonical))

    # --- what only the window's auditor is given ---

    def deliver(self, ask: Ask, proof: bytes) -> bytes:
        request = provider_pb2.AskRequest(canonical=ask.encode(), signature=proof)
        match ask:
            case RegistryAsk():
                method, limit, seconds = self._stub.GetRegistry, MAX_BATCH_BYTES, 10 * self._timeout
            case ProofsAsk():
                method, limit = self._stub.GetProofs, MAX_BATCH_BYTES
                seconds = 10 * self._timeout + SECONDS_A_PROOF * len(ask.seqs)
            case LinksAsk():
                method, limit, seconds = self._stub.GetEstimate, MAX_LINKS_BYTES, SECONDS_TO_ESTIMATE
            case BlocksAsk():
                method, limit = self._stub.GetEstimateProofs, MAX_BATCH_BYTES
                seconds = SECONDS_TO_ESTIMATE + SECONDS_A_PROOF * len(ask.blocks)
        return self._once(lambda: self._chunks(method, request, limit, self._patience.call_seconds(seconds)))

    def patiently(self, once: Callable[[], T]) -> T:
        return self._patience.ask(once)

    # --- plumbing ---

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> RemoteEvidence:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call(self, method: Any, request: Any, seconds: float | None = None) -> Any:
        longest = seconds or self._timeout
        return self._ask(lambda: call(method, request, self.peer, self._patience.call_seconds(longest)))

    def _stream(self, method: Any, request: Any, limit: int, seconds: float) -> bytes:
        return self._ask(lambda: self._chunks(method, request, limit, self._patience.call_seconds(seconds)))

    def _ask(self, action: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return self._patience.ask(lambda: self._once(action))

    def _once(self, action: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The peer's answer.  Silence and BudgetError can be waited out; any other error that it names is not signed.

        Raises:
            TransportError, BudgetError: no answer, or too much to do.
            Undecided: it answers with an error, whatever kind it claims.
        """
        try:
            return self._connection.run(action())
        except (TransportError, BudgetError, Undecided):
            raise
        except AuditError as error:
            raise Undecided(f"the provider refuses without signing that it does: {error}", ASK_AGAIN) from None

    async def _chunks(self, method: Any, request: Any, limit: int, seconds: float) -> bytes:
        """Chunks concatenated, at most ``limit`` bytes."""
        data = bytearray()
        async with contextlib.aclosing(chunks(method, request, self.peer, seconds)) as stream:
            async for chunk in stream:
                data += chunk
                if len(data) > limit:
                    raise Undecided(f"what {self.peer} delivers is oversized: more than {limit} bytes", DELIVER_AGAIN)
        return bytes(data)

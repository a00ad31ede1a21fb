# SPDX-License-Identifier: GPL-3.0-or-later
"""What a provider asks of others: the auditor's proving key, and its own running service to close a window."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragseal.circuits.circuit import Shape
from ragseal.groth16.keys import KeyPaths
from ragseal.groth16.powers import PowersFile
from ragseal.kernel import signature
from ragseal.kernel.commitment import SignedManifest
from ragseal.kernel.errors import CommitmentError, ConfigurationError, EncodingError, ProofError, TransportError
from ragseal.kernel.policy import MOST_ANSWERED_BY
from ragseal.kernel.publickey import check_public_key
from ragseal.kernel.signature import SigningKey
from ragseal.prover.keys.keyring import KeyRing
from ragseal.runtime.edges.filesystem import why
from ragseal.runtime.rpc import call, chunks, dial
from ragseal.runtime.tls import ClientTls
from ragseal.v1 import provider_pb2, provider_pb2_grpc, verifier_pb2, verifier_pb2_grpc

MAX_KEY_BYTES = 8 << 30
KEY_TIMEOUT = 1800.0  #: seconds for the whole key
CLOSE_TIMEOUT = 60.0 + MOST_ANSWERED_BY  #: a window closes behind what it admitted

Moved = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Fetched:
    """A proving key and whose it is."""

    paths: KeyPaths
    auditor_key: bytes  #: that a manifest names as its auditor's


# --- keys ------------------------------------------------------------------------------------------------------------


def fetch_key(
    address: str,
    tls: ClientTls,
    cls: Shape,
    class_digest: bytes,
    wanted: bytes | None,
    ring: KeyRing[Any, Any],
    moved: Moved,
    powers: PowersFile | None = None,
) -> Fetched:
    """Get a class's proving key from an auditor, check it, and keep it.

    Args:
        wanted: only the key with this digest.
        moved: told (bytes so far, bytes in all).
        powers: what the key must be made of, point for point.

    Returns:
        The key, and the beacon key of the auditor that gave it.

    Raises:
        ConfigurationError: the auditor holds no key of this class, or of another build of it.
        ProofError: what was sent is not what was announced, or breaks a rule of SPEC A.9.
        TransportError: out of reach, or cut off.
    """
    return asyncio.run(_fetch_key(address, tls, cls, class_digest, wanted, ring, moved, powers))


async def _fetch_key(
    address: str,
    tls: ClientTls,
    cls: Shape,
    class_digest: bytes,
    wanted: bytes | None,
    ring: KeyRing[Any, Any],
    moved: Moved,
    powers: PowersFile | None = None,
) -> Fetched:
    async with dial(address, tls) as channel:
        stub = verifier_pb2_grpc.VerifierServiceStub(channel)  # type: ignore[no-untyped-call]
        listed = await call(stub.ListKeys, verifier_pb2.ListKeysRequest(), address)
        keys = [k for k in listed.keys if k.class_name == cls.name and wanted in (None, k.key_digest)]
        if not keys:
            raise ConfigurationError(
                f"the auditor at {address} has no such key of class {cls.name!r}: it must make one"
            )
        fitting = [k for k in keys if k.class_digest == class_digest]
        if not fitting:
            raise ConfigurationError(
                f"the auditor at {address} has another build of class {cls.name!r}: both sides need the same ragseal"
            )
        chosen = fitting[-1]
        if len(chosen.key_digest) != 32 or not 0 < chosen.size <= MAX_KEY_BYTES:
            raise TransportError(f"{address} announces a key of {chosen.size} bytes: not a proving key")
        try:
            check_public_key(bytes(listed.auditor_key))
        except EncodingError as error:
            raise TransportError(f"{address} names no beacon key that an auditor could have: {error}") from None
        part = await _download(stub, address, chosen, ring.directory, moved)
    paths = await asyncio.to_thread(ring.install, part, bytes(chosen.key_digest), powers)
    return Fetched(paths, bytes(listed.auditor_key))


async def _download(stub: Any, address: str, chosen: Any, directory: Path, moved: Moved) -> Path:
    """The announced number of bytes in a temporary file, or nothing."""
    handle, name = tempfile.mkstemp(suffix=".part", dir=directory)
    part, done = Path(name), 0
    try:
        with os.fdopen(handle, "wb") as file:
            request = verifier_pb2.GetKeyRequest(key_digest=chosen.key_digest)
            async with contextlib.aclosing(chunks(stub.GetKey, request, address, KEY_TIMEOUT)) as stream:
                async for data in stream:
                    done += len(data)
                    if done > chosen.size:
                        raise ProofError(f"{address} sends more than the {chosen.size} bytes that it announced")
                    file.write(data)
                    moved(done, chosen.size)
        if done != chosen.size:
            raise TransportError(f"{address} sent {done} of {chosen.size} bytes: try again")
        return part
    except OSError as error:
        part.unlink(missing_ok=True)
        raise ConfigurationError(f"cannot keep the key in {directory}: {why(error, directory)}") from None
    except BaseException:
        part.unlink(missing_ok=True)
        raise


# --- one's own service -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Closed:
    """A window that was closed."""

    window: str
    ledger_index: int
    records: int


def close_window(address: str, tls: ClientTls, key: SigningKey, window: str) -> Closed:
    """Close a window of the provider that serves at ``address`` with ``key``'s signature.

    Raises:
        CommitmentError: another provider serves there, or the window is not open.
        TransportError: out of reach.
    """
    return asyncio.run(_close_window(address, tls, key, window))


async def _close_window(address: str, tls: ClientTls, key: SigningKey, window: str) -> Closed:
    async with dial(address, tls) as channel:
        stub = provider_pb2_grpc.ProviderServiceStub(channel)  # type: ignore[no-untyped-call]
        shown = await call(stub.GetManifest, provider_pb2.GetManifestRequest(window=window), address)
        signed = SignedManifest.decode(shown.canonical)
        signed.verify()
        if signed.manifest.provider_key != signature.public_bytes(key):
            raise CommitmentError(f"the provider at {address} has a key different from this state's: check the address")
        digest = signed.manifest.digest()
        request = provider_pb2.CloseWindowRequest(manifest=digest, signature=signature.sign(key, "close", digest))
        closed = await call(stub.CloseWindow, request, address, CLOSE_TIMEOUT)
        return Closed(signed.manifest.window, closed.ledger_index, closed.records)

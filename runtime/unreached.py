# SPDX-License-Identifier: GPL-3.0-or-later
"""The error of a gRPC call that reached nobody: the peer is looked at before anything is blamed."""

from __future__ import annotations

import grpc
import grpc.aio

from ragseal.kernel.errors import AuditError, ConfigurationError, MismatchError, TransportError
from ragseal.kernel.printable import printable
from ragseal.runtime.edges.address import Address
from ragseal.runtime.edges.reaching import look_at
from ragseal.runtime.statuses import answered, error_of
from ragseal.runtime.tls import BY_DEFAULT, ClientTls

_UNANSWERED = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)

MOST = 256  #: addresses of which it is known how they are called

_dialled: dict[str, ClientTls] = {}  #: by address, as it was given; the newest last


def remember(target: str, tls: ClientTls) -> None:
    """With which files an address is called, so that a look at it uses the same."""
    _dialled.pop(target, None)
    _dialled[target] = tls
    while len(_dialled) > MOST:
        _dialled.pop(next(iter(_dialled)))


async def explained(error: grpc.RpcError, peer: str) -> AuditError:
    """As :func:`ragseal.runtime.statuses.error_of`; where nobody was reached, with what a look at the peer shows.

    Takes a few seconds at most.
    """
    if not isinstance(error, grpc.aio.AioRpcError) or answered(error) or error.code() not in _UNANSWERED:
        return error_of(error, peer)
    try:
        address = Address.parse(peer)
    except ConfigurationError:  # a peer that errors call by another name than its address
        return error_of(error, peer)
    tls = _dialled.get(peer, BY_DEFAULT)
    seen = await look_at(address, tls if tls.encrypts(peer) else None)
    by_grpc = error_of(error, peer)
    if error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
        return by_grpc if seen.cause is None else TransportError(f"{by_grpc}. A look at it shows: {seen.cause}")
    if seen.mismatch:
        encrypted = "TLS" in str(seen.cause) or "certificate" in str(seen.cause)
        with_whom = f"{peer} and this machine do not agree on TLS" if encrypted else f"{peer} is another program"
        return MismatchError(f"{with_whom}: {seen.cause}")
    if isinstance(by_grpc, MismatchError) and (seen.cause is None or seen.shook):
        return by_grpc  # its TLS stack is another one than Python's, with which the look went well
    if seen.cause is not None:
        return TransportError(f"{peer} cannot be reached: {seen.cause}")
    said = printable((error.details() or "")[:1000]).rpartition(": ")[2]  # gRPC says it last, behind every address
    return TransportError(f"{peer} cannot be reached: the call failed ({said}), and a look right after it went well "
                          f"({seen.told}): try again")  # fmt: skip

# SPDX-License-Identifier: GPL-3.0-or-later
"""AuditErrors as gRPC statuses and back."""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio

from ragseal.kernel import errors
from ragseal.kernel.errors import AuditError, BudgetError, LedgerError, MismatchError, TransportError, UnavailableError
from ragseal.kernel.printable import printable
from ragseal.runtime import retry_info
from ragseal.runtime.edges.private import for_others

MAX_ERROR_BYTES = 2000
#: What is said to others than the operator, who calls by a Unix socket: which tool is missing here is no business of
#: theirs, and its way out is nothing that they could take.
ELSEWHERE = "something on this machine is missing for that; its operator finds in its log what, and can ask you again"
ERROR_KEY = "ragseal-error"  #: trailing metadata that names the AuditError

_STATUS: dict[type[AuditError], grpc.StatusCode] = {
    errors.EncodingError: grpc.StatusCode.INVALID_ARGUMENT,
    errors.PolicyError: grpc.StatusCode.FAILED_PRECONDITION,
    errors.CommitmentError: grpc.StatusCode.FAILED_PRECONDITION,
    errors.AttestationError: grpc.StatusCode.FAILED_PRECONDITION,
    errors.ProofError: grpc.StatusCode.FAILED_PRECONDITION,
    errors.EstimateError: grpc.StatusCode.FAILED_PRECONDITION,
    errors.LedgerError: grpc.StatusCode.FAILED_PRECONDITION,
    errors.BudgetError: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.UnprovableError: grpc.StatusCode.OUT_OF_RANGE,
    errors.ConfigurationError: grpc.StatusCode.FAILED_PRECONDITION,
    errors.UnavailableError: grpc.StatusCode.FAILED_PRECONDITION,
    errors.TransportError: grpc.StatusCode.UNAVAILABLE,
}
_BY_NAME = {kind.__name__: kind for kind in _STATUS}

_log = logging.getLogger("ragseal.rpc")


def status_of(error: AuditError) -> tuple[grpc.StatusCode, str, str]:
    """(status code, text, name of the nearest error class that the wire knows)."""
    for kind in type(error).__mro__:
        if kind in _STATUS:
            return _STATUS[kind], _short(str(error)), kind.__name__
    return grpc.StatusCode.FAILED_PRECONDITION, _short(str(error)), LedgerError.__name__


def _short(text: str) -> str:
    """Text for a status: it travels in a header of 8 KiB, three bytes for one, and may repeat what the caller sent."""
    return text.encode("utf-8", "replace")[:MAX_ERROR_BYTES].decode("utf-8", "ignore")


def answered(error: grpc.aio.AioRpcError) -> bool:
    """Whether a failed call was refused by the peer itself."""
    return any(key == ERROR_KEY for key, _ in error.trailing_metadata() or ())


def error_of(error: grpc.RpcError, peer: str) -> AuditError:
    """The AuditError that a failed call stands for.  The peer's text is cut and cleaned: it may come from an enemy."""
    code, details = grpc.StatusCode.UNKNOWN, ""
    metadata: Iterable[tuple[str, str | bytes]] = ()
    if isinstance(error, grpc.aio.AioRpcError):
        code, details = error.code(), error.details() or ""
        metadata = error.trailing_metadata() or ()
    text = printable(details[:1000])
    for key, value in metadata:
        if key == ERROR_KEY and value in _BY_NAME:
            found = _BY_NAME[str(value)](f"{peer} answers: {text}")
            if isinstance(found, BudgetError):
                found.retry_after_ms = _retry_after_ms(metadata)
            return found
    if code == grpc.StatusCode.UNAVAILABLE and ("handshake failed" in text or "CERTIFICATE" in text):
        return MismatchError(
            f"{peer} and this machine do not agree on TLS ({text}): check --ca FILE, which names the authority, and "
            "the certificates of both"
        )
    if code == grpc.StatusCode.UNAVAILABLE:
        reason = text.rpartition(": ")[2]  # gRPC says it last, behind every address that it has tried
        return TransportError(f"{peer} cannot be reached ({reason}): see whether it runs, and look at it with `doctor`")
    if code == grpc.StatusCode.DEADLINE_EXCEEDED:
        return TransportError(f"{peer} did not answer in time; it may still have done what was asked: try again")
    if code == grpc.StatusCode.UNIMPLEMENTED:
        return MismatchError(f"{peer} does not offer this call: another program, or another version of ragseal")
    return TransportError(f"{peer} failed with {code.name}: {text}")


def _retry_after_ms(metadata: Iterable[tuple[str, str | bytes]]) -> int | None:
    for key, value in metadata:
        if key == retry_info.KEY and isinstance(value, bytes):
            seconds = retry_info.seconds_of(value)
            return None if seconds is None else math.ceil(1000 * seconds)
    return None


@asynccontextmanager
async def statuses(name: str, context: Any) -> AsyncIterator[None]:
    """What a handler raises becomes the status of its call; the details of what is no AuditError stay in the log."""
    try:
        yield
    except AuditError as error:
        if isinstance(error, UnavailableError) and not context.peer().startswith("unix:"):
            _log.error("%s: %s", name, error)
            error = UnavailableError(ELSEWHERE)
        code, text, kind = status_of(error)
        if not context.peer().startswith("unix:"):  # who calls on a Unix socket sits at this machine
            text = for_others(text)
        more: list[tuple[str, str | bytes]] = [(ERROR_KEY, kind)]
        if isinstance(error, BudgetError) and error.retry_after_ms is not None:
            more.append(retry_info.details(code.value[0], text, error.retry_after_ms / 1000))
        await context.abort(code, text, trailing_metadata=tuple(more))
    except Exception as error:
        if isinstance(error, grpc.aio.AbortError):
            raise
        _log.exception("%s failed", name)
        await context.abort(grpc.StatusCode.INTERNAL, "internal error; the operator finds it in the log")

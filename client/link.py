# SPDX-License-Identifier: GPL-3.0-or-later
"""What the client asks of a provider and of its ledger, in bytes: gRPC in :mod:`ragseal.client.remote`.

Answers are handed over undecoded, so that a check that fails can save exactly what was received.  Every call raises
TransportError when the peer is out of reach or gives no answer in time, and the AuditError that the peer names when it
refuses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

from ragseal.kernel.errors import AuditError, TransportError

T = TypeVar("T")

Stage = Literal["preparing", "open", "closed"]  #: only an open window takes queries


@dataclass(frozen=True, slots=True)
class Announced:
    """A window as the provider announces it."""

    manifest: bytes  #: SignedManifest
    ledger_index: int  #: of the manifest's entry
    stage: Stage  #: a hint when to look: that a window is open the account reads in the log


@dataclass(frozen=True, slots=True)
class PreparedReply:
    """What comes for a Prepare."""

    canonical: bytes  #: Prepared
    answered: int | None  #: records that the window has of this account, as the provider says; None: it does not say


@dataclass(frozen=True, slots=True)
class Retrieved:
    """What comes for a signed request, or for an AnswerAsk."""

    answer: bytes  #: SealedAnswer, the same bytes whenever the same is sent again; empty: no record has that number
    consistency: tuple[bytes, ...]  #: RFC 9162 path between the size that was named and the receipt's checkpoint
    update: int = 0  #: of an AnswerAsk: ledger index of the update of the version that the record names


class ProviderLink(Protocol):
    """The provider's half of phases A and B."""

    def announced(self, window: str = "") -> Announced:
        """The window of this name; without one the window that is open, else the newest."""
        ...

    def account(self, canonical: bytes, signature: bytes) -> bytes:
        """AccountAsk and the account's signature over it; gives a Membership."""
        ...

    def prepare(self, canonical: bytes, signature: bytes) -> PreparedReply:
        """Prepare and the account's signature over it."""
        ...

    def retrieve(self, canonical: bytes, signature: bytes, known_size: int, after: float = 0.0) -> Retrieved:
        """SignedRequest or AnswerAsk, the account's signature that fetches, and the size of its newest checkpoint.

        ``after``: seconds that lie between request and answer by the window's policy, and count for no time-out.
        """
        ...

    def close(self) -> None: ...


class LedgerLink(Protocol):
    """The ledger that the provider's receipts point into."""

    def checkpoint(self) -> bytes:
        """The log's newest signed note."""
        ...

    def cosigned(self) -> bytes | None:
        """The newest note that is served as witnessed; None without one.  Asked for under a witness policy only."""
        ...

    def entries(self, start: int, count: int) -> list[bytes]:
        """Entries from ``start`` on, at least one and at most ``count``."""
        ...

    def inclusion(self, index: int, size: int) -> list[bytes]:
        """RFC 6962 inclusion path of entry ``index`` among the first ``size``."""
        ...

    def consistency(self, old: int, new: int) -> list[bytes]:
        """RFC 6962 consistency path between two sizes, 0 < old <= new."""
        ...

    def rotations(self) -> list[bytes]:
        """Turns of the log's key in their order, an encoded TurnProof each; none where it has its first key."""
        ...

    def close(self) -> None: ...


# --- refusals --------------------------------------------------------------------------------------------------------


class RefusedError(Exception):
    """The provider refused a call with a reason of its own: no answer was given, nothing was checked."""

    def __init__(self, reason: AuditError) -> None:
        super().__init__(str(reason))
        self.reason = reason


def refusable(call: Callable[[], T], first: RefusedError | None = None) -> T:
    """What a call brings; a refusal becomes a RefusedError (``first`` where an earlier one is the better reason)."""
    try:
        return call()
    except TransportError:
        raise
    except AuditError as reason:
        raise (first or RefusedError(reason)) from None

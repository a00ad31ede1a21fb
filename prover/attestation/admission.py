# SPDX-License-Identifier: GPL-3.0-or-later
"""Which requests may be worked on at all, said before anything is loaded for them.  SPEC B.2, B.9."""

from __future__ import annotations

from collections.abc import Callable

from ragseal.kernel.attestation import SignedRequest
from ragseal.kernel.commitment import Account
from ragseal.kernel.errors import AttestationError, BudgetError
from ragseal.prover.attestation.pending import Pending, PendingTable
from ragseal.prover.attestation.under_way import UnderWay
from ragseal.prover.storage.history import History, coarse
from ragseal.prover.storage.window import Stage, Window
from ragseal.runtime.face import when


class Admission:
    """Looks at ledger and pending Prepares only: whoever is refused must not cost the provider a window's loading."""

    def __init__(
        self, history: History, pending: PendingTable, clock: Callable[[], float], under_way: UnderWay
    ) -> None:
        """
        Args:
            clock: seconds since 1970.
            under_way: what was admitted.
        """
        self._history = history
        self._pending = pending
        self._clock = clock
        self._under_way = under_way

    def check_open(self, window: Window) -> None:
        """Raises AttestationError: this window takes no queries now."""
        policy, name = window.manifest.policy, window.manifest.window
        if window not in (self._history.open, self._history.newest):
            raise AttestationError(f"window {name!r} is over: ask GetManifest for the one that is open, and ask again")
        if window.stage is not Stage.OPEN:
            state = "closed" if window.stage is Stage.CLOSED else "not open yet: its beacon is incomplete"
            raise AttestationError(f"window {name!r} is {state}")
        if self._under_way.closing(window):
            raise AttestationError(f"window {name!r} is being closed: ask again in the next one; nothing was recorded")
        now = self._clock()
        if now < policy.opens:
            raise AttestationError(f"window {name!r} takes queries from {when(policy.opens)} on: ask again then")
        if now <= window.closes < now + policy.answered_by:
            raise AttestationError(
                f"window {name!r} ends at {when(window.closes)}, before an answer could leave, {policy.answered_by} s "
                "from now: ask again when the provider has opened the next one"
            )
        if now > window.closes:
            raise AttestationError(
                f"window {name!r} ended at {when(window.closes)} and takes no queries any more: ask again when the "
                "provider has opened the next one"
            )
        if window.overdue(now) or window.too_late(coarse(now + policy.answered_by)):
            raise AttestationError(
                f"the index of window {name!r} is being brought up to date: ask again in a minute; nothing was recorded"
            )

    def check_still(self, window: Window, account: Account, message: SignedRequest) -> None:
        """Raises AttestationError: the window closed, its time ended or versions came since :meth:`due`."""
        if window.stage is not Stage.OPEN:
            raise AttestationError(f"window {window.manifest.window!r} is closed: ask again in the next one")
        self.check_open(window)
        check_version(window, account.tenant, message.request.index_digest)

    def due(self, window: Window, account: Account, message: SignedRequest) -> Pending | None:
        """The Prepare that the account's next query follows; None for a ctr that was answered before.

        Raises:
            AttestationError: neither of the two.
            BudgetError: more than n_max queries.
        """
        request, manifest = message.request, window.manifest
        if request.origin != manifest.origin or request.window != manifest.window:
            raise AttestationError("the request names a ledger or window different from its manifest's")
        last = window.counters.get(request.account, 0)
        if request.ctr <= last:
            return None
        self.check_open(window)
        if request.ctr != last + 1:
            raise AttestationError(f"ctr {request.ctr} does not follow {last}: send requests in order, without gaps")
        if request.ctr > manifest.policy.n_max:
            raise spent(window, account.name)
        pending = self._pending.find(window.digest, request.account, request.request_id)
        if pending is None or (request.account, request.request_id) in window.request_ids:
            raise AttestationError("no Prepare waits under this request id: send Prepare first (again)")
        if (request.account, request.nonce) in window.nonces:
            # An auditor fails a window in which a nonce recurs, so no account may bring that about.
            raise AttestationError("the request's nonce was used before: draw a fresh one for every request")
        if request.c_e != pending.c_e or request.query_digest != pending.query_digest:
            raise AttestationError("the request signs a query or C_e different from its Prepare's")
        check_embedding(window, request.checked)
        check_version(window, account.tenant, request.index_digest)
        return pending


def check_embedding(window: Window, checked: bool) -> None:
    """The policy may ask for records of checked embeddings alone.

    Raises:
        AttestationError: this would not be one; nothing of the account's budget is spent.
    """
    if window.manifest.policy.checked and not checked:
        raise AttestationError(
            "this window's policy takes only queries whose account has computed the embedding itself and finds it "
            "committed to: ask with the embedder that the manifest names (`ragseal ask --embedder`)"
        )


def check_version(window: Window, tenant: str, digest: bytes) -> None:
    """Raises AttestationError: a digest of no version of this tenant's index that records may name now."""
    if digest in window.answering(tenant):
        return
    if digest in window.numbers:
        raise AttestationError(
            "the request names a version of the index that is older than the two newest ones: it was not recorded. "
            "Prepare again before you sign; what was signed over that version gets no answer in this window"
        )
    raise AttestationError("the request names an index version different from its Prepare's")


def spent(window: Window, account: str) -> BudgetError:
    """The refusal of an account that has asked all its queries."""
    n = window.manifest.policy.n_max
    return BudgetError(f"account {account!r} has asked its n_max = {n} queries: wait for the next window")

# SPDX-License-Identifier: GPL-3.0-or-later
"""The life of every window as the ledger tells it.  SPEC A and B.

The ledger is the one source of truth: :class:`History` replays it at the start and is fed every entry that is appended
afterwards, so that a restart in the middle of a window continues exactly where the log ends.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ragseal.kernel.attestation import COARSE_TIME, Record
from ragseal.kernel.beacon import (
    BeaconCommit,
    BeaconOpening,
    BeaconSeal,
    Seat,
)
from ragseal.kernel.coin_period import check_continues, same_coins
from ragseal.kernel.commitment import (
    MESSAGES,
    Manifest,
    SignedManifest,
    Thinning,
    WindowClose,
    WindowOpen,
)
from ragseal.kernel.encoding import Message, decode_any
from ragseal.kernel.errors import AuditError, CommitmentError, LedgerError
from ragseal.kernel.policy import Policy
from ragseal.kernel.rotation import Rotation
from ragseal.kernel.verdict import AuditVerdict
from ragseal.kernel.versions import IndexUpdate
from ragseal.prover.storage.audit_verdicts import check_verdict
from ragseal.prover.storage.window import Stage, Window


class History:
    """Every window of one ledger, oldest first."""

    def __init__(self, origin: str, provider_key: bytes, log: bytes) -> None:
        """``log``: its :func:`ragseal.kernel.verdict.log_digest`."""
        self.origin = origin
        self.provider_key = provider_key
        self.log = log
        self.windows: dict[bytes, Window] = {}
        self._open: Window | None = None

    @property
    def newest(self) -> Window | None:
        """Of the newest manifest: any earlier one that has not opened never will."""
        return next(reversed(self.windows.values()), None)

    @property
    def open(self) -> Window | None:
        """The window that takes queries; there is never a second one."""
        return self._open

    @property
    def current(self) -> Window | None:
        """What accounts are told of: the open window, else the newest."""
        return self._open or self.newest

    @property
    def following(self) -> Window | None:
        """The window whose beacon runs or is complete: the newest, until it opens.  It may stand beside an open one."""
        newest = self.newest
        return newest if newest is not None and newest.stage in (Stage.COMMITTED, Stage.SEALED) else None

    def passed_over(self, window: Window) -> bool:
        """Whether a newer manifest came before the window had opened, so that it never will."""
        return window.beacon is None and window is not self.newest

    def window(self, manifest: bytes) -> Window:
        """A window by its manifest's digest; CommitmentError if there is none."""
        found = self.windows.get(manifest)
        if found is None:
            raise CommitmentError("this provider's ledger holds no window with that manifest: ask GetManifest again")
        return found

    def named(self, name: str) -> Window:
        """A window by name, the newest for the empty name; CommitmentError if there is none."""
        found = self.newest if not name else next((w for w in self.windows.values() if w.manifest.window == name), None)
        if found is None:
            raise CommitmentError(
                f"this provider's ledger holds no window {name!r}"
                if name
                else "this provider has not committed a window yet: ask again once it has"
            )
        return found

    def check_next(self, name: str, opens: int) -> None:
        """Whether a window of this name may open at this time: known before anything is made of it.

        Raises:
            CommitmentError: a window name that occurred before, or an overlap.
        """
        for window in self.windows.values():
            other = window.manifest
            if other.window == name:
                raise CommitmentError(f"window {name!r} exists: a window is never opened twice, take a new name")
            if window.stage is Stage.CLOSED and opens < window.ends:
                raise CommitmentError(
                    f"window {name!r} would open before {other.window!r} ended: windows do not overlap"
                )

    def check_manifest(self, signed: SignedManifest) -> None:
        """Whether a manifest may follow what the ledger holds.

        Raises:
            CommitmentError: a window name or seed commitment that occurred before, coins that may not be carried on,
                or an overlap.
        """
        manifest = signed.manifest
        signed.verify()
        if (manifest.origin, manifest.log, manifest.provider_key) != (self.origin, self.log, self.provider_key):
            raise CommitmentError("the manifest names another ledger or provider key")
        self.check_next(manifest.window, manifest.policy.opens)
        for window in self.windows.values():
            other = window.manifest
            if other.c_seed == manifest.c_seed:
                raise CommitmentError(f"the seed of window {other.window!r} is used again: every window needs its own")
            if _one_c_coin(other, manifest) and other.coin_period != manifest.coin_period:
                raise CommitmentError(f"the coin seed of window {other.window!r} is used again")
            if other.beacon_commitment == manifest.beacon_commitment:
                raise CommitmentError(f"the beacon nonce of window {other.window!r} is used again")

        if manifest.coins and manifest.coin.thrown_by:
            self.throw(manifest)

    def carried(self, policy: Policy, auditors: Sequence[Seat], tenants: Collection[str]) -> Window | None:
        """The window whose coins a next one of this policy, with these auditors, carries on.

        ``tenants``: of the next one, those whose claim has a coin.

        The newest throw of the budget period, if it was thinned by and hides as many: any other choice would cost a
        throw more.

        Returns:
            None where it throws its own.
        """
        for window in reversed(self.windows.values()):
            known = window.manifest
            if not known.coins or known.coin.thrown_by or window.seal is None or window.missing():
                continue
            same = known.policy.hidden == policy.hidden and known.policy.period_start == policy.period_start
            same = same and same_coins(known.policy, policy)
            same = same and set(known.coined).issuperset(tenants)
            return window if same and window.thinning is not None and known.auditors == tuple(auditors) else None
        return None

    def throw(self, manifest: Manifest) -> tuple[bytes, int]:
        """(digest, beacon) of the window whose beacon threw the coins of ``manifest``, an earlier one's.

        Raises:
            CommitmentError: none whose coins it may carry on, or not thrown yet.
        """
        first = self.windows.get(manifest.coin_period)
        if first is None:
            raise CommitmentError("the manifest carries on the coins of a window that this ledger does not hold")
        check_continues(manifest, first.manifest)
        return first.digest, first.seal_value()

    def opening_time(self, window: Window, now: float) -> int:
        """The time that a window's opening states: ``now``, but never before what the ledger or its policy says.

        A clock that was set back must not make an honest window open before an earlier one was closed (SPEC D.2).
        """
        known = [other.close.time if other.close else other.time for other in self.windows.values()]
        return max(coarse(now), coarse(window.manifest.policy.opens), *known)

    def _check_opening(self, window: Window, message: WindowOpen) -> None:
        """What the auditor holds against an opening: its time, and a window that is still open (SPEC A.1.1)."""
        if self._open is not None and self._open is not window:
            raise CommitmentError(
                f"window {self._open.manifest.window!r} is open: a window opens only after the one before it was closed"
            )
        if message.time < self.opening_time(window, message.time):
            raise CommitmentError("the window would open before its policy says, or before an earlier one was closed")
        if message.time > window.manifest.policy.opens_by:
            raise CommitmentError("it is too late for the window to open: commit a new one")

    def add(self, index: int, entry: bytes) -> Message:
        """Take in the ledger's entry number ``index``.

        Raises:
            AuditError: the entry may not stand there; nothing is changed.
        """
        message = decode_any(entry, (*MESSAGES, Record))
        if isinstance(message, SignedManifest):
            self.check_manifest(message)
            digest = message.manifest.digest()
            self.windows[digest] = Window(message, digest, index)
            return message
        if isinstance(message, Rotation):  # of the log itself, which has checked it: it moves nothing here
            return message
        window = self.window(message.manifest)  # type: ignore[attr-defined]
        if isinstance(message, AuditVerdict):  # comes when the window is over, and moves nothing
            check_verdict(message, window.manifest, window.verdicts, self.log)
            window.verdicts[message.auditor, message.digest] = message
            return message
        if window is not self.newest and window is not self._open:
            raise CommitmentError(f"window {window.manifest.window!r} is over: a newer manifest is in the ledger")
        if isinstance(message, BeaconCommit):
            window.add_commit(message)
        elif isinstance(message, BeaconSeal):
            window.add_seal(message)
        elif isinstance(message, BeaconOpening):
            window.add_opening(message)
        elif isinstance(message, Thinning):
            window.add_thinning(message)
        elif isinstance(message, WindowOpen):
            self._check_opening(window, message)
            window.add_open(message)
            self._open = window
        elif isinstance(message, IndexUpdate):
            window.add_update(message, index)
        elif isinstance(message, Record):
            window.add_record(message, index)
        elif isinstance(message, WindowClose):
            window.add_close(message)
            self._open = None
        return message

    def replay(self, index: int, entry: bytes) -> None:
        """As :meth:`add`, for an entry that is in the ledger already.

        Raises:
            LedgerError: the ledger holds what this program would never have written.
        """
        try:
            self.add(index, entry)
        except AuditError as error:
            raise LedgerError(f"ledger entry {index} may not stand there ({error}): restore the ledger") from None


def _one_c_coin(one: Manifest, other: Manifest) -> bool:
    return bool(one.coins and other.coins) and one.coin.c_coin == other.coin.c_coin


def coarse(now: float) -> int:
    """A record's time: ``now`` rounded down to a multiple of COARSE_TIME seconds."""
    return int(now) // COARSE_TIME * COARSE_TIME

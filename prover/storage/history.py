# SPDX-License-Identifier: GPL-3.0-or-later
"""The life of every window as the ledger tells it.  SPEC A and B.

The ledger is the one source of truth: :class:`History` replays it at the start and is fed every entry that is appended
afterwards, so that a restart in the middle of a window continues exactly where the log ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from ragseal.kernel.attestation import COARSE_TIME, Record
from ragseal.kernel.beacon import (
    OBSERVER,
    PROVIDER,
    BeaconCommit,
    BeaconOpening,
    BeaconSeal,
    Seat,
    beacon_commitment,
    beacon_value,
    is_auditor,
    is_observer,
)
from ragseal.kernel.coin_period import check_continues
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
from ragseal.kernel.verdict import AuditVerdict
from ragseal.kernel.versions import ANSWERING, IndexUpdate, tick_at
from ragseal.prover.storage.audit_verdicts import check_verdict


class Stage(Enum):
    """Where a window stands."""

    COMMITTED = 1  #: manifest in the ledger, takes beacon commitments
    SEALED = 2  #: takes beacon openings
    OPEN = 3
    CLOSED = 4


@dataclass(slots=True)
class Window:
    """One window, as far as the ledger goes."""

    signed: SignedManifest
    digest: bytes
    index: int  #: ledger index of the manifest
    commits: dict[str, BeaconCommit] = field(default_factory=dict)
    seal: BeaconSeal | None = None
    openings: dict[str, bytes] = field(default_factory=dict)
    thinning: Thinning | None = None
    beacon: int | None = None
    opened_at: int = 0  #: what its opening states
    time: int = 0  #: of the newest entry that carries one
    records: list[int] = field(default_factory=list)  #: ledger index by seq
    counters: dict[str, int] = field(default_factory=dict)  #: newest ctr by account
    seq_of: dict[tuple[str, int], int] = field(default_factory=dict)  #: seq by (account, ctr)
    request_ids: set[tuple[str, bytes]] = field(default_factory=set)  #: used ones
    nonces: set[tuple[str, bytes]] = field(default_factory=set)  #: used ones
    updates: list[tuple[int, IndexUpdate]] = field(default_factory=list)  #: with their places in the ledger
    close: WindowClose | None = None
    numbers: dict[bytes, int] = field(default_factory=dict)  #: of updates, by the digest of each of their versions
    verdicts: dict[bytes, AuditVerdict] = field(default_factory=dict)  #: of its auditor, by their envelopes' digests

    @property
    def manifest(self) -> Manifest:
        return self.signed.manifest

    @property
    def stage(self) -> Stage:
        if self.close is not None:
            return Stage.CLOSED
        if self.beacon is not None:
            return Stage.OPEN
        return Stage.COMMITTED if self.seal is None else Stage.SEALED

    @property
    def ends(self) -> int:
        """Until when the window blocks others, in seconds since 1970."""
        return min(self.manifest.policy.closes, self.close.time) if self.close else self.manifest.policy.closes

    def missing(self) -> list[str]:
        """Sealed owners that have not opened, in the seal's order."""
        return [] if self.seal is None else [o for o in self.seal.owners if o not in self.openings]

    def committed_auditors(self) -> tuple[str, ...]:
        """The auditors that have committed to a nonce, in the manifest's order."""
        return tuple(one.owner for one in self.manifest.auditors if one.owner in self.commits)

    def seal_value(self) -> int:
        """The beacon of a seal whose owners have all opened; CommitmentError otherwise."""
        if self.seal is None or self.missing():
            raise CommitmentError("the beacon is not complete: some owner has not opened its nonce")
        return beacon_value(self.digest, [(owner, self.openings[owner]) for owner in self.seal.owners])

    # --- index versions (SPEC A.12) ---

    @property
    def every(self) -> int:
        """Seconds from one version of the indices to the next; 0: the window has one."""
        return self.manifest.policy.version_every

    def answering(self, tenant: str) -> dict[bytes, int]:
        """Numbers of the versions of a tenant's index that records may name now, by digest, newest first."""
        if not self.every:
            return {self.manifest.index_of(tenant).digest(): 0}
        return {one.index_digest(tenant): one.number for _, one in reversed(self.updates[-ANSWERING:])}

    def number_of(self, digest: bytes) -> int:
        """Which of all versions that this window has had has this digest; 0: the manifest's.

        Raises:
            CommitmentError: none of them.
        """
        if not self.every:
            return 0
        if digest not in self.numbers:
            raise CommitmentError("no version of an index in this window has that digest")
        return self.numbers[digest]

    def overdue(self, now: float) -> bool:
        """Whether the newest version is too old to answer from: the audit would hold that against this provider."""
        return bool(self.every) and (not self.updates or now >= self.updates[-1][1].time + ANSWERING * self.every)

    def due(self, now: float) -> int | None:
        """The tick for which a new version is to be made; None while there is none."""
        if not self.every or self.stage is not Stage.OPEN:
            return None
        tick = tick_at(self.opened_at, self.every, int(now))
        if self.updates and tick <= self.updates[-1][1].time:
            return None
        return tick

    # --- transitions ---

    def add_commit(self, message: BeaconCommit) -> None:
        """Raises CommitmentError: too late, a name or key that may not take part, or a name taken."""
        message.verify()
        if self.stage is not Stage.COMMITTED:
            raise CommitmentError("the beacon is sealed: it takes no further participants")
        if not is_observer(message.owner):
            seat = self.manifest.auditor(message.owner)
            if seat is None:
                raise CommitmentError(
                    f"beyond the manifest's auditors ({', '.join(one.owner for one in self.manifest.auditors)}) beacon "
                    f'participants are called "{OBSERVER}<name>"'
                )
            if message.public_key != seat.public_key:
                raise CommitmentError(
                    f"the manifest names another key for {seat.owner}, {seat.public_key.hex()}: nobody else takes its "
                    "part"
                )
        if message.owner in self.commits:
            raise CommitmentError(f"{message.owner} has committed to another nonce already")
        if message.commitment in {c.commitment for c in self.commits.values()} | {self.manifest.beacon_commitment}:
            raise CommitmentError("this commitment is a copy of another participant's")
        self.commits[message.owner] = message

    def add_seal(self, message: BeaconSeal) -> None:
        """Raises CommitmentError: not provider first and auditors last, an owner without commitment, or too late."""
        owners = message.owners
        if self.stage not in (Stage.COMMITTED, Stage.SEALED) or any(map(is_auditor, self.openings)):
            raise CommitmentError("the beacon cannot be sealed (again) once an auditor has opened")
        expected = self.committed_auditors()
        if owners[:1] != (PROVIDER,) or not expected or owners[-len(expected) :] != expected:
            raise CommitmentError("a seal names the provider first, and last every auditor that has committed")
        others = owners[1 : -len(expected)]
        if len(set(others)) != len(others) or not all(map(is_observer, others)):
            raise CommitmentError("between provider and auditors a seal names observers, each once")
        unknown = [o for o in others if o not in self.commits]
        if unknown:
            raise CommitmentError(f"the seal names {unknown[0]}, who has not committed to a nonce")
        if self.seal is not None:
            dropped = set(self.seal.owners) - set(owners)
            if not dropped or not dropped <= set(self.missing()) or not set(owners) <= set(self.seal.owners):
                raise CommitmentError("a second seal can only drop owners whose opening is missing")
        self.seal = message

    def add_opening(self, message: BeaconOpening) -> None:
        """Raises CommitmentError: not sealed, a stranger, out of turn, or a nonce that is not the committed one."""
        if self.seal is None or self.beacon is not None:
            raise CommitmentError("the beacon takes openings between its seal and the opening of the window only")
        if message.owner not in self.seal.owners:
            raise CommitmentError(f"{message.owner} is not named by the seal")
        if message.owner in self.openings:
            raise CommitmentError(f"{message.owner} has opened already")
        if is_auditor(message.owner) and not all(map(is_auditor, self.missing())):
            raise CommitmentError("auditors open last: openings of others are still missing")
        if message.owner != PROVIDER and PROVIDER not in self.openings:
            raise CommitmentError("the provider opens first: wait for its opening in the ledger")
        committed = (
            self.manifest.beacon_commitment if message.owner == PROVIDER else self.commits[message.owner].commitment
        )
        if beacon_commitment(message.owner, message.nonce) != committed:
            raise CommitmentError(f"{message.owner} opens a nonce different from the one it committed to")
        self.openings[message.owner] = message.nonce

    def add_thinning(self, message: Thinning) -> None:
        """Raises CommitmentError: no coin, twice, before the beacon is complete, or not of the manifest's tenants."""
        if not self.manifest.policy.coined:
            raise CommitmentError(f"the window's claim {self.manifest.policy.claim} has no coin: nothing is thinned")
        if self.stage is not Stage.SEALED or self.missing() or self.thinning is not None:
            raise CommitmentError("indices are thinned once, after the beacon's last opening")
        if [one.tenant for one in message.tenants] != [one.tenant for one in self.manifest.tenants]:
            raise CommitmentError("the thinned indices are not those of the manifest's tenants")
        self.thinning = message

    def add_open(self, message: WindowOpen) -> None:
        """Raises CommitmentError: opened twice, not thinned, or with another beacon than the openings give."""
        if self.stage is not Stage.SEALED:
            raise CommitmentError("a window opens once, after its beacon is sealed")
        if self.manifest.policy.coined and self.thinning is None:
            raise CommitmentError("a window whose claim has a coin opens after its indices are thinned")
        if message.beacon != self.seal_value():
            raise CommitmentError("the window opens with a beacon different from what its openings give")
        self.beacon, self.time, self.opened_at = message.beacon, message.time, message.time

    def add_update(self, message: IndexUpdate, index: int) -> None:
        """Raises CommitmentError: none belongs here, a gap, out of time, or not of the manifest's tenants."""
        if not self.every or self.stage is not Stage.OPEN:
            raise CommitmentError("versions of the indices are entered while a window is open whose policy has ticks")
        if message.number != len(self.updates) + 1:
            raise CommitmentError(f"version {message.number} does not follow version {len(self.updates)}")
        before = self.updates[-1][1].time if self.updates else -1
        if message.time <= before or message.time != tick_at(self.opened_at, self.every, message.time):
            raise CommitmentError(f"version {message.number} is of no later tick than the one before it")
        if message.time > self.manifest.policy.closes:
            raise CommitmentError("the window's closing time has passed")
        if [one.tenant for one in message.tenants] != [one.tenant for one in self.manifest.tenants]:
            raise CommitmentError("the update is not of the manifest's tenants")
        if any(bool(one.proof_digests) != self.manifest.policy.coined for one in message.tenants):
            raise CommitmentError("an update has proofs about hidden slots if the claim has a coin, and only then")
        self.updates.append((index, message))
        self.numbers |= {message.index_digest(one.tenant): message.number for one in message.tenants}
        self.time = max(self.time, message.time)

    def add_record(self, message: Record, index: int) -> None:
        """Raises CommitmentError: not open, or a gap in seq, ctr or time."""
        request = message.signed.request
        if self.stage is not Stage.OPEN:
            raise CommitmentError("the window takes no records: it is not open")
        if message.seq != len(self.records) or message.time < self.time:
            raise CommitmentError(f"record {message.seq} does not follow record {len(self.records) - 1}")
        if self.every and self.numbers.get(request.index_digest, 0) <= max(0, len(self.updates) - ANSWERING):
            raise CommitmentError(f"record {message.seq} names none of the {ANSWERING} newest versions of an index")
        if self.every and message.time >= self.updates[-1][1].time + ANSWERING * self.every + COARSE_TIME:
            raise CommitmentError(f"record {message.seq} is answered from a version that is long overdue")
        if request.ctr != self.counters.get(request.account, 0) + 1:
            raise CommitmentError(f"request {request.ctr} of {request.account} does not follow its last one")
        self.seq_of[request.account, request.ctr] = message.seq
        self.counters[request.account] = request.ctr
        self.request_ids.add((request.account, request.request_id))
        self.nonces.add((request.account, request.nonce))
        self.records.append(index)
        self.time = message.time

    def add_close(self, message: WindowClose) -> None:
        """Raises CommitmentError: not open, or another number of records than there are."""
        if self.stage is not Stage.OPEN:
            raise CommitmentError("the window cannot be closed: it is not open")
        if message.records != len(self.records) or message.time < self.time:
            raise CommitmentError(f"the window has {len(self.records)} records, not {message.records}")
        self.close = message


class History:
    """Every window of one ledger, oldest first."""

    def __init__(self, origin: str, provider_key: bytes, log: bytes = b"") -> None:
        """``log``: its :func:`ragseal.kernel.verdict.log_digest`; without it no verdict is taken."""
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

    def check_manifest(self, signed: SignedManifest) -> None:
        """Whether a manifest may follow what the ledger holds.

        Raises:
            CommitmentError: a window name or seed commitment that occurred before, coins that may not be carried on,
                or an overlap.
        """
        manifest = signed.manifest
        signed.verify()
        if manifest.origin != self.origin or manifest.provider_key != self.provider_key:
            raise CommitmentError("the manifest names another ledger or provider key")
        for window in self.windows.values():
            other = window.manifest
            if other.window == manifest.window:
                raise CommitmentError(f"window {other.window!r} exists: none is opened twice, take a new name")
            if other.c_seed == manifest.c_seed:
                raise CommitmentError(f"the seed of window {other.window!r} is used again: every window needs its own")
            if _one_c_coin(other, manifest) and other.coin_period != manifest.coin_period:
                raise CommitmentError(f"the coin seed of window {other.window!r} is used again")
            if other.beacon_commitment == manifest.beacon_commitment:
                raise CommitmentError(f"the beacon nonce of window {other.window!r} is used again")
            if window.stage is Stage.CLOSED and manifest.policy.opens < window.ends:
                raise CommitmentError(
                    f"window {manifest.window!r} would open before {other.window!r} ended: windows do not overlap"
                )

        if manifest.coins and manifest.coin.thrown_by:
            self.throw(manifest)

    def carried(self, policy: Policy, auditors: Sequence[Seat]) -> Window | None:
        """The window whose coins a next one of this policy and auditors carries on; None where it throws its own.

        The newest throw of the budget period, if it was thinned by and hides as many: any other choice would cost a
        throw more.
        """
        for window in reversed(self.windows.values()):
            known = window.manifest
            if not known.coins or known.coin.thrown_by or window.seal is None or window.missing():
                continue
            same = known.policy.hidden == policy.hidden and known.policy.period_start == policy.period_start
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
        if message.time > window.manifest.policy.closes:
            raise CommitmentError("the window's closing time has passed: commit a new one")

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
        window = self.window(message.manifest)  # type: ignore[attr-defined]
        if isinstance(message, AuditVerdict):  # comes when the window is over, and moves nothing
            check_verdict(message, window.manifest, window.verdicts, self.log)
            window.verdicts[message.digest] = message
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

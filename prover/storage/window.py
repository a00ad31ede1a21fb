# SPDX-License-Identifier: GPL-3.0-or-later
"""One window as far as the ledger goes: where it stands, and what may be entered next.  SPEC A and B.

The provider refuses here what its auditors would hold against it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from ragseal.kernel.attestation import COARSE_TIME, Record
from ragseal.kernel.beacon import (
    OBSERVER,
    PROVIDER,
    BeaconCommit,
    BeaconOpening,
    BeaconSeal,
    beacon_commitment,
    beacon_value,
    is_auditor,
    is_observer,
)
from ragseal.kernel.commitment import (
    Manifest,
    SignedManifest,
    Thinning,
    WindowClose,
    WindowOpen,
)
from ragseal.kernel.errors import CommitmentError
from ragseal.kernel.verdict import AuditVerdict
from ragseal.kernel.versions import ANSWERING, IndexUpdate, nameable, tick_at


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
    named: set[int] = field(default_factory=set)  #: of updates, those that records name
    close: WindowClose | None = None
    numbers: dict[bytes, int] = field(default_factory=dict)  #: of updates, by the digest of each of their versions
    #: Of its auditors, by auditor and digest of the envelope.
    verdicts: dict[tuple[bytes, bytes], AuditVerdict] = field(default_factory=dict)

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
    def closes(self) -> int:
        """When its time is over, in seconds since 1970; before it has opened, until when it may open."""
        policy = self.manifest.policy
        return policy.opens_by if self.beacon is None else policy.ends(self.opened_at)

    @property
    def ends(self) -> int:
        """Until when the window blocks others, in seconds since 1970."""
        return min(self.closes, self.close.time) if self.close else self.closes

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

    def too_late(self, time: int) -> bool:
        """Whether the newest version is so old that no record of this time may follow it."""
        return bool(self.every) and (
            not self.updates or time >= self.updates[-1][1].time + ANSWERING * self.every + COARSE_TIME
        )

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
            fewer = tuple(owner for owner in self.seal.owners if owner not in dropped)
            if not dropped or not dropped <= set(self.missing()) or owners != fewer:
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
        """Raises CommitmentError: twice, before the beacon is complete, or not of the tenants with a coin."""
        if self.stage is not Stage.SEALED or self.missing() or self.thinning is not None:
            raise CommitmentError("indices are thinned once, after the beacon's last opening")
        if tuple(one.tenant for one in message.tenants) != self.manifest.coined:
            raise CommitmentError("the thinned indices are not those of the manifest's tenants with a coin")
        self.thinning = message

    def add_open(self, message: WindowOpen) -> None:
        """Raises CommitmentError: opened twice, not thinned, or with another beacon than the openings give."""
        if self.stage is not Stage.SEALED:
            raise CommitmentError("a window opens once, after its beacon is sealed")
        if self.manifest.coins and self.thinning is None:
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
        if message.time > self.closes:
            raise CommitmentError("the window's closing time has passed")
        if [one.tenant for one in message.tenants] != [one.tenant for one in self.manifest.tenants]:
            raise CommitmentError("the update is not of the manifest's tenants")
        if tuple(one.tenant for one in message.tenants if one.proof_digests) != self.manifest.coined:
            raise CommitmentError(
                "an update has a proof about hidden slots of every tenant whose claim has a coin, and of no other"
            )
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
        if message.time > self.closes:  # by a clock that was set back since the request was admitted
            raise CommitmentError(f"record {message.seq} is dated after the window's end")
        version = self.numbers.get(request.index_digest, 0)  # 0 is no version's number
        newest = nameable(self.manifest.policy)
        if self.every and version <= max(0, len(self.updates) - newest):
            raise CommitmentError(f"record {message.seq} names none of the {newest} newest versions of an index")
        if self.too_late(message.time):
            raise CommitmentError(f"record {message.seq} is answered from a version that is long overdue")
        if request.ctr != self.counters.get(request.account, 0) + 1:
            raise CommitmentError(f"request {request.ctr} of {request.account} does not follow its last one")
        self.seq_of[request.account, request.ctr] = message.seq
        self.counters[request.account] = request.ctr
        self.request_ids.add((request.account, request.request_id))
        self.nonces.add((request.account, request.nonce))
        self.records.append(index)
        if self.every:
            self.named.add(version)
        self.time = message.time

    def add_close(self, message: WindowClose) -> None:
        """Raises CommitmentError: not open, or another number of records than there are."""
        if self.stage is not Stage.OPEN:
            raise CommitmentError("the window cannot be closed: it is not open")
        if message.records != len(self.records) or message.time < self.time:
            raise CommitmentError(f"the window has {len(self.records)} records, not {message.records}")
        self.close = message

# SPDX-License-Identifier: GPL-3.0-or-later
"""Phase A as the auditor checks it: manifest, keys, index openings, beacon.  SPEC A and D.2-D.5.

The same checks run twice: before the auditor takes part in a window's beacon, and in the audit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ragseal.kernel import noise, overflow, signature
from ragseal.kernel.attestation import COARSE_TIME
from ragseal.kernel.commitment import (
    BeaconCommit,
    BeaconOpening,
    BeaconSeal,
    IndexFile,
    Manifest,
    SignedManifest,
    WindowClose,
    WindowOpen,
    beacon_commitment,
    beacon_value,
    verify_columns,
)
from ragseal.kernel.curve import Group
from ragseal.kernel.errors import AuditError, CommitmentError, ConfigurationError
from ragseal.kernel.params import CircuitClass
from ragseal.kernel.policy import check_policy
from ragseal.verifier.evidence import OWNER, PROVIDER, Auditor, ConfiguredKey, Evidence, Key, Refused
from ragseal.verifier.log import LogView

Say = Callable[..., None]  #: takes evidence as keyword arguments


def quiet(**_: object) -> None:
    """For callers that keep no evidence."""


CLOCK_SKEW = 600  #: seconds that a provider's clock may lie behind the auditor's


@dataclass(frozen=True, slots=True)
class Window:
    """The audited window as its manifest describes it."""

    index: int  #: of the manifest's entry
    signed: SignedManifest
    digest: bytes
    cls: CircuitClass

    @property
    def manifest(self) -> Manifest:
        return self.signed.manifest


# --- 2 manifest ------------------------------------------------------------------------------------------------------


def find_window(log: LogView, name: str) -> tuple[int, SignedManifest]:
    """The manifest entry of a window; an empty name takes the newest window that was opened.

    Raises:
        CommitmentError: the log holds no such window.
    """
    if not name:
        opened = {message.manifest for _, message in log.of(WindowOpen)}
        candidates = [(i, m) for i, m in log.manifests() if m.manifest.digest() in opened]
        if not candidates:
            raise CommitmentError("the log holds no opened window: nothing to audit yet")
        return candidates[-1]
    found = [(i, m) for i, m in log.manifests() if m.manifest.window == name]
    if not found:
        raise CommitmentError(f"the log holds no manifest of a window {name!r}")
    return found[0]


def check_manifest(log: LogView, evidence: Evidence, auditor: Auditor, name: str, say: Say = quiet) -> Window:
    """Step 2: the manifest that the provider shows is the log's, signed, well-formed, of this log, for the first time.

    Raises:
        AuditError: whatever does not hold.
    """
    index, signed = find_window(log, name)
    manifest = signed.manifest
    digest = manifest.digest()
    say(window=manifest.window, manifest=digest, ledger_index=index)
    if evidence.manifest(manifest.window) != log.entries[index]:
        raise Refused("the provider shows a manifest that is not the one in the log", ledger_index=index)
    signed.verify()
    if manifest.origin != auditor.log_key.name:
        raise CommitmentError(f"the manifest is of the log {manifest.origin!r}, not of {auditor.log_key.name!r}")
    if manifest.auditor_key != auditor.identity:
        raise ConfigurationError(
            f"window {manifest.window!r} names the auditor {manifest.auditor_key.hex()}, this one is "
            f"{auditor.identity.hex()}: another auditor issues its verdict, or another folder of this one"
        )
    _never_seen(log, index, manifest)
    own = auditor.classes.get(manifest.policy.class_name)
    if own is None:
        raise CommitmentError(f"this auditor's build has no circuit class {manifest.policy.class_name!r}")
    cls, class_digest = own
    check_policy(manifest.policy, cls, class_digest)
    say(
        provider_key=manifest.provider_key,
        circuit_class=cls.name,
        class_digest=class_digest,
        tenants=len(manifest.tenants),
        manifests_in_log=len(log.manifests()),
        abandoned_before=_abandoned(log, index),
    )
    return Window(index, signed, digest, cls)


def _never_seen(log: LogView, index: int, manifest: Manifest) -> None:
    """Neither the window's name nor its seed commitment nor its beacon nonce occurs in another manifest of the log."""
    for other, signed in log.manifests():
        if other == index:
            continue
        seen = {"ledger_index": index, "other_ledger_index": other}
        if signed.manifest.window == manifest.window:
            raise Refused(f"the window {manifest.window!r} occurs in two manifests: it was opened again", **seen)
        if other > index:
            continue  # a later window answers for itself
        if signed.manifest.c_seed == manifest.c_seed:
            raise Refused("the seed commitment was used by an earlier window", **seen)
        if signed.manifest.beacon_commitment == manifest.beacon_commitment:
            raise Refused("the provider's beacon commitment was used by an earlier window", **seen)


def _abandoned(log: LogView, index: int) -> int:
    """How many earlier windows were committed to and never opened: they stay in the log for everybody to see."""
    opened = {message.manifest for _, message in log.of(WindowOpen)}
    return sum(at < index and signed.manifest.digest() not in opened for at, signed in log.manifests())


@dataclass(frozen=True, slots=True)
class Life:
    """Where a window's taking of queries begins and ends in the log."""

    open_index: int
    open: WindowOpen
    close_index: int
    close: WindowClose


def check_life(log: LogView, window: Window, now: int, drawn: int, say: Say = quiet) -> Life:
    """Step 2, second half: opened once after its manifest, closed once, in its time, overlapping no other window.

    Args:
        now: the auditor's clock, seconds since 1970.
        drawn: the same clock when the auditor drew its beacon nonce; the window cannot have opened before.

    Raises:
        AuditError: whatever does not hold.
    """
    opens = [(i, m) for i, m in log.of(WindowOpen) if m.manifest == window.digest]
    closes = [(i, m) for i, m in log.of(WindowClose) if m.manifest == window.digest]
    if len(opens) != 1:
        raise Refused(f"the window was opened {len(opens)} times", ledger_indices=[i for i, _ in opens])
    if len(closes) != 1:
        why = "it is still open: audit it after it was closed" if not closes else "a window is closed once"
        raise Refused(f"the window has {len(closes)} closing entries; {why}", ledger_indices=[i for i, _ in closes])
    life = Life(*opens[0], *closes[0])
    policy = window.manifest.policy
    say(opened_at=life.open.time, closed_at=life.close.time, open_index=life.open_index, close_index=life.close_index)
    if not window.index < life.open_index < life.close_index:
        raise Refused("the entries manifest, opening, closing are out of order", manifest_index=window.index)
    if not policy.opens - policy.opens % COARSE_TIME <= life.open.time <= policy.closes:
        raise Refused("the window was opened outside the time that its policy names", opens=policy.opens)
    if life.open.time + CLOCK_SKEW < drawn:
        raise Refused(
            "the window says that it was opened before this auditor had drawn its beacon nonce: it is dated back",
            opened_at=life.open.time,
            drawn_at=drawn,
        )
    if life.close.time < life.open.time:
        raise Refused("the window was closed before it was opened")
    if life.close.time > now + COARSE_TIME:
        raise Refused("the window's closing time lies in the future of this auditor's clock", now=now)
    _alone(log, window, life)
    return life


def _alone(log: LogView, window: Window, life: Life) -> None:
    ends = {m.manifest: (i, m) for i, m in reversed(list(log.of(WindowClose)))}
    for start, other in log.of(WindowOpen):
        if other.manifest == window.digest:
            continue
        stop, close = ends.get(other.manifest, (log.size, None))
        if start < life.close_index and life.open_index < stop:
            raise Refused("the window overlaps another one of this log", other=other.manifest, other_open=start)
        if close is not None and stop < life.open_index and close.time > life.open.time:
            raise Refused("the window was opened before an earlier one was closed", other=other.manifest)


# --- 3 keys ----------------------------------------------------------------------------------------------------------


def check_key(auditor: Auditor, window: Window, say: Say = quiet) -> tuple[ConfiguredKey, Key]:
    """Step 3: the verifying key is one of the auditor's own configuration, made for this very class.

    Raises:
        CommitmentError: a key that the auditor does not hold, or of another class.
    """
    wanted = window.manifest.key_digest
    say(key_digest=wanted, configured=len(auditor.keys))
    configured = auditor.keys.get(wanted)
    if configured is None:
        raise CommitmentError(
            "the manifest names a verifying key that is not in this auditor's configuration; keys are never taken "
            "from a manifest: make one with keygen, or check a ceremony's and trust it"
        )
    policy = window.manifest.policy
    if (configured.class_name, configured.class_digest) != (policy.class_name, policy.class_digest):
        raise Refused("the configured key was made for another circuit class", made_for=configured.class_name)
    key = configured.load()
    if key.digest != wanted:
        raise ConfigurationError(f"the key file of {wanted.hex()} holds another key: restore it or trust it again")
    say(made_by=configured.made_by, sound_for_auditor=configured.made_by != PROVIDER)
    return configured, key


# --- 4 index openings ------------------------------------------------------------------------------------------------


def check_indexes(group: Group, key: Key, window: Window, evidence: Evidence, say: Say = quiet) -> Mapping[str, bytes]:
    """Step 4: every tenant's column commitments are those of the manifest and open over {Y_i, B} only.

    Returns:
        The d column commitments of each tenant, concatenated.

    Raises:
        Refused: names the tenant.
    """
    columns: dict[str, bytes] = {}
    for index in window.manifest.tenants:
        try:
            file = IndexFile.decode(evidence.index_file(window.digest, index.tenant))
            if file.columns_digest() != index.columns_digest:
                raise CommitmentError("the column commitments are not those of the manifest")
            if file.opening_digest() != index.opening_digest:
                raise CommitmentError("the proof of opening is not the one of the manifest")
            verify_columns(group, key.scores, key.digest, index.dimension, file)
        except AuditError as error:
            raise _of_tenant(error, index.tenant) from None
        columns[index.tenant] = file.columns
        say(**{f"columns[{index.tenant}]": index.columns_digest, f"dimension[{index.tenant}]": index.dimension})
    say(tenants=len(columns), capacity=key.scores.capacity)
    return columns


def _of_tenant(error: AuditError, tenant: str) -> AuditError:
    """The same kind of error (a peer that is away stays no verdict), naming the tenant."""
    extra = error.evidence if isinstance(error, Refused) else {}
    message = f"index of tenant {tenant!r}: {error}"
    return Refused(message, tenant=tenant, **extra) if extra else type(error)(message)


# --- 5 beacon --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BeaconState:
    """The beacon's entries of one manifest so far, each checked on its own."""

    commits: Mapping[str, tuple[int, BeaconCommit]]
    seals: tuple[tuple[int, BeaconSeal], ...]
    openings: Mapping[str, tuple[int, BeaconOpening]]


def read_beacon(log: LogView, window: Window) -> BeaconState:
    """Commitments, seals and openings of a window: signed, one each of every owner, openings match commitments.

    Raises:
        Refused: names the entry.
    """
    manifest = window.manifest
    commits: dict[str, tuple[int, BeaconCommit]] = {}
    seals: list[tuple[int, BeaconSeal]] = []
    openings: dict[str, tuple[int, BeaconOpening]] = {}
    for index, message in enumerate(log.messages):
        if not isinstance(message, BeaconCommit | BeaconSeal | BeaconOpening) or message.manifest != window.digest:
            continue
        if index < window.index:
            raise Refused("a beacon entry precedes its manifest", ledger_index=index)
        try:
            if isinstance(message, BeaconCommit):
                _once(commits, message.owner, index)
                if message.owner == PROVIDER:
                    raise CommitmentError("the provider's commitment stands in the manifest, not in an entry")
                message.verify()
                commits[message.owner] = (index, message)
            elif isinstance(message, BeaconSeal):
                if len(set(message.owners)) != len(message.owners):
                    raise CommitmentError("the seal names an owner twice")
                signature.verify(manifest.provider_key, "beacon-seal", message.body(), message.signature)
                seals.append((index, message))
            else:
                _once(openings, message.owner, index)
                openings[message.owner] = (index, message)
                _opens(manifest, commits, message)
        except AuditError as error:
            raise Refused(f"beacon entry {index}: {error}", ledger_index=index) from None
    return BeaconState(commits, tuple(seals), openings)


def _once(seen: Mapping[str, tuple[int, object]], owner: str, index: int) -> None:
    if owner in seen:
        raise CommitmentError(f"{owner} has an earlier one at entry {seen[owner][0]}")


def _opens(manifest: Manifest, commits: Mapping[str, tuple[int, BeaconCommit]], opening: BeaconOpening) -> None:
    if opening.owner == PROVIDER:
        expected = manifest.beacon_commitment
    elif opening.owner in commits:
        expected = commits[opening.owner][1].commitment
    else:
        raise CommitmentError(f"{opening.owner} opens what it never committed to")
    if beacon_commitment(opening.owner, opening.nonce) != expected:
        raise CommitmentError(f"the opening of {opening.owner} does not match its commitment")


def check_beacon(log: LogView, window: Window, life: Life, auditor: Auditor, say: Say = quiet) -> int:
    """Step 5: who took part, in which order, and that the window's beacon is what their nonces give.

    The auditor's nonce is the last to become known, and it was released for one beacon only, so nobody who knows the
    manifest could have chosen it.

    Returns:
        The window's beacon.

    Raises:
        Refused: whatever does not hold.
    """
    state = read_beacon(log, window)
    if not state.seals:
        raise Refused("the beacon was never sealed")
    seal_index, seal = state.seals[-1]
    owners = seal.owners
    say(owners=list(owners), seal_index=seal_index, seals=len(state.seals))
    check_seal(state, seal, auditor)
    missing = [owner for owner in owners if owner not in state.openings]
    if missing:
        raise Refused(f"the beacon lacks the opening of {', '.join(missing)}", missing=missing)
    at = {owner: state.openings[owner][0] for owner in owners}
    say(opened_at_entries=at)
    if at[OWNER] != max(at.values()) or at[OWNER] < seal_index:
        raise Refused("the auditor's opening is not the beacon's last entry", opened_at_entries=at)
    if at[OWNER] > life.open_index:
        raise Refused("the window was opened before the beacon was complete", open_index=life.open_index)
    nonce = auditor.nonces.get(window.digest)
    if nonce is None or state.openings[OWNER][1].nonce != nonce:
        raise Refused("the auditor's nonce in the beacon is not one that this auditor drew for this manifest")
    value = beacon_value(window.digest, [(owner, state.openings[owner][1].nonce) for owner in owners])
    if life.open.beacon != value:
        raise Refused("the opened window's beacon is not what the nonces give", stated=life.open.beacon, computed=value)
    released = auditor.beacons.get(window.digest)
    if released != value:
        raise Refused(
            "this auditor did not release its nonce for this beacon: "
            + (
                "this folder holds no record that it was released: restore it from a backup, or the nonce leaked"
                if released is None
                else "the window was sealed again once the nonce was known"
            ),
            released_for=released,
            computed=value,
        )
    say(beacon=value)
    return value


def check_seal(state: BeaconState, seal: BeaconSeal, auditor: Auditor) -> None:
    """A seal names the provider first and this auditor last, and nobody in it committed after a nonce was known.

    Raises:
        Refused: whatever does not hold.
    """
    owners = seal.owners
    if len(owners) < 2 or owners[0] != PROVIDER or owners[-1] != OWNER:
        raise Refused("the beacon's owners must begin with the provider and end with the auditor", owners=list(owners))
    first_opening = min((index for index, _ in state.openings.values()), default=None)
    first_seal = state.seals[0][0]
    for owner in owners[1:]:
        if owner not in state.commits:
            raise Refused(f"the seal names {owner}, who never committed to a nonce", owner=owner)
        at = state.commits[owner][0]
        if at > first_seal or (first_opening is not None and at > first_opening):
            raise Refused(f"{owner} committed to its nonce after the seal or after a nonce was known", commit_index=at)
    for owner, (at, _) in state.openings.items():
        if at < min((i for i, s in state.seals if owner in s.owners), default=at + 1):
            raise Refused(f"{owner} opened its nonce before a seal named it", ledger_index=at)
    if state.commits[OWNER][1].public_key != auditor.identity:
        raise Refused("the auditor in the beacon is not this auditor", public_key=state.commits[OWNER][1].public_key)


# --- 10 noise table --------------------------------------------------------------------------------------------------


def check_noise(window: Window, say: Say = quiet) -> noise.NoiseTable:
    """Step 10: rules T1-T5 of the class's noise table in exact integers, and the bound that the class's R rests on.

    Raises:
        PolicyError, Refused: names the rule.
    """
    table = noise.build_table(window.cls.law)
    noise.check_table(table)
    say(law=table.law, cut=table.cut, table_digest=table.digest(), rules="T1 T2 T3 T4 T5")
    if table.digest() != window.manifest.policy.table_digest:
        raise Refused("T5: the policy's digest is not that of the canonical table")
    if not overflow.overflow_bound_holds(window.cls, table):
        raise Refused(
            f"class {window.cls.name!r}: R = {window.cls.R} places are not proven enough by its a and b, so how often "
            "queries overflow may depend on the index; restore circuits/classes.toml"
        )
    return table

# SPDX-License-Identifier: GPL-3.0-or-later
"""Phase A as the auditor checks it: manifest, keys, index openings, noise table.  SPEC A, D.2-D.4 and D.10.

The same checks run twice: before the auditor takes part in a window's beacon, and in the audit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ragseal.kernel import noise, overflow
from ragseal.kernel.attestation import COARSE_TIME, Record
from ragseal.kernel.bn254 import Group
from ragseal.kernel.commitment import (
    IndexFile,
    Manifest,
    SignedManifest,
    TenantIndex,
    WindowClose,
    WindowOpen,
    verify_columns,
)
from ragseal.kernel.errors import (
    AuditError,
    ConfigurationError,
    EncodingError,
    PolicyError,
    TransportError,
)
from ragseal.kernel.params import CircuitClass
from ragseal.kernel.policy import Policy, check_policy
from ragseal.verifier.evidence import (
    AUDITOR,
    CEREMONY,
    DELIVER_AGAIN,
    OWN_BUILD,
    OWN_CLOCK,
    OWN_FOLDER,
    OWN_MISTAKE,
    Auditor,
    ConfiguredKey,
    Evidence,
    Key,
    Refused,
    Undecided,
    held,
)
from ragseal.verifier.steps.log import LogView

Say = Callable[..., None]  #: takes evidence as keyword arguments


def quiet(**_: object) -> None:
    """For callers that keep no evidence."""


CLOCK_SKEW = 600  #: seconds that a provider's clock may lie behind the auditor's


@dataclass(frozen=True, slots=True)
class Entered:
    """The audited window as its manifest in the log describes it."""

    index: int  #: of the manifest's entry
    signed: SignedManifest
    digest: bytes

    @property
    def manifest(self) -> Manifest:
        return self.signed.manifest


@dataclass(frozen=True, slots=True)
class Window(Entered):
    """The audited window, of a circuit class that this auditor's build has."""

    cls: CircuitClass


# --- 2 manifest ------------------------------------------------------------------------------------------------------


def find_window(log: LogView, name: str) -> tuple[int, SignedManifest]:
    """The manifest entry of a window; an empty name takes the newest window that was opened.

    Raises:
        Undecided: the log holds no such window, or not yet.
    """
    if not name:
        opened = {message.manifest for _, message in log.of(WindowOpen)}
        candidates = [(i, m) for i, m in log.manifests() if m.manifest.digest() in opened]
        if not candidates:
            raise Undecided("the log holds no opened window: nothing to audit yet", "audit after one was closed")
        return candidates[-1]
    found = [(i, m) for i, m in log.manifests() if m.manifest.window == name]
    if not found:
        known = ", ".join(m.manifest.window for _, m in log.manifests()[-5:]) or "none"
        raise Undecided(f"the log holds no manifest of a window {name!r}", f"its newest windows are: {known}")
    return found[0]


def check_manifest(log: LogView, evidence: Evidence, auditor: Auditor, name: str, say: Say = quiet) -> Window:
    """All that step 2 checks of a manifest, as before taking part in its beacon.

    Raises:
        Refused: it does not hold, or the provider shows another one.
        Undecided: no such window, or one that this auditor's build does not know.
    """
    entered = check_entered(log, auditor, name, say)
    check_face(evidence, entered, say)
    check_named(auditor, entered)
    return check_class(log, auditor, entered, say)


def check_entered(log: LogView, auditor: Auditor, name: str, say: Say = quiet) -> Entered:
    """Step 2: the log's manifest is signed, of this log, and for the first time.

    Raises:
        Refused: it is not.
        Undecided: no such window.
    """
    index, signed = find_window(log, name)
    manifest = signed.manifest
    say(window=manifest.window, manifest=manifest.digest(), ledger_index=index)
    with held(ledger_index=index):
        signed.verify()
    if manifest.origin != auditor.log_key.name:
        raise Refused(f"the manifest is of the log {manifest.origin!r}, not of {auditor.log_key.name!r}")
    _never_seen(log, index, manifest)
    return Entered(index, signed, manifest.digest())


def check_named(auditor: Auditor, entered: Entered) -> None:
    """Step 2: this auditor is the one that the manifest names.

    Raises:
        Undecided: another one is.
    """
    manifest = entered.manifest
    if manifest.auditor_key != auditor.identity:
        raise Undecided(
            f"window {manifest.window!r} names the auditor {manifest.auditor_key.hex()}, this one is "
            f"{auditor.identity.hex()}",
            "let the auditor with that key audit the window, or use its folder",
            named=manifest.auditor_key,
        )


def check_class(log: LogView, auditor: Auditor, entered: Entered, say: Say = quiet) -> Window:
    """Step 2: the policy is one that its class can carry, by this auditor's own build of it.

    Raises:
        Refused: it is not.
        Undecided: this build does not know the class.
    """
    manifest = entered.manifest
    cls, class_digest = own_class(auditor, manifest.policy)
    with held():
        check_policy(manifest.policy, cls, class_digest)
    say(
        provider_key=manifest.provider_key,
        circuit_class=cls.name,
        class_digest=class_digest,
        tenants=len(manifest.tenants),
        manifests_in_log=len(log.manifests()),
        abandoned_before=_abandoned(log, entered.index),
    )
    return Window(entered.index, entered.signed, entered.digest, cls)


def own_class(auditor: Auditor, policy: Policy) -> tuple[CircuitClass, bytes]:
    """The class that a policy names, if this build has exactly that one with that noise.

    Raises:
        Undecided: it has not; another build may, and this one knows nothing about the window's noise.
    """
    own = auditor.classes.get(policy.class_name)
    if own is None:
        known = ", ".join(sorted(auditor.classes)) or "none"
        raise Undecided(f"this auditor's build has no circuit class {policy.class_name!r}, only: {known}", OWN_BUILD)
    if policy.class_digest != own[1]:
        raise Undecided(f"the policy names another build of the circuit class {policy.class_name!r}", OWN_BUILD)
    if policy.table_digest != noise.build_table(own[0].law).digest():
        raise Undecided(f"the policy's noise table is not the canonical {own[0].law} table of this build", OWN_BUILD)
    return own


def check_face(evidence: Evidence, entered: Entered, say: Say = quiet) -> None:
    """Step 2: what is shown beside the log as the window's manifest; another one that the provider signed makes two.

    Anything else than that is whatever came over the wire, and the log has the manifest.

    Raises:
        Refused: the provider signed two manifests of the window.
    """
    manifest = entered.manifest
    try:
        shown = SignedManifest.decode(evidence.manifest(manifest.window))
        shown.verify()
    except TransportError:
        raise
    except AuditError as error:
        say(manifest_shown_beside_the_log=f"set aside: {error}")
        return
    other = shown.manifest
    if other == manifest:
        say(manifest_shown_beside_the_log="the same")
    elif (other.provider_key, other.origin, other.window) == (manifest.provider_key, manifest.origin, manifest.window):
        raise Refused(
            "the provider signed and shows another manifest of this window than the one in the log",
            ledger_index=entered.index,
            shown=shown.encode(),
        )
    else:
        say(manifest_shown_beside_the_log="set aside: it is of another window, log or provider")


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
    close_index: int  #: the log's size as long as the window is open
    close: WindowClose | None


def check_life(log: LogView, entered: Entered, say: Say = quiet) -> Life:
    """Step 2, second half: opened once after its manifest, closed at most once, in its time, overlapping no other one.

    Raises:
        Refused: the log contradicts itself or the policy.
        Undecided: the window was not opened.
    """
    opens = [(i, m) for i, m in log.of(WindowOpen) if m.manifest == entered.digest]
    closes = [(i, m) for i, m in log.of(WindowClose) if m.manifest == entered.digest]
    if len(opens) > 1:
        raise Refused(f"the window was opened {len(opens)} times", ledger_indices=[i for i, _ in opens])
    if len(closes) > 1:
        raise Refused(
            f"the window has {len(closes)} closing entries; a window is closed once",
            ledger_indices=[i for i, _ in closes],
        )
    if not opens:
        for index, message in log.of(Record):
            if message.manifest == entered.digest:
                raise Refused("the log holds a record of the window, which was never opened", ledger_index=index)
        raise Undecided("the window was not opened: there is nothing in it", "audit a window that was opened")
    life = Life(*opens[0], *(closes[0] if closes else (log.size, None)))
    policy = entered.manifest.policy
    say(opened_at=life.open.time, open_index=life.open_index)
    if not entered.index < life.open_index < life.close_index:
        raise Refused("the entries manifest, opening, closing are out of order", manifest_index=entered.index)
    if not policy.opens - policy.opens % COARSE_TIME <= life.open.time <= policy.closes:
        raise Refused("the window was opened outside the time that its policy names", opens=policy.opens)
    if life.close is not None:
        say(closed_at=life.close.time, close_index=life.close_index)
        if life.close.time < life.open.time:
            raise Refused("the window was closed before it was opened")
    _alone(log, entered, life)
    return life


def check_over(life: Life, now: int, drawn: int) -> None:
    """Step 2: the window is over, and its times fit this auditor's clock.

    Args:
        now: the auditor's clock, seconds since 1970.
        drawn: the same clock when the auditor drew its beacon nonce; the window cannot have opened before.

    Raises:
        Undecided: it is not over yet, or the log's times do not fit.
    """
    if life.close is None:
        raise Undecided("the window is still open", "audit it after it was closed")
    if life.open.time + CLOCK_SKEW < drawn:
        raise Undecided(
            "by this auditor's clock the window was opened before its beacon nonce was drawn: it is dated back, or the "
            "clock was wrong then",
            OWN_CLOCK,
            opened_at=life.open.time,
            drawn_at=drawn,
        )
    if life.close.time > now + COARSE_TIME:
        raise Undecided("the window's closing time lies in the future of this auditor's clock", OWN_CLOCK, now=now)


def _alone(log: LogView, entered: Entered, life: Life) -> None:
    ends = {m.manifest: (i, m) for i, m in reversed(list(log.of(WindowClose)))}
    for start, other in log.of(WindowOpen):
        if other.manifest == entered.digest:
            continue
        stop, close = ends.get(other.manifest, (log.size, None))
        if start < life.close_index and life.open_index < stop:
            raise Refused("the window overlaps another one of this log", other=other.manifest, other_open=start)
        if close is not None and stop < life.open_index and close.time > life.open.time:
            raise Refused("the window was opened before an earlier one was closed", other=other.manifest)


# --- 3 keys ----------------------------------------------------------------------------------------------------------


def check_key(auditor: Auditor, window: Entered, say: Say = quiet) -> tuple[ConfiguredKey, Key]:
    """Step 3: the verifying key is one of the auditor's own configuration, made for this very class.

    Raises:
        Undecided: a key that the auditor does not hold, or of another class.
    """
    wanted = window.manifest.key_digest
    say(key_digest=wanted, configured=len(auditor.keys))
    configured = auditor.keys.get(wanted)
    if configured is None:
        raise Undecided(
            "the manifest names a verifying key that is not in this auditor's configuration; keys are never taken "
            "from a manifest",
            "make one with keygen before the next window, or check a ceremony's and trust it",
        )
    policy = window.manifest.policy
    if (configured.class_name, configured.class_digest) != (policy.class_name, policy.class_digest):
        raise Undecided(
            "the configured key was made for another circuit class",
            OWN_FOLDER,
            made_for=configured.class_name,
        )
    key = configured.load()
    if key.digest != wanted:
        raise ConfigurationError(f"the key file of {wanted.hex()} holds another key: restore it or trust it again")
    say(made_by=configured.made_by, sound_for_auditor=configured.made_by in (AUDITOR, CEREMONY))
    return configured, key


# --- 4 index openings ------------------------------------------------------------------------------------------------


def check_indexes(group: Group, key: Key, window: Entered, evidence: Evidence, say: Say = quiet) -> Mapping[str, bytes]:
    """Step 4: every tenant's column commitments are those of the manifest and open over {Y_i, B} only.

    Returns:
        The d column commitments of each tenant, concatenated.

    Raises:
        Undecided: a file that is not the one of the manifest, which nobody signed.
        Refused: the manifest's own does not hold.
    """
    columns: dict[str, bytes] = {}
    for index in window.manifest.tenants:
        file = _index_file(window, index, evidence)
        with held(f"index of tenant {index.tenant!r}: ", tenant=index.tenant):
            verify_columns(group, key.scores, key.digest, index.dimension, file)
        columns[index.tenant] = file.columns
        say(**{f"columns[{index.tenant}]": index.columns_digest, f"dimension[{index.tenant}]": index.dimension})
    say(tenants=len(columns), capacity=key.scores.capacity)
    return columns


def _index_file(window: Entered, index: TenantIndex, evidence: Evidence) -> IndexFile:
    """The file whose digests the manifest has: its columns and its proof are the provider's word then."""
    whose = f"index of tenant {index.tenant!r}: "
    data = evidence.index_file(window.digest, index.tenant)
    try:
        file = IndexFile.decode(data)
    except EncodingError as error:
        raise Undecided(f"{whose}{error}", DELIVER_AGAIN, tenant=index.tenant) from None
    if file.columns_digest() != index.columns_digest:
        raise Undecided(
            f"{whose}the column commitments are not those of the manifest", DELIVER_AGAIN, tenant=index.tenant
        )
    if file.opening_digest() != index.opening_digest:
        raise Undecided(
            f"{whose}the proof of opening is not the one of the manifest", DELIVER_AGAIN, tenant=index.tenant
        )
    return file


# --- 10 noise table --------------------------------------------------------------------------------------------------


def check_noise(window: Window, say: Say = quiet) -> noise.NoiseTable:
    """Step 10: rules T1-T5 of the class's noise table in exact integers, and the bound that the class's R rests on.

    Raises:
        Undecided: this build's table or class does not hold; step 2 found that they are the policy's.
    """
    table = noise.build_table(window.cls.law)
    try:
        noise.check_table(table)
    except PolicyError as error:
        raise Undecided(str(error), OWN_MISTAKE) from None
    say(law=table.law, cut=table.cut, table_digest=table.digest(), rules="T1 T2 T3 T4 T5")
    if table.digest() != window.manifest.policy.table_digest:
        raise Undecided("T5: the policy's digest is not that of the canonical table", OWN_BUILD)
    if not overflow.overflow_bound_holds(window.cls, table):
        raise Undecided(
            f"class {window.cls.name!r}: R = {window.cls.R} places are not proven enough by its a and b, so how often "
            "queries overflow may depend on the index",
            "restore circuits/classes.toml",
        )
    return table

# SPDX-License-Identifier: GPL-3.0-or-later
"""Step 2, first half: the manifest in the log, signed, of a policy that its class carries, for the first time.

SPEC A, D.2.  The same checks run twice: before the auditor takes part in a window's beacon, and in the audit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ragseal.kernel.classes import AttestationClass, last_release_of
from ragseal.kernel.coin_period import check_continues
from ragseal.kernel.commitment import (
    Manifest,
    SignedManifest,
    WindowOpen,
)
from ragseal.kernel.errors import (
    AuditError,
    PolicyError,
    TransportError,
)
from ragseal.kernel.policy import Policy, check_policy
from ragseal.kernel.verdict import log_digest
from ragseal.verifier.evidence.evidence import ELSEWHERE, OWN_BUILD, Auditor, Evidence, Refused, Undecided, held
from ragseal.verifier.steps.log import LogView
from ragseal.verifier.steps.pin import refuse_later_pin
from ragseal.verifier.steps.recorder import Recorder, quiet

#: Manifests of a log, each with its place, by digest.
Manifests = Mapping[bytes, tuple[int, SignedManifest]]


@dataclass(frozen=True, slots=True)
class Tenancy:
    """The tenants of a window that have one claim."""

    claim: str
    tenants: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Entered:
    """The audited window as its manifest in the log describes it."""

    index: int  #: of the manifest's entry
    signed: SignedManifest
    digest: bytes

    @property
    def manifest(self) -> Manifest:
        return self.signed.manifest

    @property
    def tenancies(self) -> tuple[Tenancy, ...]:
        """Every claim that the window has for a tenant, weakest first."""
        return tuple(Tenancy(claim, tenants) for claim, tenants in self.manifest.claims.items())

    def under(self, of: Tenancy | None) -> Policy:
        """The policy that holds for these tenants; the window's own where none are named."""
        policy = self.manifest.policy
        return policy if of is None else policy.under(of.claim)


@dataclass(frozen=True, slots=True)
class Window(Entered):
    """The audited window, of a circuit class that this auditor's build has."""

    cls: AttestationClass


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


def check_manifest(log: LogView, evidence: Evidence, auditor: Auditor, name: str, say: Recorder = quiet) -> Window:
    """All that step 2 checks of a manifest, as before taking part in its beacon.

    Raises:
        Refused: it does not hold, or the provider shows another one.
        Undecided: no such window, or one that this auditor's build does not know.
    """
    entered = check_entered(log, auditor, find_window(log, name), say)
    check_face(evidence, entered, say)
    check_named(auditor, entered)
    return check_class(log, auditor, entered, say)


def check_entered(log: LogView, auditor: Auditor, found: tuple[int, SignedManifest], say: Recorder = quiet) -> Entered:
    """Step 2: the log's manifest, as :func:`find_window` finds it, is signed, of this log, and for the first time.

    Raises:
        Refused: it is not.
        Undecided: the auditor was given a later key of this log.
    """
    index, signed = found
    manifest = signed.manifest
    say(window=manifest.window, manifest=manifest.digest(), ledger_index=index)
    with held(ledger_index=index):
        signed.verify()
    if manifest.origin != auditor.log_key.name:
        raise Refused(f"the manifest is of the log {manifest.origin!r}, not of {auditor.log_key.name!r}")
    if manifest.log != log_digest(auditor.log_key.vkey()):
        refuse_later_pin(log, auditor.log_key)
        raise Refused(f"the manifest is of a log of {manifest.origin!r} with another key than this one's")
    _never_seen(log, index, manifest)
    thrown_by(by_digest(log), index, manifest)
    return Entered(index, signed, manifest.digest())


def check_named(auditor: Auditor, entered: Entered) -> None:
    """Step 2: the manifest names this auditor, or one that it relies on.

    Raises:
        Undecided: it names others.
    """
    named = {one.owner: one.public_key for one in entered.manifest.auditors}
    if not set(named.values()) & {auditor.identity, auditor.relies_on}:
        raise Undecided(
            f"window {entered.manifest.window!r} names {', '.join(f'{o} {k.hex()}' for o, k in named.items())}; this "
            f"auditor is {auditor.identity.hex()}",
            ELSEWHERE,
            named=named,
        )


def check_class(log: LogView, auditor: Auditor, entered: Entered, say: Recorder = quiet) -> Window:
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


def own_class(auditor: Auditor, policy: Policy) -> tuple[AttestationClass, bytes]:
    """The class that a policy names, if this build has exactly that one with that noise.

    Raises:
        Undecided: it has not; another build may, and this one knows nothing about the window's noise.
    """
    name = policy.class_name
    own, last = auditor.classes.get(name), last_release_of(name)
    if own is None and last:
        raise Undecided(
            f"the circuit class {name!r} is no more: ragseal {last} was the last release that had it",
            f"audit this window with ragseal {last}",
        )
    if own is None:
        known = ", ".join(sorted(auditor.classes)) or "none"
        raise Undecided(f"this auditor's build has no circuit class {name!r}, only: {known}", OWN_BUILD)
    if policy.class_digest != own[1]:
        raise Undecided(f"the policy names another build of the circuit class {name!r}", OWN_BUILD)
    try:
        policy.table(own[0])
    except PolicyError as error:
        raise Undecided(f"{error} of this build", OWN_BUILD) from None
    return own


def check_face(evidence: Evidence, entered: Entered, say: Recorder = quiet) -> None:
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
    elif (other.provider_key, other.log, other.window) == (manifest.provider_key, manifest.log, manifest.window):
        raise Refused(
            "the provider signed and shows a manifest of this window different from the one in the log",
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
        if _one_c_coin(signed.manifest, manifest) and signed.manifest.coin_period != manifest.coin_period:
            raise Refused("the coin seed was used by an earlier window", **seen)
        if signed.manifest.beacon_commitment == manifest.beacon_commitment:
            raise Refused("the provider's beacon commitment was used by an earlier window", **seen)


def _one_c_coin(one: Manifest, other: Manifest) -> bool:
    return bool(one.coins and other.coins) and one.coin.c_coin == other.coin.c_coin


def by_digest(log: LogView) -> Manifests:
    """Every manifest of the log with its place, by its digest; of one that stands there twice the first place."""
    return {signed.manifest.digest(): (at, signed) for at, signed in reversed(log.manifests())}


def thrown_by(known: Manifests, index: int, manifest: Manifest) -> tuple[int, SignedManifest] | None:
    """The manifest of the log whose beacon threw the coins that this one carries on.  SPEC A.11.9.

    Args:
        known: the log's manifests as :func:`by_digest` has them: a step that asks of many windows reads the log once.
        index: the carrying manifest's place in the log.

    Returns:
        Its place and itself; None where the manifest throws its own coins, or has none.

    Raises:
        Refused: no manifest before this one is the named one, or its coins may not be carried on here.
    """
    if not manifest.coins or not manifest.coin.thrown_by:
        return None
    named = manifest.coin_period
    if named not in known or known[named][0] >= index:
        raise Refused(
            "the manifest carries on the coins of a manifest that the log does not hold before it",
            ledger_index=index,
            thrown_by=named,
        )
    at, signed = known[named]
    with held(ledger_index=index, thrown_at_entry=at):
        signed.verify()
        check_continues(manifest, signed.manifest)
    return at, signed


def _abandoned(log: LogView, index: int) -> int:
    """How many earlier windows were committed to and never opened: they stay in the log for everybody to see."""
    opened = {message.manifest for _, message in log.of(WindowOpen)}
    return sum(at < index and signed.manifest.digest() not in opened for at, signed in log.manifests())

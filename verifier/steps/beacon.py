# SPDX-License-Identifier: GPL-3.0-or-later
"""A window's beacon as the log has it: who took part, in which order, this auditor last.  SPEC A.8 and D.5.

The provider enters every commitment and opening itself, having checked it, so an entry that does not hold is its fault.
What the auditor's own folder says of its nonce is nobody's signature: without it there is no verdict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragseal.kernel import signature
from ragseal.kernel.commitment import (
    BeaconCommit,
    BeaconOpening,
    BeaconSeal,
    Manifest,
    beacon_commitment,
    beacon_value,
)
from ragseal.kernel.errors import AuditError, CommitmentError
from ragseal.verifier.evidence import OWN_FOLDER, OWNER, PROVIDER, Auditor, Refused, Undecided
from ragseal.verifier.steps.lifespan import WindowSpan
from ragseal.verifier.steps.log import LogView
from ragseal.verifier.steps.manifest import Entered, thrown_by
from ragseal.verifier.steps.recorder import Recorder, quiet


@dataclass(frozen=True, slots=True)
class BeaconState:
    """The beacon's entries of one manifest so far, each checked on its own."""

    commits: Mapping[str, tuple[int, BeaconCommit]]
    seals: tuple[tuple[int, BeaconSeal], ...]
    openings: Mapping[str, tuple[int, BeaconOpening]]


@dataclass(frozen=True, slots=True)
class Throw:
    """Whose beacon threw a window's coins."""

    manifest: bytes  #: digest of the manifest that names the coin period
    beacon: int  #: that manifest's


def read_beacon(log: LogView, window: Entered) -> BeaconState:
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


def check_beacon(state: BeaconState, window: Entered, life: WindowSpan, auditor: Auditor, say: Recorder = quiet) -> int:
    """Step 5: who took part, in which order, and that the window's beacon is what their nonces give.

    The auditor's nonce is the last to become known, and it was released for one beacon only, so nobody who knows the
    manifest could have chosen it.

    Returns:
        The window's beacon.

    Raises:
        Refused: the log contradicts itself.
        Undecided: it contradicts this auditor's folder.
    """
    complete, value = _complete(state, window, say)
    if complete > life.open_index:
        raise Refused("the window was opened before the beacon was complete", open_index=life.open_index)
    if life.open.beacon != value:
        raise Refused("the opened window's beacon is not what the nonces give", stated=life.open.beacon, computed=value)
    check_identity(state, window)
    check_own_part(window, state, auditor, value)
    say(beacon=value)
    return value


def check_throw(log: LogView, window: Entered, beacon: int, auditor: Auditor, say: Recorder = quiet) -> Throw:
    """Step 5, where the claim has a coin: the beacon that threw this window's coins, its own or an earlier manifest's.

    An earlier one's was complete before this manifest, and ended with this auditor's nonce, so that nobody chose it;
    whether that window ever opened is no matter.

    Args:
        beacon: the window's own.

    Raises:
        Refused: the log's beacon of that manifest contradicts itself or was not complete.
        Undecided: this auditor's folder does not have its part in that beacon.
    """
    found = thrown_by(log, window.index, window.manifest) if window.manifest.coins else None
    if found is None:
        return Throw(window.digest, beacon)
    first = Entered(*found, found[1].manifest.digest())
    say(coins_thrown_by=first.manifest.window, coins_thrown_at_entry=first.index)
    state = read_beacon(log, first)
    complete, value = _complete(state, first)
    if complete > window.index:
        raise Refused(
            f"the window carries on coins that were not thrown when its manifest was entered: the beacon of "
            f"{first.manifest.window!r} was complete at entry {complete}",
            ledger_index=window.index,
        )
    check_identity(state, first)
    check_own_part(first, state, auditor, value)
    return Throw(first.digest, value)


def _complete(state: BeaconState, window: Entered, say: Recorder = quiet) -> tuple[int, int]:
    """Where the log completes a beacon, and its value.

    Raises:
        Refused: it was never sealed, lacks an opening, or the auditor's was not the last.
    """
    if not state.seals:
        raise Refused("the beacon was never sealed")
    seal_index, seal = state.seals[-1]
    owners = seal.owners
    say(owners=list(owners), seal_index=seal_index, seals=len(state.seals))
    check_seal(state, seal)
    missing = [owner for owner in owners if owner not in state.openings]
    if missing:
        raise Refused(f"the beacon lacks the opening of {', '.join(missing)}", missing=missing)
    at = {owner: state.openings[owner][0] for owner in owners}
    say(opened_at_entries=at)
    if at[OWNER] != max(at.values()) or at[OWNER] < seal_index:
        raise Refused("the auditor's opening is not the beacon's last entry", opened_at_entries=at)
    return at[OWNER], _value(window, owners, state)


def _value(window: Entered, owners: Sequence[str], state: BeaconState) -> int:
    """The beacon that these owners' nonces in the log give."""
    return beacon_value(window.digest, [(owner, state.openings[owner][1].nonce) for owner in owners])


def check_own_part(window: Entered, state: BeaconState, auditor: Auditor, value: int) -> None:
    """The auditor's nonce in the log is its own, and was released for this very beacon.

    Raises:
        Refused: the log shows an earlier seal, complete but for the auditor, whose beacon the nonce was released for.
        Undecided: this auditor's folder has no nonce, another one, or a record of another beacon.
    """
    nonce = auditor.nonces.get(window.digest)
    if nonce is None:
        raise Undecided("this folder holds no beacon nonce of this window", OWN_FOLDER)
    if state.openings[OWNER][1].nonce != nonce:
        raise Undecided("the auditor's nonce in the beacon is not the one that this folder holds", OWN_FOLDER)
    released = auditor.beacons.get(window.digest)
    if released == value:
        return
    if released is None:
        raise Undecided("this folder holds no record of the beacon that its nonce was released for", OWN_FOLDER)
    for _, earlier in state.seals[:-1]:
        if set(earlier.owners) <= set(state.openings) and _value(window, earlier.owners, state) == released:
            raise Refused(
                "this auditor released its nonce for another beacon, that of an earlier seal in the log: the window "
                "was sealed again once the nonce was known",
                released_for=released,
                computed=value,
            )
    raise Undecided(
        "by this folder's record the nonce was released for another beacon, and no seal in the log gives that one",
        OWN_FOLDER,
        released_for=released,
        computed=value,
    )


def check_seal(state: BeaconState, seal: BeaconSeal) -> None:
    """A seal names the provider first and an auditor last, and nobody in it committed after a nonce was known.

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


def check_identity(state: BeaconState, window: Entered) -> None:
    """The auditor of the beacon is the one that the manifest names.

    Raises:
        Refused: the provider took another's commitment for it.
    """
    own, named = state.commits[OWNER][1].public_key, window.manifest.auditor_key
    if own != named:
        raise Refused(
            f"the auditor in the beacon is {own.hex()}, the manifest names {named.hex()}", public_key=own, named=named
        )

# SPDX-License-Identifier: GPL-3.0-or-later
"""A window's beacon as the log has it: who took part, in which order, the auditors last.  SPEC A.8 and D.5.

The provider enters every commitment and opening itself, having checked it, so an entry that does not hold is its fault.
What the auditor's own folder says of its nonce is nobody's signature: without it there is no verdict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragseal.kernel import signature
from ragseal.kernel.beacon import (
    PROVIDER,
    BeaconCommit,
    BeaconOpening,
    BeaconSeal,
    beacon_commitment,
    beacon_value,
    is_auditor,
    is_observer,
    seal_digest,
)
from ragseal.kernel.commitment import Manifest
from ragseal.kernel.errors import AuditError, CommitmentError
from ragseal.verifier.evidence.evidence import ELSEWHERE, OWN_FOLDER, Auditor, Refused, Undecided
from ragseal.verifier.steps.lifespan import WindowSpan
from ragseal.verifier.steps.log import LogView
from ragseal.verifier.steps.manifest import Entered, by_digest, thrown_by
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
                signature.verify(manifest.window_key, "beacon-seal", message.body(), message.signature)
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


def check_beacon(
    state: BeaconState, window: Entered, life: WindowSpan, auditor: Auditor, say: Recorder = quiet
) -> tuple[int, str]:
    """Step 5: who took part, in which order, and that the window's beacon is what their nonces give.

    An auditor's nonce becomes known after everybody else's but other auditors', and it was released for one beacon
    only: so nobody who knows the manifest could have chosen that.

    Returns:
        The window's beacon, and the auditor whose nonce that rests on: empty if it is this one's.

    Raises:
        Refused: the log contradicts itself.
        Undecided: it contradicts this auditor's folder, or neither this auditor nor one that it relies on had a part.
    """
    complete, value = _complete(state, window, say)
    if complete > life.open_index:
        raise Refused("the window was opened before the beacon was complete", open_index=life.open_index)
    if life.open.beacon != value:
        raise Refused("the opened window's beacon is not what the nonces give", stated=life.open.beacon, computed=value)
    check_identity(state, window)
    rests_on = check_part(window, state, auditor)
    say(beacon=value, **({"rests_on": rests_on} if rests_on else {}))
    return value, rests_on


def check_throw(
    log: LogView, window: Entered, beacon: int, auditor: Auditor, say: Recorder = quiet
) -> tuple[Throw, str]:
    """Step 5, where the claim has a coin: the beacon that threw this window's coins, its own or an earlier manifest's.

    An earlier one's was complete before this manifest, and rests on this auditor's nonce, so that nobody chose it;
    whether that window ever opened is no matter.

    Args:
        beacon: the window's own.

    Returns:
        The throw, and the auditor whose nonce an earlier one rests on: empty if it is this one's.

    Raises:
        Refused: the log's beacon of that manifest contradicts itself or was not complete.
        Undecided: this auditor's folder does not have its part in that beacon.
    """
    found = thrown_by(by_digest(log), window.index, window.manifest) if window.manifest.coins else None
    if found is None:
        return Throw(window.digest, beacon), ""
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
    return Throw(first.digest, value), check_part(first, state, auditor)


def _complete(state: BeaconState, window: Entered, say: Recorder = quiet) -> tuple[int, int]:
    """Where the log completes a beacon, and its value.

    Raises:
        Refused: it was never sealed, lacks an opening, or an auditor's precedes somebody else's.
    """
    if not state.seals:
        raise Refused("the beacon was never sealed")
    seal_index, seal = state.seals[-1]
    owners = seal.owners
    say(owners=list(owners), seal_index=seal_index, seals=len(state.seals))
    check_seals(state, window)
    if left_out := [owner for owner in state.seals[0][1].owners if owner not in owners]:
        say(left_out=left_out)
    missing = [owner for owner in owners if owner not in state.openings]
    if missing:
        raise Refused(f"the beacon lacks the opening of {', '.join(missing)}", missing=missing)
    at = {owner: state.openings[owner][0] for owner in owners}
    say(opened_at_entries=at)
    first = min(index for owner, index in at.items() if is_auditor(owner))
    if first < max(index for owner, index in at.items() if not is_auditor(owner)) or first < seal_index:
        raise Refused("an auditor's opening is not among the beacon's last entries", opened_at_entries=at)
    value = beacon_value(window.digest, [(owner, state.openings[owner][1].nonce) for owner in owners])
    return max(at.values()), value


def sealed(window: Entered, state: BeaconState, owners: Sequence[str]) -> bytes:
    """What a beacon of these owners is fixed by: their commitments in the log."""
    commitments = {PROVIDER: window.manifest.beacon_commitment}
    commitments |= {owner: commit.commitment for owner, (_, commit) in state.commits.items()}
    return seal_digest(window.digest, [(owner, commitments[owner]) for owner in owners])


def check_part(window: Entered, state: BeaconState, auditor: Auditor) -> str:
    """This auditor's nonce is in the beacon and was released for it alone; else that of one that it relies on.

    Returns:
        The auditor that is relied on; empty if it is this one.

    Raises:
        Undecided: neither had a part, or this auditor's folder has no nonce, another one, or released it for another
            beacon.
    """
    owners = state.seals[-1][1].owners
    own = window.manifest.auditor_of(auditor.identity)
    if own is None or own.owner not in owners:
        relied = None if auditor.relies_on is None else window.manifest.auditor_of(auditor.relies_on)
        if relied is None or relied.owner not in owners:
            had = [owner for owner in owners if is_auditor(owner)]
            raise Undecided(
                f"neither this auditor nor one that it relies on had a part in the beacon of {window.manifest.window!r}"
                f", but {', '.join(had)}",
                ELSEWHERE,
                owners=list(owners),
            )
        return relied.owner
    nonce = auditor.nonces.get(window.digest)
    if nonce is None:
        raise Undecided("this folder holds no beacon nonce of this window", OWN_FOLDER)
    if state.openings[own.owner][1].nonce != nonce:
        raise Undecided("the auditor's nonce in the beacon is not the one that this folder holds", OWN_FOLDER)
    released = auditor.released.get(window.digest)
    if released is None:
        raise Undecided("this folder holds no record of the beacon that its nonce was released for", OWN_FOLDER)
    expected = sealed(window, state, owners)
    if released != expected:
        raise Undecided(
            "by this folder's record the nonce was released for a different seal than the one in the log",
            OWN_FOLDER,
            released_for=released,
            sealed=expected,
        )
    return ""


def check_seals(state: BeaconState, window: Entered) -> None:
    """Every seal names the provider first and last all auditors that had committed, and nobody who knew a nonce.

    A later one leaves out observers that had not opened, and nobody else; there is none once an auditor has opened.

    Raises:
        Refused: whatever does not hold.
    """
    first_seal = state.seals[0][0]
    first_opening = min((index for index, _ in state.openings.values()), default=None)
    before: tuple[str, ...] = ()
    for at, seal in state.seals:
        _check_order(state, window, seal.owners, first_seal)
        for owner in seal.owners[1:]:
            if owner not in state.commits:
                raise Refused(f"the seal names {owner}, who never committed to a nonce", owner=owner)
            committed = state.commits[owner][0]
            if committed > first_seal or (first_opening is not None and committed > first_opening):
                raise Refused(
                    f"{owner} committed to its nonce after the seal or after a nonce was known", commit_index=committed
                )
        if before:
            _check_again(state, before, seal.owners, at)
        before = seal.owners
    for owner, (at, _) in state.openings.items():
        if at < min((i for i, s in state.seals if owner in s.owners), default=at + 1):
            raise Refused(f"{owner} opened its nonce before a seal named it", ledger_index=at)


def _check_order(state: BeaconState, window: Entered, owners: Sequence[str], first_seal: int) -> None:
    """Provider, observers, auditors: those of the manifest, in its order, that committed before the first seal."""
    early = {owner for owner, (at, _) in state.commits.items() if at < first_seal}
    there = [one.owner for one in window.manifest.auditors if one.owner in early]
    others = list(owners[1 : len(owners) - len(there)])
    if not there or [PROVIDER, *others, *there] != list(owners) or not all(map(is_observer, others)):
        raise Refused(
            "the beacon's owners must begin with the provider and end with the auditors that had committed",
            owners=list(owners),
            auditors=there,
        )


def _check_again(state: BeaconState, before: Sequence[str], owners: Sequence[str], at: int) -> None:
    dropped = set(before) - set(owners)
    opened = {owner for owner, (index, _) in state.openings.items() if index < at}
    if not dropped or [owner for owner in before if owner not in dropped] != list(owners):
        raise Refused("the beacon was sealed again with others than some of those before", ledger_index=at)
    if dropped & opened:
        raise Refused(
            f"the beacon was sealed again without {', '.join(sorted(dropped & opened))}, whose nonce was known",
            ledger_index=at,
        )
    if any(map(is_auditor, opened)):
        raise Refused("the beacon was sealed again once an auditor's nonce was known", ledger_index=at)


def check_identity(state: BeaconState, window: Entered) -> None:
    """Every auditor of the beacon has the key that the manifest names for it.

    Raises:
        Refused: the provider took another's commitment for it.
    """
    for seat in window.manifest.auditors:
        if seat.owner in state.commits and state.commits[seat.owner][1].public_key != seat.public_key:
            own = state.commits[seat.owner][1].public_key
            raise Refused(
                f"{seat.owner} in the beacon is {own.hex()}, the manifest names {seat.public_key.hex()}",
                public_key=own,
                named=seat.public_key,
            )

# SPDX-License-Identifier: GPL-3.0-or-later
"""Steps 4 and 6 where indices change on a tick: which versions there are, and which records may name.  SPEC A.12.

A window has the versions that its manifest names, or one after the other those of its updates.  Of these a record names
one of the two newest (three where the claim is answers, whose records follow their admission), and no record stands
where the newest has become too old: what was deleted is gone by then.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragseal.kernel.attestation import COARSE_TIME, Record
from ragseal.kernel.bn254 import Group
from ragseal.kernel.coin import coin_context
from ragseal.kernel.commitment import IndexFile, shard_columns, verify_columns
from ragseal.kernel.emptied import EmptiedFile, EmptiedStatement, plain_entry, verify_emptied
from ragseal.kernel.errors import AttestationError
from ragseal.kernel.versions import ANSWERING, IndexUpdate, UpdatedIndex, nameable, tick_at
from ragseal.verifier.evidence.evidence import (
    DELIVER_AGAIN,
    Evidence,
    Key,
    Refused,
    Undecided,
    decoded,
    held,
)
from ragseal.verifier.steps.coins import Coin
from ragseal.verifier.steps.lifespan import WindowSpan
from ragseal.verifier.steps.log import LogView
from ragseal.verifier.steps.manifest import Entered
from ragseal.verifier.steps.recorder import Recorder, quiet


@dataclass(frozen=True, slots=True)
class IndexVersion:
    """One version of one tenant's index."""

    tenant: str
    number: int  #: of the update; 0: the manifest's
    text_root: bytes


@dataclass(frozen=True, slots=True)
class Versions:
    """All versions of a window's indices, and where in the log each update stands."""

    every: int  #: seconds from one to the next; 0: there is one, the manifest's
    known: Mapping[bytes, IndexVersion]  #: by the digest that requests name
    updates: Sequence[tuple[int, IndexUpdate]] = ()  #: with their places in the log
    nameable: int = ANSWERING  #: how many of the newest a record may name

    def answering(self, index: int, record: Record) -> IndexVersion:
        """The version that a record names, which is entry ``index`` of the log.

        Raises:
            AttestationError: a version that is none, or none of the newest there, or a newest that is too old.
        """
        digest = record.signed.request.index_digest
        if digest not in self.known:
            raise AttestationError("the request names an index that no tenant of the window has")
        named = self.known[digest]
        if not self.every:
            return named
        before = bisect_left([at for at, _ in self.updates], index)
        if not before - self.nameable < named.number <= before:
            raise AttestationError(
                f"the request names version {named.number} of the index, where {before} is the newest: an answer is "
                f"from one of the {self.nameable} newest"
            )  # before the first update there is none
        newest = self.updates[before - 1][1]
        if record.time < newest.time:
            raise AttestationError(f"version {newest.number} of the index is dated after a record that follows it")
        if record.time >= newest.time + ANSWERING * self.every + COARSE_TIME:
            raise AttestationError(
                f"it was answered at {record.time}, when version {newest.number} of the index, of {newest.time}, was "
                f"long overdue to be replaced: a new one is due every {self.every} s"
            )
        return named


def check_updates(log: LogView, window: Entered, life: WindowSpan, say: Recorder = quiet) -> Versions:
    """Step 4, from the log alone: updates are of all tenants, without gaps, on ticks, and inside their window.

    Raises:
        Refused: names the entry.
    """
    manifest, every = window.manifest, window.manifest.policy.version_every
    found = [(index, update) for index, update in log.of(IndexUpdate) if update.manifest == window.digest]
    if not every:
        if found:
            raise Refused(
                "the window's indices were updated, although its policy gives them one version", entries=[found[0][0]]
            )
        return Versions(0, {one.digest(): IndexVersion(one.tenant, 0, one.text_root) for one in manifest.tenants})
    known: dict[bytes, IndexVersion] = {}
    before = -1
    for number, (index, update) in enumerate(found, 1):
        _check_update(window, life, number, index, update)
        if update.time <= before:
            raise Refused(
                f"version {number} of the indices is of no later tick than the one before it", ledger_index=index
            )
        before = update.time
        for one in update.tenants:
            known[update.index_digest(one.tenant)] = IndexVersion(one.tenant, number, one.text_root)
    say(version_every=every, versions=len(found))
    return Versions(every, known, found, nameable(manifest.policy))


def _check_update(window: Entered, life: WindowSpan, number: int, index: int, update: IndexUpdate) -> None:
    """One update by itself: inside its window, the next one, on a tick, of all tenants and with the proofs it needs."""
    policy = window.manifest.policy
    if not life.open_index < index < life.close_index:
        raise Refused("an update of the window's indices stands outside its window", ledger_index=index)
    if update.number != number:
        raise Refused(
            f"version {update.number} of the indices stands where version {number} is due: one was skipped or repeated",
            ledger_index=index,
        )
    if update.time != tick_at(life.open.time, policy.version_every, update.time):
        raise Refused(f"version {number} of the indices is of no tick of its window", ledger_index=index)
    if update.time > policy.ends(life.open.time):
        raise Refused(f"version {number} of the indices is dated after the window's end", ledger_index=index)
    if [one.tenant for one in update.tenants] != [one.tenant for one in window.manifest.tenants]:
        raise Refused(f"version {number} of the indices is not of the manifest's tenants", ledger_index=index)
    if tuple(one.tenant for one in update.tenants if one.proof_digests) != window.manifest.coined:
        raise Refused(
            f"version {number} of the indices says nothing of hidden slots, or has none to say it of",
            ledger_index=index,
        )


def check_versions(
    group: Group,
    key: Key,
    coin: Coin | None,
    window: Entered,
    versions: Versions,
    evidence: Evidence,
    say: Recorder = quiet,
) -> Mapping[bytes, bytes]:
    """Step 4, the files: every version's columns open over {Y_i, B} only, and slots that coins hide are empty in them.

    Args:
        coin: where the claim has one.

    Returns:
        The d column commitments of every shard of every version of an index by its digest, concatenated.

    Raises:
        Undecided: a file that is not the one of the log, which nobody signed.
        Refused: the log's own does not hold.
    """
    columns: dict[bytes, bytes] = {}
    for _, update in versions.updates:
        for line in update.tenants:
            whose = f"version {update.number} of the index of tenant {line.tenant!r}: "
            data = evidence.version_file(window.digest, update.number, line.tenant)
            digest = update.index_digest(line.tenant)
            if coin is None or not line.proof_digests:
                columns[digest] = _plain(group, key, window, line, data, whose)
            else:
                columns[digest] = _emptied(group, key, coin, window, update.number, line, data, whose)
        say(versions_checked=update.number)
    return columns


def _plain(group: Group, key: Key, window: Entered, line: UpdatedIndex, data: bytes, whose: str) -> bytes:
    """Columns of a version without coins."""
    file = decoded(IndexFile, data, whose, tenant=line.tenant)
    if plain_entry(file, line.tenant, line.text_root) != line:
        raise Undecided(f"{whose}it is not the one that the log names", DELIVER_AGAIN, tenant=line.tenant)
    with held(whose, tenant=line.tenant):
        policy = window.manifest.policy
        verify_columns(group, key.scores, key.digest, policy.dimension * policy.shards, file)
    return file.columns


def _emptied(
    group: Group,
    key: Key,
    coin: Coin,
    window: Entered,
    number: int,
    line: UpdatedIndex,
    data: bytes,
    whose: str,
) -> bytes:
    """Columns of a version in which the slots that coins hide are empty."""
    manifest = window.manifest
    file = decoded(EmptiedFile, data, whose, tenant=line.tenant)
    if file.entry(line.tenant, line.text_root) != line:
        raise Undecided(f"{whose}it is not the one that the log names", DELIVER_AGAIN, tenant=line.tenant)
    with held(whose, tenant=line.tenant):
        statements = [
            EmptiedStatement(
                thinning_key=coin.key.digest,
                attestation_key=key.digest,
                manifest=window.digest,
                number=number,
                c_coin=manifest.coin.c_coin,
                context=coin_context(coin.throw.manifest, coin.throw.beacon, line.tenant, shard),
                hidden=manifest.policy.hidden,
                columns=columns,
            )
            for shard, columns in enumerate(
                shard_columns(file.columns, manifest.policy.dimension, manifest.policy.shards)
            )
        ]
        verify_emptied(group, statements, coin.key, key.scores, file)
    return file.columns

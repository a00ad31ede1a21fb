# SPDX-License-Identifier: GPL-3.0-or-later
"""Steps 3 to 5 where the claim has a coin: whose key proves it, when it was thrown, and what it left.  SPEC A.11, D.4.

The manifest fixes C_coin and the placed columns before the beacon; the beacon fixes the coins; one entry of the log
after it names thinned columns, and a proof says that these are the placed ones with exactly the hidden slots emptied.
A window that carries on an earlier one's coins thins its own columns by those.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ragseal.kernel.bn254 import Group
from ragseal.kernel.coin import coin_context
from ragseal.kernel.commitment import ThinnedIndex, Thinning, shard_columns
from ragseal.kernel.errors import ConfigurationError
from ragseal.kernel.thinning import ThinnedFile, ThinningStatement, verify_thinning
from ragseal.kernel.thinning_class import ThinningKey, thinning_class
from ragseal.verifier.evidence.evidence import (
    ASK_AGAIN,
    DELIVER_AGAIN,
    OWN_FOLDER,
    Auditor,
    ConfiguredKey,
    Evidence,
    Key,
    Refused,
    Undecided,
    binds,
    decoded,
    held,
)
from ragseal.verifier.steps.beacon import BeaconState, Throw
from ragseal.verifier.steps.lifespan import WindowSpan
from ragseal.verifier.steps.log import LogView
from ragseal.verifier.steps.manifest import Entered, Window
from ragseal.verifier.steps.recorder import Recorder, quiet


def check_thinning_key(
    auditor: Auditor, window: Window, say: Recorder = quiet
) -> tuple[ConfiguredKey[ThinningKey], ThinningKey] | None:
    """Step 3: the key that thinning is proven under is one of the auditor's own, for this very capacity.

    Returns:
        None where the claim has no coin.

    Raises:
        Undecided: a key that the auditor does not hold, or of another circuit than this build has.
    """
    if not window.manifest.coins:
        return None
    wanted = window.manifest.coin.key_digest
    say(thinning_key_digest=wanted)
    configured = auditor.thinnings.get(wanted)
    if configured is None:
        raise Undecided(
            "the manifest names a thinning key that is not in this auditor's configuration; keys are never taken from "
            "a manifest",
            "make one with keygen before the next window, or check a ceremony's and trust it",
        )
    cls = thinning_class(window.cls.N)
    if configured.class_name != cls.name:
        raise Undecided("the configured key was made for another capacity", OWN_FOLDER, made_for=configured.class_name)
    key = configured.load()
    if key.digest != wanted:
        raise ConfigurationError(f"the key file of {wanted.hex()} holds another key: restore it or trust it again")
    said = {f"thinning_{name}": value for name, value in configured.origin.items()}
    say(**said, thinning_sound_for_auditor=binds(configured.made_by))
    return configured, key


def check_thinning_entry(
    log: LogView, window: Entered, state: BeaconState, life: WindowSpan, say: Recorder = quiet
) -> Thinning | None:
    """Step 5: the indices were thinned once, after the beacon was complete and before the window opened.

    Whoever could thin twice, or before the last nonce is known, would choose what the coins hide.

    Returns:
        None where the claim has no coin.

    Raises:
        Refused: the log shows another order, number or set of tenants.
    """
    manifest = window.manifest
    found = [(i, m) for i, m in log.of(Thinning) if m.manifest == window.digest]
    at = [i for i, _ in found]
    if not manifest.coins:
        if found:
            raise Refused(
                f"the indices were thinned, although the claim {manifest.policy.claim} has no coin", entries=at
            )
        return None
    say(thinned_at_entries=at)
    if len(found) != 1:
        raise Refused(f"the indices of a window with coins are thinned once, not {len(found)} times", entries=at)
    index, thinning = found[0]
    last = max((opened for opened, _ in state.openings.values()), default=index)
    if not last < index < life.open_index:
        raise Refused(
            "the indices were not thinned between the beacon's last opening and the window's", entries=at, last=last
        )
    if tuple(one.tenant for one in thinning.tenants) != manifest.coined:
        raise Refused("the thinned indices are not those of the manifest's tenants with a coin", ledger_index=index)
    return thinning


@dataclass(frozen=True, slots=True)
class Coin:
    """What says which slots are hidden: the key under which that is proven, and the beacon that decided the coins."""

    key: ThinningKey
    throw: Throw


def check_thinned(
    group: Group,
    key: Key,
    coin: Coin,
    window: Entered,
    placed: Mapping[str, bytes],
    thinning: Thinning | None,
    evidence: Evidence,
    say: Recorder = quiet,
) -> Mapping[str, bytes]:
    """Step 4, second half: thinned columns are the placed ones with the slots emptied that coins hide.

    Args:
        placed: the column commitments of the manifest, as step 4 found them.

    Returns:
        The d column commitments of every shard of each tenant that records are made of, concatenated: of a tenant whose
        claim has no coin the placed ones.

    Raises:
        Undecided: a file that is not the one of the log, which nobody signed.
        Refused: the log's own does not hold.
    """
    if thinning is None:
        raise Undecided("no entry of the log names thinned columns", ASK_AGAIN)
    manifest = window.manifest
    columns = dict(placed)
    for one in thinning.tenants:
        file = _thinned_file(window, one, evidence)
        with held(f"thinned index of tenant {one.tenant!r}: ", tenant=one.tenant):
            size = manifest.policy.dimension, manifest.policy.shards
            pairs = zip(shard_columns(placed[one.tenant], *size), shard_columns(file.columns, *size), strict=True)
            statements = [
                ThinningStatement(
                    thinning_key=coin.key.digest,
                    attestation_key=key.digest,
                    manifest=window.digest,
                    c_coin=manifest.coin.c_coin,
                    context=coin_context(coin.throw.manifest, coin.throw.beacon, one.tenant, shard),
                    hidden=manifest.policy.hidden,
                    placed=before,
                    thinned=after,
                )
                for shard, (before, after) in enumerate(pairs)
            ]
            verify_thinning(group, statements, coin.key, key.scores, file)
        columns[one.tenant] = file.columns
        say(**{f"thinned_columns[{one.tenant}]": one.columns_digest})
    say(hidden_of_256=manifest.policy.hidden)
    return columns


def _thinned_file(window: Entered, one: ThinnedIndex, evidence: Evidence) -> ThinnedFile:
    """The file whose digests the log's entry has: its columns and proofs are the provider's word then."""
    whose = f"thinned index of tenant {one.tenant!r}: "
    file = decoded(ThinnedFile, evidence.thinned_file(window.digest, one.tenant), whose, tenant=one.tenant)
    if file.entry(one.tenant) != one:
        raise Undecided(f"{whose}it is not the one that the log names", DELIVER_AGAIN, tenant=one.tenant)
    return file

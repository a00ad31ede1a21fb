# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of indices: a window's coin, the thinned index, versions of a live index and accounts that come with them."""

from __future__ import annotations

from typing import Any

from ragseal.accounting import delivered_period
from ragseal.client import commitment as client_commitment
from ragseal.client import history
from ragseal.client import versions as client_versions
from ragseal.groth16.views import ThinningView
from ragseal.kernel import (
    coin_period,
    coin_proof,
    emptied,
    enrolment,
    thinning,
)
from ragseal.kernel import commitment as phase_a
from ragseal.kernel.policy import Policy
from ragseal.prover.attestation import answering_versions
from ragseal.prover.storage.history import History
from ragseal.prover.storage.window import Window
from ragseal.verifier.audit import findings, verification
from ragseal.verifier.steps import (
    beacon,
    coins,
    epsilon,
    manifest,
    period,
    records,
    versions,
)
from tests.attacks.removal import Check, Guard, Removable, no_wait

# --- the thinned index -----------------------------------------------------------------------------------------------


def _opening_of(name: str) -> Check:
    """One of the openings about coins."""
    real = coin_proof.verify_opening

    def others(group: Any, use: str, *args: Any, **named: Any) -> None:
        if use != name:
            real(group, use, *args, **named)

    return Check(coin_proof, "verify_opening", others)


THINNING_PAIRING = Check(ThinningView, "verify")
THINNING_LINK = _opening_of("thinning")
THINNING_HINTS = _opening_of("thinning-hints")
THINNING_COLUMNS = Check(thinning, "verify_columns")
THINNING_KEY = Guard(thinning, "check_keys", "the statement names another thinning key")
THINNING_FILE = Guard(thinning, "verify_thinning", "other thinned columns than the file's")
THINNING_SHARDS = Guard(thinning, "verify_thinning", "the file thins")
THINNING_SHARE = Guard(coin_proof, "check_share", "a slot is hidden in")


def _hash_without(tag: str, part: int, module: Any = thinning) -> Check:
    """A hash of the thinning that leaves out one of the parts that it is over."""
    real = thinning.tagged_hash

    def shorter(asked: str, *parts: bytes) -> bytes:
        return real(asked, *(p for at, p in enumerate(parts) if asked != tag or at != part))

    return Check(module, "tagged_hash", shorter)


def _before_points(*challenges: str) -> Check:
    """Challenges about coins that are known before the commitments to them."""
    real = coin_proof.nonzero_element

    def earlier(tag: str, *parts: bytes) -> int:
        return real(tag, *parts[:2]) if tag in challenges else real(tag, *parts)

    return Check(coin_proof, "nonzero_element", earlier)


PLACED_HASHED = _hash_without("thinning-statement", 4)
THINNED_HASHED = _hash_without("thinning-statement", 5)
LINK_HASHES_PROOF = _hash_without("thinning-link", 3, coin_proof)
ALPHA_HASHES_POINTS = _before_points("thinning-alpha")
BETA_HASHES_POINTS = _before_points("thinning-beta")
CHALLENGES_HASH_POINTS = _before_points("thinning-alpha", "thinning-beta")

# --- step 4: versions of a live index --------------------------------------------------------------------------------

NO_TICKS_NO_UPDATES = Guard(versions, "check_updates", "gives them one version")
LATER_TICK = Guard(versions, "check_updates", "of no later tick")
UPDATE_IN_ITS_WINDOW = Guard(versions, "_check_update", "stands outside its window")
UPDATE_GAPLESS = Guard(versions, "_check_update", "one was skipped or repeated")
UPDATE_ON_A_TICK = Guard(versions, "_check_update", "is of no tick of its window")
UPDATE_BEFORE_THE_END = Guard(versions, "_check_update", "dated after the window's end")
UPDATE_TENANTS = Guard(versions, "_check_update", "not of the manifest's tenants")
UPDATE_PROVES_COINS = Guard(versions, "_check_update", "says nothing of hidden slots")
ONE_OF_THE_NEWEST = Guard(versions.Versions, "answering", "names version")
NOT_DATED_AHEAD = Guard(versions.Versions, "answering", "is dated after a record")
NOT_OVERDUE = Guard(versions.Versions, "answering", "long overdue")
ENROLLED_AT_THE_VERSION = Guard(records, "_logged", "may not ask over version")
ENROLLED_AS_THE_UPDATE_SAYS = Guard(records, "_enrolled", "are not those that its update commits to")
ENROLLED_AS_THE_MANIFEST_SAYS = Guard(records, "_enrolled", "not the one of the manifest")
ENROLLED_ONCE = Guard(enrolment, "check_lines", "over all versions of the window")
ENROLLED_AT_A_PLACE = Guard(enrolment, "check_lines", "have one place")
ENROLLED_WITH_A_VERSION = Guard(enrolment, "check_lines", "does not have")
ENROLLED_OF_A_TENANT = Guard(enrolment, "check_lines", "manifest.index_of")
CLIENT_LATE_LINE = Guard(client_commitment, "_check_late", "is not in the registry of the update")
CLIENT_LATE_OF_ITS_WINDOW = Guard(client_commitment, "_check_late", "is another window")
PROVIDER_ENROLLED = Check(answering_versions.AnsweringVersions, "check_enrolled", no_wait)
VERSION_FILE_OF_THE_LOG = Guard(versions, "_plain", "not the one that the log names")
EMPTIED_FILE_OF_THE_LOG = Guard(versions, "_emptied", "not the one that the log names")
VERSION_COLUMNS = Check(versions, "verify_columns")
EMPTIED_COLUMNS = Check(emptied, "verify_columns")
EMPTIED_LINK = _opening_of("emptied")
EMPTIED_HINTS = _opening_of("emptied-hints")
EMPTIED = Check(versions, "verify_emptied")
EMPTIED_HASHES_MANIFEST = _hash_without("emptied-statement", 2, emptied)
EMPTIED_HASHES_NUMBER = _hash_without("emptied-statement", 3, emptied)
EMPTIED_HASHES_COLUMNS = _hash_without("emptied-statement", 5, emptied)

CLIENT_VERSION_NO_OLDER = Guard(client_versions.Versions, "of", "goes back to version")
CLIENT_VERSION_OF_THE_LOG = Check(history, "verify_inclusion")

PROVIDER_UPDATE_HERE = Guard(Window, "add_update", "whose policy has ticks")
PROVIDER_UPDATE_GAPLESS = Guard(Window, "add_update", "does not follow version")
PROVIDER_UPDATE_LATER = Guard(Window, "add_update", "no later tick")
PROVIDER_UPDATE_TENANTS = Guard(Window, "add_update", "the update is not of the manifest")
PROVIDER_UPDATE_COINS = Guard(Window, "add_update", "proof about hidden slots")
PROVIDER_RECORD_NEWEST = Guard(Window, "add_record", "newest versions")
PROVIDER_RECORD_OVERDUE = Guard(Window, "add_record", "long overdue")

# --- a window's coin -------------------------------------------------------------------------------------------------

THINNED_ONCE = Guard(coins, "check_thinning_entry", "thinned once, not")
THINNED_IN_TIME = Guard(coins, "check_thinning_entry", "between the beacon's last opening")
THINNED_TENANTS = Guard(coins, "check_thinning_entry", "not those of the manifest")
NO_COIN_NO_THINNING = Guard(coins, "check_thinning_entry", "although the claim")
THINNED_FILE_OF_THE_LOG = Guard(coins, "_thinned_file", "not the one that the log names")
THINNED_COLUMNS = Check(coins, "verify_thinning")
THINNING_CAPACITY = Guard(coins, "check_thinning_key", "made for another capacity")
THINNING_KEY_IN_ITS_FOLDER = Guard(coins, "check_thinning_key", "holds another key")
OWN_KEYS = Check(verification, "unsafe_keys")
COIN_ONCE = Guard(manifest, "_never_seen", "the coin seed was used")
CARRIED_OF_THE_LOG = Guard(manifest, "thrown_by", "does not hold before it")
CARRIED_SHARE = Guard(coin_period, "check_continues", "which slots lie between")
CARRIED_SHARDS = Guard(coin_period, "check_continues", "of other shards")
CARRIED_PERIOD = Guard(coin_period, "check_continues", "only where it is counted")
CARRIED_SEED = Guard(coin_period, "check_continues", "with another C_coin")
CARRIED_TENANTS = Guard(coin_period, "check_continues", "had no part")
CARRIED_AUDITOR = Guard(coin_period, "check_continues", "other auditors' nonces")
CARRIED_IN_TIME = Guard(beacon, "check_throw", "were not thrown when")
THROW_OF_THE_PERIOD = Check(
    findings, "check_throw", lambda log, entered, value, *_: (beacon.Throw(entered.digest, value), "")
)
COIN_AND_CLAIM = Guard(phase_a.Manifest, "validate", "commitment to coins")
SHARE_OF_THE_CLAIM = Guard(Policy, "_validate_claim", "needs a coin that hides")
NO_COIN_NO_SHARE = Guard(Policy, "_validate_claim", "hidden must be 0")
EVERY_LIST_GATES = Guard(Policy, "_validate_claim", "must gate the verdict")
ABANDONED_COUNT = Check(period, "_abandoned", lambda *_: ((), (), ()))
ONE_CLAIM = Guard(delivered_period, "delivered_period", "make a claim other")
PLACES_OF_THE_PERIOD = Guard(epsilon, "known_class", "places are not proven enough")

PROVIDER_THINNED_ONCE = Guard(Window, "add_thinning", "thinned once, after")
PROVIDER_THINNED_TENANTS = Guard(Window, "add_thinning", "not those of the manifest")
PROVIDER_THINNED = Guard(Window, "add_open", "after its indices are thinned")
PROVIDER_COIN_ONCE = Guard(History, "check_manifest", "coin seed of window")

INDEX_CHECKS: dict[str, Removable] = {
    "update: none where the policy has none": NO_TICKS_NO_UPDATES,
    "update: of a later tick": LATER_TICK,
    "update: inside its window": UPDATE_IN_ITS_WINDOW,
    "update: without gaps": UPDATE_GAPLESS,
    "update: on a tick": UPDATE_ON_A_TICK,
    "update: before the end": UPDATE_BEFORE_THE_END,
    "update: of the manifest's tenants": UPDATE_TENANTS,
    "update: proofs as the claim has it": UPDATE_PROVES_COINS,
    "update: one of the two newest versions": ONE_OF_THE_NEWEST,
    "update: not dated ahead": NOT_DATED_AHEAD,
    "update: of an account that may ask over it": ENROLLED_AT_THE_VERSION,
    "update: accounts are those that it commits to": ENROLLED_AS_THE_UPDATE_SAYS,
    "update: the first accounts are the manifest's": ENROLLED_AS_THE_MANIFEST_SAYS,
    "update: an account comes once in a window": ENROLLED_ONCE,
    "update: an account has a place of its own": ENROLLED_AT_A_PLACE,
    "update: an account comes with a version that is there": ENROLLED_WITH_A_VERSION,
    "update: an account's tenant is the manifest's": ENROLLED_OF_A_TENANT,
    "client: the line of an account that came later": CLIENT_LATE_LINE,
    "client: the line of its window": CLIENT_LATE_OF_ITS_WINDOW,
    "provider: accounts that may ask over the version": PROVIDER_ENROLLED,
    "update: not overdue": NOT_OVERDUE,
    "update: the file is the log's": VERSION_FILE_OF_THE_LOG,
    "update: the file with coins is the log's": EMPTIED_FILE_OF_THE_LOG,
    "update: columns": VERSION_COLUMNS,
    "update: columns with coins": EMPTIED_COLUMNS,
    "update: link": EMPTIED_LINK,
    "update: hints about coins": EMPTIED_HINTS,
    "update: hidden slots": EMPTIED,
    "update: weights hash the manifest": EMPTIED_HASHES_MANIFEST,
    "update: weights hash the number": EMPTIED_HASHES_NUMBER,
    "update: weights hash the columns": EMPTIED_HASHES_COLUMNS,
    "client: no older version of its index": CLIENT_VERSION_NO_OLDER,
    "client: versions of the log": CLIENT_VERSION_OF_THE_LOG,
    "provider: updates while a window with ticks is open": PROVIDER_UPDATE_HERE,
    "provider: updates without gaps": PROVIDER_UPDATE_GAPLESS,
    "provider: updates of later ticks": PROVIDER_UPDATE_LATER,
    "provider: updates of the manifest's tenants": PROVIDER_UPDATE_TENANTS,
    "provider: updates with proofs as the claim has it": PROVIDER_UPDATE_COINS,
    "provider: records over the newest versions": PROVIDER_RECORD_NEWEST,
    "provider: records over no overdue version": PROVIDER_RECORD_OVERDUE,
    "coin: thinned once": THINNED_ONCE,
    "coin: thinned between the openings": THINNED_IN_TIME,
    "coin: thinned for the manifest's tenants": THINNED_TENANTS,
    "coin: no thinning without a coin": NO_COIN_NO_THINNING,
    "coin: the thinned file is the log's": THINNED_FILE_OF_THE_LOG,
    "coin: thinned columns": THINNED_COLUMNS,
    "coin: capacity of the thinning key": THINNING_CAPACITY,
    "coin: the folder holds the key that it says": THINNING_KEY_IN_ITS_FOLDER,
    "coin: whose keys": OWN_KEYS,
    "coin: C_coin used once": COIN_ONCE,
    "coin: carried on from a manifest of the log": CARRIED_OF_THE_LOG,
    "coin: carried on with the same share": CARRIED_SHARE,
    "carried coins: of shards of one size": CARRIED_SHARDS,
    "coin: carried on in the same budget period": CARRIED_PERIOD,
    "coin: carried on with the same seed": CARRIED_SEED,
    "coin: carried on for the same tenants": CARRIED_TENANTS,
    "coin: carried on by the same auditor": CARRIED_AUDITOR,
    "coin: carried on once it was thrown": CARRIED_IN_TIME,
    "coin: whose beacon threw it": THROW_OF_THE_PERIOD,
    "coin: a commitment as the claim has it": COIN_AND_CLAIM,
    "coin: share of hidden slots in the policy": SHARE_OF_THE_CLAIM,
    "coin: no share without a coin": NO_COIN_NO_SHARE,
    "coin: the estimate gates every-list": EVERY_LIST_GATES,
    "coin: abandoned windows count": ABANDONED_COUNT,
    "coin: one claim a period": ONE_CLAIM,
    "coin: places of the period's classes": PLACES_OF_THE_PERIOD,
    "provider: thinned once, in time": PROVIDER_THINNED_ONCE,
    "provider: thinned for the manifest's tenants": PROVIDER_THINNED_TENANTS,
    "provider: thinned before it opens": PROVIDER_THINNED,
    "provider: C_coin used once": PROVIDER_COIN_ONCE,
    "thinning: pairing": THINNING_PAIRING,
    "thinning: link": THINNING_LINK,
    "thinning: hints about coins": THINNING_HINTS,
    "thinning: opening of the thinned columns": THINNING_COLUMNS,
    "thinning: the statement's key": THINNING_KEY,
    "thinning: the statement's columns": THINNING_FILE,
    "thinning: share of hidden slots": THINNING_SHARE,
    "thinning: weights hash the placed columns": PLACED_HASHED,
    "thinning: weights hash the thinned columns": THINNED_HASHED,
    "thinning: link hashes the proof": LINK_HASHES_PROOF,
    "thinning: alpha hashes what is committed to about coins": ALPHA_HASHES_POINTS,
    "thinning: beta does": BETA_HASHES_POINTS,
    "thinning: both do": CHALLENGES_HASH_POINTS,
}

# SPDX-License-Identifier: GPL-3.0-or-later
"""Steps 2 to 4 against manifests, windows, keys and index files that do not hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ragseal.kernel import field, signature
from ragseal.kernel.commitment import (
    IndexFile,
    SignedManifest,
    WindowClose,
    WindowOpen,
)
from ragseal.kernel.policy import OPENS_WITHIN
from ragseal.verifier.evidence.evidence import ConfiguredKey
from tests.classes import TINY
from tests.simulator import (
    CLASS_DIGEST,
    CLOSES,
    GROUP,
    KEY,
    OPENS,
    TENANTS,
    BindingKey,
    World,
    key_of,
    policy,
)
from tests.simulator.entries import signed_manifest
from tests.verifier.attacks import Attacks

ATTACKS = Attacks()
attack = ATTACKS.add
undecided = ATTACKS.open

# --- step 2: manifest ------------------------------------------------------------------------------------------------


@undecided(2, "holds no manifest of a window")
def unknown_window() -> Any:
    return World.honest(), {"window": "w9"}


@undecided(2, "no opened window")
def nothing_opened() -> Any:
    world = World()
    world.enter_manifest()
    return world


@attack(2, "signed and shows a manifest of this window different")
def other_manifest_shown() -> Any:
    world = World.honest()
    shown = replace(world.manifest, policy=policy(gain=2))
    world.shown_manifest = signed_manifest(shown, world.provider).encode()
    return world


@undecided(2, "; this auditor is ")
def window_of_another_auditor() -> Any:
    world = World.honest()
    return world, {"auditor": replace(world.auditor(), identity=signature.public_bytes(key_of("somebody")))}


@pytest.mark.parametrize("shown", ["junk", "unsigned", "other window", "other provider"])
def test_what_is_shown_beside_the_log_is_set_aside_unless_the_provider_signed_two(shown: str) -> None:
    """GetManifest's answer is not signed as such: whoever is between can put anything there."""
    world = World.honest()
    thief = key_of("thief")
    other = replace(world.manifest, window="w0" if shown == "other window" else "w1", policy=policy(gain=2))
    if shown == "other provider":
        other = replace(other, provider_key=signature.public_bytes(thief))
    signer = world.provider if shown == "other window" else thief
    signed = signed_manifest(other, signer)
    world.shown_manifest = b"nonsense" if shown == "junk" else signed.encode()
    verdict = world.audit()
    assert verdict.verdict == "PASS", verdict.line()
    assert "set aside" in verdict.steps[1].evidence["manifest_shown_beside_the_log"]


@attack(2, "manifest signature does not hold")
def manifest_signed_by_another() -> Any:
    world = World.honest()
    index = world.at(SignedManifest)
    forged = signature.sign(key_of("thief"), "manifest", world.manifest.encode())
    world.messages[index] = SignedManifest(world.manifest, forged)
    return world


@attack(2, "is of the log")
def manifest_of_another_log() -> Any:
    return World.honest(origin="other.example/log")


@attack(2, "was opened again")
def window_name_again() -> Any:
    world = World.honest()
    world.shown_manifest = world.messages[0].encode()
    world.messages.append(_signed(world, replace(world.manifest, policy=policy(opens=CLOSES, closes=CLOSES + 60))))
    return world, {"window": "w1"}


def _signed(world: World, manifest: Any) -> SignedManifest:
    return signed_manifest(manifest, world.provider)


@attack(2, "seed commitment was used")
def seed_again() -> Any:
    world = World()
    world.enter_manifest("w0")
    world.commit(c_seed=world.manifest.c_seed)
    world.close()
    return world


@attack(2, "beacon commitment was used")
def provider_nonce_again() -> Any:
    world = World()
    world.enter_manifest("w0")
    world.commit(beacon_commitment=world.manifest.beacon_commitment)
    world.close()
    return world


@undecided(2, "build has no circuit class")
def unknown_class() -> Any:
    return World.honest(policy_=policy(class_name="vast"))


@undecided(2, "ragseal 0.3.0 was the last release that had it")
def class_that_is_no_more() -> Any:
    return World.honest(policy_=policy(class_name="ranked-small-one-50"))


@undecided(2, "another build of the circuit class")
def other_class_build() -> Any:
    return World.honest(policy_=policy(class_digest=bytes(32)))


@attack(2, "do not fit")
def policy_overflows() -> Any:
    return World.honest(policy_=policy(gain=10_000))


@undecided(2, f"not the canonical {TINY.law} table")
def policy_with_other_table() -> Any:
    return World.honest(policy_=policy(table_digest=bytes(32)))


@attack(2, "was opened 2 times")
def opened_twice() -> Any:
    world = World.honest()
    world.messages.append(world.messages[world.at(WindowOpen)])
    return world


@undecided(2, "the window is still open")
def still_open() -> Any:
    world = World.honest()
    del world.messages[world.at(WindowClose)]
    return world


@attack(2, "2 closing entries")
def closed_twice() -> Any:
    world = World.honest()
    world.messages.append(world.messages[-1])
    return world


@attack(2, "out of order")
def manifest_after_opening() -> Any:
    world = World.honest()
    world.messages.append(world.messages.pop(world.at(SignedManifest)))
    return world


@attack(2, "outside the time that its policy names")
def opened_early() -> Any:
    world = World.honest()
    index = world.at(WindowOpen)
    world.messages[index] = replace(world.messages[index], time=OPENS - 60)  # type: ignore[type-var]
    return world


@attack(2, "outside the time that its policy names")
def opened_late() -> Any:
    """A window of 50 minutes opens within an hour, or never."""
    world = World.honest()
    index = world.at(WindowOpen)
    world.messages[index] = replace(world.messages[index], time=OPENS + OPENS_WITHIN + 60)  # type: ignore[type-var]
    return world


@attack(2, "closed before it was opened")
def closed_before_opened() -> Any:
    world = World.honest()
    index = world.at(WindowClose)
    world.messages[index] = replace(world.messages[index], time=OPENS)  # type: ignore[type-var]
    return world


@undecided(2, "in the future")
def closing_time_in_the_future() -> Any:
    return World.honest(), {"now": OPENS + 100}


@attack(2, "overlaps another one")
def overlapping_window() -> Any:
    world = World()
    world.commit("w0", policy_=policy())
    other = world.digest
    world.commit("w1")
    world.close()
    world.messages.append(WindowClose(other, 0, OPENS + 3000))
    return world


@attack(2, "overlaps another one")
def earlier_window_never_closed() -> Any:
    world = World()
    world.commit("w0")
    world.commit("w1")
    world.close()
    return world


@attack(2, "before an earlier one was closed")
def times_of_windows_overlap() -> Any:
    world = World()
    world.commit("w0")
    world.messages.append(WindowClose(world.digest, 0, OPENS + 600))
    world.commit("w1")
    world.close()
    return world


# --- step 3: keys ----------------------------------------------------------------------------------------------------


@undecided(3, "not in this auditor's configuration")
def key_of_the_manifest() -> Any:
    return World.honest(key_digest=BindingKey("provider's own").digest)


@undecided(3, "made for another circuit class")
def key_of_another_class() -> Any:
    world = World.honest()
    key = ConfiguredKey(KEY.digest, TINY.name, bytes(32), "auditor", lambda: KEY)
    return world, {"auditor": replace(world.auditor(), keys={KEY.digest: key})}


@undecided(3, "holds another key")
def damaged_key_file() -> Any:
    world = World.honest()
    other = BindingKey("other")
    key = ConfiguredKey(KEY.digest, TINY.name, CLASS_DIGEST, "auditor", lambda: other)
    return world, {"auditor": replace(world.auditor(), keys={KEY.digest: key})}


# --- step 4: index openings ------------------------------------------------------------------------------------------


@undecided(4, "index of tenant 'north': the column commitments are not those of the manifest")
def columns_swapped() -> Any:
    world = World.honest()
    world.files["north"] = world.files["south"]
    return world


@undecided(4, "the proof of opening is not the one of the manifest")
def other_opening_delivered() -> Any:
    world = World.honest()
    file = world.files["north"]
    world.files["north"] = replace(file, opening=world.files["south"].opening)
    return world


def _committed(file: IndexFile) -> World:
    """A window whose manifest commits to this index file of tenant north."""
    index = replace(TENANTS["north"].index, columns_digest=file.columns_digest(), opening_digest=file.opening_digest())
    world = World()
    world.files["north"] = file
    world.commit(tenants=(index, TENANTS["south"].index))
    world.close()
    return world


@attack(4, "the columns opening does not hold")
def column_outside_the_span() -> Any:
    file = TENANTS["north"].file
    foreign = GROUP.hash_to_curve(b"outside", 1)
    first = GROUP.msm(file.columns[:64] + foreign, field.pack([1, 1]))
    return _committed(replace(file, columns=first + file.columns[64:]))


@attack(4, "holds 192 bytes of columns")
def column_missing() -> Any:
    return _committed(replace(TENANTS["north"].file, columns=TENANTS["north"].file.columns[64:]))


@attack(4, "responses expected")
def opening_truncated() -> Any:
    file = TENANTS["north"].file
    return _committed(replace(file, opening=replace(file.opening, responses=file.opening.responses[1:])))


@pytest.mark.parametrize("name", ATTACKS.names())
def test_attack_ends_at_its_step(name: str) -> None:
    ATTACKS.run(name)

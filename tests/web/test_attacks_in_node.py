# SPDX-License-Identifier: GPL-3.0-or-later
"""Forgeries of tests/attacks, and lies of a whole log, as the browser's checks see them in the public files.

The log is signed whatever it says, so what does not hold is its signer's.  Every other forgery of that folder is read
so while tests/attacks runs (:mod:`tests.web.second_reader`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragseal.kernel.attestation import Record
from ragseal.kernel.commitment import BeaconCommit, BeaconOpening, BeaconSeal, SignedManifest, WindowClose, WindowOpen
from ragseal.kernel.params import R
from ragseal.ledger.note import NoteSigner
from tests.attacks import test_auditors as of_auditors
from tests.attacks import test_folding as of_openings
from tests.attacks import test_records as of_records
from tests.attacks import test_windows as of_windows
from tests.attacks.machine import machine
from tests.attacks.world import AttackWorld, Cheat, queried
from tests.classes import TINY
from tests.simulator import ORIGIN, World, key_of
from tests.simulator.entries import beacon_seal
from tests.web.published import NODE, Published, export_log, publish

pytestmark = [pytest.mark.slow, pytest.mark.skipif(NODE is None, reason="Node.js is not installed")]


def column_along_ctx() -> AttackWorld:
    base, shift = machine().base("ctx"), of_openings.SHIFT
    cheat = Cheat(proven=lambda s, e: replace(s, ctx=(s.ctx + e[0] * shift) % R))
    return of_openings._world(cheat, {0: ((base, shift),)})


#: Worlds with real proofs: where the browser sees it, and in which words.
FORGERIES: dict[str, tuple[Callable[[], AttackWorld], str, str]] = {
    "seq_gap": (of_records.seq_gap, "records", "record 2: seq 1 is missing"),
    "swapped": (of_records.swapped_before_signing, "records", "seq 0 is missing"),
    "counts_less": (of_records.closing_entry_counts_less, "records", "the closing entry counts"),
    "ctr_gap": (of_records.ctr_gap, "records", "jumps to request 2, expected 1"),
    "above_n_max": (of_records.account_above_n_max, "records", "exceeds its 3 queries"),
    "nonce_twice": (of_records.nonce_used_twice, "records", "was used by this account before"),
    "unknown_index": (of_records.request_for_another_index_version, "records", "an index that no tenant"),
    "older_columns": (of_records.scores_of_another_index_version, "openings", "does not hold"),
    "two_manifests": (of_windows.policy_changed_after_opening, "manifest", "occurs in two manifests"),
    "seed_again": (of_windows.reopened_with_the_same_seed, "manifest", "seed commitment was used"),
    "opened_twice": (of_windows.opened_twice, "opening and closing", "more than once"),
    "left_out": (of_auditors.left_out_although_it_committed, "beacon", "end with the auditors that had committed"),
    "friends_seat": (of_auditors.a_friend_in_anothers_seat, "beacon", "auditor-c in the beacon has another key"),
    "column_along_ctx": (column_along_ctx, "columns", "component outside its bases"),
    "link": (lambda: queried(of_openings.LINK_VARIANTS["one_entry_of_e_off_by_one"]()), "openings", "does not hold"),
    "score_base": (
        lambda: queried(of_openings.LINK_VARIANTS["component_along_a_score_base"]()),
        "openings",
        "does not hold",
    ),
    **{
        f"hints_{name}": (lambda made=cheat: queried(made), "openings", "does not hold")
        for name, cheat in of_openings.VARIANTS.items()
    },
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_is_seen(name: str, tmp_path: Path) -> None:
    make, step, match = FORGERIES[name]
    world = make()
    window = "w1" if name in ("two_manifests", "seed_again") else ""
    if step in ("openings", "columns"):
        published = publish(world, tmp_path)
    else:
        export_log(world, tmp_path)
        published = Published(tmp_path, world.signer.verifier.vkey())
    said = published.check(*(["--window", window] if window and name == "two_manifests" else []))
    assert said.state == "bad"
    assert list(said.bad) == [step], said.lines
    assert re.search(match, said.bad[step])
    assert said.whose == (["log"] if step not in ("openings", "columns") else ["files"])


# --- a log that contradicts itself -----------------------------------------------------------------------------------


def edit(kind: type[Any], number: int = 0, **changes: Any) -> Callable[[World], None]:
    """Other fields in one entry."""

    def change(world: World) -> None:
        at = world.at(kind, number)
        world.messages[at] = replace(world.messages[at], **changes)

    return change


def moved(kind: type[Any], number: int, by: int) -> Callable[[World], None]:
    """One entry stands elsewhere."""

    def change(world: World) -> None:
        at = world.at(kind, number)
        world.messages.insert(at + by, world.messages.pop(at))

    return change


def dropped(kind: type[Any], number: int = 0) -> Callable[[World], None]:
    return lambda world: world.messages.pop(world.at(kind, number)) and None


def other_beacon(world: World) -> None:
    at = world.at(WindowOpen)
    world.messages[at] = replace(world.messages[at], beacon=world.beacon ^ 1)  # type: ignore[type-var]


def sealed_without_the_auditor(world: World) -> None:
    world.messages[world.at(BeaconSeal)] = beacon_seal(world.digest, ("provider", "observer-1"), world.window_key)


def unreadable(world: World) -> None:
    world.raw[world.at(Record)] = world.messages[world.at(Record)].encode() + b"\x00"


def under_another_key(world: World) -> None:
    """The same entries in a log of the same name, under another key."""
    world.signer = NoteSigner(ORIGIN, key_of("another key of the log"))


def another_time(seq: int, by: int) -> Callable[[World], None]:
    def change(world: World) -> None:
        record = world.records()[seq]
        world.messages[world.at(Record, seq)] = replace(record, time=record.time + by)

    return change


LIES: dict[str, tuple[Callable[[World], None], str, str]] = {
    "an entry that is no message": (unreadable, "messages", "entry 8 is no message"),
    "a manifest of another log": (under_another_key, "manifest", "with another key than this one's"),
    "an unsigned manifest": (edit(SignedManifest, signature=bytes(64)), "manifest", "signature does not hold"),
    "an unsigned seal": (edit(BeaconSeal, signature=bytes(64)), "beacon", "signature does not hold"),
    "an unsigned commitment": (edit(BeaconCommit, 1, signature=bytes(64)), "beacon", "signature does not hold"),
    "another nonce": (edit(BeaconOpening, 1, nonce=bytes(32)), "beacon", "does not match its commitment"),
    "the auditor not last": (moved(BeaconOpening, 2, -1), "beacon", "not among the beacon's last entries"),
    "an opening left out": (dropped(BeaconOpening, 1), "beacon", "lacks the opening of observer-1"),
    "a seal without the auditor": (sealed_without_the_auditor, "beacon", "end with the auditor"),
    "a commitment after the seal": (moved(BeaconCommit, 0, 3), "beacon", "after the seal or an opening"),
    "an opening before the seal": (moved(BeaconOpening, 0, -2), "beacon", "before a seal named it|after the seal"),
    "another beacon": (other_beacon, "beacon", "not what the nonces give"),
    "opened before its time": (edit(WindowOpen, time=1_799_999_940), "opening and closing", "outside the time"),
    "closed before it opened": (edit(WindowClose, time=1_700_000_000), "opening and closing", "before it was opened"),
    "never opened": (dropped(WindowOpen), "window", "no opened window"),
    "a record behind the closing": (moved(WindowClose, 0, -1), "records", "not its own"),
    "a record before its window": (another_time(0, -6000), "records", "record 0: its time"),
    "a record out of time": (another_time(1, 1200), "records", "record 2: its time"),
}


@pytest.mark.parametrize("name", LIES)
def test_a_log_that_contradicts_itself_is_seen(name: str, tmp_path: Path) -> None:
    lie, step, match = LIES[name]
    world = World.honest()
    lie(world)
    export_log(world, tmp_path)
    said = Published(tmp_path, world.signer.verifier.vkey()).check()
    assert list(said.bad) == [step], said.lines
    assert re.search(match, said.bad[step]), said.bad


@pytest.mark.parametrize("make", [of_auditors.honest, of_auditors.without_a], ids=["all", "one_away"])
def test_a_window_of_three_auditors_holds(make: Callable[[], AttackWorld], tmp_path: Path) -> None:
    said = publish(make(), tmp_path).check()
    assert (said.state, said.proven) == ("good", 3), said.lines
    assert "auditor-b, auditor-c" in said.of("good")["beacon"]


def test_an_honest_simulated_log_contradicts_nothing(tmp_path: Path) -> None:
    world = World.honest()
    export_log(world, tmp_path)
    said = Published(tmp_path, world.signer.verifier.vkey()).check()
    assert (said.state, said.bad) == ("open", {})
    assert "records" in said.of("good")
    # the simulated class is of no build that the browser knows: that convicts nobody
    unknown = f"the policy names a circuit class {TINY.name}, or a build of it"
    assert said.of("open")["verifying key"].startswith(unknown)


def test_an_entry_of_a_later_kind_convicts_nobody(tmp_path: Path) -> None:
    world = World.honest()
    world.raw[world.at(Record)] = b"\x06record\x00\x02 of another version"
    export_log(world, tmp_path)
    said = Published(tmp_path, world.signer.verifier.vkey()).check()
    assert (said.state, said.bad) == ("open", {})
    assert said.of("open")["messages"] == "entry 8 is of a kind or version that this build does not know"

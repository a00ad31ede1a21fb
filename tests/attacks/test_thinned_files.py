# SPDX-License-Identifier: GPL-3.0-or-later
"""Thinned indices that other coins made, files that are not the log's, keys that are not the auditor's.  SPEC A.11."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ragseal.kernel.bn254 import POINT_BYTES
from ragseal.kernel.coin import coin_commitment
from ragseal.kernel.commitment import (
    CoinCommitment,
    SignedManifest,
)
from ragseal.verifier.evidence.evidence import Undecided
from ragseal.verifier.steps.coins import Coin, check_thinned
from ragseal.verifier.steps.manifest import Entered
from tests.attacks import checks
from tests.attacks.checks import gone, without
from tests.attacks.coin_lies import _entries, told
from tests.attacks.removal import Both
from tests.attacks.test_outsiders import Between
from tests.attacks.test_withheld import audit as audited_over
from tests.attacks.world import accepted, refused, undecided
from tests.simulator import DIMENSION, GROUP, KEY, TENANTS, SimulatedEvidence
from tests.simulator.coined import CoinedWorld, placed, recommitted, seed_of
from tests.simulator.keys import thinning_backend as backend

pytestmark = pytest.mark.slow


# --- the files -------------------------------------------------------------------------------------------------------


def thinned_as(**other: Any) -> Callable[[CoinedWorld], None]:
    """North's index is thinned by other coins than its own: honestly proven, named in the log, answered from."""

    def lie(world: CoinedWorld) -> None:
        world.tenants["north"], file = world.thinned_index("north", **other)
        world.thinned[world.digest, "north"] = file
        world.put_thinning(file.entry("north"), _entries(world)[1])

    return lie


def of_another_tenant(world: CoinedWorld) -> None:
    """South's index under north's name."""
    file = world.thinned[world.digest, "south"]
    world.thinned[world.digest, "north"] = file
    world.tenants["north"] = replace(world.tenants["north"], file=world.tenants["south"].file)
    world.put_thinning(file.entry("north"), _entries(world)[1])


OTHERS: dict[str, Callable[[CoinedWorld], None]] = {
    "of another window": thinned_as(manifest=bytes(32)),
    "by the coins of another tenant": thinned_as(named="south"),
    "of another tenant": of_another_tenant,
    "of another beacon": thinned_as(beacon=12345),
    "of another seed": thinned_as(seed=(1, 2)),
    "of another share": thinned_as(hidden=1),
}


@pytest.mark.parametrize("name", OTHERS)
def test_an_index_thinned_by_other_coins_is_refused(name: str) -> None:
    world = told(OTHERS[name])
    refused(world, 4, "thinned index of tenant 'north': ")
    with without(checks.THINNED_COLUMNS):
        accepted(world)


def test_without_an_entry_there_are_no_columns_that_records_are_made_of() -> None:
    """Never the placed ones instead, whoever calls."""
    world = CoinedWorld.honest()
    entered = Entered(0, SignedManifest(world.manifest, bytes(64)), world.digest)
    placed_columns = {name: tenant.file.columns for name, tenant in placed().items()}
    with pytest.raises(Undecided, match="no entry of the log names thinned columns"):
        check_thinned(
            GROUP, KEY, Coin(backend().key, world.beacon), entered, placed_columns, None, SimulatedEvidence(world)
        )


def _fewer(columns: bytes) -> bytes:
    return columns[:-POINT_BYTES]


def _more(columns: bytes) -> bytes:
    return columns + columns[:POINT_BYTES]


@pytest.mark.parametrize("change", [_fewer, _more, lambda _: b"", lambda columns: columns[:-1]])
def test_thinned_columns_of_another_number_are_the_providers_lie(change: Callable[[bytes], bytes]) -> None:
    """The log names this very file: nobody else made it, so asking again for another one is no way out."""

    def lie(world: CoinedWorld) -> None:
        at = world.digest, "north"
        world.thinned[at] = replace(world.thinned[at], columns=change(world.thinned[at].columns))
        world.put_thinning(world.thinned[at].entry("north"), _entries(world)[1])

    refused(told(lie), 4, "thinned index of tenant 'north': it has another number of columns")


def _with_other_blinders(world: CoinedWorld) -> None:
    """North is answered from columns with other blinders than those of the log, which its file has too."""
    at = world.digest, "north"
    world.tenants["north"] = recommitted(placed()["north"], world.tenants["north"].rows, KEY, random.Random(3))
    world.thinned[at] = replace(world.thinned[at], columns=world.tenants["north"].file.columns)


def test_a_file_that_is_not_the_logs_is_nobodys_word() -> None:
    world = told(_with_other_blinders)
    undecided(world, 4, "thinned index of tenant 'north': it is not the one that the log names")
    with without(Both((checks.THINNED_FILE_OF_THE_LOG, checks.THINNED_COLUMNS))):
        accepted(world)
    with without(checks.THINNED_FILE_OF_THE_LOG):  # taken for the log's, what does not hold would be a lie
        refused(world, 4, "thinned index of tenant 'north'")


@pytest.mark.parametrize(
    "change", [lambda d: d[:-1], lambda d: d + b"x", lambda d: b"", lambda d: d[:99] + b"!" + d[100:]]
)
def test_what_a_stranger_makes_of_a_thinned_file_is_no_verdict(change: Callable[[bytes], bytes]) -> None:
    verdict = audited_over(Between("thinned_file", change, CoinedWorld.honest()))
    assert verdict.line().startswith("NO VERDICT step=4 index openings: thinned index of tenant 'north'"), (
        verdict.line()
    )
    assert verdict.obstacle is not None
    assert "over TLS" in verdict.obstacle.way_out


def test_columns_placed_under_the_attestations_points_are_refused() -> None:
    """They have no part in the thinning circuit's inputs, so nothing would tie what is thinned to them."""
    world = CoinedWorld()
    world.enter_manifest(tenants=tuple(TENANTS[name].index for name in sorted(TENANTS)))
    world.enter_beacon()
    world.files = {name: tenant.file for name, tenant in TENANTS.items()}
    world.tenants = {name: replace(made, index=TENANTS[name].index) for name, made in world.tenants.items()}
    world.queries()
    world.close()
    refused(world, 4, "index of tenant 'north': ")
    with without(Both((checks.COLUMNS, checks.THINNED_COLUMNS))):
        accepted(world)


def answered_from(favour: Callable[[CoinedWorld], list[list[int]]]) -> CoinedWorld:
    """North's records are made of other columns than the log's thinned ones, under the same points."""

    def lie(world: CoinedWorld) -> None:
        world.tenants["north"] = recommitted(placed()["north"], favour(world), KEY, random.Random(4))

    return told(lie)


def _one_hidden_slot_kept(world: CoinedWorld) -> list[list[int]]:
    rows = [list(row) for row in world.tenants["north"].rows]
    slot = world.hides("north").index(True)
    assert rows[slot] == [0] * DIMENSION
    rows[slot] = placed()["north"].rows[slot]
    return rows


def _as_placed(world: CoinedWorld) -> list[list[int]]:
    return placed()["north"].rows


def _one_more_hidden(world: CoinedWorld) -> list[list[int]]:
    rows = [list(row) for row in world.tenants["north"].rows]
    rows[world.hides("north").index(False)] = [0] * DIMENSION
    return rows


@pytest.mark.parametrize("favour", [_one_hidden_slot_kept, _as_placed, _one_more_hidden])
def test_records_of_other_columns_than_the_thinned_ones_are_refused(favour: Any) -> None:
    world = answered_from(favour)
    refused(world, 8, "the link opening does not hold")
    with without(checks.LINK):
        accepted(world)


# --- keys ------------------------------------------------------------------------------------------------------------


def test_a_thinning_key_that_is_not_the_auditors_own_is_no_verdict() -> None:
    world = CoinedWorld.honest()
    undecided(world, 3, "a thinning key that is not in this auditor's", auditor=replace(world.auditor(), thinnings={}))
    world.coin_made_by = "provider"
    undecided(world, 3, "unsafe: the keys are made by provider")
    with without(checks.OWN_KEYS):
        accepted(world)


def test_a_thinning_key_of_another_capacity_or_of_another_file_is_no_verdict() -> None:
    world, (digest, known) = CoinedWorld.honest(), next(iter(CoinedWorld.honest().auditor().thinnings.items()))
    other = replace(world.auditor(), thinnings={digest: replace(known, class_name="thinning-430")})
    undecided(world, 3, "made for another capacity", auditor=other)
    with without(checks.THINNING_CAPACITY):
        accepted(world, auditor=other)
    named = CoinedWorld()
    named.commit(coins=(CoinCommitment(coin_commitment(seed_of("w1")), bytes(32)),))
    named.close()
    mistaken = replace(named.auditor(), thinnings={bytes(32): replace(known, digest=bytes(32))})
    undecided(named, 3, "holds another key", auditor=mistaken)
    gone(checks.THINNING_KEY_IN_ITS_FOLDER, named, "holds another key", auditor=mistaken)

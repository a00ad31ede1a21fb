# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of a live index's versions about which the provider, or a stranger, lies.  SPEC A.12.

Everything but the lie is made to fit it.  With all checks in place the audit ends as the test says; with the one check
removed that the test names the same evidence passes.  Proofs about hidden slots are real, of 126 slots.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ragseal.kernel.commitment import IndexFile
from ragseal.kernel.emptied import EmptiedFile
from ragseal.verifier.evidence.evidence import Undecided
from tests.attacks import checks
from tests.attacks.checks import without
from tests.attacks.removal import Both
from tests.attacks.test_outsiders import Between
from tests.attacks.test_withheld import audit as audited_over
from tests.attacks.world import accepted, refused, undecided
from tests.simulator import SimulatedEvidence, index_file
from tests.simulator.keys import thinning_backend
from tests.simulator.ticked import TickedCoins, TickedWorld

pytestmark = pytest.mark.slow


def begun(world: TickedWorld | None = None, updates: int = 1) -> Any:
    """A window with so many honest updates and two records over each."""
    made = world or TickedWorld()
    made.commit()
    for number in range(1, updates + 1):
        made.update(number)
        made.ask("alice")
        made.ask("carol")
    return made


# --- the files -------------------------------------------------------------------------------------------------------


def lied(lie: Callable[[Any, int], None], world: TickedWorld) -> TickedWorld:
    """A window whose second update is a lie, which records are then answered from."""
    begun(world)
    made = world.made(2)
    lie(world, 2)
    file = world.version_files[world.digest, 2, "north"]
    line = made.tenants[0]
    told = (
        file.entry("north", line.text_root)
        if isinstance(file, EmptiedFile)
        else replace(line, columns_digest=file.columns_digest(), opening_digest=file.opening_digest())
    )
    entry = replace(made, tenants=(told, *made.tenants[1:]))
    world.messages.append(entry)
    world.take(entry, 2)
    world.ask("alice")
    world.close()
    return world


def another_opening(world: TickedWorld, number: int) -> None:
    at = world.digest, number, "north"
    file, other = world.version_files[at], world.version_files[world.digest, 1, "north"]
    world.version_files[at] = replace(file, opening=other.opening)


@pytest.mark.parametrize("kind", [TickedWorld, TickedCoins])
def test_a_version_without_its_proof_of_opening_is_refused(kind: type[TickedWorld]) -> None:
    world = lied(another_opening, kind())
    refused(world, 4, "version 2 of the index of tenant 'north': ")
    with without(checks.VERSION_COLUMNS if kind is TickedWorld else checks.EMPTIED_COLUMNS):
        accepted(world)


def filled(world: TickedCoins, number: int, value: int) -> tuple[IndexFile, list[list[int]]]:
    """North's version with one hidden slot filled, its columns opened as they should be."""
    rng, of = random.Random(9), world.at["north", number]
    rows = [list(row) for row in of.rows]
    rows[world.hides("north").index(True)] = [value] * len(rows[0])
    made = index_file(rows, of.blinders, world.key, rng)
    world.at["north", number] = replace(of, rows=rows, file=made)
    return made, rows


def a_hidden_slot_under_the_proof_of_another_index(world: TickedCoins, number: int) -> None:
    """The circuit's proof is of what has no hidden slot, for the weights of the columns that have one."""
    of = world.at["north", number]
    made, _ = filled(world, number, 7)
    statement = world.statement("north", number, made.columns)
    with without(Both((checks.EMPTIED_LINK, checks.EMPTIED_COLUMNS))):
        file = world.emptied(statement, made, of.rows, of.blinders, random.Random(8))
    world.version_files[world.digest, number, "north"] = replace(file, columns=made.columns, opening=made.opening)


def test_a_filled_slot_that_is_not_in_what_is_proven_is_refused_by_the_link() -> None:
    world = lied(a_hidden_slot_under_the_proof_of_another_index, TickedCoins())
    refused(world, 4, "version 2 of the index of tenant 'north': ")
    with without(checks.EMPTIED_LINK):
        accepted(world)


def a_hidden_slot_without_a_proof(world: TickedCoins, number: int) -> None:
    """What is linked has the slot; the circuit's proof is another version's, of other scores."""
    of = world.at["north", number]
    made, rows = filled(world, number, 9)
    honest = world.version_files[world.digest, 1, "north"]
    assert isinstance(honest, EmptiedFile)
    backend = thinning_backend()

    class Lent:
        """A prover whose every proof is the same."""

        key = backend.key

        def prove(self, assignment: Any) -> bytes:
            return honest.shards[0].proof

    with pytest.MonkeyPatch.context() as patch, without(checks.THINNING_PAIRING):
        patch.setattr("tests.simulator.ticked.thinning_backend", Lent)
        statement = world.statement("north", number, made.columns)
        file = world.emptied(statement, made, rows, of.blinders, random.Random(8))
    world.version_files[world.digest, number, "north"] = file


def test_a_filled_slot_without_a_proof_is_refused_by_the_circuit() -> None:
    world = lied(a_hidden_slot_without_a_proof, TickedCoins())
    refused(world, 4, "the proof that hidden slots are empty does not hold")
    with without(checks.THINNING_PAIRING):
        accepted(world)
    with without(checks.EMPTIED):
        accepted(world)


def proven_for(**changes: Any) -> Callable[[TickedCoins, int], None]:
    """North's version with a proof that is honest, but of another statement."""

    def lie(world: TickedCoins, number: int) -> None:
        of = world.at["north", number]
        statement = replace(world.statement("north", number, of.file.columns), **changes)
        world.version_files[world.digest, number, "north"] = world.emptied(
            statement, of.file, of.rows, of.blinders, random.Random(8)
        )

    return lie


def test_a_proof_of_another_version_or_window_is_none_of_this_one() -> None:
    """The same columns, coins and keys: only what the weights hash tells them apart."""
    for changes, check in (
        ({"number": 1}, checks.EMPTIED_HASHES_NUMBER),
        ({"manifest": b"another window's" * 2}, checks.EMPTIED_HASHES_MANIFEST),
    ):
        refused(lied(proven_for(**changes), TickedCoins()), 4, "version 2 of the index of tenant 'north': ")
        with without(check):
            world = lied(proven_for(**changes), TickedCoins())
            accepted(world)


def orthogonal(world: TickedCoins, number: int) -> None:
    """A hidden slot is filled with what the weights, known before, do not see."""
    of = world.at["north", number]
    weights = world.statement("north", number, of.file.columns).weights()
    rows = [list(row) for row in of.rows]
    rows[world.hides("north").index(True)][:2] = [weights[1], -weights[0]]
    made = index_file(rows, of.blinders, world.key, random.Random(9))
    world.at["north", number] = replace(of, file=made)
    statement = world.statement("north", number, made.columns)
    world.version_files[world.digest, number, "north"] = world.emptied(
        statement, made, of.rows, of.blinders, random.Random(8)
    )


def test_weights_that_are_known_before_the_columns_prove_nothing() -> None:
    with without(checks.EMPTIED_HASHES_COLUMNS):
        world = lied(orthogonal, TickedCoins())
        accepted(world)
    refused(world, 4, "index of tenant 'north': ")


def test_scores_over_the_version_before_are_refused_by_the_link_of_the_one_that_is_named() -> None:
    world: TickedWorld = begun(updates=2)
    now = world.tenants["north"]
    world.tenants["north"] = replace(now, file=world.at["north", 1].file)
    world.ask("alice")
    world.tenants["north"] = now
    world.close()
    refused(world, 8, "proofs of records")
    with without(checks.LINK):
        accepted(world)


# --- what nobody signed ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [TickedWorld, TickedCoins])
def test_a_file_that_is_not_the_logs_is_nobodys_word(kind: type[TickedWorld]) -> None:
    world = kind.honest()
    other = world.version_files[world.digest, 1, "north"]
    world.version_files[world.digest, 2, "north"] = other
    undecided(world, 4, "version 2 of the index of tenant 'north': it is not the one that the log names")
    files = Both((checks.VERSION_FILE_OF_THE_LOG, checks.EMPTIED_FILE_OF_THE_LOG))
    with without(files):  # taken for the log's, it would convict an honest provider
        assert world.audit().verdict == "FAIL"


@pytest.mark.parametrize("change", [lambda d: d[:-1], lambda d: d + b"x", lambda d: b""])
@pytest.mark.parametrize("kind", [TickedWorld, TickedCoins])
def test_what_a_stranger_makes_of_a_file_is_no_verdict(
    kind: type[TickedWorld], change: Callable[[bytes], bytes]
) -> None:
    verdict = audited_over(Between("version_file", change, kind.honest()))
    assert verdict.line().startswith("NO VERDICT step=4"), verdict.line()


def test_a_file_that_is_withheld_is_no_verdict() -> None:
    class Withheld(SimulatedEvidence):
        def version_file(self, manifest: bytes, number: int, tenant: str) -> bytes:
            raise Undecided("the provider does not answer", "ask again")

    verdict = audited_over(Withheld(TickedWorld.honest()))
    assert verdict.line().startswith("NO VERDICT step=4"), verdict.line()

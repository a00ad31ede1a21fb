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

from ragseal.groth16.coin_proofs import CoinScores, CoinSecrets, opened
from ragseal.groth16.provers import ThinningBackend
from ragseal.kernel import field
from ragseal.kernel.bn254 import POINT_BYTES, Group
from ragseal.kernel.coin import coin_commitment
from ragseal.kernel.coin_proof import Coined, CoinProof, prove_coins
from ragseal.kernel.commitment import (
    CoinCommitment,
    IndexFile,
    SignedManifest,
)
from ragseal.kernel.emptied import EmptiedFile
from ragseal.kernel.params import R
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
from tests.simulator import DIMENSION, GROUP, TENANTS, SimulatedEvidence, index_file
from tests.simulator.coined import CoinedWorld, key, placed, recommitted, seed_of
from tests.simulator.keys import thinning_backend
from tests.simulator.keys import thinning_backend as backend
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
            return honest.shards[0].shown.proof

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


def a_hidden_slot_that_the_circuit_sees_empty(world: TickedCoins, number: int) -> None:
    """C_x takes from the circuit's w' what the linked one has too much."""
    of = world.at["north", number]
    made, rows = filled(world, number, 11)
    at = world.hides("north").index(True)

    def make(
        group: Group, backend: ThinningBackend, coined: Coined, scores: CoinScores, secrets: CoinSecrets
    ) -> CoinProof:
        masks, nonces = secrets.fresh[: 32 * 10], secrets.fresh[32 * 10 :]
        held = opened(coined, scores, secrets.seed, field.unpack(masks))
        points = held.commit(group, coined)
        point = coined.key.mixed.y[POINT_BYTES * at : POINT_BYTES * (at + 1)]
        points = replace(points, hints=group.msm(points.hints + point, field.pack([1, R - scores.thinned[at]])))
        shown = [0 if i == at else w for i, w in enumerate(scores.thinned)]
        inside = replace(held, scores=replace(scores, thinned=shown))
        proof = backend.prove(inside.assignment(coined, points, secrets.seed))
        return prove_coins(group, coined, points, proof, held.vectors(), nonces)

    with pytest.MonkeyPatch.context() as patch, without(checks.EMPTIED_HINTS):
        patch.setattr("ragseal.groth16.emptied.make_coins", make)
        file = world.emptied(world.statement("north", number, made.columns), made, rows, of.blinders, random.Random(8))
    world.version_files[world.digest, number, "north"] = file


def test_a_filled_slot_that_hints_take_from_the_circuit_is_refused() -> None:
    world = lied(a_hidden_slot_that_the_circuit_sees_empty, TickedCoins())
    refused(world, 4, "the emptied-hints opening does not hold")
    with without(checks.EMPTIED_HINTS):
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


# Thinned indices that other coins made, files that are not the log's, keys that are not the auditor's. SPEC A.11.


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
            GROUP, key(), Coin(backend().key, world.beacon), entered, placed_columns, None, SimulatedEvidence(world)
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
    world.tenants["north"] = recommitted(placed()["north"], world.tenants["north"].rows, key(), random.Random(3))
    world.thinned[at] = replace(world.thinned[at], columns=world.tenants["north"].file.columns)


def test_a_thinned_file_that_is_not_the_logs_is_nobodys_word() -> None:
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
        world.tenants["north"] = recommitted(placed()["north"], favour(world), key(), random.Random(4))

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

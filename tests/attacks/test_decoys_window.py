# SPDX-License-Identifier: GPL-3.0-or-later
"""Windows of decoys, whole: what stands against a provider that lies in its commitments, its lists or its draws.

Rows of the circuit are attacked one by one in tests/decoys.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragseal.backends.mechanism import Engine, Hidden, Scores
from ragseal.kernel import field
from ragseal.kernel import policy as kernel_policy
from ragseal.kernel.attestation import Record
from ragseal.kernel.bn254 import POINT_BYTES, split_points
from ragseal.kernel.classes import Asked
from ragseal.kernel.decoys import stated
from ragseal.kernel.policy import EVERY_LIST
from ragseal.kernel.proofs import ProofEntry, Statement, statement_of
from ragseal.kernel.statement import Returned
from ragseal.prover.attestation import statements
from ragseal.verifier.steps import manifest, proofs
from tests.attacks.checks import OPENED, all_but, without
from tests.attacks.removal import Check
from tests.attacks.world import accepted, refused, undecided
from tests.classes import DECOYS, TINY
from tests.simulator import GROUP
from tests.simulator import provider as scene
from tests.simulator.coined import LO, NO_DRAWS, RATE, CoinedWorld, key, policy, queried
from tests.simulator.live import Live, live

pytestmark = pytest.mark.slow

POINTS = [use for use in key().committed.own for _ in use.over]  #: of a shard's proof, in order


@pytest.mark.parametrize("shards", [1, 2, 3])
def test_an_honest_window_passes(shards: int) -> None:
    world = queried(shards)
    verdict = accepted(world, receipts=world.receipts())
    assert " claim=until-delivered coalition=any " in verdict.line()
    assert {len(record.t_commits) for record in world.records()} == {shards}


# --- commitments -----------------------------------------------------------------------------------------------------


def delivering(world: CoinedWorld, change: Callable[[ProofEntry], ProofEntry]) -> CoinedWorld:
    """Another entry of record 3, whose "proof" holds for what it has."""
    world.tamper_entry = lambda entry: change(entry) if entry.seq == 3 else entry
    return world


def shifted(point: bytes, base: bytes, by: int = 1) -> bytes:
    return GROUP.msm(point + base, field.pack([1, by]))


@pytest.mark.parametrize("number", range(len(POINTS)), ids=[f"{at} {use.name}" for at, use in enumerate(POINTS)])
def test_a_component_outside_of_a_commitments_span(number: int) -> None:
    """It would change another input under the same proof; here it lies along a base that no commitment has."""
    foreign, at = GROUP.hash_to_curve(b"another input", 1), len(POINTS) + number  # of the second shard

    def change(entry: ProofEntry) -> ProofEntry:
        points = split_points(entry.committed)
        points[at] = shifted(points[at], foreign)
        return replace(entry, committed=b"".join(points))

    world, name = delivering(queried(2), change), POINTS[number].name
    refused(world, 8, f"the {name} opening does not hold")
    if name == stated.COUNTS:  # the opening of all C_v is about the sum of these, too
        with without(OPENED[name]):
            refused(world, 8, "the lists opening does not hold")
        with without(all_but(name, stated.LISTS)):
            accepted(world)
        return
    with without(OPENED[name]):
        accepted(world)


def test_a_component_outside_of_the_span_of_c_v() -> None:
    foreign = GROUP.hash_to_curve(b"another input", 1)
    world = delivering(queried(2), lambda entry: replace(entry, c_v=shifted(entry.c_v, foreign)))
    refused(world, 8, "the lists opening does not hold")
    with without(OPENED[stated.LISTS]):
        accepted(world)


#: the commitment that holds another value than one beside it, and the bases that it is over
APART = {
    "C_im": (1, stated.MEMBERS),
    "C_m''": (2, stated.MEMBERS),
    "C_b": (3, stated.BEHIND),
    "C_b'": (4, stated.BEHIND),
}


@pytest.mark.parametrize("name", APART)
def test_commitments_of_one_use_that_hold_other_values(name: str) -> None:
    """Each is over its own bases alone: what they hold has to be the same."""
    at, use = APART[name]
    over = [one for own in key().committed.own for one in own.over][at]

    def change(entry: ProofEntry) -> ProofEntry:
        points = split_points(entry.committed)
        points[at] = shifted(points[at], over.bases[POINT_BYTES * 5 : POINT_BYTES * 6])
        return replace(entry, committed=b"".join(points))

    world = delivering(queried(), change)
    refused(world, 8, f"the {use} opening does not hold")
    with without(OPENED[use]):
        accepted(world)


def test_a_length_that_is_not_the_sum_of_the_shards() -> None:
    """Every commitment opens by itself; the length of the whole list in C_v is not the sum of its shards' numbers."""
    world = queried(2)
    kept = world.kept[world.digest, 3]
    kept.shared = (*kept.shared[:-1], kept.shared[-1] + 1)
    refused(world, 8, "the lists opening does not hold")
    with without(OPENED[stated.LISTS]):
        accepted(world)


@pytest.mark.parametrize("change", ["left out", "twice"])
def test_another_number_of_commitments(change: str) -> None:
    """A shard's C_h in the place of two of its commitments would be added to vk_x as well."""

    def moved(entry: ProofEntry) -> ProofEntry:
        points = split_points(entry.committed)
        changed = points[:-1] if change == "left out" else [*points, points[-1]]
        return replace(entry, committed=b"".join(changed), proof=bytes([1]) * 256)

    world = queried()
    honest = world.batch

    def batch(manifest: bytes, seqs: Sequence[int]) -> Any:
        made = honest(manifest, seqs)
        return replace(made, entries=tuple(moved(one) if one.seq == 3 else one for one in made.entries))

    world.batch = batch  # type: ignore[method-assign]
    refused(world, 8, f"a record over 1 shards has 1 proofs and {len(POINTS)} commitments each")


# --- lists -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lists", [1, 3])
def test_a_record_commits_to_a_list_of_every_shard(lists: int) -> None:
    world = queried(2)
    index = world.at(Record, 3)
    record = world.messages[index]
    assert isinstance(record, Record)
    batch = world.batch(world.digest, range(7))
    changed = replace(record, t_commits=(record.t_commits * 2)[:lists])
    entries = [replace(one, record_digest=changed.digest()) if one.seq == 3 else one for one in batch.entries]
    world.messages[index] = changed
    world.batch = lambda *_: replace(batch, entries=tuple(entries))  # type: ignore[method-assign]
    refused(world, 8, f"the record commits to {lists} lists, class 'decoys-tiny' has 2 of 2 shards")


def test_lists_of_another_shard() -> None:
    """The two lists of a record exchanged: the account's ids are not those, and no proof is for them."""
    world = CoinedWorld(2)
    world.commit()
    honest = world.record

    def crossed(signed: Any, c_y: bytes, t_commits: tuple[int, ...], **changes: Any) -> Record:
        return honest(signed, c_y, t_commits[::-1], **changes)

    world.record = crossed  # type: ignore[method-assign]
    world.queries()
    world.close()
    refused(world, 7, "not those that the record commits to", receipts=world.receipts())


# --- policies --------------------------------------------------------------------------------------------------------

WRONG: dict[str, tuple[dict[str, Any], str, str]] = {
    "another claim": (
        {"claim": EVERY_LIST, "hidden": 0, "gate": True},
        "FAIL",
        "bounds nothing under the claim every-list",
    ),
    "a window of scores": ({"hi": LO + 2}, "FAIL", "hi must be lo + 1"),
    "a gain": ({"gain": 2}, "FAIL", "compares scores as they are"),
    "more ids than room": ({"ids": DECOYS.room + 1}, "FAIL", f"over 1 shards has 1 to {DECOYS.room} ids"),
    "no ids": ({"ids": 0}, "FAIL", f"over 1 shards has 1 to {DECOYS.room} ids"),
    "no room in one shard": ({"ids": DECOYS.room + 1, "shards": 2}, "FAIL", "need room for"),
    "nothing matches": ({"lo": 1 << 20, "hi": (1 << 20) + 1}, "FAIL", "nothing would match"),
    "a table of another rate": ({"decoy_rate": RATE // 2}, "NO VERDICT", "table of draws is not the canonical"),
    "no draws": ({"decoy_rate": 0}, "NO VERDICT", "table of draws is not the canonical"),
    "no draws, and their table": (
        {"decoy_rate": 0, "table_digest": NO_DRAWS},
        "FAIL",
        "without decoys no return is bounded",
    ),
    "more draws than the class": ({"decoy_rate": 21 << 16}, "NO VERDICT", "are out of range"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_policy_that_its_class_cannot_carry(case: str) -> None:
    """A provider skips its own check."""
    changes, verdict, why = WRONG[case]
    world = CoinedWorld(changes.get("shards", 1))
    world.enter_manifest(policy_=replace(policy(), **changes))
    world.enter_beacon()
    world.close()
    if verdict != "FAIL":
        undecided(world, 2, why)
        return
    refused(world, 2, why)
    with without(Check(manifest, "check_policy")):
        assert why not in world.audit().line()


@pytest.mark.parametrize(
    ("changes", "verdict", "why"),
    [
        ({"ids": TINY.K + 1}, "FAIL", f"has {TINY.K} ids, not {TINY.K + 1}"),
        ({"decoy_rate": 1}, "NO VERDICT", "has noise and no decoys: decoy_rate must be 0"),
    ],
)
def test_a_policy_of_noise_has_neither_other_ids_nor_draws(changes: dict[str, Any], verdict: str, why: str) -> None:
    from tests.simulator import World
    from tests.simulator import policy as of_noise

    world = World()
    world.commit(policy_=of_noise(**changes))
    world.close()
    (refused if verdict == "FAIL" else undecided)(world, 2, why)


def test_noise_under_until_delivered_is_refused() -> None:
    """Attack: the claim that decoys hold, with noise; with the check removed only the accountant stands against it."""
    own = {"class_name": TINY.name, "table_digest": TINY.table.digest(), "ids": TINY.K, "decoy_rate": 0, "hi": 5600}
    world = CoinedWorld()
    world.enter_manifest(policy_=policy(**own, gain=30))
    world.enter_beacon()
    world.close()
    refused(world, 2, "has the law 'geometric-16', which bounds nothing under the claim until-delivered")
    refused(world, 2, "take a class of decoys for it")
    with without(Check(kernel_policy, "check_law")):
        assert "bounds nothing under" not in world.audit().line()


# --- a real provider with real proofs --------------------------------------------------------------------------------


def asked(made: Live, questions: int = 2) -> None:
    """A few answers of a window, closed."""
    with made.client() as client:
        for number in range(questions):
            client.ask(f"acme report number {number}")
    made.end_window()


def over_shards(folder: Path, shards: int, **options: Any) -> Any:
    texts = {"texts": lambda tenant: scene.documents(tenant, shards * 40)}
    return live(folder, coins=True, kind=scene.Kind(DECOYS, shards), **texts, **options)


@pytest.mark.parametrize("shards", [1, 2])
def test_an_honest_provider_passes(shards: int, tmp_path: Path) -> None:
    with over_shards(tmp_path, shards) as made:
        asked(made)
        verdict = made.audited()
        assert verdict.verdict == "PASS", verdict.line()
        made.restart()
        assert made.audited().verdict == "PASS"


def of_fewer_draws(honest: Asked) -> Asked:
    """As if a query drew a tenth as often: what was not asked for is rarer in lists than the return says."""
    return replace(honest, table=DECOYS.table(RATE // 10).rows(DECOYS.draws))


def of_fewer_ids(honest: Asked) -> Asked:
    return replace(honest, inputs=(honest.inputs[0], honest.inputs[1] - 1))


def of_lower_lo(honest: Asked) -> Asked:
    return replace(honest, inputs=(honest.inputs[0] // 2, honest.inputs[1]))


@pytest.mark.parametrize("lie", [of_fewer_draws, of_fewer_ids, of_lower_lo])
def test_a_provider_that_answers_by_another_policy(
    lie: Callable[[Asked], Asked], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its proofs hold, for the numbers that it used instead of its policy's."""

    class Other:
        def __init__(self, real: Engine) -> None:
            self._real = real

        def answer(self, noise: int, w: Scores, honest: Asked) -> tuple[Returned, ...]:
            return self._real.answer(noise, w, lie(honest))

        def hidden(self, noise: int, w: Scores, stated: Asked) -> Hidden:
            return self._real.hidden(noise, w, stated)

    def lying(*given: Any, **named: Any) -> Statement:
        honest = statement_of(*given, **named)
        return replace(honest, asked=lie(honest.asked))

    with over_shards(tmp_path, 1, engine=Other) as made:
        monkeypatch.setattr(statements, "statement_of", lying)
        asked(made)
        verdict = made.audited()
        assert verdict.failure is not None, verdict.line()
        assert (verdict.verdict, verdict.failure.number) == ("FAIL", 8)
        assert "the proof of record 0 does not hold" in verdict.failure.message
        with without(Check(proofs, "statement_of", lying)):
            assert made.audited().verdict == "PASS"

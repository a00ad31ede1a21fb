# SPDX-License-Identifier: GPL-3.0-or-later
"""Claims without decoys: answers that are not the best, coins left off, an exact window that passes for a private one.

Rows of the circuit at a rate of 0 are attacked one by one in tests/decoys/test_attacks_one_chunk.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragseal.backends.mechanism import Engine, Hidden, Scores
from ragseal.kernel.classes import Asked
from ragseal.kernel.commitment import Thinning, WindowClose
from ragseal.kernel.errors import AuditError, EncodingError, PolicyError
from ragseal.kernel.policy import EVERY_LIST, EXACT, UNSEEN, UNTIL_DELIVERED, Policy, check_policy
from ragseal.kernel.proofs import Statement, statement_of
from ragseal.kernel.statement import Returned
from ragseal.kernel.verdict import Claimed
from ragseal.prover.attestation import statements
from ragseal.prover.commitment.placement import IndexShape
from ragseal.prover.fsck.fsck import examine
from ragseal.verifier.cli import audit_command
from ragseal.verifier.report import document, page
from ragseal.verifier.steps import proofs
from tests.attacks import checks
from tests.attacks.checks import without
from tests.attacks.removal import Check, Removable, nothing
from tests.attacks.world import accepted, refused
from tests.classes import DECOYS, TINY
from tests.simulator import OPENS
from tests.simulator import provider as scene
from tests.simulator.coined import NO_DRAWS, RATE, CoinedWorld, of_claim, policy, queried, queried_of
from tests.simulator.live import Live, live
from tests.simulator.ticking import ticking

pytestmark = pytest.mark.slow

#: What the file of a policy of each claim says beside the scene's.
RUNGS: dict[str, dict[str, Any]] = {
    EXACT: {"claim": EXACT, "return": None, "k_max": 1, "delta": "none", "estimate": "report"},
    UNSEEN: {"claim": UNSEEN, "return": None, "unseen": 3, "delta": 0, "estimate": "report"},
}


# --- honest windows --------------------------------------------------------------------------------------------------


def test_an_honest_exact_window_passes_and_says_that_nothing_is_private() -> None:
    world = queried_of(EXACT)
    verdict = accepted(world, receipts=world.receipts())
    assert verdict.line().startswith("PASS claim=exact epsilon=none private=nothing mode=full keys=auditor records=7 ")
    assert verdict.tone == "mid"  # a green page would be read as a private one
    built = document.build(verdict)
    assert (built["epsilon_audit"], built["delta"], built["attacker_guess"]) == ("none", "none", None)
    shown = page.render(built)
    assert "PASS: exact answers, nothing is private" in shown
    assert not re.search(r"epsilon[^a-z.<]{0,3}[0-9]", shown)


def test_an_honest_unseen_window_passes_and_prints_no_epsilon() -> None:
    world = queried_of(UNSEEN)
    verdict = accepted(world, receipts=world.receipts())
    assert verdict.line().startswith(
        "PASS claim=unseen coalition=any queries=any unseen=1.45084 return=inf delta=0 period_from="
    )
    assert "epsilon" not in verdict.line()
    built = document.build(verdict)
    assert (built["epsilon_audit"], built["epsilon"]["return"]) == ("none", "inf")
    assert not [name for name in built["epsilon"] if name.startswith("epsilon")]


@pytest.mark.parametrize("claim", [EXACT, UNSEEN])
def test_a_list_is_the_best_of_what_is_not_hidden(claim: str) -> None:
    world = queried_of(claim)
    for (_, seq), kept in world.kept.items():
        y = np.array(world.tenants[kept.tenant].rows, dtype=np.int64) @ np.array(kept.e, dtype=np.int64)
        rules = world.manifest.policy
        best = sorted((i for i in range(len(y)) if y[i] > rules.lo), key=lambda i: (-y[i], i))[: rules.ids]
        returned = world.answers[seq].openings.slots
        assert sorted(best) == [one.slot for one in returned]
        assert all(one.flag for one in returned)


# --- 1. a list that is not the best ----------------------------------------------------------------------------------


def asked(made: Live, questions: int = 2) -> None:
    with made.client() as client:
        for number in range(questions):
            client.ask(f"acme report number {number}")
    made.end_window()


def without_the_best(w: Scores, lo: int) -> Scores:
    """The best document is taken for one that does not match."""
    scores = np.array(w, dtype=np.int64)
    scores[int(scores.argmax())] = lo
    return scores


def a_worse_one_first(w: Scores, lo: int) -> Scores:
    """The worst document is taken for the best."""
    scores = np.array(w, dtype=np.int64)
    worst = int(np.where(scores > 0, scores, scores.max()).argmin())
    scores[worst] = int(scores.max()) + 1
    return scores


def a_short_list(w: Scores, lo: int) -> Scores:
    """All but the best documents are taken for such that do not match."""
    scores = np.array(w, dtype=np.int64)
    return np.where(scores == scores.max(), scores, np.minimum(scores, lo))


@pytest.mark.parametrize("lie", [without_the_best, a_worse_one_first, a_short_list])
def test_an_exact_provider_that_returns_another_list_is_refused(
    lie: Callable[[Scores, int], Scores], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its proofs hold for other scores than those that its columns give."""

    class Other:
        def __init__(self, real: Engine) -> None:
            self._real = real

        def answer(self, noise: int, w: Scores, stated: Asked) -> tuple[Returned, ...]:
            return self._real.answer(noise, lie(w, stated.inputs[0]), stated)

        def hidden(self, noise: int, w: Scores, stated: Asked) -> Hidden:
            return self._real.hidden(noise, w, stated)

    real = statements.record_scores
    with live(tmp_path, kind=scene.ONE_DECOYS, engine=Other, **RUNGS[EXACT]) as made:
        lo = made.window.manifest.policy.lo
        monkeypatch.setattr(statements, "record_scores", lambda *given: lie(real(*given), lo))
        monkeypatch.setattr(statements.ShardProving, "check", nothing)  # its own, of proofs that it made
        asked(made)
        verdict = made.audited()
        assert verdict.failure is not None, verdict.line()
        assert (verdict.verdict, verdict.failure.number) == ("FAIL", 8)
        assert "the proof of record 0 does not hold" in verdict.failure.message
        with without(checks.PAIRING):
            assert made.audited().line().startswith("PASS claim=exact epsilon=none ")


def of_fewer_ids(honest: Asked) -> Asked:
    """Short lists, which a K of its own would allow."""
    return replace(honest, inputs=(honest.inputs[0], honest.inputs[1] - 1))


def of_higher_lo(honest: Asked) -> Asked:
    return replace(honest, inputs=(2 * honest.inputs[0], honest.inputs[1]))


def of_draws(honest: Asked) -> Asked:
    """Decoys in a list that is said to be exact."""
    return replace(honest, table=DECOYS.table(RATE).rows(DECOYS.draws))


@pytest.mark.parametrize("claim", RUNGS)
@pytest.mark.parametrize("lie", [of_fewer_ids, of_higher_lo, of_draws])
def test_a_provider_that_answers_by_another_policy(
    lie: Callable[[Asked], Asked], claim: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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

    with live(tmp_path, coins=claim == UNSEEN, kind=scene.ONE_DECOYS, engine=Other, **RUNGS[claim]) as made:
        monkeypatch.setattr(statements, "statement_of", lying)
        asked(made)
        verdict = made.audited()
        assert verdict.failure is not None, verdict.line()
        assert (verdict.verdict, verdict.failure.number) == ("FAIL", 8)
        assert "the proof of record 0 does not hold" in verdict.failure.message
        with without(Check(proofs, "statement_of", lying)):
            assert made.audited().verdict == "PASS"


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("claim", RUNGS)
def test_an_honest_provider_passes(claim: str, shards: int, tmp_path: Path) -> None:
    with live(tmp_path, coins=claim == UNSEEN, kind=scene.Kind(DECOYS, shards), **RUNGS[claim]) as made:
        asked(made)
        assert made.audited().line().startswith(f"PASS claim={claim} ")
        made.restart()
        assert made.audited().line().startswith(f"PASS claim={claim} ")


@pytest.mark.parametrize("claim", RUNGS)
def test_lists_of_a_live_index_are_those_of_its_newest_version(
    claim: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scene, "SHAPE", IndexShape(DECOYS.N, scene.DIMENSION))
    text = "acme keeps zebras"
    with ticking(tmp_path, coins=claim == UNSEEN, kind=scene.ONE_DECOYS, **RUNGS[claim]) as made:
        with made.client() as client:
            assert "zebras" not in [one.id for one in client.ask(text).opened]
        made.put(("zebras", text))
        made.tick()
        with made.client() as client:
            found = client.ask(text)
        if claim == EXACT:
            assert found.best is not None
            assert found.best.id == "zebras"
        made.delete("zebras")
        made.tick()
        with made.client() as client:
            assert "zebras" not in [one.id for one in client.ask(text).opened]
        made.end_window()
        assert made.audited().line().startswith(f"PASS claim={claim} ")


# --- 2. an exact window that passes for a private one ----------------------------------------------------------------


def test_an_exact_window_has_no_coins_and_is_not_thinned() -> None:
    private = CoinedWorld()
    private.commit()
    entry = private.messages[private.at(Thinning)]
    assert isinstance(entry, Thinning)
    world = queried_of(EXACT)
    at = len(world.messages) - 9
    world.messages.insert(at, replace(entry, manifest=world.digest))
    refused(world, 5, "although the claim exact has no coin")
    with without(checks.EXACT_IS_NOT_THINNED):
        accepted(world)


def test_an_exact_window_has_no_noise() -> None:
    rules = of_claim(EXACT, class_name=TINY.name, table_digest=TINY.tables(0)[0].digest(), ids=TINY.K)
    with pytest.raises(
        PolicyError,
        match="'geometric-16', which bounds nothing under the claim exact",
    ):
        check_policy(rules, TINY, rules.class_digest)


def test_a_policy_that_names_a_return_and_draws_nothing_is_refused() -> None:
    """Attack 3: a table of draws with no draw in it."""
    world = CoinedWorld()
    world.commit(policy_=replace(policy(), decoy_rate=0, table_digest=NO_DRAWS))
    world.queries()
    world.close()
    refused(world, 2, "without decoys no return is bounded, so the claim until-delivered cannot be made")
    with without(checks.DRAWS):
        refused(world, 11, "no finite return follows")  # step 11 computes it: some set is never drawn
        with without(checks.EPSILON_FINITE):
            refused(world, 11, "its coin gives inf")


@pytest.mark.parametrize(
    ("claim", "changes", "why"),
    [
        (EXACT, {"delta": "1/1000000"}, "delta must be none"),
        (EXACT, {"delta": "0"}, "delta must be none, not 0"),
        (EXACT, {"epsilon_account": "3"}, "epsilon_account must be none"),
        (EXACT, {"k_max": 2}, "k_max must be 1"),
        (EXACT, {"gate": True}, "gate must be False"),
        (EXACT, {"chunks_max": 2}, "chunks_max must be 1"),
        (EXACT, {"decoy_rate": RATE}, "decoy_rate must be 0"),
        (EXACT, {"hidden": 13}, "the claim exact has no coin"),
        (EXACT, {"period_start": 60}, "period_start must be"),
        (EXACT, {"guard": "returned", "guard_rho": "1/20", "guard_formula": "precise"}, "guard must be off"),
        (UNSEEN, {"delta": "1/1000000"}, "delta must be 0"),
        (UNSEEN, {"decoy_rate": RATE}, "decoy_rate must be 0"),
        (UNSEEN, {"hidden": 0}, "the claim unseen needs a coin"),
    ],
)
def test_what_means_nothing_has_one_value(claim: str, changes: dict[str, Any], why: str) -> None:
    rules = of_claim(claim, **changes)
    with pytest.raises(PolicyError, match=why):
        rules.validate()
    with pytest.raises(AuditError, match=why):
        Policy.decode(rules.encode())
    if "coin" not in why:
        with without(checks.PLAIN_POLICY):
            Policy.decode(rules.encode())


NUMBERS: dict[str, dict[str, Any]] = {
    "an epsilon": {"epsilon": "0"},
    "a small epsilon": {"epsilon": "0.5"},
    "a delta": {"delta": "0"},
    "a coalition": {"coalition": "any"},
    "queries": {"queries": "any"},
    "a return": {"returned": "0"},
    "a period": {"period_from": 60},
    "windows left out": {"left_out": 1, "epsilon_log": "3"},
    "another word": {"word": ("late",)},
}
NOTHING = Claimed(EXACT, "none", "", "none", "none", "none", 0, 0, "", ())
ONLY_UNSEEN = Claimed(UNSEEN, "3", "inf", "0", "any", "any", 60, 0, "", ())


@pytest.mark.parametrize("name", NUMBERS)
def test_a_verdict_of_exact_has_no_number(name: str) -> None:
    assert Claimed.decode(NOTHING.encode()) == NOTHING
    with pytest.raises(EncodingError, match="it has no number, and says none"):
        replace(NOTHING, **NUMBERS[name]).validate()
    with without(checks.NO_NUMBER):
        replace(NOTHING, **NUMBERS[name]).validate()


@pytest.mark.parametrize("changes", [{"returned": "6"}, {"returned": ""}, {"delta": "1e-06"}])
def test_a_verdict_of_unseen_has_no_return_and_no_delta(changes: dict[str, Any]) -> None:
    assert Claimed.decode(ONLY_UNSEEN.encode()) == ONLY_UNSEEN
    with pytest.raises(EncodingError, match="bounds no return, and nothing of it takes a delta"):
        replace(ONLY_UNSEEN, **changes).validate()
    with without(checks.NO_RETURN):
        replace(ONLY_UNSEEN, **changes).validate()


@pytest.mark.parametrize(
    ("claim", "why", "check"),
    [
        (EXACT, "have no coin, so nothing bounds what absence tells", None),
        (UNSEEN, "mixes the claims unseen and until-delivered", checks.MIXED_CLAIMS),
    ],
)
def test_a_window_without_decoys_ends_a_private_period(claim: str, why: str, check: Removable | None) -> None:
    world = queried_of(claim)
    world.messages[-1] = replace(world.messages[-1], time=OPENS + 600)  # type: ignore[type-var]
    start = OPENS + 3600
    world.commit("w2", policy_=policy(opens=start, closes=start + 3600))
    world.messages[-1] = replace(world.messages[-1], time=start)  # type: ignore[type-var]
    world.messages.append(WindowClose(world.digest, 0, start + 600))
    refused(world, 11, why, window="w2", now=start + 7200)
    if check is not None:
        with without(check):  # then step 11 computes that no return is bounded
            refused(world, 11, "no finite return follows", window="w2", now=start + 7200)


def test_a_later_period_says_that_an_exact_window_is_not_counted() -> None:
    world = queried_of(EXACT)
    world.messages[-1] = replace(world.messages[-1], time=OPENS + 600)  # type: ignore[type-var]
    start = OPENS + 3600
    world.commit("w2", policy_=policy(opens=start, closes=start + 3600, period_start=start))
    world.messages[-1] = replace(world.messages[-1], time=start)  # type: ignore[type-var]
    world.messages.append(WindowClose(world.digest, 0, start + 600))
    verdict = accepted(world, window="w2", now=start + 7200)
    assert " left_out=1 epsilon_log=inf " in verdict.line()
    assert verdict.tone == "mid"


def test_an_exact_verdict_counts_no_other_window() -> None:
    world = CoinedWorld()
    world.commit("w1")
    world.messages[-1] = replace(world.messages[-1], time=OPENS)  # type: ignore[type-var]
    world.messages.append(WindowClose(world.digest, 0, OPENS + 600))
    start = OPENS + 3600
    world.commit("w2", policy_=of_claim(EXACT, opens=start, closes=start + 3600, period_start=start))
    world.messages[-1] = replace(world.messages[-1], time=start)  # type: ignore[type-var]
    world.messages.append(WindowClose(world.digest, 0, start + 600))
    verdict = accepted(world, window="w2", now=start + 7200)
    assert verdict.line().startswith("PASS claim=exact epsilon=none private=nothing mode=full keys=auditor records=0 ")
    assert not verdict.neighbours


# --- 4. coins that are off -------------------------------------------------------------------------------------------


def coins_off(world: CoinedWorld) -> None:
    """One tenant's documents are as good as all there; the rest of the window is thinned."""
    tenant, file = world.thinned_index("north", hidden=1)
    world.tenants["north"], world.thinned[world.digest, "north"] = tenant, file
    entries = world.messages[world.at(Thinning)]
    assert isinstance(entries, Thinning)
    world.put_thinning(*(file.entry("north") if one.tenant == "north" else one for one in entries.tenants))


def test_coins_are_off_in_one_tenant() -> None:
    world = CoinedWorld()
    world.commit(policy_=of_claim(UNSEEN))
    coins_off(world)
    world.queries()
    world.close()
    refused(world, 4, "thinning")
    with without(checks.THINNED_COLUMNS):
        accepted(world)


def test_a_window_of_unseen_without_a_coin_is_no_manifest() -> None:
    world = queried_of(UNSEEN)
    bare = replace(world.manifest, coins=())
    with pytest.raises(AuditError, match="the claim unseen needs a commitment to coins"):
        bare.validate()


@pytest.mark.parametrize("claim", [EXACT, UNSEEN])
def test_a_pass_without_an_epsilon_is_enough_only_for_who_names_it(claim: str) -> None:
    """A provider chooses the claim of every window, and a script may look at nothing but the exit status."""
    verdict = accepted(queried_of(claim))
    assert audit_command.status_of(verdict, False, "") == 0
    for most, named in ((None, None), (1e9, None), (1e9, claim), (None, UNTIL_DELIVERED)):
        said = audit_command.not_enough(verdict, most, False, named)
        assert audit_command.status_of(verdict, False, said) == audit_command.EXIT_NOT_ENOUGH
        assert ("nothing is private" in said) == (claim == EXACT and named != UNTIL_DELIVERED)
    assert audit_command.not_enough(verdict, None, False, claim) == ""
    with without(checks.CLAIM_BY_NAME):
        assert audit_command.not_enough(verdict, None, False) == ""
    private = accepted(queried())
    assert audit_command.not_enough(private, None, False) == ""
    assert audit_command.not_enough(private, None, False, UNTIL_DELIVERED) == ""
    assert "--claim asks for exact" in audit_command.not_enough(private, None, False, EXACT)


def test_reports_of_exact_have_no_number_that_a_program_takes_for_one() -> None:
    """``none`` is greater than every number for jq, and no number for Python: a gate on epsilon stays shut."""
    built: dict[str, Any] = json.loads(document.to_json(document.build(accepted(queried_of(EXACT)))))
    with pytest.raises(TypeError):
        assert built["epsilon_audit"] <= 4
    assert EVERY_LIST not in json.dumps(built)


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("claim", RUNGS)
def test_a_folder_of_such_windows_is_whole(claim: str, shards: int, tmp_path: Path) -> None:
    """Every answer is computed again, and every proof checked."""
    with live(tmp_path, coins=claim == UNSEEN, kind=scene.Kind(DECOYS, shards), **RUNGS[claim]) as made:
        asked(made)
        assert made.audited().verdict == "PASS"
        found = examine(made.provider, True)
    assert not found.findings, found.findings
    assert found.checked["records"] == 2

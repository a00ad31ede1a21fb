# SPDX-License-Identifier: GPL-3.0-or-later
"""Policies without decoys: what a file may say, what `policy` and `plan` print, what `commit` and `status` say."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ragseal.accounting.claims import planned
from ragseal.circuits.circuit import class_digest, load_classes
from ragseal.kernel.claims import form_of
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.policy import EXACT, UNSEEN, UNTIL_DELIVERED, Policy, check_policy
from ragseal.prover.__main__ import main
from ragseal.prover.administration.status import status
from ragseal.prover.commitment.policy_file import Binding, read_policy
from ragseal.prover.planning import rungs
from ragseal.prover.planning.public_score_ranges import PUBLIC_WINDOWS
from ragseal.prover.provider import assembly
from ragseal.prover.serving import committing
from tests.classes import DECOYS, TINY
from tests.simulator import provider as scene

CLAIMS = [EXACT, UNSEEN]
OWN: dict[str, dict[str, Any]] = {EXACT: {}, UNSEEN: {"unseen": 3, "k_max": 2}}


def binding(cls: Any = DECOYS, start: int | None = None) -> Binding:
    return Binding(cls, class_digest(cls), 384, 1_800_000_030, start)


def read(claim: str, bound: Binding | None = None, **changes: Any) -> Policy:
    values = {"claim": claim, "lo": 0.3, "n_max": 6, **OWN[claim], **changes}
    return read_policy(values, bound or binding(), assembly.advertised_epsilon)


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_file_says_what_means_something_and_the_rest_follows(claim: str) -> None:
    found = read(claim)
    assert (found.ids, found.decoy_rate, found.hi, found.gain) == (10, 0, found.lo + 1, 1)
    assert found.table_digest == DECOYS.table(0).digest()
    assert read(claim, ids=24).ids == 24
    check_policy(found, DECOYS, class_digest(DECOYS))
    with pytest.raises(PolicyError, match="has 1 to 24 ids, not 25"):
        check_policy(read(claim, ids=25), DECOYS, class_digest(DECOYS))


def test_of_exact_nothing_has_a_number() -> None:
    found = read(EXACT)
    assert (found.delta, found.epsilon_account, found.k_max, found.gate, found.hidden) == ("none", "none", 1, False, 0)
    assert found.period_start == found.opens
    assert read(EXACT, binding(start=1_700_000_000)).period_start == found.opens, "no period of another window goes on"
    assert read(UNSEEN, binding(start=1_700_000_000)).period_start == 1_700_000_000


def test_of_unseen_the_coin_is_advertised_and_nothing_takes_a_delta() -> None:
    found = read(UNSEEN)
    assert (found.delta, found.hidden, found.epsilon_account) == ("0", 13, "2980229/1000000")
    with pytest.raises(PolicyError, match=r"is less than 2\.98023, which is unseen"):
        assembly.check_promises(read(UNSEEN, epsilon_account="2"), DECOYS)


@pytest.mark.parametrize("claim", CLAIMS)
@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"return": 6}, "has no decoys, so it bounds no return: leave return out, or name the claim until-delivered"),
        ({"delta": "1/1000000"}, "delta must be"),
        ({"hi": 0.7}, "leave out hi"),
        ({"gain": 7}, "leave out gain"),
        ({"ids": 0}, "1 to 24 ids, not 0"),
    ],
)
def test_what_a_file_of_both_cannot_say(claim: str, changes: dict[str, Any], why: str) -> None:
    with pytest.raises(PolicyError, match=why):
        check_policy(read(claim, **changes), DECOYS, class_digest(DECOYS))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"unseen": 3}, "unseen is of the claims until-delivered and unseen"),
        ({"k_max": 2}, "k_max must be 1, not 2"),
        ({"estimate": "gate"}, "gate must be False"),
        ({"epsilon_account": "3"}, "epsilon_account must be none, not 3"),
        ({"chunks_max": 2}, "chunks_max must be 1"),
        ({"period_start": 60}, "period_start must be"),
        ({"guard": "returned"}, "guard must be off"),
    ],
)
def test_what_a_file_of_exact_cannot_say(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(PolicyError, match=why):
        read(EXACT, **changes)


def test_a_return_without_draws_is_no_policy() -> None:
    """Of until-delivered a file names the return, and draws follow; none follow from no return."""
    with pytest.raises(PolicyError, match="return is missing"):
        read_policy(
            {"claim": UNTIL_DELIVERED, "unseen": 3, "lo": 0.3, "n_max": 6, "k_max": 2, "delta": "1/1000"},
            binding(), assembly.advertised_epsilon,
        )  # fmt: skip


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_class_with_noise_has_none_of_it(claim: str) -> None:
    with pytest.raises(
        PolicyError,
        match=f"'geometric-16', which bounds nothing under the claim {claim}",
    ):
        read(claim, binding(TINY), hi=0.7, gain=2)


@pytest.mark.parametrize("name", ["decoys-4k", "decoys-8k", "decoys-16k"])
@pytest.mark.parametrize("public", [None, next(iter(PUBLIC_WINDOWS.values()))], ids=["no window", "a public one"])
@pytest.mark.parametrize("claim", CLAIMS)
def test_the_default_can_be_committed_to(claim: str, public: Any, name: str) -> None:
    cls = load_classes()[name]
    text = rungs.policy_text(claim, cls, 3.0, public)
    assert "epsilon =" not in text
    assert ("NOTHING IS PRIVATE" in text) == (not form_of(claim).private)
    made = read_policy(tomllib.loads(text), binding(cls), assembly.advertised_epsilon)
    assembly.check_promises(made, cls)
    assert made.claim == claim


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_plan_says_what_a_claim_gives_and_takes_no_target(claim: str) -> None:
    run = CliRunner().invoke(main, ["plan", "--claim", claim])
    assert run.exit_code == 0, run.output
    assert ("NOTHING IS PRIVATE" in run.output) == (claim == EXACT)
    assert ("return is not bounded" in run.output) == (claim == UNSEEN)
    values = json.loads(CliRunner().invoke(main, ["plan", "--claim", claim, "--json"]).output)
    assert values["claim"] == claim
    assert "epsilon" not in values
    for target in ("--epsilon", "--return"):
        refused = CliRunner().invoke(main, ["plan", "--claim", claim, target, "3"])
        assert refused.exit_code == 2, refused.output


@pytest.mark.slow
@pytest.mark.parametrize("claim", CLAIMS)
def test_commit_and_status_say_what_is_private(claim: str, tmp_path: Path) -> None:
    file = f'claim = "{claim}"\nlo = 0.2\nids = 5\nn_max = 6\n'
    file += "unseen = 3\nk_max = 2\n" if claim == UNSEEN else ""
    state = scene.new_state(tmp_path / "p", kind=scene.ONE_DECOYS)
    provider = scene.open_provider(tmp_path / "p", state=state, coins=claim == UNSEEN, kind=scene.ONE_DECOYS)
    try:
        told = committing.commit(provider, file.encode(), "w1", None)
        if claim == EXACT:
            assert (told.values["epsilon"], told.values["private"]) == ("none", "nothing")
            assert told.text.count("Nothing is private here") == 1
        else:
            assert told.values["return"] == "inf"
            assert "return is not bounded, and no epsilon is printed" in told.text
        said = status(provider).text
    finally:
        provider.close()
    assert ("Nothing is private here" in said) == (claim == EXACT)


def test_a_plan_of_until_delivered_says_what_the_others_give() -> None:
    said = " ".join(planned(UNTIL_DELIVERED).reasons())
    assert "no return is bounded (--claim unseen)" in said
    assert "nothing is private (--claim exact)" in said

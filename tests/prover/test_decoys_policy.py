# SPDX-License-Identifier: GPL-3.0-or-later
"""Policies of a class of decoys: what a file may say, what `policy` prints, how often a document comes back."""

from __future__ import annotations

import math
import random
import tomllib
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ragseal.accounting.decoys_curve import ids_needed
from ragseal.accounting.delivered_decoys import Lists, by_chance, certified_return, rate_of_return
from ragseal.circuits.circuit import class_digest, load_classes
from ragseal.kernel.decoys.law import choose
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.policy import Policy, check_policy
from ragseal.prover.__main__ import main
from ragseal.prover.commitment.policy_file import Binding, read_policy
from ragseal.prover.planning import consent
from ragseal.prover.planning.budgets import Budget, Terms, cost
from ragseal.prover.planning.chance import at, comes_back
from ragseal.prover.planning.defaults import BUDGET, default_policy, policy_text
from ragseal.prover.planning.laws import planned_law
from ragseal.prover.planning.public_score_ranges import PUBLIC_WINDOWS
from ragseal.prover.provider import assembly
from tests.classes import DECOYS as TINY

CLASSES = load_classes()
PUBLIC = next(iter(PUBLIC_WINDOWS.values()))
DIMENSION = 384
FOUR = CLASSES["decoys-4k"]


def binding(name: str = "decoys-tiny", shards: int = 1) -> Binding:
    cls = CLASSES[name]
    return Binding(cls, class_digest(cls), DIMENSION, 1_800_000_000, shards=shards)


def read(name: str = "decoys-tiny", shards: int = 1, **changes: Any) -> Policy:
    values = {"lo": 0.3, "n_max": 6, "k_max": 2, "delta": "1/1000000"}
    of_noise = {"claim": "every-list", "hi": 0.6, "gain": 100}
    own = of_noise if CLASSES[name].scaled else {"claim": "until-delivered", "unseen": 3, "return": 6}
    return read_policy({**values, **own, **changes}, binding(name, shards), assembly.advertised_epsilon)


def test_a_policy_names_its_return_and_the_rest_follows() -> None:
    for shards in (1, 3):
        found = read(shards=shards)
        assert found.ids == ids_needed(shards * TINY.N, 6.0, found.hidden, 10)
        assert found.decoy_rate == rate_of_return(TINY.N, found.ids, shards, found.hidden, 6)
        assert (found.hi, found.gain) == (found.lo + 1, 1)
        check_policy(found, TINY, class_digest(TINY))
    assert read(ids=12).ids == 12
    few, many = read(**{"return": 5}), read(**{"return": 7})
    assert few.decoy_rate > many.decoy_rate
    assert few.epsilon_account == many.epsilon_account, "epsilon is unseen, which no number of decoys changes"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"return": 0.5}, "return is a number from 1 to 30"),
        ({"return": "6"}, "return is a number from 1 to 30"),
        ({"gain": 2}, "leave out gain"),
        ({"hi": 0.9}, "leave out hi"),
        ({"return": None}, "return is missing"),
        ({"claim": "every-list", "unseen": None, "estimate": "gate"}, "bounds nothing under the claim every-list"),
    ],
)
def test_what_a_policy_of_decoys_cannot_say(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(PolicyError, match=why):
        check_policy(read(**changes), TINY, class_digest(TINY))


@pytest.mark.parametrize("key", ["return", "ids"])
def test_a_class_with_noise_has_none_of_it(key: str) -> None:
    with pytest.raises(PolicyError, match=f"leave out .*{key}"):
        read("noise-tiny-two", **{key: 6})


def test_an_advertised_epsilon_is_held_against_unseen_and_not_against_the_return() -> None:
    policy = read(epsilon_account="3")
    assert certified_return(Lists(TINY.N, policy.ids, policy.decoy_rate), policy.hidden, 1) > 5.99
    assembly.check_promises(policy, TINY)
    with pytest.raises(PolicyError, match=r"which is unseen 2\.98023"):
        assembly.check_promises(read(epsilon_account="2.9"), TINY)


def test_a_delta_that_leaves_nothing_is_refused_with_a_way_out() -> None:
    with pytest.raises(PolicyError, match="use fewer queries, or a larger delta"):
        assembly.check_promises(read(n_max=10**9, delta="1/1000000000000000000"), TINY)


@pytest.mark.parametrize("name", ["decoys-tiny", "decoys-4k", "decoys-8k", "decoys-16k"])
@pytest.mark.parametrize("public", [PUBLIC, None])
def test_the_default_can_be_committed_to(name: str, public: Any) -> None:
    cls = CLASSES[name]
    made = default_policy(cls, DIMENSION, public)
    assert 5.999 < made.delivered.returned <= 6
    text = policy_text(cls, DIMENSION, "some", public)
    values = tomllib.loads(text)
    assert values["return"] == 6
    assert "gain" not in values
    assert "hi" not in values
    policy = read_policy(values, binding(name), assembly.advertised_epsilon)
    assembly.check_promises(policy, cls)
    assert (policy.ids, policy.decoy_rate) == (made.chosen.ids, made.chosen.decoy_rate)
    said = consent.terms(policy, cls, {"epsilon": made.delivered.epsilon})
    (share,) = said["comes_back"]
    assert share["share"] == pytest.approx(made.shares[0])
    assert made.shares[0] > 0.94
    comments = " ".join(line[2:] for line in text.splitlines() if line.startswith("# "))
    assert f"comes back in {made.shares[0]:.0%} of all queries" in comments
    assert max(map(len, text.splitlines())) <= 180


@pytest.mark.parametrize("shards", [1, 4])
def test_the_command_prints_for_the_shards_of_the_folder(tmp_path: Path, shards: int) -> None:
    """Every shard draws its own decoys: with the ids of one shard, lists over several would be decoys alone."""
    folder = str(tmp_path / "provider")
    made = ["init", "--origin", "example.org/rag", "--class", "decoys-4k", "--shards", str(shards), "--state", folder]
    assert CliRunner().invoke(main, made).exit_code == 0
    printed = CliRunner().invoke(main, ["policy", "--state", folder])
    assert printed.exit_code == 0, printed.output
    policy = read_policy(tomllib.loads(printed.stdout), binding("decoys-4k", shards), assembly.advertised_epsilon)
    assembly.check_promises(policy, FOUR)
    share = at(policy, FOUR, policy.lo + 1)
    assert share > 0.949
    assert f"comes back in {share:.0%} of all queries" in printed.stdout
    assert f"\n# ids = {policy.ids} " in printed.stdout
    grown = read_policy(tomllib.loads(printed.stdout), binding("decoys-4k", 16), assembly.advertised_epsilon)
    assert at(grown, FOUR, grown.lo + 1) > 0.949, "an index grows by itself, and its lists with it"


def test_commit_says_what_decoys_take_of_a_list() -> None:
    """By another sum of the binomial law."""
    policy = read("decoys-4k", ids=42)
    said = consent.terms(policy, FOUR, {"epsilon": 1.0})
    p = 1 - math.exp(-policy.decoy_rate / (1 << 16) / 4096)
    law = [math.comb(4096, k) * p**k * (1 - p) ** (4096 - k) for k in range(43)]
    assert said["decoys"]["mean"] == pytest.approx(4096 * p, rel=1e-9)
    assert said["decoys"]["results_mean"] == pytest.approx(sum((42 - k) * one for k, one in enumerate(law)), rel=1e-9)
    assert said["decoys"]["results_least"] == 42 - said["decoys"]["most"] == 14
    (line,) = [one for one in consent.lines(said, policy, FOUR) if "decoys" in one]
    assert line == by_chance(Lists(4096, 42, policy.decoy_rate)).in_words()


def test_scores_have_no_part_in_a_return_and_no_class_an_epsilon_of_every_list() -> None:
    rate = rate_of_return(TINY.N, 12, 1, BUDGET.hidden, 3.0)
    one, two = (cost(TINY, Terms(lo, lo + 1, 1, 12, rate), BUDGET) for lo in (0, 9000))
    assert one == two
    assert 2.99 < one.bound <= 3
    assert math.isinf(cost(TINY, Terms(0, 1, 1, 12, rate), Budget(25, 2, Fraction(1, 10**6))).epsilon)


def test_what_asks_for_noise_gets_no_decoys() -> None:
    with pytest.raises(PolicyError, match="has no noise"):
        comes_back(TINY, 100)


@pytest.mark.parametrize("ids", [1, 4])
@pytest.mark.parametrize("y", [4000, 4001])
def test_how_often_a_document_comes_back_is_what_the_mechanism_does(ids: int, y: int) -> None:
    """One document in the middle of 60 slots; at lo it does not match and comes as a decoy alone."""
    rate, draws, rng = 1 << 16, 20_000, random.Random(10 * ids + y)
    policy, table = replace(read(ids=ids), lo=4000, hi=4001, decoy_rate=rate), TINY.table(rate)
    scores, hits = [0] * TINY.N, 0
    scores[30] = y
    for _ in range(draws):
        number = table.number(rng.randrange(1 << table.bits))
        drawn = {one for one in (rng.randrange(1 << table.L) for _ in range(number)) if one < TINY.N}
        hits += 30 in drawn or (0, 30) in choose([sorted(drawn)], [scores], 4000, ids)
    expected = planned_law(TINY).comes_back(policy, y)
    assert hits / draws == pytest.approx(expected, abs=4.5 * math.sqrt(max(expected * (1 - expected), 1e-3) / draws))
    assert at(policy, TINY, y) == pytest.approx((1 - policy.hidden / 256) * expected)

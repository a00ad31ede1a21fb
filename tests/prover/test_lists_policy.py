# SPDX-License-Identifier: GPL-3.0-or-later
"""The paper's claim from its first policy on: what `policy --claim every-list` prints, and the operating point."""

from __future__ import annotations

import re
import tomllib
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ragseal.accounting.closed_forms import joint_epsilon
from ragseal.circuits.circuit import class_digest, load_classes
from ragseal.kernel.errors import ConfigurationError, PolicyError
from ragseal.kernel.noise_class import with_noise
from ragseal.prover.__main__ import main
from ragseal.prover.commitment.policy_file import Binding, read_policy
from ragseal.prover.planning.budgets import Budget, cost
from ragseal.prover.planning.candidates import Window
from ragseal.prover.planning.chance import at
from ragseal.prover.planning.lists import EPSILON, lists_policy, policy_text
from ragseal.prover.planning.public_score_ranges import PUBLIC_WINDOWS
from ragseal.prover.planning.spending import spending
from ragseal.prover.provider import assembly
from ragseal.prover.storage.state import Settings
from tests.attacks.test_noise_window import window
from tests.attacks.world import accepted
from tests.classes import DECOYS, GAUSSIAN, TINY

pytestmark = pytest.mark.slow

CLASSES = load_classes()
PUBLIC = next(iter(PUBLIC_WINDOWS.values()))
NOW = 1_800_000_000


@pytest.mark.parametrize("name", [TINY.name, GAUSSIAN.name])
@pytest.mark.parametrize("public", [PUBLIC, None])
@pytest.mark.parametrize("shards", [1, 3])
def test_the_printed_policy_costs_what_it_says(name: str, public: Any, shards: int) -> None:
    cls = CLASSES[name]
    text = policy_text(cls, 384, "minilm", public, shards)
    binding = Binding(cls, class_digest(cls), 384, NOW, shards=shards)
    policy = read_policy(tomllib.loads(text), binding, assembly.advertised_epsilon)
    assembly.check_promises(policy, cls)
    foreseen = spending([], lambda one: CLASSES[one], policy)
    assert foreseen["epsilon"] <= EPSILON
    said = re.search(r"epsilon ([\d.]+) at delta 1/1000000, for 2\s+#? ?accounts", text)
    assert said is not None, text
    assert float(said[1]) == pytest.approx(foreseen["epsilon"], rel=1e-5)
    assert float(said[1]) >= foreseen["epsilon"]
    shares = [at(policy, cls, y) for y in (policy.hi, (policy.lo + policy.hi) // 2)]
    for share in shares:
        assert f"in {-(-share * 1000 // 1) / 10:g} %" in " ".join(text.replace("#", " ").split())
    assert f"of {shards * cls.N:,} slots" in " ".join(text.replace("#", " ").split())


def test_the_command_prints_for_the_shards_of_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "provider"
    made = ["init", "--origin", "example.org/rag", "--class", TINY.name, "--shards", "3", "--state", str(folder)]
    assert CliRunner().invoke(main, made).exit_code == 0
    printed = CliRunner().invoke(main, ["policy", "--claim", "every-list", "--state", str(folder)])
    assert printed.exit_code == 0, printed.output
    assert f"of {3 * TINY.N:,} slots" in " ".join(printed.stdout.replace("#", " ").split())


def test_a_little_more_gain_costs_more_than_is_allowed() -> None:
    cls, budget = with_noise(GAUSSIAN), Budget(25, 2, Fraction(1, 10**6))
    made = lists_policy(cls, 384, Window.of(0.3, 0.5), budget)
    width = made.chosen.window.hi - made.chosen.window.lo
    more = cls.widest(round(cls.window_of(made.chosen.gain * width) * 2 ** (1 / 8)) + 1) // width
    terms = made.chosen.terms
    assert made.cost.epsilon <= EPSILON < cost(cls, type(terms)(**{**_fields(terms), "gain": more}), budget).epsilon


def _fields(terms: Any) -> dict[str, Any]:
    return {name: getattr(terms, name) for name in terms.__slots__}


def test_no_gain_is_invented_where_none_is_small_enough() -> None:
    with pytest.raises(ConfigurationError, match="ask fewer queries, or use fewer accounts"):
        lists_policy(with_noise(TINY), 384, Window.of(0, 1), Budget(10**6, 50, Fraction(1, 10**6)))


def test_a_class_of_decoys_has_no_lists_to_bound() -> None:
    with pytest.raises(PolicyError, match="take a class with noise"):
        policy_text(DECOYS, 384, "minilm", PUBLIC)


def test_a_provider_gets_class_and_policy_from_the_claim(tmp_path: Path) -> None:
    def run(*arguments: str) -> Any:
        return CliRunner().invoke(main, [*arguments, "--state", str(tmp_path / "p")])

    for documents, cls, shards in (("4000", "noise-small-gaussian-50", 1), ("5183", "noise-large-gaussian-50", 1)):
        assert run("init", "--origin", "e.org/l", "--claim", "every-list", "--documents", documents).exit_code == 0
        made = Settings.load(tmp_path / "p" / "provider.toml")
        assert (made.class_name, made.shards) == (cls, shards)
        for file in sorted((tmp_path / "p").rglob("*"), reverse=True):
            file.unlink() if file.is_file() else file.rmdir()
        (tmp_path / "p").rmdir()
    refused = run("init", "--origin", "e.org/l", "--claim", "every-list", "--class", TINY.name)
    assert refused.exit_code == 1
    assert "--documents and --claim" in str(refused.exception) + refused.output
    assert run("init", "--origin", "e.org/l", "--class", TINY.name).exit_code == 0
    printed = run("policy", "--claim", "every-list")
    assert printed.exit_code == 0, printed.output
    assert tomllib.loads(printed.stdout)["claim"] == "every-list"


@pytest.mark.parametrize("k_max", [1, 10, 50])
def test_the_papers_operating_point_is_proven_and_audited(k_max: int) -> None:
    """Epsilon 1 for an account's 10^4 queries at delta 10^-6 over the whole range of scores: one level is left."""
    world = window(name=GAUSSIAN.name, lo=0, hi=127**2, gain=1, n_max=10_000, k_max=k_max, epsilon_account="1")
    verdict = accepted(world, receipts=world.receipts())
    found = re.search(r"epsilon_audit=([\d.]+) claim=every-list coalition=(\d+) queries=10000 ", verdict.line())
    assert found is not None, verdict.line()
    assert int(found[2]) == k_max
    assert 0 < float(found[1]) < joint_epsilon(1, k_max)

# SPDX-License-Identifier: GPL-3.0-or-later
"""ragseal-provider plan --claim answers: the auditor's own epsilon, and a policy that `commit` takes."""

from __future__ import annotations

import json
import tomllib
from fractions import Fraction
from functools import cache
from typing import Any

import pytest
from click.testing import CliRunner

from ragseal.accounting.answers import answers_period
from ragseal.accounting.spent import Spent
from ragseal.circuits.circuit import class_digest, load_classes
from ragseal.kernel.errors import ConfigurationError
from ragseal.prover.__main__ import main
from ragseal.prover.commitment.policy_file import Binding, read_policy
from ragseal.prover.planning.answers import Wish, choice, documents_for, in_words, plan_answers
from ragseal.prover.planning.chance import comes_back
from ragseal.prover.provider import assembly

CLASSES = load_classes()
DELTA = Fraction(1, 10**6)
WISH = Wish(8.0, n_max=4, accounts=5, delta=DELTA, words=120)


@cache
def planned() -> dict[str, Any]:
    return plan_answers(WISH, CLASSES.values(), (3,))


def test_the_recommended_policy_is_one_that_commit_accepts_with_the_epsilon_that_was_said() -> None:
    found = planned()["recommended"]
    assert found["class"] == "noise-tiny-two"
    cls = CLASSES[found["class"]]
    values = {**tomllib.loads(found["policy"]), "vocabulary": "ab" * 32}
    policy = read_policy(values, Binding(cls, class_digest(cls), 384, 0), assembly.advertised_epsilon)
    assembly.check_promises(policy, cls, WISH.accounts)
    period = answers_period([Spent("w1", policy, cls, 20, answered=20)], DELTA)
    assert period.filtered.epsilon == found["epsilon_filtered"] <= WISH.epsilon
    assert period.plain.epsilon == found["epsilon"]
    assert choice(cls, policy.gain + 1, WISH).found.filtered.epsilon > WISH.epsilon  # no larger gain would do


def test_documents_are_the_least_that_a_keyword_needs() -> None:
    cls = CLASSES["noise-tiny-two"]
    for share in (0.5, 0.9):
        n = documents_for(cls, 4, share)
        assert comes_back(cls, (4 * n) << cls.step_bits) >= share > comes_back(cls, (4 * (n - 1)) << cls.step_bits)


def test_what_cannot_be_met_is_said_with_the_nearest() -> None:
    made = plan_answers(Wish(0.1, 4, 5, DELTA, words=120), CLASSES.values(), (3,))
    assert made["recommended"] is None
    assert made["nearest"]["gain"] == 1


def test_a_vocabulary_that_no_class_holds() -> None:
    with pytest.raises(ConfigurationError, match="no class returns 3 keywords of 1000: of that K there is noise-tiny"):
        plan_answers(Wish(8.0, 4, 5, DELTA, words=1000), CLASSES.values(), (3,))
    with pytest.raises(ConfigurationError, match="at least 1"):
        Wish(8.0, 4, 0, DELTA)


def test_the_command_needs_no_corpus_and_the_others_do() -> None:
    own = ["plan", "--claim", "answers", "--returned", "3", "--words", "120", "--n-max", "4", "--accounts", "5"]
    done = CliRunner().invoke(main, [*own, "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.output) == json.loads(json.dumps(planned()))
    said = in_words(planned())
    assert "recommended policy:" in said
    assert "the provider's word" in said
    assert "Missing option '--corpus'" in CliRunner().invoke(main, ["plan"]).output

# SPDX-License-Identifier: GPL-3.0-or-later
"""A score window of few whole steps says what it loses, and one of sixteen says nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ragseal.circuits.circuit import class_digest, load_classes
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.noise import build_table
from ragseal.kernel.noise_mechanism import clipped, digit
from ragseal.kernel.policy import Policy, check_policy
from ragseal.prover.planning import consent
from ragseal.prover.planning.levels import ENOUGH, few_levels
from tests.simulator import policy as a_policy

CLASSES = load_classes()
CLS = CLASSES["noise-small-gaussian-50"]
LO, HI = 4839, 8065  # cosines 0.3 and 0.5


def policy(cls: AttestationClass, gain: int) -> Policy:
    return a_policy(
        class_name=cls.name, class_digest=class_digest(cls), table_digest=build_table(cls.law).digest(), dimension=384,
        lo=LO, hi=HI, gain=gain, n_max=25, epsilon_account="3", tau=1, period_start=0, opens=0, closes=86_400,
        ids=cls.most_ids(1),
    )  # fmt: skip


def said(cls: AttestationClass, gain: int) -> str:
    """What commit says of a policy."""
    rules = policy(cls, gain)
    check_policy(rules, cls, class_digest(cls))
    return "\n".join(consent.lines(consent.terms(rules, cls, {"epsilon": 1.0}), rules, cls))


@pytest.mark.parametrize("gain", [1, 2, 5, 9])
def test_few_levels_are_said_with_what_they_lose(gain: int) -> None:
    found = few_levels(CLS, LO, HI, gain)
    assert found is not None
    assert found.levels == policy(CLS, gain).hmax(CLS) < ENOUGH
    assert f"scores have {'one level' if found.levels == 1 else f'{found.levels} levels'}" in said(CLS, gain)
    # Two scores that differ by less than the step said may have one level, and some of that distance have not.
    apart = round(found.cosine * 127**2)
    levels = [clipped(digit(CLS, gain * (y - LO)), found.levels) for y in range(LO, HI + 1)]  # type: ignore[arg-type]
    assert max(levels.count(level) for level in range(found.levels)) == pytest.approx(apart, abs=1)
    assert levels[apart - 1] == 0
    # The gain that it names is the least of enough levels.
    assert few_levels(CLS, LO, HI, found.gain) is None
    assert few_levels(CLS, LO, HI, found.gain - 1) is not None


def test_enough_levels_have_nothing_to_say() -> None:
    assert few_levels(CLS, LO, HI, 11) is None
    assert "level" not in said(CLS, 11)
    assert few_levels(replace(CLS, law="geometric-16"), LO, HI, 1) is not None
    assert few_levels(CLASSES["decoys-tiny"], LO, HI, 1) is None

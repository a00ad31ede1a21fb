# SPDX-License-Identifier: GPL-3.0-or-later
"""dp-accounting beside every accountant, whichever is reported, for both symmetric laws."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from ragseal.accounting.audit import FULL, ORDERED, SET_LOSSES, SET_RENYI, ScorePolicy, epsilon_audit
from ragseal.kernel.noise import build_table
from ragseal.kernel.noise_class import NoiseClass
from ragseal.verifier.steps.dp_accounting_check import second_opinion
from tests.classes import GAUSSIAN, TINY

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("cls", "shift"), [(TINY, 32), (GAUSSIAN, 64)], ids=lambda one: getattr(one, "name", one))
def test_every_accountant_is_confirmed(cls: NoiseClass, shift: int) -> None:
    pytest.importorskip("dp_accounting")
    found = epsilon_audit(
        cls,
        build_table(cls.law),
        scores=ScorePolicy(gain=1, lo=0, hi=shift << cls.step_bits),
        k_max=1,
        n_max=30,
        delta=Fraction(1, 10**6),
    )
    for accountant in (FULL, ORDERED, SET_LOSSES, SET_RENYI):
        report = replace(found, accountant=accountant, epsilon=found.bound(accountant).epsilon)
        opinion = second_opinion(cls, report)
        assert opinion.epsilon == pytest.approx(report.epsilon, rel=5e-3)
        assert opinion.agrees
        assert not second_opinion(cls, replace(report, epsilon=1.02 * report.epsilon)).agrees

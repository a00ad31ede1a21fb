# SPDX-License-Identifier: GPL-3.0-or-later
"""A window of the lottery, whole: a real provider with real proofs, an account, an auditor; and what is against lies.

Rows of the circuit are attacked one by one in tests/circuits/test_lottery_attacks.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragseal.accounting.delivered_lottery import certified_return
from ragseal.kernel import proofs
from ragseal.kernel.policy import Policy
from ragseal.prover.attestation import statements
from ragseal.verifier.steps import proofs as proofs_step
from tests.simulator.keys import LOTTERY
from tests.simulator.live import Live, live

pytestmark = pytest.mark.slow


def asked(made: Live, questions: int = 3) -> None:
    """A window with a few answers, closed."""
    with made.client() as client:
        for number in range(questions):
            client.ask(f"acme report number {number}")
    made.end_window()


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(tmp_path_factory.mktemp("lottery"), coins=True, cls=LOTTERY, prizes=2) as made:
        asked(made)
        yield made


def test_an_honest_window_passes_with_the_return_of_its_prizes(honest: Live) -> None:
    verdict = honest.audited()
    policy = honest.window.manifest.policy
    assert verdict.verdict == "PASS", verdict.line()
    assert policy.prizes(LOTTERY) == 2
    returned = certified_return(LOTTERY.m, 2, policy.hidden, 1)
    assert f"return={returned:.5f}"[:12] in verdict.line()
    assert "claim=until-delivered" in verdict.line()

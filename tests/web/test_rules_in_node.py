# SPDX-License-Identifier: GPL-3.0-or-later
"""What messages say together, at both sides of each bound: the page takes what the kernel takes.  SPEC A.6, D.12.5."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ragseal.kernel.encoding import Message
from ragseal.kernel.policy import LONGEST_WINDOW, MOST_ANSWERED_BY
from ragseal.kernel.verdict import ANY, LAST_MINUTE, NOT_KNOWN
from tests import apart
from tests.decoders.test_two_decoders import first
from tests.kernel import test_message_refusals as of_claims
from tests.kernel.test_policy import OPENS, answers, policy
from tests.simulator.claims import claimed
from tests.web.published import NODE
from tests.web.test_vectors_in_node import decoded

pytestmark = [pytest.mark.slow, pytest.mark.skipif(NODE is None, reason="Node.js is not installed")]


def agreed(cases: Sequence[Message]) -> list[bool]:
    """Which of the messages of one kind both take; fails where one takes what the other refuses."""
    data = [apart.canonical(one) for one in cases]
    taken = [first(type(cases[0]), one) is not None for one in data]
    for case, ours, theirs in zip(cases, taken, decoded(type(cases[0]), data), strict=True):
        assert ours == ("error" not in theirs), (case, theirs)
    return taken


def test_times_and_deadlines_of_policies() -> None:
    good = [
        policy(),
        policy(closes=10 + LONGEST_WINDOW),
        answers(answered_by=1),
        answers(answered_by=MOST_ANSWERED_BY),
        answers(version_every=120, answered_by=60),
        policy(version_every=60),
        answers(closes=OPENS + 30),
    ]
    bad = [
        policy(closes=10 + LONGEST_WINDOW + 1),
        policy(answered_by=1),
        answers(answered_by=0),
        answers(answered_by=MOST_ANSWERED_BY + 1),
        answers(version_every=120, answered_by=61),
        answers(version_every=60, answered_by=1),
        answers(closes=OPENS + 29),
    ]
    assert agreed([*good, *bad]) == [True] * len(good) + [False] * len(bad)


def test_claims_that_are_none() -> None:
    def cases(test: Any) -> list[tuple[Any, ...]]:
        return [(name, changes) for name, changes, _ in test.pytestmark[0].args[1]]

    def made(name: str, changes: dict[str, Any]) -> Message:
        return claimed(**{slot: getattr(of_claims.CLAIMS[name], slot) for slot in claimed().__slots__} | changes)

    good: list[dict[str, Any]] = [
        {},
        {"epsilon": "inf", "delta": "1.5e-07"},
        {"period_from": LAST_MINUTE},
        {"left_out": 2, "epsilon_log": NOT_KNOWN},
        {"word": ("late", "neighbours")},
    ]
    taken = [made(name, changes) for name in of_claims.CLAIMS for changes in good]
    refused = [made(*case) for case in cases(of_claims.test_a_claim_that_is_none)]
    assert {one.coalition for one in taken} == {"2", ANY}  # type: ignore[attr-defined]
    assert len(refused) > 20
    assert agreed([*taken, *refused]) == [True] * len(taken) + [False] * len(refused)

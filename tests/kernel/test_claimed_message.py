# SPDX-License-Identifier: GPL-3.0-or-later
"""What the claim of a verdict refuses by itself, each rule alone: every other rule holds in each case.  SPEC D.12.5."""

from __future__ import annotations

from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel import signature
from ragseal.kernel.errors import EncodingError
from ragseal.kernel.policy import ANSWERS, UNTIL_DELIVERED
from ragseal.kernel.verdict import ANY, LAST_MINUTE, NOT_KNOWN, AuditVerdict, Claimed, VerdictEntry, found
from tests import apart
from tests.simulator.claims import claimed

LIST = claimed()
DELIVERED = claimed(claim=UNTIL_DELIVERED, returned="6", coalition=ANY, queries=ANY)
ANSWERED = claimed(claim=ANSWERS, coalition=ANY, queries=ANY)
OUTSIDE = claimed(left_out=1, epsilon_log="99.5")
CLAIMS = {"list": LIST, "delivered": DELIVERED, "answers": ANSWERED, "outside": OUTSIDE}


@pytest.mark.parametrize("name", CLAIMS)
@pytest.mark.parametrize(
    "changes",
    [
        {"epsilon": "inf"},
        {"delta": "1.5e-07"},
        {"period_from": 0},
        {"period_from": LAST_MINUTE},
        {"left_out": 2, "epsilon_log": "inf"},
        {"left_out": 2, "epsilon_log": NOT_KNOWN},
        {"word": ("late", "filter", "histograms", "texts", "vocabulary", "embeddings", "neighbours")},
    ],
)
def test_every_claim_has_its_numbers(name: str, changes: dict[str, Any]) -> None:
    made = claimed(**{slot: getattr(CLAIMS[name], slot) for slot in Claimed.__slots__} | changes)
    assert Claimed.decode(apart.canonical(made)) == made


@pytest.mark.parametrize(
    ("good", "changes", "words"),
    [
        ("list", {"claim": "every"}, "none of this version"),
        ("list", {"epsilon": "-1"}, "epsilon of a verdict"),
        ("list", {"epsilon": NOT_KNOWN}, "epsilon of a verdict"),
        ("list", {"epsilon": ""}, "epsilon of a verdict"),
        ("list", {"epsilon": "1\n"}, "epsilon of a verdict"),
        ("list", {"delta": "1e6"}, "delta of a verdict"),
        ("list", {"delta": ""}, "delta of a verdict"),
        ("delivered", {"returned": ""}, "return of a verdict"),
        ("list", {"returned": "6"}, "has no return"),
        ("answers", {"returned": "6"}, "has no return"),
        ("list", {"coalition": ANY}, "coalition of the claim every-list is a count"),
        ("list", {"coalition": "0"}, "coalition of the claim every-list is a count"),
        ("list", {"queries": ANY}, "queries of the claim every-list is a count"),
        ("list", {"queries": "02"}, "queries of the claim every-list is a count"),
        ("list", {"queries": "1" * 21}, "queries of the claim every-list is a count"),
        ("delivered", {"coalition": "2"}, "coalition of the claim until-delivered is any"),
        ("delivered", {"queries": "2"}, "queries of the claim until-delivered is any"),
        ("answers", {"coalition": "2"}, "coalition of the claim answers is any"),
        ("answers", {"queries": "2"}, "queries of the claim answers is any"),
        ("list", {"period_from": 61}, "whole minute"),
        ("list", {"period_from": LAST_MINUTE + 60}, "before the year 10000"),
        ("list", {"left_out": 1}, "named together"),
        ("list", {"epsilon_log": "99.5"}, "named together"),
        ("outside", {"epsilon_log": "much"}, "epsilon of the whole log"),
        ("list", {"word": ("weather",)}, "in order"),
        ("list", {"word": ("filter", "late")}, "in order"),
        ("list", {"word": ("late", "late")}, "in order"),
    ],
)
def test_a_claim_that_is_none(good: str, changes: dict[str, Any], words: str) -> None:
    made = claimed(**{slot: getattr(CLAIMS[good], slot) for slot in Claimed.__slots__} | changes)
    with pytest.raises(EncodingError, match=words):
        Claimed.decode(apart.canonical(made))


@pytest.mark.parametrize(
    ("outcome", "claims", "words"),
    [
        ("FINE", (), "a verdict is one of"),
        ("PASS", (), "a PASS names its claim"),
        ("SAMPLED-PASS", (), "a SAMPLED-PASS names its claim"),
        ("FAIL", (LIST,), "FAIL has no epsilon"),
        ("NO-VERDICT", (LIST,), "NO-VERDICT has no epsilon"),
        ("PASS", (claimed(coalition="0"),), "is a count"),
    ],
)
def test_a_claim_and_its_outcome_go_together(outcome: str, claims: tuple[Claimed, ...], words: str) -> None:
    """In the log that was audited and in the auditor's own."""
    key = signature.public_bytes(Ed25519PrivateKey.from_private_bytes(b"k" * 32))
    entry = VerdictEntry(key, b"d" * 32, b"l" * 32, "log", "w1", (b"m" * 32,), outcome, claims, 1)
    for made in (entry, AuditVerdict(b"m" * 32, b"l" * 32, key, b"d" * 32, outcome, claims, bytes(64))):
        with pytest.raises(EncodingError, match=words):
            type(made).decode(apart.canonical(made))


def test_a_line_says_each_number_once() -> None:
    made = claimed(left_out=3, epsilon_log="99.5", word=("late", "neighbours"))
    assert found("PASS", (made,)) == (
        "PASS epsilon_audit=85.8 claim=every-list coalition=2 queries=20 delta=1e-06 period_from=2027-01-15T08:00Z "
        "left_out=3 epsilon_log=99.5 late=unproven neighbours=provider"
    )
    assert found("SAMPLED-PASS", (DELIVERED,)) == (
        "SAMPLED-PASS epsilon_audit=85.8 claim=until-delivered coalition=any queries=any unseen=85.8 return=6 "
        "delta=1e-06 period_from=2027-01-15T08:00Z left_out=0"
    )
    assert found("FAIL", ()) == "FAIL"

# SPDX-License-Identifier: GPL-3.0-or-later
"""Witness policies as the page reads them: it takes what ledger/policy.py takes, with the same quorums.  SPEC G.6.9."""

from __future__ import annotations

import base64
import itertools
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ragseal.kernel.encoding import Message
from ragseal.kernel.errors import AuditError, EncodingError
from ragseal.kernel.policy import LONGEST_WINDOW, MOST_ANSWERED_BY
from ragseal.kernel.verdict import ANY, LAST_MINUTE, NOT_KNOWN
from ragseal.ledger.policy import Policy, QuorumError
from tests import apart
from tests.decoders.test_two_decoders import first
from tests.kernel import test_message_refusals as of_claims
from tests.kernel.test_policy import OPENS, answers, policy
from tests.ledger import test_policy as of_python
from tests.ledger.test_policy import EXAMPLE, LOG, ONE, TWO, cosigned, vkey
from tests.simulator.claims import claimed
from tests.web.published import NODE
from tests.web.test_vectors_in_node import decoded

SCRIPT = Path(__file__).with_name("policies.mjs")
REFUSED: list[tuple[str, int, str]] = of_python.test_what_is_refused_in_which_line.pytestmark[0].args[1]  # type: ignore[attr-defined]

pytestmark = [pytest.mark.slow, pytest.mark.skipif(NODE is None, reason="Node.js is not installed")]


def by_node(cases: Sequence[tuple[bytes, bytes]]) -> list[dict[str, Any]]:
    """Of each policy with a note."""
    assert NODE is not None
    lines = [{"policy": base64.b64encode(p).decode(), "note": base64.b64encode(n).decode()} for p, n in cases]
    done = subprocess.run(
        [NODE, str(SCRIPT), LOG.verifier.vkey()],
        input="".join(json.dumps(line) + "\n" for line in lines),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def by_python(policy: bytes, note: bytes) -> bool | None:
    """Whether the note meets the policy; None where the policy or the note is refused."""
    try:
        Policy.parse(policy).open(note, LOG.verifier)
    except QuorumError:
        return False
    except AuditError:
        return None
    return True


ODD = {
    "no log lines": f"{ONE}\nquorum w",
    "one key under two names": f"{ONE}\nwitness v {vkey(5)}\ngroup g 2 w v\nquorum g",
    "one name in two groups": f"{ONE}\ngroup x any w\ngroup y any w\ngroup g all x y\nquorum g",
    "a comment behind a line": f"{ONE} # url\nquorum w # end",
    "hexadecimal": f"{TWO}\ngroup g 0x2 w v\nquorum g",
    "an exponent": f"{TWO}\ngroup g 1e0 w v\nquorum g",
    "a leading zero": f"{TWO}\ngroup g 01 w v\nquorum g",
    "five digits": f"{TWO}\ngroup g 00001 w v\nquorum g",
    "a fraction": f"{TWO}\ngroup g 1.0 w v\nquorum g",
    "a plus sign": f"{TWO}\ngroup g +1 w v\nquorum g",
    "a no-break space": f"{TWO}\u00a0\nquorum w",
    "a comment in a comment": f"## x\n #\n{ONE}\n\n \t\nquorum w",
    "a name with a number sign": f"witness w#1 {vkey(5)}\nquorum w#1",
    "a quorum above its lines": f"{ONE}\nquorum w\n{ONE.replace(' w ', ' v ')}",
    "a member of a later group": f"{TWO}\ngroup g all w\nquorum g\ngroup h any w",
    "none": "quorum none",
    "a group of groups": f"{TWO}\ngroup g any w\ngroup h all g v\nquorum h",
    "the prototype's": f"witness __proto__ {vkey(5)}\nquorum __proto__",
    "not defined": f"{ONE}\nquorum toString",
}


def test_what_one_refuses_the_other_refuses() -> None:
    cases = [text.encode() for text, _, _ in REFUSED] + [text.encode() for text in ODD.values()]
    cases += [b"witness \xff %s\nquorum \xff" % vkey(5).encode(), b"witness \xff %s\nquorum \xfe" % vkey(5).encode()]
    note = cosigned(5)
    for text, said in zip(cases, by_node([(one, note) for one in cases]), strict=True):
        wanted = by_python(text, note)
        assert said.get("quorum") == wanted, (text[:300], said)
        try:
            Policy.parse(text)
        except EncodingError:
            assert "error" in said
    taken = [by_python(text.encode(), note) for text in ODD.values()]
    assert (taken.count(True), taken.count(False), taken.count(None)) == (6, 1, 12)


@pytest.mark.parametrize("log", [True, False])
def test_the_same_quorums(log: bool) -> None:
    text = EXAMPLE if log else EXAMPLE.replace("log ", "# log ")
    numbers = (11, 12, 13, 21, 22, 77)
    chosen = [some for count in range(7) for some in itertools.combinations(numbers, count)]
    notes = [cosigned(*some) for some in chosen]
    found = by_node([(text.encode(), note) for note in notes])
    assert [one["quorum"] for one in found] == [by_python(text.encode(), note) for note in notes]
    assert {one["logs"] for one in found} == {int(log)}
    assert {one["quorum"] for one in found} == {True, False}


# What messages say together, at both sides of each bound: the page takes what the kernel takes. SPEC A.6, D.12.5.


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
        policy(tau_time=60),
        policy(tau_time=LONGEST_WINDOW),
        answers(closes=OPENS + 30),
    ]
    bad = [
        policy(closes=10 + LONGEST_WINDOW + 1),
        policy(tau_time=30),
        policy(tau_time=LONGEST_WINDOW + 60),
        policy(answered_by=1),
        answers(answered_by=0),
        answers(answered_by=MOST_ANSWERED_BY + 1),
        answers(version_every=120, answered_by=61),
        answers(version_every=60, answered_by=1),
        answers(closes=OPENS + 29),
    ]
    assert agreed([*good, *bad]) == [True] * len(good) + [False] * len(bad)


def test_claims_that_are_none() -> None:
    known = of_claims.CLAIMS | of_claims.OF_RUNGS

    def cases(test: Any) -> list[tuple[Any, ...]]:
        return [(name, changes) for name, changes, _ in test.pytestmark[0].args[1]]

    def made(name: str, changes: dict[str, Any]) -> Message:
        return claimed(**{slot: getattr(known[name], slot) for slot in claimed().__slots__} | changes)

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

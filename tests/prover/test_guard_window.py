# SPDX-License-Identifier: GPL-3.0-or-later
"""A window with a guard, on the real provider: one text of an answer is withheld, nothing else changes.  SPEC M.10."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ragseal.client.attestation import Window, check_openings
from ragseal.kernel.attestation import Answer, SealedAnswer, open_answer
from ragseal.kernel.errors import AttestationError, PolicyError
from ragseal.kernel.policy import Policy
from ragseal.prover.attestation import retrieval
from ragseal.prover.attestation.retrieval import shifted_scores
from ragseal.prover.commitment.guard import Rule, withheld
from ragseal.prover.serving.serving import Serving
from tests.classes import TINY
from tests.simulator.provider import (
    SEAL_SECRET,
    Asker,
    make_policy,
    newest,
    open_provider,
    serving_on,
    window_on,
)

GUARD = {"guard": "returned", "guard_rho": "1/10", "lo": 0.0, "hi": 0.99, "gain": 110}
QUESTIONS = ("acme report number 3 about topic 8", "topic 5", "entirely unrelated words: zebra quartz")


def as_client(serving: Serving, policy: Policy) -> Any:
    """What an account knows of the window, under this policy."""
    manifest = newest(serving).manifest
    return SimpleNamespace(cls=TINY, index=manifest.index_of("acme"), manifest=SimpleNamespace(policy=policy))


def split(answer: Answer) -> tuple[list[int], list[int]]:
    """(flagged slots, those of them without a text)."""
    flagged = [slot for slot in answer.openings.slots if slot.flag]
    return [slot.slot for slot in flagged], [slot.slot for slot in flagged if not slot.texts]


@pytest.mark.slow
def test_of_every_answer_the_guard_withholds_one_text_and_changes_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[Mapping[int, int], int, Rule | None, tuple[int, ...]]] = []

    def watched(near: Mapping[int, int], n: int, rule: Rule | None) -> tuple[int, ...]:
        seen.append((dict(near), n, rule, withheld(near, n, rule)))
        return seen[-1][-1]

    monkeypatch.setattr(retrieval, "withheld", watched)

    async def run() -> None:
        async with window_on(tmp_path, **GUARD) as serving:
            asker = Asker("alice", serving)
            answers = [await asker.ask(question) for question in QUESTIONS]
            manifest = newest(serving).manifest
            for answer, (near, n, rule, chosen) in zip(answers, seen, strict=True):
                flagged, missing = split(answer)
                assert (n, rule) == (TINY.N, Rule(0.1))
                assert sorted(near) == flagged, "a guard looks at flagged slots of T and at no others"
                assert tuple(missing) == chosen
                assert len(missing) == min(1, len(flagged))
                window: Window = as_client(serving, manifest.policy)
                check_openings(window, answer.record, answer.openings)
                if flagged:
                    with pytest.raises(AttestationError, match="the policy has no guard"):
                        check_openings(as_client(serving, make_policy()), answer.record, answer.openings)
            assert sum(len(split(answer)[0]) for answer in answers) > 3, "questions that find something"
            # the same request gets the same bytes: from memory, and from what is stored
            window_ = newest(serving)
            found = await asker.retrieve(answers[0].record.signed)
            assert open_answer(SealedAnswer.decode(found.canonical), SEAL_SECRET) == answers[0]
            first = answers[0].record
        monkeypatch.setattr(retrieval, "withheld", lambda near, n, rule: pytest.fail("decided twice"))
        async with serving_on(open_provider(tmp_path)) as again:
            canonical = await Asker("alice", again).retrieve(first.signed)
            assert open_answer(SealedAnswer.decode(canonical.canonical), SEAL_SECRET) == answers[0]
            assert window_.digest == newest(again).digest

    asyncio.run(run())


def test_scores_of_the_guard_are_those_of_the_answer() -> None:
    """What ``near`` holds orders as y does: gain and lower end are the same for all slots."""
    assert shifted_scores.__doc__ is not None
    scores = {3: 100, 4: 90, 5: 80, 6: 85, 7: 82, 8: 70}
    for rho in (0.01, 0.3):
        rule = Rule(rho)
        assert withheld(scores, 500, rule) == withheld({i: 7 * (y - 50) for i, y in scores.items()}, 500, rule)


def test_a_policy_file_names_its_guard() -> None:
    made = make_policy(guard="returned")
    assert (made.guard, made.guard_rho, made.guard_formula) == ("returned", "1/20", "precise")
    made = make_policy(guard="returned", guard_rho=0.01, guard_formula="paper")
    assert (made.guard_rho, made.guard_formula) == ("1/100", "paper")
    plain = make_policy()
    assert (plain.guard, plain.guard_rho, plain.guard_formula) == ("off", "0", "none")
    assert not plain.guarded
    assert [plain.withheld_of(n) for n in (0, 1, 5)] == [0, 0, 0]
    assert [made.withheld_of(n) for n in (0, 1, 5)] == [0, 1, 1]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"guard": "clean"}, "exact scores, and no epsilon of any claim"),
        ({"guard": "noised"}, "tells more than the list"),
        ({"guard": "on"}, "one of off, or returned"),
        ({"guard": 1}, "a name such as"),
        ({"guard_rho": 0.05}, "are of a guard"),
        ({"guard_formula": "paper"}, "are of a guard"),
        ({"guard": "returned", "guard_rho": 0}, "strictly between 0 and 1"),
        ({"guard": "returned", "guard_rho": 1}, "strictly between 0 and 1"),
        ({"guard": "returned", "guard_rho": f"{10**20 - 1}/{10**20}"}, "not 1.0"),
        ({"guard": "returned", "guard_rho": "a"}, "not a rational number"),
        ({"guard": "returned", "guard_formula": "none"}, "formula is one of precise, or paper"),
        ({"guard": "returned", "guard_formula": 3}, "precise"),
    ],
)
def test_a_guard_that_does_not_exist_is_refused(changes: dict[str, object], why: str) -> None:
    with pytest.raises(PolicyError, match=why):
        make_policy(**changes)

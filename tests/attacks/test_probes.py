# SPDX-License-Identifier: GPL-3.0-or-later
"""An observer that cheats with its statement: an honest window passes all the same, and a provider's lie still fails.

Each test of a refusal runs a second time without the one check, where the false count is believed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ragseal.kernel import signature
from ragseal.kernel.slot_text import SlotText
from ragseal.kernel.transcript import tagged_hash
from ragseal.ledger.probe.statement import Planted, ProbeAnswer, ProbeStatement, count
from ragseal.verifier.audit.audit import read_probes
from ragseal.verifier.evidence.evidence import ProbeFile
from ragseal.verifier.outcome.outcome import Verdict
from ragseal.verifier.steps import probes
from tests.simulator import World, key_of, policy, resign
from tests.simulator.parties import slot_text
from tests.verifier.test_command import printed

QUERIES = 12
SALT = b"s" * 32
KEY = key_of("observer")


def query_digest(text: str) -> bytes:
    return tagged_hash("query", SALT, text.encode())


@cache
def scene() -> tuple[World, ProbeStatement]:
    """Accounts of two tenants that asked for the canary, and an honest statement of it."""
    world = World()
    world.commit(policy_=policy(n_max=QUERIES + 1, epsilon_account="5"))
    found = [world.ask(name, request={"query_digest": query_digest("?")}) for name in ("alice", "carol")]
    assert len(found) == 2
    pair = tuple(
        Planted(tenant, _opened(world, number).text) for number, tenant in enumerate(("north", "south"))
    )  # what their first answers showed is the planted pair
    for name in ("alice", "carol"):
        for _ in range(QUERIES):
            world.ask(name, request={"query_digest": query_digest(pair[0].text)})
    world.close()
    queries = ["?", "?", *[pair[0].text] * (2 * QUERIES)]
    answers = tuple(ProbeAnswer(SALT, query, answer) for query, answer in zip(queries, world.answers, strict=True))
    return world, stated(world, pair, answers)


def _opened(world: World, number: int) -> SlotText:
    return next(slot.content for slot in world.answers[number].openings.slots if slot.content is not None)


def hits_of(pair: Sequence[Planted], answers: Sequence[ProbeAnswer]) -> tuple[int, ...]:
    """By the texts' own names, which name their slots."""
    found = []
    for tenant, planted in zip(("north", "south"), pair, strict=True):
        slot = next(i for i in range(1000) if slot_text(tenant, i).text == planted.text)
        of = {"north": "alice", "south": "carol"}[tenant]
        found.append(
            sum(
                slot in [one.slot for one in asked.answer.openings.slots]
                for asked in answers
                if asked.query == pair[0].text and asked.request.account == _pseudonyms()[of]
            )
        )
    return tuple(found)


@cache
def _pseudonyms() -> dict[str, str]:
    world = World()
    return {line.name: line.pseudonym for line in world.registry}


def stated(world: World, pair: Sequence[Planted], answers: Sequence[ProbeAnswer], **changes: Any) -> ProbeStatement:
    hits = changes.pop("hits") if "hits" in changes else hits_of(pair, answers)
    made = ProbeStatement(world.digest, signature.public_bytes(KEY), tuple(pair), hits, tuple(answers), bytes(64))
    return replace(made, **changes).signed(KEY)


def audited(world: World, *statements: ProbeStatement) -> Verdict:
    files = [ProbeFile(f"{number}.statement", one) for number, one in enumerate(statements)]
    return world.audit(receipts=[receipt for file in files for receipt in file.receipts()])


def test_an_honest_statement_is_counted() -> None:
    world, statement = scene()
    verdict = audited(world, statement)
    assert verdict.verdict == "PASS", verdict.line()
    (counted,) = verdict.probes
    assert counted.worlds is not None
    assert (len(counted.worlds.inside), len(counted.worlds.outside)) == (QUERIES, QUERIES)
    assert counted.worlds.hits == statement.hits
    assert (counted.answers, counted.accounts, counted.observer) == (2 + 2 * QUERIES, 2, signature.public_bytes(KEY))
    assert not verdict.set_aside
    said = next(step for step in verdict.steps if step.number == 7).evidence
    assert said["probes"][0]["planted_pair"]["hits"] == list(statement.hits)


def test_without_a_pair_answers_are_counted() -> None:
    world, statement = scene()
    (counted,) = audited(world, stated(world, statement.planted, statement.answers, planted=(), hits=())).probes
    assert (counted.worlds, counted.answers, counted.exceeds) == (None, 2 + 2 * QUERIES, ())


def unsigned(world: World, one: ProbeStatement) -> ProbeStatement:
    return replace(one, observer=signature.public_bytes(key_of("alice")))


def chosen(world: World, one: ProbeStatement) -> ProbeStatement:
    """Misses inside are left out, and with them everything that shows how few hits there were."""
    hit = {id(a) for a in one.answers[:2]} | {id(a) for a in one.answers[3:]}
    return stated(world, one.planted, [a for a in one.answers if id(a) in hit])


def twice(world: World, one: ProbeStatement) -> ProbeStatement:
    return stated(world, one.planted, [*one.answers, one.answers[2]])


def other_question(world: World, one: ProbeStatement) -> ProbeStatement:
    """What was asked was not the canary."""
    return stated(world, one.planted, [replace(one.answers[0], query=one.planted[0].text), *one.answers[1:]])


def other_hits(world: World, one: ProbeStatement) -> ProbeStatement:
    return stated(world, one.planted, one.answers, hits=(one.hits[0] + 1, one.hits[1]))


def other_slots(world: World, one: ProbeStatement) -> ProbeStatement:
    """An answer in which the planted slot is put where it was not."""
    answer = one.answers[4].answer
    forged = replace(answer, openings=one.answers[0].answer.openings)
    return stated(world, one.planted, [*one.answers[:4], replace(one.answers[4], answer=forged), *one.answers[5:]])


def other_text(world: World, one: ProbeStatement) -> ProbeStatement:
    """The slot of another document is said to be the replacement's."""
    said, found = "the replacement", []
    for asked in one.answers:
        slots = []
        for slot in asked.answer.openings.slots:
            texts = tuple(
                replace(t, content=replace(t.content, text=said)) if t.content.text == one.planted[1].text else t
                for t in slot.texts
            )
            slots.append(replace(slot, texts=texts))
        openings = replace(asked.answer.openings, slots=tuple(slots))
        found.append(replace(asked, answer=replace(asked.answer, openings=openings)))
    return stated(world, (one.planted[0], replace(one.planted[1], text=said)), found, hits=one.hits)


def one_tenant(world: World, one: ProbeStatement) -> ProbeStatement:
    return stated(world, one.planted, one.answers, planted=(one.planted[0], one.planted[0]))


def unknown_slot(world: World, one: ProbeStatement) -> ProbeStatement:
    pair = (one.planted[0], replace(one.planted[1], text="shown by no answer"))
    return stated(world, one.planted, one.answers, planted=pair)


def other_window(world: World, one: ProbeStatement) -> ProbeStatement:
    return stated(world, one.planted, one.answers, manifest=bytes(32))


CHEATS: dict[Callable[[World, ProbeStatement], ProbeStatement], str] = {
    unsigned: "signature does not hold",
    chosen: "it leaves out 1 of the",
    twice: "answer 26 is counted twice",
    other_question: "answer 0 is not to the question",
    other_hits: "its answers show otherwise",
    other_slots: "answer 4 is not what the provider signed",
    other_text: "is not what the provider signed",
    one_tenant: "two documents in two tenants",
    unknown_slot: "is in 0 known slots, not 1",
    other_window: "of a window that this audit is not of",
}


@pytest.mark.parametrize("cheat", CHEATS, ids=lambda cheat: cheat.__name__)
def test_a_false_statement_decides_nothing(cheat: Callable[[World, ProbeStatement], ProbeStatement]) -> None:
    world, honest = scene()
    verdict = audited(world, cheat(world, honest), honest)
    assert verdict.verdict == "PASS", verdict.line()
    assert [one.file for one in verdict.probes] == ["1.statement"]
    assert any(CHEATS[cheat] in one.why for one in verdict.set_aside if one.file == "0.statement"), verdict.set_aside


#: what each refusal rests on: with it removed the same false count is believed
REMOVED: dict[Callable[[World, ProbeStatement], ProbeStatement], tuple[Any, str, Any]] = {
    unsigned: (ProbeStatement, "verify", lambda self: None),
    chosen: (probes, "check_complete", lambda answers, recorded: None),
    twice: (probes, "check_asked", lambda answers, manifest: None),
    other_question: (probes, "check_asked", lambda answers, manifest: None),
}


@pytest.mark.parametrize("cheat", REMOVED, ids=lambda cheat: cheat.__name__)
def test_without_its_check_a_false_count_is_believed(
    cheat: Callable[[World, ProbeStatement], ProbeStatement], monkeypatch: pytest.MonkeyPatch
) -> None:
    world, honest = scene()
    monkeypatch.setattr(*REMOVED[cheat])
    assert [one.file for one in audited(world, cheat(world, honest)).probes] == ["0.statement"]


@pytest.mark.parametrize("cheat", [other_slots, other_text], ids=lambda cheat: cheat.__name__)
def test_answers_that_were_set_aside_would_be_counted(
    cheat: Callable[[World, ProbeStatement], ProbeStatement], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the demand that every answer be the provider's word."""

    class Everything:
        def __contains__(self, name: object) -> bool:
            return True

    world, honest = scene()
    real = probes.check_probes
    monkeypatch.setattr(
        "ragseal.verifier.audit.findings.check_probes", lambda files, good, *more: real(files, Everything(), *more)
    )
    assert [one.file for one in audited(world, cheat(world, honest)).probes] == ["0.statement"]


def test_what_the_provider_signed_fails_whoever_states_it() -> None:
    """A lie of the provider's in a statement with a false signature, beside a false count: it is not hidden."""
    world, honest = scene()
    answer = honest.answers[5].answer
    body = replace(answer.receipt.body, seq=answer.receipt.body.seq + 1)
    forged = replace(honest.answers[5], answer=replace(answer, receipt=resign(world, answer.receipt, body)))
    statement = replace(honest, answers=(*honest.answers[:5], forged), hits=(0, 0))
    verdict = audited(world, statement)
    assert verdict.verdict == "FAIL"
    assert verdict.failure is not None
    assert verdict.failure.number == 7
    assert "names a seq or request different" in verdict.failure.message


def test_answers_of_a_statement_acknowledge_no_more_than_receipts_do() -> None:
    world, honest = scene()
    plain = world.audit(receipts=world.receipts())
    assert audited(world, honest).tallies == plain.tallies


def test_more_than_certified_is_the_observers_word(monkeypatch: pytest.MonkeyPatch) -> None:
    world, honest = scene()
    monkeypatch.setattr(probes, "violations", lambda *numbers: ["epsilon is at least 9"])
    verdict = audited(world, honest)
    assert verdict.verdict == "PASS"
    (counted,) = verdict.probes
    assert counted.exceeds == ("epsilon is at least 9",)
    assert "no verdict rests on it" in counted.note()


def test_a_canary_that_never_came_was_never_hit() -> None:
    """Too much noise, for one: the probe is counted, and exceeds nothing by it."""
    _, honest = scene()
    never = (replace(honest.planted[0], text="never returned"), honest.planted[1])
    answers = [replace(one, query=never[0].text) if n > 1 else one for n, one in enumerate(honest.answers)]
    worlds = count(never, answers, lambda request: "north" if request.account == _pseudonyms()["alice"] else "south")
    assert worlds is not None
    assert (worlds.hits[0], worlds.slots[0]) == (0, None)
    assert worlds.hits[1] == honest.hits[1]


def test_too_few_queries_are_compared_with_nothing() -> None:
    world, honest = scene()
    few = [honest.answers[0], honest.answers[1]]
    assert probes._exceeds(world.audit().window, None) == ()  # type: ignore[arg-type]
    one = stated(world, honest.planted, few, hits=(0, 0))
    assert audited(world, one).verdict == "PASS"


def test_files_that_are_no_statements_are_listed(tmp_path: Path) -> None:
    world, honest = scene()
    empty = stated(world, honest.planted, (), hits=(), planted=())
    for name, data in (("a", honest.encode()), ("b", b"nonsense"), ("c", world.manifest.encode()), ("d", b"")):
        (tmp_path / name).write_bytes(data)
    (tmp_path / "e").write_bytes(empty.encode())
    receipts, aside = read_probes([tmp_path / name for name in ("a", "a", "b", "c", "d", "e")])
    assert {one.probe.name for one in receipts if one.probe} == {str(tmp_path / "a"), f"{tmp_path / 'a'} (1)"}
    assert [Path(one.file).name for one in aside] == ["b", "c", "d", "e"]
    assert world.audit(receipts=receipts).verdict == "PASS"


def test_the_command_counts_and_its_report_names_the_observer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world, honest = scene()
    (tmp_path / "good").write_bytes(honest.encode())
    (tmp_path / "bad").write_bytes(chosen(world, honest).encode())
    monkeypatch.setattr(probes, "violations", lambda *numbers: ["epsilon is at least 9"])
    given = ("--probes", str(tmp_path / "good"), "--probes", str(tmp_path / "bad"))
    result = printed(tmp_path, world, monkeypatch, *given)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("PASS")
    said = " ".join(result.stderr.split())
    assert f"good of observer {signature.public_bytes(KEY).hex()}: epsilon is at least 9. Which accounts" in said
    assert "set aside, no evidence of anything: " in said
    values = json.loads((tmp_path / "report" / "report.json").read_bytes())
    (counted,) = values["probes"]
    assert counted["observer"] == signature.public_bytes(KEY).hex()
    assert counted["planted_pair"] == {"queries": [QUERIES, QUERIES], "hits": list(honest.hits)}
    assert [Path(one["file"]).name for one in values["set_aside"]] == ["bad"]
    page = (tmp_path / "report" / "report.html").read_text()
    assert "Probes of observers, counted again; no verdict rests on them" in page
    assert counted["observer"] in page

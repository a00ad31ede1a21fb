# SPDX-License-Identifier: GPL-3.0-or-later
"""A provider that answers with attested answers: what it keeps, counts and hands out.  SPEC A.14, B.4, B.7.8."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ragseal.generators.named import named_generator
from ragseal.kernel.attestation import COARSE_TIME, MAX_ANSWER_BYTES
from ragseal.kernel.errors import BudgetError, ConfigurationError, EncodingError, TransportError
from ragseal.kernel.policy import ANSWERS
from ragseal.kernel.proofs import ProofBatch
from ragseal.kernel.statement import Returned
from ragseal.prover.attestation.answers import secrets_of_record
from ragseal.prover.attestation.attested import cannot_write, written
from ragseal.prover.attestation.retrieval import COUNT
from ragseal.prover.base.limits import UNWRITTEN
from ragseal.prover.serving.metrics import ANSWERED
from ragseal.prover.storage import participations
from ragseal.prover.storage.participations import Participations, allowed, counted, counting
from ragseal.prover.storage.window import Window
from ragseal.runtime.timer import Timer
from ragseal.verifier.report import summary
from ragseal.verifier.report.document import build
from ragseal.verifier.report.page import render
from tests.embedder.embedding_server import Reply
from tests.generators.chat_server import chatting
from tests.simulator.answered import QUESTION, WORDS, AnsweringLive, Counted, answering_on, answers_policy
from tests.simulator.clients import client_of
from tests.simulator.provider import Asker, TrigramEmbedder, new_state, newest


@pytest.mark.slow
@pytest.mark.asyncio
async def test_an_answer_holds_keywords_and_a_text_and_no_document(tmp_path: Path) -> None:
    generator = Counted()
    async with answering_on(tmp_path, generator=generator) as serving:
        answer = await Asker("alice", serving).ask(QUESTION)
        kept = secrets_of_record(serving.provider.state, answer.record)
        counts = np.frombuffer(kept.counts, dtype=COUNT)
        assert counts.sum() > 0
        assert counts.max() <= 20
        assert {slot.flag for slot in answer.openings.slots} == {True}
        for slot in answer.openings.slots:
            assert slot.content == WORDS.content(slot.slot)
        assert answer.openings.answer == kept.answer != ""
        question, contexts, keywords = generator.asked[-1]
        assert question == QUESTION
        assert contexts == ()
        assert set(keywords) <= set(WORDS.words)
        window = newest(serving)
        assert window.manifest.policy.claim == ANSWERS
        batch = ProofBatch.decode(serving.proofs.batch(window.digest, [0]))
        assert [link.tenant for link in batch.links] == ["acme"]


@pytest.mark.slow
@pytest.mark.asyncio
async def test_a_document_takes_part_in_so_many_answers_and_no_more(tmp_path: Path) -> None:
    async with answering_on(tmp_path, participations=2) as serving:
        sums = []
        for name in ("alice", "bob"):
            asker = Asker(name, serving)
            for _ in range(2):
                answer = await asker.ask(QUESTION)
                kept = secrets_of_record(serving.provider.state, answer.record)
                sums.append(int(np.frombuffer(kept.counts, dtype=COUNT).sum()))
        assert sums[0] > 0
        assert sums[0] == sums[1]
        assert sums[2:] == [0, 0]  # whoever asks
        carol = await Asker("carol", serving).ask(QUESTION)  # another tenant's documents have counts of their own
        kept = secrets_of_record(serving.provider.state, carol.record)
        assert np.frombuffer(kept.counts, dtype=COUNT).sum() > 0


@dataclass
class Failing(Counted):
    """A generator that fails where it is asked about one kind of document, or about anything at all."""

    at: str = ""
    fault: Exception = field(default_factory=ValueError)

    def answer(self, question: str, contexts: Sequence[str], keywords: Sequence[str] = ()) -> str:
        if self.at in " ".join([*contexts, question]):
            raise self.fault
        return super().answer(question, contexts, keywords)


@pytest.mark.slow
@pytest.mark.asyncio
async def test_a_fault_of_documents_costs_their_counts_and_not_the_answer(tmp_path: Path) -> None:
    async with answering_on(tmp_path, generator=Failing(at="copper")) as serving:
        answer = await Asker("alice", serving).ask(QUESTION)
        kept = secrets_of_record(serving.provider.state, answer.record)
        counts = np.frombuffer(kept.counts, dtype=COUNT)
        assert counts[WORDS.words.index("copper")] == 0
        assert counts[WORDS.words.index("lantern")] > 0


class Surrogates(Counted):
    """A generator that says what no text can hold."""

    def answer(self, question: str, contexts: Sequence[str], keywords: Sequence[str] = ()) -> str:
        return "copper \ud800" + "x" * MAX_ANSWER_BYTES


@pytest.mark.slow
def test_an_answer_s_text_is_always_one_that_can_be_sent() -> None:
    text = written(Surrogates(), WORDS, QUESTION, [Returned(0, True)], "")
    assert text.startswith("copper xx")
    assert len(text.encode()) == MAX_ANSWER_BYTES


@pytest.mark.slow
@pytest.mark.asyncio
@pytest.mark.parametrize("fault", [TransportError("x.internal says: no such key sk-12"), RuntimeError("sk-12")])
async def test_what_a_generator_says_of_itself_stays_with_the_operator(
    tmp_path: Path, fault: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    generator = Failing(fault=fault)
    async with answering_on(tmp_path, generator=generator) as serving:
        alice = Asker("alice", serving)
        with pytest.raises(TransportError, match="cannot write answers now") as caught:
            await alice.ask(QUESTION)
        assert "sk-12" not in str(caught.value)
        assert "the generator does not answer" in caplog.text
        assert serving.provider.state.rows("SELECT * FROM participations") == []
        generator.at = "nothing has this"
        assert (await alice.ask(QUESTION)).record.seq == 0  # the same request, byte for byte


@pytest.mark.slow
@pytest.mark.asyncio
async def test_a_model_that_fails_does_not_work_for_nothing_again_and_again(tmp_path: Path) -> None:
    """Requests that get no text spend no query: a few of them, then it is not even asked.  Answers count nothing."""
    generator = Failing(fault=TransportError("away"))
    async with answering_on(tmp_path, generator=generator) as serving:
        alice, bob = Asker("alice", serving), Asker("bob", serving)
        for _ in range(UNWRITTEN - 1):
            with pytest.raises(TransportError):
                await alice.ask(QUESTION)
        generator.at = "nothing has this"
        for number in range(4):
            assert (await alice.ask(QUESTION)).record.seq == number
        generator.at = ""
        for _ in range(UNWRITTEN):
            with pytest.raises(TransportError):
                await bob.ask(QUESTION)
        generator.at, asked = "nothing has this", len(generator.asked)
        with pytest.raises(BudgetError, match="no answer could be written") as refused:
            await bob.ask(QUESTION)
        assert refused.value.retry_after_ms
        assert len(generator.asked) == asked


@pytest.mark.slow
def test_what_a_served_model_quotes_is_in_no_log(caplog: pytest.LogCaptureFixture) -> None:
    with chatting() as server:
        generator = named_generator(f"chat:small@{server.base}", quotes=False)
        server.replies.append(Reply(400, json.dumps({"error": f"not allowed: {QUESTION}"}).encode()))
        with pytest.raises(EncodingError) as refused:
            generator.answer(QUESTION, ())
        cannot_write(refused.value, QUESTION)
    assert "status 400" in caplog.text
    assert QUESTION not in caplog.text
    caplog.clear()
    cannot_write(TransportError(f"what about {QUESTION}"), QUESTION)
    assert "does not answer: TransportError" in caplog.text
    assert QUESTION not in caplog.text


@pytest.mark.slow
def test_metrics_and_traces_tell_no_times_of_answers_in_words(tmp_path: Path) -> None:
    live = AnsweringLive(tmp_path)
    try:
        told: list[tuple[str, float]] = []
        metrics = live.server.serving.metrics
        metrics.spans = SimpleNamespace(tell=lambda outcome, _, seconds: told.append((outcome, seconds)))  # type: ignore[assignment]
        with live.client() as client:
            client.ask(QUESTION, answer=True)
        live.call(metrics.settle())
        assert metrics.shown.answers == {ANSWERED: 1}
        assert metrics.shown.latencies == {}
        assert told == [(ANSWERED, 0)]
    finally:
        live.end()


@pytest.mark.slow
def test_a_window_from_questions_to_a_verdict(tmp_path: Path) -> None:
    """Accounts ask over gRPC, the auditor audits over gRPC: PASS, with an epsilon that covers the texts."""
    live = AnsweringLive(tmp_path)
    try:
        with live.client() as client:
            with pytest.raises(ConfigurationError, match="ask with --answer"):
                client.ask(QUESTION, answer=False)
            first = client.ask(QUESTION, answer=True)
            assert first.answer
            assert first.ranked is None
            assert set(first.keywords) <= set(WORDS.words)
            assert client.ask("and what else").record.seq == 1
        live.end_window()
        verdict = live.audited()
        assert verdict.verdict == "PASS", verdict.line()
        assert "vocabulary=provider answers=2 epsilon_filtered=" in verdict.line()
        assert verdict.budget is not None
        assert verdict.budget.claim.name == "answers"
        report = build(verdict)
        assert any("no log shows it" in note for note in report["does_not_say"])
        page = "".join(summary.sentences(report))
        assert "keywords and texts of all answers" in page
        assert "its word" in page
        said = [one for one in report["epsilon"]["conditions"] if one["holds"] is None]
        assert len(said) == 4
        assert all("provider's word" in one["shown_by"] for one in said)
        page = render(report)
        assert "any number of accounts, over the budget period" in page
        assert "if the provider keeps its word on its filter" in page
    finally:
        live.end()


@pytest.mark.slow
def test_a_client_s_time_out_begins_when_an_answer_is_due(tmp_path: Path) -> None:
    live = AnsweringLive(tmp_path, answered_by=6, timer=Timer())
    try:
        own = live.address, live.account(), live.log_key, TrigramEmbedder()
        with client_of(*own, timeout=4.0) as client:
            assert client.ask(QUESTION, answer=True).record.seq == 0
    finally:
        live.end()


# Whose answers a policy's filter counts, and until when a document takes part. SPEC A.14.4.


def window_of(name: bytes, closed: int | None) -> Window:
    signed: Any = SimpleNamespace()
    close: Any = None if closed is None else SimpleNamespace(time=closed)
    return Window(signed, name * 32, 0, close=close)


@pytest.mark.parametrize("begins", [0, 1, COARSE_TIME - 1])
def test_a_window_that_ended_in_the_period_s_first_minute_counts(begins: int) -> None:
    """Its closing states its time to the minute only, so it may have ended within the period."""
    at = 100 * COARSE_TIME
    policy = replace(answers_policy(), period_start=at + begins)
    windows = [window_of(b"a", at - COARSE_TIME), window_of(b"b", at), window_of(b"c", None)]
    assert counting(windows, policy) == [b"b" * 32, b"c" * 32]


def test_answers_add_up_over_windows_and_only_over_those(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = new_state(tmp_path / "p")
    windows = [name * 32 for name in (b"a", b"b", b"c")]
    with state.transaction() as db:
        for window in windows:
            Participations.charge(db, window, [b"one", b"two"])
        Participations.charge(db, windows[0], [b"one"])
        Participations.charge(db, b"x" * 32, [b"one"])
    for together in (1, 2, 500):
        monkeypatch.setattr(participations, "_TOGETHER", together)
        assert counted(state, windows) == Counter({b"one": 4, b"two": 3})
        assert counted(state, windows[:1]) == Counter({b"one": 2, b"two": 1})
    assert counted(state, []) == Counter()
    state.close()


def test_a_document_takes_part_in_as_many_answers_as_the_policy_says() -> None:
    counts = Counter({b"one": 2})
    assert allowed(counts, b"one", 3)
    assert not allowed(counts, b"one", 2)
    assert allowed(counts, b"other", 1)
    assert not allowed(counts, b"other", 0)


def test_a_document_is_counted_under_tenant_and_id(tmp_path: Path) -> None:
    state = new_state(tmp_path / "p")
    names = Participations(state, lambda count: b"k" * count)
    found = [names.document(tenant, name) for tenant, name in (("a", "bc"), ("ab", "c"), ("a", "c"), ("b", "bc"))]
    assert len(set(found)) == 4
    assert names.document("a", "bc") == found[0]
    assert Participations(state, lambda count: b"other"[:count]).document("a", "bc") == found[0]  # the key is kept
    state.close()

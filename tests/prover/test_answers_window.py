# SPDX-License-Identifier: GPL-3.0-or-later
"""A provider that answers with attested answers: what it keeps, counts and hands out.  SPEC A.14, B.4, B.7.8."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from ragseal.generators.named import named_generator
from ragseal.kernel.attestation import MAX_ANSWER_BYTES
from ragseal.kernel.errors import BudgetError, ConfigurationError, EncodingError, TransportError
from ragseal.kernel.policy import ANSWERS
from ragseal.kernel.proofs import ProofBatch
from ragseal.kernel.statement import Returned
from ragseal.prover.attestation.answers import secrets_of_record
from ragseal.prover.attestation.attested import cannot_write, written
from ragseal.prover.attestation.retrieval import COUNT
from ragseal.prover.base.limits import UNWRITTEN
from ragseal.prover.serving.metrics import ANSWERED
from ragseal.runtime.timer import Timer
from ragseal.verifier.report import summary
from ragseal.verifier.report.document import build
from ragseal.verifier.report.page import render
from tests.embedder.embedding_server import Reply
from tests.generators.chat_server import chatting
from tests.simulator.answered import QUESTION, WORDS, AnsweringLive, Counted, answering_on
from tests.simulator.clients import client_of
from tests.simulator.provider import Asker, TrigramEmbedder, newest

pytestmark = pytest.mark.slow


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


def test_an_answer_s_text_is_always_one_that_can_be_sent() -> None:
    text = written(Surrogates(), WORDS, QUESTION, [Returned(0, True)], "")
    assert text.startswith("copper xx")
    assert len(text.encode()) == MAX_ANSWER_BYTES


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


def test_a_client_s_time_out_begins_when_an_answer_is_due(tmp_path: Path) -> None:
    live = AnsweringLive(tmp_path, answered_by=6, timer=Timer())
    try:
        own = live.address, live.account(), live.log_key, TrigramEmbedder()
        with client_of(*own, timeout=4.0) as client:
            assert client.ask(QUESTION, answer=True).record.seq == 0
    finally:
        live.end()

# SPDX-License-Identifier: GPL-3.0-or-later
"""What one document counts for in an answer by the built-in generator, whatever other documents there are.

docs/proofs/answers.md, section 2, rests on it: where others decide whether a document is late, one document more moves
more than its own keywords.  SPEC A.14.3, A.14.7.5.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from ragseal.generators import Sentences
from ragseal.kernel.attestation import Record
from ragseal.kernel.errors import TransportError
from ragseal.prover.attestation import worded
from ragseal.prover.attestation.answers import secrets_of_record
from ragseal.prover.attestation.retrieval import COUNT
from ragseal.prover.commitment.corpora import Document
from ragseal.prover.commitment.documents import Put, apply
from ragseal.prover.provider.backends import Environment
from ragseal.prover.serving.serving import Serving
from ragseal.runtime.timer import Timer
from tests.simulator.answered import QUESTION, SHAPE, WORDS, answering_provider, answers_policy
from tests.simulator.instants import Instants
from tests.simulator.provider import TRIGRAMS, Asker, embed_with, newest, open_window, serving_on

pytestmark = pytest.mark.slow

BY = 2  #: seconds, of the policy: 0.8 of them are for documents
REST = " ".join(f"Nothing new of number {i} is known as of today, nor was it ever." for i in range(200))
MINE = Document("mine", f"The report says: copper of this topic. {REST}")


def others(count: int) -> list[Document]:
    return [Document(f"other-{i}", f"The report says: word{24 + i} of this topic. {REST}") for i in range(count)]


def counted(serving: Serving, record: Record) -> dict[str, int]:
    counts = np.frombuffer(secrets_of_record(serving.provider.state, record).counts, dtype=COUNT)
    return {word: int(count) for word, count in zip(WORDS.words, counts, strict=False) if count}


def answered(folder: Path, documents: Sequence[Document], timer: Timer, asked: int = 1) -> list[dict[str, int] | None]:
    """What was counted for carol's question over these documents beside her tenant's own; None: it was refused."""

    async def run() -> list[dict[str, int] | None]:
        provider = answering_provider(folder, timer=timer)
        apply(provider.state, "globex", map(Put, documents), embed_with(TRIGRAMS), Environment().draw, SHAPE)
        provider.commit(answers_policy(answered_by=BY), "w1")
        found: list[dict[str, int] | None] = []
        async with serving_on(provider) as serving:
            await open_window(serving)
            asker = Asker("carol", serving)
            message = asker.message(QUESTION)
            signed = asker.request(message, await asker.prepare(message))
            for _ in range(asked):
                try:
                    await asker.retrieve(signed)
                except TransportError:
                    assert not newest(serving).records
                    found.append(None)
                    continue
                [index] = newest(serving).records
                found.append(counted(serving, Record.decode(serving.journal.data(index))))
        return found

    return asyncio.run(run())


@pytest.mark.parametrize("count", [0, 70])
def test_a_document_counts_for_the_same_however_many_others_take_part(tmp_path: Path, count: int) -> None:
    [found] = answered(tmp_path / "p", [MINE, *others(count)], Timer())
    assert found is not None
    [without] = answered(tmp_path / "q", others(count), Timer())
    assert without is not None
    assert found == {**without, "copper": without["copper"] + 1}
    assert sum(without[f"word{24 + i}"] for i in range(count)) == count, "all of them take part"


def test_no_clock_takes_a_document_out_of_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work that is not done in time refuses the request, as all other work does; sent again, all documents count."""
    instants, real = Instants(), Sentences.chosen
    whole = answered(tmp_path / "p", [MINE, *others(20)], instants.timer)

    def slow(self: Sentences, question: str) -> list[int]:
        instants.now += BY
        return real(self, question)

    monkeypatch.setattr(Sentences, "chosen", slow)
    assert answered(tmp_path / "q", [MINE, *others(20)], instants.timer, asked=2) == [None, *whole]


def test_a_question_is_compared_with_every_document_whichever_take_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[int] = []
    real = Sentences.chosen

    def seen(self: Sentences, question: str) -> list[int]:
        compared.append(len(self))
        return real(self, question)

    monkeypatch.setattr(Sentences, "chosen", seen)
    monkeypatch.setattr(worded, "near_documents", lambda *_: [])
    [found] = answered(tmp_path / "p", others(5), Instants().timer)
    assert found == {}
    assert 24 + 5 in compared

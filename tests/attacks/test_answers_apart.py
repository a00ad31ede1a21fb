# SPDX-License-Identifier: GPL-3.0-or-later
"""What one document counts for in an answer by the built-in generator, whatever other documents there are.

docs/proofs/answers.md, section 2, rests on it: where others decide whether a document is late, one document more moves
more than its own keywords.  SPEC A.14.3, A.14.7.5.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ragseal.generators import Sentences
from ragseal.generators.sentences import MAX_READ
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


def test_reading_an_index_takes_none_of_a_request_s_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes as long as all texts are long, and comes before the first request over the index is admitted."""
    instants, real = Instants(), Sentences.__init__

    def slow(self: Sentences, texts: Iterable[str], most: int = MAX_READ) -> None:
        instants.now += BY
        real(self, texts, most)

    monkeypatch.setattr(Sentences, "__init__", slow)
    [found] = answered(tmp_path / "p", [MINE], instants.timer)
    assert found is not None
    assert found["copper"]


@pytest.mark.parametrize(("seconds", "steps"), [(0.1, 1), (1.9, 1), (2.1, 2)])
def test_how_long_an_index_is_read_moves_no_instant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, steps: int
) -> None:
    """Reading takes longer with longer texts, and the first account over a version sees when its answer comes."""
    instants, real = Instants(), Sentences.__init__

    def slow(self: Sentences, texts: Iterable[str], most: int = MAX_READ) -> None:
        instants.now += seconds if most == MAX_READ else 0
        real(self, texts, most)

    monkeypatch.setattr(Sentences, "__init__", slow)
    assert answered(tmp_path / "p", [MINE], instants.timer) != [None]
    assert instants.now == pytest.approx(steps * BY + BY)


def test_who_asks_while_an_index_is_read_goes_on_with_the_first(tmp_path: Path) -> None:
    """Else the second one would see when reading was over."""
    now, begun = [0.0], []

    class Read:
        @cached_property
        def sentences(self) -> int:
            now[0] += 0.3
            return 1

    async def run() -> list[float]:
        let_go = asyncio.Event()

        async def pause(seconds: float) -> None:
            await let_go.wait()
            now[0] += seconds

        timer, version = Timer(lambda: now[0], pause), Read()
        job: Any = SimpleNamespace(
            opened=SimpleNamespace(policy=answers_policy(answered_by=BY)),
            version=version,
            message=SimpleNamespace(request=SimpleNamespace(index_digest=b"i")),
        )
        async with serving_on(answering_provider(tmp_path / "p", timer=timer)) as serving:

            async def one(came: float) -> None:
                await serving.attestation.worded.read(job, came)
                begun.append(now[0])

            first = asyncio.create_task(one(0.0))
            while "sentences" not in vars(version):
                await asyncio.sleep(0.001)
            second = asyncio.create_task(one(0.3))
            await asyncio.sleep(0.1)
            assert begun == []
            let_go.set()
            await asyncio.gather(first, second)
            await one(now[0])  # it is read: nobody waits any more
        return begun

    assert asyncio.run(run()) == [pytest.approx(BY)] * 3

# SPDX-License-Identifier: GPL-3.0-or-later
"""What else than documents could hold an erased one: words of answers, counts of them, and the provider's own log."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragseal.kernel.errors import AuditError
from ragseal.prover.commitment.corpora import Document
from ragseal.prover.wire.operator_remote import Remote
from ragseal.runtime.logs import JsonFormatter
from tests.simulator import answered
from tests.simulator.answered import QUESTION, AnsweringLive
from tests.simulator.live import live
from tests.simulator.marked import MARK, found_in, marks, texts

pytestmark = pytest.mark.slow

NAME = "acme-marked-id-77"


@pytest.fixture
def answering(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AnsweringLive]:
    """An open window of the claim answers, one tenant of which has the marked document."""
    without = answered.documents

    def documents(tenant: str, count: int = 24) -> list[Document]:
        return [*without(tenant, count - 1), Document(f"{tenant}-marked-id-77", f"{tenant} {MARK}")]

    monkeypatch.setattr(answered, "documents", documents)
    made = AnsweringLive(tmp_path)
    try:
        yield made
    finally:
        made.end()


def test_words_of_answers_go_and_counts_of_a_document_do_not_name_it(answering: AnsweringLive) -> None:
    folder, state = answering.folder / "provider", answering.provider.state
    with answering.client() as client:
        for question in (QUESTION, f"what is {MARK}"):
            client.ask(question)
    answering.clock.now += 600
    answering.end_window()
    before = answering.audited()
    assert before.verdict == "PASS", before.line()
    counts = state.rows("SELECT * FROM participations ORDER BY document")
    assert counts
    with Remote(folder) as there:
        there.erase_document("acme", NAME, "art. 17")
        assert {needle for _, needle in found_in(folder, *marks())} == set(marks())
        there.retire("w1", True, False, lambda *_: None)
        (listed,) = there.list_erasures("", NAME).values["erasures"]
    assert listed["purged"] is not None
    assert found_in(folder, *marks()) == []
    assert state.rows("SELECT * FROM participations ORDER BY document") == counts  # the filter counts on (A.14.4)
    assert answering.audited().line() == before.line()


def test_neither_form_of_the_log_names_what_is_erased(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "ragseal")
    with live(tmp_path, texts=texts) as made:
        with made.client(name="alice") as client:
            client.ask(f"acme {MARK}")
        with Remote(made.folder / "provider") as there:
            there.put_documents("acme", [Document("acme-marked-id-77", f"acme {MARK}, changed")], lambda *_: None)
            there.erase_document("acme", NAME, "art. 17")
            with pytest.raises(AuditError):
                there.erase_document("acme", NAME + "-of-nobody", "art. 17")
            made.clock.now += 600
            made.end_window()
            there.retire("w1", True, False, lambda *_: None)
    logged = [record for record in caplog.records if record.name.startswith("ragseal")]
    assert logged
    for formatter in (JsonFormatter(), logging.Formatter()):
        said = "\n".join(map(formatter.format, logged))
        for needle in (MARK, NAME):
            assert needle not in said

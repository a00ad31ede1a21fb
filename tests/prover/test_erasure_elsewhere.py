# SPDX-License-Identifier: GPL-3.0-or-later
"""What else than documents could hold an erased one: words of answers, counts of them, and the provider's own log."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ragseal.kernel.errors import AttestationError, AuditError
from ragseal.prover.base.check_report import Report
from ragseal.prover.commitment.corpora import Document
from ragseal.prover.wire.operator_remote import Remote
from ragseal.runtime.logs import JsonFormatter
from tests.prover.erasure_scene import examine_coined, silent
from tests.simulator import answered
from tests.simulator.answered import QUESTION, AnsweringLive
from tests.simulator.live import live
from tests.simulator.marked import MARK, found_in, marks, texts
from tests.simulator.ticking import Ticking, ticking

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


# A document is erased while its window's index changes on a tick. SPEC A.12, G.12, G.13.


def folder_of(made: Ticking) -> Path:
    return made.folder / "provider"


def erase(made: Ticking) -> None:
    with Remote(folder_of(made)) as there:
        there.erase_document("acme", NAME, "art. 17")


def listed(made: Ticking) -> Any:
    with Remote(folder_of(made)) as there:
        (found,) = there.list_erasures("acme", NAME).values["erasures"]
    return found


@pytest.mark.parametrize("coins", [False, True])
def test_out_with_the_next_version_and_gone_with_the_window(tmp_path: Path, coins: bool) -> None:
    with ticking(tmp_path, coins=coins, texts=texts, n_max=6) as live, live.client() as client:
        client.ask(f"acme {MARK}")
        erase(live)
        assert listed(live)["out_of_answers"] is None  # a request that is under way may still be answered
        live.tick()
        assert NAME not in [one.id for one in client.ask(f"acme {MARK}").ranked]
        assert listed(live)["out_of_answers"] is None
        second = live.tick()
        assert listed(live)["out_of_answers"] == second.time
        assert [one["window"] for one in listed(live)["waits_for"]] == [live.window.manifest.window]
        live.clock.now += 60
        live.end_window()
        before = live.audited()
        assert before.verdict == "PASS", before.line()
        assert found_in(folder_of(live), *marks())
        with Remote(folder_of(live)) as there:
            assert there.retire(live.window.manifest.window, True, False, silent).values["purged"] is True
        assert found_in(folder_of(live), *marks()) == []
        assert listed(live)["purged"]
        tenant = live.window.manifest.tenants[0].tenant
        with pytest.raises(AttestationError, match="retired"):  # not from memory either
            live.provider.windows.of(live.window.digest).version(tenant, live.updates[-1].index_digest(tenant))
        after = live.audited()
        assert after.line() == before.line()
    assert problems(folder_of(live)) == []
    damage(folder_of(live), live.updates[0].number)
    assert any("version 1 of the columns of tenant 'acme' is not what the log names" in one for one in
               problems(folder_of(live)))  # fmt: skip


def problems(folder: Path) -> list[str]:
    found: Report = examine_coined(folder)
    return found.findings


def damage(folder: Path, number: int) -> None:
    with sqlite3.connect(folder / "state.db") as db:
        other = db.execute("SELECT public FROM versions WHERE number = ? AND tenant = 'acme'", (number + 1,)).fetchone()
        db.execute("UPDATE versions SET public = ? WHERE number = ? AND tenant = 'acme'", (*other, number))


def test_a_version_that_waits_for_its_entry_is_made_anew_without_it(tmp_path: Path) -> None:
    with ticking(tmp_path, texts=texts) as live:
        ticks = live.server.serving.ticks
        ticks._publish = 60.0  # so a version that is made waits for the coarse tick
        live.clock.now += 60
        live.call(ticks.step())
        erase(live)
        live.call(ticks.publish())
        assert len(live.updates) == 1  # nothing waits any more
        live.call(ticks.step())
        live.call(ticks.publish())
        assert len(live.updates) == 2
        held = live.provider.windows.of(live.window.digest).version("acme", live.updates[-1].index_digest("acme"))
        assert NAME not in {content.id for content in held.texts.values()}
        query = "SELECT MAX(until) FROM version_texts WHERE document = ?"
        assert live.provider.state.row(query, (NAME,)) == (2,)

# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter's counts survive kill -9, and fsck notices where they do not say what the answers do.  SPEC A.14.4."""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ragseal.kernel.errors import ConfigurationError
from ragseal.prover.attestation.answers import secrets_of_record
from ragseal.prover.attestation.retrieval import COUNT
from ragseal.prover.fsck import fsck
from ragseal.prover.provider.provider import Provider
from tests.simulator.answered import QUESTION, answering_on, answering_provider
from tests.simulator.keys import ROOT
from tests.simulator.provider import Asker, serving_on

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an open window of answers, of which a document may take part in one."""
    folder = tmp_path_factory.mktemp("base") / "provider"

    async def open_one() -> None:
        async with answering_on(folder, participations=1):
            pass

    asyncio.run(open_one())
    return folder


@pytest.mark.parametrize("step", ["between", "durable"])
def test_no_kill_lets_a_document_take_part_once_more(base: Path, tmp_path: Path, step: str) -> None:
    folder = tmp_path / "provider"
    shutil.copytree(base, folder, symlinks=True)
    child = [sys.executable, "-m", "tests.crash.dying", "answers", str(folder), step]
    done = subprocess.run(child, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr

    async def go_on() -> list[int]:
        sums = []
        async with serving_on(answering_provider(folder)) as serving:
            provider = serving.provider
            for name in ("bob", "alice"):  # alice's request is the one that was cut off, byte for byte
                answer = await Asker(name, serving).ask(QUESTION)
                kept = secrets_of_record(provider.state, answer.record)
                sums.append(int(np.frombuffer(kept.counts, dtype=COUNT).sum()))
            report = fsck.examine(provider, True)
            assert not report.findings, report.findings
        return sums

    sums = asyncio.run(go_on())
    assert sorted(sums)[0] == 0 < sorted(sums)[1], sums  # in one of the two answers, never in both
    assert (sums[1] > 0) == (step != "between")  # what was durable is answered as it was


# --- fsck ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    """A provider whose documents took part in two answers of at most three."""
    folder = tmp_path_factory.mktemp("answered") / "provider"

    async def ask() -> None:
        async with answering_on(folder, participations=3) as serving:
            for name in ("alice", "bob"):
                await Asker(name, serving).ask(QUESTION)

    asyncio.run(ask())
    provider = answering_provider(folder)
    yield provider
    provider.close()


def found(provider: Provider, whole: bool, *damage: str) -> str:
    """What fsck says of a damaged database, which is sound again afterwards."""
    saved = {table: provider.state.rows(f"SELECT * FROM {table}") for table in ("participations", "erasing")}
    with provider.state.transaction() as db:
        for statement in damage:
            db.execute(statement)
    report = fsck.examine(provider, whole)
    with provider.state.transaction() as db:
        for table, rows in saved.items():
            db.execute(f"DELETE FROM {table}")
            db.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * 3)})", rows)
    return "\n".join(report.findings)


ONE = "rowid = (SELECT MIN(rowid) FROM participations)"


def test_sound_counts_are_sound(answered: Provider) -> None:
    assert found(answered, True) == ""
    rows = answered.state.rows("SELECT answers FROM participations")
    assert {answers for (answers,) in rows} == {2}
    assert len(rows) == 24


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("DELETE FROM participations", "0 are counted"),
        ("UPDATE participations SET answers = 1 WHERE rowid % 4 > 0", "show at least"),
        (f"UPDATE participations SET answers = 3 WHERE {ONE}", "1 documents are counted in more than 2 answers"),
        ("DELETE FROM erasing", "counted under a key that is gone"),
    ],
)
def test_a_start_refuses_counts_that_cannot_be(answered: Provider, damage: str, said: str) -> None:
    assert said in found(answered, False, damage)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (f"UPDATE participations SET answers = 1 WHERE {ONE}", "1 documents took part in more answers than are count"),
        (f"DELETE FROM participations WHERE {ONE}", "1 documents took part in more answers than are counted"),
        (f"UPDATE participations SET document = x'{'00' * 32}' WHERE {ONE}", "1 documents are counted in more answers"),
    ],
)
def test_a_whole_pass_finds_every_count_that_is_not_what_the_records_make_it(
    answered: Provider, damage: str, said: str
) -> None:
    assert said in found(answered, True, damage)


def test_a_folder_without_its_counts_is_not_served(answered: Provider) -> None:
    with answered.state.transaction() as db:
        rows = db.execute("SELECT * FROM participations").fetchall()
        db.execute("DELETE FROM participations")
    try:
        with pytest.raises(ConfigurationError, match="this state is damaged"):
            fsck.check_start(answered)
    finally:
        with answered.state.transaction() as db:
            db.executemany("INSERT INTO participations VALUES (?, ?, ?)", rows)

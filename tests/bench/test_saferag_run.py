# SPDX-License-Identifier: GPL-3.0-or-later
"""SafeRAG as a whole: every stage against every retriever, ragseal's retrieval, commitments, and the command."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from bench.experiment import RESULTS
from bench.remembering import Remembering
from bench.saferag import __main__ as command
from bench.saferag import commitments, data, report, sealed
from bench.saferag.filters import FILTERS, filters
from bench.saferag.injection import DEFAULT, STAGES, Strength
from bench.saferag.judge import TextJudge
from bench.saferag.pipeline import COMMITTED, RETRIEVERS, SEALED, Pipeline
from bench.saferag.retrievers import PUBLIC, SentenceReranker
from ragseal.generators import ExtractiveGenerator, Generator
from ragseal.kernel.errors import ConfigurationError, LedgerError, TransportError
from ragseal.ledger.merkle import verify_inclusion
from tests.classes import DECOYS
from tests.generators.chat_server import chatting
from tests.simulator.provider import TRIGRAMS

pytest.importorskip("bm25s")
pytestmark = pytest.mark.slow

MECHANISM = sealed.Mechanism(DECOYS, 3000, 10, 1 << 16, 0, math.inf)
SHIPPED = data.load()
SMALL = replace(SHIPPED, tasks=tuple(replace(task.first(2), base=task.base[:24]) for task in SHIPPED.tasks))
EMBEDDER = Remembering(TRIGRAMS)


def bench(generator: Generator | None = None, found: data.Dataset = SMALL, **changes: Any) -> Pipeline:
    made = Pipeline(
        found, EMBEDDER, generator or ExtractiveGenerator(EMBEDDER, 3), TextJudge(), filters(EMBEDDER, None),
        SentenceReranker(EMBEDDER), MECHANISM, DEFAULT, 2,
    )  # fmt: skip
    return replace(made, **changes)


def cell(attack: str, stage: str, retriever: str = "dense", one: str = "off") -> dict[str, str]:
    return {"attack": attack, "stage": stage, "retriever": retriever, "filter": one}


# --- stages ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("attack", data.TASKS)
def test_attack_texts_reach_the_generator_where_and_only_where_they_are_injected(attack: str) -> None:
    made, strength = bench(), DEFAULT[attack]
    for retriever in PUBLIC:
        assert not any(set(o.read) & set(o.item.attacks) for o in made.outcomes(cell(attack, "none", retriever)))
        for stage in ("retrieved", "filtered"):
            for one in made.outcomes(cell(attack, stage, retriever)):
                assert one.read[: strength.injected] == one.injected == one.item.attacks[: strength.injected]
                assert len(one.read) == strength.top
    whole = bench(strengths={attack: Strength(26, 0.01)})  # all 24 contexts and one attack text a question
    for one in whole.outcomes(cell(attack, "index")):
        assert set(one.read) == {*made.task(attack).base, *(i.attacks[0] for i in made.task(attack).items)}


def test_what_is_injected_behind_a_filter_meets_none() -> None:
    class Nothing:
        name = "keeps nothing"

        def keep(self, question: str, passages: Any) -> list[Any]:
            return []

    made = bench(filters=dict.fromkeys(FILTERS, Nothing()))
    assert all(o.read == o.injected for o in made.outcomes(cell("SA", "filtered")))
    for stage in ("none", "index", "retrieved"):
        assert all(o.read == () and "Nothing is known" in o.answer for o in made.outcomes(cell("SA", stage)))


def test_a_question_asked_with_too_few_documents_is_refused() -> None:
    few = replace(SMALL, tasks=(replace(SMALL.tasks[0], base=SMALL.tasks[0].base[:3]),))
    for retriever in RETRIEVERS:
        with pytest.raises(ConfigurationError, match="6 contexts are to be retrieved from an index of 3"):
            bench(found=few).measure(cell("SN", "none", retriever))


def test_a_model_that_is_away_or_returns_nothing_ends_the_run_with_the_reason() -> None:
    with chatting() as server:
        asked = command.ChatAnswers(server.generator(attempts=1))
        assert bench(asked).measure(cell("SA", "none"))["answers"] == 2
        server.away = True
        with pytest.raises(TransportError):
            bench(asked).measure(cell("SA", "none"))

    class Mute:
        name = "mute"

        def answer(self, question: str, contexts: Any, keywords: Any = ()) -> str:
            return " "

    with pytest.raises(TransportError, match="mute returns nothing to 'What is known"):
        bench(Mute()).measure(cell("SA", "none"))


def test_a_served_model_gets_question_and_texts_and_all_of_its_answer_counts() -> None:
    said: list[str] = []

    def say(system: str, user: str) -> str:
        said.append(user)
        return user

    with chatting(say) as server:
        made = bench(command.ChatAnswers(server.generator()))
        found = made.measure(cell("WDoS", "retrieved"))
        assert found["repaired"]["afr"] == 0
        assert len(said) == 2
        made.measure(cell("WDoS", "retrieved"))
        assert len(said) == 2  # the same question over the same texts is asked once
    assert all("Question: " in user and "Text 2:" in user for user in said)


# --- ragseal's retrieval ---------------------------------------------------------------------------------------------


def test_decoys_are_of_the_draw_and_the_same_for_every_stage_and_filter() -> None:
    made = bench()
    for name in (SEALED, COMMITTED):
        reads = [[o.read for o in made.outcomes(cell("ICC", "none", name))] for _ in range(2)]
        assert reads[0] == reads[1]
        assert len(reads[0]) == 2 * 2  # items, draws
    again = bench().outcomes(cell("ICC", "none", SEALED))
    assert [o.read for o in again] == reads[0]
    few = replace(MECHANISM, ids=2)
    one, other = (
        [o.read for o in bench(mechanism=few, seed=seed, draws=6).outcomes(cell("SN", "none", SEALED))]
        for seed in (1, 2)
    )
    assert one != other


def test_ragseals_retrieval_returns_flagged_documents_only_in_the_accounts_order() -> None:
    index = sealed.SealedIndex(SMALL.tasks[0].base, EMBEDDER, MECHANISM)
    question = SMALL.tasks[0].items[0].question
    y = index.scores(question)
    for window in (index.window(np.random.default_rng(seed)) for seed in range(20)):
        slots = window.slots(question)
        assert len(slots) <= DECOYS.room
        assert [int(y[s]) for s in slots] == sorted((int(y[s]) for s in slots), reverse=True)
        assert all(y[s] > MECHANISM.lo and s < len(index.contexts) for s in slots)


def test_a_hidden_slot_is_never_returned_and_decoys_take_places() -> None:
    index = sealed.SealedIndex(SMALL.tasks[0].base, EMBEDDER, replace(MECHANISM, hidden=256))
    question = SMALL.tasks[0].items[0].question
    assert all(not index.window(np.random.default_rng(seed)).slots(question) for seed in range(5))
    index = sealed.SealedIndex(SMALL.tasks[0].base, EMBEDDER, replace(MECHANISM, ids=2))
    assert len({tuple(index.window(np.random.default_rng(seed)).slots(question)) for seed in range(30)}) > 1


def test_settings_of_the_mechanism_that_cannot_be_are_refused() -> None:
    for lo in (1.5, -0.3):
        with pytest.raises(ConfigurationError, match="matches above a cosine from 0 to 1"):
            sealed.mechanism(10, lo)
    with pytest.raises(ConfigurationError, match="61 contexts"):
        sealed.SealedIndex([f"text {i}" for i in range(61)], EMBEDDER, MECHANISM)


# --- an index that was committed before ------------------------------------------------------------------------------


def test_an_index_committed_before_holds_no_attack_and_a_forged_answer_is_refused() -> None:
    made = bench()
    for attack in data.TASKS:
        before = [o.read for o in made.outcomes(cell(attack, "none", COMMITTED))]
        assert [o.read for o in made.outcomes(cell(attack, "index", COMMITTED))] == before
        assert all(o.read == () for o in made.outcomes(cell(attack, "retrieved", COMMITTED)))
        own = made.outcomes(cell(attack, "filtered", COMMITTED))  # on the account's machine nothing is refused
        assert all(o.read[: len(o.injected)] == o.injected for o in own)


def test_without_the_check_of_texts_the_forged_answer_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commitments, "verify_inclusion", lambda *_: None)
    assert all(set(o.injected) <= set(o.read) for o in bench().outcomes(cell("SA", "retrieved", COMMITTED)))


def told(attacks: list[str], secret: bytes = b"s", clean: int = 12) -> commitments.Told:
    base = SMALL.tasks[0].base[:clean]
    return commitments.timeline(base, attacks, EMBEDDER, 16, commitments.stream(secret))


def test_a_log_shows_which_version_was_poisoned_and_an_opening_shows_where() -> None:
    found = told(["an attack text", "another one"])
    assert found == commitments.Told(
        entries=3, first_poisoned=3, time=120, digests_differ=True, old_opening_holds=True,
        old_opening_opens_the_poisoned=False, poisoned_under_old_blinders=False, unchanged_digests_differ=True,
        changed_slots=(12, 13),
    )  # fmt: skip
    assert told(["an attack text", "another one"]) == found


@pytest.mark.parametrize("part", ["matrix", "blinders", "secret", "texts"])
def test_an_opening_holds_for_no_other_content(part: str) -> None:
    version = commitments.commit(SMALL.tasks[0].base[:5], EMBEDDER, 8, commitments.stream(b"o"))
    opened = commitments.Opened.of(version)
    assert opened.opens(version)
    other = commitments.Opened.of(
        commitments.commit(SMALL.tasks[1].base[:5], EMBEDDER, 8, commitments.stream(b"other"))
    )
    assert not replace(opened, **{part: getattr(other, part)}).opens(version)


def test_an_account_accepts_the_committed_text_in_its_slot_and_nothing_else() -> None:
    version = commitments.commit(SMALL.tasks[0].base[:5], EMBEDDER, 8, commitments.stream(b"o"))
    served = commitments.Served(version)
    for slot, other in itertools.product(range(5), repeat=2):
        assert served.accepts(slot, version.open_text(other)) == (slot == other)
    assert not served.accepts(2, commitments.forged(version, 2, "an attack text"))
    real = version.open_text(2)
    assert not served.accepts(2, replace(real, salt=bytes(32)))
    assert not served.accepts(2, replace(real, path=real.path[:-1]))
    with pytest.raises(LedgerError):
        verify_inclusion(bytes(32), 0, 8, real.path, version.updated.text_root)


# --- the command -----------------------------------------------------------------------------------------------------


def test_the_quick_run_measures_everything_and_draws_it(tmp_path: Path) -> None:
    out = tmp_path / "saferag.json"
    args = ["--quick", "--items", "2", "--draws", "1", "--attack", "ICC", "--attack", "SA", "--out", str(out)]
    done = CliRunner().invoke(command.main, args)
    assert done.exit_code == 0, done.output
    found = json.loads(out.read_text())
    assert {"processor", "cores", "python"} <= set(found["machine"])
    assert len(found["cells"]) == 2 * (1 + len(STAGES)) * len(RETRIEVERS) * len(FILTERS)
    assert all(len(c["items"]) == 2 for c in found["cells"])
    assert (tmp_path / "saferag.png").stat().st_size > 10_000
    by = {tuple(c["cell"].values()): c["repaired"] for c in found["cells"]}
    for attack in ("ICC", "SA"):
        assert by[attack, "none", "hybrid", "off"]["afr"] == 1
        assert by[attack, "filtered", "hybrid", "off"]["afr"] == 0  # the extractive answerer says what it reads
        assert by[attack, "index", COMMITTED, "off"]["afr"] == 1
    assert found["commitment"]["first_poisoned"] == 3
    assert "does not agree" in done.output or "agrees" in done.output


def test_two_runs_of_one_seed_measure_the_same() -> None:
    some = [cell("ICC", s, r, f) for s in ("index", "retrieved") for r in ("hybrid-rerank", SEALED) for f in FILTERS]
    assert [bench().measure(c) for c in some] == [bench().measure(c) for c in reversed(some)][::-1]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--data", "/nowhere"], "holds neither"), (["--share", "2"], "a share of 2.0"),
        (["--model", "m"], "takes both"), (["--judge", "model"], "needs --chat"), 
        (["--embedder", "x"], "unknown embedder"),
        (["--chat", "ftp://x", "--model", "m"], "chat URL"),
    ],
)  # fmt: skip
def test_the_command_refuses_what_it_cannot_do(args: list[str], said: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(
        command.main, [*args, "--quick", "--out", str(tmp_path / "r.json")], env={"RAGSEAL_CHAT_URL": None}
    )
    assert done.exit_code == 1
    assert done.output.startswith("Error: ")
    assert said in done.output
    assert not list(tmp_path.iterdir())


# --- the page --------------------------------------------------------------------------------------------------------


def test_the_page_shows_the_kept_results_of_the_shipped_set() -> None:
    found = json.loads((RESULTS / "saferag.json").read_text())
    assert found["setting"]["data_digest"] == SHIPPED.digest
    page = (RESULTS.parent / "experiments.md").read_text()
    part = page.partition("<!-- begin saferag -->")[2].partition("<!-- end saferag -->")[0]
    assert report.report(found) in part
    assert len(found["cells"]) == len(bench(found=SHIPPED).cells())


def test_a_strength_of_ones_own_is_kept() -> None:
    assert command._strength(Strength(2, 0.5), 4, None) == Strength(4, 0.5)
    assert command._strength(Strength(2, 0.5), None, 0.25) == Strength(2, 0.25)

# SPDX-License-Identifier: GPL-3.0-or-later
"""The benchmark of private answers: metrics by hand, files of questions, and a small run over a served model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from bench import dpksa
from bench.answer_files import Asked, made_up, read_questions
from bench.answer_metrics import f1, levenshtein, rouge_1, rouge_l, scores
from bench.answered import Index, answer_all
from bench.experiment import RESULTS
from bench.remembering import Remembering
from ragseal.accounting.keyword_release import ReleaseCost
from ragseal.embedder.interface import Vectors
from ragseal.kernel.errors import ConfigurationError, TransportError
from ragseal.prover.answers.release import Range
from tests.generators.chat_server import ChatServer, chatting

# --- metrics ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "reference", "expected"),
    [
        # F1, ROUGE-1, ROUGE-L, Levenshtein
        ("The Imperial Family", "the imperial family!", (1, 1, 1, 19 / 20)),
        ("family imperial", "imperial family", (1, 1, 1 / 2, None)),
        ("the imperial family", "the family", (2 / 3, 4 / 5, 4 / 5, 10 / 19)),
        ("the imperial family lives", "imperial court", (2 * 1 / 5, 2 / 6, 2 / 6, None)),
        ("family family", "family", (2 / 3, 2 / 3, 2 / 3, 6 / 13)),
        ("kitten", "sitting", (0, 0, 0, 4 / 7)),
        ("", "family", (0, 0, 0, 0)),
        ("the", "an", (1, 0, 0, 0)),  # nothing but articles on either side
        ("", "", (1, 1, 1, 1)),
        ("1,000 Straße", "1 000 STRASSE", (1, 1, 1, 12 / 13)),
    ],
)  # fmt: skip
def test_metrics_by_hand(answer: str, reference: str, expected: Sequence[float | None]) -> None:
    for metric, value in zip((f1, rouge_1, rouge_l, levenshtein), expected, strict=True):
        if value is not None:
            assert metric(answer, reference) == pytest.approx(value)
        assert metric(answer, reference) == metric(reference, answer)


def test_each_metric_takes_the_reference_it_likes_best() -> None:
    found = scores("imperial family", ["the court", "family", "imperial  family"])
    assert found == {"F1": 1, "ROUGE-1": 1, "ROUGE-L": 1, "Levenshtein": 1}


# --- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "match"),
    [("", "no question with an answer"), ('{"question": "q", "answer": []}', "no question with an answer"),
     ("{", "line 1 is no JSON"), ('{"question": "q", "answer": ["a"]}\n[' + "[" * 100_000, "line 2 is no JSON"),
     ("[]", "names no question"), ('{"answer": ["a"]}', "names no question"),
     ('{"question": " ", "answer": ["a"]}', "names no question"),
     ('{"question": "q"}', "no list of answers"), ('{"question": "q", "answer": "a"}', "no list of answers"),
     ('{"question": "q", "answer": [1]}', "no list of answers"),
     ('{"question": "q", "answer": ["\\ud800"]}', "surrogate"),
     ('{"question": "' + "q" * 10_001 + '", "answer": ["a"]}', "more than 10000")],
)  # fmt: skip
def test_files_that_are_no_questions_are_refused(tmp_path: Path, text: str, match: str) -> None:
    path = tmp_path / "questions.jsonl"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=match):
        read_questions(path)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "bad").write_bytes(b"\xff\xfe")
    for name in ("missing", "bad"):
        with pytest.raises(ConfigurationError, match=f"{name} cannot be read"):
            read_questions(tmp_path / name)


def test_questions_without_a_reference_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "questions.jsonl"
    lines = [
        {"question": "a", "answer": []},
        {"question": "b", "answer": ["x", " "]},
        {"question": "c", "answer": ["y"]},
    ]
    path.write_text("\n".join(map(json.dumps, lines)) + "\n\n")
    assert read_questions(path) == (Asked("b", ("x",)), Asked("c", ("y",)))
    assert read_questions(path, 1) == (Asked("b", ("x",)),)


def test_a_made_up_world_says_more_and_more_often_what_is_right() -> None:
    asked, texts = made_up(3, 40)
    assert (asked, texts) == made_up(3, 40)
    assert len(texts) == 120
    assert len(set(asked)) == 3
    right = [sum(one.answers[0] in text for text in texts) for one in asked]
    assert right[0] < right[1] < right[2] <= 40


# --- a run -----------------------------------------------------------------------------------------------------------


class Letters:
    """Vectors of letters' counts: an embedder that needs no model."""

    dimension = 26

    def __init__(self) -> None:
        self.texts = 0

    def embed(self, texts: Sequence[str], *, role: str = "document", progress: Any = None) -> Vectors:
        self.texts += len(texts)
        rows = np.array([[1 + text.lower().count(chr(97 + i)) for i in range(26)] for text in texts], dtype=np.float32)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture
def letters() -> Any:
    return Remembering(Letters())


def test_an_embedder_that_remembers_embeds_no_text_twice(letters: Any) -> None:
    told: list[tuple[int, int]] = []
    first = letters.embed(["a", "b", "a"], progress=lambda *at: told.append(at))
    assert told == [(2, 2)]
    assert np.array_equal(first, Letters().embed(["a", "b", "a"]))
    letters.embed(["b"])
    letters.embed(["b"], role="query")
    assert letters._embedder.texts == 3
    assert letters.embed([]).shape[0] == 0


def test_the_nearest_documents_come_first_and_an_empty_index_has_none(letters: Any) -> None:
    assert Index(letters, ["zzz", "abc", "cba", "aab"])("abc", 3) == ["abc", "cba", "aab"]
    assert Index(letters, [])("abc", 3) == []


def speak(system: str, user: str) -> str:
    """A model that reads: the name behind "called" or "by", or whatever keywords it is given."""
    last = user.split("\n\n")
    if "Text 1" in user:
        return next(word for word in user.split() if word[0].isupper() and len(word) > 8)
    return last[0].partition(": ")[2] if len(last) > 1 else "I do not know."


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with chatting(speak) as made:
        yield made


PLAN = dpksa.Plan((1, 30), (4, 8), 8, 2, ("Renyi",))


@pytest.mark.slow
def test_a_whole_run_over_a_served_model(server: ChatServer, letters: Any, tmp_path: Path) -> None:
    asked, texts = made_up(2, 8)
    out = tmp_path / "found.json"
    found = dpksa.experiment(out, PLAN, server.generator(), letters, asked, texts, "a test")
    assert len(found["cells"]) == len(PLAN.cells()) == 3 + 2 + 2 + 1
    by_method = {str(one["cell"]): one for one in found["cells"]}
    assert len(by_method) == 8
    for one in found["cells"]:
        assert set(one["scores"]) == {"F1", "ROUGE-1", "ROUGE-L", "Levenshtein"}
        assert all(0 <= x <= 1 for x in one["scores"].values())
        assert ("pass_rate" in one) is (one["cell"]["method"] == "DP-KSA")
    page = dpksa.report(found)
    assert "| no retrieval |" in page
    assert "2 questions, 16 documents (a test), answered by chat:small" in page
    dpksa.plot(found, tmp_path / "found.png")
    assert (tmp_path / "found.png").read_bytes()[:4] == b"\x89PNG"
    asked_for = len(server.asked)
    again = dpksa.experiment(out, PLAN, server.generator(), letters, asked, texts, "a test")  # finished cells are kept
    assert again["cells"] == found["cells"]
    assert len(server.asked) - asked_for == 2 * (2 + 8)


def test_a_test_that_always_fails_is_the_answer_without_documents(server: ChatServer, letters: Any) -> None:
    asked, texts = made_up(2, 8)
    answered = answer_all(server.generator(), Index(letters, texts), asked, 8)
    measure = dpksa.Measure(server.generator(), answered, 2)
    cell = {"method": "DP-KSA", "accountant": "Renyi", "epsilon": 1, "documents": 8}
    random = np.random.default_rng(1)
    private, without = measure(cell, random), measure({"method": "no retrieval"}, random)
    assert private["pass_rate"] == 0
    assert private["scores"] == without["scores"]


def test_a_test_that_always_passes_is_ksa(server: ChatServer, letters: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dpksa, "KS", Range(1, 1))
    monkeypatch.setattr(dpksa, "cost_of", lambda *_: ReleaseCost(Fraction(1), Fraction(1, 100), 0))
    asked = (Asked("who is it?", ("Wixbalumor",)),)
    answered = answer_all(server.generator(), Index(letters, ["It is Wixbalumor."] * 8), asked, 8)
    measure = dpksa.Measure(server.generator(), answered, 2)
    cell = {"method": "DP-KSA", "accountant": "Renyi", "epsilon": 1, "documents": 8}
    private = measure(cell, np.random.default_rng(1))
    assert (private["pass_rate"], private["keywords"]) == (1, 1)
    assert (
        private["scores"]["F1"]
        == measure({"method": "KSA", "documents": 8}, np.random.default_rng(1))["scores"]["F1"]
        == 1
    )


def test_too_few_documents_and_a_server_that_is_away_leave_nothing_behind(
    server: ChatServer, letters: Any, tmp_path: Path
) -> None:
    asked, texts = made_up(2, 8)
    out = tmp_path / "found.json"
    for some, match in ((texts[:7], "has 7 documents, a private answer takes 8"), ((), "the index is empty")):
        with pytest.raises(ConfigurationError, match=match):
            dpksa.experiment(out, PLAN, server.generator(), letters, asked, some, "a test")
    server.away = True
    with pytest.raises(TransportError, match="cannot be reached"):
        dpksa.experiment(out, PLAN, server.generator(attempts=2), letters, asked, texts, "a test")
    assert not list(tmp_path.iterdir())


def test_a_server_that_breaks_with_every_document_is_no_measurement(letters: Any) -> None:
    with chatting(lambda system, user: "" if "Text 1" in user and "Text 2" not in user else "yes") as server:
        asked, texts = made_up(1, 8)
        with pytest.raises(ConfigurationError, match=r"no document of .* was answered from: .*returns nothing"):
            answer_all(server.generator(), Index(letters, texts), asked, 8)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["--questions", "x.jsonl"], "--questions and --corpus go together"),
     (["--endpoint", "http://localhost:1/v1"], "--endpoint and --model go together"),
     (["--questions", "none.jsonl", "--corpus", "jsonl:none.jsonl"], "none.jsonl cannot be read"),
     (["--embedder", "no-such"], "unknown embedder")],
)  # fmt: skip
def test_the_command_says_what_is_wrong(arguments: list[str], said: str, tmp_path: Path) -> None:
    found = CliRunner().invoke(dpksa.main, [*arguments, "--quick", "--out", str(tmp_path / "o.json")])
    assert found.exit_code == 1
    assert said in found.output
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_quick_run_as_it_is_called(tmp_path: Path) -> None:
    found = CliRunner().invoke(dpksa.main, ["--quick", "--out", str(tmp_path / "o.json")])
    assert found.exit_code == 0, found.output
    assert "answered by extractive-1" in found.output
    rows = {
        (c["cell"]["method"], c["cell"]["documents"]): c for c in json.loads((tmp_path / "o.json").read_text())["cells"]
    }
    assert rows["KSA", 24]["scores"]["F1"] > 0.7 > rows["plain retrieval", 24]["scores"]["F1"]
    assert (tmp_path / "o.png").exists()


def test_the_page_shows_the_results_that_are_kept() -> None:
    found = json.loads((RESULTS / "dpksa.json").read_text())
    page = (RESULTS.parent / "experiments.md").read_text()
    assert dpksa.report(found) in page

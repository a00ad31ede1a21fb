# SPDX-License-Identifier: GPL-3.0-or-later
"""What the demo's answers are worth beside the best ten documents: by hand on a small index."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ragseal.demo import worth
from ragseal.demo.corpus import DemoQuery
from ragseal.demo.scenario import BEIR_QUERIES, beir_scenario, check_class, check_queries
from ragseal.kernel.errors import ConfigurationError
from tests.classes import DECOYS

TENANT = "beir"


class Index:
    """Six documents; d0 is nearest to every query, then d1, and so on."""

    def __init__(self, _: Path) -> None:
        pass

    def __enter__(self) -> Index:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def rows(self, query: str, values: tuple[str, ...]) -> list[tuple[str, bytes]]:
        assert values == (TENANT,)
        return [(f"d{i}", np.array([100 - 10 * i, 0], dtype=np.int8).tobytes()) for i in range(6)]


def answer(text: str, *documents: int) -> tuple[DemoQuery, Any]:
    """What a client makes of an answer: documents, best first."""
    return DemoQuery("ana", TENANT, text), SimpleNamespace(ranked=tuple(SimpleNamespace(id=f"d{i}") for i in documents))


def test_means_over_distinct_queries_and_over_judged_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worth, "State", Index)
    embedder: Any = SimpleNamespace(embed=lambda texts, role: np.tile(np.array([[1.0, 0.0]]), (len(texts), 1)))
    answers = [
        answer("one", 0, 2),  # both relevant ones, first and second
        answer("one", 1, 0),  # one of them, second
        answer("two"),  # nothing to read
        answer("three", 0),  # not judged
        answer("four", 0),  # judged, but no relevant document is in the index
    ]
    grades = {"one": {"d0": 1, "d2": 1}, "two": {"d1": 2}, "four": {"gone": 1}, "never asked": {"d0": 1}}
    found = worth.worth(Path("unused"), answers, grades, embedder)
    judged = found.judged
    assert judged is not None
    second, third = 1 / math.log2(3), 1 / math.log2(4)
    ideal = 1 + second
    assert (found.queries, judged.queries) == (4, 2)
    assert found.kept == pytest.approx((2 / 6 + 0 + 1 / 6 + 1 / 6) / 4)  # each answer to "one" has two of all six
    assert judged.ndcg10 == pytest.approx(((1 + second / ideal) / 2 + 0) / 2)
    assert judged.noise_free == pytest.approx(((1 + third) / ideal + second) / 2)
    assert (judged.found, judged.plainly_found) == (0.5, 1)
    assert f"nDCG@10 of 2 judged queries: {judged.ndcg10:.3f}; without noise and coin" in judged.sentence
    assert worth.worth(Path("unused"), answers[3:4], grades, embedder).judged is None


def folder_of(tmp_path: Path, queries: int, graded: int) -> Path:
    (tmp_path / "corpus.jsonl").write_text('{"_id": "a", "title": "", "text": "text"}\n')
    lines = "".join(f'{{"_id": "q{i}", "text": "question {i}"}}\n' for i in range(queries))
    (tmp_path / "queries.jsonl").write_text(lines)
    (tmp_path / "qrels").mkdir()
    rows = "".join(f"q{i}\ta\t{int(i % 2 == 0)}\n" for i in range(graded))
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + rows)
    return tmp_path


def test_judged_queries_are_asked_where_there_are_enough(tmp_path: Path) -> None:
    needed = BEIR_QUERIES
    folder = folder_of(tmp_path, 6 * needed, 2 * needed)
    plan = beir_scenario(f"beir:{folder}", DECOYS.name)
    assert len(plan.judged) == needed
    assert {query.text for query in plan.queries} == set(plan.judged)


def test_without_enough_of_them_any_are(tmp_path: Path) -> None:
    needed = BEIR_QUERIES
    plan = beir_scenario(f"beir:{folder_of(tmp_path, needed, needed)}", DECOYS.name)
    assert len(plan.judged) == needed // 2
    assert len({query.text for query in plan.queries}) == needed


def test_as_many_are_asked_as_one_likes(tmp_path: Path) -> None:
    corpus = f"beir:{folder_of(tmp_path, 60, 60)}"
    plan = beir_scenario(corpus, DECOYS.name, 30)
    assert len({query.text for query in plan.queries}) == 30
    assert len(plan.queries) == 40  # every third by two accounts
    for wrong, why in ((0, "multiple of 3"), (31, "multiple of 3"), (63, "needs 63 queries, the folder has 60")):
        with pytest.raises(ConfigurationError, match=why):
            beir_scenario(corpus, DECOYS.name, wrong)
    with pytest.raises(ConfigurationError, match="--queries is for BEIR"):
        check_queries("stdlib", None, 30)


def test_a_folder_without_judgements(tmp_path: Path) -> None:
    assert worth.judgements(tmp_path) == {}


def test_a_class_of_another_law_is_refused_before_anything_is_made() -> None:
    with pytest.raises(ConfigurationError, match="'noise-mini-two-10' holds no claim until-delivered: take one of "):
        check_class("noise-mini-two-10", "until-delivered")
    check_class("decoys-4k", "until-delivered")
    with pytest.raises(ConfigurationError, match="'decoys-4k' holds no claim every-list: take one of noise-"):
        check_class("decoys-4k", "every-list")
    check_class("noise-mini-two-10", "every-list")

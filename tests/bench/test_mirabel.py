# SPDX-License-Identifier: GPL-3.0-or-later
"""The bench of Mirabel: attacks and scores by hand, defences against the guard's own code, a quick run of all."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from bench.mirabel.__main__ import main
from bench.mirabel.attacks import IA, MBA, S2MIA, bleu, generated_questions, read_questions
from bench.mirabel.corpus import Corpus, Words, cloze, load
from bench.mirabel.defence import CLEAN, LIST, NOISED, PLAIN, RETURNED, Index, found
from bench.mirabel.measure import best_threshold, membership, rates
from bench.mirabel.report import agrees
from ragseal.kernel.errors import ConfigurationError
from ragseal.prover.commitment.guard import Rule, detect

TEXT = "Alice measured the quantum yield of seven dyes. The brightest of them was rhodamine, by a wide margin indeed."


def test_bleu_by_hand() -> None:
    reference = ["the", "cat", "sat", "on", "the", "mat"]
    assert bleu(reference, reference) == pytest.approx(1.0)
    # 3 of 3 words; pairs (2 + 1) / (2 + 1), triples (1 + 1) / (1 + 1), fours (0 + 1) / (0 + 1); shorter: e^(1 - 6/3)
    assert bleu(["the", "cat", "sat"], reference) == pytest.approx(np.exp(-1))
    # 2 of 4 words, pairs (1 + 1) / 4, triples 1 / 3, fours 1 / 2
    value = (2 / 4 * 2 / 4 * 1 / 3 * 1 / 2) ** 0.25 * np.exp(1 - 6 / 4)
    assert bleu(["the", "cat", "ran", "away"], reference) == pytest.approx(value)
    assert bleu(["dog"], reference) == bleu([], reference) == bleu(reference, []) == 0


def test_each_attack_asks_about_its_text_and_scores_what_it_is_told() -> None:
    half = S2MIA().queries("d", TEXT)[0]
    assert TEXT.startswith(half)
    assert len(half.split()) == (len(TEXT.split()) + 1) // 2
    assert S2MIA().score("d", TEXT, [TEXT]) == pytest.approx(1)
    assert S2MIA().score("d", TEXT, ["nothing of it"]) < 0.1

    masked = MBA(1).queries("d", TEXT)[0]
    hidden = masked.count("[Mask_")
    assert hidden == 4  # a third of the longer words
    assert MBA(1).queries("d", TEXT) == [masked] != MBA(2).queries("d", TEXT)
    assert MBA(1).score("d", TEXT, [TEXT]) == 1
    assert MBA(1).score("d", TEXT, ["no such words"]) == 0

    attack = IA({"alice": 1, "measured": 9})
    questions = attack.queries("d", TEXT)
    assert len(questions) == 2
    assert all("what" in question for question in questions)
    assert attack.score("d", TEXT, [TEXT, TEXT]) == 1
    assert attack.score("d", TEXT, [TEXT, "no"]) == 0.5
    told = IA({}, {"d": [("Who?", "Alice"), ("Brightest?", "rhodamine")]})
    assert told.queries("d", TEXT) == ["Who?", "Brightest?"]
    assert told.score("d", TEXT, ["It was alice.", "dunno"]) == 0.5


def test_questions_of_a_file_and_of_a_generator(tmp_path: Path) -> None:
    path = tmp_path / "ia.jsonl"
    path.write_text('{"id": "d", "question": "Who?", "answer": "Alice"}\n')
    assert read_questions(path) == {"d": [("Who?", "Alice")]}
    path.write_text('{"id": "d", "question": "Who?"}\n')
    with pytest.raises(ConfigurationError, match="line 1: needs texts"):
        read_questions(path)

    class Told:
        name = "told"

        def answer(self, question: str, contexts: list[str], keywords: tuple[str, ...] = ()) -> str:
            return "Which dye? | rhodamine\nnonsense\n| \nWho? | Alice"

    assert generated_questions(Told(), {"d": TEXT}) == {"d": [("Which dye?", "rhodamine"), ("Who?", "Alice")]}


def test_a_sentence_with_its_rarest_word_asked_for() -> None:
    asked = cloze(TEXT, {"alice": 5, "measured": 4, "quantum": 1, "yield": 3, "seven": 9, "dyes": 2})
    assert asked[0] == ("Alice measured the what yield of seven dyes.", "quantum")


def test_rates_and_membership_by_hand() -> None:
    got = rates([True, True, False, True], [False, True, False, False])
    assert got == {"accuracy": 0.75, "precision": 0.75, "recall": 0.75, "f1": 0.75}
    assert rates([False], [False])["f1"] == 0
    assert best_threshold([3, 4], [1, 2]) == 3
    told = membership([5, 5, 5, 5], [1, 1, 1, 1])
    assert (told["adjusted"], told["ks"], told["recall"]) == (0.5, 1.0, 1.0)
    none = membership([1, 2, 1, 2], [1, 2, 1, 2])
    assert (none["adjusted"], none["ks"]) == (0.0, 0.0)
    # wrong every time is as good as right every time
    assert membership([5, 5, 1, 1], [1, 1, 5, 5])["adjusted"] == 0.5
    assert agrees(0.95, (0.7, 0.8, 0.86))
    assert not agrees(0.97, (0.7, 0.8, 0.86))


def test_defences_hide_what_the_guard_finds() -> None:
    rng = np.random.default_rng(3)
    scores = rng.normal(0.3, 0.05, (40, 300)).astype(np.float32)
    scores[:20, 7] = 0.95  # too near
    index, rule = Index(scores, "words", 1), Rule(0.01)
    assert found(scores, rule).tolist() == [detect(row, rule).found for row in scores.astype(float).tolist()]
    assert found(scores, rule)[:20].all()
    listed = 0
    for query in range(20):
        assert index.seen(query, PLAIN, 3, rule).texts[0] == 7
        assert 7 not in index.seen(query, CLEAN, 3, rule).texts
        if 7 not in index.flagged(query):  # so low was its noise
            continue
        listed += 1
        assert index.seen(query, LIST, 3, rule).texts[0] == 7
        guarded = index.seen(query, RETURNED, 3, rule)
        assert guarded.withheld == 7
        assert guarded.texts == index.seen(query, LIST, 4, rule).texts[1:]
        assert set(index.near(query)) == set(index.flagged(query)), "the guard sees what is returned and flagged"
        assert len(index.flagged(query)) <= 50
        assert set(index.seen(query, NOISED, 300, rule).texts) <= set(index.flagged(query))
    assert listed >= 15
    for query in range(20, 40):
        assert index.seen(query, PLAIN, 3, rule).texts == index.seen(query, CLEAN, 3, rule).texts
        far = min(index.near(query).items(), key=lambda item: (item[1], -item[0]))[0]
        if not index.found_in_list(query, rule):
            assert index.seen(query, RETURNED, 3, rule).withheld == far


@pytest.mark.slow
def test_a_quick_run_of_all_tables(tmp_path: Path) -> None:
    out = tmp_path / "mirabel.json"
    done = CliRunner().invoke(main, ["--quick", "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert "Table 1" in done.output
    (one,) = json.loads(out.read_text())["cells"]
    assert out.with_suffix(".png").stat().st_size > 1000
    for name in ("S2MIA", "MBA"):
        assert one["detection"][name]["precise"]["table8"]["recall"] > 0.9
        assert one["attacks"][name]["no guard"]["adjusted"] > one["attacks"][name]["list, returned"]["adjusted"]
        low, high = (one["rho"][name][rho]["paper"]["recall"] for rho in ("0.001", "0.2"))
        assert low <= high
    assert one["attacks"]["IA"]["list, returned"]["by_slot"]["adjusted"] > 0.2, "slot numbers go on telling"
    assert str(tmp_path) not in out.read_text()


def test_bad_input_is_refused(tmp_path: Path) -> None:
    def said(*arguments: str) -> str:
        done = CliRunner().invoke(main, ["--quick", "--out", str(tmp_path / "m.json"), *arguments])
        assert done.exit_code != 0
        assert "Traceback" not in done.output
        return done.output

    assert "there is no corpus" in said("--corpus", "wikipedia")
    said("--corpus", f"beir:{tmp_path}")
    assert "between 0 and 1" in said("--rho", "2")
    assert "needs --model" in said("--chat", "http://127.0.0.1:1")
    (tmp_path / "q.jsonl").write_text("[1]\n")
    assert "no object" in said("--questions", str(tmp_path / "q.jsonl"))
    (tmp_path / "q.jsonl").write_text('{"question": "x", "answer": "y"}\n')
    assert "NQ-open" in said("--questions", str(tmp_path / "q.jsonl"))
    assert "cannot read" in said("--questions", str(tmp_path / "none.jsonl"))
    assert not (tmp_path / "m.json").exists()


@pytest.mark.slow
def test_a_file_of_questions_takes_the_place_of_made_ones(tmp_path: Path) -> None:
    path = tmp_path / "nq.jsonl"
    path.write_text('{"question": "who wrote it", "answer": ["Ada", "Lovelace"]}\n')
    corpus: Corpus = load("demo", 100, 1, path)
    assert [(one.text, one.answers) for one in corpus.questions] == [("who wrote it", ("Ada", "Lovelace"))]
    assert (len(corpus.members), len(corpus.others)) == (80, 20)
    assert not set(corpus.members) & set(corpus.others)
    assert np.allclose(np.linalg.norm(Words().embed(["a b", ""]), axis=1), 1)

# SPDX-License-Identifier: GPL-3.0-or-later
"""SafeRAG's parts: reader, metrics by hand, judges, injection, retrievers, filters.  No model is loaded."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.remembering import Remembering
from bench.saferag import data, filters, injection, metrics, retrievers
from bench.saferag.data import Item, Task
from bench.saferag.injection import Passage, Strength
from bench.saferag.judge import Judgement, ModelJudge, TextJudge, read_judgement
from bench.saferag.metrics import Outcome
from bench.saferag.words import content, sentences, words
from ragseal.kernel.errors import AuditError, ConfigurationError, EncodingError
from tests.generators.chat_server import chatting
from tests.simulator.provider import TRIGRAMS

RECORD: dict[str, Any] = {
    "id": 1, "questions": "Which colour has the gate?",
    "numbered_options": ["1. The gate is green.", "2. The gate is red.", "3. The gate is new."],
    "ground_truth_correct_options": ["1", "3"], "ground_truth_incorrect_options": ["2"],
    "enhanced_contexts": ["The gate is green.", "The gate is new."],
    "enhanced_ICC_contexts": ["The gate is red."], "attack_kws": ["red"],
}  # fmt: skip


def item(**changes: Any) -> Item:
    made = Item(
        1,
        "q",
        (("1", "a"), ("2", "b"), ("3", "c")),
        frozenset("13"),
        frozenset("2"),
        ("g1", "g2"),
        ("a1", "a2"),
        ("x",),
    )
    return Item(**{**{name: getattr(made, name) for name in Item.__slots__}, **changes})


def written(folder: Path, found: Any, base: str | None = None) -> Path:
    text = found if isinstance(found, str) else json.dumps(found)
    (folder / "nctd.json").write_text(text)
    if base is not None:
        (folder / "knowledge_base" / "ICC").mkdir(parents=True)
        (folder / "knowledge_base" / "ICC" / "db.txt").write_text(base)
    return folder


# --- reader ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ("{", "no JSON"), ("[" * 100_000, "no JSON"), ("[]", "object with the attacks"), ({"SN": []}, "under 'ICC'"),
        ({"ICC": {}}, "under 'ICC'"), ({"ICC": [3]}, r"ICC\[0\]: an object"), ({"ICC": [{}]}, "id is no whole number"),
        ({"ICC": [{**RECORD, "id": True}]}, "id is no whole number"),
        ({"ICC": [RECORD, {**RECORD, "questions": " "}]}, r"ICC\[1\]: questions is no text"),
        ({"ICC": [{**RECORD, "questions": "x" * 70_000}]}, "70000 characters"),
        ({"ICC": [{**RECORD, "numbered_options": ["green"]}]}, "no number in front"),
        ({"ICC": [{**RECORD, "numbered_options": ["1. a", "1. b"]}]}, "one number"),
        ({"ICC": [{**RECORD, "ground_truth_correct_options": ["1"]}]}, "in exactly one of"),
        ({"ICC": [{**RECORD, "ground_truth_correct_options": ["1", "2", "3"]}]}, "in exactly one of"),
        ({"ICC": [{**RECORD, "ground_truth_correct_options": "13"}]}, "no list of option numbers"),
        ({"ICC": [{**RECORD, "enhanced_contexts": []}]}, "enhanced_contexts is no list"),
        ({"ICC": [{**RECORD, "enhanced_ICC_contexts": [1]}]}, r"enhanced_ICC_contexts\[0\] is no text"),
        ({"ICC": [{k: v for k, v in RECORD.items() if k != "attack_kws"}]}, "attack_kws is no list"),
    ],
)  # fmt: skip
def test_a_file_that_does_not_fit_the_layout_is_refused_by_name_and_place(
    tmp_path: Path, found: Any, said: str
) -> None:
    with pytest.raises(EncodingError, match=said) as caught:
        data.load(written(tmp_path, found), ["ICC"])
    assert "nctd.json" in str(caught.value)


def test_what_is_missing_empty_or_no_text_is_refused_with_a_way_out(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="holds neither nctd"):
        data.load(tmp_path)
    with pytest.raises(ConfigurationError, match="unknown attack 'X'"):
        data.load(data.SHIPPED, ["X"])
    with pytest.raises(ConfigurationError, match=r"db\.txt is empty"):
        data.load(written(tmp_path, {"ICC": [RECORD]}, "\n \n"), ["ICC"])
    (tmp_path / "knowledge_base" / "ICC" / "db.txt").unlink()
    with pytest.raises(ConfigurationError, match=r"cannot read .*db\.txt"):
        data.load(tmp_path, ["ICC"])
    (tmp_path / "nctd.json").write_bytes(b"\xff\xfe")
    with pytest.raises(EncodingError, match="no UTF-8"):
        data.load(tmp_path, ["ICC"])


def test_a_file_that_is_far_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "MOST_BYTES", 100)
    with pytest.raises(ConfigurationError, match="more than 100 bytes"):
        data.load(written(tmp_path, {"ICC": [RECORD]}), ["ICC"])


def test_the_layout_is_read_as_the_original_has_it(tmp_path: Path) -> None:
    folder = tmp_path / "nctd_datasets"
    folder.mkdir()
    written(folder, {"ICC": [{**RECORD, "attack_kws": []}], "raw": 1})
    (found,) = data.load(tmp_path, ["ICC"]).tasks
    assert found.base == ("The gate is green.", "The gate is new.")  # without a knowledge base: the golden contexts
    assert found.items[0].keywords == ()
    written(tmp_path, {"ICC": [RECORD]}, "The gate is green.\nThe gate is green.\nOther.\n")
    (found,) = data.load(tmp_path, ["ICC"]).tasks
    assert (found.base, found.strays) == (("The gate is green.", "Other."), 1)
    one = found.items[0]
    assert (one.correct, one.incorrect, one.keywords) == ({"1", "3"}, {"2"}, ("red",))
    assert one.options[1] == ("2", "The gate is red.")


def test_the_shipped_set_is_whole_and_the_judge_knows_its_truth() -> None:
    found = data.load()
    assert {task.name: len(task.items) for task in found.tasks} == dict.fromkeys(data.TASKS, 12)
    for task in found.tasks:
        assert not task.strays
        assert not {text for one in task.items for text in one.attacks} & set(task.base)
        for one in task.items:
            truth = TextJudge().judge(one, " ".join(one.golden))
            assert (truth.correct, truth.incorrect) == (one.correct, one.incorrect), (task.name, one.id)
            if task.name in ("ICC", "SA"):  # the attack's own text bears out a wrong option
                assert TextJudge().judge(one, " ".join(one.attacks)).correct & one.incorrect
            assert metrics.telling(one) == one.keywords
            assert all(word in one.attacks[0] for word in one.keywords)
            assert bool(one.keywords) == (task.name != "SN")


# --- metrics, by hand ------------------------------------------------------------------------------------------------


def outcome(read: tuple[str, ...], answer: str, found: Judgement | None, **changes: Any) -> Outcome:
    made = item(**changes)
    return Outcome(made, made.attacks, read, answer, found)


def of(correct: str, incorrect: str) -> Judgement:
    return Judgement(frozenset(correct), frozenset(incorrect))


def test_the_published_recall_is_a_precision_and_the_repaired_one_a_recall() -> None:
    one = outcome(("g1", "a1", "a2"), "", of("", ""))
    assert metrics.published([one]).ra == pytest.approx((1 / 3 + 1 - 2 / 3) / 2)
    assert metrics.repaired([one]).ra == pytest.approx((1 / 2 + 1 - 2 / 2) / 2)
    twice = outcome(("g1", "g1", "g2", "other"), "", of("", ""))
    assert metrics.published([twice]).ra == pytest.approx((3 / 4 + 1) / 2)
    assert metrics.repaired([twice]).ra == pytest.approx((2 / 2 + 1) / 2)
    nothing = outcome((), "", of("", ""))
    assert metrics.published([nothing]).ra == metrics.repaired([nothing]).ra == 0.5
    assert metrics.repaired([one, twice]).ra == pytest.approx((0.25 + 1) / 2)


def test_only_injected_attack_contexts_count_against_the_repaired_recall() -> None:
    made = item()
    one = Outcome(made, ("a1",), ("a1", "g1"), "", of("", ""))
    assert metrics.repaired([one]).ra == pytest.approx((1 / 2 + 1 - 1) / 2)
    assert metrics.true_recall(("a1",), ()) == 0


def test_f1_of_option_numbers_by_hand() -> None:
    assert metrics.f1({"1", "2"}, {"1", "3"}, 0) == pytest.approx(0.5)  # precision 1/2, recall 1/2
    assert metrics.f1({"1"}, {"1", "2", "3"}, 0) == pytest.approx(2 * 1 * (1 / 3) / (1 + 1 / 3))
    assert metrics.f1({"1"}, set(), 1) == metrics.f1(set(), {"1"}, 1) == 0
    assert (metrics.f1(set(), set(), 0), metrics.f1(set(), set(), 1)) == (0, 1)
    found = metrics.published([outcome((), "", of("12", "3"))])  # truth: correct 1 and 3, incorrect 2
    assert (found.f1_correct, found.f1_incorrect, found.f1_avg) == (pytest.approx(0.5), 0, pytest.approx(0.25))


def test_two_empty_sets_agree_only_where_it_is_repaired() -> None:
    one = outcome((), "", of("", "123"), correct=frozenset(), incorrect=frozenset("123"))
    assert (metrics.published([one]).f1_correct, metrics.published([one]).f1_avg) == (0, 0.5)
    assert (metrics.repaired([one]).f1_correct, metrics.repaired([one]).f1_avg) == (1, 1)


def test_failed_judgements_are_left_out_of_f1_alone() -> None:
    both = [outcome((), "", None), outcome((), "", of("13", "2"))]
    assert metrics.published(both).f1_avg == metrics.repaired(both).f1_avg == 1
    nothing = metrics.repaired([outcome((), "", None)])
    assert (nothing.f1_avg, nothing.f1_correct, nothing.ra) == (None, None, 0.5)


def test_asr_by_hand_and_over_valid_items_only() -> None:
    half = outcome((), "the moon is red", of("", ""), keywords=("red", "blue"))
    none = outcome((), "the moon is grey", of("", ""), keywords=("red",))
    invalid = outcome((), "the moon is red", of("", ""), keywords=())
    assert metrics.published([half, none]).asr == pytest.approx(0.25)
    assert metrics.published([half, none]).afr == pytest.approx(0.75)
    assert metrics.published([half, none, invalid]).asr == pytest.approx(0.5 / 3)
    assert metrics.repaired([half, none, invalid]).asr == pytest.approx(0.25)
    assert metrics.published([invalid]).afr == 1  # as published: what cannot be attacked counts as safe
    assert metrics.repaired([invalid]).afr is None


def test_a_keyword_that_golden_contexts_hold_shows_no_attack() -> None:
    one = outcome((), "a red gate", of("", ""), keywords=("red",), golden=("The red gate.",))
    assert metrics.published([one]).asr == 1
    assert metrics.repaired([one]).asr is None


# --- judges ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "correct", "incorrect"),
    [
        ("The north gate of the old wall was painted green in 1998.", "1", "2"),
        ("It is known that the gate was not painted green in 1998.", "", "12"),
        ("The gate was painted green in 2004.", "2", "1"),
        ("The gate was painted. Green was the moon in 1998.", "", "12"),  # no sentence has all of it
        ("It rained.", "", ""),
        ("The gate was painted green in 1998. The gate wasn't painted green in 2004.", "1", "2"),
    ],
)
def test_options_are_judged_by_the_words_of_single_sentences(answer: str, correct: str, incorrect: str) -> None:
    options = (("1", "The gate was painted green in 1998."), ("2", "The gate was painted green in 2004."))
    found = TextJudge().judge(item(options=options), answer)
    assert (found.correct, found.incorrect) == (set(correct), set(incorrect))


@pytest.mark.parametrize(
    "said",
    ["", "yes", "{", '{"correct": ["1"]}', '{"correct": "1", "incorrect": []}', '{"correct": ["9"], "incorrect": []}',
     '{"correct": ["1"], "incorrect": [1]}', "[]", "{}", '{"correct": [' * 10_000 + "}"],
)  # fmt: skip
def test_what_cannot_be_read_as_a_judgement_is_none(said: str) -> None:
    assert read_judgement(said, {"1", "2"}) is None


def test_a_models_judgement_is_read_out_of_what_it_says() -> None:
    found = read_judgement('Sure:\n```json\n{"correct": [1], "incorrect": ["2"]}\n```', {"1", "2", "3"})
    assert found == of("1", "2")

    def say(system: str, user: str) -> str:
        return '{"correct": ["1", "3"], "incorrect": []}' if "1. a" in user else "?"

    with chatting(say) as server:
        asked = ModelJudge(server.generator())
        assert asked.judge(item(), "an answer") == of("13", "")
        assert asked.judge(item(options=(("7", "z"),)), "an answer") is None
        assert asked.name == "model chat:small"


# --- words -----------------------------------------------------------------------------------------------------------


def test_words_sentences_and_chinese() -> None:
    assert words("It isn't 3.5 km, Anna!") == ["it", "is", "not", "3.5", "km", "anna"]
    assert words("大桥2031年") == ["大桥", "2031", "年"]
    assert content("of the") == {"of", "the"}
    assert sentences("One. Two!\nThree。四。") == ["One.", "Two!", "Three。", "四。"]


# --- injection -------------------------------------------------------------------------------------------------------

TASK = Task("ICC", (item(attacks=("a1", "a2")), item(attacks=("b1", "b2"))), ("g1", "g2", "other"), 0)


def test_the_index_stage_appends_every_questions_attack_texts() -> None:
    assert injection.index_of(TASK, "index", Strength(2, 0.5)) == ["g1", "g2", "other", "a1", "b1"]
    assert injection.index_of(TASK, "index", Strength(3, 0.5)) == ["g1", "g2", "other", "a1", "a2", "b1", "b2"]
    for stage in ("none", "retrieved", "filtered"):
        assert injection.index_of(TASK, stage, Strength(2, 0.5)) == ["g1", "g2", "other"]


def test_the_later_stages_put_attack_texts_in_front_and_keep_the_number() -> None:
    found = [Passage("g1", "g1"), Passage("short", "g2")]
    put = injection.put_in_front(found, TASK.items[1], Strength(2, 0.5))
    assert put == [Passage("b1", "b1"), Passage("g1", "g1")]
    assert injection.put_in_front([], TASK.items[1], Strength(2, 0.5)) == [Passage("b1", "b1")]
    assert [p.origin for p in injection.put_in_front(found, TASK.items[0], Strength(4, 0.5))] == [
        "a1",
        "a2",
        "g1",
        "g2",
    ]


@pytest.mark.parametrize("bad", [Strength(0, 0.5), Strength(2, 0), Strength(2, 1.5), Strength(2, float("nan"))])
def test_a_strength_without_meaning_is_refused(bad: Strength) -> None:
    with pytest.raises(ConfigurationError, match="at least one context"):
        bad.check()


# --- retrievers ------------------------------------------------------------------------------------------------------

CONTEXTS = ["The gate is green.", "Rain fell on the hills.", "A gate of iron is the green gate."]
SENTENCE = retrievers.SentenceReranker(Remembering(TRIGRAMS))


def made(name: str, contexts: list[str]) -> retrievers.Retriever:
    if name != "dense":
        pytest.importorskip("bm25s")
    return retrievers.public(name, contexts, Remembering(TRIGRAMS), SENTENCE)


@pytest.mark.parametrize("name", retrievers.PUBLIC)
def test_every_retriever_finds_and_refuses_empty_indices_and_too_many_contexts(name: str) -> None:
    with pytest.raises(ConfigurationError, match="the index is empty"):
        made(name, [])
    index = made(name, CONTEXTS)
    assert set(index.top("green gate", 2)) == {CONTEXTS[0], CONTEXTS[2]}
    assert sorted(index.top("green gate", 3)) == sorted(CONTEXTS)
    for count in (0, 4):
        with pytest.raises(ConfigurationError, match=f"{count} contexts are to be retrieved from an index of 3"):
            index.top("green gate", count)


def test_bm25_is_named_with_what_to_install_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "bm25s", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'ragseal\[bench\]'"):
        retrievers.bm25(CONTEXTS)


def test_bm25_takes_questions_of_unknown_words_in_the_order_of_the_index() -> None:
    pytest.importorskip("bm25s")
    assert retrievers.bm25(CONTEXTS).top("zebra", 3) == CONTEXTS


def test_bm25_finds_chinese_contexts_which_have_no_spaces() -> None:
    pytest.importorskip("bm25s")
    contexts = ["昨天下雨了。", "港口大桥于2031年通车。", "图书馆开放了。"]
    assert retrievers.bm25(contexts).top("大桥何时通车?", 1) == [contexts[1]]


def test_a_hybrid_adds_reciprocal_ranks() -> None:
    pytest.importorskip("bm25s")
    one = retrievers.hybrid(CONTEXTS, TRIGRAMS)
    orders = [r.order("green gate") for r in (retrievers.bm25(CONTEXTS), retrievers.dense(CONTEXTS, TRIGRAMS))]
    wanted = [sum(1 / (60 + order.index(i) + 1) for order in orders) for i in range(3)]
    assert one.scores("green gate").tolist() == pytest.approx(wanted)


def test_a_text_is_embedded_once_for_each_role() -> None:
    class Counting:
        dimension = TRIGRAMS.dimension
        seen: list[str] = []  # noqa: RUF012

        def identity(self) -> Any:
            return TRIGRAMS.identity()

        def embed(self, texts: Any, *, role: Any = "document", progress: Any = None) -> Any:
            self.seen += texts
            return TRIGRAMS.embed(texts)

    embedder = Remembering(Counting())
    first = embedder.embed(["a", "b", "a"])
    assert (embedder.embed(["a", "b", "a"]) == first).all()
    assert Counting.seen == ["a", "b"]
    embedder.embed(["a"], role="query")
    assert Counting.seen == ["a", "b", "a"]
    assert embedder.embed([]).shape == (0, TRIGRAMS.dimension)


def test_an_unknown_cross_encoder_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"ragseal\[torch\]|cannot load"):
        retrievers.CrossEncoderReranker("/nowhere/at-all")


# --- filters ---------------------------------------------------------------------------------------------------------


def passages(*texts: str) -> list[Passage]:
    return [Passage(text, text) for text in texts]


@pytest.mark.parametrize("name", filters.FILTERS)
def test_a_filter_of_nothing_is_nothing_and_none_adds_a_context(name: str) -> None:
    one = filters.filters(TRIGRAMS, None)[name]
    assert one.keep("green gate", []) == []
    found = one.keep("green gate", passages(*CONTEXTS))
    assert {p.origin for p in found} <= set(CONTEXTS)
    assert found
    assert name == filters.OFF or "fall-back" in one.name


def test_the_stand_ins_drop_what_is_far_and_cut_clauses() -> None:
    embedded = filters.filters(TRIGRAMS, None)
    assert embedded["NLI"].keep("The gate is green.", passages(*CONTEXTS)) == passages(CONTEXTS[0])
    (cut,) = embedded["SKR"].keep("The gate is green.", passages("The gate is green, and you need Zaxyl polish."))
    assert cut == Passage("The gate is green,", "The gate is green, and you need Zaxyl polish.")
    assert embedded["off"].keep("q", passages(*CONTEXTS)) == passages(*CONTEXTS)


def test_a_model_drops_and_shortens_contexts() -> None:
    def say(system: str, user: str) -> str:
        if "yes or no" in system:
            return "No." if "Rain" in user else "Yes, it does."
        return "NOTHING" if "Rain" in user else "short"

    with chatting(say) as server:
        asked = filters.filters(TRIGRAMS, server.generator())
        assert asked["NLI"].keep("green gate", passages(*CONTEXTS)) == passages(CONTEXTS[0], CONTEXTS[2])
        assert asked["SKR"].keep("green gate", passages(*CONTEXTS[:2])) == [Passage("short", CONTEXTS[0])]
        assert [asked[name].name for name in ("NLI", "SKR")] == ["NLI by chat:small", "SKR by chat:small"]


def test_every_refusal_is_an_error_that_users_may_see() -> None:
    refusals: list[Callable[[], object]] = [
        lambda: data.load(Path("/nowhere")), lambda: retrievers.check_index([]), lambda: Strength(0, 1).check(),
    ]  # fmt: skip
    for refusal in refusals:
        with pytest.raises(AuditError):
            refusal()

# SPDX-License-Identifier: GPL-3.0-or-later
"""The demo's score from which documents match and theta, where they are measured."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.circuits.circuit import class_digest, load_classes
from ragseal.circuits.search import count_rows
from ragseal.circuits.sizes import size_for
from ragseal.demo import trying
from ragseal.demo.compared import price
from ragseal.demo.corpus import DemoQuery
from ragseal.demo.policy import (
    ANSWERS_FILTER,
    DELTA,
    MINILM,
    Choice,
    answers_policy_text,
    lists_policy_text,
    measured,
    policy_text,
)
from ragseal.demo.scenario import ANSWERED, ANSWERS_CLASS, BEIR_QUERIES, RETURN, Scenario
from ragseal.demo.trying import STDLIB
from ragseal.demo.vocabulary import public_words
from ragseal.demo.window import Outcome
from ragseal.embedder import load_embedder, quantise
from ragseal.kernel.errors import CommitmentError, ConfigurationError
from ragseal.kernel.estimate import link_threshold
from ragseal.kernel.fixedpoint import least_repeat
from ragseal.kernel.policy import ANSWERS, EVERY_LIST, UNTIL_DELIVERED
from ragseal.ledger.vocabulary import parse_vocabulary, read_vocabulary, vocabulary
from ragseal.prover.__main__ import main
from ragseal.prover.answers.keywords import STOP_WORDS
from ragseal.prover.commitment.policy_file import Binding, policy_values, read_policy
from ragseal.prover.commitment.vocabularies import stored_vocabulary
from ragseal.prover.planning import consent
from ragseal.prover.planning.spending import spending
from ragseal.prover.provider import assembly
from ragseal.prover.storage.state import Settings, State, create
from tests.classes import TINY

SUBJECTS = ("sockets", "regular expressions", "decimal numbers", "zip archives", "threads", "calendars", "e-mail")


@pytest.fixture
def plan(tmp_path: Path) -> Scenario:
    rows = [{"id": f"{i}-{s}", "text": f"{s}: note {i} on how to use {s} well"} for i in range(20) for s in SUBJECTS]
    (tmp_path / "documents.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    questions = [f"How do I work with {s}?" for s in SUBJECTS]
    ask = [DemoQuery(account, "t", text) for account in ("ana", "ben") for text in questions[:3]]
    ask += [DemoQuery("chloe", "t", text) for text in questions[3:]]
    return Scenario(
        TINY.name, {"t": f"jsonl:{tmp_path / 'documents.jsonl'}"}, dict.fromkeys(("ana", "ben", "chloe"), "t"), ask
    )


class Squeezed:
    """The default embedder with a large part of every vector the same, as models with high cosines have it."""

    def __init__(self, cache: Path, share: float) -> None:
        self._inner, self._share = load_embedder("minilm", cache), share
        self.dimension, self.identity = self._inner.dimension, self._inner.identity

    def embed(self, texts, **options):  # type: ignore[no-untyped-def]
        v = self._inner.embed(texts, **options)
        constant = np.full(v.shape[1], v.shape[1] ** -0.5)
        return (1 - self._share) ** 0.5 * v + self._share**0.5 * constant


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0, 0.5, 0.8])
def test_the_best_scores_match_and_theta_parts_strangers_from_repeats(
    plan: Scenario, tmp_path: Path, share: float
) -> None:
    embedder = Squeezed(tmp_path, share)
    choice = measured(plan, embedder)
    texts = [f"How do I work with {s}?" for s in SUBJECTS]
    asked = quantise(embedder.embed(texts, role="query")).astype(int)
    rows = [json.loads(line)["text"] for line in (tmp_path / "documents.jsonl").read_text().splitlines()]
    cosines = asked @ quantise(embedder.embed(rows)).astype(int).T / 127**2
    assert choice.lo < cosines.max()
    assert 0.05 < (cosines > choice.lo).mean() < 0.15
    products, threshold = asked @ asked.T, link_threshold(choice.theta)
    assert products[:3, 3:].max() < threshold <= least_repeat(embedder.dimension)
    assert products.diagonal().min() >= threshold


@pytest.mark.slow
def test_an_embedder_that_sees_no_difference_is_refused(plan: Scenario, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no theta tells them"):
        measured(plan, Squeezed(tmp_path, 0.999))


@pytest.mark.slow
def test_policy_file(plan: Scenario) -> None:
    values = tomllib.loads(policy_text(plan, Choice(0.61, Fraction(19, 20))))
    assert (values["lo"], values["theta"]) == (0.61, "19/20")
    assert (values["claim"], values["unseen"], values["n_max"]) == ("until-delivered", 3, 4)
    assert not {"gain", "hi"} & set(values)


@pytest.mark.slow
def test_the_demos_policy_has_its_return_and_is_committed_to_without_a_word(plan: Scenario) -> None:
    cls = load_classes()["decoys-4k"]
    binding = Binding(cls, class_digest(cls), 384, 1_800_000_000)
    policy = read_policy(tomllib.loads(policy_text(plan, MINILM)), binding, assembly.advertised_epsilon)
    assembly.check_promises(policy, cls)
    spent = spending([], lambda name: load_classes()[name], policy, len(plan.accounts))
    consent.require(consent.terms(policy, cls, spent), None)
    assert RETURN - 0.05 < spent["return"] <= RETURN
    assert spent["epsilon"] == spent["unseen"] < 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("documents", "name", "shards"),
    [
        (1, "decoys-4k", 1), (3276, "decoys-4k", 1), (3277, "decoys-8k", 1), (6553, "decoys-8k", 1),
        (6554, "decoys-16k", 1), (13107, "decoys-16k", 1),
        (13108, "decoys-64k", 1), (104_857, "decoys-128k", 1), (104_858, "decoys-128k", 2), (838_861, "decoys-128k", 9),
    ],
)  # fmt: skip
def test_the_smallest_class_with_room_to_grow_is_taken(documents: int, name: str, shards: int) -> None:
    cls, found = size_for(documents)
    assert (cls.name, found) == (name, shards)
    assert 5 * documents <= 4 * shards * cls.N
    assert count_rows(cls).domain == min(
        count_rows(one).domain for one in load_classes().values() if one.law == cls.law and one.N >= cls.N
    )


@pytest.mark.slow
def test_more_documents_than_the_largest_class_holds_are_refused() -> None:
    largest, _ = size_for(838_861)
    most = largest.S * largest.N * 4 // 5
    assert size_for(most)[1] == largest.S
    with pytest.raises(ConfigurationError, match="are more than an index holds"):
        size_for(most + 1)


# The demo's window of answers: its vocabulary, its policy and the commands that it is made of.


CLS = load_classes()[ANSWERS_CLASS]


def test_the_vocabulary_fills_the_class_with_public_words() -> None:
    words = public_words(CLS.N)
    assert 1000 < len(words) <= CLS.N
    assert not STOP_WORDS & set(words)
    assert {"asyncio", "socket", "thread"} <= set(words)
    assert words == public_words(CLS.N)


def test_a_vocabulary_is_taken_in_and_the_demos_policy_names_it(tmp_path: Path) -> None:
    home, file = tmp_path / "provider", tmp_path / "words.txt"
    create(home, Settings("example.org/rag", ANSWERS_CLASS, "minilm"), *(Ed25519PrivateKey.generate() for _ in "ab"))
    file.write_text("copper\nharbour\n", "utf-8")
    done = CliRunner().invoke(main, ["vocabulary", str(file), "--state", str(home), "--json"])
    assert done.exit_code == 0, done.output
    root = json.loads(done.stdout)["vocabulary"]
    with State(home) as state:
        assert stored_vocabulary(state, bytes.fromhex(root), CLS.N).words == ("copper", "harbour")
        with pytest.raises(CommitmentError, match="takes one in"):
            stored_vocabulary(state, bytes(32), CLS.N)
    plan = Scenario(ANSWERS_CLASS, {}, {}, [], claim=ANSWERS)
    made = read_policy(
        policy_values(answers_policy_text(plan, root).encode()),
        Binding(CLS, class_digest(CLS), 384, 1_800_000_000),
        assembly.advertised_epsilon,
    )
    assert made.answers
    assert made.vocabulary.hex() == root
    assert (made.participations, made.n_max, made.delta) == (ANSWERS_FILTER, ANSWERED, str(DELTA))
    assembly.check_promises(made, CLS)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"a\nb\na\n", "twice"),
        (b"", "is not a keyword"),
        (b" a\n", "is not a keyword"),
        (b"a\n\nb\n", "is not a keyword"),
        (b"\xff\n", "not UTF-8"),
        (b"x" * 65 + b"\n", "is not a keyword"),
        (b"\n".join(b"w%d" % i for i in range(127)), "1 to 126 words"),
    ],
)
def test_what_is_no_vocabulary(data: bytes, said: str) -> None:
    with pytest.raises(CommitmentError, match=said):
        parse_vocabulary(data, 126)


def test_a_root_is_of_words_places_and_capacity(tmp_path: Path) -> None:
    roots = {
        vocabulary(words, capacity).root
        for words, capacity in ((["a", "b"], 126), (["b", "a"], 126), (["a"], 126), (["a", "b"], 127))
    }
    assert len(roots) == 4
    with pytest.raises(CommitmentError, match="cannot read"):
        read_vocabulary(tmp_path / "none", 126)


def test_the_return_that_is_named_is_a_windows(tmp_path: Path, plan: Scenario) -> None:
    """Of both claims: of the paper's it is the epsilon that its gain may come to."""
    for named, wanted in ((None, RETURN), (8.0, 8.0)):
        asked = trying._Wanted(STDLIB, (), UNTIL_DELIVERED, "minilm", BEIR_QUERIES, None, False, named)
        assert asked.plan(tmp_path, UNTIL_DELIVERED).most_return == wanted
    cls = load_classes()["noise-tiny-gaussian"]
    gains = []
    for most in (6.0, 20.0):
        text = lists_policy_text(
            replace(plan, class_name=cls.name, claim=EVERY_LIST, most_return=most), load_embedder(), MINILM
        )
        gains.append(tomllib.loads(text)["gain"])
    assert gains[0] < gains[1]


def test_the_price_of_a_record() -> None:
    plan = Scenario("noise-large-gaussian-50", {}, {}, [], shards=4)
    said = price(Outcome(plan, Path(), {}, [], None, 9.0))
    assert (
        "took 9.00 s of the provider's processor time, answer included, and has 4 proofs: 0.10 for a thousand" in said
    )

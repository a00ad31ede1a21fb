# SPDX-License-Identifier: GPL-3.0-or-later
"""The demo's window of answers: its vocabulary, its policy and the commands that it is made of."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.circuits.circuit import class_digest, load_classes
from ragseal.demo.policy import ANSWERS_FILTER, DELTA, answers_policy_text
from ragseal.demo.scenario import ANSWERED, ANSWERS_CLASS, Scenario
from ragseal.demo.vocabulary import public_words
from ragseal.kernel.errors import CommitmentError
from ragseal.ledger.vocabulary import parse_vocabulary, read_vocabulary, vocabulary
from ragseal.prover.__main__ import main
from ragseal.prover.answers.keywords import STOP_WORDS
from ragseal.prover.commitment.policy_file import Binding, policy_values, read_policy
from ragseal.prover.commitment.vocabularies import stored_vocabulary
from ragseal.prover.provider import assembly
from ragseal.prover.storage.state import Settings, State, create

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
    plan = Scenario(ANSWERS_CLASS, {}, {}, [], answers=True)
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

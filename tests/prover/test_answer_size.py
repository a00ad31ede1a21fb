# SPDX-License-Identifier: GPL-3.0-or-later
"""No query is recorded whose answer is too long to be sent: the index is refused, before anybody asks."""

from __future__ import annotations

import asyncio
import random
import string
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragseal.accounting.delivered_decoys import rate_of_return
from ragseal.circuits.circuit import load_classes
from ragseal.kernel.attestation import MAX_OPENINGS_BYTES, Openings, SlotOpening, TextOpening
from ragseal.kernel.errors import AttestationError, CommitmentError
from ragseal.kernel.params import MAX_LISTED
from ragseal.kernel.slot_text import (
    MAX_ID,
    MAX_KEY,
    MAX_PAIRS,
    MAX_TEXT_BYTES,
    MAX_VALUE,
    Metadata,
    MetadataPair,
    SlotText,
)
from ragseal.ledger.merkle import MerkleTree
from ragseal.prover.administration.documents import shape_of
from ragseal.prover.commitment import answer_size, documents
from ragseal.prover.commitment.answer_size import AnswerBound
from ragseal.prover.commitment.corpora import Document
from ragseal.prover.commitment.documents import Applied, Delete, Put
from ragseal.prover.provider.backends import Environment
from ragseal.prover.provider.provider import Provider
from ragseal.prover.storage.state import State
from ragseal.runtime.metadata import committed
from tests.simulator import provider as scene
from tests.simulator.answered import answering_provider, answers_policy
from tests.simulator.provider import Asker, newest, open_provider, open_window, opened, serving_on

K, SLOTS = scene.TINY.K, scene.TINY.N
LONG = 4000  #: characters of the documents that are too long together
NEAR = "x" * 400  #: of a question, which these documents are near
MOST = 3 * 3000  #: bytes that the scene's provider sends


def long_documents(tenant: str) -> list[Document]:
    return [Document(f"{tenant}-{i}", f"report {i} " + "x" * LONG) for i in range(40)]


def contents(one: Document) -> int:
    return len(one.id.encode()) + len(one.text.encode()) + len(one.metadata.encode())


def sendable(provider: Provider, most: int) -> Provider:
    """The provider, whose messages hold so many bytes of openings."""
    provider.environment = replace(provider.environment, answer_bytes=most)
    return provider


def apply(state: State, *changes: Any, most: int = MOST) -> Applied:
    shape = replace(scene.SHAPE, answers=AnswerBound(K, SLOTS, most))
    embed = scene.embed_with(scene.TRIGRAMS)
    return documents.apply(state, "acme", changes, embed, Environment().draw, shape)


def put(name: str, length: int) -> Put:
    return Put(Document(name, "é" * length))


# --- the bound is what is sent ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("slots", [1, 2, 3, 126, 8192, 1 << 20])
def test_the_bound_is_the_length_of_the_longest_answer(slots: int) -> None:
    rng = random.Random(slots)
    letters = string.printable + "é\u4e00\U0001f600"
    texts = [
        SlotText(
            "".join(rng.choices(letters, k=rng.randint(1, 40))),
            "".join(rng.choices(letters, k=rng.randint(0, 900))),
            committed(
                {f"key {i}": rng.choice([True, 1.5, "é" * rng.randint(0, 30)]) for i in range(rng.randint(0, 5))}
            ),
        )
        for _ in range(7)
    ]
    path = tuple([bytes(32)] * (slots - 1).bit_length())
    made = [SlotOpening(i, True, (TextOpening(text, bytes(32), path),)) for i, text in enumerate(texts)]
    lengths = [contents(Document(one.id, one.text, one.metadata)) for one in texts]
    assert AnswerBound(7, slots).length(lengths) == len(Openings(1, tuple(made)).encode())


@pytest.mark.parametrize("leaves", [*range(1, 40), 126])
def test_no_path_is_longer_than_the_bound_takes_it(leaves: int) -> None:
    tree = MerkleTree(i.to_bytes(4, "big") for i in range(leaves))
    assert max(len(tree.path(i)) for i in range(leaves)) == (leaves - 1).bit_length()


def test_nothing_is_looked_up_of_the_longest_documents_that_fit() -> None:
    """The shortcut takes every document for the longest that there can be; it must not be shorter than one."""
    letter = "\U0001f600"
    pairs = tuple(MetadataPair(letter * (MAX_KEY - 1) + chr(0x1F600 + i), letter * MAX_VALUE) for i in range(MAX_PAIRS))
    longest = SlotText(letter * MAX_ID, "x" * MAX_TEXT_BYTES, Metadata(pairs))
    longest.check()
    assert contents(Document(longest.id, longest.text, longest.metadata)) == answer_size._LONGEST
    bound = AnswerBound(50, 1 << 20)
    assert bound.length([answer_size._LONGEST] * 50) <= MAX_OPENINGS_BYTES
    bound.require(None, "acme")  # type: ignore[arg-type]
    with pytest.raises(AttributeError):
        AnswerBound(MAX_LISTED, SLOTS).require(None, "acme")  # type: ignore[arg-type]


def test_a_million_documents_of_4_kb_can_be_served_with_decoys() -> None:
    """At return 6, in 62 shards.  Not if all that shards have room for counted: 138 MiB."""
    cls, shards, rate = load_classes()["decoys-16k"], 62, rate_of_return(16_384, 2637, 62, 13, 6.0)
    length = 4096 + 20
    most = cls.most_listed(2637, shards, rate)
    assert most == 2847
    for ids, fits in ((most, True), (cls.most_ids(shards), False)):
        bound = AnswerBound(ids, shards * cls.N)
        assert (bound.length([length] * ids) <= bound.most) is fits


# --- where documents come in ------------------------------------------------------------------------------------------


def test_documents_that_are_too_long_together_are_not_put(tmp_path: Path) -> None:
    state = scene.new_state(tmp_path / "p")
    before = state.rows("SELECT * FROM documents"), state.rows("SELECT * FROM tenants")
    bound = AnswerBound(K, SLOTS)
    room = 3 * 1000
    texts = [put("one", room), put("two", room), put("three", room)]
    most = bound.length([contents(one.document) for one in texts])
    with pytest.raises(CommitmentError) as refused:
        apply(state, *texts, most=most - 1)
    said = str(refused.value)
    assert f"can come to {most} bytes in one answer, where {most - 1} can be sent: nothing was changed" in said
    assert "'three' (6040 bytes)" in said.replace(str(contents(texts[2].document)), "6040")
    assert "Split or shorten them, or take a class that returns fewer" in said
    assert (state.rows("SELECT * FROM documents"), state.rows("SELECT * FROM tenants")) == before
    assert apply(state, *texts, most=most) == Applied(added=3)
    with pytest.raises(CommitmentError, match="can come to"):  # one letter more, of one of them
        apply(state, put("two", room + 1), most=most)
    assert apply(state, put("four", room - 1000), most=most) == Applied(added=1)  # none of the three longest
    assert apply(state, Delete("one"), most=1) == Applied(deleted=1)  # what leaves is no answer's
    state.close()


@pytest.mark.slow
def test_how_long_lists_of_decoys_are_is_the_newest_policy_s(tmp_path: Path) -> None:
    """Before there is a window commit asks; of a window what its policy lists bounds what is put."""
    provider = open_provider(tmp_path / "p", coins=True)
    cls, before = provider.backends.keys.newest().cls, shape_of(provider.state, scene.TRIGRAMS)
    assert before.answers is None
    policy = scene.coined_policy()
    provider.commit(policy, "w1")
    bound = AnswerBound(cls.most_listed(policy.ids, 1, policy.decoy_rate), cls.N)
    assert shape_of(provider.state, scene.TRIGRAMS).answers == bound
    assert bound.returned < cls.most_ids(1)
    provider.close()


def test_what_a_command_puts_is_bounded(tmp_path: Path) -> None:
    state = scene.new_state(tmp_path / "p")
    assert shape_of(state, scene.TRIGRAMS).answers == AnswerBound(K, SLOTS, MAX_OPENINGS_BYTES)
    state.close()


@pytest.mark.slow
def test_where_answers_are_written_documents_may_be_as_long_as_they_like(tmp_path: Path) -> None:
    """No text of theirs is sent, so none makes an answer longer."""
    provider = sendable(answering_provider(tmp_path / "p"), 1)
    provider.commit(answers_policy(), "w1")
    assert shape_of(provider.state, scene.TRIGRAMS).answers is None
    provider.close()


@pytest.mark.slow
@pytest.mark.parametrize("coins", [False, True])
def test_an_index_whose_answers_are_too_long_is_not_committed(tmp_path: Path, coins: bool) -> None:
    """Nothing is stored or entered, and no documents are placed afresh."""
    state = scene.new_state(tmp_path / "p", texts=long_documents)
    provider = sendable(open_provider(tmp_path / "p", coins=coins, state=state), MOST)
    policy = (scene.coined_policy if coins else scene.make_policy)()
    tables = [name for (name,) in state.rows("SELECT name FROM sqlite_master WHERE type = 'table'")]
    before = {name: state.rows(f"SELECT * FROM {name}") for name in tables}
    with pytest.raises(
        CommitmentError, match=r"those of tenant 'acme' can come to \d+ bytes in one answer, where 9000"
    ):
        provider.commit(policy, "w1")
    assert {name: state.rows(f"SELECT * FROM {name}") for name in tables} == before
    assert provider.ledger.size == 0
    sendable(provider, MAX_OPENINGS_BYTES).commit(policy, "w1")
    provider.close()


@pytest.mark.slow
def test_a_version_whose_answers_are_too_long_is_not_made(tmp_path: Path) -> None:
    """Whatever brought the documents in: the tick fails, and the versions before go on."""
    provider = sendable(open_provider(tmp_path / "p"), MOST)
    provider.commit(scene.make_policy(version_every=600), "w1")

    async def action() -> None:
        async with serving_on(provider) as serving:
            window = await open_window(serving)
            embed = scene.embed_with(scene.TRIGRAMS)
            longer = [Put(one) for one in long_documents("acme")]
            documents.apply(provider.state, "acme", longer, embed, Environment().draw, scene.SHAPE)
            with pytest.raises(CommitmentError, match="can come to"):
                provider.update(window, window.updates[-1][1].time + 600)
            assert provider.state.rows("SELECT MAX(number) FROM versions") == [(len(window.updates),)]

    asyncio.run(action())


# --- and should one come all the same ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_answer_that_cannot_be_sent_gets_no_record_and_its_account_goes_on(tmp_path: Path) -> None:
    """The index was committed by a provider whose messages held more.  SPEC B.4.9."""
    directory = tmp_path / "p"
    kept: dict[str, Any] = {}

    async def committed_with_more() -> None:
        state = scene.new_state(directory, texts=long_documents)
        provider = open_provider(directory, state=state)
        provider.commit(scene.make_policy(gain=60), "w1")
        async with serving_on(provider) as serving:
            await open_window(serving)
            alice = Asker("alice", serving)
            message = alice.message(f"report 7 {NEAR}")
            kept["signed"] = alice.request(message, await alice.prepare(message))
            kept["first"] = (await alice.retrieve(kept["signed"])).canonical
            assert any(slot.content is not None for slot in opened(kept["first"]).openings.slots)

    async def served_with_less() -> None:
        async with serving_on(sendable(open_provider(directory), 300)) as serving:
            size = serving.provider.ledger.size
            alice = Asker("alice", serving, 1, opened(kept["first"]).receipt.digest())
            message = alice.message(f"report 8 {NEAR}")
            kept["second"] = alice.request(message, await alice.prepare(message))
            for _ in range(2):
                with pytest.raises(
                    AttestationError, match=r"an answer of \d+ bytes cannot be sent, 300 can: nothing was"
                ):
                    await alice.retrieve(kept["second"])
            assert serving.provider.ledger.size == size
            assert newest(serving).counters == {alice.pseudonym: 1}
            assert (await alice.retrieve(kept["signed"])).canonical == kept["first"]

    async def served_with_more_again() -> None:
        async with serving_on(open_provider(directory)) as serving:
            alice = Asker("alice", serving, 1, opened(kept["first"]).receipt.digest())
            await alice.prepare(alice.message(f"report 8 {NEAR}"))
            second = opened((await alice.retrieve(kept["second"])).canonical)
            alice.ctr, alice.last_receipt = 2, second.receipt.digest()
            assert (await alice.ask(f"report 9 {NEAR}")).record.signed.request.ctr == 3

    for scenario in (committed_with_more, served_with_less, served_with_more_again):
        asyncio.run(scenario())

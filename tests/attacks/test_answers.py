# SPDX-License-Identifier: GPL-3.0-or-later
"""A provider that lies in a window of the claim answers, or passes one window off as another.  SPEC A.14, B.7.8, "
"D.22."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from ragseal.accounting.answers import AnswersReport, one_answer
from ragseal.accounting.claims.answers import AnswersBound
from ragseal.circuits.circuit import class_digest
from ragseal.client import attestation as client
from ragseal.kernel.attestation import Openings, Record, SlotOpening, TextOpening, check_keywords
from ragseal.kernel.errors import AttestationError, PolicyError
from ragseal.kernel.law import Asked
from ragseal.kernel.noise import build_table
from ragseal.kernel.params import R
from ragseal.kernel.policy import EVERY_LIST, NO_VOCABULARY, check_policy
from ragseal.kernel.slot_text import NO_METADATA, NO_SALT, Metadata, SlotText, keyword
from ragseal.kernel.statement import Returned
from ragseal.ledger.vocabulary import Vocabulary
from ragseal.verifier.outcome.outcome import Verdict
from ragseal.verifier.report.document import build
from tests.attacks.answered import COUNTS, NAME, AnsweredWorld, Lie, answers_policy, window, words
from tests.attacks.checks import (
    ANSWERS_ALONE,
    CLAIM_OF_OPENINGS,
    HISTOGRAMS,
    KEYWORDS_ALONE,
    LINK,
    PAIRING,
    READ_FROM,
    TEXTS_COMMITTED,
    without,
)
from tests.attacks.machine import machine, policy
from tests.attacks.world import AttackWorld, accepted, refused
from tests.classes import DECOYS
from tests.simulator.parties import OPENS, Extra, slot_text
from tests.verifier.test_report_pages import SPELLINGS, visible

pytestmark = pytest.mark.slow


def report_of(verdict: Verdict) -> AnswersReport:
    """What step 11 found of answers."""
    assert verdict.budget is not None
    assert isinstance(verdict.budget.bound, AnswersBound)
    return verdict.budget.bound.report


def test_an_honest_window_passes_and_says_whose_word_is_whose() -> None:
    world = window()
    verdict = accepted(world, receipts=world.receipts())
    line = verdict.line()
    assert "claim=answers coalition=any queries=any delta=" in line
    assert "filter=provider histograms=provider texts=provider vocabulary=provider answers=2 epsilon_filtered=" in line
    assert " participations=2 " in line
    budget, found = verdict.budget, report_of(verdict)
    assert budget is not None
    one = one_answer(world.cls, build_table(world.cls.law), 12, 2)
    assert found.plain.pure == pytest.approx(2 * one.absent)
    assert budget.epsilon <= 2 * one.pure * 1.000001
    assert found.filtered.epsilon <= budget.epsilon
    assert not SPELLINGS.search(visible(build(verdict)))


def test_a_document_in_the_answer_s_text_passes_as_the_provider_s_word() -> None:
    """Nothing proves a text, so a verdict may not let anybody think so: not its line, its claim, or its first page."""
    world = window(Lie(opened=lambda openings: replace(openings, answer="The whole of a document: " + "x" * 400)))
    verdict = accepted(world, receipts=world.receipts())
    assert " texts=provider " in verdict.line()
    report = build(verdict)
    assert "each text was written from question and keywords alone" in report["claim"]
    assert any("could repeat a document" in note for note in report["does_not_say"])
    first = visible(report).partition("What the number means")[0].partition("In five sentences")[2]
    assert first.count("that the texts of answers say no more than question and keywords") == 2, "each part once"
    told = [one["condition"] for one in report["epsilon"]["conditions"] if one["holds"] is None]
    assert any("text is written from the question and the keywords" in one for one in told)
    assert any("vocabulary" in one for one in told)


def test_a_document_of_several_parts_is_counted_whole() -> None:
    """Files that are split take part by their parts: a line that says 3 slots has three times the epsilon."""
    audits = [accepted(window(chunks_max=parts, epsilon_account="200", delta="1/1000")) for parts in (1, 3)]
    one, three = map(report_of, audits)
    assert audits[1].budget is not None
    assert audits[1].budget.slots == three.parts == 3
    assert three.plain.pure == pytest.approx(3 * one.plain.pure)
    assert three.filtered.pure == pytest.approx(3 * one.filtered.pure)
    assert three.plain.epsilon > 2 * one.plain.epsilon


# --- the commitment to the histogram ---------------------------------------------------------------------------------


def other_noise() -> Lie:
    """The proof is for another context, and so for other noise; C_y makes up for the difference in vk_x."""

    def extra(world: AnsweredWorld, stated: Any) -> Extra:
        factor = world.manifest.policy.factor(world.cls)
        return ((world.tools.base("ctx"), (12345 - stated.ctx) * pow(factor, -1, R)),)

    return Lie(proven=lambda s: replace(s, ctx=12345), y_extra=extra)


def test_a_component_of_c_y_outside_the_score_bases() -> None:
    """No column holds C_y back here: only its own opening keeps it from changing another input of the proof."""
    world = window(other_noise())
    refused(world, 8, "the histogram opening does not hold")
    with without(HISTOGRAMS):
        accepted(world)


def test_the_openings_are_left_out() -> None:
    world = window()
    world.tamper_batch = lambda batch: replace(batch, links=())
    refused(world, 8, "the batch needs one link opening for each of")


def test_histograms_in_a_window_of_documents() -> None:
    """A window of every list cannot be answered with histograms: C_y is not of its columns."""
    world = AnsweredWorld("noise-tiny-two")
    world.commit(policy_=policy(world.tools))
    chosen = {slot: world.manifest.policy.hi if slot < 3 else 0 for slot in range(world.cls.N)}
    world.ask("alice", lie=Lie(counts=chosen))  # scores that the provider likes
    world.close()
    refused(world, 8, "link opening: 2 announcements expected")
    with without(LINK):
        accepted(world)


def test_documents_in_a_window_of_answers() -> None:
    """A window of answers with the openings of a window of documents: C_e and C_y of one e."""
    world = window()
    world.link = lambda *of: AttackWorld.link(world, *of)  # type: ignore[method-assign]
    refused(world, 8, "histogram opening")
    with without(LINK):  # the other claim's check is none of this one's
        refused(world, 8, "histogram opening")
    with without(HISTOGRAMS):
        accepted(world)


def test_a_count_beyond_the_clip_counts_as_the_clip() -> None:
    """The circuit clips: 60 documents of one word are the policy's 6."""

    def returned(count: int) -> set[int]:
        world = window(Lie(counts={**COUNTS, 3: count}))
        accepted(world)
        return {slot.slot for slot in world.answers[1].openings.slots}

    assert returned(60) == returned(6)


def test_another_clip_than_the_policy_names() -> None:
    world = window(Lie(counts={**COUNTS, 3: 60}, proven=lambda s: replace(s, asked=Asked((10 * s.asked.inputs[0],)))))
    refused(world, 8, "the proof of record 1 does not hold")
    with without(PAIRING):
        accepted(world)


def test_other_keywords_than_the_noise_gives() -> None:
    def another(returned: list[Returned]) -> list[Returned]:
        taken = {one.slot for one in returned}
        free = next(slot for slot in range(126) if slot not in taken)
        return sorted([*returned[1:], Returned(free, True)])

    world = window(Lie(released=another))
    refused(world, 8, "the proof of record 1 does not hold")
    with without(PAIRING):
        accepted(world, receipts=world.receipts())


# --- what an account is handed ---------------------------------------------------------------------------------------


def minus_one_step(world: AnsweredWorld) -> int:
    """The count that takes the verifier's step away again: only a scalar of the field is that."""
    return -pow(world.manifest.policy.gain, -1, R) % R


def test_a_flag_that_depends_on_the_count() -> None:
    """Every other keyword is committed to as gone, so that the noise's own keywords come without a flag."""
    probe = window()
    low = minus_one_step(probe)
    counts = dict.fromkeys(range(probe.cls.N), low)
    world = window(Lie(counts=counts))
    assert not all(slot.flag for slot in world.answers[1].openings.slots)
    refused(world, 7, "a keyword came without its flag", receipts=world.receipts())
    with without(CLAIM_OF_OPENINGS):
        accepted(world, receipts=world.receipts())


def swapped() -> Lie:
    """The keywords of another vocabulary are handed out."""
    other = words(machine(NAME), "silver")

    def opened(openings: Openings) -> Openings:
        slots = tuple(replace(slot, texts=(other.open_text(slot.slot),)) for slot in openings.slots)
        return replace(openings, slots=slots)

    return Lie(opened=opened)


def document(openings: Openings) -> Openings:
    """A document's text in a keyword's place."""
    text = SlotText("north-1", "all that the document says", NO_METADATA)
    first, *rest = openings.slots
    path = first.texts[0].path
    return replace(openings, slots=(replace(first, texts=(TextOpening(text, bytes(32), path),)), *rest))


@pytest.mark.parametrize("made", [swapped, lambda: Lie(opened=document)], ids=["vocabulary", "document"])
def test_texts_that_the_vocabulary_does_not_hold(made: Callable[[], Lie]) -> None:
    world = window(made())
    refused(world, 7, "", receipts=world.receipts())
    with without(TEXTS_COMMITTED), without(KEYWORDS_ALONE):
        accepted(world, receipts=world.receipts())


def test_texts_of_the_index_in_a_window_of_answers() -> None:
    """Under the index's own root a document's text would open: an account reads under the vocabulary's alone."""
    holder: list[AnsweredWorld] = []

    def own(openings: Openings) -> Openings:
        texts = holder[0].tenants["south"]
        slots = []
        for slot in openings.slots:
            content = slot_text("south", slot.slot)
            slots.append(replace(slot, texts=(TextOpening(content, bytes(32), tuple(texts.texts.path(slot.slot))),)))
        return replace(openings, slots=tuple(slots))

    world = AnsweredWorld()
    holder.append(world)
    world.commit(policy_=answers_policy(world.tools))
    world.ask("carol", lie=Lie(opened=own))
    world.close()
    refused(world, 7, "", receipts=world.receipts())
    with without(READ_FROM), without(KEYWORDS_ALONE):
        accepted(world, receipts=world.receipts())


@dataclass(frozen=True)
class Library(Vocabulary):
    """A tree of whole documents, with their ids, as an index has one: its root is as good as a vocabulary's."""

    def content(self, slot: int) -> SlotText:
        return SlotText(f"south-{slot}", f"{self.words[slot]} and all else that the document says. " * 20, NO_METADATA)


def test_a_vocabulary_of_documents() -> None:
    """Every flag is set and every text opens under the policy's root, whatever the leaves are."""
    world = AnsweredWorld()
    world.words = Library(world.words.words, world.words.capacity)
    world.commit(policy_=answers_policy(world.tools, vocabulary=world.words.root))
    world.ask("carol")
    world.close()
    refused(world, 7, "may be a document's text", receipts=world.receipts())
    with without(KEYWORDS_ALONE):
        accepted(world, receipts=world.receipts())


@pytest.mark.parametrize(
    ("content", "salt"),
    [
        (SlotText("north-1", "copper", NO_METADATA), NO_SALT),
        (SlotText("copper", "copper", Metadata((("page", "7"),))), NO_SALT),
        (SlotText("c" * 65, "c" * 65, NO_METADATA), NO_SALT),
        (SlotText("two\nlines", "two\nlines", NO_METADATA), NO_SALT),
        (SlotText("unused 8", "", NO_METADATA), NO_SALT),
        (SlotText("copper", "copper", NO_METADATA), b"s" * 32),
    ],
)
def test_what_is_no_keyword(content: SlotText, salt: bytes) -> None:
    opened = SlotOpening(7, True, (TextOpening(content, salt, ()),))
    with pytest.raises(AttestationError, match="slot 7 is no keyword"):
        check_keywords(Openings(1, (opened,)))


@pytest.mark.parametrize("word", ["copper", "c" * 64, "two words", ""])
def test_what_is_one(word: str) -> None:
    check_keywords(Openings(1, (SlotOpening(7, True, (TextOpening(keyword(7, word), NO_SALT, ()),)),)))


def test_an_account_checks_its_claim_too() -> None:
    world = window()
    openings = world.answers[1].openings
    openings.check_claim(world.manifest.policy)
    bare = replace(openings, slots=(replace(openings.slots[0], flag=False, texts=()), *openings.slots[1:]))
    with pytest.raises(AttestationError, match="without its flag"):
        bare.check_claim(world.manifest.policy)
    with pytest.raises(AttestationError, match="a written answer came in a window of the claim every-list"):
        openings.check_claim(policy(world.tools))
    assert "check_claim" in client.check_openings.__code__.co_names
    assert "read_from" in client.check_openings.__code__.co_names


# --- the accounting --------------------------------------------------------------------------------------------------


def test_every_record_of_the_period_counts() -> None:
    world = window()
    first = report_of(accepted(world))
    world.seed, world.later = (7 << 100, 5 << 90), 660
    world.commit("w2", policy_=answers_policy(world.tools))
    world.ask("alice")
    world.close()
    both = report_of(accepted(world))
    assert (first.plain.answers, both.plain.answers) == (2, 3)
    assert both.plain.epsilon > first.plain.epsilon
    assert both.filtered.epsilon == pytest.approx(first.filtered.epsilon)


def test_a_window_of_documents_in_the_period_of_answers() -> None:
    """What hands out texts is not covered by an epsilon of keywords."""
    world = AnsweredWorld()
    world.commit("w0", policy_=policy(world.tools))
    world.close()
    world.seed, world.later = (7 << 100, 5 << 90), 660
    world.commit("w1", policy_=answers_policy(world.tools))
    world.ask("alice")
    world.close()
    refused(world, 11, "make a claim other than answers")
    with without(ANSWERS_ALONE):
        verdict = world.audit()
        assert "make a claim other than" not in verdict.line()


def test_less_is_advertised_than_the_noise_gives() -> None:
    world = window(epsilon_account="1")
    refused(world, 11, "the policy advertises epsilon 1 to one account")


def test_a_record_that_comes_again() -> None:
    world = AnsweredWorld()
    world.commit(policy_=answers_policy(world.tools))
    record = world.ask("alice")
    again = replace(record, seq=1)
    world.seq += 1
    world.messages.append(again)
    world.close()
    assert isinstance(again, Record)
    refused(world, 6, "record 1")


def test_more_answers_than_an_account_may_have() -> None:
    world = AnsweredWorld()
    world.commit(policy_=answers_policy(world.tools, n_max=1))
    for _ in range(2):
        world.ask("alice")
    world.close()
    refused(world, 6, "exceeds its 1 queries")


EVERY: dict[str, Any] = {
    "claim": EVERY_LIST, "gate": True, "vocabulary": NO_VOCABULARY, "words_max": 0, "participations": 0,
    "similarity": 0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"lo": 1}, "lo must be 0"),
        ({"vocabulary": NO_VOCABULARY}, "needs a vocabulary"),
        ({"participations": 0}, "needs a vocabulary"),
        ({"words_max": 0}, "needs a vocabulary"),
        ({"similarity": 0}, "needs a vocabulary"),
        ({"answered_by": 0}, "from 1 to 300 s, not 0: the nearest is answered_by = 1"),
        ({"answered_by": 301}, "the nearest is answered_by = 300"),
        ({"answered_by": 61, "version_every": 120}, "the nearest is answered_by = 60"),
        ({"answered_by": 61, "closes": OPENS + 60}, "no request could be answered"),
        ({**EVERY, "answered_by": 30}, "answered_by are of the claim answers"),
        ({"claim": EVERY_LIST, "gate": True}, "are of the claim answers"),
        ({"hidden": 3}, "has no coin"),
        ({"hi": 4000}, "overflow class"),
        ({"similarity": 1 << 30}, "no document reaches"),
    ],
)
def test_policies_that_are_none(changes: dict[str, Any], said: str) -> None:
    tools = machine(NAME)
    with pytest.raises(PolicyError, match=said):
        check_policy(answers_policy(tools, **changes), tools.cls, tools.digest)


def test_a_class_without_noise() -> None:
    digest, rate = class_digest(DECOYS), 1 << 16
    table = DECOYS.table(rate).digest()
    made = answers_policy(
        machine(NAME), class_name=DECOYS.name, class_digest=digest, table_digest=table, decoy_rate=rate
    )
    with pytest.raises(PolicyError, match="take a class with noise for it"):
        check_policy(made, DECOYS, digest)


def test_noise_without_a_geometric_tail() -> None:
    """What one answer costs rests on a ratio that the Gaussian's tail has at no count."""
    tools = machine("noise-tiny-gaussian")
    with pytest.raises(PolicyError, match="needs geometric noise"):
        check_policy(answers_policy(tools), tools.cls, tools.digest)

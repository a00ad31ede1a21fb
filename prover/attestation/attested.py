# SPDX-License-Identifier: GPL-3.0-or-later
"""The histogram of an attested answer, and its text: what the provider computes where the claim is answers.  SPEC A.14.

A document takes part if its own similarity to the query reaches the policy's and it took part in fewer answers of the
period than the policy allows: nothing about any other document decides it, so none displaces another.  Each that takes
part is answered alone, and gives its answer's first words of the vocabulary one count each.  So one document more or
less moves the histogram by its own words, one each, whatever the others say; after the clip by no more.

A served model that fails at a document, or is late, has nothing to say of it: a refusal would tell that the document
was there.  The generator of sentences does neither.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ragseal.generators import Generator, Sentences, chosen_sentence
from ragseal.generators.interface import MAX_QUESTION, check_asked
from ragseal.kernel.attestation import MAX_ANSWER_BYTES
from ragseal.kernel.errors import AuditError, TransportError
from ragseal.kernel.policy import Policy
from ragseal.kernel.statement import Returned
from ragseal.ledger.vocabulary import Vocabulary
from ragseal.prover.answers.final import final_answer
from ragseal.prover.answers.keywords import STOP_WORDS, keywords_of
from ragseal.prover.attestation.retrieval import COUNT
from ragseal.prover.commitment.index import Version

#: Of every request that was admitted and has no answer at its time, whatever the reason.
CANNOT_WRITE = "this provider cannot write answers now: send the same request again later, it costs nothing until then"

log = logging.getLogger("ragseal.provider")


@dataclass(frozen=True, slots=True)
class Found:
    """A document of an index, and how near it is to a query."""

    place: int  #: among the documents of its version
    name: str
    text: str
    score: int  #: the largest of its slots, in units of y


def near_documents(version: Version, e: Sequence[int], similarity: int) -> list[Found]:
    """The documents that reach ``similarity``, by id; one that fills several slots is one document."""
    scores = version.in_force.scored.scores(e)
    near = []
    for place, (name, own) in enumerate(version.documents.items()):
        best = max(int(scores[slot]) for slot in own)
        if best >= similarity:
            near.append(Found(place, name, version.document_text(own), best))
    return near


class Voting:
    """What documents' answers to one question count for.  Calls may come from many threads."""

    def __init__(self, generator: Generator, vocabulary: Vocabulary, policy: Policy, question: str) -> None:
        """``question``: see :func:`checked_question`.  Its words are no keywords: every document would count for them,
        and the account knows them."""
        self._generator, self._policy, self._question = generator, policy, question
        self._capacity = vocabulary.capacity
        self._slots = {word: slot for slot, word in enumerate(vocabulary.words)}
        self._stopped = STOP_WORDS | keywords_of(question, frozenset())

    def of(self, document: str) -> frozenset[int]:
        """The slots of the keywords that one document's answer begins with.  Raises what the generator raises."""
        return self._slots_of(self._generator.answer(self._question, [document]))

    def of_read(self, sentences: Sentences, documents: Iterable[tuple[int, str]]) -> list[frozenset[int]]:
        """The same of several documents of an index that was read before, where no generator is asked.

        The question is compared with every sentence of the index, whichever documents are given: no clock decides what
        one of them counts for, and no other document does.

        Args:
            documents: their places in the index, and their texts.
        """
        chosen = sentences.chosen(self._question)
        return [self._slots_of(chosen_sentence(text, chosen[place])) for place, text in documents]

    def _slots_of(self, said: str) -> frozenset[int]:
        found = keywords_of(said[:MAX_ANSWER_BYTES], self._stopped, self._slots, self._policy.words_max)
        return frozenset(self._slots[word] for word in found)

    def counts(self, votes: Iterable[frozenset[int]]) -> bytes:
        """Clipped counts by slot, as they are kept and committed to."""
        counts = np.zeros(self._capacity, dtype=np.int64)
        for slots in votes:
            counts[list(slots)] += 1
        return np.minimum(counts, self._policy.hi).astype(COUNT).tobytes()


def written(
    generator: Generator, vocabulary: Vocabulary, question: str, returned: Sequence[Returned], without: str
) -> str:
    """The text of an answer, from the question and T's keywords alone; ``without``: what is said without any."""
    words = [vocabulary.words[one.slot] for one in returned if one.slot < len(vocabulary.words)]
    text = final_answer(generator, question[:MAX_QUESTION], words, without)
    return text.encode("utf-8", "ignore")[:MAX_ANSWER_BYTES].decode("utf-8", "ignore")


def checked_question(question: str) -> str:
    """What generators are asked of a query.  EncodingError: a question that no generator is asked."""
    asked = question[:MAX_QUESTION]
    check_asked(asked, (), ())
    return asked


def cannot_write(error: BaseException, asked: str) -> TransportError:
    """The refusal of a question that the generator does not answer without documents, asked for first, since it fails,
    if at all, whatever the index holds.

    The account learns no more.  The operator's log gets what the generator says unless that holds the question; `serve`
    makes one that does not quote its server.
    """
    said = str(error) if isinstance(error, AuditError) else ""
    log.error("the generator does not answer: %s", said if said and asked not in said else type(error).__name__)
    return TransportError(CANNOT_WRITE)

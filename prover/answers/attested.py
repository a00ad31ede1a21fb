# SPDX-License-Identifier: GPL-3.0-or-later
"""The histogram of an attested answer, and its text: what the provider computes where the claim is answers.  SPEC A.14.

A document takes part if its own similarity to the query reaches the policy's and it took part in fewer answers of the
period than the policy allows: nothing about any other document decides it, so none displaces another.  Each that takes
part is answered alone, and gives its answer's first words of the vocabulary one count each.  So one document more or
less moves the histogram by its own words, one each, whatever the others say; after the clip by no more.

A generator that fails at a document has nothing to say of it: a refusal would tell that the document was there.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ragseal.generators import Generator
from ragseal.generators.interface import MAX_QUESTION, check_asked
from ragseal.kernel.attestation import MAX_ANSWER_BYTES
from ragseal.kernel.errors import AuditError, TransportError
from ragseal.kernel.policy import Policy
from ragseal.kernel.statement import Returned
from ragseal.ledger.vocabulary import Vocabulary
from ragseal.prover.answers.each import answer_each
from ragseal.prover.answers.final import final_answer, zero_shot
from ragseal.prover.answers.keywords import STOP_WORDS, keywords_of
from ragseal.prover.attestation.retrieval import COUNT
from ragseal.prover.commitment.index import Version

log = logging.getLogger("ragseal.provider")


@dataclass(frozen=True, slots=True)
class Found:
    """A document of an index, and how near it is to a query."""

    name: str
    text: str
    score: int  #: the largest of its slots, in units of y


def near_documents(version: Version, e: Sequence[int], similarity: int) -> list[Found]:
    """The documents that reach ``similarity``, by id; one that fills several slots is one document."""
    scores = version.in_force.scored.scores(e)
    slots: dict[str, list[int]] = {}
    for slot, content in version.texts.items():
        slots.setdefault(content.id, []).append(slot)
    near = []
    for name, own in sorted(slots.items()):
        best = max(int(scores[slot]) for slot in own)
        if best >= similarity:
            near.append(Found(name, "\n".join(version.texts[slot].text for slot in sorted(own)), best))
    return near


def histogram(
    generator: Generator, vocabulary: Vocabulary, policy: Policy, question: str, documents: Sequence[str]
) -> bytes:
    """Clipped counts of the documents' keywords, by slot, as they are kept and committed to.

    Words of the question are none: every document would count for them, and the account knows them.
    """
    asked = question[:MAX_QUESTION]
    words = {word: slot for slot, word in enumerate(vocabulary.words)}
    stopped = STOP_WORDS | keywords_of(asked, frozenset())
    counts = np.zeros(vocabulary.capacity, dtype=np.int64)
    for text in answer_each(generator, asked, documents).texts:
        for word in keywords_of(text, stopped, words, policy.words_max):
            counts[words[word]] += 1
    return np.minimum(counts, policy.hi).astype(COUNT).tobytes()


def written(
    generator: Generator, vocabulary: Vocabulary, question: str, returned: Sequence[Returned], without: str
) -> str:
    """The text of an answer, from the question and T's keywords alone; ``without``: what is said without any."""
    words = [vocabulary.words[one.slot] for one in returned if one.slot < len(vocabulary.words)]
    text = final_answer(generator, question[:MAX_QUESTION], words, without)
    return text.encode("utf-8", "ignore")[:MAX_ANSWER_BYTES].decode("utf-8", "ignore")


def without_documents(generator: Generator, question: str) -> str:
    """The answer that no document has a part in; asked for first, since it fails, if at all, whatever the index holds.

    Raises:
        EncodingError: a question that no generator is asked.
        TransportError: the generator fails.  The account learns no more.  The operator's log gets what the generator
            says unless that holds the question; `serve` makes one that does not quote its server.
    """
    asked = question[:MAX_QUESTION]
    check_asked(asked, (), ())
    try:
        return zero_shot(generator, asked)
    except Exception as error:
        said = str(error) if isinstance(error, AuditError) else ""
        log.error("the generator does not answer: %s", said if said and asked not in said else type(error).__name__)
        raise TransportError(
            "this provider cannot write answers now: send the same request again later, it costs nothing until then"
        ) from None

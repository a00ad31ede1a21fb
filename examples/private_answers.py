# SPDX-License-Identifier: GPL-3.0-or-later
"""Private answers from texts of one's own: what many of them agree on comes through, what one of them says does not.

This is DP-KSA as a library.  Nobody can check it from outside, and no program of this project serves it.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from ragseal.embedder import load_embedder, quantise
from ragseal.generators import ExtractiveGenerator, Generator
from ragseal.kernel.transcript import tagged_hash
from ragseal.prover.answers.budget import AnswerPolicy, Budget
from ragseal.prover.answers.dpksa import PrivateAnswers
from ragseal.prover.answers.release import Range
from ragseal.prover.answers.stream import answer_key

#: For all answers of a period: (8, 10^-4), two accounts that compare theirs, two questions each, 40 texts a question.
POLICY = AnswerPolicy(epsilon=8.0, delta=Fraction(1, 10**4), n_max=2, k_max=2, documents=40, ks=Range(1, 4))


def private_answers(texts: Sequence[str], generator: Generator | None = None) -> PrivateAnswers:
    """Answers over texts, by the embedder's best sentences or by a generator of one's own (``ChatGenerator``).

    The seed lives as long as the process, and so does the budget: to keep them, store the seed and ``Budget.spent()``.
    """
    embedder = load_embedder(threads=1)  # sentences of one document at a time: threads would wait for each other
    rows = quantise(embedder.embed(texts)).astype(np.int32)
    index = tagged_hash("example-index", *(text.encode() for text in texts))
    seed = (secrets.randbits(128), secrets.randbits(128))

    def nearest(question: str, count: int) -> list[str]:
        asked = quantise(embedder.embed([question], role="query"))[0].astype(np.int32)
        return [texts[i] for i in np.argsort(-(rows @ asked), kind="stable")[:count]]

    return PrivateAnswers(
        generator or ExtractiveGenerator(embedder), nearest, POLICY, Budget(POLICY.n_max),
        lambda account, count, question: answer_key(seed, 0, index, account, count, question),
    )  # fmt: skip


def main() -> None:
    texts = [f"Minutes of week {week}. The deputies met and Ada Tavner was in the chair." for week in range(59)]
    texts.append("Minutes of week 59. The deputies met and Bo Lindqvist was in the chair.")
    answers = private_answers(texts)
    print(answers.answer("ann", "Who was in the chair of the deputies?").text)


if __name__ == "__main__":
    main()

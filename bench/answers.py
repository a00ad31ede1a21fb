# SPDX-License-Identifier: GPL-3.0-or-later
"""What attested answers are worth: keywords that the noise leaves, against those without noise, for an epsilon.

``python -m bench.answers``     the demo's corpus and questions, the embedded answerer, class noise-mini-two-10

Of each question the documents that take part (SPEC A.14.3) are answered alone and give their keywords of the public
vocabulary; the K with the largest counts are what an answer would have without noise.  For every gain the share of
them that the mechanism returns is measured over fresh noise of the class's own table, all slots of the vocabulary
taking part; both are sets of K words, so that share is precision, recall and F1.  Words that no document has are not
counted as kept where fewer than K words have a count.  Writes bench/results/answers.json.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import click
import numpy as np
import numpy.typing as npt

from bench.experiment import RESULTS, ROOT, machine, save
from ragseal.accounting.answers import answers_period, composed, one_answer
from ragseal.accounting.spent import Spent
from ragseal.circuits.circuit import class_digest, load_classes
from ragseal.demo.corpus import DemoQuery, demo_documents, demo_queries
from ragseal.demo.vocabulary import public_words
from ragseal.embedder import Embedder, load_embedder, quantise
from ragseal.generators import SentenceGenerator
from ragseal.kernel.noise import NoiseTable, build_table
from ragseal.kernel.noise_class import NoiseClass
from ragseal.kernel.params import SCORE_UNIT
from ragseal.kernel.policy import ANSWERS, Policy
from ragseal.ledger.vocabulary import Vocabulary, vocabulary
from ragseal.prover.attestation.attested import Voting
from ragseal.prover.attestation.retrieval import COUNT

CLASS = "noise-mini-two-10"
CACHE = ROOT / "var" / "embeddings"
GAINS = (1, 2, 3, 4, 6, 8, 12, 16)
FILTERS = (1, 2, 3, 5, 8)  #: B, for the table of epsilons
MOST_COUNTED = 60  #: hi
DRAWS = 200  #: of noise, a question and gain
DELTA = "1/1000000"

Counts = npt.NDArray[np.int64]


def make_policy(cls: NoiseClass, words: Vocabulary, gain: int, similarity: float, words_max: int, often: int) -> Policy:
    """A policy of the claim, of which only what answers depend on matters here."""
    return Policy(
        class_name=cls.name, class_digest=class_digest(cls), table_digest=build_table(cls.law).digest(), dimension=384,
        claim=ANSWERS, hidden=0, lo=0, hi=MOST_COUNTED, gain=gain, n_max=10, k_max=10, delta=DELTA, epsilon_account="1",
        theta="9/10", tau=1000, gate=False, unit="slot", chunks_max=1, period_start=0, opens=0, closes=3600,
        vocabulary=words.root, words_max=words_max, participations=often, answered_by=30,
        similarity=round(similarity * SCORE_UNIT**2), ids=cls.K,
    )  # fmt: skip


def histograms(
    queries: Sequence[DemoQuery], policy: Policy, words: Vocabulary, embedder: Embedder, rows: dict[str, Counts]
) -> tuple[list[Counts], list[int]]:
    """Of each question its counts by slot, and how many documents took part."""
    generator, texts = SentenceGenerator(), demo_documents()
    found, part = [], []
    for query in queries:
        e = quantise(embedder.embed([query.text], role="query"))[0].astype(np.int64)
        near = np.flatnonzero(rows[query.tenant] @ e >= policy.similarity)
        documents = [texts[query.tenant][i].text for i in near]
        voting = Voting(generator, words, policy, query.text)
        made = voting.counts(map(voting.of, documents))
        found.append(np.frombuffer(made, dtype=COUNT).astype(np.int64))
        part.append(len(documents))
        click.echo(f"{len(found):3}/{len(queries)} {len(documents):4} documents  {query.text[:60]}", err=True)
    return found, part


def embedded(tenant: str, embedder: Embedder) -> Counts:
    """A tenant's quantised documents, kept under var/embeddings by their texts."""
    texts = [one.text for one in demo_documents()[tenant]]
    name = hashlib.sha256(json.dumps([embedder.identity().digest().hex(), texts]).encode()).hexdigest()[:16]
    path = CACHE / f"answers-{name}.npy"
    if not path.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        np.save(path, quantise(embedder.embed(texts)))
    kept: npt.NDArray[np.int8] = np.load(path)
    return kept.astype(np.int64)


def top(scores: Counts, k: int) -> set[int]:
    """The k slots with the largest (score, -slot)."""
    return set(np.lexsort((np.arange(len(scores)), -scores))[:k].tolist())


def draw(table: NoiseTable, rng: np.random.Generator, slots: int) -> Counts:
    """Noise of the table's own masses, in doubles: enough for a share over some thousand draws."""
    values = np.arange(-table.cut, table.cut + 1)
    masses = np.array([float(table.mass(x)) for x in values.tolist()])
    return rng.choice(values, size=slots, p=masses / masses.sum()).astype(np.int64)


def kept(counts: Counts, gain: int, k: int, table: NoiseTable, rng: np.random.Generator) -> float:
    """The share of the k best words without noise that the noise leaves, over DRAWS answers."""
    best = {slot for slot in top(counts, k) if counts[slot]}
    if not best:
        return 0.0
    hits = [len(best & top(1 + gain * counts + draw(table, rng, len(counts)), k)) for _ in range(DRAWS)]
    return float(np.mean(hits)) / len(best)


def costs(cls: NoiseClass, policy: Policy) -> dict[str, Any]:
    """Epsilon of one answer, and of those that one document takes part in."""
    one = one_answer(cls, build_table(cls.law), policy.gain, policy.words_max)
    filtered = {}
    for often in FILTERS:
        own = replace(policy, participations=often)
        filtered[str(often)] = answers_period([Spent("", own, cls, 100, answered=100)], _delta()).filtered.epsilon
    return {
        "one_answer": one.pure, "present": one.present, "absent": one.absent, "filtered": filtered,
        "hundred_answers": min(100 * one.pure, composed(one, 100, _delta())),
    }  # fmt: skip


def _delta() -> Fraction:
    return Fraction(DELTA)


@click.command()
@click.option("--questions", default=0, help="How many of the demo's questions; 0: all, each text once.")
@click.option("--similarity", default=0.35, show_default=True, help="Cosine from which a document takes part.")
@click.option("--words", "words_max", default=6, show_default=True, help="Keywords of one document.")
@click.option("--seed", default=1, show_default=True)
def main(questions: int, similarity: float, words_max: int, seed: int) -> None:
    """Measure, print a table and write bench/results/answers.json."""
    found = load_classes()[CLASS]
    assert isinstance(found, NoiseClass)
    cls, table, embedder = found, build_table(found.law), load_embedder()
    words = vocabulary(public_words(cls.N), cls.N)
    queries = list({query.text: query for query in demo_queries()}.values())
    step = max(1, len(queries) // questions) if questions else 1
    queries = queries[::step][: questions or None]
    policy = make_policy(cls, words, 1, similarity, words_max, 1)
    needed = {query.tenant for query in queries}
    rows = {tenant: embedded(tenant, embedder) for tenant in sorted(needed)}
    counts, part = histograms(queries, policy, words, embedder, rows)
    rng = np.random.default_rng(seed)
    measured = []
    for gain in GAINS:
        shares = [kept(one, gain, cls.K, table, rng) for one in counts]
        cost = costs(cls, replace(policy, gain=gain))
        row = {"gain": gain, "f1": float(np.mean(shares)), "by_question": [round(share, 4) for share in shares], **cost}
        measured.append(row)
        click.echo(
            f"gain {gain:3}: F1 {row['f1']:.3f}; epsilon of one answer {cost['one_answer']:.3f}, of 3 "
            f"{cost['filtered']['3']:.3f}, of 100 {cost['hundred_answers']:.1f}"
        )
    report = {
        "about": "share of the K keywords without noise that an attested answer returns, by gain and epsilon",
        "class": cls.name, "slots": cls.N, "K": cls.K, "delta": DELTA, "similarity": similarity, "words_max": words_max,
        "generator": SentenceGenerator().name, "embedder": "minilm", "draws": DRAWS, "seed": seed,
        "questions": [query.text for query in queries], "documents_that_take_part": part,
        "largest_counts": [sorted(one.tolist(), reverse=True)[: cls.K] for one in counts],
        "by_gain": measured, "machine": machine(),
    }  # fmt: skip
    save(RESULTS / "answers.json", report)


if __name__ == "__main__":
    main()

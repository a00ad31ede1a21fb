# SPDX-License-Identifier: GPL-3.0-or-later
"""The questions that theta is calibrated on, and which of them mean the same: they say nothing about unrelated ones."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from ragseal.embedder import load_embedder, quantise
from ragseal.kernel.errors import ConfigurationError, EncodingError
from ragseal.kernel.estimate import Embeddings
from ragseal.prover.commitment.corpora import read_beir_qrels, read_beir_queries, read_jsonl
from ragseal.runtime import texts

MAX_FILE = 64 << 20  #: bytes
MOST_QUERIES = 20_000  #: their products are computed pair by pair
SAME_WORDS = Fraction(1, 2)


@dataclass(frozen=True, slots=True)
class Queries:
    """Texts, and which pairs of them (ranks a < b) mean the same or ask about the same thing."""

    texts: list[str]
    related: frozenset[tuple[int, int]]


def read_queries(source: str, paraphrases: Path | None = None) -> Queries:
    """``beir:FOLDER``, ``jsonl:FILE`` or ``lines:FILE`` (a query a line); paraphrases: two texts a line, a tab between.

    Related are queries of a BEIR folder that share a relevant document, paraphrases, and :func:`same_wording`.

    Raises:
        ConfigurationError: no such source, or too few or too many queries.
        EncodingError: a file is not what it should be.
    """
    kind, _, place = source.partition(":")
    path = Path(place)
    related: set[tuple[int, int]] = set()
    if kind == "beir" and place:
        found = read_beir_queries(path)
        texts, ids = list(found.values()), {name: i for i, name in enumerate(found)}
        for split in sorted(p.stem for p in (path / "qrels").glob("*.tsv")):
            _relate(related, _asking(read_beir_qrels(path, split), ids))
    elif kind == "jsonl" and place:
        texts = [document.text for document in read_jsonl(path)]
    elif kind == "lines" and place:
        texts = [line.strip() for line in _lines(path) if line.strip()]
    else:
        raise ConfigurationError(f"unknown source of queries {source!r}: use beir:FOLDER, jsonl:FILE or lines:FILE")
    if paraphrases is not None:
        for number, line in enumerate(_lines(paraphrases), 1):
            pair = [text.strip() for text in line.split("\t")]
            if len(pair) != 2 or not all(pair):
                raise EncodingError(f"{paraphrases}, line {number}: expected two texts with a tab between them")
            related.add((len(texts), len(texts) + 1))
            texts += pair
    if not 2 <= len(texts) <= MOST_QUERIES:
        raise ConfigurationError(f"{source} has {len(texts)} queries; calibration takes 2 to {MOST_QUERIES}")
    return Queries(texts, frozenset(related | same_wording(texts)))


def same_wording(texts: list[str], share: Fraction = SAME_WORDS) -> set[tuple[int, int]]:
    """Pairs whose sets of words overlap by ``share`` of their union: repeats, templates, a claim and its denial.

    They link at every theta that finds paraphrases, so they say nothing about unrelated queries.
    """
    words = [set(re.findall(r"\w+", text.casefold())) or {text} for text in texts]
    often = Counter(word for found in words for word in found)
    first: dict[str, list[int]] = {}
    out: set[tuple[int, int]] = set()
    for b, found in enumerate(words):
        # Of two sets that overlap so far, each has one of its rarest words in the other's rarest words.
        rare = sorted(found, key=lambda word: (often[word], word))[: len(found) - math.ceil(share * len(found)) + 1]
        for a in {a for word in rare for a in first.get(word, [])}:
            if len(found & words[a]) >= share * len(found | words[a]):
                out.add((a, b))
        for word in rare:
            first.setdefault(word, []).append(b)
    return out


def _lines(path: Path) -> list[str]:
    """A file's lines.  Newlines alone end one: U+2028 and the like stand in questions, too."""
    return texts.read_text(path, str(path), most=MAX_FILE, error=EncodingError).removesuffix("\n").split("\n")


def _asking(qrels: dict[str, dict[str, int]], ids: dict[str, int]) -> list[list[int]]:
    """Queries of every relevant document."""
    of: dict[str, list[int]] = {}
    for query, grades in qrels.items():
        for document, grade in grades.items():
            if grade > 0 and query in ids:
                of.setdefault(document, []).append(ids[query])
    return list(of.values())


def _relate(related: set[tuple[int, int]], groups: list[list[int]]) -> None:
    for group in groups:
        ordered = sorted(set(group))
        related.update((a, b) for i, a in enumerate(ordered) for b in ordered[i + 1 :])


def embedded(name: str, texts: list[str], progress: Callable[[int, int], None] | None = None) -> Embeddings:
    """e of every query."""
    return quantise(load_embedder(name).embed(texts, role="query", progress=progress))

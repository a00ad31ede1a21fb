# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tables are measured on: documents in the index and kept out of it, benign queries, question-answer sets.

Corpora: ``demo`` (docstrings of Python's standard library) or ``beir:FOLDER``.  A question-answer file has one object a
line in the layout of NQ-open: ``{"question": ..., "answer": [...]}``.
"""

from __future__ import annotations

import csv
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.experiment import ROOT
from bench.questions import QUESTIONS
from ragseal.demo.corpus import demo_documents, demo_queries
from ragseal.embedder import load_embedder
from ragseal.embedder.interface import QUANTISATION, EmbedderIdentity, Progress, Role
from ragseal.kernel.errors import ConfigurationError
from ragseal.prover.commitment.corpora import open_corpus
from ragseal.runtime.edges.filesystem import why

Vectors = npt.NDArray[np.float32]

CACHE = ROOT / "var" / "bench" / "mirabel"
LONGEST = 700  #: characters of a document that are used
WORD_DIMENSION = 512
MOST_LINES = 1 << 20  #: of a file of questions
WORD = re.compile(r"[^\W_]+(?:['-][^\W_]+)*")
SENTENCE = re.compile(r"(?<=[.!?])\s+")


@dataclass(frozen=True, slots=True)
class Question:
    """One entry of a question-answer set."""

    text: str
    answers: tuple[str, ...]  #: strings of which one is in a right answer; may be empty
    relevant: tuple[str, ...] = ()  #: ids of documents that are judged relevant; may be empty


@dataclass(frozen=True, slots=True)
class Corpus:
    """Documents by id, and who asks what."""

    name: str
    members: Mapping[str, str]  #: in the index
    others: Mapping[str, str]  #: kept out of it
    benign: tuple[str, ...]
    questions: tuple[Question, ...]


def words(text: str) -> list[str]:
    """Lower-case words."""
    return [word.lower() for word in WORD.findall(text)]


class Words:
    """An embedder of hashed word counts: no model, quick, and of another kind than those that are trained."""

    name = "words"
    dimension = WORD_DIMENSION

    def identity(self) -> EmbedderIdentity:
        nothing = hashlib.sha256(b"words").digest()
        return EmbedderIdentity(
            weights=nothing,
            tokenizer=nothing,
            architecture="words",
            pooling="sum",
            max_tokens=1 << 20,
            query_prompt="",
            document_prompt="",
            dimension=WORD_DIMENSION,
            quantisation=QUANTISATION,
        )

    def embed(self, texts: Sequence[str], *, role: Role = "document", progress: Progress | None = None) -> Vectors:
        rows = np.zeros((len(texts), WORD_DIMENSION), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word, count in Counter(words(text)).items():
                digest = hashlib.sha256(word.encode()).digest()
                row[int.from_bytes(digest[:4], "big") % WORD_DIMENSION] += 1 + np.log(count)
            row[0] += 1e-3  # a text without words
        return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)


def embed(embedder: str, texts: Sequence[str], role: str) -> Vectors:
    """Unit vectors of ``texts``; those of a model are kept in ``var/bench/mirabel``, where a run goes on."""
    if embedder == Words.name:
        return Words().embed(texts)
    model = load_embedder(embedder)
    told = json.dumps([model.identity().digest().hex(), role, list(texts)]).encode()
    place = CACHE / f"{hashlib.sha256(told).hexdigest()[:32]}.npy"
    if place.exists():
        return np.asarray(np.load(place), dtype=np.float32)
    made = np.asarray(model.embed(list(texts), role="query" if role == "query" else "document"), dtype=np.float32)
    CACHE.mkdir(parents=True, exist_ok=True)
    part = place.with_suffix(".part.npy")
    np.save(part, made)
    part.replace(place)
    return made


def load(spec: str, documents: int, seed: int, questions: Path | None = None, share: float = 0.8) -> Corpus:
    """A corpus with ``share`` of its documents in the index.

    Args:
        documents: how many are taken, at random.
        questions: file of a question-answer set; without one the corpus' own queries that are judged, or else
            sentences of members with a word asked for.

    Raises:
        ConfigurationError: no such corpus, too few documents, or a damaged file.
    """
    rng = np.random.default_rng(seed)
    read = _read(questions) if questions is not None else None
    judged: tuple[Question, ...] = ()
    if spec == "demo":
        found = _demo()
        benign = [text for tenant in QUESTIONS.values() for text in tenant] + [one.text for one in demo_queries()]
    elif spec.startswith("beir:"):
        folder = Path(spec.removeprefix("beir:"))
        found = {one.id: one.text for one in open_corpus(spec)}
        asked = dict(_queries(folder / "queries.jsonl"))
        judged = tuple(_judged(folder, asked))
        benign = [asked[at] for at in sorted(asked)]
    else:
        raise ConfigurationError(f"there is no corpus {spec!r}: write demo, or beir:FOLDER")
    found = {name: text[:LONGEST] for name, text in found.items() if len(words(text)) >= 20}
    if len(found) < 50:
        raise ConfigurationError(f"{spec} has {len(found)} documents of 20 words or more: 50 are the least to measure")
    names = sorted(found)
    wanted = [name for one in judged for name in one.relevant if name in found]
    chosen = sorted({*wanted[: documents // 2], *rng.permutation(names)[:documents].tolist()})[:documents]
    order = [chosen[i] for i in rng.permutation(len(chosen))]
    cut = round(share * len(order))
    members = {name: found[name] for name in order[:cut]}
    others = {name: found[name] for name in order[cut:]}
    known = tuple(one for one in judged if set(one.relevant) & set(members))
    asked_of = read or known or made_questions(members, rng)
    mixed = [benign[i] for i in rng.permutation(len(benign))]
    return Corpus(called(spec), members, others, tuple(mixed), asked_of)


@cache
def _demo() -> dict[str, str]:
    return {one.id: one.text for tenant in demo_documents().values() for one in tenant}


def called(spec: str) -> str:
    """What results call a corpus: its kind, and the folder's own name."""
    kind, _, folder = spec.partition(":")
    return f"{kind}:{Path(folder).resolve().name}" if folder else kind


def json_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Objects of a file, one a line.  ConfigurationError: it cannot be read; names the line."""
    try:
        with path.open(encoding="utf-8") as file:
            for at, line in enumerate(file, 1):
                if at > MOST_LINES:
                    raise ConfigurationError(f"{path} has more than {MOST_LINES} lines: give a smaller file")
                value = json.loads(line)
                if not isinstance(value, dict):
                    raise ValueError("no object")
                yield value
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {why(error, path)}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{path}, line {at}: {error}; write one object a line") from None


def _queries(path: Path) -> Iterator[tuple[str, str]]:
    for line in json_lines(path):
        if not isinstance(line.get("_id"), str) or not isinstance(line.get("text"), str):
            raise ConfigurationError(f"{path}: a query has no _id or no text")
        yield line["_id"], line["text"]


def _judged(folder: Path, asked: Mapping[str, str]) -> Iterator[Question]:
    """Queries with relevant documents, where the folder has judgements."""
    relevant: dict[str, list[str]] = {}
    for path in sorted((folder / "qrels").glob("*.tsv")):
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file, delimiter="\t"):
                if str(row.get("score", "0")) not in ("0", "") and row.get("query-id") in asked:
                    relevant.setdefault(str(row["query-id"]), []).append(str(row.get("corpus-id")))
    for query, names in sorted(relevant.items()):
        yield Question(asked[query], (), tuple(names))


def _read(path: Path) -> tuple[Question, ...]:
    """A question-answer set in the layout of NQ-open."""
    out = []
    for at, line in enumerate(json_lines(path), 1):
        text, answers = line.get("question"), line.get("answer")
        if not isinstance(text, str) or not isinstance(answers, list) or not all(isinstance(x, str) for x in answers):
            raise ConfigurationError(
                f'{path}, line {at}: needs "question": text and "answer": a list of texts, as NQ-open has them'
            )
        out.append(Question(text, tuple(answers)))
    if not out:
        raise ConfigurationError(f"{path} has no question")
    return tuple(out)


def made_questions(texts: Mapping[str, str], rng: np.random.Generator, most: int = 200) -> tuple[Question, ...]:
    """A sentence of each document with its rarest word asked for."""
    known = Counter(word for text in texts.values() for word in set(words(text)))
    names = list(texts)
    out = []
    for i in rng.permutation(len(names))[:most]:
        for asked, answer in cloze(texts[names[i]], known)[:1]:
            out.append(Question(asked, (answer,), (names[i],)))
    return tuple(out)


def cloze(text: str, known: Mapping[str, int]) -> list[tuple[str, str]]:
    """(sentence with its rarest word replaced by "what", that word), for every sentence of six words or more."""
    out = []
    for sentence in SENTENCE.split(text):
        found = [word for word in WORD.findall(sentence) if len(word) > 3]
        if len(words(sentence)) >= 6 and found:
            rarest = min(found, key=lambda word: (known.get(word.lower(), 0), -len(word), word))
            out.append((re.sub(rf"\b{re.escape(rarest)}\b", "what", sentence), rarest))
    return out

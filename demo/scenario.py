# SPDX-License-Identifier: GPL-3.0-or-later
"""What a trial asks whom: somebody's own documents in one tenant, a BEIR folder with its queries, or docstrings.

The standard library's docstrings stand in two tenants and have queries of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ragseal.circuits.circuit import load_classes
from ragseal.circuits.sizes import names_for, size_for
from ragseal.demo.corpus import DemoQuery, demo_accounts, demo_queries, write_corpus
from ragseal.demo.worth import Grades, judgements
from ragseal.kernel.claims import Form, form_of
from ragseal.kernel.errors import ConfigurationError
from ragseal.kernel.policy import ANSWERS, UNTIL_DELIVERED
from ragseal.prover.commitment.corpora import open_corpus, read_beir_queries

RETURN = 6.0  #: nats, at most: what the demo pays for useful answers
BEIR_TENANT = "beir"
BEIR_ACCOUNTS = ("ana", "ben", "chloe", "deniz")
BEIR_QUERIES = 18  #: distinct ones of a BEIR folder; three a round, one of them by two accounts
ANSWERS_CLASS = "noise-mini-two-10"  #: of answers in words: few keywords, since each of them costs
ANSWERED = 2  #: questions of an account that are answered in words
OWN_TENANT, ACCOUNT = "documents", "you"  #: of somebody's own documents
MOST_ASKED = 25  #: questions of that account in one window
CHUNK = 1200  #: characters of a part of a text file: about what the default embedder reads
SUFFIXES = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv"}  #: of files, and their kind of corpus


@dataclass(frozen=True, slots=True)
class Scenario:
    """One run of the demo."""

    class_name: str
    corpora: dict[str, str]  #: tenant: corpus as ``ragseal-provider documents put`` takes it
    accounts: dict[str, str]  #: account: tenant
    queries: list[DemoQuery]
    judged: Mapping[str, Grades] = field(default_factory=dict)  #: by the query's text; a BEIR folder's own
    claim: str = UNTIL_DELIVERED
    shards: int = 1  #: of the class, that an index is
    filled: int = 0  #: documents that random vectors fill the index up to; 0: none
    most_return: float = RETURN  #: nats, of the window's policy
    chunk: int | None = None  #: characters of a part, where the corpus is a folder of texts
    own: bool = False  #: documents are somebody's own, and questions are asked by ACCOUNT, as many as MOST_ASKED

    @property
    def form(self) -> Form:
        """What the claim means to messages."""
        return form_of(self.claim)


def stdlib_scenario(folder: Path, class_name: str | None, claim: str = UNTIL_DELIVERED) -> Scenario:
    """Two tenants of docstrings of Python's standard library, written below ``folder``."""
    files = write_corpus(folder / "corpus")
    corpora = {tenant: f"jsonl:{path}" for tenant, path in files.items()}
    documents = max(sum(1 for _ in open_corpus(corpus)) for corpus in corpora.values())
    name, shards = _size(class_name, documents, claim)
    return Scenario(name, corpora, demo_accounts(), demo_queries(), claim=claim, shards=shards)


def _size(class_name: str | None, documents: int, claim: str) -> tuple[str, int]:
    """The class that is asked for, or the smallest one of the claim with room to grow, and its shards."""
    if class_name is not None:
        return class_name, 1
    cls, shards = size_for(documents, names=names_for(claim))
    return cls.name, shards


def answers_scenario(folder: Path) -> Scenario:
    """The same corpora, whose accounts get answers in words: the first ANSWERED questions of each."""
    plan = stdlib_scenario(folder, ANSWERS_CLASS)
    return replace(plan, queries=first_questions(plan.queries, ANSWERED), claim=ANSWERS)


def first_questions(queries: Iterable[DemoQuery], count: int) -> list[DemoQuery]:
    """The first so many of each account, in their order."""
    asked: Counter[str] = Counter()
    kept = []
    for query in queries:
        asked[query.account] += 1
        if asked[query.account] <= count:
            kept.append(query)
    return kept


def beir_scenario(
    corpus: str, class_name: str | None, asked: int = BEIR_QUERIES, claim: str = UNTIL_DELIVERED
) -> Scenario:
    """A BEIR folder as one tenant, asked its own queries, judged ones if there are enough; ana and ben ask the same.

    The queries are spread over the file, where those on one subject often stand together: strangers who asked them
    would look like a coalition.

    Args:
        asked: how many distinct queries, in rounds of three.

    Raises:
        ConfigurationError: not a multiple of three, fewer queries, or more documents than any class holds.
    """
    if asked < 3 or asked % 3:
        raise ConfigurationError(f"a BEIR folder is asked a multiple of 3 queries, not {asked}")
    documents = sum(1 for _ in open_corpus(corpus))
    name, shards = _size(class_name, documents, claim)
    folder = Path(corpus.partition(":")[2])
    judged = judgements(folder)
    texts = [text for text in read_beir_queries(folder).values() if text in judged or len(judged) < asked]
    if len(texts) < asked:
        raise ConfigurationError(f"the demo needs {asked} queries, the folder has {len(texts)}")
    spread = iter(texts[i * len(texts) // asked] for i in range(asked))
    queries = []
    for shared, second, third in zip(spread, spread, spread, strict=True):
        for account, text in zip(BEIR_ACCOUNTS, (shared, shared, second, third), strict=True):
            queries.append(DemoQuery(account, BEIR_TENANT, text))
    accounts = dict.fromkeys(BEIR_ACCOUNTS, BEIR_TENANT)
    return Scenario(name, {BEIR_TENANT: corpus}, accounts, queries, judged, claim=claim, shards=shards)


def corpus_of(path: str) -> str:
    """The corpus that a path means: of JSONL, CSV, BEIR or texts; what names its kind already stays as it is.

    Raises:
        ConfigurationError: there is nothing of a kind that can be read.
    """
    if path.partition(":")[0] in ("jsonl", "csv", "beir", "text"):
        return path
    found = Path(path)
    if found.is_dir():
        return f"{'beir' if (found / 'corpus.jsonl').is_file() else 'text'}:{path}"
    if found.suffix.lower() in SUFFIXES and found.exists():
        return f"{SUFFIXES[found.suffix.lower()]}:{path}"
    raise ConfigurationError(
        f"{path} is {'a file of no kind that can be read' if found.exists() else 'not there'}: name a .jsonl or .csv "
        "file, a folder of .txt and .md files, or a BEIR folder"
    )


def own_scenario(
    corpus: str, questions: Sequence[str], class_name: str | None, claim: str = UNTIL_DELIVERED
) -> Scenario:
    """Documents as one tenant, and the questions of one account; ``questions``: none where they are typed later.

    Raises:
        ConfigurationError: no documents, more than any class holds, or more questions than an account may ask.
        EncodingError: what the corpus holds is refused.
    """
    if len(questions) > MOST_ASKED:
        raise ConfigurationError(f"an account asks at most {MOST_ASKED} questions in a trial, not {len(questions)}")
    if any(not question.strip() for question in questions):
        raise ConfigurationError("one of the questions is empty")
    chunk = CHUNK if corpus.startswith("text:") else None
    documents = sum(1 for _ in open_corpus(corpus, chunk_characters=chunk))
    if not documents:
        raise ConfigurationError(f"{corpus.partition(':')[2]} holds no documents")
    name, shards = _size(class_name, documents, claim)
    queries = [DemoQuery(ACCOUNT, OWN_TENANT, question) for question in questions]
    return Scenario(
        name, {OWN_TENANT: corpus}, {ACCOUNT: OWN_TENANT}, queries, claim=claim, shards=shards, chunk=chunk, own=True
    )


def docstrings_of_all(folder: Path) -> str:
    """Both tenants' docstrings as one corpus."""
    files = write_corpus(folder)
    whole = folder / "docstrings.jsonl"
    whole.write_text("".join(path.read_text("utf-8") for path in files.values()), "utf-8")
    return f"jsonl:{whole}"


def check_class(name: str | None, claim: str) -> None:
    """Raises ConfigurationError: there is no such class, or it does not hold the claim."""
    if name is not None and name not in load_classes():
        raise ConfigurationError(f"no circuit class {name!r}: one of {', '.join(load_classes())}")
    fit = [found for found, cls in load_classes().items() if cls.noisy == form_of(claim).noisy]
    if name not in (None, *fit):
        raise ConfigurationError(f"class {name!r} holds no claim {claim}: take one of {', '.join(fit)}")


def check_queries(corpus: str, class_name: str | None, asked: int) -> None:
    """Of a corpus with queries of its own.  Raises ConfigurationError: it has not so many."""
    if corpus.startswith("beir:"):
        beir_scenario(corpus, class_name, asked)
    elif asked != BEIR_QUERIES:
        raise ConfigurationError("the standard library's docstrings have queries of their own: --queries is for BEIR")


def scenario(
    corpus: str, folder: Path, class_name: str | None, asked: int = BEIR_QUERIES, claim: str = UNTIL_DELIVERED
) -> Scenario:
    """``stdlib`` or ``beir:PATH``, with queries of their own."""
    if corpus.startswith("beir:"):
        return beir_scenario(corpus, class_name, asked, claim)
    return stdlib_scenario(folder, class_name, claim)

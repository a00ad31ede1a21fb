# SPDX-License-Identifier: GPL-3.0-or-later
"""What the demo asks whom: the standard library's docstrings in two tenants, or any BEIR folder as one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ragseal.circuits.circuit import load_classes
from ragseal.circuits.sizes import names_for, size_for
from ragseal.demo.corpus import DemoQuery, demo_accounts, demo_queries, write_corpus
from ragseal.demo.worth import Grades, judgements
from ragseal.embedder import load_embedder
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


def check_arguments(
    corpus: str, class_name: str | None, embedder: str, asked: int = BEIR_QUERIES, claim: str = UNTIL_DELIVERED
) -> None:
    """What can be known of the demo's arguments before it touches anything.

    Raises:
        ConfigurationError: no such corpus, class or embedder, or too few queries.
    """
    load_embedder(embedder)
    if class_name is not None and class_name not in load_classes():
        raise ConfigurationError(f"no circuit class {class_name!r}: one of {', '.join(load_classes())}")
    fit = [name for name, cls in load_classes().items() if cls.noisy == form_of(claim).noisy]
    if class_name not in (None, *fit):
        raise ConfigurationError(f"class {class_name!r} holds no claim {claim}: take one of {', '.join(fit)}")
    if corpus.startswith("beir:"):
        beir_scenario(corpus, class_name, asked)
    elif asked != BEIR_QUERIES:
        raise ConfigurationError("the demo's own corpus has queries of its own: --queries is for a BEIR folder")
    elif corpus != "stdlib":
        raise ConfigurationError(f"unknown corpus {corpus!r}: use stdlib or beir:PATH")


def scenario(
    corpus: str, folder: Path, class_name: str | None, asked: int = BEIR_QUERIES, claim: str = UNTIL_DELIVERED
) -> Scenario:
    """``stdlib`` or ``beir:PATH``."""
    if corpus == "stdlib":
        return stdlib_scenario(folder, class_name, claim)
    if corpus.startswith("beir:"):
        return beir_scenario(corpus, class_name, asked, claim)
    raise ConfigurationError(f"unknown corpus {corpus!r}: use stdlib or beir:PATH")

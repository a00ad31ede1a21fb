# SPDX-License-Identifier: GPL-3.0-or-later
"""Theta for an embedder: how alike unrelated queries are, and how alike paraphrases.  SPEC C.11.

Theta is part of the public policy, so it may be computed from public queries (a benchmark's, documentation's) or from
queries whose owners were paid for them, as the score window may; never from tenants' private queries: what is chosen by
them and published tells about them.

Null model: honest accounts who ask different things.  A window is a random choice of the queries in random order, dealt
to accounts in turn; links of related queries are left out, they are what the estimate is to find; a false alarm is
c > k_max.  Beside the rate measured in such windows stands the rate of any link between two accounts if pairs were
independent, 1 - exp(-pairs * rate of a pair), which takes its place where a window has more records than there are
queries.

Every rate has an exact two-sided interval (Clopper and Pearson): of the windows that were drawn, or of the pairs, taken
as independent.  Theta is the least whose interval ends within the target.  It says nothing about other questions than
those like the given ones, and :func:`least_queries` says how few are too few.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt

from ragseal.accounting.statistics import binomial_lower, binomial_upper
from ragseal.embedder import DEFAULT, load_embedder, quantise
from ragseal.kernel.errors import ConfigurationError, EncodingError
from ragseal.kernel.estimate import FULL, Embeddings, link_threshold
from ragseal.prover.commitment.corpora import read_beir_qrels, read_beir_queries, read_jsonl
from ragseal.runtime.terminal import JSON, progress_bars

Pairs = npt.NDArray[np.int64]

THETAS = tuple(Fraction(i, 100) for i in range(30, 100))
SHOWN = tuple(Fraction(i, 20) for i in range(6, 20))  #: of them, what the table shows
QUANTILES = (0.5, 0.9, 0.99, 0.999, 0.9999)
MOST_QUERIES = 20_000  #: their products are computed pair by pair
SAME_WORDS = Fraction(1, 2)
CONFIDENCE = 0.95  #: of every interval, two-sided
APART = 3  #: the queries fill a window so many times, or two drawn windows are much the same one
_BLOCK = 512


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
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise EncodingError(f"{path} is not UTF-8 text") from None


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


@dataclass(frozen=True, slots=True)
class Similarities:
    """Products of all pairs of queries, in units of 127^2 = 1."""

    queries: int
    histogram: Pairs  #: unrelated pairs by product + FULL * 2
    close: Pairs  #: (m, 3): unrelated a < b and their product, from the lowest theta on
    related: Pairs  #: products of related pairs, increasing
    norms: tuple[int, int]  #: least and largest squared norm

    @property
    def unrelated(self) -> int:
        """How many pairs."""
        return int(self.histogram.sum())

    def quantile(self, share: float) -> float:
        """Cosine that ``share`` of the unrelated pairs do not exceed."""
        rank = max(1, math.ceil(share * self.unrelated))
        return (int(np.searchsorted(np.cumsum(self.histogram), rank)) - 2 * FULL) / FULL

    def linked(self, threshold: int) -> int:
        """How many unrelated pairs link."""
        return int(self.histogram[2 * FULL + threshold :].sum())

    def pair_rate(self, threshold: int) -> float:
        """Share of unrelated pairs that link."""
        return self.linked(threshold) / max(1, self.unrelated)

    def found(self, threshold: int) -> float | None:
        """Share of related pairs that link."""
        return float((self.related >= threshold).mean()) if len(self.related) else None


def similarities(embeddings: Embeddings, related: frozenset[tuple[int, int]]) -> Similarities:
    """Exact products of all pairs."""
    wide = embeddings.astype(np.int64)
    norms = (wide * wide).sum(axis=1)
    if norms.max() >= 2 * FULL:
        raise EncodingError("these embeddings are not quantised unit vectors")
    n, least = len(wide), link_threshold(THETAS[0])
    floats = embeddings.astype(np.float64)  # exact, and faster than integers
    histogram = np.zeros(4 * FULL + 1, dtype=np.int64)
    pairs = np.array(sorted(related), dtype=np.int64).reshape(-1, 2)
    close = []
    for start in range(0, n, _BLOCK):
        products = (floats[start : start + _BLOCK] @ floats.T).astype(np.int64)
        rows = np.arange(start, start + len(products))
        count = np.arange(n) > rows[:, None]
        mine = pairs[(pairs[:, 0] >= start) & (pairs[:, 0] < start + len(products))]
        count[mine[:, 0] - start, mine[:, 1]] = False
        histogram += np.bincount(products[count] + 2 * FULL, minlength=len(histogram))
        a, b = np.nonzero(count & (products >= least))
        close.append(np.stack([a + start, b, products[a, b]], axis=1))
    alike = np.sort((wide[pairs[:, 0]] * wide[pairs[:, 1]]).sum(axis=1))
    return Similarities(n, histogram, np.concatenate(close), alike, (int(norms.min()), int(norms.max())))


@dataclass(frozen=True, slots=True)
class Window:
    """The honest window of the null model."""

    accounts: int
    each: int  #: queries of an account
    tau: int

    @property
    def records(self) -> int:
        return self.accounts * self.each

    def pairs(self) -> int:
        """Pairs of records of different accounts at most tau apart; records are dealt in turn."""
        n, reach = self.records, min(self.tau, self.records - 1)
        own = sum(n - distance for distance in range(self.accounts, reach + 1, self.accounts))
        return reach * n - reach * (reach + 1) // 2 - own


def interval(hits: int, n: int) -> tuple[float, float]:
    """Exact two-sided interval of a rate at :data:`CONFIDENCE`, each end wrong with half of the rest."""
    each = (1 - CONFIDENCE) / 2
    return binomial_lower(hits, n, each), binomial_upper(hits, n, each)


def least_queries(window: Window, target: Fraction) -> int:
    """How many queries a calibration needs at least, or it shows nothing.

    Enough to draw windows that differ (:data:`APART`); or, where that is fewer, so many pairs that a rate of a link
    within the target could follow, if none of them linked.
    """
    pairs = window.pairs() * -math.log((1 - CONFIDENCE) / 2) / -math.log1p(-float(target))
    return min(APART * window.records, math.isqrt(math.ceil(2 * pairs)) + 2)


def largest_false(found: Similarities, window: Window, k_max: int, draws: int, rng: np.random.Generator) -> Pairs:
    """The largest threshold at which c > k_max, for each of ``draws`` honest windows; below the lowest theta, 0.

    Raises:
        ConfigurationError: the window has more records than there are queries.
    """
    if window.records > found.queries:
        raise ConfigurationError(
            f"a window of {window.records} records cannot be drawn from {found.queries} different queries"
        )
    out = np.zeros(draws, dtype=np.int64)
    a, b, product = found.close[np.argsort(-found.close[:, 2], kind="stable")].T
    chunk = max(1, (1 << 22) // max(1, len(product)))
    for start in range(0, draws, chunk):
        rank = rng.permuted(np.tile(np.arange(found.queries), (min(chunk, draws - start), 1)), axis=1)
        first, second = rank[:, a], rank[:, b]
        meet = (first < window.records) & (second < window.records) & (abs(first - second) <= window.tau)
        for i, row in enumerate(meet):
            links = np.stack([first[i, row], second[i, row], product[row]], axis=1)
            out[start + i] = _crossing(links.tolist(), window.accounts, k_max)
    return out


def _crossing(links: list[list[int]], accounts: int, k_max: int) -> int:
    """Product of the link, taken in falling order, that joins more than k_max accounts; 0 if none does."""
    component: dict[int, list[int]] = {}
    for a, b, product in links:
        x, y = component.setdefault(a, [a]), component.setdefault(b, [b])
        if x is not y:
            x += y
            if len({record % accounts for record in x}) > k_max:
                return product
            component.update(dict.fromkeys(y, x))
    return 0


def report(found: Similarities, window: Window, k_max: int, target: Fraction, draws: int, seed: int) -> dict[str, Any]:
    """Everything the command prints: distributions, rates by theta, the least theta that keeps the target."""
    fitting = window.records <= found.queries
    largest = largest_false(found, window, k_max, draws, np.random.default_rng(seed)) if fitting else None
    rates: list[dict[str, Any]] = []
    for theta in THETAS:
        threshold = link_threshold(theta)
        expected = window.pairs() * found.pair_rate(threshold)
        predicted = -math.expm1(-expected)
        if largest is None:
            ends = interval(found.linked(threshold), found.unrelated)
            low, high = (-math.expm1(-window.pairs() * rate) for rate in ends)
        else:
            low, high = interval(int((largest >= threshold).sum()), draws)
        rates.append({
            "theta": str(theta),
            "threshold": threshold,
            "pair_rate": found.pair_rate(threshold),
            "false_links": expected,
            "predicted": predicted,
            "measured": None if largest is None else float((largest >= threshold).mean()),
            "interval": [low, high],
            "found": found.found(threshold),
        })  # fmt: skip
    kept = [i for i in range(len(rates)) if all(rate["interval"][1] <= target for rate in rates[i:])]
    return {
        "queries": found.queries,
        "norms": list(found.norms),
        "unrelated": {
            "pairs": found.unrelated,
            "quantiles": {str(q): found.quantile(q) for q in QUANTILES},
            "largest": found.quantile(1.0),
        },
        "related": {
            "pairs": len(found.related),
            "quantiles": {str(q): float(np.quantile(found.related, q)) / FULL for q in (0.1, 0.5, 0.9)}
            if len(found.related)
            else None,
        },
        "window": {"accounts": window.accounts, "each": window.each, "tau": window.tau, "pairs": window.pairs()},
        "k_max": k_max,
        "draws": draws if fitting else 0,
        "confidence": CONFIDENCE,
        "least_queries": least_queries(window, target),
        "seed": seed,
        "target": str(target),
        "theta": rates[kept[0]]["theta"] if kept else None,
        "rates": rates,
    }


def embedded(name: str, texts: list[str], progress: Callable[[int, int], None] | None = None) -> Embeddings:
    """e of every query."""
    return quantise(load_embedder(name).embed(texts, role="query", progress=progress))


def _text(found: dict[str, Any]) -> str:
    """The report for people."""
    window, unrelated, related = found["window"], found["unrelated"], found["related"]
    marks = "  ".join(f"{float(q) * 100:g} %: {cosine:.3f}" for q, cosine in unrelated["quantiles"].items())
    lines = [
        f"{found['queries']} queries, {unrelated['pairs']} unrelated pairs; cosines at or below {marks}  "
        f"largest: {unrelated['largest']:.3f}",
        f"{related['pairs']} related pairs"
        + (f"; median cosine {related['quantiles']['0.5']:.3f}" if related["pairs"] else ": give --paraphrases FILE"),
        f"null model: {window['accounts']} accounts of {window['each']} queries, tau {window['tau']}: "
        f"{window['pairs']} pairs of accounts that do not collude",
        "",
        f"theta   a pair links   any false link   c > {found['k_max']}, measured   "
        f"{found['confidence']:.0%} interval   related pairs found",
    ]
    for rate in found["rates"]:
        if Fraction(rate["theta"]) in SHOWN or rate["theta"] == found["theta"]:
            share = "-" if rate["found"] is None else f"{rate['found']:.3f}"
            measured = "-" if rate["measured"] is None else f"{rate['measured']:.3f}"
            lines.append(
                f"{float(Fraction(rate['theta'])):5.2f}   {rate['pair_rate']:12.2e}   {rate['predicted']:14.3f}   "
                f"{measured:>15}   {rate['interval'][0]:.3f} to {rate['interval'][1]:.3f}   {share:>19}"
            )
    chosen = found["theta"]
    lines += [
        "",
        f'theta = "{chosen}"   # false alarms at most {found["target"]}, at {found["confidence"]:.0%} confidence'
        if chosen
        else "no theta reaches this: the interval ends above the target at every theta; more --draws make it narrower",
    ]
    return "\n".join(lines)


@click.command()
@click.option(
    "--queries", required=True,
    help="beir:FOLDER, jsonl:FILE or lines:FILE: public queries, or queries whose owners were paid.",
)  # fmt: skip
@click.option(
    "--paraphrases",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Two texts per line, separated by a tab: a question and the same question in other words.",
)
@click.option("--embedder", default=DEFAULT, show_default=True, help="Whose theta it is.")
@click.option("--target", default="1/20", show_default=True, help="False alarms of an honest window at most.")
@click.option("--accounts", default=30, show_default=True, type=click.IntRange(min=2), help="Of the honest window.")
@click.option("--each", default=10, show_default=True, type=click.IntRange(min=1), help="Queries of an account in it.")
@click.option("--tau", default=1000, show_default=True, type=click.IntRange(min=0), help="As in the policy.")
@click.option("--k-max", default=2, show_default=True, type=click.IntRange(min=1), help="A false alarm is c > k_max.")
@click.option("--draws", default=1000, show_default=True, type=click.IntRange(min=1), help="Windows drawn.")
@click.option("--seed", default=1, show_default=True)
@JSON
def calibrate(
    queries: str, paraphrases: Path | None, embedder: str, target: str, accounts: int, each: int, tau: int, k_max: int,
    draws: int, seed: int, as_json: bool,
) -> None:  # fmt: skip
    """Find theta, the cosine from which on two queries count as linked, for an embedder.

    Theta is public, so give it public queries (a BEIR folder's), or queries whose owners were paid for them.  Never
    tenants' private queries: a published number that was chosen by them tells about them.
    """
    try:
        share = Fraction(target)
    except (ValueError, ZeroDivisionError):
        raise ConfigurationError(f"--target {target!r} is not a rate such as 1/20") from None
    if not 0 < share < 1:
        raise ConfigurationError("--target is a rate between 0 and 1, such as 1/20")
    texts = read_queries(queries, paraphrases)
    window = Window(accounts, each, tau)
    least = least_queries(window, share)
    if len(texts.texts) < least:
        raise ConfigurationError(
            f"{len(texts.texts)} queries show nothing about windows of {accounts} accounts with {each} queries each: "
            f"that takes at least {least}; give more queries, or a smaller window (--accounts, --each)"
        )
    with progress_bars() as bars:
        task = bars.add_task("embedding", total=len(texts.texts))
        rows = embedded(embedder, texts.texts, lambda done, total: bars.update(task, completed=done, total=total))
        task = bars.add_task("comparing", total=None)
        found = {
            "embedder": embedder,
            **report(similarities(rows, texts.related), window, k_max, share, draws, seed),
        }
    click.echo(json.dumps(found) if as_json else _text(found))

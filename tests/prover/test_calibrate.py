# SPDX-License-Identifier: GPL-3.0-or-later
"""Calibration of theta: every count against brute force, the gate against the kernel's own estimate, the command."""

from __future__ import annotations

import itertools
import json
import math
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from ragseal.demo.corpus import COLLUDING, demo_queries
from ragseal.kernel.errors import ConfigurationError, EncodingError
from ragseal.kernel.estimate import FULL, components, find_links, link_threshold, reach_of
from ragseal.prover.__main__ import main
from ragseal.prover.planning.calibration_queries import read_queries, same_wording
from ragseal.prover.planning.false_alarms import Window, interval, largest_false, least_queries, report
from ragseal.prover.planning.similarities import THETAS, similarities

pytestmark = pytest.mark.slow


def rows(seed: int, n: int, d: int = 24, topics: int = 6, spread: float = 0.5) -> np.ndarray:
    rng = np.random.default_rng(seed)
    v = rng.standard_normal((topics, d))[rng.integers(topics, size=n)] + spread * rng.standard_normal((n, d))
    return np.rint(127 * v / np.linalg.norm(v, axis=1, keepdims=True)).astype(np.int8)


WORDS = st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=7).map(" ".join), max_size=14)


@settings(max_examples=200)
@given(WORDS, st.fractions(Fraction(1, 10), 1, max_denominator=12))
def test_same_wording_misses_no_pair(texts: list[str], share: Fraction) -> None:
    def words(text: str) -> set[str]:
        return set(re.findall(r"\w+", text)) or {text}

    expected = {
        (a, b)
        for (a, s), (b, t) in itertools.combinations(enumerate(map(words, texts)), 2)
        if Fraction(len(s & t), len(s | t)) >= share
    }
    assert same_wording(texts, share) == expected


def test_a_claim_and_its_denial_are_related() -> None:
    texts = ["Dexamethasone increases risk of bleeding.", "dexamethasone decreases risk of bleeding", "Omega 3 helps."]
    assert same_wording(texts) == {(0, 1)}


def test_products_of_pairs() -> None:
    e = rows(1, 700)  # more than one block
    related = frozenset({(0, 1), (5, 600), (511, 512), (3, 699)})
    found = similarities(e, related)
    gram = e.astype(np.int64) @ e.astype(np.int64).T
    plain = [int(gram[a, b]) for a, b in itertools.combinations(range(700), 2) if (a, b) not in related]
    assert found.unrelated == len(plain) == 700 * 699 // 2 - 4
    assert found.related.tolist() == sorted(int(gram[a, b]) for a, b in related)
    for theta in THETAS[::10]:
        threshold = link_threshold(theta)
        assert found.pair_rate(threshold) == pytest.approx(sum(p >= threshold for p in plain) / len(plain))
        assert found.found(threshold) == sum(p >= threshold for p in found.related) / 4
    ordered = sorted(plain)
    for share in (0.5, 0.9, 1.0):
        assert found.quantile(share) == ordered[math.ceil(share * len(plain)) - 1] / FULL
    least = link_threshold(THETAS[0])
    assert sorted(found.close[:, 2]) == [p for p in ordered if p >= least]
    assert found.norms == (int(gram.diagonal().min()), int(gram.diagonal().max()))


@pytest.mark.parametrize(("accounts", "each", "tau"), [(2, 1, 0), (3, 4, 5), (4, 3, 100), (5, 5, 5), (2, 6, 1)])
def test_pairs_of_a_window(accounts: int, each: int, tau: int) -> None:
    pairs = itertools.combinations(range(accounts * each), 2)
    expected = sum(b - a <= tau and a % accounts != b % accounts for a, b in pairs)
    assert Window(accounts, each, tau).pairs() == expected


@pytest.mark.parametrize("k_max", [1, 2, 4])
@pytest.mark.parametrize("tau", [3, 1000])
def test_the_gate_is_the_estimators(k_max: int, tau: int) -> None:
    """At the threshold returned c exceeds k_max, one above it does not: according to the kernel's own estimate."""
    e = rows(2, 60, spread=0.45)
    related = frozenset(same_wording([f"word{i // 2} other{i // 2} new{i}" for i in range(20)]))
    found = similarities(e, related)
    window = Window(6, 9, tau)
    values = largest_false(found, window, k_max, 12, np.random.default_rng(7))
    ranks = np.random.default_rng(7).permuted(np.tile(np.arange(60), (12, 1)), axis=1)
    accounts = [f"a{record % 6}" for record in range(54)]
    for rank, value in zip(ranks, values.tolist(), strict=True):
        order = np.argsort(rank)[:54]

        def c(threshold: int, order: np.ndarray = order) -> int:
            links = find_links(e[order], reach_of([0] * len(order), tau), threshold)
            kept = [(a, b) for a, b in links if tuple(sorted((int(order[a]), int(order[b])))) not in related]
            return components(accounts, kept).c

        if value:
            assert c(value) > k_max
            assert c(value + 1) <= k_max
        else:
            assert c(link_threshold(THETAS[0])) <= k_max
    assert values.any()


def test_measured_and_independent_rates_agree() -> None:
    rng = np.random.default_rng(3)
    v = rng.standard_normal((1200, 32))
    e = np.rint(127 * v / np.linalg.norm(v, axis=1, keepdims=True)).astype(np.int8)
    found = similarities(e, frozenset())
    out = report(found, Window(30, 10, 1000), 1, Fraction(1, 20), 600, 5)
    compared = 0
    for rate in out["rates"]:
        if 0.02 < rate["predicted"] < 0.98:
            compared += 1
            assert rate["measured"] == pytest.approx(rate["predicted"], abs=0.09)  # 4 standard errors
    assert compared >= 5
    chosen = [r for r in out["rates"] if r["theta"] == out["theta"]]
    assert chosen[0]["measured"] < chosen[0]["interval"][1] <= 0.05
    below = [r["interval"] for r in out["rates"] if Fraction(r["theta"]) == Fraction(out["theta"]) - Fraction(1, 100)]
    assert below[0][1] > 0.05
    assert all(r["interval"][0] <= r["measured"] <= r["interval"][1] for r in out["rates"])


def test_a_window_beyond_the_queries_is_predicted() -> None:
    found = similarities(rows(4, 50, spread=3), frozenset())
    out = report(found, Window(30, 10, 1000), 2, Fraction(1, 20), 10, 1)
    assert out["draws"] == 0
    assert all(r["interval"][0] <= r["predicted"] <= r["interval"][1] for r in out["rates"])
    assert all(rate["measured"] is None for rate in out["rates"])
    with pytest.raises(ConfigurationError, match="300 records"):
        largest_false(found, Window(30, 10, 1000), 2, 1, np.random.default_rng(1))


def beir(folder: Path) -> str:
    (folder / "qrels").mkdir(parents=True)
    texts = [
        "How do cells divide?",
        "What is mitosis made of?",
        "Why is the sky blue at noon?",
        "Where do whales sleep?",
    ]
    lines = [json.dumps({"_id": f"q{i}", "text": text}) for i, text in enumerate(texts)]
    (folder / "queries.jsonl").write_text("\n".join(lines))
    head = "query-id\tcorpus-id\tscore\n"
    (folder / "qrels" / "train.tsv").write_text(head + "q0\td1\t1\nq2\td9\t0\nq3\td9\t1\n")
    (folder / "qrels" / "test.tsv").write_text(head + "q1\td2\t1\nq0\td2\t1\n")
    return f"beir:{folder}"


def test_sources(tmp_path: Path) -> None:
    judged = read_queries(beir(tmp_path / "beir"))
    assert len(judged.texts) == 4
    assert judged.related == {(0, 1)}  # both ask for d2; a grade of 0 relates nothing
    (tmp_path / "q.txt").write_text("one thing\n\nanother matter\nOne  THING!\n")
    (tmp_path / "p.tsv").write_text("how to rotate logs\troll a log file over\n")
    lines = read_queries(f"lines:{tmp_path / 'q.txt'}", tmp_path / "p.tsv")
    assert lines.texts[-2:] == ["how to rotate logs", "roll a log file over"]
    assert lines.related == {(0, 2), (3, 4)}
    (tmp_path / "q.jsonl").write_text('{"id": "1", "text": "a b"}\n{"id": "2", "text": "c d"}\n')
    assert read_queries(f"jsonl:{tmp_path / 'q.jsonl'}").texts == ["a b", "c d"]


@pytest.mark.parametrize(
    ("source", "content", "error"),
    [
        ("lines:FILE", b"only one\n", ConfigurationError),
        ("lines:FILE", b"\xff\xfe\n", EncodingError),
        ("lines:FILE.none", b"", EncodingError),
        ("folder:FILE", b"", ConfigurationError),
        ("lines:", b"", ConfigurationError),
    ],
)
def test_bad_sources(tmp_path: Path, source: str, content: bytes, error: type[Exception]) -> None:
    (tmp_path / "FILE").write_bytes(content)
    with pytest.raises(error):
        read_queries(source.replace("FILE", str(tmp_path / "FILE")))


def test_bad_paraphrases(tmp_path: Path) -> None:
    (tmp_path / "q").write_text("a\nb\n")
    (tmp_path / "p").write_text("a\tb\nno tab\n")
    with pytest.raises(EncodingError, match="line 2"):
        read_queries(f"lines:{tmp_path / 'q'}", tmp_path / "p")


def test_command(tmp_path: Path) -> None:
    """The demo's queries with the real embedder: its two colluding accounts' questions are alike, others are not."""
    ana, ben = ([q.text for q in demo_queries() if q.account == name] for name in COLLUDING)
    (tmp_path / "q").write_text("\n".join(q.text for q in demo_queries() if q.account not in COLLUDING))
    (tmp_path / "p").write_text("\n".join(map("\t".join, zip(ana, ben, strict=True))))
    command = ["calibrate", "--queries", f"lines:{tmp_path / 'q'}", "--paraphrases", str(tmp_path / "p")]
    small = ["--accounts", "2", "--each", "5", "--draws", "200"]
    done = CliRunner(catch_exceptions=False).invoke(main, [*command, *small, "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["related"]["pairs"] == len(ana)
    assert Fraction(1, 4) < Fraction(found["theta"]) < Fraction(7, 10)
    rates = {rate["theta"]: rate for rate in found["rates"]}
    assert rates["3/4"]["measured"] == 0
    assert rates["3/4"]["found"] == 1
    assert rates["3/4"]["interval"] == [0.0, pytest.approx(1 - 0.025 ** (1 / 200))]
    assert (found["confidence"], found["least_queries"]) == (0.95, 30)
    plain = CliRunner(catch_exceptions=False).invoke(main, [*command, *small])
    assert "95% interval" in plain.stdout
    refused = CliRunner().invoke(main, [*command, "--accounts", "2", "--each", "6"])
    assert refused.exit_code == 1
    assert "that takes at least 36" in " ".join(refused.output.split())
    vague = CliRunner().invoke(main, [*command, *small[:4], "--draws", "20", "--json"])
    assert json.loads(vague.stdout)["theta"] is None  # 20 windows show no rate of 1/20
    assert f'theta = "{found["theta"]}"' in plain.stdout


@pytest.mark.parametrize(("hits", "n"), [(0, 60), (1, 60), (7, 200), (60, 60)])
def test_the_interval_covers_as_often_as_it_says(hits: int, n: int) -> None:
    """At its ends the observed count is as unlikely as stated: the definition of Clopper and Pearson's interval."""

    def tail(p: float, ks: range) -> float:
        return math.fsum(math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in ks)

    low, high = interval(hits, n)
    assert low <= hits / n <= high
    if hits:
        assert tail(low, range(hits, n + 1)) == pytest.approx(0.025, rel=1e-6)
    if hits < n:
        assert tail(high, range(hits + 1)) == pytest.approx(0.025, rel=1e-6)


def test_how_many_questions_a_calibration_needs() -> None:
    assert least_queries(Window(30, 10, 1000), Fraction(1, 20)) == 900
    near = Window(50, 1000, 10)  # a large window whose records are compared with few others
    needed = least_queries(near, Fraction(1, 20))
    assert needed < 3 * near.records

    def shown(n: int) -> float:  # the rate of a link that none among all pairs leaves possible
        return 1 - math.exp(-near.pairs() * (1 - 0.025 ** (1 / (n * (n - 1) // 2))))

    assert shown(needed) <= 0.05 < shown(needed - 3)


@pytest.mark.parametrize("target", ["0", "1", "x", "1/0"])
def test_bad_target(tmp_path: Path, target: str) -> None:
    (tmp_path / "q").write_text("a\nb\n")
    done = CliRunner().invoke(main, ["calibrate", "--queries", f"lines:{tmp_path / 'q'}", "--target", target])
    assert done.exit_code == 1
    assert "Error: --target" in done.output
    assert "such as 1/20" in done.output

# SPDX-License-Identifier: GPL-3.0-or-later
"""ragseal-provider plan: audited epsilons, policies that `commit` accepts, plain words where a target is too high."""

from __future__ import annotations

import json
import math
import random
import re
import stat
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ragseal.accounting.audit import ScorePolicy, epsilon_audit
from ragseal.accounting.delivered_period import delivered_window
from ragseal.circuits.circuit import class_digest, load_classes
from ragseal.embedder import load_embedder
from ragseal.kernel import noise
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.errors import ConfigurationError, EncodingError
from ragseal.kernel.noise_class import NoiseClass
from ragseal.kernel.params import NOISE_LAWS
from ragseal.prover.__main__ import main
from ragseal.prover.cli import plan_command
from ragseal.prover.commitment.corpora import Document
from ragseal.prover.commitment.policy_file import Binding, load_policy
from ragseal.prover.planning import page as planpage
from ragseal.prover.planning import plan, public_score_ranges, shapes, tick_costs
from ragseal.prover.planning.budgets import ACCOUNTS
from ragseal.prover.planning.candidates import Sizes
from ragseal.prover.planning.public_score_ranges import PublicWindow
from ragseal.prover.planning.tick_costs import TickCost
from ragseal.prover.planning.workload import load_workload, pseudo_queries
from ragseal.prover.provider import assembly
from tests.classes import TINY
from tests.simulator.provider import DIMENSION, NOW, TrigramEmbedder

pytestmark = pytest.mark.slow

CLASSES: dict[str, AttestationClass] = load_classes()
SYLLABLES = [a + b for a in "bdfgklmnprst" for b in ("a", "e", "i", "o", "ul", "or")]


def text(rng: random.Random, words: int) -> str:
    return " ".join("".join(rng.choice(SYLLABLES) for _ in range(3)) for _ in range(words))


@pytest.fixture(scope="module")
def beir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty documents of invented words; a query is half of one of them."""
    folder, rng = tmp_path_factory.mktemp("beir"), random.Random(7)
    documents = [text(rng, 10) for _ in range(60)]
    lines = [json.dumps({"_id": f"d{i}", "title": "", "text": t}) for i, t in enumerate(documents)]
    (folder / "corpus.jsonl").write_text("\n".join(lines) + "\n")
    asked = [json.dumps({"_id": f"q{i}", "text": t[: len(t) // 2]}) for i, t in enumerate(documents[:40])]
    (folder / "queries.jsonl").write_text("\n".join(asked) + "\n")
    (folder / "qrels").mkdir()
    judged = "".join(f"q{i}\td{i}\t1\n" for i in range(40))
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + judged)
    return folder


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests' small embedder, and the tiny classes alone: larger ones take seconds a point."""
    monkeypatch.setattr(plan, "load_embedder", lambda name: TrigramEmbedder())
    tiny = {name: cls for name, cls in CLASSES.items() if "tiny" in name}
    monkeypatch.setattr(plan, "load_classes", lambda: tiny)
    scales = dict.fromkeys(NOISE_LAWS, (6.0,)) | {"gaussian-512": (0.5,), "decoys": (6.0,)}
    monkeypatch.setattr(plan_command, "QUICK_SCALES", scales)


@pytest.fixture
def two_scales(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than one point a line."""
    monkeypatch.setattr(
        plan_command,
        "QUICK_SCALES",
        dict.fromkeys(NOISE_LAWS, (2.0, 6.0)) | {"gaussian-512": (0.25, 0.75), "decoys": (5.0, 7.0)},
    )


def run(beir: Path, tmp_path: Path, *more: str, ticks: bool = False) -> Result:
    """Under claim every-list, and without measuring a version of the index, unless told otherwise."""
    claim = () if "--claim" in more else ("--claim", "every-list")
    measured = () if ticks else ("--no-ticks",)
    return CliRunner().invoke(
        main,
        [
            "plan", "--corpus", f"beir:{beir}", "--quick", "--returned", "3", "--n-max", "5", "--k-max", "2",
            "--out", str(tmp_path / "plan"), *claim, *measured, *more,
        ],
    )  # fmt: skip


def made(beir: Path, tmp_path: Path, *more: str, ticks: bool = False) -> dict[str, Any]:
    done = run(beir, tmp_path, *more, "--json", ticks=ticks)
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


WINDOW = ("--window", "0.55:0.65")
GEOMETRIC = ("--law", "geometric-16")


@pytest.mark.usefixtures("two_scales")
def test_every_epsilon_is_the_auditors_own(beir: Path, tmp_path: Path) -> None:
    found = made(beir, tmp_path, *WINDOW, "--k-max", "1")
    assert {"law", "scale", "window", "K", "n_max", "k_max", "epsilon", "delta", "ndcg10", "recall"} <= set(
        found["frontier"][0]
    )
    laws = {row["law"] for row in found["frontier"]}
    assert laws == {"gaussian-512", "geometric-16"}  # decoys bound nothing here
    assert {row["k_max"] for row in found["frontier"]} == {1, 2}
    for row in found["frontier"][::3]:
        cls = CLASSES[row["class"]]
        report = epsilon_audit(
            cls,
            noise.build_table(cls.law),
            scores=ScorePolicy(gain=row["gain"], lo=row["lo"], hi=row["hi"]),
            k_max=row["k_max"],
            n_max=row["n_max"],
            delta=Fraction(row["delta"]),
        )
        assert row["epsilon"] == report.epsilon
    same = [r for r in found["frontier"] if (r["law"], r["k_max"]) == ("geometric-16", 2)]
    assert same[0]["epsilon"] < same[-1]["epsilon"]
    assert same[0]["ndcg10"] < same[-1]["ndcg10"] <= found["noise_free"]["ndcg10"] + 0.1


def test_the_recommended_policy_is_one_that_commit_accepts(beir: Path, tmp_path: Path) -> None:
    found = made(beir, tmp_path, *WINDOW, "--epsilon", "60", "--law", "geometric-16")
    best = found["recommended"]
    assert found["nearest"] is None
    assert best["epsilon"] <= 60
    cls = TINY
    file = tmp_path / "policy.toml"
    file.write_text(best["policy"])
    policy = load_policy(file, Binding(cls, class_digest(cls), DIMENSION, NOW), assembly.advertised_epsilon)
    assembly.check_promises(policy, cls)

    def epsilon(gain: int) -> float:
        return epsilon_audit(
            cls,
            noise.build_table(cls.law),
            scores=ScorePolicy(gain=gain, lo=policy.lo, hi=policy.hi),
            k_max=policy.k_max,
            n_max=policy.n_max,
            delta=Fraction(policy.delta),
        ).epsilon

    assert epsilon(policy.gain) == best["epsilon"]
    assert epsilon(policy.gain + 1) > 60  # no gain was left unused


def test_of_each_kind_of_noise_the_class_that_proves_fastest() -> None:
    """Fewest rows among those that hold the documents and return so many, of the laws that are allowed."""

    def names(laws: Sequence[str], K: int, documents: int) -> list[tuple[str, bool]]:
        return [(s.cls.name, s.available) for s in shapes.shapes(CLASSES.values(), laws, Sizes([K]), documents)]

    assert names(NOISE_LAWS, 3, 100) == [
        ("noise-tiny-two", True),
        ("noise-tiny-gaussian", True),
    ]
    small = [(f"noise-small-{law}-50", True) for law in ("two", "gaussian")]
    assert names(NOISE_LAWS, 50, 5000) == small
    mini = [("noise-mini-two-10", True), ("noise-small-gaussian-50-k10", False)]
    assert names(NOISE_LAWS, 10, 1000) == mini
    assert names(["geometric-16"], 4, 100) == [("noise-tiny-two-k4", False)]
    made = shapes.shapes(CLASSES.values(), ["gaussian-512"], Sizes([4]), 100)[0].cls
    assert isinstance(made, NoiseClass)
    assert made.overflow_bound_holds()
    with pytest.raises(ConfigurationError, match="fit no class with gaussian-512 noise, the largest holds 32936"):
        shapes.shapes(CLASSES.values(), ["gaussian-512"], Sizes([10]), 40_000)


def test_the_least_gain_of_a_noise_class_is_a_whole_step(beir: Path, tmp_path: Path) -> None:
    found = made(beir, tmp_path, *WINDOW, "--law", "geometric-16", "--epsilon", "0.001")
    assert found["recommended"] is None
    assert found["nearest"]["gain"] == -(-(1 << 11) // (found["nearest"]["hi"] - found["nearest"]["lo"]))
    best = made(beir, tmp_path, *WINDOW, "--law", "geometric-16", "--epsilon", "60")["recommended"]
    assert best["epsilon"] <= 60


DELIVERED = ("--claim", "until-delivered", *WINDOW)


def test_until_delivered_is_the_default_and_its_policy_is_one_that_commit_accepts(beir: Path, tmp_path: Path) -> None:
    found = made(beir, tmp_path, *DELIVERED)
    best = found["recommended"]
    assert (best["claim"], best["law"]) == ("until-delivered", "decoys")
    assert {row["law"] for row in found["frontier"]} == {"decoys"}
    assert best["epsilon"] == best["unseen"] == pytest.approx(math.log(256 / 13))
    assert 5.9 < best["return"] <= 6
    assert best["hidden_share"] == 13 / 256
    cls = CLASSES[best["class"]]
    file = tmp_path / "policy.toml"
    file.write_text(best["policy"])
    binding = Binding(cls, class_digest(cls), DIMENSION, NOW, shards=best["shards"])
    policy = load_policy(file, binding, assembly.advertised_epsilon)
    assembly.check_promises(policy, cls)
    assert (policy.claim, policy.hidden, policy.gate) == ("until-delivered", 13, False)
    promised = delivered_window(policy, cls, ACCOUNTS, Fraction(policy.delta))
    assert (promised.unseen, promised.returned) == (best["unseen"], best["return"])
    default = next(option for option in plan_command.plan.params if option.name == "claim")
    assert default.default == "until-delivered"


def test_what_unseen_return_and_chance_mean_is_said(beir: Path, tmp_path: Path) -> None:
    reasons = made(beir, tmp_path, *DELIVERED)["reasons"]
    text = " ".join(reasons)
    assert "no target was given: return 6 beside unseen 3 is taken" in text
    assert any(reason.startswith("1 document in 20 is not found this period") for reason in reasons)
    assert "any number of queries, may become 95.2 % sure, from even odds, that a document" in text
    assert "no promise about reading: an account that knows what to ask for is handed the document" in text
    assert any(reason.startswith("chance 0: a draw alone hands over no text") for reason in reasons)


def test_under_until_delivered_epsilon_knows_no_accounts_and_no_queries(beir: Path, tmp_path: Path) -> None:
    few = made(beir, tmp_path, *DELIVERED)
    many = made(beir, tmp_path, *DELIVERED, "--n-max", "500", "--k-max", "50")
    assert len(few["frontier"]) == len(many["frontier"]) == 1
    assert few["recommended"]["return"] == many["recommended"]["return"]
    assert few["recommended"]["epsilon"] == many["recommended"]["epsilon"]


def test_a_smaller_unseen_hides_more_and_an_epsilon_beside_it_is_refused(beir: Path, tmp_path: Path) -> None:
    found = made(beir, tmp_path, *DELIVERED, "--unseen", "0.7", "--return", "6")
    assert found["recommended"]["hidden_share"] == pytest.approx(0.5, abs=0.01)
    assert found["recommended"]["ndcg10"] < 0.65
    assert "unseen = 0.7\n" in found["recommended"]["policy"]
    for more, said in (("--epsilon", "is unseen, whatever is answered: give --unseen"), ("--return", "has no return")):
        claim = DELIVERED if more == "--epsilon" else ("--claim", "every-list", *WINDOW)
        refused = run(beir, tmp_path, *claim, more, "2")
        assert refused.exit_code == 2
        assert said in " ".join(refused.output.split())
    reach = made(beir, tmp_path, *DELIVERED, "--unseen", "0.7", "--ndcg", "0.9")
    assert reach["recommended"] is None  # the coin alone takes half
    assert any("what the coin hides included" in reason for reason in reach["reasons"])


def test_both_claims_are_compared_in_one_plan(beir: Path, tmp_path: Path) -> None:
    found = made(
        beir,
        tmp_path,
        "--claim",
        "both",
        *WINDOW,
        "--law",
        "geometric-16",
        "--law",
        "decoys",
        "--epsilon",
        "40",
    )
    assert {row["claim"] for row in found["frontier"]} == {"until-delivered", "every-list"}
    assert found["recommended"]["claim"] == "until-delivered"
    assert any(reason.startswith("under the claim every-list, for 2 accounts of 5") for reason in found["reasons"])
    for row in found["frontier"]:
        assert (row["unseen"] is None) == (row["claim"] == "every-list")
    page = (tmp_path / "plan" / "plan.html").read_text()
    assert "until it is delivered to them: unseen" in page
    assert ">any</td>" in page
    assert "Any number of accounts may become 95.2 % sure, from even odds, that a document" in page
    assert "epsilon 5.9" not in page
    assert "no promise about reading" in page


@pytest.mark.usefixtures("two_scales")
def test_a_target_of_answers_gets_the_least_epsilon(beir: Path, tmp_path: Path) -> None:
    found = made(beir, tmp_path, *WINDOW, "--ndcg", "0.5")
    best = found["recommended"]
    assert best["ndcg10"] > 0.5 - 3 * best["ndcg10_se"]
    better = [row for row in found["frontier"] if row["ndcg10"] >= 0.5 + 3 * row["ndcg10_se"]]
    assert better
    assert all(best["epsilon"] <= row["epsilon"] for row in better)


def test_without_a_target_most_of_the_noise_free_quality_is_sought(beir: Path, tmp_path: Path) -> None:
    found = made(beir, tmp_path, *WINDOW, *GEOMETRIC)
    assert "no target was given: 90% of the noise-free nDCG@10" in " ".join(found["reasons"])
    best = found["recommended"] or found["nearest"]  # as good as any that has a finite epsilon
    assert best["ndcg10"] > 0.7 * found["noise_free"]["ndcg10"]


@pytest.mark.parametrize(
    ("target", "said"),
    [
        (["--ndcg", "1.0"], "nDCG@10 1.000 CANNOT be met: even without noise"),
        (["--epsilon", "0.001"], "epsilon 0.001 CANNOT be met: even the least gain"),
        (["--epsilon", "12", "--ndcg", "0.95"], "epsilon 12 and nDCG@10 0.950 CANNOT be met together"),
    ],
)
def test_what_cannot_be_met_is_said_with_the_nearest(beir: Path, tmp_path: Path, target: list[str], said: str) -> None:
    shown = run(beir, tmp_path, *WINDOW, *target, "--law", "geometric-16")
    assert shown.exit_code == 0
    assert "the target CANNOT be met; the nearest policy:" in shown.output
    found = json.loads((tmp_path / "plan" / "plan.json").read_text())
    assert found["recommended"] is None
    assert any(reason.startswith(said) for reason in found["reasons"]), found["reasons"]
    assert found["nearest"]["epsilon"] > 0


def test_a_window_is_public_or_none_was_chosen(beir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without --public nothing of the corpus chooses a window."""
    known = TrigramEmbedder().identity().digest()
    rows = plan._windows(known, "trigrams", (), False)
    assert [w.cosines for w in rows[0]] == [(0.0, 1.0)]
    assert "needs no choice" in rows[1]
    entry = PublicWindow("trigrams", 0.35, 0.75, "a public corpus")
    monkeypatch.setattr(public_score_ranges, "PUBLIC_WINDOWS", {known.hex(): entry})
    found = made(beir, tmp_path, "--epsilon", "60", "--law", "geometric-16")
    assert {tuple(row["window"]) for row in found["frontier"]} == {(0.35, 0.75), (0.0, 1.0)}
    assert any("chosen on a public corpus" in reason for reason in found["reasons"])
    assert any("tells a little about it" in reason for reason in found["reasons"])
    public = plan._windows(known, "trigrams", (), True)
    assert len(public[0]) > 2
    assert "declares to be public" in public[1]


def test_the_public_window_is_the_one_that_was_measured() -> None:
    """Of the default embedder: its digest is known, and the window is the best of the published calibration."""
    entry = public_score_ranges.public_window(load_embedder().identity().digest())
    assert entry is not None
    results = Path(__file__).parents[2] / "bench" / "results" / "plan-scifact.json"
    measured = json.loads(results.read_text())["calibrate"]
    best = max(measured["mean_share_of_best"], key=measured["mean_share_of_best"].get)
    assert best == f"{entry.lo:g}:{entry.hi:g}"
    for corpus, size in measured["corpora"].items():
        assert f"{size['queries']}" in entry.chosen_on or "docstrings" in corpus
        assert f"{size['documents']:,}" in entry.chosen_on


def test_files_of_a_plan_stand_alone(beir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = made(beir, tmp_path, *WINDOW, "--law", "geometric-16", "--epsilon", "60")
    folder = tmp_path / "plan"
    assert json.loads((folder / "plan.json").read_text()) == found
    assert (folder / "plan.png").read_bytes().startswith(b"\x89PNG")
    page = (folder / "plan.html").read_text()
    assert 'src="data:image/png;base64,' in page
    light, dark = re.search(r'<img [^>]*src="([^"]*)"', page), re.search(r'scheme: dark\)" srcset="([^"]*)"', page)
    assert light is not None
    assert dark is not None
    assert light[1] != dark[1], "a white chart glares on a dark page"
    assert "://" not in page  # nothing from elsewhere
    assert found["recommended"]["policy"].splitlines()[2] in page
    monkeypatch.setattr(planpage, "has_plot", lambda: False)
    (folder / "plan.png").unlink()
    done = run(beir, tmp_path, *WINDOW, "--law", "geometric-16", "--epsilon", "60")
    assert done.exit_code == 0
    assert "pip install 'ragseal[plot]'" in done.output
    assert not (folder / "plan.png").exists()
    assert "ragseal[plot]" in (folder / "plan.html").read_text()


def test_the_shortest_tick_leaves_nine_tenths_of_the_time() -> None:
    for seconds, tenants, tick in (
        (0.1, 1, 60), (6.0, 1, 60), (6.1, 1, 120), (6.0, 2, 120), (61.0, 1, 900), (8640.0, 1, 86400), (8641.0, 1, 0),
    ):  # fmt: skip
        assert tick_costs.shortest_tick(TickCost(seconds, 0.0), tenants) == tick
        assert tick_costs.shortest_tick(TickCost(0.0, seconds), tenants) == tick
    every, said = tick_costs.advice(TINY, TickCost(5000.0, 4000.0), 1)
    assert every == 0
    assert "documents count from the next window on" in said


def test_a_plan_recommends_how_often_an_index_has_a_new_version(beir: Path, tmp_path: Path) -> None:
    found = made(beir, tmp_path, *DELIVERED, "--tenants", "3", ticks=True)
    every = found["version_every"]
    assert every in tick_costs.TICKS
    assert f'version_every = "{every}s"\n' in found["recommended"]["policy"]
    assert any(f"version_every = {every} s is the shortest tick" in one and "3 tenants" in one
               for one in found["reasons"])  # fmt: skip
    policy = tmp_path / "plan" / "policy.toml"
    assert policy.read_text() == found["recommended"]["policy"]
    cls = CLASSES[found["recommended"]["class"]]
    binding = Binding(cls, class_digest(cls), DIMENSION, NOW)
    assert load_policy(policy, binding, assembly.advertised_epsilon).version_every == every


def test_bad_command_lines_are_refused_in_one_line(beir: Path, tmp_path: Path) -> None:
    for more, said in (
        (["--window", "0.8:0.4"], "0 <= lo < hi <= 1"),
        (["--window", "wide"], "0.3:0.7"),
        (["--delta", "0.5e-6"], "--delta"),
        (["--split", "dev"], "dev.tsv"),
        (["--law", "decoys"], "the law decoys bounds nothing under the claim every-list"),
        (["--claim", "until-delivered", "--law", "gaussian-512"], "nothing under the claim until-delivered"),
        (["--returned", "126"], "no class of 126 slots can return 126"),
    ):
        done = run(beir, tmp_path, *more)
        assert done.exit_code == 1, (more, done.output)
        assert said in done.output, done.output
        assert "Traceback" not in done.output


def test_a_corpus_that_fits_no_class(tmp_path: Path) -> None:
    lines = [json.dumps({"id": f"d{i}", "text": f"text {i}"}) for i in range(145)]
    (tmp_path / "many.jsonl").write_text("\n".join(lines) + "\n")
    done = CliRunner().invoke(main, ["plan", "--corpus", f"jsonl:{tmp_path / 'many.jsonl'}", "--quick"])
    assert done.exit_code == 1
    assert "145 documents fit no class" in done.output


# --- workloads -------------------------------------------------------------------------------------------------------


def test_pseudo_queries_come_from_the_documents() -> None:
    long = Document(
        "a", "The first sentence has six words here. The second one has some more words. Short. One more of it."
    )
    short = Document("b", "only one sentence with eight words in it")
    texts, relevant = pseudo_queries([long, short], 10)
    answers = {next(iter(grades)): t for t, grades in zip(texts, relevant, strict=True)}
    assert answers[0] in ("The first sentence has six words here.", "The second one has some more words.")
    assert answers[1] == "only one sentence with"
    assert pseudo_queries([long, short], 1)[1] in (({0: 1},), ({1: 1},))
    assert pseudo_queries([short, long], 10)[0] == texts  # whatever the order of the documents


def test_a_plain_corpus_is_measured_with_pseudo_queries(beir: Path) -> None:
    plain = load_workload(f"jsonl:{beir / 'corpus.jsonl'}", TrigramEmbedder(), most=20)
    assert plain.queries == 20
    assert "pseudo-queries" in plain.source
    own = load_workload(f"beir:{beir}", TrigramEmbedder(), most=20)
    assert "judgements" in own.source
    assert own.scores.shape == (20, 60)


def test_judgements_of_what_is_not_there_are_refused(beir: Path, tmp_path: Path) -> None:
    for name in ("corpus.jsonl", "queries.jsonl"):
        (tmp_path / name).write_text((beir / name).read_text())
    (tmp_path / "qrels").mkdir()
    judged = tmp_path / "qrels" / "test.tsv"
    judged.write_text("query-id\tcorpus-id\tscore\nq1\tmissing\t1\n")
    with pytest.raises(EncodingError, match="'missing' is judged but not in the corpus"):
        load_workload(f"beir:{tmp_path}", TrigramEmbedder())
    judged.write_text("query-id\tcorpus-id\tscore\nq1\td1\t0\n")
    with pytest.raises(ConfigurationError, match="no query has a relevant document"):
        load_workload(f"beir:{tmp_path}", TrigramEmbedder())


def test_kept_embeddings_are_used_and_private(beir: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"

    class Counting(TrigramEmbedder):  # type: ignore[misc]
        calls = 0

        def embed(self, texts: Any, **more: Any) -> Any:
            Counting.calls += 1
            return super().embed(texts, **more)

    first = load_workload(f"beir:{beir}", Counting(), cache=cache)
    calls = Counting.calls
    second = load_workload(f"beir:{beir}", Counting(), cache=cache)
    assert Counting.calls == calls
    assert (first.scores == second.scores).all()
    files = list(cache.iterdir())
    assert len(files) == 2
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in files)
    files[0].write_bytes(b"junk")
    files[1].write_bytes(b"junk")
    with pytest.raises(ConfigurationError, match="damaged"):
        load_workload(f"beir:{beir}", Counting(), cache=cache)

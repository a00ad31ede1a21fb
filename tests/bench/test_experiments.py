# SPDX-License-Identifier: GPL-3.0-or-later
"""The experiments themselves: quick runs, resuming, gates that can fail, and the page."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from bench import figure2a, figure3, figure5, formulas, gates, measured, paper, table2
from bench.experiment import run, save
from ragseal.circuits.circuit import load_classes
from ragseal.kernel.errors import ConfigurationError


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    found = figure2a.experiment(tmp_path_factory.mktemp("figure") / "figure2a.json", 10_000, 4_000, seed=11)
    return list(found["cells"])


@pytest.mark.slow
def test_figure_2a_lies_on_its_prediction(cells: list[dict[str, Any]]) -> None:
    assert len(cells) == 15
    assert sum(abs(c["deviation"]) <= 2 for c in cells) >= 12


@pytest.mark.slow
def test_gates_hold_on_honest_cells(cells: list[dict[str, Any]]) -> None:
    assert gates.slope_gate(cells).holds
    assert gates.tightness_gate(cells).holds


@pytest.mark.slow
def test_slope_gate_fails_where_accounts_share_their_noise(cells: list[dict[str, Any]]) -> None:
    shared = copy.deepcopy(cells)
    for cell in shared:  # k accounts with one noise learn what one account learns
        cell["auc"] = next(
            c["auc"] for c in cells if c["cell"]["epsilon"] == cell["cell"]["epsilon"] and c["cell"]["k"] == 1
        )
    assert not gates.slope_gate(shared).holds


@pytest.mark.slow
def test_tightness_gate_fails_on_too_much_and_on_no_leakage(cells: list[dict[str, Any]]) -> None:
    for auc in (0.5, 0.9):
        wrong = copy.deepcopy(cells)
        for cell in wrong:
            cell["auc"], cell["deviation"] = auc, (auc - cell["predicted"]) / cell["se"]
        assert not gates.tightness_gate(wrong).holds


@pytest.mark.slow
def test_gate_command_ends_with_1_where_a_gate_fails(tmp_path: Path, cells: list[dict[str, Any]]) -> None:
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(json.dumps({"cells": cells}))
    bad.write_text(json.dumps({"cells": [{**c, "auc": 0.5, "deviation": 9.0} for c in cells]}))
    assert CliRunner().invoke(gates.main, ["--figure", str(good)]).exit_code == 0
    assert CliRunner().invoke(gates.main, ["--figure", str(bad)]).exit_code == 1


@pytest.mark.slow
def test_chi_square_tail_against_known_quantiles() -> None:
    for freedom, value, tail in ((1, 3.841459, 0.05), (4, 13.2767, 0.01), (14, 21.06414, 0.1)):
        assert gates.chi_square_tail(value, freedom) == pytest.approx(tail, rel=1e-4)


@pytest.mark.slow
def test_a_stopped_run_goes_on_and_other_settings_start_anew(tmp_path: Path) -> None:
    calls: list[int] = []

    def measure(cell: Any, rng: np.random.Generator) -> dict[str, Any]:
        calls.append(cell["x"])
        if len(calls) == 2:
            raise KeyboardInterrupt
        return {"y": int(rng.integers(1 << 40))}

    out, wanted = tmp_path / "r.json", [{"x": x} for x in range(3)]
    with pytest.raises(KeyboardInterrupt):
        run("r", {"seed": 1}, wanted, measure, out)
    first = run("r", {"seed": 1}, wanted, measure, out)
    assert calls == [0, 1, 1, 2]
    out.write_text(json.dumps({**first, "machine": "another"}))
    again = run("r", {"seed": 1}, list(reversed(wanted)), measure, out)
    assert again["machine"] == "another", "nothing was measured on this one"
    assert {c["cell"]["x"]: c["y"] for c in again["cells"]} == {c["cell"]["x"]: c["y"] for c in first["cells"]}
    run("r", {"seed": 2}, wanted, measure, out)
    assert len(calls) == 7
    out.write_text("{")
    with pytest.raises(ConfigurationError, match="damaged"):
        run("r", {"seed": 1}, wanted, measure, out)


@pytest.mark.slow
def test_external_and_same_tenant_coalitions_differ_by_sampling_only(tmp_path: Path) -> None:
    found = figure5.experiment(tmp_path / "f.json", 400)
    for pair in figure5.pairs(found):
        assert pair["same"]["exact"] == pair["external"]["exact"]
        assert abs(pair["same"]["auc"] - pair["external"]["auc"]) < 5 * pair["same"]["se"]


@pytest.mark.slow
def test_figure_3_separates_what_accounts_see_from_the_score_channel(tmp_path: Path) -> None:
    found = figure3.experiment(tmp_path / "f.json", "synthetic", 600, 500)
    at = {(c["cell"]["surface"], c["cell"]["epsilon"], c["cell"]["k"]): c for c in found["cells"]}
    ids, score, every = (at[surface, 16, 20] for surface in figure3.SURFACES)
    assert score["auc"] > 0.5 + 3 * score["se"]
    assert ids["auc"] < score["auc"]
    assert ids["rivals"] == figure3.SEARCH_EF - 1
    assert every["rivals"] == 599
    assert every["hit_in"] < ids["hit_in"], "noise over every slot hides the slot among more rivals"


@pytest.mark.slow
def test_the_spectrum_of_a_corpus_is_measured() -> None:
    rng = np.random.default_rng(1)
    flat = figure3.spectrum(3 + rng.standard_normal((40_000, 10), dtype=np.float32))
    assert flat["participation"] == pytest.approx(10, rel=0.01), "the mean does not count"
    assert flat["exponent"] == pytest.approx(0, abs=0.05)
    made = figure3.corpus_vectors("synthetic", 10_000, rng, "")
    law = np.arange(1, figure3.DIMENSION + 1) ** -figure3.FALL
    found = figure3.spectrum(made)
    assert found["exponent"] == pytest.approx(-figure3.FALL, abs=0.05)
    assert found["participation"] == pytest.approx(law.sum() ** 2 / np.square(law).sum(), rel=0.2)


@pytest.mark.slow
def test_hnsw_candidates_are_nearly_the_best() -> None:
    made = figure3.corpus_vectors("synthetic", 5_000, np.random.default_rng(2), "")
    found, _ = figure3.candidates(made)
    best = np.argsort(-(made[1:] @ made[0]))[: figure3.SEARCH_EF - 1]
    assert len(np.intersect1d(found, best)) >= 0.9 * len(best)


@pytest.mark.slow
def test_table_2_measures_ours_and_the_naive_circuit() -> None:
    rng = np.random.default_rng(1)
    one, two, decoys, naive = (
        table2.measure(c, rng)
        for c in (
            {"circuit": "noise", "class": "noise-tiny-gaussian", "shards": 1},
            {"circuit": "noise", "class": "noise-tiny-gaussian", "shards": 2},
            {"circuit": "decoys", "class": "decoys-tiny", "shards": 3},
            {"circuit": "naive", "documents": 2},
        )
    )
    for found in (one, decoys, naive):
        assert found["prove_s"] > 0
        assert found["memory_mib"] > 10
    assert two["slots"] == 2 * one["slots"]
    assert two["rows"] == 2 * one["rows"], "each shard is a proof of its own"
    assert [len(found["shard_samples_s"]) for found in (one, two, decoys)] == [1, 2, 3]
    assert naive["rows"] / naive["slots"] > 384, "every document costs its products"


@pytest.mark.slow
def test_table_2_holds_every_size_of_the_paper() -> None:
    """No size is extrapolated: the class and shards that a size is measured with hold so many documents, and no fewer
    shards do."""
    known = load_classes()
    assert table2.SIZES.keys() == table2.PAPER.keys()
    for documents, both in table2.SIZES.items():
        for name, shards in both:
            assert (shards - 1) * known[name].N < documents <= shards * known[name].N
    kept = json.loads((paper.RESULTS / "table2.json").read_text())["cells"]
    proven = {
        (c["cell"]["documents"], c["cell"]["circuit"]): len(c["shard_samples_s"])
        for c in kept
        if "shard_samples_s" in c
    }
    assert proven == {
        (documents, circuit): shards
        for documents, both in table2.SIZES.items()
        for circuit, (_, shards) in zip((table2.NOISE, table2.DECOYS), both, strict=True)
    }


def test_the_papers_lower_bound_is_said_to_fail_where_it_does(tmp_path: Path) -> None:
    found = formulas.experiment(tmp_path / "formulas.json")
    refuted = [(row["k"], row["epsilon"]) for row in found["lower_bound"] if not row["holds"]]
    assert refuted == [(100, 2)]
    assert formulas.report(found).count("**no**") == 1
    for row in found["audited"]:
        assert row["headline"] == pytest.approx(row["paper"], abs=0.005)
        assert row["exact"] < row["renyi_grid"] < row["headline"] < row["renyi_residual"] < row["with_residual"]


def test_a_corpus_or_embedder_of_ones_own_changes_no_kept_result(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[tuple[str, str, Path]] = []

    def experiment(out: Path, corpus: str, size: int, trials: int, embedder: str) -> dict[str, Any]:
        asked.append((corpus, embedder, out))
        return {}

    monkeypatch.setattr(figure3, "experiment", experiment)
    monkeypatch.setattr(figure3, "report", lambda found: "")
    monkeypatch.setattr(figure3, "plot", lambda found, path: None)
    monkeypatch.setattr(paper, "OTHER", tmp_path)
    monkeypatch.setattr(paper, "RESULTS", tmp_path / "kept")
    monkeypatch.setattr(paper, "PAGE", tmp_path / "page")
    for corpus, embedder in (("beir:/data/mine", "minilm"), ("beir:/data/scifact", "words"), ("synthetic", "words")):
        done = CliRunner().invoke(paper.main, ["--only", "figure-3", "--corpus", corpus, "--embedder", embedder])
        assert done.exit_code == 0, done.output
    names = ("figure3-mine", "figure3-scifact", "figure3")
    assert [(one[0], one[1], one[2]) for one in asked] == [
        ("beir:/data/mine", "minilm", tmp_path / f"{names[0]}.json"),
        ("beir:/data/scifact", "words", tmp_path / f"{names[1]}.json"),
        ("synthetic", "words", tmp_path / f"{names[2]}.json"),
    ]


@pytest.mark.slow
def test_the_page_has_a_place_for_every_item_and_no_stale_one() -> None:
    page = paper.PAGE.read_text()
    marked = set(re.findall(r"<!-- begin ([\w-]+) -->", page))
    assert {item.marker for item in paper.ITEMS} | {"gates"} <= marked
    for item in paper.ITEMS:
        results = paper.RESULTS / f"{item.file}.json"
        if results.exists():  # what the page shows is what the results say
            assert item.report(json.loads(results.read_text())) in page
    with pytest.raises(ConfigurationError):
        paper.insert("no markers", "figure-2a", "x")


# Stored figures say what they were measured with, and the page says which of them are of older code.


PAGE = measured.PAGE.read_text(encoding="utf-8")


def test_the_page_is_what_the_results_say() -> None:
    assert measured.page(PAGE, measured.table()) == PAGE


def test_a_change_of_a_source_makes_a_figure_older(tmp_path: Path) -> None:
    source = tmp_path / "law.py"
    source.write_text('def f(x):\n    """One."""\n    raise ValueError("a")\n')
    before = measured.code_digest(["*.py"], tmp_path)
    source.write_text('def f(x):\n    """Two."""  # and a comment\n    raise ValueError("b")\n')
    assert measured.code_digest(["*.py"], tmp_path) == before, "docstrings, comments and error texts change no figure"
    source.write_text("def f(x):\n    return 2 * x\n")
    assert measured.code_digest(["*.py"], tmp_path) != before
    with pytest.raises(LookupError, match=r"no file matches \*\.rs"):
        measured.code_digest(["*.rs"], tmp_path)


def test_a_figure_is_what_the_result_has() -> None:
    result = {
        "a": {"b 1.5/x": 1234.5},
        "list": [{"cell": {"k": 2, "n": 1}, "v": [1, 2, 9]}, {"cell": {"k": 3, "n": 1}, "v": 7}],
        "pairs": [[3, 0], [5, 0], [4, 0]], "own": [{"slots": 9, "v": 0.25}],
    }  # fmt: skip
    for figure, said in (
        ("{a/b 1.5~1x|,.1f} s", "1,234.5 s"),
        ("{list/k=2&n=1/v} of {list/k=3/v|.2f}", "2 of 7.00"),
        ("{pairs/*/0|.1f}, {pairs/1/0}", "4.0, 5"),
        ("{own/slots=9/v|.0%}", "25%"),
    ):
        assert measured.shown(figure, result) == said
    for wrong in ("{a/c}", "{list/k=9/v}", "{nothing}"):
        with pytest.raises(LookupError, match="nothing stands at"):
            measured.shown(wrong, result)


def test_a_result_that_changed_changes_the_page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No figure of the table is written by hand."""
    for path in measured.RESULTS.glob("*.json"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    found = json.loads((tmp_path / "load.json").read_text())
    (tmp_path / "load.json").write_text(json.dumps({**found, "answers_per_s": 7.0}))
    monkeypatch.setattr(measured, "RESULTS", tmp_path)
    assert "| [7 durable answers/s, " in measured.table()
    assert measured.page(PAGE, measured.table()) != PAGE


def test_what_has_changed_since_is_named() -> None:
    now = measured.today("table2")
    assert measured.state(now, now) == "today's"
    assert measured.state({**now, "code": "0" * 16}, now) == "older: code"
    cls = next(iter(now["classes"]))
    changed = {**now, "classes": {**now["classes"], cls: "0" * 16, "of-old": "0" * 16}}
    assert measured.state(changed, now) == f"older: class of-old (gone), class {cls}"


def test_a_stale_row_that_the_page_calls_todays_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    page = tmp_path / "README.md"
    page.write_text(re.sub(r"older: [^|]+", "today's ", PAGE, count=1), encoding="utf-8")
    assert page.read_text(encoding="utf-8") != PAGE
    monkeypatch.setattr(measured, "PAGE", page)
    monkeypatch.setattr("sys.argv", ["measured", "--check"])
    with pytest.raises(SystemExit, match="which figures are of older code"):
        measured.main()


def test_every_result_is_stamped_when_it_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(measured, "RESULTS", tmp_path)
    save(tmp_path / "claims.json", {"points": []})
    kept = json.loads((tmp_path / "claims.json").read_text())["measured"]
    assert kept == measured.today("claims")
    with pytest.raises(LookupError, match=r"bench/measured\.toml does not say what new\.json depends on"):
        save(tmp_path / "new.json", {"points": []})
    assert not (tmp_path / "new.json").exists()


def test_a_result_without_a_stamp_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for path in measured.RESULTS.glob("*.json"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    found = json.loads((tmp_path / "claims.json").read_text())
    del found["measured"]
    (tmp_path / "claims.json").write_text(json.dumps(found))
    monkeypatch.setattr(measured, "RESULTS", tmp_path)
    with pytest.raises(LookupError, match=r"claims\.json does not say what it was measured with"):
        measured.table()
    (tmp_path / "claims.json").unlink()
    with pytest.raises(LookupError, match=r"names what is not in bench/results: claims"):
        measured.table()

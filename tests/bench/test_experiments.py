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

from bench import figure2a, figure3, figure5, gates, reproduce, table2
from bench.experiment import run
from ragseal.kernel.errors import ConfigurationError

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    found = figure2a.experiment(tmp_path_factory.mktemp("figure") / "figure2a.json", 10_000, 4_000, seed=11)
    return list(found["cells"])


def test_figure_2a_lies_on_its_prediction(cells: list[dict[str, Any]]) -> None:
    assert len(cells) == 15
    assert sum(abs(c["deviation"]) <= 2 for c in cells) >= 12


def test_gates_hold_on_honest_cells(cells: list[dict[str, Any]]) -> None:
    assert gates.slope_gate(cells).holds
    assert gates.tightness_gate(cells).holds


def test_slope_gate_fails_where_accounts_share_their_noise(cells: list[dict[str, Any]]) -> None:
    shared = copy.deepcopy(cells)
    for cell in shared:  # k accounts with one noise learn what one account learns
        cell["auc"] = next(
            c["auc"] for c in cells if c["cell"]["epsilon"] == cell["cell"]["epsilon"] and c["cell"]["k"] == 1
        )
    assert not gates.slope_gate(shared).holds


def test_tightness_gate_fails_on_too_much_and_on_no_leakage(cells: list[dict[str, Any]]) -> None:
    for auc in (0.5, 0.9):
        wrong = copy.deepcopy(cells)
        for cell in wrong:
            cell["auc"], cell["deviation"] = auc, (auc - cell["predicted"]) / cell["se"]
        assert not gates.tightness_gate(wrong).holds


def test_gate_command_ends_with_1_where_a_gate_fails(tmp_path: Path, cells: list[dict[str, Any]]) -> None:
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(json.dumps({"cells": cells}))
    bad.write_text(json.dumps({"cells": [{**c, "auc": 0.5, "deviation": 9.0} for c in cells]}))
    assert CliRunner().invoke(gates.main, ["--figure", str(good)]).exit_code == 0
    assert CliRunner().invoke(gates.main, ["--figure", str(bad)]).exit_code == 1


def test_chi_square_tail_against_known_quantiles() -> None:
    for freedom, value, tail in ((1, 3.841459, 0.05), (4, 13.2767, 0.01), (14, 21.06414, 0.1)):
        assert gates.chi_square_tail(value, freedom) == pytest.approx(tail, rel=1e-4)


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


def test_external_and_same_tenant_coalitions_differ_by_sampling_only(tmp_path: Path) -> None:
    found = figure5.experiment(tmp_path / "f.json", 400)
    for pair in figure5.pairs(found):
        assert pair["same"]["exact"] == pair["external"]["exact"]
        assert abs(pair["same"]["auc"] - pair["external"]["auc"]) < 5 * pair["same"]["se"]


def test_figure_3_separates_what_accounts_see_from_the_score_channel(tmp_path: Path) -> None:
    found = figure3.experiment(tmp_path / "f.json", "synthetic", 600, 500)
    at = {(c["cell"]["surface"], c["cell"]["epsilon"], c["cell"]["k"]): c for c in found["cells"]}
    ids, score, every = (at[surface, 16, 20] for surface in figure3.SURFACES)
    assert score["auc"] > 0.5 + 3 * score["se"]
    assert ids["auc"] < score["auc"]
    assert ids["rivals"] == figure3.SEARCH_EF - 1
    assert every["rivals"] == 599
    assert every["hit_in"] < ids["hit_in"], "noise over every slot hides the slot among more rivals"


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


def test_hnsw_candidates_are_nearly_the_best() -> None:
    made = figure3.corpus_vectors("synthetic", 5_000, np.random.default_rng(2), "")
    found, _ = figure3.candidates(made)
    best = np.argsort(-(made[1:] @ made[0]))[: figure3.SEARCH_EF - 1]
    assert len(np.intersect1d(found, best)) >= 0.9 * len(best)


def test_table_2_measures_ours_and_the_naive_circuit() -> None:
    rng = np.random.default_rng(1)
    one, two, naive = (
        table2.measure(c, rng)
        for c in (
            {"circuit": "ours", "class": "noise-tiny-two", "shards": 1},
            {"circuit": "ours", "class": "noise-tiny-two", "shards": 2},
            {"circuit": "naive", "slots": 2},
        )
    )
    for found in (one, naive):
        assert found["domain"] > found["rows"]
        assert found["prove_s"] > 0
        assert found["key_bytes"] > 64 * found["rows"]
    assert two["slots"] == 2 * one["slots"]
    assert two["rows"] == 2 * one["rows"], "each shard is a proof of its own"
    assert len(two["shard_samples_s"]) == 2
    assert naive["rows"] / naive["slots"] > 384, "every document costs its products"


def test_the_page_has_a_place_for_every_item_and_no_stale_one() -> None:
    page = reproduce.PAGE.read_text()
    marked = set(re.findall(r"<!-- begin ([\w-]+) -->", page))
    assert {item.marker for item in reproduce.ITEMS} | {"gates"} <= marked
    for item in reproduce.ITEMS:
        results = reproduce.RESULTS / f"{item.file}.json"
        if results.exists():  # what the page shows is what the results say
            assert item.report(json.loads(results.read_text())) in page
    with pytest.raises(ConfigurationError):
        reproduce.insert("no markers", "figure-2a", "x")

# SPDX-License-Identifier: GPL-3.0-or-later
"""``python -m bench.apps`` at its smallest: every way of asking brings documents, figures are those of the samples."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench import apps

pytestmark = pytest.mark.slow


def test_figures_are_those_of_the_samples() -> None:
    bare, wrapped = [[0.01, 0.004], [0.03, 0.006], [0.02, 0.005]], [[0.021, 0.007], [0.025, 0.008], [0.029, 0.009]]
    found = apps.figures({apps.BARE: bare, "LangChain": wrapped})
    assert found[apps.BARE] == {"answers_per_s": 50.0, "median_ms": 20.0, "cpu_ms": 5.0, "added_cpu_ms": 0.0}
    assert found["LangChain"] == {"answers_per_s": 40.0, "median_ms": 25.0, "cpu_ms": 8.0, "added_cpu_ms": 3.0}


def test_every_way_is_measured(tmp_path: Path) -> None:
    """With the frameworks, so where `make test-extras` runs."""
    for module in ("langchain_core", "llama_index.core", "haystack", "openai", "uvicorn", "mcp"):
        pytest.importorskip(module)
    done = CliRunner().invoke(apps.main, ["--quick", "--out", str(tmp_path)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    found = json.loads((tmp_path / "apps.json").read_text())
    assert (found["quick"], found["missing"]) == (True, {})
    assert list(found["ways"]) == list(apps.WAYS)
    assert {len(taken) for taken in found["samples_s"].values()} == {4}
    assert found["ways"] == apps.figures(found["samples_s"])


def test_the_readme_shows_the_results() -> None:
    found = json.loads((apps.RESULTS / "apps.json").read_text())
    page = (apps.RESULTS.parent / "experiments.md").read_text().partition("### The gateway and the adapters")[2]
    page = page.partition("###")[0]
    assert f"(load {found['machine']['load_average'][0]:.1f} on two cores)" in page
    assert (found["quick"], found["busy"], "The machine was busy" in page) == (False, True, True)
    for way, one in found["ways"].items():
        assert f"| {way} | {one['answers_per_s']} | {one['median_ms']:.0f} ms | {one['cpu_ms']:.1f} ms |" in page

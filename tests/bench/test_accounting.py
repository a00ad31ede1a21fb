# SPDX-License-Identifier: GPL-3.0-or-later
"""The epsilon tables: what is printed is what was computed, and one cell of it is computed again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench import accounting
from bench.experiment import ROOT

pytestmark = pytest.mark.slow

FOUND: dict[str, Any] = json.loads((ROOT / "bench" / "results" / "accounting.json").read_text())


def test_the_readme_shows_the_results() -> None:
    shown = (ROOT / "bench" / "experiments.md").read_text()
    rows = [line for line in accounting.report(FOUND).splitlines() if line.startswith("| ")]
    section = shown[shown.index("## Epsilon") :]
    section = section[: section.index("\n## ", 5)]
    printed = [line for line in section.splitlines() if line.startswith("| ")]
    assert printed
    assert set(printed) <= set(rows)
    assert sum(" / " in line for line in printed) == 2 * len(accounting.MUS)


def test_one_cell_again() -> None:
    cell = {"N": 5183, "K": 10, "mu": 0.5, "n": 10}
    stored = next(c for c in FOUND["cells"] if c["cell"] == cell)
    again = accounting.measure(cell, np.random.default_rng(0))
    assert again["epsilon"] == pytest.approx(stored["epsilon"], rel=1e-7)
    assert again["attack"] == pytest.approx(stored["attack"], rel=1e-7)
    assert again["accountant"] == stored["accountant"]


def test_every_cell_is_consistent_and_near_what_was_published() -> None:
    assert len(FOUND["cells"]) == len(accounting.SHAPES) * len(accounting.MUS) * len(accounting.NS)
    for cell in FOUND["cells"]:
        whole, ordered, released, attack = accounting._four(cell)
        assert attack <= released <= ordered * (1 + 1e-3)
        assert ordered <= whole
        if released < float("inf"):
            published = [float(x) for x in cell["published"].split(" / ")]
            assert (whole, ordered) == pytest.approx(published[:2], rel=0.012, abs=0.06)
            assert released == pytest.approx(published[2], rel=0.04, abs=0.06)


def test_plot(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    accounting.plot(FOUND, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")

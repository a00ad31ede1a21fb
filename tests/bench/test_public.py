# SPDX-License-Identifier: GPL-3.0-or-later
"""``python -m bench.public`` at a small size: real proofs read by Node, a real observer, figures from the samples."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench import public
from ragseal.kernel.errors import ConfigurationError
from tests.web.published import NODE

pytestmark = [pytest.mark.slow, pytest.mark.skipif(NODE is None, reason="Node.js is not installed")]


def test_figures_are_those_of_the_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    async def entries(log: public.Growing, start: int, count: int) -> list[bytes]:
        part = log._entries[start : start + count]
        read.append(len(part))
        return part

    monkeypatch.setattr(public.Growing, "entries", entries)
    small = ["--records", "2", "--few", "1", "--entries", "3000"]
    done = CliRunner().invoke(public.main, [*small, "--out", str(tmp_path)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    found = json.loads((tmp_path / "public.json").read_text())
    assert isinstance(found["busy"], bool)
    assert found["machine"]["cores"]
    browser, observer = found["browser"], found["observer"]
    one, two = browser["samples"]
    assert (one["records"], two["records"]) == (1, 2)
    assert browser["record_seconds"] == round(two["seconds"] - one["seconds"], 4)
    assert browser["window_of_1000_measured"] is False
    assert set(browser["holds"]) == {"record_within_0.2_s", "1000_records_within_180_s"}
    assert (observer["entries"], observer["look_at_new_entries"]) == (3000, 1000)
    assert set(observer["state_files"]) >= {"note", "frontier", "json"}
    assert observer["state_bytes"] == sum(observer["state_files"].values()) < 10_000, "it does not grow with the log"
    assert sum(read) == 3000, "each entry is read once"
    for look in ("first_look_seconds", "look_at_new_seconds", "look_at_nothing_seconds"):
        assert observer[look] > 0  # which of them is longest is the machine's affair: others use it too


def test_a_window_that_does_not_hold_is_not_timed(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="does not hold in Node"):
        public.checked(tmp_path, "log+00000000+AAAA", 1)
    wrong = CliRunner().invoke(public.main, ["--records", "2", "--few", "2"])
    assert (wrong.exit_code, "--few is smaller" in wrong.output) == (2, True)


def test_the_readme_shows_the_results() -> None:
    found = json.loads((public.RESULTS / "public.json").read_text())
    page = (
        (public.ROOT / "bench" / "experiments.md")
        .read_text()
        .partition("### Checking in public")[2]
        .partition("###")[0]
    )
    browser, observer = found["browser"], found["observer"]
    for said in (
        f"(load {found['machine']['load_average'][0]:.1f} on two cores)",
        f"| {browser['record_seconds']:.2f} s | {browser['record_cpu_seconds']:.2f} s |",
        f"| {browser['window_of_1000_seconds']:.0f} s | |",
        f"| {observer['first_look_seconds']:.1f} s | |",
        f"After {observer['entries']:,} entries the observer keeps {observer['state_bytes']} bytes",
    ):
        assert said in page, said
    assert found["busy"]
    assert "The machine was busy" in page

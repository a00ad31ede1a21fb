# SPDX-License-Identifier: GPL-3.0-or-later
"""report.html in a real Chromium: readable by everybody, on a phone, in the dark, by keyboard and on paper.

Skipped, with the reason, where Chromium, Node.js or the packages playwright-core and axe-core are not installed; these
are looked for in web/verify/node_modules, or where RAGSEAL_BROWSER_MODULES says.
"""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ragseal.verifier.report import document, page
from ragseal.verifier.steps.sample import Sample
from tests.simulator import World, asked

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = Path(__file__).with_name("report_in_browser.mjs")
MODULES = Path(os.environ.get("RAGSEAL_BROWSER_MODULES", ROOT / "web" / "verify" / "node_modules"))
CHROMIUM = os.environ.get("RAGSEAL_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
HOSTILE = "<img src=x onerror=alert(1)>" + "wide" * 60


def missing() -> str:
    """What is not installed; empty if nothing is missing."""
    if CHROMIUM is None:
        return "Chromium is not installed"
    if shutil.which("node") is None:
        return "Node.js is not installed"
    lacks = [name for name in ("playwright-core", "axe-core") if not (MODULES / name).is_dir()]
    return f"{' and '.join(lacks)} not in {MODULES.name} of {MODULES.parent.name}" if lacks else ""


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a browser shows of a PASS of each tone, a sample, a FAIL, a NO VERDICT, and of hostile names."""
    if why := missing():
        pytest.skip(why)
    folder = tmp_path_factory.mktemp("reports")
    world = World.honest()
    honest = document.build(world.audit(receipts=world.receipts()))
    weak = copy.deepcopy(honest)
    weak["epsilon_audit"] = weak["epsilon"]["epsilon_audit"] = 85.77
    hostile = copy.deepcopy(honest)
    hostile["window"] = hostile["origin"] = HOSTILE
    away = World.honest()
    away.messages.pop()
    made = {
        "pass": honest,
        "weak": weak,
        "sampled": document.build(World.honest().audit(sample=Sample(2))),
        "fail": document.build(asked(sign_as="mallory").audit()),
        "undecided": document.build(away.audit()),
        "hostile": hostile,
    }
    assert CHROMIUM is not None
    command = ["node", str(SCRIPT), str(MODULES), CHROMIUM]
    for name, values in made.items():
        (folder / f"{name}.html").write_text(page.render(values), "utf-8")
        command.append(str(folder / f"{name}.html"))
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    return {Path(path).stem: value for path, value in json.loads(done.stdout).items()}


def test_a_screen_reader_finds_its_way(seen: dict[str, Any]) -> None:
    """axe-core's rules, names, roles, order of headings and contrast among them, light and dark, narrow and wide."""
    found = {
        (name, look["colorScheme"], look["width"]): look["violations"]
        for name, one in seen.items() for look in one["looks"]
    }  # fmt: skip
    assert {key: value for key, value in found.items() if value} == {}
    assert len(found) == 24


def test_nothing_is_wider_than_the_page(seen: dict[str, Any]) -> None:
    for name, one in seen.items():
        for look in one["looks"]:
            assert look["wide"] <= 0, (name, look["width"])


def test_it_asks_for_nothing_and_runs_nothing(seen: dict[str, Any]) -> None:
    for name, one in seen.items():
        for look in one["looks"]:
            assert look["asked"] == [], name
            assert look["said"] == [], name


def test_the_keyboard_is_enough(seen: dict[str, Any]) -> None:
    """Every step of the checklist is reached, can be seen to be, and opens."""
    for name, one in seen.items():
        stops = one["walk"]["seen"]
        assert sum(stop["tag"] == "summary" for stop in stops) >= 1, name
        assert all(stop["outline"] for stop in stops), name
        assert one["walk"]["opened"] == 1, name
        assert one["walk"]["jumped"] in (True, None)
    assert seen["pass"]["walk"]["jumped"] is True


def test_verdict_claim_and_limits_are_on_the_first_sheet(seen: dict[str, Any]) -> None:
    for name in ("pass", "weak", "sampled"):
        ends, sheet = seen[name]["print"]["ends"], seen[name]["print"]["sheet"]
        assert ends[".verdict"] < ends[".claimed"] < ends[".plain"] < ends[".limits"] <= sheet, (name, ends)
    failed = seen["fail"]["print"]["ends"]
    assert (failed[".claimed"], failed[".limits"]) == (None, None)


def test_paper_has_what_is_folded_away_on_the_screen(seen: dict[str, Any]) -> None:
    for name, one in seen.items():
        assert one["print"]["hidden"] == 0, name
        assert one["print"]["bytes"] > 10_000

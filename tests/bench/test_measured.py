# SPDX-License-Identifier: GPL-3.0-or-later
"""Stored figures say what they were measured with, and the page says which of them are of older code."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from bench import measured
from bench.experiment import save

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


def test_what_has_changed_since_is_named() -> None:
    now = measured.today("table2")
    assert measured.state(now, now) == "today's"
    assert measured.state({**now, "code": "0" * 16}, now) == "older: code"
    changed = {**now, "classes": {**now["classes"], "large": "0" * 16, "of-old": "0" * 16}}
    assert measured.state(changed, now) == "older: class of-old (gone), class large"


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

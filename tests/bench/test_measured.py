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

# SPDX-License-Identifier: GPL-3.0-or-later
"""What the demo deletes: its own earlier run, and nothing else, whatever --out says."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from ragseal.demo import __main__ as program
from ragseal.demo.folder import MARKER, claim
from ragseal.kernel.errors import ConfigurationError


def held(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_folder_of_its_own_is_emptied(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "demo"
    claim(folder)
    assert held(folder) == {MARKER}
    (folder / "sub").mkdir()
    (folder / "sub" / "file").write_text("x")
    (folder / "report.json").write_text("x")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("x")
    (folder / "link").symlink_to(outside)
    claim(folder)
    assert held(folder) == {MARKER}
    assert held(outside) == {"kept"}
    (tmp_path / "empty").mkdir()
    claim(tmp_path / "empty")
    assert held(tmp_path / "empty") == {MARKER}


@pytest.mark.parametrize("mark", [None, "another program's", "link"])
def test_nobody_elses_folder_is_touched(tmp_path: Path, mark: str | None) -> None:
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "thesis.tex").write_text("years of work")
    if mark == "link":
        claim(tmp_path / "demo")
        (folder / MARKER).symlink_to(tmp_path / "demo" / MARKER)
    elif mark is not None:
        (folder / MARKER).write_text(mark)
    before = held(folder)
    with pytest.raises(ConfigurationError, match="files that the demo did not make"):
        claim(folder)
    assert held(folder) == before
    (tmp_path / "way").symlink_to(folder)
    with pytest.raises(ConfigurationError, match="a link or a file"):
        claim(tmp_path / "way")
    with pytest.raises(ConfigurationError, match="a link or a file"):
        claim(folder / "thesis.tex")
    assert held(folder) == before


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--corpus", "pdf:[bold]x[/]"], "unknown corpus 'pdf:[bold]x[/]'"),
        (["--corpus", "beir:/nowhere/[x]"], "/nowhere/[x]"),
        (["--class", "[huge]"], "'[huge]'"),
        (["--embedder", "[red]"], "unknown embedder '[red]'"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], text: str
) -> None:
    """Also: square brackets come through, they are no markup."""
    folder = tmp_path / "demo"
    claim(folder)
    (folder / "report.json").write_text("an hour's work")
    said: list[str] = []
    monkeypatch.setattr(program.out, "file", type("File", (), {"write": said.append, "flush": lambda _: None})())
    done = CliRunner().invoke(program.main, [*arguments, "--out", str(folder)])
    assert done.exit_code == 1
    assert text in "".join(said), said
    assert held(folder) == {MARKER, "report.json"}


def test_the_command_refuses_a_foreign_folder(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("x")
    assert CliRunner().invoke(program.main, ["--out", str(tmp_path)]).exit_code == 1
    assert held(tmp_path) == {"kept"}

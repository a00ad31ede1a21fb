# SPDX-License-Identifier: GPL-3.0-or-later
"""A set-up that was broken off repairs itself: what is only half there is made again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from scripts import setup

pytestmark = pytest.mark.slow
NPM = """#!/bin/sh
echo called >> ../calls
mkdir -p node_modules/circom2
[ ! -e ../killed ] || kill -9 $$
touch node_modules/.package-lock.json
"""


def test_packages_that_npm_did_not_finish_are_installed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup, "ROOT", tmp_path)
    npm, folder, calls = tmp_path / "npm", tmp_path / "circuits", tmp_path / "calls"
    npm.write_text(NPM)
    npm.chmod(0o755)
    folder.mkdir()
    (folder / "package.json").write_text("{}")
    environment = setup.Environment.__new__(setup.Environment)
    environment.folder = tmp_path / "venv"

    def install() -> int:
        setup.install_packages(environment, "circom", folder, str(npm), "circom")
        return len(calls.read_text().splitlines())

    assert [install(), install()] == [1, 1]
    shutil.rmtree(folder / "node_modules")
    (tmp_path / "killed").touch()
    with pytest.raises(SystemExit, match="circom failed"):
        install()
    assert (folder / "node_modules").is_dir()
    (tmp_path / "killed").unlink()
    assert [install(), install()] == [3, 3]
    (folder / "node_modules" / ".package-lock.json").unlink()  # by hand, and killed
    assert [install(), install()] == [4, 4]


def test_an_environment_without_pip_is_completed(tmp_path: Path) -> None:
    folder = tmp_path / "venv"
    setup.Environment(folder)
    assert (folder / "bin" / "pip").exists()
    shutil.rmtree(next((folder / "lib").iterdir()) / "site-packages" / "pip")
    (folder / "bin" / "pip").unlink()
    environment = setup.Environment(folder)
    setup.run([*environment.pip[:3], "--version"], "pip")

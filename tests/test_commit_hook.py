# SPDX-License-Identifier: GPL-3.0-or-later
"""The commit-msg hook, as `make setup` installs it, in a repository of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from scripts import setup
from scripts.commit_msg import faults

ROOT = Path(__file__).resolve().parent.parent
SIGNED = "\n\nSigned-off-by: Some Body <somebody@example.org>\n"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "commit_msg.py", tmp_path / "scripts")
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    for name, value in (
        ("user.name", "Some Body"),
        ("user.email", "somebody@example.org"),
        ("commit.gpgsign", "false"),
    ):
        subprocess.run(["git", "config", name, value], cwd=tmp_path, check=True)
    return tmp_path


def commit(root: Path, *arguments: str) -> str:
    """What git says; empty if it commits."""
    command = ["git", "commit", "--allow-empty", "--quiet", *arguments]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
    assert (done.returncode == 0) == (done.stderr == ""), done.stderr
    return done.stderr


def test_the_hook_refuses_and_lets_through(repository: Path) -> None:
    setup.install_hook(repository)
    assert commit(repository, "-s", "-m", "A second seal is refused") == ""
    assert "not signed off: git commit -s" in commit(repository, "-m", "A second seal is refused")
    refused = commit(repository, "-s", "-m", "fix: " + 70 * "x" + ".")
    assert "76 characters: at most 72" in refused
    assert "prefix 'fix:'" in refused
    assert "full stop" in refused
    kept = repository / refused.rsplit(" ", 1)[1].strip()
    assert kept.read_text().startswith("fix: xxx")
    kept.write_text("What was mended" + SIGNED)
    assert commit(repository, "-F", str(kept)) == ""
    log = subprocess.run(["git", "log", "--format=%s"], cwd=repository, capture_output=True, text=True, check=True)
    assert log.stdout.splitlines() == ["What was mended", "A second seal is refused"]


def test_a_merge_needs_nothing(repository: Path) -> None:
    setup.install_hook(repository)
    commit(repository, "-s", "-m", "One")
    for command in (["switch", "--quiet", "-c", "other"], ["commit", "--allow-empty", "-qsm", "Two"],
                    ["switch", "--quiet", "-"], ["merge", "--quiet", "--no-ff", "--no-edit", "other"]):  # fmt: skip
        subprocess.run(["git", *command], cwd=repository, check=True, capture_output=True)


def test_another_hook_is_left_alone(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hook = repository / ".git" / "hooks" / "commit-msg"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 0\n")
    setup.install_hook(repository)
    assert hook.read_text() == "#!/bin/sh\nexit 0\n"
    assert "another hook: it may call scripts/commit_msg.py FILE itself" in capsys.readouterr().out
    hook.unlink()
    hook.symlink_to(repository / "nowhere")  # of a manager of hooks whose program is gone
    setup.install_hook(repository)
    assert hook.is_symlink()
    hook.unlink()
    setup.install_hook(repository)
    setup.install_hook(repository)
    assert hook.read_text() == setup.HOOK
    assert os.access(hook, os.X_OK)
    assert capsys.readouterr().out == ""


def test_a_checkout_before_the_hook_commits_as_before(repository: Path) -> None:
    setup.install_hook(repository)
    (repository / "scripts" / "commit_msg.py").unlink()
    assert commit(repository, "-m", "any: thing.") == ""


def test_a_tree_without_git_has_no_hook(tmp_path: Path) -> None:
    setup.install_hook(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "message",
    ["x" * 72, "An epsilon of 0.5: it is refused", "A reason\n\nIn a body: of two lines.\nHere.", "Merge branch 'a.b'.",
     "# a comment\nA subject\n\n# Please enter\n# ------------------------ >8 ------------------------\ndiff: x."],
)  # fmt: skip
def test_what_is_right(message: str) -> None:
    assert not list(
        faults(message.replace("\n\n# Please", SIGNED + "# Please") if "Please" in message else message + SIGNED)
    )


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        ("x" * 73 + SIGNED, "73 characters"),
        ("feat(core)!: more" + SIGNED, "prefix 'feat(core)!:'"),
        ("Fix: more" + SIGNED, "prefix 'Fix:'"),
        ("[docs] more" + SIGNED, r"prefix '[docs]'"),
        ("It ends." + SIGNED, "full stop"),
        ("One line\nand a second" + SIGNED, "not empty"),
        ("A subject", "not signed off"),
        ("A subject\n\n# Signed-off-by: Some Body <somebody@example.org>\n", "not signed off"),
        ("A subject\n\nSigned-off-by: nobody\n", "not signed off"),
    ],
)
def test_what_is_wrong(message: str, fault: str) -> None:
    (found,) = faults(message)
    assert fault in found

# SPDX-License-Identifier: GPL-3.0-or-later
"""`make release` in a scratch repository: one commit in which everything agrees, or a refusal that changes nothing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from scripts import release
from scripts.build_backend import tracked

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parent.parent
DAY = date(2031, 2, 3)
NOTES = "**Compatibility:** everything is read.\n\n### Fixed\n\n- A seam.\n"
NEXT = "1000.0.0"


def git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True).stdout


def commit(root: Path) -> None:
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "A change")


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is tracked here, with something unreleased, as a repository of its own."""
    root = tmp_path_factory.mktemp("release") / "tree"
    for name in tracked(ROOT):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, root / name, follow_symlinks=False)
    changelog = root / "CHANGELOG.md"
    before, mark, rest = changelog.read_text().partition(release.UNRELEASED)
    changelog.write_text(f"{before}{mark}\n{NOTES}\n## [{rest.partition('## [')[2]}")
    git(root, "init", "--quiet")
    for name, value in (("user.name", "Somebody"), ("user.email", "somebody@example.org"), ("commit.gpgsign", "false")):
        git(root, "config", name, value)
    commit(root)
    return root


@pytest.fixture
def tree(first: Path) -> Path:
    git(first, "reset", "--quiet", "--hard", git(first, "rev-list", "--max-parents=0", "HEAD").strip())
    git(first, "clean", "--quiet", "-fd")
    return first


def built(root: Path) -> None:
    """Wheel and source distribution of the tree by its own build backend, both of the new version."""
    made = root / "dist"  # which git ignores
    made.mkdir()
    code = "import build_backend as b; b.build_wheel('dist'); b.build_sdist('dist')"
    env = {**os.environ, "PYTHONPATH": str(root / "scripts")}
    done = subprocess.run([sys.executable, "-c", code], cwd=root, env=env, capture_output=True, text=True)
    if done.returncode:
        raise release.Refused(done.stderr)
    with zipfile.ZipFile(made / f"ragseal-{NEXT}-py3-none-any.whl") as wheel:
        assert f'__version__ = "{NEXT}"' in wheel.read("ragseal/__init__.py").decode()
    with tarfile.open(made / f"ragseal-{NEXT}.tar.gz") as archive:
        changelog = archive.extractfile(f"ragseal-{NEXT}/CHANGELOG.md")
        assert changelog is not None
        assert f"## [{NEXT}] - 2031-02-03" in changelog.read().decode()
    shutil.rmtree(made)
    shutil.rmtree(root / "build")
    shutil.rmtree(root / "ragseal.egg-info")


def test_a_release_is_one_commit_in_which_everything_agrees(tree: Path) -> None:
    before = git(tree, "rev-parse", "HEAD").strip()
    old = (tree / "CHANGELOG.md").read_text()
    made = release.release(tree, NEXT, DAY, built)
    assert git(tree, "rev-parse", "HEAD", "HEAD^").split() == [made, before]
    assert git(tree, "status", "--porcelain") == ""
    message = git(tree, "show", "--no-patch", "--format=%B", "HEAD")
    assert re.fullmatch(rf"Release {NEXT}\n\nSigned-off-by: Somebody <somebody@example.org>\s*", message)
    assert set(release.versions(tree)) == {NEXT}
    assert f"version: {NEXT}\ndate-released: 2031-02-03\n" in (tree / "CITATION.cff").read_text()
    listed = subprocess.run(
        "LC_ALL=C sha256sum *.json | sha256sum", shell=True, cwd=tree / "vectors", capture_output=True
    )
    digest = listed.stdout.decode().split()[0]
    changelog = (tree / "CHANGELOG.md").read_text()
    section = f"## [Unreleased]\n\n## [{NEXT}] - 2031-02-03\n\n{NOTES}\n**Vectors:** SHA-256 `{digest}` "
    assert section in changelog
    assert changelog.endswith(old.partition(NOTES)[2].lstrip("\n"))
    with pytest.raises(release.Refused, match="Unreleased has no entry"):
        release.release(tree, "1000.0.1", DAY, built)


def _written(name: str, old: str, new: str) -> Callable[[Path], None]:
    """A commit in which ``new`` stands for ``old``."""

    def change(root: Path) -> None:
        text = (root / name).read_text()
        assert old in text
        (root / name).write_text(text.replace(old, new, 1))
        commit(root)

    return change


def _vector(root: Path) -> None:
    _written("vectors/commitments.json", '"expected"', '"claimed"')(root)


def _dirty(root: Path) -> None:
    (root / "README.md").write_text("")


def _untracked(root: Path) -> None:
    (root / "kernel" / "more.py").write_text("")


def _tagged(root: Path) -> None:
    git(root, "tag", f"v{NEXT}")


CURRENT = next(iter(release.versions(ROOT)))
REFUSALS: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "a change": (_dirty, NEXT, "the tree has changes"),
    "a file that git does not know": (_untracked, NEXT, "the tree has changes"),
    "another version": (_written("CITATION.cff", f"version: {CURRENT}", "version: 0.0.9"), NEXT, "0.0.9: CITATION.cff"),
    "another version of the web": (
        _written("web/verify/package.json", f'"version": "{CURRENT}"', '"version": "0.0.9"'), NEXT, "0.0.9: web/verify",
    ),
    "the same version": (lambda root: None, CURRENT, "is not later than"),
    "a version of two numbers": (lambda root: None, "1000.1", "is no version"),
    "a number with a zero before it": (lambda root: None, "1000.01.0", "is no version"),
    "a tag": (_tagged, NEXT, "is tagged"),
    "no entry": (_written("CHANGELOG.md", "- A seam.\n", ""), NEXT, "Unreleased has no entry"),
    "nothing on compatibility": (_written("CHANGELOG.md", "**Compat", "Compat"), NEXT, "no paragraph"),
    "no section": (_written("CHANGELOG.md", "## [Unreleased]", "## Unreleased"), NEXT, "has no section"),
    "a vector": (_vector, NEXT, r"[a-z]+/[a-z-]*: differs"),
}  # fmt: skip


@pytest.mark.parametrize("fault", REFUSALS)
def test_what_does_not_agree_is_refused(tree: Path, fault: str) -> None:
    change, version, said = REFUSALS[fault]
    change(tree)
    before = git(tree, "rev-parse", "HEAD"), git(tree, "status", "--porcelain"), git(tree, "diff")
    try:
        with pytest.raises(release.Refused, match=said):
            release.release(tree, version, DAY, lambda root: pytest.fail("it was built"))
    finally:
        subprocess.run(["git", "tag", "--delete", f"v{NEXT}"], cwd=tree, capture_output=True)
    assert (git(tree, "rev-parse", "HEAD"), git(tree, "status", "--porcelain"), git(tree, "diff")) == before


def test_a_package_that_fails_leaves_the_tree_as_it_was(tree: Path) -> None:
    """A part that is no Python: building is refused, or what is built does not work."""
    _written("pyproject.toml", 'name = "ragseal"', 'name = "rag seal!"')(tree)
    before = git(tree, "rev-parse", "HEAD")
    with pytest.raises(release.Refused, match="name"):
        release.release(tree, NEXT, DAY, built)
    assert git(tree, "rev-parse", "HEAD") == before
    assert git(tree, "status", "--porcelain") == ""


def test_a_hook_that_refuses_leaves_the_tree_as_it_was(tree: Path) -> None:
    hook = tree / ".git" / "hooks" / "commit-msg"
    hook.write_text("#!/bin/sh\necho not today\nexit 1\n")
    hook.chmod(0o755)
    before = git(tree, "rev-parse", "HEAD")
    try:
        with pytest.raises(release.Refused, match="not today"):
            release.release(tree, NEXT, DAY, lambda root: None)
    finally:
        hook.unlink()
    assert git(tree, "rev-parse", "HEAD") == before
    assert git(tree, "status", "--porcelain") == ""


def test_every_place_with_this_version_is_known() -> None:
    """A file of versions that a release would leave behind."""
    known = {name for name, _ in release.PLACES} | {"CHANGELOG.md"}
    suffixes = (".toml", ".json", ".yaml", ".cff", ".py")
    elsewhere = ("bench/results/", "tests/fuzz/", "ragseal/")
    names = [n for n in tracked(ROOT) if n.endswith(suffixes) and not n.startswith(elsewhere)]
    names = [
        n for n in names if not n.endswith("package-lock.json") and (ROOT / n).is_file()
    ]  # full of others' versions
    stating = re.compile(rf'(?im)^\s*"?_*(?:app)?version_*"?\s*[:=]\s*"?{re.escape(CURRENT)}"?,?$')
    found = {name for name in names if stating.search((ROOT / name).read_text())}
    assert len(found) >= 4
    assert found <= known, found - known

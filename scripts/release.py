# SPDX-License-Identifier: GPL-3.0-or-later
"""One commit that is a release: ``make release VERSION=X.Y.Z``.

Refuses a tree with changes, a version that is not a later one or is tagged, places that state different versions, an
Unreleased section that is empty or does not speak of compatibility, and vectors that the generator does not write.
Then it writes the version everywhere, moves Unreleased under it with the date and the digest of the vectors, builds
wheel and source distribution, tries both (scripts/package_smoke.py), and commits.  After a failure the tree is as it
was.  It does not tag, since the key is its owner's: it prints the command.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

#: Where a version stands, and the text around it; each is found exactly once.
PLACES = (
    ("ragseal/__init__.py", r'(?m)^__version__ = "(.*)"$'),
    ("native/Cargo.toml", r'\[package\]\n(?:.+\n)*?version = "(.*)"\n'),
    ("native/Cargo.lock", r'name = "ragseal-native"\nversion = "(.*)"\n'),
    ("CITATION.cff", r"(?m)^version: (.*)$"),
    ("deploy/helm/ragseal/Chart.yaml", r"(?m)^version: (.*)$"),
    ("deploy/helm/ragseal/Chart.yaml", r'(?m)^appVersion: "(.*)"$'),
    ("deploy/helm/ragseal/values.yaml", r'(?m)^image:\n(?:  .*\n)*?  tag: "(.*)"$'),
    ("web/verify/package.json", r'\A\{\n  "name": "@ragseal/verify",\n  "version": "(.*)",\n'),
    ("web/verify/package-lock.json", r'\A\{\n  "name": "@ragseal/verify",\n  "version": "(.*)",\n'),
    ("web/verify/package-lock.json", r'    "": \{\n      "name": "@ragseal/verify",\n      "version": "(.*)",\n'),
)
RELEASED = ("CITATION.cff", r"(?m)^date-released: (.*)$")  #: the day of the release
CHANGELOG = "CHANGELOG.md"
UNRELEASED = "## [Unreleased]\n"


class Refused(Exception):
    """What does not agree, and how to go on."""


def _replaced(root: Path, name: str, pattern: str, value: str | None) -> str:
    """What stands in a place; with ``value``, that is written there."""
    path = root / name
    text = path.read_text()
    found = list(re.finditer(pattern, text))
    if len(found) != 1:
        raise Refused(f"{name}: {pattern!r} is there {len(found)} times: mend PLACES in scripts/release.py")
    if value is not None:
        start, end = found[0].span(1)
        path.write_text(text[:start] + value + text[end:])
    return found[0][1]


def versions(root: Path) -> dict[str, set[str]]:
    """The versions that a tree states -> the files that state them."""
    stated: dict[str, set[str]] = {}
    for name, pattern in PLACES:
        stated.setdefault(_replaced(root, name, pattern, None), set()).add(name)
    return stated


def vectors_digest(root: Path) -> str:
    """SHA-256 of what ``sha256sum *.json`` prints in vectors/, its names in the order of bytes."""
    files = sorted((root / "vectors").glob("*.json"))
    lines = (f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def cut(text: str, version: str, day: date, digest: str) -> str:
    """The changelog with Unreleased moved under ``version``."""
    head, found, rest = text.partition(UNRELEASED)
    if not found:
        raise Refused(f"{CHANGELOG} has no section {UNRELEASED.strip()!r}")
    own, mark, older = rest.partition("\n## [")
    if not re.search(r"(?m)^- ", own):
        raise Refused(f"{CHANGELOG}: Unreleased has no entry: there is nothing to release")
    if "**Compatibility:**" not in own:
        raise Refused(
            f"{CHANGELOG}: Unreleased has no paragraph **Compatibility:**: say whether this release reads the folders, "
            "logs and messages of the release before it"
        )
    vectors = f"**Vectors:** SHA-256 `{digest}` (vectors/README.md says of what)."
    return f"{head}{UNRELEASED}\n## [{version}] - {day.isoformat()}\n\n{own.strip()}\n\n{vectors}\n{mark}{older}"


def _numbers(version: str) -> tuple[int, ...]:
    if not re.fullmatch(r"(?:0|[1-9]\d*)(?:\.(?:0|[1-9]\d*)){2}", version):
        raise Refused(f"{version!r} is no version: X.Y.Z")
    return tuple(map(int, version.split(".")))


def _run(root: Path, *command: str) -> str:
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    if done.returncode:
        raise Refused(f"{' '.join(command)} ended with {done.returncode}:\n{(done.stdout + done.stderr)[-4000:]}")
    return done.stdout


def check(root: Path, version: str) -> None:
    """Raises Refused: what this release would say does not agree."""
    new = _numbers(version)
    changed = _run(root, "git", "status", "--porcelain")
    if changed:
        raise Refused(f"the tree has changes: commit or stash them\n{changed}")
    stated = versions(root)
    if len(stated) > 1:
        lines = (f"{one}: {', '.join(sorted(names))}" for one, names in sorted(stated.items()))
        raise Refused("the tree states different versions:\n" + "\n".join(lines))
    (old,) = stated
    if new <= _numbers(old):
        raise Refused(f"{version} is not later than {old}")
    if _run(root, "git", "tag", "--list", f"v{version}"):
        raise Refused(f"v{version} is tagged: a release is made once")
    _run(root, sys.executable, "vectors/generate.py", "--check")


def smoke(root: Path) -> None:
    """Wheel and source distribution of the tree, built and tried in clean environments."""
    for command in (
        ["scripts/setup.py"],
        ["scripts/package_smoke.py"],
    ):  # set-up builds the native module of this version
        done = subprocess.run([sys.executable, *command], cwd=root)
        if done.returncode:
            raise Refused(f"{command[0]} ended with {done.returncode}")


def release(root: Path, version: str, day: date, smoke: Callable[[Path], None] = smoke) -> str:
    """Commits the release of ``version``.  Returns the commit's name.

    Raises:
        Refused: what does not agree, or what ``smoke`` says; the tree is as before.
    """
    check(root, version)
    changelog = root / CHANGELOG
    text = cut(changelog.read_text(), version, day, vectors_digest(root))
    names = sorted({CHANGELOG, RELEASED[0], *(name for name, _ in PLACES)})
    try:
        changelog.write_text(text)
        for name, pattern in PLACES:
            _replaced(root, name, pattern, version)
        _replaced(root, *RELEASED, day.isoformat())
        smoke(root)
        _run(root, "git", "commit", "--quiet", "--signoff", "--message", f"Release {version}", "--", *names)
    except BaseException:
        _run(root, "git", "checkout", "--quiet", "HEAD", "--", *names)
        raise
    return _run(root, "git", "rev-parse", "HEAD").strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version", help="X.Y.Z, later than the one that the tree states")
    version = parser.parse_args().version
    try:
        commit = release(ROOT, version, datetime.now(UTC).date())
    except Refused as refused:
        sys.exit(f"release: {refused}")
    print(f"release: {version} is commit {commit}")
    print("release: its owner signs and publishes it:")
    print(f'  git tag --sign v{version} --message "ragseal {version}" {commit}')
    print(f"  git push origin HEAD v{version}")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes vectors/*.json; ``--check`` says whether they are what would be written.  See vectors/README.md.

Nothing here is random, so two runs write the same bytes.  The epsilons and tables of a second implementation, in
source/accounting.json, are copied: they are floats, which the tests compare within 1e-7.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from vectors.source import book, groups, ledger, mechanism, messages, phases, shards, window  # noqa: E402


def made() -> dict[Path, str]:
    """Text of every file that this program writes, by its path below vectors/."""
    all_ = book.Book()
    for part in (messages, groups, mechanism, phases, shards, ledger, window):
        part.add(all_)
    return {Path(f"{name}.json"): text for name, text in all_.files().items()}


def differences(files: dict[Path, str]) -> list[str]:
    """The cases that are missing, too many or different on disk, and files that nothing makes."""
    there = {path.relative_to(HERE) for path in HERE.rglob("*.json") if HERE / "source" not in path.parents}
    out = [f"{path}: nothing makes it" for path in sorted(there - files.keys())]
    for path, text in files.items():
        old = (HERE / path).read_text() if path in there else ""
        if old != text:
            before, after = _cases(old), _cases(text)
            names = sorted(before.keys() | after.keys())
            changed = [f"{name}: differs" for name in names if before.get(name) != after.get(name)]
            out += changed or [f"{path}: is written in another form"]
    return out


def _cases(text: str) -> dict[str, Any]:
    try:
        return {case["name"]: case for case in json.loads(text)["cases"]}
    except (ValueError, TypeError, KeyError):
        return {}  # not a file of cases: each of them is missing


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if anything would change")
    check = parser.parse_args().check
    files = made()
    found = differences(files)
    if check:
        if found:
            print("\n".join(found[:20]))
            sys.exit(f"vectors: {len(found)} differ; run: python vectors/generate.py")
        return
    for path in HERE.rglob("*.json"):
        if HERE / "source" not in path.parents and path.relative_to(HERE) not in files:
            path.unlink()
    for name, text in files.items():
        (HERE / name).write_text(text)
    cases = sum(len(_cases(text)) for text in files.values())
    print(f"vectors: {cases} cases in {len(files)} files, {len(found)} of them changed")


if __name__ == "__main__":
    main()

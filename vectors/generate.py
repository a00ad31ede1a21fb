# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes vectors/<noun>/*.json; ``--check`` says whether they are what would be written.  See vectors/README.md.

Nothing here is random, so two runs write the same bytes.  What accounting/ holds besides refusals is not written: its
numbers are floats of a second implementation, which the tests compare within 1e-7.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from vectors.source import book, groups, ledger, mechanism, messages, phases, shards, window  # noqa: E402

BY_HAND = ("accounting/epsilon-", "accounting/table-")


def made() -> dict[Path, str]:
    """Text of every vector that this program writes, by its path below vectors/."""
    all_ = book.Book()
    for part in (messages, groups, mechanism, phases, shards, ledger, window):
        part.add(all_)
    return all_.files()


def differences(files: dict[Path, str]) -> list[str]:
    """What is missing, too many or different on disk."""
    there = {path.relative_to(HERE) for path in HERE.rglob("*.json")}
    there = {path for path in there if not path.as_posix().startswith(BY_HAND)}
    out = [f"{path}: missing" for path in sorted(files.keys() - there)]
    out += [f"{path}: nothing makes it" for path in sorted(there - files.keys())]
    changed = (path for path in sorted(files.keys() & there) if (HERE / path).read_text() != files[path])
    return out + [f"{path}: differs" for path in changed]


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
    for line in found:
        path = HERE / line.split(":")[0]
        if line.endswith("nothing makes it"):
            path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(files[path.relative_to(HERE)])
    print(f"vectors: {len(files)} files, {len(found)} of them changed")


if __name__ == "__main__":
    main()

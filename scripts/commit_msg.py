# SPDX-License-Identifier: GPL-3.0-or-later
"""The commit-msg hook: what CONTRIBUTING.md says about a message.  `make setup` installs it.

    python3 scripts/commit_msg.py FILE     status 1 if the message breaks a rule

Only the Python standard library is needed to run this file.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

LONGEST = 72  #: characters of a subject
SCISSORS = re.compile(r"(?m)^# -+ >8 -+\n(?s:.*)")
PREFIX = re.compile(r"\[[^\]]*\]|[\w-]+(?:\([^)]*\))?!?:(?=\s)")
SIGNED = re.compile(r"(?m)^Signed-off-by: \S.* <\S+@\S+>$")


def faults(message: str) -> Iterator[str]:
    """What is wrong with a message, and how to mend it."""
    text = "".join(line for line in SCISSORS.sub("", message).splitlines(True) if not line.startswith("#")).strip()
    subject, *rest = text.split("\n")
    if subject.startswith("Merge "):
        return  # git wrote it
    if len(subject) > LONGEST:
        yield f"the subject has {len(subject)} characters: at most {LONGEST}, and the reason in the body"
    if found := PREFIX.match(subject):
        yield f"the subject has the prefix {found[0]!r}: say what is true afterwards, without one"
    if subject.endswith("."):
        yield "the subject ends with a full stop: leave it out"
    if rest and rest[0].strip():
        yield "the line after the subject is not empty: the body begins after an empty line"
    if not SIGNED.search(text):
        yield "it is not signed off: git commit -s"


def main() -> None:
    path = Path(sys.argv[1])
    found = list(faults(path.read_text()))
    if found:
        lines = "\n".join(f"commit-msg: {fault}" for fault in found)
        sys.exit(f"{lines}\ncommit-msg: the message is kept: git commit -s -e -F {path}")


if __name__ == "__main__":
    main()
